"""Errors and warnings that name what a user can fix. Imports nothing heavy."""

from __future__ import annotations


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


def check_range(name: str, value: float, low: float, high: float = float("inf"), open_end: bool = False) -> None:
    """Raise ``InputError`` unless an option lies in low..high, ``high`` itself left out with ``open_end``."""
    if not low <= value <= high or (open_end and value == high):
        end = "" if high == float("inf") else f" and at most {high:g}" if not open_end else f" and less than {high:g}"
        raise InputError(f"{name} is {value}, but must be at least {low:g}{end}")
