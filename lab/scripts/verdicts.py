"""What the search for a shortcut concludes on the data of a grid, without the training that follows it.

    python lab/scripts/verdicts.py shortcut-free planted --out verdicts.csv            # all columns, one seed
    python lab/scripts/verdicts.py planted --columns control --seeds 3 --out verdicts.csv
    python lab/scripts/verdicts.py lab/results/estimates/search.yaml --row MLP --first-seed 210 --seeds 10 --out s.csv

The search is that of the grid's row ``--row``, an LC by default, and the same as in ``train``: no attribute label is
read, of any split. Where the verdict is not ``shortcut`` LC trains as ERM does, so nothing else has to be measured.
What stands in the file is not measured again. Recall and precision of the rows that the estimate takes for conflicting
are told where an attribute of the data names labels; the search has ended when it is read.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from logit_correction.data.table import DataTable
from logit_correction.files import replacing
from logit_correction.runs.estimate import AttributeEstimates, estimates_of
from logit_correction.runs.write import environment
from logit_correction.training.display import Display
from logit_correction_lab.grid import read

FIGURES = ("verdict", "view", "probability", "ratio", "information", "rows", "follows_view", "follows_low", "sentence")
KEY = ["grid", "row", "column", "seed"]


def main() -> None:
    """Search in one column after the other, and write each verdict at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grids", nargs="+", help="shipped grids by name, or files")
    parser.add_argument("--row", default="LC", help="the row of the grid whose search it is")
    parser.add_argument("--columns", nargs="+", default=[""], help="texts of which the name of a column has one in it")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("verdicts.csv"))
    options = parser.parse_args()
    found: list[dict[str, Any]] = pd.read_csv(options.out).to_dict("records") if options.out.is_file() else []
    told = {tuple(row[name] for name in KEY) for row in found}
    cells = [
        (grid, cell)
        for grid in options.grids
        for cell in read(grid, options.first_seed + options.seeds).cells(Path())
        if cell.row == options.row
        and cell.seed >= options.first_seed
        and any(text in cell.column for text in options.columns)
        and (Path(grid).stem, cell.row, cell.column, cell.seed) not in told
    ]
    for number, (grid, cell) in enumerate(cells, 1):
        started = time.monotonic()
        config = cell.config()
        estimates = estimates_of(config, Display())[0]
        evidence = estimates.evidence or {}
        seconds, machine = time.monotonic() - started, environment(torch.device("cpu"))
        figures = {name: evidence.get(name) for name in FIGURES}
        figures |= recall_and_precision(estimates, config.data.make().build())
        key = dict(zip(KEY, (Path(grid).stem, cell.row, cell.column, cell.seed), strict=True))
        found.append(key | figures | {"seconds": round(seconds), "commit": machine["commit"]})
        with replacing(options.out) as file:
            pd.DataFrame(found).to_csv(file, index=False)
        said = f"{cell.column}, seed {cell.seed}: {figures['verdict']} ({figures['view'] or 'no view'})"
        print(f"[{number}/{len(cells)}] {said}, {seconds:.0f} s", file=sys.stderr, flush=True)
    table = pd.DataFrame(found)
    print(table.groupby(["grid", "row", "column", "verdict"]).size().to_string())
    print(table.groupby(["grid", "row", "column"])[["recall", "precision"]].agg(["mean", "min"]).round(3).to_string())


def recall_and_precision(estimates: AttributeEstimates, table: DataTable) -> dict[str, float | None]:
    """Return both of the rows whose attribute is not that of their label, None where nothing is corrected."""
    truth = table.attribute[torch.from_numpy(estimates.rows)].numpy()
    minority, flagged = truth != estimates.label, estimates.attribute != estimates.label
    if not estimates.corrects or minority.mean() > 0.5 or len(table.attribute_names) != len(estimates.label_names):
        return {"recall": None, "precision": None}
    both = int((minority & flagged).sum())
    return {"recall": both / max(int(minority.sum()), 1), "precision": both / max(int(flagged.sum()), 1)}


if __name__ == "__main__":
    main()
