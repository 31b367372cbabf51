"""The errors that tell a user what to fix. Imports nothing heavy: reading a command line needs no torch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something the user gave is wrong; the message names it and says how to fix it.

    The command line prints the message without a traceback and ends with exit status 2.
    """


class TrainingError(RuntimeError):
    """Training itself failed, for example through a loss that is not finite (exit status 1)."""


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "a list such as [a, b]",
    "NoneType": "null",
}
_KINDS["Sequence"] = _KINDS["tuple"] = _KINDS["list"]


def option_message(error: BaseException, prefix: str = "") -> str:
    r"""Say in plain words what the option parser found wrong.

    Args:
        error: What jsonargparse or argparse raised.
        prefix: What goes before the option's name, such as ``method.``.

    >>> option_message(ValueError('Parser key "epochs": Expected a <class \'int\'>. Got value: many'))
    "--epochs is 'many', but must be a whole number"
    """
    text = " ".join(str(error).split()).replace(".name:", ":")
    lacking = re.fullmatch(r"argument (--\S+): expected one argument", text)
    if lacking:
        return f"{lacking[1]} needs a value"
    missing = re.fullmatch(r"the following arguments are required: (.*)", text)
    if missing:
        names = [f"--{prefix}{name.strip().removeprefix('--')}" for name in missing[1].split(",")]
        return (
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} missing: --help beside the name says what to give"
        )
    union = re.fullmatch(r'Parser key "([^"]+)": (.*) Given value: (.*)', text)
    found = union or re.fullmatch(r'Parser key "([^"]+)": (.*?)\.? Got value: (.*)', text)
    if not found:
        return text
    name, problem, value = found.groups()
    expected = _expected(problem)
    return f"--{prefix}{name} is {value!r}, but must be {expected}" if expected else f"--{prefix}{name}: {text}"


def check_range(name: str, value: float, low: float, high: float = float("inf"), open_end: bool = False) -> None:
    """Return if an option lies in low..high, ``high`` itself left out with ``open_end``.

    Raises:
        InputError: Otherwise.

    >>> check_range("q", 0.7, 0, 1)
    """
    if not low <= value <= high or (open_end and value == high):
        end = "" if high == float("inf") else f" and at most {high:g}" if not open_end else f" and less than {high:g}"
        raise InputError(f"{name} is {value}, but must be at least {low:g}{end}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the name that was probably meant, empty if none is close.

    >>> did_you_mean("Digit", ["Digits", "ColoredMNIST"]), did_you_mean("bird", ["Digits"])
    (' (did you mean Digits?)', '')
    """
    folded = {known_name.lower(): known_name for known_name in known}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean {folded[close[0]]}?)" if close else ""


def _expected(problem: str) -> str:
    """Return the types that jsonargparse names, for people."""
    union = re.search(r"Subtypes: \[(.*)\] Errors:", problem)
    types = re.findall(r"<class '([\w.]+)'>|Literal\[([^\]]*)\]|(\w+\[[\w\[\], ]+\])", union[1] if union else problem)
    names = []
    for plain, choices, nested in types:
        short = plain.rpartition(".")[2]
        names.append(_KINDS.get(short, short) or nested.replace("list[list[int]]", "a list of lists of whole numbers"))
        if choices:
            names[-1] = f"one of {choices}".replace("'", "")
    return " or ".join(dict.fromkeys(names))
