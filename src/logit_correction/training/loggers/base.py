"""What every logger is: it takes a run's options, its figures over time, and its groups at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd


class RunLogger(ABC):
    """One place for the figures of one run. Made of the run's folder when training begins or goes on.

    Attributes:
        extra: The extra of this package that installs what it needs.
        packages: What has to be installed.
    """

    extra: ClassVar[str] = ""
    packages: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __init__(self, folder: Path, kept: str | None) -> None:
        """Begin, or go on.

        Args:
            folder: Of the run.
            kept: What ``identity`` was when the run began; None of a new run.
        """

    @property
    def identity(self) -> str | None:
        """What it takes to go on with the same run after a stop; None where nothing is needed."""
        return None

    @abstractmethod
    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Take figures after ``step`` steps."""

    def log_options(self, options: Mapping[str, Any]) -> None:  # noqa: B027  (some have no place for them)
        """Take the options of the run, by the names of the command line."""

    @abstractmethod
    def log_groups(self, groups: pd.DataFrame, report: Mapping[str, Any], step: int) -> None:
        """Take the groups of the test split at the end of the training.

        Args:
            groups: A row for each group: label, attribute, rows, accuracy and its interval.
            report: Content of ``report.json``.
            step: Steps done.
        """

    def finish(self, done: bool) -> None:  # noqa: B027  (some have nothing to close)
        """Close it; ``done`` is False where the training was stopped or failed."""


class LightningLogger(RunLogger):
    """A logger of Lightning's, ``self.logger``, that is given a run's figures."""

    logger: Any

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Hand on figures."""
        self.logger.log_metrics(dict(metrics), step=step)

    def finish(self, done: bool) -> None:
        """Write or send what waits, and close it."""
        self.logger.finalize("success" if done else "failed")
