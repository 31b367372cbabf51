"""Fractions in per cent, as every sentence, table and page shows them."""

from __future__ import annotations

import math
from typing import Any

#: Keeps a number and its unit on one line.
NBSP = "\u00a0"

#: Digits that are added at most: what is nearer to 0 or 1 than one in a million counts as that.
MOST_MORE = 4


def is_missing(value: Any) -> bool:
    """Return whether a figure is absent: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def format_percent(fraction: float | None, digits: int = 0, unit: str = NBSP + "%") -> str:
    """Return a fraction in per cent, a dash where there is none.

    What is not quite 0 or 1 takes as many more digits as it needs not to be shown as 0 or 100.

    Args:
        fraction: 1 is 100 per cent.
        digits: Behind the point.
        unit: Written behind the number; empty where a heading says it, `` %`` in text that a terminal may show.

    >>> format_percent(0.7431, unit=" %"), format_percent(0.7431, 1, ""), format_percent(None)
    ('74 %', '74.3', '–')
    >>> [format_percent(value, unit="") for value in (0, 0.0004, 0.999, 0.99999, 1)]
    ['0', '0.04', '99.9', '99.999', '100']
    """
    if fraction is None or is_missing(fraction):
        return "–"
    for places in range(digits, digits + MOST_MORE + 1):
        text = f"{100 * fraction:.{places}f}"
        if (float(text) in (0, 100)) == (fraction in (0, 1)):
            return text + unit
    return f"{100 * fraction:.{digits}f}{unit}"
