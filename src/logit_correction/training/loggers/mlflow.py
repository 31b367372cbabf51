"""MLflow, by Lightning's logger."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.training.loggers.base import LightningLogger


class MLflow(LightningLogger):
    """A run named like the run folder.

    The environment says the rest: MLFLOW_TRACKING_URI (by default what MLflow takes, a store in the present folder) and
    MLFLOW_EXPERIMENT_NAME (by default logit-correction).
    """

    extra = "mlflow"
    packages = ("mlflow", "lightning")

    def __init__(self, folder: Path, kept: str | None) -> None:
        """Begin a run, or go on with the one that was begun."""
        import mlflow
        from lightning.pytorch.loggers import MLFlowLogger

        self.logger = MLFlowLogger(
            experiment_name=os.environ.get("MLFLOW_EXPERIMENT_NAME", "logit-correction"),
            run_name=folder.absolute().name,
            # The environment first, for MLflow remembers the store of an earlier run of this process.
            tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or mlflow.get_tracking_uri(),
            run_id=kept,
        )
        self.run_id = str(self.logger.run_id)

    @property
    def identity(self) -> str:
        """The id of the run."""
        return self.run_id

    def log_options(self, options: Mapping[str, Any]) -> None:
        """Send the options as the run's parameters."""
        self.logger.log_hyperparams(dict(options))

    def log_groups(self, groups: pd.DataFrame, report: Mapping[str, Any], step: int) -> None:
        """Send the groups as ``groups.csv``, and ``report.json``."""
        client = self.logger.experiment
        client.log_text(self.run_id, groups.to_csv(index=False), "groups.csv")
        client.log_dict(self.run_id, dict(report), "report.json")
