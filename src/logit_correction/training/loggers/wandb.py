"""Weights & Biases, by Lightning's logger."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.training.loggers.base import LightningLogger


class WeightsAndBiases(LightningLogger):
    """A run named like the run folder, which holds its files.

    The environment says the rest: WANDB_PROJECT (by default logit-correction), WANDB_ENTITY, and WANDB_MODE=offline
    to send nothing.
    """

    extra = "wandb"
    packages = ("wandb", "lightning")

    def __init__(self, folder: Path, kept: str | None) -> None:
        """Begin a run, or go on with the one that was begun."""
        from lightning.pytorch.loggers import WandbLogger

        project = os.environ.get("WANDB_PROJECT", "logit-correction")
        going_on: dict[str, Any] = {} if kept is None else {"id": kept, "resume": "allow"}
        self.logger = WandbLogger(name=folder.absolute().name, save_dir=folder, project=project, **going_on)
        self.run = self.logger.experiment

    @property
    def identity(self) -> str:
        """The id of the run."""
        return str(self.run.id)

    def log_options(self, options: Mapping[str, Any]) -> None:
        """Send the options as the run's config."""
        self.logger.log_hyperparams(dict(options))

    def log_groups(self, groups: pd.DataFrame, report: Mapping[str, Any], step: int) -> None:
        """Send the groups as a table."""
        self.logger.log_table("groups", dataframe=groups)

    def finish(self, done: bool) -> None:
        """End the run, so that a next one in this process is another."""
        self.run.finish(exit_code=0 if done else 1)
