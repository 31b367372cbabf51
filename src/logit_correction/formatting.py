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

#: Errors, names and other parts that a message spells out; further ones are counted.
MAX_PARTS_SHOWN = 10

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


def suggest_name(name: str, valid_names: Iterable[str], formatter: Callable[[str], str] = str) -> str:
    """Return a hint at the name that the user probably meant; empty if no name is close.

    Args:
        name: What the user typed.
        valid_names: Names that would be right.
        formatter: Writes a name as the user types it, such as a flag of the command line.

    >>> suggest_name("Digit", ["Digits", "ColoredMNIST"]), suggest_name("bird", ["Digits"])
    (' (did you mean Digits?)', '')
    """
    folded = {valid_name.lower(): valid_name for valid_name in valid_names if valid_name != name}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean {formatter(folded[close[0]])}?)" if close else ""


def format_list(parts: Sequence[str]) -> str:
    """Join parts by commas and a last "and".

    >>> format_list(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def format_first(parts: Sequence[str], max_parts: int = MAX_PARTS_SHOWN, separator: str = ", ") -> str:
    """Join the first parts and add how many more there are.

    Args:
        parts: All parts.
        max_parts: How many are shown at most.
        separator: What stands between them.

    >>> format_first(["a", "b", "c"], 2), format_first(["a"], 2)
    ('a, b and 1 more', 'a')
    """
    more = f" and {len(parts) - max_parts:,} more" if len(parts) > max_parts else ""
    return separator.join(parts[:max_parts]) + more


def shorten_words(text: str, max_length: int) -> str:
    """Return a text whose words of more than ``max_length`` characters have an ellipsis in place of their middle.

    >>> shorten_words("ERM without the column systolic_blood_pressure_in_mmHg", 20)
    'ERM without the column systolic_b…e_in_mmHg'
    """
    half = max_length // 2
    return re.sub(rf"\S{{{max_length + 1},}}", lambda word: f"{word[0][:half]}…{word[0][1 - half :]}", text)


def wrap_prose(text: str, stream: IO[str]) -> str:
    """Break the lines of a text between words, as wide as the terminal.

    Commands between backquotes, which users copy, are not broken.

    Args:
        text: What will be printed.
        stream: Where it will be printed. Unless it is a terminal, or the environment variable COLUMNS gives a width,
            the text is returned unchanged.
    """
    width = os.environ.get("COLUMNS", "")
    if not width.isdecimal():
        try:
            width = str(os.get_terminal_size(stream.fileno()).columns)
        except (OSError, ValueError, AttributeError):  # a pipe, a closed stream, or one that Python made
            return text
    wrapper = textwrap.TextWrapper(
        max(20, int(width)), break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    joined = re.sub(r"`[^`\n]*`", lambda quoted: quoted[0].replace(" ", "\0"), text)
    return "\n".join(map(wrapper.fill, joined.split("\n"))).replace("\0", " ")


def format_reason(error: BaseException) -> str:
    """Return an error's message in one line of at most 300 characters, or its class if it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def is_missing(value: Any) -> bool:
    """Return whether a metric has no value: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def format_decimal(value: float | None) -> str:
    """Return a number with three digits after its point, or a dash for None and NaN."""
    return "–" if value is None or is_missing(value) else f"{value:.3f}"


def format_percent(fraction: float | None, digits: int = 0, unit: str = " %") -> str:
    """Return a fraction in per cent, or a dash for None and NaN.

    A fraction that is not quite 0 or 1 has up to four more digits, so that it is not shown as 0 or 100.

    Args:
        fraction: Usually in 0..1.
        digits: Digits behind the decimal point.
        unit: What follows the number.

    >>> format_percent(0.7431), format_percent(0.7431, 1, ""), format_percent(None)
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


def format_row_count(count: int, noun: str = "row") -> str:
    """Return a number of rows, or of what a regular noun names: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_value(value: Any) -> str:
    """Return the value of an option for people: yes or no, commas between thousands, lists joined by commas.

    >>> format_value(True), format_value(55000), format_value(0.005), format_value([1, "a"])
    ('yes', '55,000', '0.005', '1, a')
    """
    if is_missing(value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e5 < abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    return str(value)


def format_name(name: object) -> str:
    """Return a name from the code as words: ``minority_ratio`` becomes ``minority ratio``."""
    return str(name).replace("_", " ")


def capitalize(text: str) -> str:
    """Return a text with a capital as its first letter; the others stay as they are."""
    return text[:1].upper() + text[1:]
