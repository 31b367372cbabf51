"""The finished runs of a grid as frames: a row for each run and selection rule, or for each run and epoch.

Tables, figures and comparisons of a grid are made of these two frames, which are also written, as ``table.csv`` and
``history.csv``. They are read from the folders of the runs, so nothing has to be kept between two calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.evaluation.report import Report
from logit_correction.methods import METHODS
from logit_correction.runs.folder import METRICS, is_finished
from logit_correction_lab.comparison import RUN
from logit_correction_lab.grid import Benchmark, Cell
from logit_correction_lab.monitor import read_selections

#: Columns of the results that depend on the machine and the time and may differ between equal runs.
MACHINE_COLUMNS = ("train_seconds", "version", "commit", "machine")

#: Stands in the place of a selection rule for the epoch that was best on the test split. No run can be trained by it.
BEST_TEST = "best_test"


def list_finished_cells(benchmark: Benchmark, out_dir: Path) -> list[Cell]:
    """Return the finished runs of a grid in its folder ``out_dir``."""
    return [cell for cell in benchmark.make_cells(out_dir) if is_finished(cell.folder)]


def build_results_table(benchmark: Benchmark, out_dir: Path) -> pd.DataFrame:
    """Return the results of the finished runs of a grid.

    Args:
        benchmark: The grid.
        out_dir: Its folder.

    Returns:
        A row for each run and selection rule, the run's own rule first, and one for the best epoch on test where the
        test split was watched. Empty without finished runs.
    """
    rows = []
    for cell in list_finished_cells(benchmark, out_dir):
        report = Report.read(cell.folder).to_dict()
        selections = [{**report["selection"], "test": report["test"]}, *read_selections(cell.folder)]
        selections += _find_best_test_epoch(cell, benchmark.get_column_metric(cell.column), report["test"]["count"])
        rows += [_describe_selection(cell, report, selection) for selection in selections]
    return pd.DataFrame(rows)


def _describe_selection(cell: Cell, report: dict[str, Any], selection: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the results: a run with the weights that one selection rule chose."""
    minority = report["estimated_minority"] or {}
    evidence = report.get("evidence") or {}
    environment = report["environment"]
    test = {name: value for name, value in selection["test"].items() if not isinstance(value, list | dict)}
    test.pop("estimated", None)
    return {
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "selection": selection["rule"],
        "selected_epoch": selection["epoch"],
        "epochs": report["epochs"],
        "method": report["method"],
        "attributes_read": _list_splits_with_attributes_read(report, selection),
        **test,
        "minority_recall": minority.get("recall"),
        "minority_precision": minority.get("precision"),
        "verdict": evidence.get("verdict"),
        "view": evidence.get("view"),
        "train_seconds": report["seconds"]["train"],
        **{name: environment[name] for name in MACHINE_COLUMNS[1:]},
    }


def _list_splits_with_attributes_read(report: dict[str, Any], selection: dict[str, Any]) -> str:
    """Return the splits whose attributes the training or the selection rule read, with blanks between."""
    labels_read = report["labels_read"]
    in_training = "attribute" in labels_read["train"]
    by_method = "attribute" in labels_read["valid"]
    if report["method"] in METHODS and "attribute" in report["selection"]["labels_read"]:
        # The run's own rule has read them. Of the package's methods only the last layer also does so itself.
        by_method = not in_training and "TrueAttributes" in str(report["method_options"])
    by_rule = "attribute" in selection["labels_read"]
    on_test = selection["rule"] == BEST_TEST
    is_read = {
        "given": any("given attribute" in labels for labels in labels_read.values()),
        "train": in_training,
        "valid": by_method or (by_rule and not on_test),
        "test": by_rule and on_test,
    }
    return " ".join(split for split, value in is_read.items() if value)


def _find_best_test_epoch(cell: Cell, metric: str, num_test: int) -> list[dict[str, Any]]:
    """Return the epoch of the last stage with the best test metric, of equal ones the latest; empty if not watched.

    This is what much published code reports. Nothing is selected by it.
    """
    table = pd.read_csv(cell.folder / METRICS)
    table = table[table["stage"] == table["stage"].max()]
    values = table.get(f"test_{metric}", pd.Series()).dropna()
    if values.empty:
        return []
    best = table.loc[values[::-1].idxmax()]
    metrics = {name.removeprefix("test_"): float(best[name]) for name in table if name.startswith("test_")}
    labels_read = ["label"] if metric == "average" else ["label", "attribute"]
    test = {"count": num_test, **metrics}
    return [{"rule": BEST_TEST, "epoch": int(best["epoch"]), "labels_read": labels_read, "test": test}]


def build_history_table(benchmark: Benchmark, out_dir: Path) -> pd.DataFrame:
    """Return what was recorded during the training of the finished runs of a grid.

    Args:
        benchmark: The grid.
        out_dir: Its folder.

    Returns:
        A row for each run and epoch, with the columns of ``metrics.csv`` that the option ``watch`` adds. Empty where
        nothing was watched.
    """
    frames = {}
    for cell in list_finished_cells(benchmark, out_dir):
        table = pd.read_csv(cell.folder / METRICS).filter(regex="^(test|train)_").dropna(how="all")
        if len(table):
            frames[cell.row, cell.column, cell.seed] = table.set_axis(range(1, len(table) + 1))
    return pd.concat(frames, names=[*RUN, "epoch"]).reset_index() if frames else pd.DataFrame()


def select_rows_by_own_rule(results_table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``build_results_table`` by the runs' own selection rules, the first row of each run."""
    return results_table.drop_duplicates(RUN)


def compute_scores(benchmark: Benchmark, results_table: pd.DataFrame) -> pd.Series[float]:
    """Return the accuracy in % of runs by row, column and seed, each column's by its own metric.

    Args:
        benchmark: The grid.
        results_table: Rows of its ``build_results_table``, one for each run; may be empty.
    """
    metrics = dict.fromkeys([benchmark.metric, *benchmark.column_metrics.values()])
    results_table = results_table.reindex(columns=[*RUN, *metrics])
    score = results_table[benchmark.metric]
    for column, metric in benchmark.column_metrics.items():
        score = score.where(results_table["column"] != column, results_table[metric])
    return 100 * pd.to_numeric(score).set_axis(pd.MultiIndex.from_frame(results_table[RUN])).dropna()


def aggregate_scores_over_seeds(benchmark: Benchmark, results_table: pd.DataFrame) -> pd.DataFrame:
    """Return columns ``mean`` and ``std`` of the accuracies in % of each row in each column of a grid.

    Args:
        benchmark: The grid.
        results_table: Rows of its ``build_results_table``, one for each run; may be empty.
    """
    return compute_scores(benchmark, results_table).groupby(level=["row", "column"]).agg(["mean", "std"])


def describe_differing_rules(results_table: pd.DataFrame) -> str:
    """Return an addition to a sentence on runs whose own selection rules differ; empty if they are the same."""
    return (
        ", each run by its own selection rule"
        if select_rows_by_own_rule(results_table)["selection"].nunique() > 1
        else ""
    )


def describe_grid_metric(benchmark: Benchmark) -> str:
    """Return the metric of a grid in words, such as "Group-balanced test accuracy in %"."""
    others = [f"{column}: {name.replace('_', '-')}" for column, name in benchmark.column_metrics.items()]
    exceptions = f" ({', '.join(others)})" if others else ""
    return f"{benchmark.metric.replace('_', '-').capitalize()} test accuracy{exceptions} in %"
