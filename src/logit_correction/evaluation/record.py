"""Dataclasses as strict JSON: written as plain values, read back and checked by their annotations."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
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

    def frame(self, columns: Mapping[str, Any] | Iterable[Any]) -> pd.DataFrame:
        """Return columns, or a list of the dataclass, as a frame; None is NaN in columns of numbers."""
        names = [one.name for one in fields(self.kind)]
        if not isinstance(columns, Mapping):
            rows = list(columns)
            columns = {name: [getattr(row, name) for row in rows] for name in names}
        hints = _hints(self.kind)
        return pd.DataFrame({name: pd.Series(to_plain(columns[name]), dtype=_dtype(hints[name])) for name in names})


def to_plain(value: Any) -> Any:
    """Return a value as strict JSON has it; what is not finite becomes None.

    >>> to_plain({"a": (np.int64(1), float("nan"))})
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
    """Return a value of JSON as the dataclass that wrote it; entries that it does not know are left out.

    Args:
        kind: The dataclass.
        value: What was read.
        place: Name of the entry, for messages.

    Raises:
        ValueError: An entry is missing or is not what its annotation says; names it.
    """
    result: T = _read(kind, value, place)
    return result


def _read(kind: Any, value: Any, place: str) -> Any:
    limits: tuple[Any, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *rest = get_args(kind)
        limits = tuple(rest)
    if kind is Any:
        return value
    if _optional(kind):
        if value is None:
            return None
        return _read(next(one for one in get_args(kind) if one is not type(None)), value, place)
    if kind is pd.DataFrame:
        rows: Rows = limits[0]
        return rows.frame(_read(list[rows.kind], value, place))  # type: ignore[name-defined]
    if is_dataclass(kind) or is_typeddict(kind):
        return _read_entries(kind, value, place)
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin is dict:
        _check(isinstance(value, dict), value, place, "a mapping")
        return {name: _read(parts[1], one, f"{place}.{name}") for name, one in value.items()} if parts else value
    if origin is list:
        _check(isinstance(value, list), value, place, "a list")
        return [_read(parts[0], one, f"{place}[{number}]") for number, one in enumerate(value)]
    number = kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool)
    fits = (number and (kind is float or isinstance(value, int))) if kind in (int, float) else isinstance(value, kind)
    _check(fits, value, place, _NAMES[kind])
    if limits:
        _check(limits[0] <= value <= limits[1], value, place, f"{_NAMES[kind]} from {limits[0]} to {limits[1]}")
    return value


def _read_entries(kind: Any, value: Any, place: str) -> Any:
    """Read a mapping as a dataclass; one of a ``TypedDict`` keeps the entries that this does not know."""
    _check(isinstance(value, dict), value, place, "a mapping")
    hints = _hints(kind)
    if is_typeddict(kind):
        needed = [name for name in hints if name in value or name in kind.__required_keys__]
        entries = {name: f"{place}.{name}".lstrip(".") for name in needed}
        return {**value, **{name: _read(hints[name], value.get(name), entries[name]) for name in needed}}
    found = {}
    for one in fields(kind):
        entry = f"{place}.{one.name}".lstrip(".")
        if one.name in value or (_optional(hints[one.name]) and _required(one)):
            found[one.name] = _read(hints[one.name], value.get(one.name), entry)
        elif _required(one):
            raise ValueError(f"{entry} is missing")
    try:
        return kind(**found)
    except ValueError as error:
        raise ValueError(f"{place}: {error}".lstrip(": ")) from error


def _required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _optional(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _dtype(hint: Any) -> Any:
    """Return the dtype of a column."""
    kind = next(one for one in get_args(hint) if one is not type(None)) if _optional(hint) else hint
    base = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return np.float64 if base is float else np.int64 if base is int and not _optional(hint) else object


def _check(fits: bool, value: Any, place: str, expected: str) -> None:
    if not fits:
        text = repr(value)
        found = "missing" if value is None else text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"{place or 'it'} is {found}, not {expected}")
