"""Which runs of a grid cannot be trained, since their data are not at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from logit_correction.bench.grid import Cell
from logit_correction.config import RunConfig
from logit_correction.errors import InputError


class DataMissing(InputError):
    """The data of all runs of a grid are missing."""


def missing_data(cells: Sequence[Cell], configs: Mapping[Path, RunConfig]) -> dict[str, list[Cell]]:
    """Look for the data of runs, once for each way to build them; what a source may download is downloaded now.

    Args:
        cells: The runs.
        configs: Their complete configs, by their folders.

    Returns:
        What is missing and where to put it -> the runs that need it.

    Raises:
        InputError: If an option of a source is wrong.
    """
    from logit_correction.runs.assemble import build_source

    looked: dict[str, str | None] = {}
    missing: dict[str, list[Cell]] = {}
    for cell in cells:
        data = configs[cell.folder].data
        options = {name: value for name, value in data.options.items() if name != "seed"}
        key = json.dumps([data.name, options], sort_keys=True, default=str)
        if key not in looked:
            source = build_source(configs[cell.folder])
            try:
                source.ensure_files()
                looked[key] = None
            except InputError as error:
                looked[key] = str(error)
        reason = looked[key]
        if reason is not None:
            missing.setdefault(reason, []).append(cell)
    return missing


def format_cells(cells: Sequence[Cell]) -> str:
    """Say which columns cells are of.

    >>> format_cells([Cell("ERM", "bFFHQ", 0, {}, Path()), Cell("LC", "bFFHQ", 0, {}, Path())])
    'column bFFHQ is'
    """
    columns = list(dict.fromkeys(cell.column for cell in cells))
    return f"column {columns[0]} is" if len(columns) == 1 else f"columns {', '.join(columns)} are"
