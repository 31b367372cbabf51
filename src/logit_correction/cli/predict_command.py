"""``logit-correction predict RUN INPUT...``: labels and probabilities for new files, folders, tables, or a stream."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from logit_correction.cli.arguments import Parser, add_trust
from logit_correction.errors import InputError

if TYPE_CHECKING:
    from logit_correction.runs.chunks import Chunk
    from logit_correction.runs.run import Run

#: Stands for standard input.
STREAM = Path("-")


def main(arguments: list[str]) -> int:
    """Predict new rows and write a CSV."""
    options = _parser().parse_args(arguments)
    if STREAM in options.inputs and len(options.inputs) > 1:
        raise InputError("- stands for standard input: give it alone")
    from logit_correction.runs.api import load
    from logit_correction.runs.chunks import chunks_of_files
    from logit_correction.runs.stream import chunks_of_stream

    if options.out is not None:
        _check_answers(options.out, options.inputs)
    model = load(options.run, trust_code=options.trust_code)
    # A descriptor of its own, for a thread may still wait on it when the program ends.
    stream = os.fdopen(os.dup(0), "rb") if options.inputs == [STREAM] else None
    chunks = chunks_of_files(model, options.inputs) if stream is None else chunks_of_stream(model, stream)
    _write(options.out, _answers(model, chunks))
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
    add_trust(parser)
    return parser


def _check_answers(path: Path, inputs: list[Path]) -> None:
    """Return if what is written at ``path`` takes the place of no input, and its name does not call it Parquet.

    Raises:
        InputError: Otherwise, or if its folder is missing or ``path`` is a folder.
    """
    from logit_correction.data.frames import PARQUET
    from logit_correction.runs.folder import check_parent

    check_parent(path, "--out")
    if path.suffix.lower() in PARQUET:
        raise InputError(f"--out {path}: CSV is written, not Parquet: give a .csv")
    there = [os.stat(0 if one == STREAM else one) for one in inputs if one == STREAM or one.exists()]
    if path.exists() and any(os.path.samestat(path.stat(), one) for one in there):
        raise InputError(f"--out {path} is an input itself, which would be lost: give another file")


def _answers(model: Run, chunks: Iterator[Chunk]) -> Iterator[list[list[str]]]:
    """Yield the lines of the CSV, those of its header first, a few rows at a time."""
    header: str | None = None
    for chunk in chunks:
        probability = model.probabilities_of(chunk.store)
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
