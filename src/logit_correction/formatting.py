"""Numbers, names and lists as people read them, in messages, tables and pages. Imports nothing heavy."""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import IO, Any

#: Keeps a number and its unit on one line.
NBSP = "\u00a0"


def _format_argument(path: str, value: object) -> str:
    name = path.removeprefix("data.").removeprefix("method.")
    if value is None:
        return f"`{name}`"
    return f"`{name}={value if isinstance(value, int | float) else repr(str(value))}`"


_option_formatter: Callable[[str, object], str] = _format_argument


def format_option(path: str, value: object = None) -> str:
    """Return an option as the reader of a message types it.

    A caller from Python reads the name of the argument. The command line reads its flag: it sets another format by
    ``format_options_by``, so that no other layer needs to know of flags.

    Args:
        path: The option's place in ``config.yaml``, such as ``data.text``, ``method.attributes.file`` or ``epochs``; or
            an argument of a command, such as ``new_rows``.
        value: What to set it to, or what was given for it; None for the name alone. True stands for a flag without
            a value.

    >>> format_option("data.text"), format_option("method.attributes.file"), format_option("method", "LC")
    ('`text`', '`attributes.file`', "`method='LC'`")
    """
    return _option_formatter(path, value)


@contextmanager
def format_options_by(formatter: Callable[[str, object], str]) -> Iterator[None]:
    """Let all messages within the block name options by ``formatter(path, value)``; see ``format_option``."""
    global _option_formatter
    before = _option_formatter
    _option_formatter = formatter
    try:
        yield
    finally:
        _option_formatter = before


def suggest_name(name: str, known: Iterable[str], formatter: Callable[[str], str] = str) -> str:
    """Return a hint at the known name that was probably meant, written by ``formatter``; empty if none is close.

    >>> suggest_name("Digit", ["Digits", "ColoredMNIST"]), suggest_name("bird", ["Digits"])
    (' (did you mean Digits?)', '')
    """
    folded = {known_name.lower(): known_name for known_name in known if known_name != name}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean {formatter(folded[close[0]])}?)" if close else ""


def format_list(parts: Sequence[str]) -> str:
    """Join parts by commas and a last "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def format_first(parts: Sequence[str], most: int, between: str = ", ") -> str:
    """Join the first ``most`` parts, by commas or otherwise, and say how many more there are.

    >>> format_first(["a", "b", "c"], 2), format_first(["a"], 2)
    ('a, b and 1 more', 'a')
    """
    return between.join(parts[:most]) + (f" and {len(parts) - most:,} more" if len(parts) > most else "")


def wrap_prose(text: str, stream: IO[str]) -> str:
    """Break text between words if ``stream`` is a terminal, or COLUMNS says how wide it is; else return it as it is.

    What stands between backquotes is to be copied, so it is not broken.
    """
    width = os.environ.get("COLUMNS", "")
    if not width.isdecimal():
        try:
            width = str(os.get_terminal_size(stream.fileno()).columns)
        except (OSError, ValueError, AttributeError):  # a pipe, a closed stream, or none of the system's
            return text
    joined = re.sub(r"`[^`\n]*`", lambda quoted: quoted[0].replace(" ", "\0"), text)
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    lines = [textwrap.fill(line, max(20, int(width)), **options) for line in joined.split("\n")]
    return "\n".join(lines).replace("\0", " ")


def format_reason(error: BaseException) -> str:
    """Return an error's message in one line of at most 300 characters, or its class if it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def is_missing(value: Any) -> bool:
    """Return whether a figure is absent: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def format_decimal(value: float | None) -> str:
    """Return a number with three digits after its point, or a dash for None and NaN."""
    return "–" if value is None or is_missing(value) else f"{value:.3f}"


def format_percent(fraction: float | None, digits: int = 0, unit: str = NBSP + "%") -> str:
    """Return a fraction in per cent, or a dash for None and NaN; ``unit`` follows the number.

    What is not quite 0 or 1 takes up to four more digits, so that it is not shown as 0 or 100.

    >>> format_percent(0.7431, unit=" %"), format_percent(0.7431, 1, ""), format_percent(None)
    ('74 %', '74.3', '–')
    >>> [format_percent(value, unit="") for value in (0, 0.0004, 0.999, 0.99999, 1)]
    ['0', '0.04', '99.9', '99.999', '100']
    """
    if fraction is None or is_missing(fraction):
        return "–"
    for places in range(digits, digits + 5):
        text = f"{100 * fraction:.{places}f}"
        if (float(text) in (0, 100)) == (fraction in (0, 1)):
            return text + unit
    return f"{100 * fraction:.{digits}f}{unit}"


def format_row_count(count: int) -> str:
    """Return a number of rows: ``1 row``, ``1,200 rows``."""
    return f"{count:,} row{'' if count == 1 else 's'}"


def format_value(value: Any) -> str:
    """Return a setting as a reader writes it: yes and no, thousands apart, lists by commas.

    >>> format_value(True), format_value(55000), format_value(0.005), format_value([1, "a"])
    ('yes', '55,000', '0.005', '1, a')
    """
    if is_missing(value) or isinstance(value, bool):
        return "–" if is_missing(value) else "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.0f}" if 1e5 < abs(value) < 1e15 else f"{value:g}"
    return ", ".join(map(format_value, value)) if isinstance(value, list | tuple) else str(value)


def format_name(name: object) -> str:
    """Return a name from the code as words: ``minority_ratio`` becomes ``minority ratio``."""
    return str(name).replace("_", " ")


def capitalize(text: str) -> str:
    """Return a text that starts with a capital, all else as it is."""
    return text[:1].upper() + text[1:]
