"""From the words of a command line to options as a YAML file has them: not yet checked, and nothing heavy imported."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from logit_correction.errors import InputError

#: Second names of options.
ALIASES = {"--data_root": "data.root"}

#: Short names that other programs use, for hints.
HABITS = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "num_epochs": "epochs",
    "num_workers": "workers",
    "dataset": "data",
    "algorithm": "method",
    "model": "network",
    "arch": "network",
    "output": "out",
    "output_dir": "out",
    "optim": "optimizer",
    "gpus": "devices",
}


def option_of(word: str) -> str:
    """Return the option that a word of a command line names, as options are written in files.

    >>> option_of("--batch-size=8")
    '--batch_size'
    """
    return word.partition("=")[0].replace("-", "_").replace("__", "--", 1)


def read_words(
    arguments: list[str], flags: Collection[str] = (), repeated: Collection[str] = (), where: str = ""
) -> dict[str, Any]:
    """Return the options that a command line gives, values as text.

    ``--batch-size`` is ``--batch_size``, ``--watch+`` appends to a list, and ``null`` is no value.

    Args:
        arguments: The words.
        flags: Options without a value.
        repeated: Options that may be given several times; their values come as a list.
        where: What ends the sentence about a word that is no option: where the options are.

    Raises:
        InputError: If a word is no option, an option has no value, or one of the data is given twice.

    >>> read_words(["--method=LC", "--method.prior", "Moving", "--method.prior.momentum", "0.5", "--batch-size", "8"])
    {'method': {'name': 'LC', 'prior': {'name': 'Moving', 'momentum': '0.5'}}, 'batch_size': '8'}
    """
    found: dict[str, Any] = {}
    words, before = list(reversed(arguments)), ("", "")
    while words:
        head, equals, value = words.pop().partition("=")
        if not head.startswith("--"):
            if before[1]:
                several = f"several values are written {before[0]} '[{before[1]}, {head}]'"
                raise InputError(f"{head} stands alone behind {' '.join(before)}: {several}")
            raise InputError(f"there is no option {head}{equals}{value}{where}")
        option = option_of(head)
        name = ALIASES.get(option, option[2:])
        if name in flags:
            if equals:
                raise InputError(f"--{name} takes no value")
            found[name], before = True, ("", "")
            continue
        if not equals and words and not words[-1].startswith("--"):
            value = words.pop()
        before = (head, value)
        if not value:
            raise InputError(f"--{name.removesuffix('.name')} needs a value")
        _put(found, name.split("."), None if value == "null" else value, name in repeated or name.endswith("+"))
    return found


def _put(options: dict[str, Any], path: list[str], value: str | None, several: bool) -> None:
    """Set an option inside options; one that has a value and options of its own has the value as its name."""
    *outer, last = path
    for name in outer:
        inner = options.get(name, {})
        options[name] = inner if isinstance(inner, dict) else {"name": inner}
        options = options[name]
    if several:
        options[last] = [*options.get(last, []), value]
        return
    if isinstance(options.get(last), dict) and value is not None:
        options, last = options[last], "name"
    if outer == ["data"] and options.get(last, value) != value:  # of other options the last one counts
        option, before = f"--{'.'.join(path)}", options[last]
        raise InputError(
            f"{option} is given twice, as {before} and {value}: give it once; several values are written "
            f"{option} '[{before}, {value}]'"
        )
    options[last] = value
