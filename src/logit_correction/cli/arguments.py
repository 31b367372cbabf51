"""The argument parser of the small commands, and errors of all parsers in plain words."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from logit_correction.cli.words import HABITS
from logit_correction.errors import InputError, did_you_mean, option_message

#: What argparse says, and how it reads better.
_WORDINGS = (
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"argument (\S+): invalid int value: (.*)", r"\1 is \2, but must be a whole number"),
    (r"argument (\S+): invalid choice: (\S+) \(choose from (.*)\)", r"\1 is \2, but must be one of \3"),
    (r"argument (\S+): expected one argument", r"\1 needs a value"),
)


class Parser(argparse.ArgumentParser):
    """Takes no abbreviated options; raises ``InputError`` where argparse would print its usage and exit."""

    def __init__(self, command: str, description: str) -> None:
        """Name the command and say what it does."""
        super().__init__(prog=f"logit-correction {command}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse has found wrong, in plain words."""
        for pattern, wording in _WORDINGS:
            message = re.sub(pattern, wording, message)
        raise InputError(f"{message}; `{self.prog} --help` shows what it takes")


def add_trust(parser: Parser) -> None:
    """Offer to import what a run folder names by a dotted path."""
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="import classes of its maker's own that RUN names; they may do anything: only for people you trust",
    )


def parsed_options(parser: Any, arguments: list[str], where: str) -> dict[str, Any]:
    """Return what a parser of jsonargparse makes of the arguments.

    Args:
        parser: Made with ``exit_on_error=False``.
        arguments: The words of the command line.
        where: What ends the sentence about an unknown option: where the options are, or of what it is none.

    Raises:
        InputError: If an option is unknown or has a wrong value.
    """
    try:
        parsed: dict[str, Any] = parser.parse_args(arguments).as_dict()
    except (argparse.ArgumentError, ValueError) as error:
        message = option_message(error)
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown == message:
            raise InputError(message) from error
        name = unknown.split()[0].split("=")[0]
        meant = HABITS.get(name)
        hint = f" (did you mean {meant}?)" if meant else did_you_mean(name, parser._option_string_actions)
        raise InputError(f"there is no option {name}{hint}{where}") from error
    return parsed
