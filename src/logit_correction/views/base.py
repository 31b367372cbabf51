"""What a view is: a named, limited look at an input that keeps one kind of easy feature and loses the rest."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, ClassVar

from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.formatting import format_first, suggest_name
from logit_correction.registry import import_component
from logit_correction.types import ViewInputs
from logit_correction.view_names import ViewName
from logit_correction.views import VIEWS


class View(ABC):
    """A named, limited look at an input: a vector that keeps one kind of easy feature and loses shape and order.

    A small head on a view knows a shortcut of its kind and hardly the label, so where it is wrong about the label it
    tells the attribute. What a view learns it learns of the inputs alone: it never sees a label. A family of views,
    such as one for each column of a table, is one class.

    Attributes:
        name: Name for reports and for ``--shortcut``: that of the family, and of a member ``family:member``.
        breadth: How much a view can see. 0: one thing (a column, a cell, a word). 1: one kind of simple summary. 2:
            rich statistics that may know something of the label's own shape. 3: everything; no evidence by itself.
        max_per_label: How many of its features a head may use for each label; None for all of them. For views of very
            many features, such as words, where a shortcut would take one or two.
        max_narrow_members: How many members of a family are, side by side, as narrow as one; more of them count as rich
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

    #: Former names of members, which a subclass may still use for one version.
    _RENAMED: ClassVar[dict[str, str]] = {
        "views_of": "list_views",
        "named": "make_member",
        "can_look": "is_applicable",
        "look": "image_features",
        "few": "max_per_label",
        "together": "max_narrow_members",
        "least_side": "min_side",
    }

    name: str
    breadth: int = 1
    max_per_label: int | None = None
    max_narrow_members: ClassVar[int | None] = None
    needs: ClassVar[str] = "other inputs"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for former, name in cls._RENAMED.items():
            if former in vars(cls):
                message = f"{cls.__name__}.{former} is now called {name}: rename it"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                setattr(cls, name, vars(cls)[former])

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return the views of this kind that these inputs permit, not yet fitted; a family makes its members here."""
        return [view] if (view := cls()).is_applicable(inputs) else []

    @classmethod
    def make_member(cls, member: str, inputs: ViewInputs) -> View | None:
        """Return a member that only a person would name, such as one word of texts; None of a family without such."""
        return None

    def is_applicable(self, inputs: ViewInputs) -> bool:
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


def compute_features(views: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
    """Return the features (N, F) of each of some fitted views."""
    found = []
    for family, members in groupby(views, key=lambda view: type(view)):
        found += family.features_together(list(members), inputs)
    return found


# -- from names to views, and from a fitted view to plain values and back: no code comes out of a checkpoint


def available_views(inputs: ViewInputs, names: Iterable[str] | None = None) -> list[View]:
    """Return the views that these inputs permit, not yet fitted, narrow ones first.

    Args:
        inputs: The rows to look at.
        names: Families of views, or dotted paths; by default all of ``VIEWS``.

    Returns:
        Views in rising breadth; equally broad ones in the order of their families. It may be empty.
    """
    families = VIEWS if names is None else names
    views = [view for name in families for view in import_component("view", name, VIEWS, View).list_views(inputs)]
    return sorted(views, key=lambda view: view.breadth)


def find_views(names: Sequence[str], inputs: ViewInputs) -> list[View]:
    """Return the views that a user names, not yet fitted, each once, in the order of the names.

    Args:
        names: Each a family ("places": all its members), a member ("places:1,1", "column:capital"), or the dotted path
            of a class of your own that extends ``View``.
        inputs: The rows to look at.

    Raises:
        InputError: If a name is unknown, a view does not apply to these inputs, or a family has no such member.
    """
    found: dict[str, View] = {}
    for name in names:
        family, member = ViewName.of(name)
        if family not in VIEWS and "." not in family and family in inputs.columns:
            raise InputError(f"view {family!r} is unknown: of a column give column:{family}")
        cls = import_component("view", family, VIEWS, View)
        views = cls.list_views(inputs)
        if not views:
            raise InputError(f"view {family!r} does not apply to these inputs: it needs {cls.needs}")
        chosen = [view for view in views if not member or ViewName.of(view.name).member == member]
        if not chosen and (one := cls.make_member(member, inputs)) is not None:
            chosen = [one]
        if not chosen:
            members = [view.name for view in views]
            near = suggest_name(name, members)
            raise InputError(f"view {family!r} has no member {member!r}{near}: take {format_first(members, 8)}")
        found |= {view.name: view for view in chosen if view.name not in found}
    return list(found.values())


def get_view_state(view: View) -> dict[str, Any] | None:
    """Return what a fitted view is and has learnt; None of a class of a user's own, which no checkpoint may name."""
    family = ViewName.of(view.name).family
    own = VIEWS.get(family, ("",))[0] != f"{type(view).__module__}.{type(view).__qualname__}"
    return None if own else {"family": family, "values": dict(vars(view))}


def restore_view(state: dict[str, Any]) -> View:
    """Return the view that ``get_view_state`` described; of the shipped ones alone, else there is a ``KeyError``."""
    if state["family"] not in VIEWS:
        raise KeyError(state["family"])
    view: View = object.__new__(import_component("view", state["family"], VIEWS, View))
    vars(view).update({View._RENAMED.get(name, name): value for name, value in state["values"].items()})
    return view
