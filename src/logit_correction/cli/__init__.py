"""The command line: runs one command and turns each failure into one message and an exit status.

``commands`` holds a function for each command. ``arguments`` reads the words by the signature of this function.
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper

from logit_correction import __version__
from logit_correction.atomic_files import DiskFullError
from logit_correction.errors import InputError, TrainingError, TrainingInterrupted
from logit_correction.formatting import format_options_by, suggest_name, wrap_prose

#: Name -> one line, in the order in which a person needs them.
COMMANDS = {
    "quickstart": "train ERM and LC on built-in digits and write a report page; under a minute",
    "audit": "find out whether your data hold a shortcut, which one, and in which rows",
    "train": "train a classifier that does not rely on the shortcut",
    "evaluate": "show the accuracy of a run by group, on its own or on new rows",
    "predict": "write labels and probabilities for new files, a folder or a table",
    "report": "write one page that compares runs",
    "preview": "show the rows of a data set before you train",
    "export": "save the network as ONNX or torch.export",
    "benchmark": "train a grid of methods, data sets and seeds",
    "list": "list methods, data sets, networks and views",
    "cache": "show what is kept to be used again, or remove it",
}

#: Exit status of a command that worked, that failed, that got wrong input, and that was interrupted.
DONE = 0
FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130

#: Exit status where the reader of the output has closed it, as in ``... | head``: that of a process ended by SIGPIPE.
OUTPUT_CLOSED = 141

#: Parts of torch's messages about memory that it cannot have.
MEMORY_MESSAGES = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")


def format_usage() -> str:
    """Return the help of the program."""
    lines = [
        "usage: logit-correction COMMAND ...",
        "",
        "Train classifiers that do not rely on spurious correlations, without group labels.",
        "",
        "commands:",
        *(f"  {name:<12}{line}" for name, line in COMMANDS.items()),
        "",
        "  COMMAND --help   the options that most people need; --help-all shows all",
        "  --version        the version",
        "  --debug          with any command: show where an error came from",
        "",
        "exit status: 0 done, 1 the work failed, 2 the arguments or the input are wrong,",
        "3 the verdict of `audit --fail-on`, 130 interrupted, 141 the reader closed the output",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status, as ``format_usage`` lists them.

    Args:
        argv: The words after the program's name; by default those of this process.
    """
    all_words = list(sys.argv[1:] if argv is None else argv)
    words = [word for word in all_words if word != "--debug"]
    for name in ("stdout", "stderr"):  # None if the caller closed them before the start
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):  # not all encodings have all characters of names
            stream.reconfigure(errors="backslashreplace")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # the loading of weights has no place among our lines
    with format_options_by(format_flag):
        try:
            status = run_command(words)
            sys.stdout.flush()
            return status
        except BaseException as error:
            is_debugging = len(words) < len(all_words) and not isinstance(error, BrokenPipeError)
            if is_debugging or isinstance(error, SystemExit):
                raise
            return _report_failure(error, words)
        finally:
            _discard_unwritable_output()


def run_command(words: Sequence[str]) -> int:
    """Run the command that words name, with warnings as single lines, and return its exit status.

    Args:
        words: The command and its arguments; none, ``--help`` and ``--version`` print about the program itself.

    Raises:
        InputError: The command does not exist, or its arguments are wrong.
    """
    command, *arguments = words or [""]
    if command in ("", "-h", "--help", "help", "--version"):
        print(__version__ if command == "--version" else format_usage())
        return DONE if command else WRONG_INPUT
    function = load_command(command)
    from logit_correction.cli.arguments import parse_arguments

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _print_error(f"warning: {message}")
        return function(**parse_arguments(command, function, arguments))


def format_flag(path: str, value: object) -> str:
    """Return an option of a message as a flag; the one place where names of arguments become flags.

    Args:
        path: The option's place in ``config.yaml``, or an argument of a command.
        value: Its value; None for the flag alone, as True is.

    >>> format_flag("data.text", None), format_flag("trust_code", True), format_flag("refit", False)
    ('--data.text', '--trust-code', '--no-refit')
    >>> format_flag("epochs", 3)
    '--epochs 3'
    """
    from logit_correction.cli.arguments import format_option_name

    flag = f"--{'no-' if value is False else ''}{format_option_name(path)}"
    if isinstance(value, bool):
        return flag
    return flag if value is None else f"{flag} {value}"


def load_command(command: str) -> Callable[..., int]:
    """Return the function of a command; that of ``benchmark`` comes from the laboratory, if it is installed."""
    if command not in COMMANDS:
        hint = suggest_name(command, COMMANDS)
        raise InputError(f"The command {command!r} does not exist{hint}: take one of {', '.join(COMMANDS)}")
    if command == "benchmark":
        from logit_correction.registry import format_laboratory_install_command, load_entry_points

        function: Callable[..., int] | None = load_entry_points("commands").get(command)
        if function is None:
            raise InputError(
                f"`benchmark` is a command of the laboratory: install it by {format_laboratory_install_command()}"
            )
        return function
    from logit_correction.cli import commands

    return getattr(commands, f"{command}_command")


def _report_failure(error: BaseException, words: Sequence[str]) -> int:
    """Print one message about a failure and return the exit status."""
    if isinstance(error, BrokenPipeError):
        return OUTPUT_CLOSED
    command = words[0] if words else ""
    resume = ["--resume"] if command == "train" and "--resume" not in words else []
    same_command = shlex.join(["logit-correction", *words, *resume])
    if isinstance(error, KeyboardInterrupt | TrainingInterrupted):
        is_resumable = isinstance(error, TrainingInterrupted) or command in ("quickstart", "benchmark")
        print(f"stopped; continue with: {same_command}" if is_resumable else "interrupted", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # only a user gives such a name
        name = str(error.filename)[:60]
        error = InputError(f"No file can have the name {name!r}…, it is too long: give a file or folder")
    _print_error(f"error: {_describe_failure(error, command, same_command)}")
    return WRONG_INPUT if isinstance(error, InputError) else FAILED


def _describe_failure(error: BaseException, command: str, same_command: str) -> str:
    """Return what failed and what to do, without the traceback that ``--debug`` shows."""
    text = str(error)
    if isinstance(error, DiskFullError):
        remedy = f" and continue with: {same_command}" if command == "train" else ", or give another place"
        return f"{error.filename} cannot be written ({error.strerror}): make room{remedy}"
    if isinstance(error, MemoryError) or any(message in text for message in MEMORY_MESSAGES):
        return "There is not enough memory: take a smaller network, batch or image size"
    if isinstance(error, InputError | TrainingError):
        return text
    if isinstance(error, RuntimeError):
        from logit_correction.distributed import (
            is_lost_process_error,
        )  # torch, which is loaded where such an error is from

        if is_lost_process_error(error):
            return f"another process of this run has ended, perhaps for want of memory: continue with: {same_command}"
    return f"{type(error).__name__}: {' '.join(text.split()) or 'no message'} (--debug shows where)"


def _discard_unwritable_output() -> None:
    """Drop what a closed or full stream did not take; the interpreter would try again at its end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(text: str) -> None:
    with suppress(OSError):  # the caller may have closed the stream
        print(wrap_prose(text, sys.stderr), file=sys.stderr)
