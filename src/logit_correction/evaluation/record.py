"""Dataclasses as strict JSON: written as plain values, read back and checked by their annotations."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import pandas as pd

T = TypeVar("T")

#: Whole numbers that JSON readers agree on, and shares.
Count: TypeAlias = Annotated[int, 0, 2**53]
Share: TypeAlias = Annotated[float, 0, 1]

_NAMES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", dict: "a mapping"}


class Rows:
    """Says in ``Annotated[pd.DataFrame, Rows(kind)]`` that JSON holds the frame as a list of such dataclasses."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def frame(self, rows: Mapping[str, Any] | Sequence[Any]) -> pd.DataFrame:
        """Return columns, or a list of the dataclass, as a frame; None is NaN in columns of numbers."""
        frame = pd.DataFrame(rows, columns=[one.name for one in fields(self.kind)], dtype=object)
        numbers = {name: kind for name, hint in _hints(self.kind).items() if (kind := _base(hint)) in (int, float)}
        return frame.astype(numbers)


def to_plain(value: Any) -> Any:
    """Return a value as strict JSON has it; what is not finite becomes None.

    >>> to_plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
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


def from_plain(kind: type[T], value: Any, place: str = "") -> T:
    """Return a value of JSON as the dataclass or ``TypedDict`` that wrote it.

    Entries that a dataclass does not know are left out, a ``TypedDict`` keeps them.

    Args:
        kind: The dataclass or ``TypedDict``.
        value: What was read.
        place: Name of the entry, for messages.

    Raises:
        ValueError: An entry is missing or is not what its annotation says; names it.
    """
    result: T = _read(kind, value, place)
    return result


def _read(kind: Any, value: Any, place: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # with None
        return None if value is None else _read(parts[0], value, place)
    if kind is Any:
        return value
    if origin is Annotated and isinstance(parts[1], Rows):
        return parts[1].frame(_read_list(parts[1].kind, value, place))
    if origin is Annotated:
        base, least, most = parts
        fits = least <= _read(base, value, place) <= most
        return _checked(fits, value, place, f"{_NAMES[base]} from {least} to {most}")
    if origin is list:
        return _read_list(parts[0], value, place)
    if origin is dict:
        _checked(isinstance(value, dict), value, place, "a mapping")
        return {name: _read(parts[1], one, f"{place}.{name}") for name, one in value.items()}
    if is_dataclass(kind) or is_typeddict(kind):
        return _read_entries(kind, _checked(isinstance(value, dict), value, place, "a mapping"), place)
    fits = isinstance(value, int | float if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    return _checked(fits, value, place, _NAMES[kind])


def _read_list(kind: Any, value: Any, place: str) -> list[Any]:
    _checked(isinstance(value, list), value, place, "a list")
    return [_read(kind, one, f"{place}[{number}]") for number, one in enumerate(value)]


def _read_entries(kind: Any, value: dict[str, Any], place: str) -> Any:
    if not is_typeddict(kind):
        needed = {one.name for one in fields(kind) if one.default is one.default_factory is MISSING}
    else:
        needed = set(kind.__required_keys__)
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


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _base(hint: Any) -> Any:
    """Return the type of a column that may be None, which a whole number never is."""
    if get_origin(hint) in (Union, types.UnionType):
        return _base(get_args(hint)[0])
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _checked(fits: bool, value: Any, place: str, expected: str) -> Any:
    """Return the value, if it fits."""
    if not fits:
        text = repr(value)
        found = "missing" if value is None else text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"{place or 'it'} is {found}, not {expected}")
    return value
