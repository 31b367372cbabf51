"""Where the finished runs of a grid lie, in its own folder and in others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.benchmark.grid import Benchmark, Cell
from logit_correction.errors import InputError

if TYPE_CHECKING:
    from logit_correction.config import RunConfig

#: Options that say where and how fast a run goes and differ between machines, not what comes out of it.
OF_THE_PLACE = ("data.root", "data.download", "threads", "workers", "log_every", "tensorboard")


@dataclass
class Found:
    """The folders of finished runs.

    Attributes:
        folders: A cell's own folder -> the folder that its run was found in; the grid's own goes before others.
        notes: What a person should know: runs of other options, runs that contradict each other.
    """

    folders: dict[Path, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, cell: Cell) -> Path | None:
        """Return the folder of the cell's finished run, or None."""
        return self.folders.get(cell.folder)


def find(
    benchmark: Benchmark, out: Path, also: Sequence[Path] = (), configs: Mapping[Path, RunConfig] | None = None
) -> Found:
    """Look for the finished runs of a grid.

    Args:
        benchmark: The grid.
        out: Its own folder.
        also: Further folders of the same grid; their runs count if their options are the same but for the place.
        configs: Complete configs by folder, where they are known already.

    Raises:
        InputError: A further folder is missing, or is the grid's own.
    """
    from logit_correction.runs.folder import is_finished

    found = Found()
    for folder in also:
        if not folder.is_dir():
            raise InputError(f"--also {folder} is not a folder: give one that `benchmark` has written")
        if folder.resolve() == out.resolve():
            raise InputError(f"--also {folder} is --out itself: leave it out")
    for cell in benchmark.cells(out):
        places = [cell.folder, *(folder / cell.folder.relative_to(out) for folder in also)]
        finished = [place for place in places if is_finished(place)]
        others = [place for place in finished if place != cell.folder]
        if others:
            config = (configs or {}).get(cell.folder) or cell.config()
            refused = [note for place in others if (note := _refusal(place, config)) is not None]
            found.notes += refused
            finished = [place for place in finished if place == cell.folder or _refusal(place, config) is None]
        if not finished:
            continue
        found.folders[cell.folder] = finished[0]
        for place in finished[1:]:
            if _figures(place) != _figures(finished[0]):
                found.notes.append(
                    f"{finished[0]} and {place} hold the same run with different figures; the first one counts"
                )
    return found


def _refusal(folder: Path, config: RunConfig) -> str | None:
    from logit_correction.runs.folder import difference

    try:
        changed = difference(folder, config, ignore=OF_THE_PLACE)
    except InputError as error:
        return f"not counted: {error}"
    return None if changed is None else f"not counted: {changed}"


def _figures(folder: Path) -> list[Any]:
    """What came out of a run."""
    from logit_correction.runs.folder import read_report

    report = read_report(folder)
    return [report["test"], [other["test"] for other in report["other_selections"]]]
