"""``logit-correction predict RUN INPUT...``: labels and probabilities for new files."""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.cli.arguments import Parser, add_trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from logit_correction.runs import TrainedRun


def main(arguments: list[str]) -> int:
    """Predict new files and write a CSV."""
    parser = Parser("predict", "Labels and probabilities for new files, a folder or a CSV.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder that `train` wrote")
    parser.add_argument(
        "inputs",
        type=Path,
        nargs="+",
        metavar="INPUT",
        help="files, folders, or a CSV with a column path, file, filename or image of files beside it; for a run on "
        "Table a CSV or Parquet file with its columns",
    )
    parser.add_argument("--out", type=Path, help="CSV to write; standard output by default")
    add_trust(parser)
    options = parser.parse_args(arguments)
    from logit_correction.runs import load
    from logit_correction.runs.folder import check_parent

    if options.out is not None:
        check_parent(options.out)
    model = load(options.run, trust_code=options.trust_code)
    header, rows = predicted(model, options.inputs)
    _write(options.out, [[header, "label", *(f"probability_{name}" for name in model.label_names)], *rows])
    return 0


def predicted(model: TrainedRun, inputs: Sequence[Path]) -> tuple[str, list[list[str]]]:
    """Return what the first column names, and a row of the CSV for every new input, in their order."""
    from logit_correction.data.tabular_io import is_table
    from logit_correction.runs.new_files import image_files

    parts: list[tuple[list[str], NDArray[np.float32]]] = []
    header = "path"
    for tables, group in groupby(inputs, lambda path: model.source.reads_tables and is_table(path)):
        if not tables:
            files = image_files(list(group))
            parts.append(([str(file) for file in files], model.predict_proba(files)))
            continue
        for file in group:
            header, names, probability = model.predict_file(file)
            several = len(inputs) > 1 and header == "row"
            parts.append(([f"{file}:{name}" if several else name for name in names], probability))
    return header, [
        [name, model.label_names[int(row.argmax())], *(f"{value:.6g}" for value in row)]
        for names, probability in parts
        for name, row in zip(names, probability, strict=True)
    ]


def _write(out: Path | None, rows: list[list[str]]) -> None:
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
        return
    from logit_correction.files import replacing

    with replacing(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    print(out)
