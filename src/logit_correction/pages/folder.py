"""Finished run folders as a page reads them, and the means over those that differ only by their seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from logit_correction.config import PLACE_OF_DATA, PLACE_OF_TRAINING
from logit_correction.errors import InputError
from logit_correction.evaluation.report import FIX, Report
from logit_correction.files import check_seal, plain
from logit_correction.functional.groups import wilson_interval
from logit_correction.pages.estimated import flat_figures, sides
from logit_correction.sentences import format_name

#: Training options that change where and how fast a run goes, not what comes out of it.
_NOT_THE_METHOD = {*PLACE_OF_TRAINING, "also_select", "deterministic", "device", "devices", "nodes", "selection"}
_NOT_THE_METHOD |= {"watch"}

#: Options of a data source that change the draw or the place of the files, not what the data is.
_NOT_THE_TASK = {"seed", *PLACE_OF_DATA}


@dataclass(frozen=True)
class RunFolder:
    """A finished run: its place, its ``report.json`` and its ``metrics.csv`` (an empty frame if missing)."""

    path: Path
    report: dict[str, Any]
    metrics: pd.DataFrame

    @classmethod
    def read(cls, path: Path | str) -> RunFolder:
        """Read a run folder.

        Raises:
            InputError: The folder holds no finished run, or a file of it is damaged.
        """
        path = Path(path)
        report = Report.read(path).to_dict()
        metrics = path / "metrics.csv"
        check_seal(metrics, FIX)
        try:
            return cls(path, report, _numbers(pd.read_csv(plain(metrics))) if metrics.exists() else pd.DataFrame())
        except (OSError, ValueError) as error:
            raise InputError(f"{metrics} cannot be read ({error}): {FIX}, or remove it") from error

    @property
    def test(self) -> dict[str, Any]:
        """Figures on the test split; those by estimated group as ``estimated_minority`` and so on."""
        return flat_figures(self.report["test"])

    @property
    def groups(self) -> pd.DataFrame:
        """Groups of the test split, with the columns of ``GroupReport.groups`` that ``report.json`` has."""
        return self._frame(self.test["groups"])

    @property
    def estimated_groups(self) -> pd.DataFrame | None:
        """The same of the estimated groups, two for each label; None where nothing is estimated."""
        block = self.test.get("estimated")
        return None if block is None else self._frame(sides(block["groups"]))

    def _frame(self, groups: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        columns = ["label", "attribute", "count", "accuracy", "low", "high", "minority"]
        frame = pd.DataFrame([{name: row.get(name) for name in columns} for row in groups], columns=columns)
        for name in ("accuracy", "low", "high"):
            frame[name] = frame[name].astype(float)
        if frame["low"].isna().all():
            share, count = frame["accuracy"].to_numpy(), frame["count"].to_numpy(float)
            low, high = wilson_interval(torch.from_numpy(np.nan_to_num(share) * count), torch.from_numpy(count))
            frame["low"], frame["high"] = (np.where(np.isnan(share), np.nan, end) for end in (low, high))
        return frame

    def settings(self) -> dict[str, Any]:
        """Everything but the seed that tells this run from another one on the same data."""
        report = self.report
        network = report.get("network") or {}
        settings = {
            **(report.get("method_options") or {}),
            "network": network.get("name"),
            **(network.get("options") or {}),
        }
        encoder = report.get("encoder") or {}
        if encoder:
            settings |= {"encoder": encoder["name"]}
            settings |= {f"encoder {name}": value for name, value in encoder["options"].items()}
        training = report.get("training") or {}
        settings |= {name: value for name, value in training.items() if name not in _NOT_THE_METHOD}
        rule = (report.get("selection") or {}).get("rule")
        return settings | {"epochs": report.get("epochs"), "selection": format_name(rule or "last")}

    def task(self) -> dict[str, Any]:
        """The options of the data source that make it another task."""
        options = self.report["data"].get("options") or {}
        return {name: value for name, value in options.items() if name not in _NOT_THE_TASK}


def _numbers(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the figures over time, if they are such.

    Raises:
        ValueError: A column is missing or holds something else.
    """
    missing = {"step", "epoch"} - set(metrics.columns)
    if missing:
        raise ValueError(f"it has no column {', '.join(sorted(missing))}")
    for name in metrics.columns:
        values = pd.to_numeric(metrics[name])
        if name in ("step", "epoch", "stage") and not values.dropna().between(0, 2**53).all():
            raise ValueError(f"column {name} holds what is no count")
    return metrics
