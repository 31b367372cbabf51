"""Do the committed results come out again? Trains one run of each committed table and compares its metrics.

    python lab/scripts/reproduce.py                                   # the cheapest run of every table in lab/results/
    python lab/scripts/reproduce.py lab/results/ablation --row neither --column 0.5 --seed 0

A run is trained anew from the grid in the folder of its table, and all metrics are compared exactly, for each selection
rule. Prints a line for each table: its metrics are equal to the committed ones, or by how much they differ, or why the
run was not trained. Where they differ, options may have had other defaults at the commit of the table. The cheapest
runs take about 12 minutes together.
"""

from __future__ import annotations

import argparse
import io
import math
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction import InputError, train
from logit_correction_lab.comparison import RUN
from logit_correction_lab.grid import Benchmark, read_grid
from logit_correction_lab.results import MACHINE_COLUMNS, build_results_table

ROOT = Path(__file__).parents[1]

#: Columns of a table that identify a row and are not compared.
KEY_COLUMNS = (*RUN, "selection")


def reproduce_tables() -> None:
    """Train a run of each table of the command line and print how it compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="committed results; by default all of them")
    parser.add_argument("--row", help="of the run to train; by default that of the cheapest")
    parser.add_argument("--column")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--most-seconds", type=float, default=180.0, help="train no run that took longer than that")
    options = parser.parse_args()
    folders = options.folders or sorted(path.parent for path in (ROOT / "results").glob("*/table.csv"))
    for folder in folders:
        print(f"{folder.name}: {reproduce_run(folder, vars(options), options.most_seconds)}", flush=True)


def reproduce_run(folder: Path, required: Mapping[str, Any], most_seconds: float) -> str:
    """Train the cheapest admissible run of a committed table and describe how its metrics compare.

    Args:
        folder: Holds ``table.csv`` and its grid.
        required: ``row``, ``column`` and ``seed`` that the run must have; None admits any.
        most_seconds: Runs that took longer are not trained.
    """
    grids = sorted(folder.glob("*.yaml"))
    if not grids:
        return "not trained: the folder has no grid"
    table = read_table(folder / "table.csv")
    num_seeds = int(table["seed"].max()) + 1  # the grid may have been run by `--seeds` with more than it names
    for name in RUN:
        if required[name] is not None:
            table = table[table[name] == required[name]]
    if table.empty:
        return "not trained: the run is not in the table"
    run = table.sort_values(["train_seconds", *KEY_COLUMNS]).iloc[0]
    title = f"{run['row']}, {run['column']}, seed {run['seed']}"
    if run["train_seconds"] > most_seconds:
        return f"{title}: not trained: it took {run['train_seconds']:.0f} s"
    try:
        reproduced = train_run(read_grid(str(grids[0]), num_seeds), run)
    except InputError as error:
        return f"{title}: not trained: {error}"
    seconds = f"{reproduced['train_seconds'].iloc[0]:.0f} s"
    differences = list_differences(table[(table[RUN] == run[RUN]).all(axis=1)], reproduced)
    if not differences:
        return f"{title}: equal ({seconds})"
    return f"{title}: differs by {'; '.join(differences)} ({seconds}; {describe_age(str(run['commit']))})"


def read_table(file: Path | io.StringIO) -> pd.DataFrame:
    """Read the table of a grid."""
    return pd.read_csv(file, dtype={"row": str, "column": str, "commit": str})


def train_run(benchmark: Benchmark, run: pd.Series) -> pd.DataFrame:
    """Train a run of a grid.

    Args:
        benchmark: The grid.
        run: A row of its table.

    Returns:
        The rows of the run in a table of its own, one for each selection rule.

    Raises:
        InputError: The grid lacks the run, or it cannot be trained here.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for cell in benchmark.make_cells(out):
            if [cell.row, cell.column, cell.seed] == list(run[RUN]):
                cell.folder.parent.mkdir(parents=True)
                train(cell.build_config(), cell.folder, page=False, after_epoch=cell.build_monitor())
                # Written and read, so that empty cells and numbers have the form of the committed table.
                return read_table(io.StringIO(build_results_table(benchmark, out).to_csv(index=False)))
    raise InputError("the grid in the folder of the table lacks the run")


def list_differences(committed: pd.DataFrame, reproduced: pd.DataFrame) -> list[str]:
    """Return a text for each column that differs, with the greatest difference over the selection rules.

    Args:
        committed: The rows of a run in the committed table.
        reproduced: The rows of the same run, trained again.
    """
    merged = committed.merge(reproduced, on="selection", suffixes=("", " reproduced"), how="left")
    differences = []
    for name in committed.columns.difference([*KEY_COLUMNS, *MACHINE_COLUMNS], sort=False):
        if name not in reproduced:
            differences.append(f"{name} (gone)")
            continue
        pair = merged[[name, f"{name} reproduced"]].set_axis(["old", "new"], axis=1)
        pair = pair[(pair["old"] != pair["new"]) & pair.notna().any(axis=1)]
        if pair.empty:
            continue
        numbers = pair.apply(pd.to_numeric, errors="coerce")
        gap = (numbers["new"] - numbers["old"]).abs().max()
        change = f"{pair['old'].iloc[0]} -> {pair['new'].iloc[0]}" if math.isnan(gap) else f"{gap:.3g}"
        differences.append(f"{name} {change}")
    return differences


def describe_age(commit: str) -> str:
    """Describe how many commits to the source have followed a commit."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", f"{commit}..HEAD", "--", "../src", "src"]
    count = subprocess.run(command, capture_output=True, text=True)
    if count.returncode:
        return f"measured at commit {commit}, which is not in this repository"
    return (
        f"measured at commit {commit}, {int(count.stdout)} commits to the source ago: defaults may have changed since"
    )


if __name__ == "__main__":
    reproduce_tables()
