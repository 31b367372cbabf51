"""The command line: ``commands`` has a function for each command, whose signature ``arguments`` reads it by."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import warnings
from collections.abc import Callable

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

#: What torch says where it cannot have the memory that it needs.
_OF_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")


def usage() -> str:
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
        "3 the verdict of `audit --fail-on`, 130 interrupted",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    words = [word for word in given if word != "--debug"]
    for name in ("stdout", "stderr"):  # which whoever starts us may have closed
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # the loading of weights has no place among our lines
    with format_options_by(format_flag):
        try:
            if not words or words[0] in ("-h", "--help", "help", "--version"):
                print(__version__ if words[:1] == ["--version"] else usage(), flush=True)
                return 0 if words else 2
            function = load_command(words[0])
            from logit_correction.cli.arguments import parse_arguments

            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *where, **more: _print_error(f"warning: {message}")
                status = function(**parse_arguments(words[0], function, words[1:]))
            sys.stdout.flush()
            return status
        except BaseException as error:
            if len(words) < len(given) or isinstance(error, SystemExit):
                raise
            return _report(error, words)


def format_flag(path: str, value: object) -> str:
    """Return an option of a message as a flag; the one place where names of arguments become flags.

    >>> format_flag("data.text", None), format_flag("trust_code", True), format_flag("epochs", 3)
    ('--data.text', '--trust-code', '--epochs 3')
    """
    from logit_correction.cli.arguments import format_option_name

    flag = f"--{format_option_name(path)}"
    return flag if value is None or value is True else f"{flag} {value}"


def load_command(command: str) -> Callable[..., int]:
    """Return the function of a command; ``benchmark`` is one of the laboratory."""
    if command not in COMMANDS:
        hint = suggest_name(command, COMMANDS)
        raise InputError(f"There is no command {command!r}{hint}: take one of {', '.join(COMMANDS)}")
    if command == "benchmark":
        from logit_correction.registry import format_laboratory_install_command, load_entry_points

        found: Callable[..., int] | None = load_entry_points("commands").get(command)
        if found is None:
            raise InputError(
                f"`benchmark` is a command of the laboratory: install it by {format_laboratory_install_command()}"
            )
        return found
    from logit_correction.cli import commands

    return getattr(commands, f"{command}_command")


def _report(error: BaseException, words: list[str]) -> int:
    """Say in one message what went wrong and return the exit status."""
    command = words[0] if words else ""
    resume = ["--resume"] if command == "train" and "--resume" not in words else []
    again = shlex.join(["logit-correction", *words, *resume])
    if isinstance(error, KeyboardInterrupt | TrainingInterrupted):
        resumable = isinstance(error, TrainingInterrupted) or command in ("quickstart", "benchmark")
        print(f"stopped; continue with: {again}" if resumable else "interrupted", file=sys.stderr)
        return 130
    if isinstance(error, BrokenPipeError):
        # Nobody reads on, as in `... | head`; the interpreter would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # only a person gives such a name
        name = str(error.filename)[:60]
        error = InputError(f"No file can have the name {name!r}…, it is too long: give a file or folder")
    told = str(error)
    if isinstance(error, DiskFullError):
        goes_on = f" and continue with: {again}" if command == "train" else ", or give another place"
        told = f"{error.filename} cannot be written ({error.strerror}): make room{goes_on}"
    elif isinstance(error, MemoryError) or any(of_memory in told for of_memory in _OF_MEMORY):
        told = "There is not enough memory: take a smaller network, batch or image size"
    elif not isinstance(error, InputError | TrainingError):
        told = f"{type(error).__name__}: {' '.join(told.split()) or 'no message'} (--debug shows where)"
        if isinstance(error, RuntimeError):
            from logit_correction.distributed import is_lost_process

            if is_lost_process(error):
                told = f"another process of this run has ended, perhaps for want of memory: continue with: {again}"
    _print_error(f"error: {told}")
    return 2 if isinstance(error, InputError) else 1


def _print_error(text: str) -> None:
    print(wrap_prose(text, sys.stderr), file=sys.stderr)
