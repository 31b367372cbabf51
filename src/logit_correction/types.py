"""The few types that every layer speaks: batches, what is known of the data, steps and stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.correlation import Correlation
from logit_correction.errors import InputError

#: The attribute of a row of which nothing is known; such a row is not corrected.
UNKNOWN = -1

#: Rows that a view is given at a time.
CHUNK = 512

#: A batch of inputs: images (B, C, H, W), feature vectors (B, F), or a dict of (B, T) token tensors.
Inputs: TypeAlias = Tensor | dict[str, Tensor]

#: Builds a fresh network with freshly drawn weights each time it is called.
NetworkFactory: TypeAlias = Callable[[], nn.Module]


@dataclass
class Batch:
    """The rows that one training step sees.

    Attributes:
        inputs: Images (B, C, H, W), features (B, F), or a dict of (B, T) token tensors.
        label: (B,) long, 0..L-1.
        index: (B,) long, the row of the training table, 0..N-1.
    """

    inputs: Inputs
    label: Tensor
    index: Tensor


@dataclass(frozen=True)
class DataInfo:
    """What a method may know of its data before training: sizes and names.

    Attributes:
        num_labels: L, the number of labels.
        num_rows: N, the number of training rows.
        input_shape: Shape of one input, such as (3, 28, 28).
        num_attributes: K, the number of attribute values; L where nothing is known.
        label_names: L names, in the order of the label numbers.
        attribute_names: K names.
        correlation: Which labels have which attribute values in the majority, where the data source knows.
        tokens: Whether the inputs are texts: dicts of token tensors, each of ``input_shape``.
        augmented: Whether training images are changed at random each time they are seen.
        words: Whether the inputs are texts as vectors of counted words.
        input_names: Of a table, each input's column and the name that it tells, if it is one of a name.
    """

    num_labels: int
    num_rows: int
    input_shape: tuple[int, ...]
    num_attributes: int = 0
    label_names: tuple[str, ...] = ()
    attribute_names: tuple[str, ...] = ()
    correlation: Correlation | None = None
    tokens: bool = False
    augmented: bool = False
    words: bool = False
    input_names: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.num_attributes == 0:
            object.__setattr__(self, "num_attributes", self.num_labels)
        if not self.label_names:
            object.__setattr__(self, "label_names", tuple(str(i) for i in range(self.num_labels)))
        if not self.attribute_names:
            object.__setattr__(self, "attribute_names", tuple(str(i) for i in range(self.num_attributes)))

    def chosen_correlation(self, choice: str) -> Correlation:
        """Return the correlation to go by: ``one-to-one``, or with ``known`` the data source's."""
        if choice == "one-to-one":
            return Correlation.one_to_one(self.num_labels)
        if self.correlation is None:
            raise InputError("correlation=known needs a data source that knows its correlation: take one-to-one")
        return self.correlation


def _nothing(given: object) -> None:
    """Return nothing; a function of the module, so that what holds it can be pickled."""


def _chosen(form: Callable[[Tensor], Any], rows: Tensor, part: Tensor) -> Any:
    """Return some of the chosen rows in a form; a function of the module likewise."""
    return form(rows[part])


@dataclass(frozen=True)
class ViewInputs:
    """N rows in every form in which they can be looked at; never a label, and never an attribute.

    Attributes:
        num_rows: N.
        inputs: Rows (B,) long, 0..N-1 -> the inputs as the network takes them.
        images: Rows (B,) long -> unsigned bytes (B, C, H, W), or None where the inputs are no images.
        texts: N texts, or None.
        columns: Of a table of features, name -> (N,) numbers (NaN where missing) or names ("" where missing).
        files: N files that the rows were read from, or None.
        position: (N,) where each row stands in the file or folder that it came from.
    """

    num_rows: int
    inputs: Callable[[Tensor], Inputs]
    images: Callable[[Tensor], Tensor | None] = _nothing
    texts: Sequence[str] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    files: Sequence[Path] | None = None
    position: NDArray[np.int64] | None = None

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of the images; None where there are none."""
        images = self.images(torch.zeros(min(1, self.num_rows), dtype=torch.long))
        if images is None:
            return None
        channels, height, width = images.shape[1:]
        return channels, height, width

    def take(self, rows: Tensor) -> ViewInputs:
        """Return some of the rows (n,) long as rows of their own."""
        chosen = rows.tolist()
        return ViewInputs(
            num_rows=len(rows),
            inputs=partial(_chosen, self.inputs, rows),
            images=partial(_chosen, self.images, rows),
            texts=None if self.texts is None else [self.texts[row] for row in chosen],
            columns={name: values[rows.numpy()] for name, values in self.columns.items()},
            files=None if self.files is None else [self.files[row] for row in chosen],
            position=None if self.position is None else self.position[rows.numpy()],
        )

    def chunks(self) -> Sequence[Tensor]:
        """The rows in order, in parts small enough to be looked at together."""
        return torch.arange(self.num_rows).split(CHUNK)


@dataclass(frozen=True)
class TrainingRows:
    """What a method may look at once, before training begins or resumes: all N training rows.

    Attributes:
        label: (N,) long, 0..L-1, in the order of ``Batch.index``.
        attribute: (N,) long, 0..K-1; None unless the method declares ``needs_attributes``.
        view_inputs: The rows in every form that a view can look at; None where a loop of your own gives none.
        names: N names for people, such as files; None where rows are only numbered.
        numbers: (N,) long, the number of each row in the whole data set; by default 0..N-1.
        lines: (N,) long, the line of a CSV in which each row stands, the header being line 1; by default numbers + 2.
        epochs: Epochs that the user asked for; 0 where a loop of your own does not tell.
        held_out: The validation rows, without attributes unless the method declares ``needs_valid_attributes``; None
            where a loop of your own gives none.
        report: Called with what is being done, so that long work shows progress.
    """

    label: Tensor
    attribute: Tensor | None = None
    view_inputs: ViewInputs | None = None
    names: Sequence[str] | None = None
    numbers: Tensor | None = None
    lines: Tensor | None = None
    epochs: int = 0
    held_out: TrainingRows | None = None
    report: Callable[[str], None] = _nothing


@dataclass
class Step:
    """What a method returns for one batch.

    Attributes:
        loss: 0-d tensor to call ``backward`` on; the sum over all networks of the method.
        logs: Detached 0-d tensors to record, such as ``loss_robust``.
    """

    loss: Tensor
    logs: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Stage:
    """What a method asks of the loop for one stage of its training; plain data, kept in checkpoints.

    Attributes:
        epochs: Length of the stage, 0 leaves it out; None takes the epochs that the user asked for.
        sample_weight: (N,) how often each training row is seen. Integers: each row exactly so many times an
            epoch. Floats: N rows are drawn with replacement in proportion. None: each row once.
        learning_rate: Learning rate of the stage; None keeps the one that the user asked for.
        step_rows: Rows of a batch, at most twice those that the user asked for; None keeps those.
    """

    epochs: int | None = None
    sample_weight: Tensor | None = None
    learning_rate: float | None = None
    step_rows: int | None = None

    def batch_size(self, asked: int, processes: int = 1) -> int:
        """Return the rows of a batch where the user asked for so many, divisible by the number of processes."""
        if self.step_rows is None:
            return asked
        return max(1, min(self.step_rows, 2 * asked) // processes) * processes


def as_array(values: Any) -> NDArray[Any]:
    """Return a tensor, a sparse matrix, or what NumPy takes, as an array; half precision as single."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        half = values.is_floating_point() and values.dtype.itemsize < 4
        return np.asarray((values.float() if half else values).numpy())  # NumPy knows no bfloat16
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
