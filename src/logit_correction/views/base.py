"""What a view is: a named, limited look at an input that keeps one kind of easy feature and loses the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from torch import Tensor

from logit_correction.types import ViewInputs

__all__ = ["EVERYTHING", "RICH", "View", "ViewInputs", "features_of"]

#: Breadth of views of rich statistics, and of one that sees everything.
RICH, EVERYTHING = 2, 3


class View(ABC):
    """A named, limited look at an input: a vector that keeps one kind of easy feature and loses shape and order.

    A small head on a view knows a shortcut of its kind and hardly the label, so where it is wrong about the label it
    tells the attribute. What a view learns it learns of the inputs alone: it never sees a label. A family of views,
    such as one for each column of a table, is one class; ``views_of`` makes its members.

    Attributes:
        name: Name for reports and for ``--shortcut``: that of the family, and of a member ``family:member``.
        sentence: What the view looks at, for a person: "the colours of the image, wherever they are".
        breadth: How much a view can see. 0: one thing (a column, a cell, a word). 1: one kind of simple summary. 2:
            rich statistics that may know something of the label's own shape. 3: everything; no evidence by itself.
        few: How many of its features a head may use for each label; None for all of them. For views of very many
            features, such as words, where a shortcut would take one or two.
        together: How many members of a family are, side by side, as narrow as one; more of them count as rich
            statistics. None for any number. For members that together are the whole input, such as places.
        needs: In what form the rows have to be there, as a message says it.

    >>> import torch
    >>> from logit_correction import ViewInputs
    >>> from logit_correction.views.images import Colour
    >>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
    >>> inputs = ViewInputs(num_rows=4, inputs=lambda rows: images[rows] / 255, images=lambda rows: images[rows])
    >>> [view.name for view in Colour.views_of(inputs)]
    ['colour']
    """

    name: str
    sentence: str = ""
    breadth: int = 1
    few: ClassVar[int | None] = None
    together: ClassVar[int | None] = None
    needs: ClassVar[str] = "other inputs"

    @classmethod
    def views_of(cls, inputs: ViewInputs) -> list[View]:
        """Return the views of this kind that these inputs permit, not yet fitted; none where these lack something."""
        return [view] if (view := cls()).can_look(inputs) else []

    def can_look(self, inputs: ViewInputs) -> bool:
        """Return whether the view, fitted or not, finds in rows what it looks at."""
        return True

    def fit(self, inputs: ViewInputs) -> None:  # noqa: B027  (most views learn nothing)
        """Learn what the view needs of the training inputs, such as filters or a vocabulary; deterministic."""

    @abstractmethod
    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of all rows, (N, F) float32 and finite; not yet scaled."""

    @classmethod
    def features_together(cls, members: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
        """Return the features of several members of the family, for one that can read its rows once for all of them."""
        return [view.features(inputs) for view in members]


def features_of(views: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
    """Return the features (N, F) of each of some fitted views."""
    found = []
    for family, members in groupby(views, key=lambda view: type(view)):
        found += family.features_together(list(members), inputs)
    return found
