"""``logit-correction predict RUN INPUT...``: labels and probabilities for new files."""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.cli.arguments import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from logit_correction.runs import TrainedRun

#: Columns of a CSV that may hold the files' names, the first that is there.
FILE_COLUMNS = ("path", "file", "filename", "image")


def main(arguments: list[str]) -> int:
    """Predict new files and write a CSV."""
    parser = Parser("predict", "Labels and probabilities for new files, a folder or a CSV.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder that `train` wrote")
    parser.add_argument(
        "inputs",
        type=Path,
        nargs="+",
        metavar="INPUT",
        help=f"files, folders, or a CSV with a column {', '.join(FILE_COLUMNS)} of files beside it; for a run on "
        "Table a CSV or Parquet file with its columns",
    )
    parser.add_argument("--out", type=Path, help="CSV to write; standard output by default")
    options = parser.parse_args(arguments)
    from logit_correction.runs import load
    from logit_correction.runs.folder import check_parent

    if options.out is not None:
        check_parent(options.out)
    model = load(options.run)
    header, rows = predicted(model, options.inputs)
    _write(options.out, [[header, "label", *(f"probability_{name}" for name in model.label_names)], *rows])
    return 0


def predicted(model: TrainedRun, inputs: Sequence[Path]) -> tuple[str, list[list[str]]]:
    """Return what the first column names, and a row of the CSV for every new input, in their order."""
    from logit_correction.data.tabular_io import is_table

    parts: list[tuple[list[str], NDArray[np.float32]]] = []
    header = "path"
    for tables, group in groupby(inputs, lambda path: model.source.reads_tables and is_table(path)):
        if not tables:
            files = expand(list(group))
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


def expand(inputs: Sequence[Path]) -> list[Path]:
    """Return the files that files, folders and CSVs stand for.

    Raises:
        InputError: If something is missing, a folder holds no images, or a CSV's files leave its folder.
    """
    from logit_correction.data.image_io import SUFFIXES
    from logit_correction.errors import InputError

    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            images = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            if not images:
                raise InputError(f"{path} holds no images ({', '.join(SUFFIXES)})")
            found += images
        elif not path.is_file():
            raise InputError(f"{path} does not exist: give files, folders or a CSV")
        elif path.suffix.lower() == ".csv":
            found += _listed(path)
        else:
            found.append(path)
    return found


def _listed(path: Path) -> list[Path]:
    """Return the files that a CSV names; they may not leave the CSV's folder."""
    from logit_correction.errors import InputError

    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            column = next((name for name in FILE_COLUMNS if name in (reader.fieldnames or [])), None)
            if column is None:
                raise InputError(f"{path} has no column {', '.join(FILE_COLUMNS)}: name the column of files so")
            names = [(reader.line_num, row[column] or "") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}") from error
    bad = [f"row {line}: {name!r} {fault}" for line, name in names if (fault := _fault(path.parent, name))]
    if bad:
        more = f" and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise InputError(f"{path}: {', '.join(bad[:10])}{more}: name files in the folder of the CSV")
    return [path.parent / name for _, name in names]


def _fault(folder: Path, name: str) -> str:
    """Return what is wrong with a file that a CSV in ``folder`` names; empty if nothing is."""
    try:
        place = (folder / name).resolve()
        if not place.is_relative_to(folder.resolve()):
            return "lies outside of its folder"
        return "" if place.is_file() else "is missing"
    except (OSError, ValueError) as error:
        return f"is no file name ({error})"


def _write(out: Path | None, rows: list[list[str]]) -> None:
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
        return
    from logit_correction.files import replacing

    with replacing(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    print(out)
