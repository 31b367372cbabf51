"""Test predictions of all runs of a grid in one file, and paired differences between rows of the grid.

Two methods that were trained with the same seeds and tested on the same rows share most of their error: a test row that
is hard for one is hard for the other. So rows of a grid are compared seed by seed and test row by test row, which needs
the predictions of each run and not only its accuracy.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from logit_correction.atomic_files import replace_atomically
from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import Report
from logit_correction.pages.compare import CONFIDENCE, compute_t_interval_margin
from logit_correction.paths import reject_special_file
from logit_correction.runs.folder import PREDICTIONS
from logit_correction.types import UNKNOWN_ATTRIBUTE, Array, Correlation
from logit_correction_lab.grid import Cell

#: Columns that identify a run of a grid.
RUN = ["row", "column", "seed"]


# -- Predictions


def collect_benchmark_predictions(cells: Iterable[Cell]) -> pd.DataFrame:
    """Return the test predictions of finished runs, by the weights that each run's own selection rule chose.

    The rows of a run are sorted by label and attribute, which makes the file small. Runs on the same test rows have
    them in the same order.

    Args:
        cells: Finished runs; those without a file of predictions are left out.

    Returns:
        A line for each test row of each run: ``row``, ``column`` and ``seed`` identify the run; ``test_set`` is a
        checksum of the test rows, equal for runs that may be paired; ``label`` and ``prediction`` are codes 0..L-1;
        ``attribute`` is 0..K-1, and -1 where unknown; ``minority`` is whether the row conflicts with the correlation,
        where that is known; columns ``group_0`` and so on exist where the data have overlapping groups. ``attrs`` holds
        the names of labels and attributes by column of the grid.
    """
    frames = [pd.DataFrame(columns=[*RUN, "test_set", "label", "attribute", "minority", "prediction"])]
    names: dict[str, dict[str, list[str]]] = {"label_names": {}, "attribute_names": {}}
    for cell in cells:
        file = cell.folder / PREDICTIONS
        if not file.is_file():
            continue
        predictions = Predictions.load(file)
        frame = _build_test_row_columns(predictions, Report.read(cell.folder))
        frames.append(frame.assign(row=cell.row, column=cell.column, seed=cell.seed))
        names["label_names"][cell.column] = list(predictions.label_names)
        names["attribute_names"][cell.column] = list(predictions.attribute_names)
    if len(frames) == 1:
        return frames[0]
    combined = pd.concat(frames[1:], ignore_index=True)
    combined = combined.astype({"row": "category", "column": "category", "seed": "int16"})
    combined = combined[[*RUN, *combined.columns.difference(RUN, sort=False)]]
    combined.attrs.update(names)
    return combined


def _build_test_row_columns(predictions: Predictions, report: Report) -> pd.DataFrame:
    """Return the columns of ``collect_benchmark_predictions`` that describe the test rows of one run."""
    attribute = predictions.attribute
    if attribute is None:
        attribute = np.full(len(predictions), UNKNOWN_ATTRIBUTE)
    columns: dict[str, Array] = {"label": predictions.label, "attribute": attribute}
    if predictions.membership is not None:
        columns |= {f"group_{group}": column for group, column in enumerate(predictions.membership.T)}
    checksum = zlib.crc32(b"".join(values.tobytes() for values in (predictions.index, *columns.values())))
    frame = pd.DataFrame({"test_set": np.full(len(predictions), checksum, np.uint32), **columns})
    frame["minority"] = pd.array([pd.NA] * len(frame), dtype="boolean")
    if report.data.correlation is not None and predictions.attribute is not None:
        correlation = Correlation.from_table(report.data.correlation, len(predictions.attribute_names))
        conflicts = correlation.is_minority(torch.from_numpy(predictions.label), torch.from_numpy(attribute))
        frame["minority"] = pd.Series(conflicts, dtype="boolean").where(attribute != UNKNOWN_ATTRIBUTE)
    frame["prediction"] = predictions.prediction
    for name in ("label", "attribute", "prediction"):  # the smallest type that holds the codes
        frame[name] = pd.to_numeric(frame[name], downcast="unsigned" if frame[name].min() >= 0 else "integer")
    return frame.sort_values(list(columns), ignore_index=True)


def write_benchmark_predictions(frame: pd.DataFrame, path: Path) -> None:
    """Write what ``collect_benchmark_predictions`` returns as a Parquet file, about 4 kB for a run of 10,000 rows."""
    with replace_atomically(path) as temporary:
        frame.to_parquet(temporary, index=False, compression="zstd", compression_level=19)


def read_benchmark_predictions(path: Path | str) -> pd.DataFrame:
    """Return the test predictions of all runs of a grid, for metrics and tests of your own.

    Args:
        path: A folder that ``logit-correction benchmark`` wrote, or the file ``predictions.parquet`` in it.

    Returns:
        The columns of ``collect_benchmark_predictions``.

    Raises:
        InputError: The file is missing or damaged.
    """
    path = Path(path)
    if path.is_dir():
        path = path / PREDICTIONS
    try:
        return pd.read_parquet(reject_special_file(path))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist: name a folder that `logit-correction benchmark` wrote") from error
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(f"{path} cannot be read ({error}): run the same `logit-correction benchmark` again") from error


# -- Differences


@dataclass(frozen=True)
class Influence:
    """What each test row of a run adds to the sampling error of an accuracy.

    Attributes:
        test_set: Checksum of the test rows.
        values: (N,) contribution of each row; they sum to 0, and their squares sum to the variance.
        floor: Variance that remains where no row of a small group contradicts the others.
    """

    test_set: int
    values: NDArray[np.float64]
    floor: float


def compute_influence(rows: pd.DataFrame, metric: str) -> Influence | None:
    """Return by how much each test row moves an accuracy, from which the error of sampling test rows follows.

    An accuracy is a weighted mean of the accuracies of groups; row i of group g contributes
    ``weight_g (right_i - accuracy_g) / size_g``. The floor is ``sum of (weight_g / size_g)^2``, as if each group had
    one more row that disagrees (Agresti and Min, 2005): three rows that are all right do not prove an accuracy of 1.

    Args:
        rows: The rows of one run in ``collect_benchmark_predictions``.
        metric: A ``metric`` of a grid.

    Returns:
        The contributions; None where the groups of this metric are unknown.
    """
    right = (rows["prediction"] == rows["label"]).to_numpy(np.float64)
    group = _assign_metric_groups(rows, metric)
    inside = group >= 0
    if not inside.any():
        return None
    _, code, size = np.unique(group[inside], return_inverse=True, return_counts=True)
    accuracy = np.bincount(code, right[inside]) / size
    weight = np.full(len(size), 1 / len(size))
    if metric in ("worst_group", "worst_class"):
        weight = np.eye(len(size))[accuracy.argmin()]
    values = np.zeros(len(rows))
    values[inside] = (weight / size)[code] * (right[inside] - accuracy[code])
    return Influence(int(rows["test_set"].iloc[0]), values, float(((weight / size) ** 2).sum()))


def _assign_metric_groups(rows: pd.DataFrame, metric: str) -> NDArray[np.int64]:
    """Return the group (N,) of each row whose accuracies a metric is made of; -1 for rows outside of all."""
    label = rows["label"].to_numpy(np.int64)
    attribute = rows["attribute"].to_numpy(np.int64)
    if metric == "average":
        return np.zeros_like(label)
    if metric == "worst_class":
        return label
    if metric in ("minority", "majority"):
        is_inside = (rows["minority"] == (metric == "minority")).fillna(False).to_numpy(bool)
        return np.where(is_inside, 0, -1)
    if metric in ("group_balanced", "worst_group"):
        return np.where(attribute >= 0, label * (attribute.max() + 1) + attribute, -1)
    return np.full_like(label, -1)  # the adjusted average needs the training rows of each group


@dataclass(frozen=True)
class Difference:
    """How much more accurate one row of a grid is than another in a column, in percentage points.

    Attributes:
        mean: Mean over the seeds that both rows have.
        margin: Half the width of its 90 % interval; NaN where it cannot be estimated.
        seeds: Number of these seeds.
    """

    mean: float
    margin: float
    seeds: int

    @property
    def has_interval(self) -> bool:
        """Whether more than one seed, or predictions, tell how much of it may be chance."""
        return not math.isnan(self.margin)

    @property
    def interval_holds_zero(self) -> bool:
        """Whether chance alone may explain it; false where there is no interval."""
        return abs(self.mean) <= self.margin

    def __str__(self) -> str:
        if not self.has_interval:
            return f"{self.mean:+.1f}"
        return f"{self.mean:+.1f} ({self.mean - self.margin:+.1f} to {self.mean + self.margin:+.1f})"


@dataclass(frozen=True)
class Comparison:
    """Paired differences between the rows of a grid.

    Attributes:
        scores: (row, column, seed) -> accuracy in %.
        influences: (row, column, seed) -> what its test rows contribute to the error; only runs with predictions.
    """

    scores: pd.Series[float]
    influences: Mapping[tuple[str, str, int], Influence]

    @classmethod
    def from_runs(
        cls, scores: pd.Series[float], predictions: pd.DataFrame | None, metrics: Mapping[str, str]
    ) -> Comparison:
        """Return the comparison of runs.

        Args:
            scores: See the class.
            predictions: See ``collect_benchmark_predictions``; without them intervals hold the seeds' variation alone.
            metrics: Column of the grid -> its metric.
        """
        influences: dict[Any, Influence] = {}
        if predictions is not None:
            for run, rows in predictions.groupby(RUN, observed=True):
                influence = compute_influence(rows, metrics[str(run[1])])
                if influence is not None:
                    influences[run] = influence
        return cls(scores, influences)

    @cached_property
    def means(self) -> pd.DataFrame:
        """Mean over the seeds, rows by columns; NaN where no run is finished."""
        return self.scores.groupby(level=["row", "column"]).mean().unstack("column")

    def estimate_difference(self, column: str, row: str, reference: str) -> Difference | None:
        """Return by how much ``row`` differs from ``reference`` in a column; None where no seed is in both.

        The interval is Student's over the paired differences of the seeds, which holds what initial weights, order of
        rows and, where they are drawn anew, data change. It is widened, as independent errors add, by the sampling of
        test rows, which seeds may share; an interval over seeds alone would be of these test rows only.

        Args:
            column: Column of the grid.
            row: Row of the grid.
            reference: Row that it is compared with.
        """
        differences = (self._get_scores(column, row) - self._get_scores(column, reference)).dropna()
        if differences.empty:
            return None
        row_error = 100 * math.sqrt(self._compute_row_variance(column, row, reference, list(differences.index)))
        margin = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * row_error
        if len(differences) > 1:
            margin = math.hypot(compute_t_interval_margin(list(differences)), np.nan_to_num(margin))
        return Difference(float(differences.mean()), margin, len(differences))

    def find_best_rows(self, column: str) -> list[str]:
        """Return the best row of a column, then those whose difference from it may be chance."""
        best, differences = self._compare_with_best_row(column)
        return [
            best,
            *(row for row, difference in differences.items() if difference and difference.interval_holds_zero),
        ]

    def count_unjudged_rows(self, column: str) -> int:
        """Return of how many rows it cannot be said whether their difference from the best row is chance."""
        _, differences = self._compare_with_best_row(column)
        return sum(difference is None or not difference.has_interval for difference in differences.values())

    def _compare_with_best_row(self, column: str) -> tuple[str, dict[str, Difference | None]]:
        """Return the row of the highest mean, and the difference of each other row from it in order of their means."""
        ranked = self.means[column].dropna().sort_values(ascending=False, kind="stable")
        best, *others = map(str, ranked.index)
        return best, {row: self.estimate_difference(column, row, best) for row in others}

    def _get_scores(self, column: str, row: str) -> pd.Series[float]:
        """Return the accuracies of the runs of a cell by seed."""
        names = self.scores.index
        is_cell = (names.get_level_values("row") == row) & (names.get_level_values("column") == column)
        return self.scores[is_cell].droplevel(["row", "column"])

    def _compute_row_variance(self, column: str, row: str, reference: str, seeds: Collection[int]) -> float:
        """Return the variance of a mean difference by the sampling of test rows; NaN where predictions are missing.

        Contributions to the same test row add up, over both rows of the grid and all seeds; test sets are independent.
        """
        sums: dict[int, NDArray[np.float64]] = {}
        floor = 0.0
        for sign, name in ((1, row), (-1, reference)):
            for seed in seeds:
                influence = self.influences.get((name, column, seed))
                if influence is None:
                    return math.nan
                sums[influence.test_set] = sums.get(influence.test_set, 0.0) + sign * influence.values
                floor += influence.floor / (2 * len(seeds))
        sampled = sum(float((values**2).sum()) for values in sums.values())
        return sampled / len(seeds) ** 2 + floor / len(sums)
