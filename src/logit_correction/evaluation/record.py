"""Dataclasses as strict JSON: written as plain values, read back by their annotations."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import pandas as pd


def frame_of(kind: type, rows: Any) -> pd.DataFrame:
    """Return columns, or a list of rows, as a frame with the fields of a dataclass; None is NaN among numbers.

    ``Annotated[pd.DataFrame, kind]`` says of a field that JSON holds such a frame as a list of mappings.
    """
    frame = pd.DataFrame(rows, columns=[one.name for one in fields(kind)], dtype=object)
    numbers: dict[Any, type] = {int: int, float: float, float | None: float}
    return frame.astype({name: numbers[hint] for name, hint in _hints(kind).items() if hint in numbers})


def to_plain(value: Any) -> Any:
    """Return a value as strict JSON has it; what is not finite becomes None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, pd.DataFrame):
        return [to_plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their numbers
        return to_plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_plain(kind: Any, value: Any, place: str = "it") -> Any:
    """Return a value of JSON as the dataclass that wrote it; entries that it does not know are left out.

    Raise ``ValueError`` if an entry is missing or of another type; only checksums tell whether it was changed.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # with None
        return None if value is None else from_plain(parts[0], value, place)
    if origin is Annotated:
        try:
            return frame_of(parts[1], from_plain(list[dict[str, Any]], value, place))
        except TypeError as error:
            raise ValueError(f"{place}: {error}") from error
    if not is_dataclass(kind):
        plain = origin or kind
        if plain is not Any and (not isinstance(value, int | float if plain is float else plain) or value is None):
            raise ValueError(f"{place} is {repr(value)[:40]}, but must be {getattr(kind, '__name__', kind)}")
        if origin is list:
            return [from_plain(parts[0], one, f"{place}[{number}]") for number, one in enumerate(value)]
        return {name: from_plain(parts[1], one, f"{place}.{name}") for name, one in value.items()} if parts else value
    given, make = from_plain(dict[str, Any], value, place), cast(Any, kind)
    known = {name: hint for name, hint in _hints(make).items() if name in given}
    inside = "" if place == "it" else f"{place}."
    try:
        return make(**{name: from_plain(hint, given[name], f"{inside}{name}") for name, hint in known.items()})
    except TypeError as error:  # Python names the entries that are missing
        raise ValueError(f"{place}: {error}") from error


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
