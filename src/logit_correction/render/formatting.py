"""Numbers and lists as plain English."""

from __future__ import annotations

import math
from typing import Any

#: Keeps a number and its unit on one line.
NBSP = "\u00a0"


def is_missing(value: Any) -> bool:
    """Return whether a figure is absent: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def format_percent(fraction: float | None, digits: int = 0, unit: str = NBSP + "%") -> str:
    """Return a fraction in per cent; nearly nothing and nearly everything are not rounded to 0 and 100.

    >>> format_percent(0.7431).replace(NBSP, " "), format_percent(0.999, unit=""), format_percent(None)
    ('74 %', '99.9', '–')
    """
    if fraction is None or is_missing(fraction):
        return "–"
    for places in range(digits, digits + 3):
        text = f"{100 * fraction:.{places}f}"
        if (float(text) in (0, 100)) == (fraction in (0, 1)):
            return text + unit
    return f"{100 * fraction:.{digits}f}{unit}"  # what no reader would tell from 0 or 100


def format_points(difference: float) -> str:
    """Return a difference of two fractions in percentage points, without its sign.

    >>> format_points(0.428).replace(NBSP, " "), format_points(-0.012).replace(NBSP, " ")
    ('43 points', '1.2 points')
    """
    size = abs(100 * difference)
    text = f"{size:.0f}" if size >= 9.95 else f"{size:.1f}".removesuffix(".0")
    return f"{text}{NBSP}point{'' if text == '1' else 's'}"


def format_value(value: Any) -> str:
    """Return a setting as a reader writes it: yes and no, thousands apart, lists by commas.

    >>> format_value(True), format_value(55000), format_value(0.005), format_value([1, 2]), format_value({"a": None})
    ('yes', '55,000', '0.005', '1, 2', 'a: –')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
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
