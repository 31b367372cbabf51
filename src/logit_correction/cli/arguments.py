"""The argument parser of the small commands, whose errors are in plain words."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from logit_correction.errors import InputError

#: What argparse says, and how it reads better.
_MESSAGES = (
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"argument (\S+): invalid int value: (.*)", r"\1 is \2, but must be a whole number"),
    (r"argument \S+: invalid choice: (\S+) \(choose from ([^,]+)\)", r"\1 stands where \2 must stand"),
    (r"argument (\S+): invalid choice: (\S+) \(choose from (.*)\)", r"\1 is \2, but must be one of \3"),
    (r"argument (\S+): expected one argument", r"\1 needs a value"),
)


#: A word by which a command is asked for its parser, as ``--help`` asks for its help.
DESCRIBE = "--describe_parser"


class Described(Exception):
    """Carries the parser that was asked for."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


class _Describe(argparse.Action):
    """Raises ``Described``."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise Described(parser)


class Parser(argparse.ArgumentParser):
    """Takes no abbreviated options; raises ``InputError`` where argparse would print its usage and exit."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=f"logit-correction {command}", description=description, allow_abbrev=False)
        self.add_argument(DESCRIBE, action=_Describe, nargs=0, help=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse has found wrong, in plain words."""
        for pattern, plain in _MESSAGES:
            message = re.sub(pattern, plain, message)
        raise InputError(f"{message}; `{self.prog} --help` shows what it takes")


def add_trust(parser: Parser) -> None:
    """Offer to import what a run folder names by a dotted path."""
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="import classes of its maker's own that RUN names; they may do anything: only for people you trust",
    )
