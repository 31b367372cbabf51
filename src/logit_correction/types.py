"""The types that all layers exchange: batches, the correlation, sizes and names of the data, steps and stages."""

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

from logit_correction.errors import InputError
from logit_correction.functional import count_groups

#: The attribute of a row whose attribute is unknown; such a row is not corrected.
UNKNOWN_ATTRIBUTE = -1

#: Rows whose features a view computes at a time.
ROWS_PER_CHUNK = 512

#: A NumPy array of any dtype.
Array: TypeAlias = NDArray[Any]

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


class Correlation:
    """A spurious correlation between labels and attributes: which labels have which attributes in most rows.

    It turns the class probabilities of a biased network into probabilities of attributes (eq. 11, 12), and determines
    which groups are bias-conflicting. It covers the paper's four kinds of correlation (section 4.2), and needs no
    attribute labels of rows.

    Args:
        weights: (L, K) numbers, 0 or more: entry (y, a) is P(a | y) among the bias-aligned rows. Each row sums to 1.

    Raises:
        InputError: The weights are not such a table.

    Attributes:
        weights: (L, K) float64 on the CPU.
        num_labels: L.
        num_attributes: K.

    >>> brown_zeros_and_ones = Correlation.from_table([[0], [0], [1]])
    >>> brown_zeros_and_ones.kind
    'many-to-one'
    >>> brown_zeros_and_ones.posterior(torch.tensor([[0.5, 0.25, 0.25]]))
    tensor([[0.7500, 0.2500]])
    """

    def __init__(self, weights: Tensor | Sequence[Sequence[float]]) -> None:
        table = torch.as_tensor(weights, dtype=torch.float64, device="cpu").detach().clone()
        rows_sum_to_1 = table.dim() == 2 and bool(((table.sum(dim=1) - 1).abs() < 1e-6).all())
        if not rows_sum_to_1 or 0 in table.shape or bool((table < 0).any()):
            raise InputError(
                "Correlation weights need the shape (labels, attribute values), and rows of numbers of 0 or more that "
                f"sum to 1, not {table.tolist()}."
            )
        self.weights = table
        self.num_labels, self.num_attributes = table.shape
        self._is_identity = torch.equal(table, torch.eye(len(table), dtype=table.dtype))
        self._weights_on: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    @classmethod
    def one_to_one(cls, num_labels: int) -> Correlation:
        """Return the correlation in which label j has attribute value j."""
        return cls(torch.eye(num_labels, dtype=torch.float64))

    @classmethod
    def from_table(
        cls, table: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], num_attributes: int | None = None
    ) -> Correlation:
        """Return the correlation of a table that lists the attribute values of each label; all have equal weights.

        Args:
            table: One row for each of the labels 0..L-1, as a mapping or in order.
            num_attributes: K; the greatest listed value plus one if left out.

        Raises:
            InputError: It is not such a table.

        >>> Correlation.from_table([[0, 1], [2]]).weights
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
        """
        try:
            rows = [list(table[label]) for label in range(len(table))]
            size = 1 + max(max(row) for row in rows) if num_attributes is None else num_attributes
            weights = torch.zeros(len(rows), size, dtype=torch.float64)
            for label, row in enumerate(rows):
                weights[label, [value for value in row if value >= 0]] = 1.0 / len(row)
            return cls(weights)  # refuses negative and repeated values, whose weights do not add up
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, RuntimeError) as error:
            raise InputError(
                f"A correlation lists the attribute values of each label, such as [[0, 1], [2]], not {table!r}."
            ) from error

    @classmethod
    def from_majority_attribute(
        cls, label: Tensor, attribute: Tensor, num_labels: int, num_attributes: int
    ) -> Correlation:
        """Return the correlation in which each label has the attribute value that most of its rows have.

        Args:
            label: (N,) long, 0..L-1.
            attribute: (N,) long, 0..K-1, or -1 where unknown: such rows are left out.
            num_labels: L.
            num_attributes: K.
        """
        counts = count_groups(label, attribute, num_labels, num_attributes)
        return cls.from_table(counts.argmax(dim=1, keepdim=True).tolist(), num_attributes)

    @property
    def kind(self) -> str:
        """One of "one-to-one", "many-to-one", "one-to-many", "many-to-many" (labels to attribute values)."""
        labels, values = ("many" if bool(((self.weights > 0).sum(dim) > 1).any()) else "one" for dim in (0, 1))
        return f"{labels}-to-{values}"

    def posterior(self, class_probs: Tensor) -> Tensor:
        """Return P(a | x) from a biased network's class probabilities (eq. 11, 12).

        Args:
            class_probs: (B, L), rows sum to 1.

        Returns:
            (B, K), rows sum to 1. For the one-to-one correlation the class probabilities themselves, not a copy.
        """
        if self._is_identity:
            return class_probs
        weights = self._get_weights(class_probs.device, class_probs.dtype)
        if len(class_probs) * weights.numel() > 2**18:  # from here on, what takes less memory is faster too
            with torch.autocast(class_probs.device.type, enabled=False):  # it would round a matrix product
                return class_probs @ weights
        return (class_probs.unsqueeze(2) * weights).sum(dim=1)

    def is_minority(self, label: Tensor, attribute: Tensor) -> Tensor:
        """Return which rows are bias-conflicting: their label does not have their attribute in the correlation.

        Args:
            label: (B,) long, 0..L-1.
            attribute: (B,) long, 0..K-1, or -1 where unknown: such a row does not conflict.

        Returns:
            (B,) bool.
        """
        is_aligned = self._get_weights(label.device, torch.bool)[label, attribute]
        return ~is_aligned & (attribute >= 0)

    def minority_groups(self, device: torch.device | str = "cpu") -> Tensor:
        """Return which groups (y, a) are bias-conflicting, (L, K) bool."""
        return ~self._get_weights(torch.device(device), torch.bool)

    def to_table(self) -> list[list[int]]:
        """Return the attribute values of each label, in order, without their weights."""
        return [row.nonzero().flatten().tolist() for row in self.weights > 0]

    def _get_weights(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the weights (as bool: which are positive) on a device, copied there once."""
        if (device, dtype) not in self._weights_on:
            self._weights_on[device, dtype] = self.weights.to(device=device, dtype=dtype)
        return self._weights_on[device, dtype]

    def __eq__(self, other: object) -> bool:
        return torch.equal(self.weights, other.weights) if isinstance(other, Correlation) else NotImplemented

    def __repr__(self) -> str:
        return f"Correlation({self.weights.tolist()})"


@dataclass(frozen=True)
class DataInfo:
    """Sizes and names of the data, which a method gets before training.

    Attributes:
        num_labels: L, the number of labels.
        num_rows: N, the number of training rows.
        input_shape: Shape of one input, such as (3, 28, 28).
        num_attributes: K, the number of attribute values; L by default.
        label_names: L names, in the order of the label numbers.
        attribute_names: K names.
        correlation: Which labels have which attribute values in most rows; None if the data source has none.
        tokens: Whether the inputs are texts: dicts of token tensors, each of ``input_shape``.
        augmented: Whether training images are changed at random each time they are read.
        words: Whether the inputs are texts as vectors of counted words.
        input_names: Of a table, one pair for each input: its column, and of a column of names the name that the input
            stands for.
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
        num_attributes = self.num_attributes or self.num_labels
        vars(self).update(
            num_attributes=num_attributes,
            label_names=self.label_names or tuple(map(str, range(self.num_labels))),
            attribute_names=self.attribute_names or tuple(map(str, range(num_attributes))),
        )

    def get_correlation(self, choice: str) -> Correlation:
        """Return the correlation that an option names.

        Args:
            choice: "one-to-one", or "known" for that of the data source.

        Raises:
            InputError: The data source has none.
        """
        if choice == "one-to-one":
            return Correlation.one_to_one(self.num_labels)
        if self.correlation is None:
            raise InputError("correlation=known needs a data source with a correlation: take one-to-one")
        return self.correlation


def _do_nothing(argument: object) -> None:
    """Do nothing; a function of the module, so that objects that hold it can be pickled."""


def _read_selected_rows(read: Callable[[Tensor], Any], rows: Tensor, part: Tensor) -> Any:
    """Return what ``read`` gives for a part of the rows; a function of the module for the same reason."""
    return read(rows[part])


@dataclass(frozen=True)
class ViewInputs:
    """N rows in every form from which views compute features: never their labels, and never their attributes.

    Attributes:
        num_rows: N.
        inputs: Function from rows (B,) long, 0..N-1, to the inputs as the network takes them.
        images: Function from rows (B,) long to unsigned bytes (B, C, H, W), or to None unless the inputs are images.
        texts: N texts, or None.
        columns: Of a table of features, name -> (N,) numbers (NaN where missing) or names ("" where missing).
        files: N files that the rows were read from, or None.
        position: (N,) number of each row in the file or folder that it came from, or None.
    """

    num_rows: int
    inputs: Callable[[Tensor], Inputs]
    images: Callable[[Tensor], Tensor | None] = _do_nothing
    texts: Sequence[str] | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    files: Sequence[Path] | None = None
    position: NDArray[np.int64] | None = None

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of the images; None for other inputs."""
        images = self.images(torch.zeros(min(1, self.num_rows), dtype=torch.long))
        if images is None:
            return None
        channels, height, width = images.shape[1:]
        return channels, height, width

    def take(self, rows: Tensor) -> ViewInputs:
        """Return some of the rows, by their numbers (n,) long, as ``ViewInputs`` of n rows."""

        def select(values: Sequence[Any] | None) -> list[Any] | None:
            return None if values is None else [values[row] for row in rows.tolist()]

        return ViewInputs(
            num_rows=len(rows),
            inputs=partial(_read_selected_rows, self.inputs, rows),
            images=partial(_read_selected_rows, self.images, rows),
            texts=select(self.texts),
            columns={name: values[rows.numpy()] for name, values in self.columns.items()},
            files=select(self.files),
            position=None if self.position is None else self.position[rows.numpy()],
        )

    def split_row_numbers(self) -> Sequence[Tensor]:
        """Return the numbers of all rows in order, in chunks of 512."""
        return torch.arange(self.num_rows).split(ROWS_PER_CHUNK)


@dataclass(frozen=True)
class TrainingRows:
    """All N training rows, which a method gets once, before training begins or resumes.

    Attributes:
        label: (N,) long, 0..L-1, in the order of ``Batch.index``.
        attribute: (N,) long, 0..K-1; None unless the method declares ``needs_attributes``.
        view_inputs: The rows in the forms that views need; None if a loop of your own leaves it out.
        names: N names for people, such as files; None if rows are only numbered.
        numbers: (N,) long, the number of each row in the whole data set; by default 0..N-1.
        lines: (N,) long, the line of a CSV in which each row stands, the header being line 1; by default numbers + 2.
        epochs: Epochs that the user asked for; 0 if a loop of your own leaves it out.
        held_out: The validation rows, without attributes unless the method declares ``needs_valid_attributes``; None if
            a loop of your own leaves them out.
        report: Called with a description of the present work, so that long work shows progress.
        num_table_rows: Number of rows of the whole data set; None if unknown.
        unit: (N,) long, equal for rows that belong together, as of one patient: a network that has learned one of them
            knows the others. None if rows are independent.
    """

    label: Tensor
    attribute: Tensor | None = None
    view_inputs: ViewInputs | None = None
    names: Sequence[str] | None = None
    numbers: Tensor | None = None
    lines: Tensor | None = None
    epochs: int = 0
    held_out: TrainingRows | None = None
    report: Callable[[str], None] = _do_nothing
    num_table_rows: int | None = None
    unit: Tensor | None = None


@dataclass
class Step:
    """What a method returns for one batch.

    Attributes:
        loss: 0-d tensor to call ``backward`` on: the sum of the losses of all networks of the method.
        logs: Detached 0-d tensors to record next to the loss, such as ``loss_robust``.
    """

    loss: Tensor
    logs: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Stage:
    """Settings of one stage of a method's training, for the training loop; plain data, saved in checkpoints.

    Attributes:
        epochs: Length of the stage. 0 leaves it out; None takes the number that the user asked for.
        sample_weight: (N,) how often each training row is drawn. Integers: each row exactly so many times an
            epoch. Floats: N rows are drawn with replacement in proportion. None: each row once.
        learning_rate: Learning rate of the stage; None takes the one that the user asked for.
        step_rows: Rows of a batch, at most twice as many as the user asked for; None takes that number.
    """

    epochs: int | None = None
    sample_weight: Tensor | None = None
    learning_rate: float | None = None
    step_rows: int | None = None

    def compute_global_batch_size(self, requested_rows: int, num_processes: int = 1) -> int:
        """Return the number of rows of a batch in this stage, over all processes together.

        Args:
            requested_rows: Rows of a batch that the user asked for.
            num_processes: Number of processes that share a batch; it divides the result.
        """
        if self.step_rows is None:
            return requested_rows
        return max(1, min(self.step_rows, 2 * requested_rows) // num_processes) * num_processes


def convert_inputs(inputs: Inputs, function: Callable[[Tensor], Tensor]) -> Inputs:
    """Return inputs with a function applied to the tensor, or to each tensor of texts."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    return {name: function(tensor) for name, tensor in inputs.items()}


def select_input_rows(inputs: Inputs, positions: Array | Tensor) -> Inputs:
    """Return the inputs of some rows, in the order of their positions (n,)."""
    return convert_inputs(inputs, lambda tensor: tensor.index_select(0, torch.as_tensor(positions)))


def to_numpy(values: Any) -> Array:
    """Return a tensor, a sparse matrix, or an argument of ``np.asarray``, as an array; half precision as single."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        is_half = values.is_floating_point() and values.dtype.itemsize < 4
        return np.asarray((values.float() if is_half else values).numpy())  # NumPy has no bfloat16
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
