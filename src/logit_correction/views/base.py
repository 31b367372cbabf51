"""Views: named sets of simple features of an input that can express one kind of shortcut each, and little else.

A shortcut is unknown beforehand, and so is the attribute of a row. But most shortcuts are simple: a colour, a mark in a
corner, a word, a column. A small head on features that can express only such a thing learns the shortcut, if there is
one, and hardly the label. The search for shortcuts compares views by what their heads predict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.formatting import format_first, suggest_name
from logit_correction.registry import import_component
from logit_correction.types import ViewInputs
from logit_correction.view_names import ViewName
from logit_correction.views import VIEWS

#: Names of attributes in checkpoints of earlier versions -> present names.
FORMER_NAMES = {"few": "max_per_label"}


class View(ABC):
    """A named set of features of an input that express one kind of simple content, without shape and order.

    A small head on a view learns a shortcut of its kind and hardly the label, so where its prediction differs from the
    label, the prediction is an estimate of the attribute. A view is fitted on inputs alone: it never gets a label.
    A family of views, such as one for each column of a table, is one class.

    Derive from it for a shortcut of a kind that no shipped view expresses: write ``features``, and ``fit`` if the view
    learns something from the training inputs.

    Attributes:
        name: Name for reports and for the option ``shortcut``: that of the family, and of a member ``family:member``.
        breadth: How much the view can express. 0: one thing (a column, a cell, a word). 1: one kind of simple summary.
            2: rich statistics that may predict the label by its own shape. 3: everything; no evidence of a shortcut.
        max_per_label: How many of its features a head may use for each label; None for all of them. For views of very
            many features, such as words, where a shortcut would take one or two.
        max_narrow_members: How many members of a family, taken together, are as narrow as one; more of them count as
            rich statistics, and more than twice as many as everything. None for any number. For members that together
            are the whole input, such as places.
        needs: What inputs the view needs, for messages.

    >>> import torch
    >>> from logit_correction import ViewInputs
    >>> from logit_correction.views.images import Colour
    >>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
    >>> inputs = ViewInputs(num_rows=4, inputs=lambda rows: images[rows] / 255, images=lambda rows: images[rows])
    >>> [view.name for view in Colour.list_views(inputs)]
    ['colour']
    """

    name: str
    breadth: int = 1
    max_per_label: int | None = None
    max_narrow_members: int | None = None
    needs: str = "other inputs"

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        """Return the views of this class that apply to these inputs, not yet fitted; all members of a family."""
        view = cls()
        return [view] if view.is_applicable(inputs) else []

    @classmethod
    def make_member(cls, member: str, inputs: ViewInputs) -> View | None:
        """Return a member that ``list_views`` leaves out, since only a user would choose it, such as one word of texts.

        Args:
            member: Its name behind the family's, as in ``word:depot``.
            inputs: The training rows.

        Returns:
            The member, not yet fitted; None if the family does not have it.
        """
        return None

    def is_applicable(self, inputs: ViewInputs) -> bool:
        """Return whether rows have the form that the view, fitted or not, needs."""
        return True

    def fit(self, inputs: ViewInputs) -> None:  # noqa: B027  (most views learn nothing)
        """Learn from the training inputs, such as filters or a vocabulary; the same each time."""

    @abstractmethod
    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the features of all rows, (N, F) float32 and finite; not yet standardized."""

    @classmethod
    def compute_family_features(cls, members: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
        """Return the features of several members of the family; override it to read the rows once for all of them.

        Args:
            members: Fitted views of this class.
            inputs: N rows.

        Returns:
            (N, F) for each member, as ``features`` gives them.
        """
        return [view.features(inputs) for view in members]


def compute_features(views: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
    """Return the features of N rows by each of some fitted views.

    Args:
        views: Members of one family next to each other are computed together.
        inputs: N rows.

    Returns:
        (N, F) for each view.
    """
    features: list[Tensor] = []
    for family, members in groupby(views, key=lambda view: type(view)):
        features += family.compute_family_features(list(members), inputs)
    return features


# -- from names to views, and from a fitted view to plain values and back: no code comes out of a checkpoint


def available_views(inputs: ViewInputs, names: Iterable[str] | None = None) -> list[View]:
    """Return the views that apply to these inputs, not yet fitted, narrow ones first.

    Args:
        inputs: The training rows.
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
        inputs: The training rows.

    Raises:
        InputError: If a name is unknown, a view does not apply to these inputs, or a family does not have a member.
    """
    views: dict[str, View] = {}
    for name in names:
        for view in _find_family_views(name, inputs):
            views.setdefault(view.name, view)
    return list(views.values())


def _find_family_views(name: str, inputs: ViewInputs) -> list[View]:
    """Return all views of a family, or the one member that a name means."""
    family, member = ViewName.parse(name)
    if family not in VIEWS and "." not in family and family in inputs.columns:
        raise InputError(f"view {family!r} is unknown: of a column give column:{family}")
    cls = import_component("view", family, VIEWS, View)
    views = cls.list_views(inputs)
    if not views:
        raise InputError(f"view {family!r} does not apply to these inputs: it needs {cls.needs}")
    if not member:
        return views
    candidates = [view for view in views if ViewName.parse(view.name).member == member] or [
        cls.make_member(member, inputs)
    ]
    if candidates == [None]:
        members = [view.name for view in views]
        hint = suggest_name(name, members)
        raise InputError(f"view {family!r} has no member {member!r}{hint}: take {format_first(members, 8)}")
    return candidates


def serialize_builtin_view(view: View) -> dict[str, Any] | None:
    """Return the family and the attributes of a fitted view, for a checkpoint.

    None for a class of a user's own, which no checkpoint may name, since loading it would import the class.
    """
    family = ViewName.parse(view.name).family
    path, _ = VIEWS.get(family, ("", ""))
    is_shipped = path == f"{type(view).__module__}.{type(view).__qualname__}"
    return {"family": family, "values": dict(vars(view))} if is_shipped else None


def restore_view(state: dict[str, Any]) -> View:
    """Return the fitted view whose state ``serialize_builtin_view`` gave.

    Raises:
        KeyError: It is not a shipped view.
    """
    if state["family"] not in VIEWS:
        raise KeyError(state["family"])
    view: View = object.__new__(import_component("view", state["family"], VIEWS, View))
    vars(view).update({FORMER_NAMES.get(name, name): value for name, value in state["values"].items()})
    return view
