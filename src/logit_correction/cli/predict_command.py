"""``logit-correction predict RUN INPUT...``: labels and probabilities for new files, folders, tables, or a stream."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from logit_correction.cli.arguments import Parser, add_trust
from logit_correction.cli.show import plain_table
from logit_correction.errors import InputError
from logit_correction.percent import format_percent

if TYPE_CHECKING:
    from logit_correction.evaluation.shift import GroupShift
    from logit_correction.runs.chunks import Chunk
    from logit_correction.runs.trained import TrainedRun
    from logit_correction.runs.watch_groups import GroupWatch

#: Stands for standard input.
STREAM = Path("-")

#: Most cells of the table of watched groups.
MOST_CELLS = 20


def main(arguments: list[str]) -> int:
    """Predict new rows and write a CSV."""
    options = _parser().parse_args(arguments)
    if STREAM in options.inputs and len(options.inputs) > 1:
        raise InputError("- stands for standard input: give it alone")
    from logit_correction.runs.api import load
    from logit_correction.runs.chunks import chunks_of_files
    from logit_correction.runs.folder import write_json
    from logit_correction.runs.stream import chunks_of_stream
    from logit_correction.runs.watch_groups import GroupWatch

    for option, path, form in (("--out", options.out, ".csv"), ("--watch-out", options.watch_out, ".json")):
        if path is not None:
            _check_answers(path, option, form, options.inputs)
    model = load(options.run, trust_code=options.trust_code)
    watch = GroupWatch(model) if options.watch_groups or options.watch_out is not None else None
    # A descriptor of its own, for a thread may still wait on it when the program ends.
    stream = os.fdopen(os.dup(0), "rb") if options.inputs == [STREAM] else None
    chunks = chunks_of_files(model, options.inputs) if stream is None else chunks_of_stream(model, stream)
    try:
        _write(options.out, _answers(model, chunks, watch))
    finally:
        if watch is not None and watch.new.any():
            shift = watch.result()
            _show(shift)
            if options.watch_out is not None:
                write_json(options.watch_out, shift.to_dict())
    return 0


def _parser() -> Parser:
    parser = Parser("predict", "Labels and probabilities for new files, a folder, a CSV, or rows from standard input.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder that `train` or `export` wrote")
    parser.add_argument(
        "inputs",
        type=Path,
        nargs="+",
        metavar="INPUT",
        help="files, folders, or a CSV with a column of files beside it, such as path or image; for a run on "
        "Table a CSV or Parquet file with its columns; - reads CSV rows, JSON lines or names of image files from "
        "standard input, and answers as they come",
    )
    parser.add_argument("--out", type=Path, help="CSV to write; standard output by default")
    parser.add_argument(
        "--watch-groups",
        action="store_true",
        help="tell at the end, on standard error, whether the estimated groups have moved against training",
    )
    parser.add_argument(
        "--watch-out", type=Path, metavar="FILE.json", help="write that as JSON; implies --watch-groups"
    )
    add_trust(parser)
    return parser


def _check_answers(path: Path, option: str, form: str, inputs: list[Path]) -> None:
    """Return if what is written at ``path`` takes the place of no input, and its name does not call it Parquet.

    Raises:
        InputError: Otherwise, or if its folder is missing or ``path`` is a folder.
    """
    from logit_correction.data.tabular_io import PARQUET
    from logit_correction.runs.folder import check_parent

    check_parent(path, option)
    if path.suffix.lower() in PARQUET:
        raise InputError(f"{option} {path}: {form[1:].upper()} is written, not Parquet: give a {form}")
    there = [os.stat(0 if one == STREAM else one) for one in inputs if one == STREAM or one.exists()]
    if path.exists() and any(os.path.samestat(path.stat(), one) for one in there):
        raise InputError(f"{option} {path} is an input itself, which would be lost: give another file")


def _answers(model: TrainedRun, chunks: Iterator[Chunk], watch: GroupWatch | None) -> Iterator[list[list[str]]]:
    """Yield the lines of the CSV, those of its header first, a few rows at a time."""
    header: str | None = None
    for chunk in chunks:
        if watch is None:
            probability = model.probabilities_of(chunk.store)
        else:
            probability, rows = model.answers(chunk.store, chunk.looks())
            watch.add(probability, rows)
        lines = [
            [name, str(model.label_names[int(row.argmax())]), *(f"{value:.6g}" for value in row)]
            for name, row in zip(chunk.names, probability, strict=True)
        ]
        if header is None:
            header = chunk.header
            yield [[header, "label", *(f"probability_{name}" for name in model.label_names)], *lines]
        else:
            yield lines


def _write(out: Path | None, answers: Iterator[list[list[str]]]) -> None:
    """Write the answers as they come: to standard output, or to a file that takes its name at the end."""
    if out is None:
        _write_lines(sys.stdout, answers)
        return
    from logit_correction.files import replacing
    from logit_correction.runs.stream import StreamStopped

    stopped = None
    with replacing(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        try:
            _write_lines(file, answers)
        except StreamStopped as error:  # what was answered before is kept
            stopped = error
    if stopped is not None:
        raise stopped
    print(out)


def _write_lines(file: TextIO, answers: Iterator[list[list[str]]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for lines in answers:
        writer.writerows(lines)
        file.flush()


def _show(shift: GroupShift) -> None:
    """Print the cells that moved most, and the sentence."""
    from rich.console import Console
    from rich.text import Text  # names are the user's: they are shown as they are, whatever brackets they hold

    console = Console(stderr=True)
    numbers = ("validation %", "new rows %", "new rows")
    table = plain_table("rows by predicted label and look", ("predicted", "looks like"), numbers)
    cells = sorted(shift.cells(), key=lambda one: -abs(one["new_share"] - one["reference_share"]))
    for one in cells[:MOST_CELLS]:
        look = "cannot tell" if one["looks"] is None else one["looks"]
        shares = (format_percent(one[name], 1, "") for name in ("reference_share", "new_share"))
        style = "bold" if one["conflict"] else ""
        table.add_row(Text(one["predicted"], style=style), Text(look, style=style), *shares, f"{one['new_rows']:,}")
    console.print(table)
    if len(cells) > MOST_CELLS:
        console.print(f"the {MOST_CELLS} that moved most of {len(cells)}; --watch-out FILE.json has them all")
    console.print(shift.sentence(), highlight=False, markup=False, soft_wrap=True)
