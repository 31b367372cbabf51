"""TensorBoard, by Lightning's logger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.training.loggers.base import LightningLogger


class TensorBoard(LightningLogger):
    """Events in ``tensorboard`` in the run folder."""

    extra = "tensorboard"
    packages = ("tensorboard",)

    def __init__(self, folder: Path, kept: str | None) -> None:
        """Begin a file of events; those of a run that goes on lie beside its first ones, which TensorBoard joins."""
        from lightning_fabric.loggers import TensorBoardLogger

        self.logger = TensorBoardLogger(folder, name="", version="tensorboard")

    def log_groups(self, groups: pd.DataFrame, report: Mapping[str, Any], step: int) -> None:
        """Write the groups as a table of Markdown, under Text."""
        lines = ["|".join(map(_cell, groups.columns)), "|".join("---" for _ in groups.columns)]
        lines += ["|".join(map(_cell, row)) for row in groups.itertuples(index=False)]
        self.logger.experiment.add_text("groups", "\n".join(lines), step)


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
