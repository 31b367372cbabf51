"""All loggers of a run, begun together; one that fails is left out, and the training goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logit_correction.config import TrainingConfig
from logit_correction.errors import InputError, reason_of
from logit_correction.extras import needed
from logit_correction.files import read_json, write_text
from logit_correction.pages.estimated import flat_figures
from logit_correction.pages.tables import groups_table
from logit_correction.registry import resolve
from logit_correction.training.loggers import LOGGERS
from logit_correction.training.loggers.base import RunLogger

#: What each logger needs to go on with its run.
KEPT = "loggers.json"

#: Figures of the test block that are logged at the end, and the columns of the groups.
_FIGURES = (
    *("average", "group_balanced", "worst_group", "worst_class", "minority", "majority"),
    *("estimated_minority", "estimated_majority"),
)
_COLUMNS = ["label", "attribute", "count", "accuracy", "low", "high"]


def check_loggers(config: TrainingConfig) -> None:
    """Return if all loggers are there, and what they need is installed.

    Raises:
        InputError: Otherwise; names the command that installs it.
    """
    for name in config.logger:
        kind = _kind(name)
        for package in kind.packages:
            needed(package, f"--logger {name}", kind.extra, ", or leave it out")


def _kind(name: str) -> type[RunLogger]:
    return resolve("logger", name, LOGGERS, RunLogger)


def _identities(path: Path) -> dict[str, str]:
    """Return under which identity each logger of a run that goes on has logged.

    Raises:
        InputError: If the file is damaged.
    """
    fix = "remove it, and the loggers begin anew"
    kept = read_json(path, fix)
    if not isinstance(kept, dict) or not all(isinstance(identity, str) for identity in kept.values()):
        raise InputError(f"{path} cannot be read (it holds no names): {fix}")
    return kept


class Loggers:
    """The loggers of a run.

    Args:
        names: Those of the loggers.
        folder: Of the run.
        say: Told of a logger that fails.

    Raises:
        InputError: One cannot begin, such as one that has to be logged in.
    """

    def __init__(self, names: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
        self._there: dict[str, RunLogger] = {}
        self._say = say
        kept: dict[str, str] = {}
        if names and (folder / KEPT).is_file():
            kept = _identities(folder / KEPT)
        for name in names:
            try:
                self._there[name] = _kind(name)(folder, kept.get(name))
            except Exception as error:  # each raises kinds of its own
                self.finish(False)
                reason = reason_of(error)
                raise InputError(f"--logger {name} cannot begin ({reason}): fix that, or leave it out") from error
        identities = {name: logger.identity for name, logger in self._there.items()}
        known = {name: identity for name, identity in identities.items() if identity is not None}
        if known and known != kept:
            write_text(folder / KEPT, json.dumps(known) + "\n")

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Give figures to all."""
        self._each(lambda logger: logger.log_metrics(metrics, step))

    def log_options(self, options: Mapping[str, Any]) -> None:
        """Give the options of the run to all."""
        self._each(lambda logger: logger.log_options(options))

    def log_report(self, report: Mapping[str, Any], step: int) -> None:
        """Give the figures of the test split and its groups to all; of unnamed attributes also estimated groups."""
        test = report["test"]
        figures = flat_figures(test)
        known = {f"test/{name}": figures[name] for name in _FIGURES if figures.get(name) is not None}
        groups = groups_table(dict(report)).reindex(columns=_COLUMNS)
        groups[["label", "attribute"]] = groups[["label", "attribute"]].astype(object).map(_name)
        self.log_metrics(known, step)
        self._each(lambda logger: logger.log_groups(groups, report, step))

    def finish(self, done: bool) -> None:
        """Close all."""
        self._each(lambda logger: logger.finish(done))

    @contextmanager
    def closing(self) -> Iterator[Loggers]:
        """Close all when the block ends, as done or as stopped."""
        try:
            yield self
        except BaseException:
            self.finish(False)
            raise
        self.finish(True)

    def _each(self, act: Callable[[RunLogger], None]) -> None:
        for name, logger in list(self._there.items()):
            try:
                act(logger)
            except Exception as error:  # a training does not end because a server is away
                del self._there[name]
                self._say(f"warning: --logger {name} failed and gets no further figures ({reason_of(error)})")


def _name(value: Any) -> str:
    return "" if value is None or value != value else str(value)
