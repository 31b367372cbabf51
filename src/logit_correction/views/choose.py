"""From names to views, and from a fitted view to plain values and back, so that no code comes out of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.errors import InputError, did_you_mean
from logit_correction.registry import resolve
from logit_correction.views import VIEWS
from logit_correction.views.base import View, ViewInputs

#: Marks what was an array.
_ARRAY = "array"


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
        views = _family(family).views_of(inputs)
        if not views:
            need = _family(family).needs or "something in them to look at"
            raise InputError(f"view {family!r} does not apply to these inputs ({_forms(inputs)}): it needs {need}")
        chosen = [view for view in views if not member or view.name.partition(":")[2] == member]
        if not chosen:
            members = [view.name for view in views]
            more = ", ..." if len(members) > 8 else ""
            raise InputError(
                f"view {family!r} has no member {member!r}{did_you_mean(name, members)}: "
                f"take {'one of ' if len(members) > 1 else ''}{', '.join(members[:8])}{more}"
            )
        found |= {view.name: view for view in chosen if view.name not in found}
    return list(found.values())


def _family(name: str) -> type[View]:
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


def state_of(view: View) -> dict[str, Any] | None:
    """Return what a fitted view is and has learnt; None where it holds what is no tensor, array or plain value."""
    family = view.name.partition(":")[0]
    if VIEWS.get(family, ("",))[0] != _path(type(view)):
        family = _path(type(view))
    try:
        return {"family": family, "values": {name: _plain(value) for name, value in vars(view).items()}}
    except TypeError:
        return None


def view_of(state: dict[str, Any], own: Sequence[str] = ()) -> View:
    """Return the view that ``state_of`` described.

    Args:
        state: What ``state_of`` returned.
        own: Views that the run's options name; of dotted paths no other is imported.

    Raises:
        InputError: If it is a class that the options do not name, or another version wrote the state.
    """
    family = str(state.get("family"))
    named = {name.partition(":")[0] for name in own}
    classes = [_family(name) for name in named if "." in name] if family not in VIEWS else [_family(family)]
    cls = next((cls for cls in classes if family in VIEWS or _path(cls) == family), None)
    if cls is None:
        raise InputError(f"the run holds a view {family!r} that its options do not name: train again")
    view = cls.__new__(cls)
    vars(view).update({name: _restored(value) for name, value in state["values"].items()})
    return view


def _path(cls: type[View]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _plain(value: Any) -> Any:
    """Return a value as a checkpoint holds it, which is read without pickle.

    Raises:
        TypeError: If it cannot.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        return {_ARRAY: torch.from_numpy(value.copy())}  # of numbers, else a TypeError
    if isinstance(value, list | tuple):
        return type(value)(_plain(one) for one in value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"{type(value).__name__} is no plain value")


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return value[_ARRAY].numpy()
    return type(value)(_restored(one) for one in value) if isinstance(value, list | tuple) else value
