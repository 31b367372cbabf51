"""Tables of numbers with a shortcut in a column of names: what weight decay does for ERM and LC.

    python lab/scripts/weight_decay.py --seeds 200 201 --jobs 2

The names of a column go with one label in 95 % of the training and validation rows, and with each label alike in the
test. "ERM, no shortcut" has them at random everywhere. LC is told which column it is, so that nothing but its training
is compared. The default was chosen on the seeds 100 and 101.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from numpy.random import Generator
from numpy.typing import NDArray

from logit_correction import from_table, train

#: Names of the column; so many go with each label.
NAMES = 40

#: Rows of the test.
TEST_ROWS = 3000

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def shifted(distance: float) -> Callable[[Generator, int], Rows]:
    """Return a function that draws two normal clouds of four numbers, so far apart in each."""

    def draw(random: Generator, rows: int) -> Rows:
        label = random.integers(0, 2, rows)
        return random.normal(size=(rows, 4)) + distance * (label - 0.5)[:, None], label

    return draw


def wide(random: Generator, rows: int) -> Rows:
    """Return a hundred numbers of which five tell of the label."""
    label = random.integers(0, 2, rows)
    numbers = random.normal(size=(rows, 100))
    numbers[:, :5] += 1.2 * (label - 0.5)[:, None]
    return numbers, label


def five_labels(random: Generator, rows: int) -> Rows:
    """Return five clouds of eight numbers."""
    centres = np.random.default_rng(7).normal(size=(5, 8))
    label = random.integers(0, 5, rows)
    return centres[label] + random.normal(size=(rows, 8)), label


def product(random: Generator, rows: int) -> Rows:
    """Return four numbers; the label is the sign of the first times the second, with noise."""
    numbers = random.normal(size=(rows, 4))
    return numbers, (numbers[:, 0] * numbers[:, 1] + 0.3 * random.normal(size=rows) > 0).astype(np.int64)


def ring(random: Generator, rows: int) -> Rows:
    """Return four numbers; the label is their distance from the middle, with noise."""
    numbers = random.normal(size=(rows, 4))
    return numbers, (np.square(numbers).sum(1) + random.normal(size=rows) > 3.36).astype(np.int64)


def waves(random: Generator, rows: int) -> Rows:
    """Return four numbers; the label is a pattern of waves over two of them, without noise."""
    numbers = random.uniform(-2, 2, size=(rows, 4))
    return numbers, (np.sin(3 * numbers[:, 0]) + np.sin(3 * numbers[:, 1]) > 0).astype(np.int64)


#: Set -> how its rows are drawn, and how many are trained on.
SETS: dict[str, tuple[Callable[[Generator, int], Rows], int]] = {
    "clouds, .7 apart": (shifted(0.7), 2400),
    "clouds, 1.2 apart": (shifted(1.2), 2400),
    "clouds, .7 apart, many rows": (shifted(0.7), 20_000),
    "clouds, 1.2 apart, few rows": (shifted(1.2), 500),
    "five labels": (five_labels, 3000),
    "wide": (wide, 2400),
    "product": (product, 4000),
    "ring": (ring, 4000),
    "waves": (waves, 4000),
}


def frame(name: str, seed: int, shortcut: bool) -> pd.DataFrame:
    """Return the rows of a set with its column of names, the attribute, the label and the split."""
    draw, train_rows = SETS[name]
    random = np.random.default_rng(seed)
    parts = []
    for split, rows in (("train", train_rows), ("valid", train_rows // 8), ("test", TEST_ROWS)):
        numbers, label = draw(random, rows)
        labels = int(label.max()) + 1
        goes = random.integers(0, labels, rows)
        if shortcut and split != "test":
            other = (label + random.integers(1, labels, rows)) % labels
            goes = np.where(random.random(rows) < 0.95, label, other)
        names = goes + labels * random.integers(0, NAMES // labels, rows)
        columns = {f"number {i}": numbers[:, i] for i in range(numbers.shape[1])}
        columns |= {"name": [f"name {one:02}" for one in names], "goes with": [f"label {one}" for one in goes]}
        parts.append(pd.DataFrame({**columns, "label": [f"label {one}" for one in label], "split": split}))
    return pd.concat(parts, ignore_index=True)


def accuracy(name: str, seed: int, method: str, decay: float | None, folder: str) -> dict[str, Any]:
    """Train one run and return its test accuracy, group-balanced where there is a shortcut."""
    torch.set_num_threads(1)
    rows = frame(name, seed, shortcut=method != "ERM, no shortcut")
    features = [column for column in rows if column not in ("goes with", "label", "split")]
    columns = {"label": "label", "attribute": "goes with", "split": "split", "features": features}
    data = from_table(rows, **columns, folder=folder)
    options: dict[str, Any] = {"method": "LC", "shortcut": ["column:name"]} if method == "LC" else {"method": "ERM"}
    report = train(data, seed=seed, weight_decay=decay, threads=1, device="cpu", page=False, **options).report
    figure = report["test"]["average" if method == "ERM, no shortcut" else "group_balanced"]
    return {
        "set": name,
        "method": method,
        "weight decay": "default" if decay is None else f"{decay:g}",
        "%": 100 * figure,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[200, 201])
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    methods = ("ERM, no shortcut", "ERM", "LC")
    wanted = [(s, seed, m, d) for s in SETS for seed in chosen.seeds for m in methods for d in (0.0, None)]
    with tempfile.TemporaryDirectory() as folder:
        found = Parallel(n_jobs=chosen.jobs)(delayed(accuracy)(*one, folder) for one in wanted)
    table = pd.DataFrame(found).pivot_table(index="set", columns=["method", "weight decay"], values="%", sort=False)
    print(table.round(1).to_string())
    print(table.mean().round(1).to_string())


if __name__ == "__main__":
    main()
