"""Lightning's CSVLogger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.files import replacing
from logit_correction.training.loggers.base import LightningLogger


class CsvFile(LightningLogger):
    """``csv/version_0/metrics.csv`` in the run folder, and a further version each time that the run goes on."""

    def __init__(self, folder: Path, kept: str | None) -> None:
        from lightning_fabric.loggers import CSVLogger

        self.logger = CSVLogger(folder, name="csv")

    def log_groups(self, groups: pd.DataFrame, report: Mapping[str, Any], step: int) -> None:
        """Write ``groups.csv`` beside the figures."""
        with replacing(Path(self.logger.log_dir) / "groups.csv") as temporary:
            groups.to_csv(temporary, index=False)
