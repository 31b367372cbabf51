"""A fitted view as tensors and plain values, so that a checkpoint can hold it and no code comes out of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.registry import resolve
from logit_correction.views import VIEWS
from logit_correction.views.base import View

#: Marks what was an array.
_ARRAY = "array"


def state_of(view: View) -> dict[str, Any] | None:
    """Return what a view is and has learnt; None where it holds what is no tensor, array or plain value.

    Args:
        view: Fitted. All that it knows stands in its attributes.
    """
    family = view.name.partition(":")[0]
    if VIEWS.get(family, ("",))[0] != _path(type(view)):
        family = _path(type(view))
    without = getattr(view, "__getstate__", None)  # some leave out what they share with their siblings
    values = (without() if without else vars(view)) or {}
    try:
        return {"family": family, "values": {name: _plain(value) for name, value in values.items()}}
    except TypeError:
        return None


def view_of(state: dict[str, Any], own: Sequence[str] = ()) -> View:
    """Return the view that ``state_of`` described.

    Args:
        state: What ``state_of`` returned.
        own: Dotted paths that the run's options name; no other class is imported.

    Raises:
        InputError: If it is a class that the options do not name, or another version wrote the state.
    """
    family = str(state.get("family"))
    known = {family} if family in VIEWS else {name for name in own if "." in name}
    classes: list[type[View]] = [resolve("view", name, VIEWS, View) for name in known]
    cls = next((cls for cls in classes if family in (*VIEWS, _path(cls))), None)
    if cls is None:
        raise InputError(f"the run holds a view {family!r} that its options do not name: train again")
    view = cls.__new__(cls)
    vars(view).update({name: _restored(value) for name, value in state["values"].items()})
    return view


def _path(cls: type[View]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _plain(value: Any) -> Any:
    """Return tensors, plain values and arrays as a checkpoint holds them.

    Raises:
        TypeError: If it is something else.
    """
    if value is None or (isinstance(value, bool | int | float | str) and type(value).__module__ == "builtins"):
        return value
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        numbers = value.dtype.kind in "biuf"
        return {_ARRAY: torch.from_numpy(value.copy()) if numbers else [str(one) for one in value.tolist()]}
    if isinstance(value, list | tuple):
        return type(value)(_plain(one) for one in value)
    raise TypeError(f"{type(value).__name__} is no plain value")


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        held = value[_ARRAY]
        return held.numpy() if isinstance(held, Tensor) else np.asarray(held, dtype=object)
    return type(value)(_restored(one) for one in value) if isinstance(value, list | tuple) else value
