"""What a view is: a named, limited look at an input that keeps one kind of easy feature and loses the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.types import Inputs

#: Rows that a view is given at a time.
CHUNK = 512

#: Breadth of a view that sees everything.
EVERYTHING = 3


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
    images: Callable[[Tensor], Tensor | None] = lambda rows: None
    texts: Sequence[str] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    files: Sequence[Path] | None = None
    position: NDArray[np.int64] | None = None

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of the images; None where there are none."""
        images = self.images(torch.zeros(min(1, self.num_rows), dtype=torch.long))
        return None if images is None else (int(images.shape[1]), int(images.shape[2]), int(images.shape[3]))

    def take(self, rows: Tensor) -> ViewInputs:
        """Return some of the rows (n,) long as rows of their own."""
        chosen = rows.tolist()
        return ViewInputs(
            num_rows=len(rows),
            inputs=lambda part: self.inputs(rows[part]),
            images=lambda part: self.images(rows[part]),
            texts=None if self.texts is None else [self.texts[row] for row in chosen],
            columns={name: values[rows.numpy()] for name, values in self.columns.items()},
            files=None if self.files is None else [self.files[row] for row in chosen],
            position=None if self.position is None else self.position[rows.numpy()],
        )

    def image_chunks(self) -> Sequence[Tensor]:
        """The rows in order, in parts small enough to be looked at together."""
        return torch.arange(self.num_rows).split(CHUNK)


class View(ABC):
    """A named, limited look at an input: a vector that keeps one kind of easy feature and loses shape and order.

    A small head on a view knows a shortcut of its kind and hardly the label, so where it is wrong about the label it
    tells the attribute. What a view learns it learns of the inputs alone: it never sees a label.

    A family of views, such as one for each column of a table, is one class; ``views_of`` makes its members.

    Attributes:
        sentence: What the view looks at, for a person: "the colours of the image, wherever they are".
        breadth: How much a view can see. 0: one thing (a column, a cell, a word). 1: one kind of simple summary. 2:
            rich statistics that may know something of the label's own shape. 3: everything; no evidence by itself.
        few: How many of its features a head may use for each label; None for all of them. For views of very many
            features of which a shortcut would take one or two, such as words.
        name: Name for reports and for ``--shortcut``: that of the family, and of a member ``family:member``.
    """

    sentence: str = ""
    breadth: int = 1
    few: ClassVar[int | None] = None
    name: str

    @classmethod
    @abstractmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the views of this kind that these inputs permit, not yet fitted; none where these lack something."""

    def fit(self, inputs: ViewInputs) -> None:  # noqa: B027  (most views learn nothing)
        """Learn what the view needs of the training inputs, such as filters or a vocabulary; deterministic."""

    @abstractmethod
    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of all rows, (N, F) float32 and finite; not yet scaled."""
