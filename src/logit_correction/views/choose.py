"""From names to views, and from a fitted view to plain values and back, so that no code comes out of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from logit_correction.errors import InputError, did_you_mean, format_first
from logit_correction.registry import resolve
from logit_correction.views import VIEWS
from logit_correction.views.base import View, ViewInputs


def available_views(inputs: ViewInputs, names: Iterable[str] | None = None) -> list[View]:
    """Return the views that these inputs permit, not yet fitted, narrow ones first.

    Args:
        inputs: The rows to look at.
        names: Families of views, or dotted paths; by default all of ``VIEWS``.

    Returns:
        Views in rising breadth; equally broad ones in the order of their families. It may be empty.
    """
    families = VIEWS if names is None else names
    views = [view for name in families for view in resolve("view", name, VIEWS, View).views_of(inputs)]
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
        family, _, member = name.partition(":")
        if family not in VIEWS and "." not in family and family in inputs.columns:
            raise InputError(f"view {family!r} is unknown: of a column give column:{family}")
        cls = resolve("view", family, VIEWS, View)
        views = cls.views_of(inputs)
        if not views:
            raise InputError(f"view {family!r} does not apply to these inputs: it needs {cls.needs}")
        chosen = [view for view in views if not member or view.name.partition(":")[2] == member]
        if not chosen:
            members = [view.name for view in views]
            known = format_first(members, 8)
            raise InputError(f"view {family!r} has no member {member!r}{did_you_mean(name, members)}: take {known}")
        found |= {view.name: view for view in chosen if view.name not in found}
    return list(found.values())


def state_of(view: View) -> dict[str, Any] | None:
    """Return what a fitted view is and has learnt; None of a class of a user's own, which no checkpoint may name."""
    family = view.name.partition(":")[0]
    own = VIEWS.get(family, ("",))[0] != f"{type(view).__module__}.{type(view).__qualname__}"
    return None if own else {"family": family, "values": dict(vars(view))}


def view_of(state: dict[str, Any]) -> View:
    """Return the view that ``state_of`` described; of the shipped ones alone, else there is a ``KeyError``."""
    if state["family"] not in VIEWS:
        raise KeyError(state["family"])
    view: View = object.__new__(resolve("view", state["family"], VIEWS, View))
    vars(view).update(state["values"])
    return view
