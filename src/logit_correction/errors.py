"""Errors and warnings that name what a user can fix, and checks of options that raise them. Imports nothing heavy."""

from __future__ import annotations

import warnings
from collections.abc import Collection


class InputError(ValueError):
    """Something the user gave is wrong; the message names it and says how to fix it (exit status 2, no traceback)."""


class MissingPackage(InputError, ImportError):
    """A package of an extra is not installed; the message names the command that installs it."""


class InputWarning(UserWarning):
    """Something the user gave can be used only in part; the command line prints the message alone."""


class TrainingError(RuntimeError):
    """Training itself failed, such as through a loss that is not finite (exit status 1); a full disk is an OSError."""


class TrainingInterrupted(Exception):
    """Training was asked to stop and has saved where it was."""


def warn_user(message: str) -> None:
    """Issue an ``InputWarning`` at the line that called the caller."""
    warnings.warn(message, InputWarning, stacklevel=3)


def check_range(
    name: str, value: float | None, min_value: float, max_value: float = float("inf"), open_end: bool = False
) -> None:
    """Check that the number of an option, if it is given, lies in [min_value, max_value].

    Args:
        name: The option, for the message.
        value: Its value; None for an option that is left out.
        min_value: The least value allowed.
        max_value: The greatest value allowed; any by default.
        open_end: Whether ``max_value`` itself is forbidden.

    Raises:
        InputError: It lies outside, or is NaN.
    """
    if value is not None and (not min_value <= value <= max_value or (open_end and value == max_value)):
        bound = "less than" if open_end else "at most"
        end = f" and {bound} {max_value:g}" if max_value < float("inf") else " and finite" * open_end
        raise InputError(f"{name} is {value}, but must be at least {min_value:g}{end}")


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise ``InputError`` unless the value of an option is one of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}, but must be one of {', '.join(choices)}")
