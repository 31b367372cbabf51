"""Dataclasses as strict JSON values, and back: reports, findings and choices are written and read by it."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    import pandas as pd


def frame_of(kind: type, rows: Any) -> pd.DataFrame:
    """Return columns, or a list of rows, as a frame with the fields of a dataclass; None becomes NaN among numbers.

    A field ``Annotated[pd.DataFrame, kind]`` holds such a frame; JSON holds it as a list of mappings.
    """
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[one.name for one in fields(kind)], dtype=object)
    numbers: dict[Any, type] = {int: int, float: float, float | None: float}
    return frame.astype({name: numbers[hint] for name, hint in _hints(kind).items() if hint in numbers})


def to_plain(value: Any) -> Any:
    """Return a value as strict JSON values; numbers that are not finite become None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in fields(value)}
    if hasattr(value, "columns"):  # a data frame
        return [to_plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their numbers
        return to_plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_plain(kind: Any, value: Any, place: str = "") -> Any:
    """Return JSON values as a dataclass (or another type) of typed fields; unknown entries are left out.

    Raise ``ValueError`` or ``TypeError`` if an entry is missing or has another type. ``place`` names the value.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # with None
        return None if value is None else from_plain(parts[0], value, place)
    if origin is Annotated:
        return frame_of(parts[1], from_plain(list[dict[str, Any]], value, place))
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{place or 'it'} is {value!r}, but must be one of {', '.join(map(str, parts))}")
        return value
    plain = dict if is_dataclass(kind) else list if origin is tuple else origin or kind
    if plain is not Any and not isinstance(value, int | float if plain is float else plain):
        raise ValueError(f"{place or 'it'} is {repr(value)[:40]}, but must be {plain.__name__}")
    if is_dataclass(kind):
        known = {name: hint for name, hint in _hints(cast(Any, kind)).items() if name in value}
        inside = f"{place}." if place else ""
        return cast(Any, kind)(**{name: from_plain(one, value[name], inside + name) for name, one in known.items()})
    if origin in (list, tuple):
        return origin(from_plain(parts[0], one, f"{place}[{number}]") for number, one in enumerate(value))
    return {name: from_plain(parts[1], one, f"{place}.{name}") for name, one in value.items()} if parts else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
