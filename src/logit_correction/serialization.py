"""Values as JSON and YAML hold them, and dataclasses from such values, checked entry by entry."""

from __future__ import annotations

import json
import math
import os
import types
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from logit_correction.errors import InputError
from logit_correction.paths import reject_special_file

if TYPE_CHECKING:
    import pandas as pd


def read_json_file(path: Path, remedy: str) -> Any:
    """Read a file of strict JSON.

    Args:
        path: The file.
        remedy: What the user can do about a damaged file; ends the message.

    Raises:
        InputError: It cannot be read, or holds NaN or Infinity.
    """

    def refuse_constant(name: str) -> None:
        raise ValueError(f"{name} is not a number of JSON")

    try:
        return json.loads(reject_special_file(path).read_text(encoding="utf-8"), parse_constant=refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}): {remedy}") from error


def format_json(content: Any) -> str:
    """Return plain values as the text of a file of strict JSON."""
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


def build_frame(kind: type, rows: Any) -> pd.DataFrame:
    """Return a frame with one column for each field of a dataclass; None becomes NaN among numbers.

    A dataclass holds such a frame in a field ``Annotated[pd.DataFrame, kind]``; JSON holds it as a list of mappings.

    Args:
        kind: The dataclass that describes one row.
        rows: A list of rows, or a mapping of columns.
    """
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[field.name for field in fields(kind)], dtype=object)
    number_types: dict[Any, type] = {int: int, float: float, float | None: float}
    hints = _read_type_hints(kind)
    return frame.astype({name: number_types[hint] for name, hint in hints.items() if hint in number_types})


def storage_key(field: Field[Any]) -> str:
    """Return the key under which JSON files hold a dataclass field: its name, or ``key`` of its metadata.

    So a field can be renamed, and files stay as they were.
    """
    return str(field.metadata.get("key", field.name))


def to_json_values(value: Any, finite_only: bool = True) -> Any:
    """Return a value as strict JSON holds it: mappings, lists, texts, numbers, booleans and None.

    Dataclasses become mappings, frames lists of mappings, tuples lists, arrays and tensors nested lists, paths texts.

    Args:
        value: Any nesting of these.
        finite_only: Whether infinity and NaN, which JSON lacks, become None. False keeps them, for YAML.

    >>> to_json_values({"rates": (0.5, float("nan"))})
    {'rates': [0.5, None]}
    """

    def convert(part: Any) -> Any:
        return to_json_values(part, finite_only)

    if is_dataclass(value) and not isinstance(value, type):
        return {storage_key(field): convert(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "columns"):  # a data frame
        return [convert(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): convert(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [convert(part) for part in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their numbers
        return convert(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if finite_only and isinstance(value, float) and not math.isfinite(value) else value


def from_json_values(kind: Any, value: Any, place: str = "") -> Any:
    """Return JSON values as an object of a type; entries that the type does not have are left out.

    Args:
        kind: A dataclass with typed fields, or a type hint of lists, tuples, mappings, literals, optional values and
            plain types.
        value: What ``to_json_values`` gave for such an object.
        place: Where the value is in the file, such as ``groups[3].count``, for messages.

    Raises:
        ValueError: An entry has another type, or is not one of the literals.
        TypeError: An entry is missing.
    """
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin in (Union, types.UnionType):  # with None
        return None if value is None else from_json_values(parts[0], value, place)
    if origin is Annotated:
        return build_frame(parts[1], from_json_values(list[dict[str, Any]], value, place))
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{place or 'it'} is {value!r}, but must be one of {', '.join(map(str, parts))}")
        return value
    is_record = is_dataclass(kind)
    json_type = dict if is_record else list if origin is tuple else origin or kind
    if json_type is not Any and not isinstance(value, int | float if json_type is float else json_type):
        raise ValueError(f"{place or 'it'} is {repr(value)[:40]}, but must be {json_type.__name__}")
    if is_record:
        hints = _read_type_hints(kind)
        keys = {field.name: storage_key(field) for field in fields(kind) if storage_key(field) in value}
        prefix = f"{place}." if place else ""
        return kind(**{name: from_json_values(hints[name], value[key], prefix + key) for name, key in keys.items()})
    if origin in (list, tuple):
        return origin(from_json_values(parts[0], part, f"{place}[{number}]") for number, part in enumerate(value))
    if not parts:
        return value
    return {name: from_json_values(parts[1], part, f"{place}.{name}") for name, part in value.items()}


@cache
def _read_type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
