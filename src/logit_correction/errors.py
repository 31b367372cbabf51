"""The errors that tell a user what to mend. Imports nothing, so that reading a command line needs no torch."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave is wrong; the message names it and says how to mend it.

    The command line prints the message without a traceback and ends with exit status 2.
    """


class TrainingError(RuntimeError):
    """Training itself failed, for example through a loss that is not finite (exit status 1)."""
