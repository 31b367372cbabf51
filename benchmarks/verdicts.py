"""What the search for a shortcut concludes on the data of a grid, without the training that follows it.

    python benchmarks/verdicts.py shortcut-free planted --out verdicts.csv            # all columns, one seed
    python benchmarks/verdicts.py planted --columns control --seeds 3 --out verdicts.csv

The search is that of the grid's row ``--row``, an LC by default, and the same as in ``train``: no attribute label is
read, of any split. Where the verdict is not ``shortcut`` LC trains as ERM does, so nothing else has to be measured.
What stands in the file is not measured again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from logit_correction.bench.grid import read
from logit_correction.files import replacing
from logit_correction.runs.estimate import estimates_of
from logit_correction.runs.write import environment
from logit_correction.training.display import Display

FIGURES = ("verdict", "view", "ratio", "information", "rows", "follows_view", "follows_low", "sentence")
KEY = ["grid", "column", "seed"]


def main() -> None:
    """Search in one column after the other, and write each verdict at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grids", nargs="+", help="shipped grids by name, or files")
    parser.add_argument("--row", default="LC", help="the row of the grid whose search it is")
    parser.add_argument("--columns", nargs="+", default=[""], help="texts of which the name of a column has one in it")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("verdicts.csv"))
    options = parser.parse_args()
    found: list[dict[str, Any]] = pd.read_csv(options.out).to_dict("records") if options.out.is_file() else []
    told = {tuple(row[name] for name in KEY) for row in found}
    cells = [
        (grid, cell)
        for grid in options.grids
        for cell in read(grid, options.seeds).cells(Path())
        if cell.row == options.row
        and any(text in cell.column for text in options.columns)
        and (grid, cell.column, cell.seed) not in told
    ]
    for number, (grid, cell) in enumerate(cells, 1):
        started = time.monotonic()
        evidence = estimates_of(cell.config(), Display())[0].evidence or {}
        seconds, machine = time.monotonic() - started, environment(torch.device("cpu"))
        figures = {name: evidence.get(name) for name in FIGURES}
        key = dict(zip(KEY, (grid, cell.column, cell.seed), strict=True))
        found.append(key | figures | {"seconds": round(seconds), "commit": machine["commit"]})
        with replacing(options.out) as file:
            pd.DataFrame(found).to_csv(file, index=False)
        said = f"{cell.column}, seed {cell.seed}: {figures['verdict']} ({figures['view'] or 'no view'})"
        print(f"[{number}/{len(cells)}] {said}, {seconds:.0f} s", file=sys.stderr, flush=True)
    table = pd.DataFrame(found)
    print(table.groupby(["grid", "verdict"]).size().to_string())


if __name__ == "__main__":
    main()
