"""From names to views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logit_correction.errors import InputError, did_you_mean
from logit_correction.registry import resolve
from logit_correction.views import VIEWS
from logit_correction.views.base import View, ViewInputs

#: Members of a family that a message names at most.
_NAMED = 8


def available_views(inputs: ViewInputs, names: Iterable[str] | None = None) -> list[View]:
    """Return the views that these inputs permit, not yet fitted, narrow ones first.

    Args:
        inputs: The rows to look at.
        names: Families of views, or dotted paths; by default all of ``VIEWS``.

    Returns:
        Views in rising breadth; equally broad ones in the order of their families. It may be empty.

    Raises:
        InputError: If a name is unknown.
    """
    views = [view for name in (VIEWS if names is None else names) for view in _family(name).views_of(inputs)]
    return sorted(views, key=lambda view: view.breadth)


def find_views(names: Sequence[str], inputs: ViewInputs) -> list[View]:
    """Return the views that a user names, not yet fitted, in the order of the names.

    Args:
        names: Each a family ("places": all its members), a member ("places:1,1", "column:capital"), or the dotted path
            of a class of your own that extends ``View``.
        inputs: The rows to look at.

    Returns:
        The views, each once.

    Raises:
        InputError: If a name is unknown, a view does not apply to these inputs, or a family has no such member.
    """
    views = [view for name in names for view in _named(name, inputs)]
    return list({view.name: view for view in views}.values())


def _named(name: str, inputs: ViewInputs) -> list[View]:
    """Return the views that one name stands for."""
    family, _, member = name.partition(":")
    views = _family(family).views_of(inputs)
    if not views:
        need = _family(family).needs
        wants = f"it needs {need}" if need else "it finds in them nothing of what it looks at"
        raise InputError(f"view {family!r} does not apply to these inputs ({_forms(inputs)}): {wants}")
    chosen = [view for view in views if not member or view.name.partition(":")[2] == member]
    if not chosen:
        members = [view.name for view in views if ":" in view.name]
        if not members:
            raise InputError(f"view {name!r} is unknown: {family!r} has no members, so take it as it is")
        more = ", ..." if len(members) > _NAMED else ""
        raise InputError(
            f"view {family!r} has no member {member!r}{did_you_mean(name, members)}: "
            f"take one of {', '.join(members[:_NAMED])}{more}"
        )
    return chosen


def _family(name: str) -> type[View]:
    """Return the class that a family's name or a dotted path stands for."""
    return resolve("view", name, VIEWS, View)


def _forms(inputs: ViewInputs) -> str:
    """Say in what forms the rows can be looked at."""
    present = {
        "images": inputs.image_shape is not None,
        "texts": inputs.texts is not None,
        "columns of features": bool(inputs.columns),
        "files": inputs.files is not None,
    }
    return "they have " + (" and ".join(name for name, there in present.items() if there) or "plain numbers only")
