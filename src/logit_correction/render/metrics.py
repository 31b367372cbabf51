"""From the many rows of ``metrics.csv`` to the few points of a curve."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def _epoch_number(table: pd.DataFrame) -> NDArray[np.int64]:
    """(rows,) 0, 1, 2 ...: the epochs of all stages, counted through in the order in which they come."""
    stage = table["stage"] if "stage" in table else pd.Series(0, index=table.index)
    keys = list(zip(stage.fillna(0), table["epoch"], strict=True))
    order = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([order[key] for key in keys], dtype=np.int64)


def _progress(table: pd.DataFrame) -> NDArray[np.float64]:
    """(rows,) epochs that are done after each row, with the part of an epoch that its steps are."""
    number = _epoch_number(table)
    step = pd.Series(table["step"].to_numpy(float))
    by_epoch = step.groupby(number)
    first, last = by_epoch.transform("min"), by_epoch.transform("max")
    step = step.fillna(last)
    return number + ((step - first + 1) / (last - first + 1)).to_numpy(float)


def curve_points(table: pd.DataFrame, column: str, most: int = 120) -> pd.DataFrame:
    """Return a curve of at most ``most`` points: what was recorded, averaged over equal stretches of the training.

    Args:
        table: ``metrics.csv`` with the columns step, epoch and stage; a missing value is an empty cell.
        column: The column to draw.
        most: Largest number of points.

    Returns:
        Frame with the columns ``epoch`` (epochs done, a fraction within an epoch) and ``value``; empty where the
        column is missing or holds no finite number.

    >>> table = pd.DataFrame({"step": range(6), "epoch": [0, 0, 0, 1, 1, 1], "loss": [6.0, 5, 4, 3, 2, 1]})
    >>> curve_points(table, "loss", most=2)
       epoch  value
    0    1.0    5.0
    1    2.0    2.0
    """
    if column not in table or table.empty:
        return pd.DataFrame({"epoch": [], "value": []})
    points = pd.DataFrame({"epoch": _progress(table), "value": pd.to_numeric(table[column], errors="coerce")})
    points = points[np.isfinite(points["value"])]
    if len(points) > most:
        stretch = np.ceil(points["epoch"] * most / points["epoch"].max()).astype(int)
        points = points.groupby(stretch).agg({"epoch": "max", "value": "mean"})
    return points.reset_index(drop=True)


def stage_ends(table: pd.DataFrame) -> list[int]:
    """Return after how many epochs each stage but the last ends."""
    if "stage" not in table or table.empty:
        return []
    last = pd.Series(_epoch_number(table)).groupby(table["stage"].fillna(0).to_numpy()).max() + 1
    return [int(end) for end in sorted(last)[:-1]]
