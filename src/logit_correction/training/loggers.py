"""Lightning's loggers, which take a run's figures beside ``metrics.csv``: by name, or as they are."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from logit_correction.errors import InputError, InputWarning, reason_of
from logit_correction.registry import needed, resolve
from logit_correction.training import LOGGERS

#: Project and experiment where the environment names none.
PROJECT = "logit-correction"


def find_logger(name: str) -> type[Any]:
    """Return the class that a name or a dotted path stands for.

    Raises:
        InputError: If there is none, or what it needs is not installed.
    """
    for package in (name, "lightning") if name in ("wandb", "mlflow") else (name,) if name == "tensorboard" else ():
        needed(package, f"--logger {name}", name, ", or leave it out")
    return resolve("logger", name, LOGGERS)


def make_logger(name: str, folder: Path) -> Any:
    """Return a logger of a name or a dotted path that writes into ``folder``, or where the environment says.

    Raises:
        InputError: If it cannot begin, such as one that has to be logged in.
    """
    cls = find_logger(name)
    options: dict[str, dict[str, Any]] = {
        "csv": {"root_dir": folder, "name": "csv"},
        "tensorboard": {"root_dir": folder, "name": "", "version": "tensorboard", "default_hp_metric": False},
        "wandb": {"name": folder.name, "save_dir": folder, "project": os.environ.get("WANDB_PROJECT", PROJECT)},
        "mlflow": {
            "run_name": folder.name,
            "experiment_name": os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT),
            # The environment first, for MLflow remembers the store of an earlier run of this process.
            "tracking_uri": os.environ.get("MLFLOW_TRACKING_URI"),
        },
    }
    places = [place for place in ("root_dir", "save_dir") if place in inspect.signature(cls).parameters]
    try:
        return cls(**options.get(name, dict.fromkeys(places, folder)))
    except Exception as error:  # each raises kinds of its own
        raise InputError(f"--logger {name} cannot begin ({reason_of(error)}): fix that, or leave it out") from error


def tell(loggers: list[Any], act: Callable[[Any], object]) -> None:
    """Let each logger do something; one that fails is left out with a warning, and the training goes on."""
    for logger in list(loggers):
        try:
            with suppress(NotImplementedError):  # some have no place for options
                act(logger)
        except Exception as error:  # a training does not end because a server is away
            loggers.remove(logger)
            name = type(logger).__name__
            warnings.warn(f"{name} failed and gets no further figures ({reason_of(error)})", InputWarning, stacklevel=2)


@contextmanager
def logging_to(
    names: Sequence[str], given: Sequence[Any], folder: Path, options: Mapping[str, Any]
) -> Iterator[list[Any]]:
    """Begin the loggers of these names and those given with the options of a run; close them when the block ends."""
    made = [make_logger(name, folder.absolute()) for name in names]
    loggers, status = [*made, *given], "failed"
    tell(loggers, lambda logger: logger.log_hyperparams(dict(options)))
    try:
        yield loggers
        status = "success"
    finally:
        tell(loggers, lambda logger: logger.finalize(status))
        if "wandb" in names:  # else the next run of this process would go on in this one
            made[names.index("wandb")].experiment.finish(exit_code=int(status == "failed"))
