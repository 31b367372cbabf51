"""The command line: one file a command, with a ``main(arguments) -> int``, imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

from logit_correction import __version__
from logit_correction.cli.stopping import stoppable
from logit_correction.errors import InputError, InputWarning, TrainingError, did_you_mean
from logit_correction.files import NoRoom

#: Command -> one line.
COMMANDS = {
    "quickstart": "train ERM and LC on the embedded digits and write a report page; under a minute",
    "train": "train one method on one data set and write a run folder",
    "audit": "is there a shortcut in data without group labels, what is it, which rows?",
    "evaluate": "show the group table of a finished run",
    "predict": "labels and probabilities for new files, a folder or a CSV",
    "export": "the predicting network for other programs: ONNX, torch.export, safetensors, Hugging Face Hub",
    "report": "one page that compares runs",
    "tune": "choose options of a run by its validation rows, on Optuna",
    "benchmark": "a grid of runs: methods, variants of the data and seeds",
    "data": "a contact sheet of a data source, to look at before training",
    "list": "what there is: methods, data, networks, benchmarks",
}


#: What torch says where it cannot have the memory that it needs.
_OF_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")


def usage() -> str:
    """Return the help of the program."""
    lines = [
        "usage: logit-correction COMMAND ...",
        "",
        "Train classifiers that do not lean on spurious correlations, without group labels.",
        "",
        "commands:",
        *(f"  {name:<12}{line}" for name, line in COMMANDS.items()),
        "",
        "  COMMAND --help   the options of a command",
        "  --version        the version",
        "  --print_completion SHELL   a script that completes commands and options in bash, zsh or tcsh",
        "  --debug          with any command: show where an error came from",
        "",
        "exit status: 0 done, 1 the work failed, 2 the arguments or the input are wrong,",
        "3 the verdict of `audit --fail-on`, 130 interrupted",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(__version__)
        return 0
    command, *rest = arguments
    if command not in COMMANDS and command != "--print_completion":
        hint = did_you_mean(command, COMMANDS)
        print(f"error: there is no command {command!r}{hint}: take one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        with stoppable():
            return _run(command, rest)
    except BaseException as error:
        if debug or isinstance(error, SystemExit):
            raise
        return _report(error)


def _run(command: str, rest: list[str]) -> int:
    """Import a command, run it and return its exit status."""
    if command == "--print_completion":
        from logit_correction.cli.completion import script

        print(script(" ".join(rest), COMMANDS))
        return 0
    module = importlib.import_module(f"logit_correction.cli.{command}_command")
    with warnings.catch_warnings():
        _show_plainly()
        status = int(module.main(rest))
    sys.stdout.flush()
    return status


def _show_plainly() -> None:
    """Let warnings of the input be shown without the place in the program that they come from."""
    show = warnings.showwarning

    def show_plainly(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, InputWarning):
            print(f"warning: {message}", file=sys.stderr)
        else:
            show(message, category, *where, **more)

    warnings.showwarning = show_plainly


def _report(error: BaseException) -> int:
    """Say in one message what went wrong and return the exit status."""
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    if isinstance(error, InputError | TrainingError):
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    if isinstance(error, NoRoom):
        full = f"{error.filename} cannot be written ({error.strerror}): make room, or give another place"
        print(f"error: {full}", file=sys.stderr)
        return 1
    if isinstance(error, BrokenPipeError):
        # Nobody reads on, as in `... | head`; the interpreter would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OF_MEMORY):
        print("error: there is not enough memory: take a smaller network, batch or image size", file=sys.stderr)
        return 1
    message = " ".join(str(error).split()) or "no message"
    print(f"error: {type(error).__name__}: {message} (--debug shows where)", file=sys.stderr)
    return 1
