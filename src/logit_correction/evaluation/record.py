"""Dataclasses as strict JSON: written as plain values, read back and checked by their annotations."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import pandas as pd

T = TypeVar("T")

#: Whole numbers that JSON readers agree on, and shares.
Count: TypeAlias = Annotated[int, 0, 2**53]
Share: TypeAlias = Annotated[float, 0, 1]

_NAMES: dict[type, str] = {
    **{str: "a text", bool: "true or false", int: "a whole number", float: "a number"},
    **{dict: "a mapping", list: "a list"},
}


def frame_of(kind: type, rows: Any) -> pd.DataFrame:
    """Return columns, or a list of rows, as a frame with the fields of a dataclass; None is NaN among numbers.

    ``Annotated[pd.DataFrame, kind]`` says of a field that JSON holds such a frame as a list of mappings.
    """
    frame = pd.DataFrame(rows, columns=[one.name for one in fields(kind)], dtype=object)
    return frame.astype({name: base for name, hint in _hints(kind).items() if (base := _base(hint)) in (int, float)})


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


def from_plain(kind: type[T], value: Any) -> T:
    """Return a value of JSON as the dataclass or ``TypedDict`` that wrote it.

    Entries that a dataclass does not know are left out, a ``TypedDict`` keeps them.
    """
    result: T = _read(kind, value, "")
    return result


def _read(kind: Any, value: Any, place: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):  # with None
        return None if value is None else _read(parts[0], value, place)
    if origin is Annotated and parts[0] is pd.DataFrame:
        return frame_of(parts[1], _read(types.GenericAlias(list, parts[1]), value, place))
    if origin is Annotated:
        base, least, most = parts
        fits = least <= _read(base, value, place) <= most
        return _checked(fits, value, place, f"{_NAMES[base]} from {least} to {most}")
    if origin is list:
        _checked(isinstance(value, list), value, place, _NAMES[list])
        return [_read(parts[0], one, f"{place}[{number}]") for number, one in enumerate(value)]
    if origin is dict:
        _checked(isinstance(value, dict), value, place, _NAMES[dict])
        return {name: _read(parts[1], one, f"{place}.{name}") for name, one in value.items()}
    if not is_dataclass(kind) and not is_typeddict(kind):
        fits = isinstance(value, int | float if kind is float else kind)
        return _checked(fits and (kind is bool or not isinstance(value, bool)), value, place, _NAMES[kind])
    _checked(isinstance(value, dict), value, place, _NAMES[dict])
    needed = kind.__required_keys__ if is_typeddict(kind) else _required(kind)
    found = {
        name: _read(hint, value.get(name), f"{place}.{name}".lstrip("."))
        for name, hint in _hints(kind).items()
        if name in value or name in needed
    }
    if is_typeddict(kind):
        return {**value, **found}
    try:
        return kind(**found)
    except ValueError as error:
        raise ValueError(f"{place}: {error}".lstrip(": ")) from error


def _required(kind: Any) -> set[str]:
    return {one.name for one in fields(kind) if one.default is one.default_factory is MISSING}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _base(hint: Any) -> Any:
    """Return the plain type of a hint such as ``Share | None``."""
    return hint if hint is Any or not get_args(hint) else _base(get_args(hint)[0])


def _checked(fits: bool, value: Any, place: str, expected: str) -> Any:
    if not fits:
        found = "missing" if value is None else repr(value)[:40]
        raise ValueError(f"{place or 'it'} is {found}, not {expected}")
    return value
