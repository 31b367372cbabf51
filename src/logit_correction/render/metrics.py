"""From the many rows of ``metrics.csv`` to the few points of a curve."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def _steps(table: pd.DataFrame) -> Numbers:
    """(rows,) steps counted through all stages, also where a stage begins at 0 again."""
    step = table["step"].ffill().fillna(0).to_numpy(float)
    falls = np.flatnonzero(np.diff(step) < 0) + 1
    for row in falls:
        step[row:] += step[row - 1] - step[row] + 1
    return step


def _epoch_ends(table: pd.DataFrame) -> pd.DataFrame:
    """Rows that end an epoch: those of the validation, or else the last one of each epoch."""
    validation = [name for name in table.columns if str(name).startswith("valid_")]
    marked = table[validation].notna().any(axis=1) if validation else pd.Series(False, index=table.index)
    stage = table["stage"].fillna(0) if "stage" in table else pd.Series(0, index=table.index)
    ends = pd.DataFrame({"step": _steps(table), "stage": stage.to_numpy(), "epoch": table["epoch"].to_numpy()})
    if marked.any():
        ends = ends[marked.to_numpy()]
    return ends.drop_duplicates(["stage", "epoch"], keep="last")


def curve_points(table: pd.DataFrame, column: str, most: int = 120) -> pd.DataFrame:
    """Return a curve of at most ``most`` points, each the mean over an equal stretch of the training.

    Args:
        table: ``metrics.csv`` with the columns step, epoch and stage; a missing value is an empty cell.
        column: The column to draw.
        most: Largest number of points.

    Returns:
        Frame with the columns ``epoch`` (epochs done, over all stages, with fractions) and ``value``; empty
        where the column is missing or holds no finite number.

    >>> table = pd.DataFrame({"step": range(1, 7), "epoch": [0, 0, 0, 1, 1, 1], "loss": [6.0, 5, 4, 3, 2, 1]})
    >>> curve_points(table, "loss", most=2)
       epoch  value
    0    1.0    5.0
    1    2.0    2.0
    """
    if column not in table or table.empty:
        return pd.DataFrame({"epoch": [], "value": []})
    ends = _epoch_ends(table)["step"].to_numpy()
    epoch = np.interp(_steps(table), [0, *ends], range(len(ends) + 1))
    value = pd.to_numeric(table[column], errors="coerce").to_numpy(float)
    points = pd.DataFrame({"epoch": epoch, "value": value})[np.isfinite(value)]
    if len(points) > most:
        stretch = np.ceil(points["epoch"] * most / points["epoch"].max()).astype(int)
        points = points.groupby(stretch).agg({"epoch": "max", "value": "mean"})
    return points.reset_index(drop=True)


def stage_ends(table: pd.DataFrame) -> list[int]:
    """Return after how many epochs each stage but the last ends."""
    if "stage" not in table or table.empty:
        return []
    lengths = _epoch_ends(table).groupby("stage").size().cumsum()
    return [int(end) for end in lengths.iloc[:-1]]
