"""New rows a few at a time, from files, folders and tables, so that they need not fit into memory together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.data.frames import is_table
from logit_correction.data.images import SUFFIXES
from logit_correction.data.stores import InputStore
from logit_correction.runs.new_files import image_files

if TYPE_CHECKING:
    from logit_correction.runs.run import Run


@dataclass(frozen=True)
class Chunk:
    """Some new rows.

    Attributes:
        header: What names a row: ``path``, ``line`` or ``row``.
        names: n names.
        store: The rows as the source reads them.
    """

    header: str
    names: list[str]
    store: InputStore


def chunks_of_files(run: Run, inputs: Sequence[Path]) -> Iterator[Chunk]:
    """Yield the rows of files, folders and tables in their order, images a few at a time, a table as a whole.

    Raises:
        InputError: If something is missing or bad. Images that cannot be read are told of at the end, all at once.
    """
    for tables, group in groupby(inputs, partial(_is_table, run)):
        if not tables:
            for store, looks in run.parts(image_files(list(group))):
                yield Chunk("path", [str(file) for file in looks["files"]], store)
            continue
        for file in group:
            header, names, store = run.source.read_table(file)
            if len(inputs) > 1 and header != "path":
                names = [f"{file}:{name}" for name in names]
            yield Chunk(header, names, store)


def _is_table(run: Run, path: Path) -> bool:
    """Return whether a run reads an input as a table: by its name, or since it takes no images and this is none."""
    if not run.source.reads_tables or is_table(path):
        return run.source.reads_tables
    return run.source.image_size is None and path.is_file() and path.suffix.lower() not in SUFFIXES
