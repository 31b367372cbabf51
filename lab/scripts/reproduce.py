"""Do the committed results come out again? Trains one run of each committed table and compares its figures.

    python lab/scripts/reproduce.py                                   # the cheapest run of every table in lab/results/
    python lab/scripts/reproduce.py lab/results/ablation --row neither --column 0.5 --seed 0

A line says of each run whether all its figures are equal to the committed ones, by how much they differ, or why it was
not trained. Where they differ, the commit that the table names tells of the options that were the defaults then.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from logit_correction import InputError, train
from logit_correction_lab.grid import Benchmark, read_grid
from logit_correction_lab.results import MACHINE_COLUMNS, build_results_table

ROOT = Path(__file__).parents[1]

#: What names a run, and is no figure.
NAMES = ("row", "column", "seed", "selection")


@dataclass(frozen=True)
class Wanted:
    """Which run of a table is trained; None takes what the cheapest has."""

    row: str | None = None
    column: str | None = None
    seed: int | None = None


def main() -> None:
    """Train and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="committed results; by default all of them")
    parser.add_argument("--row", help="of the run to train; by default that of the cheapest")
    parser.add_argument("--column")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--most-seconds", type=float, default=180.0, help="train no run that took longer than that")
    chosen = parser.parse_args()
    folders = chosen.folders or sorted(path.parent for path in (ROOT / "results").glob("*/table.csv"))
    for folder in folders:
        said = reproduce(folder, Wanted(chosen.row, chosen.column, chosen.seed), chosen.most_seconds)
        print(f"{folder.name}: {said}", flush=True)


def reproduce(folder: Path, wanted: Wanted = Wanted(), most_seconds: float = math.inf) -> str:
    """Train one run of a committed table and return what is to be said of it.

    Args:
        folder: With ``table.csv``, and the grid beside it.
        wanted: Which run.
        most_seconds: Runs that took longer are not trained.
    """
    grids = sorted(folder.glob("*.yaml"))
    if not grids:
        return "not trained: there is no grid beside the table"
    table = read_table(folder / "table.csv")
    seeds = int(table["seed"].max()) + 1  # the grid may have been run by `--seeds` with more than it names
    for name, value in vars(wanted).items():
        table = table if value is None else table[table[name] == value]
    if table.empty:
        return "not trained: the table has no such run"
    cheapest = table.sort_values(["train_seconds", *NAMES]).iloc[0]
    committed = table[(table[list(NAMES[:3])] == cheapest[list(NAMES[:3])]).all(axis=1)]
    name = f"{cheapest['row']}, {cheapest['column']}, seed {cheapest['seed']}"
    if cheapest["train_seconds"] > most_seconds:
        return f"{name}: not trained: it took {cheapest['train_seconds']:.0f} s"
    try:
        found = _trained(read_grid(str(grids[0]), seeds), cheapest)
    except InputError as error:
        return f"{name}: not trained: {error}"
    seconds = f"{found['train_seconds'].iloc[0]:.0f} s"
    differing = differences(committed, found)
    if not differing:
        return f"{name}: equal ({seconds})"
    return f"{name}: differs by {'; '.join(differing)} ({seconds}; {_age(str(cheapest['commit']))})"


def read_table(file: Path) -> pd.DataFrame:
    """Read the table of a grid."""
    return pd.read_csv(file, dtype={"row": str, "column": str, "commit": str})


def _trained(benchmark: Benchmark, run: pd.Series) -> pd.DataFrame:
    """Train a run of a grid and return its rows of the table.

    Raises:
        InputError: If the grid has no such run any more, or it cannot be trained here.
    """
    with tempfile.TemporaryDirectory() as place:
        out = Path(place)
        for cell in benchmark.make_cells(out):
            if (cell.row, cell.column, cell.seed) == (run["row"], run["column"], run["seed"]):
                cell.folder.parent.mkdir(parents=True)
                train(cell.build_config(), cell.folder, page=False, after_epoch=cell.build_monitor())
                build_results_table(benchmark, out).to_csv(
                    out / "table.csv", index=False
                )  # gaps and numbers as in the other
                return read_table(out / "table.csv")
    raise InputError("the grid beside the table has no such run")


def differences(committed: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Return where figures differ, one entry for each column: the greatest difference over the selection rules."""
    columns = [name for name in committed if name not in (*NAMES, *MACHINE_COLUMNS)]
    both = committed.merge(found, on="selection", suffixes=("", " now"), how="left")
    told = []
    for name in columns:
        if name not in found:
            told.append(f"{name} (gone)")
            continue
        then, now = both[name], both[f"{name} now"]
        same = (then == now) | (then.isna() & now.isna())
        if same.all():
            continue
        numbers = [pd.to_numeric(one, errors="coerce") for one in (then, now)]
        gap = (numbers[1] - numbers[0])[~same].abs().max()
        told.append(f"{name} {then[~same].iloc[0]} -> {now[~same].iloc[0]}" if math.isnan(gap) else f"{name} {gap:.3g}")
    return told


def _age(commit: str) -> str:
    """Say how far the tree has moved on since a commit."""
    words = ["rev-list", "--count", f"{commit}..HEAD", "--", "../src", "src"]
    count = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    if count.returncode:
        return f"measured at commit {commit}, which is not known here"
    number = int(count.stdout)
    return f"measured at commit {commit}, {number} commits to the source ago: defaults may have changed since"


if __name__ == "__main__":
    main()
