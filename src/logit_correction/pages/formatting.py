"""Numbers and lists as plain English."""

from __future__ import annotations

from typing import Any

from logit_correction.errors import NBSP


def format_points(difference: float) -> str:
    """Return a difference of two fractions in percentage points, without its sign.

    >>> format_points(0.428).replace(NBSP, " "), format_points(-0.012).replace(NBSP, " ")
    ('43 points', '1.2 points')
    """
    size = abs(100 * difference)
    text = f"{size:.0f}" if size >= 9.95 else f"{size:.1f}".removesuffix(".0")
    return f"{text}{NBSP}point{'' if text == '1' else 's'}"


def format_value(value: Any) -> str:
    """Return a setting as a reader writes it: yes and no, thousands apart, lists by commas, parts by name.

    >>> format_value(True), format_value(55000), format_value(0.005), format_value([1, 2]), format_value({"a": None})
    ('yes', '55,000', '0.005', '1, 2', 'a: –')
    >>> format_value({"name": "Online", "q": 0.7, "epochs": None})
    'Online, q 0.7'
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict) and "name" in value:  # what a part leaves open says nothing
        given = {key: entry for key, entry in value.items() if key != "name" and entry is not None}
        return ", ".join([str(value["name"]), *(f"{format_name(k)} {format_value(v)}" for k, v in given.items())])
    if isinstance(value, dict):
        return ", ".join(f"{format_name(key)}: {format_value(entry)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        inner = (
            f"[{format_value(entry)}]" if isinstance(entry, (list, tuple)) else format_value(entry) for entry in value
        )
        return ", ".join(inner)
    return str(value)


def format_name(name: object) -> str:
    """Return a name from the code as words: ``minority_ratio`` becomes ``minority ratio``."""
    return str(name).replace("_", " ")
