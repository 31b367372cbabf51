"""The files that a table names: none leads out of its folder, by whatever way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from logit_correction.data.problems import Problems
from logit_correction.files import is_within

#: What is said of a name that leaves its folder.
_OUTSIDE = "lies outside of"


def files_within(
    root: Path,
    names: Sequence[str | None],
    problems: Problems,
    column: str = "",
    look: bool = True,
    also: Path | None = None,
    advice: str = "",
) -> list[Path]:
    """Return the files that the rows of a table name; a name that leaves ``root`` is a problem of its row.

    Args:
        root: The folder.
        names: M names, None or empty where there is none.
        problems: Problems of the M rows, more are added.
        column: What names the files, for messages.
        look: Whether to look at each file: it must be there, and no link may lead out of ``root``.
        also: Another folder, for names that are no files in ``root``.
        advice: What to do about names that leave the folder.

    Returns:
        M paths, ``root`` itself for bad names.
    """
    folders = [root] if also is None else [root, also]
    bases = [(folder, (os.path.realpath if look else os.path.abspath)(folder)) for folder in folders]
    paths = []
    for row, name in enumerate(names):
        faults = []
        for folder, base in bases:
            path = folder / (name or "")
            fault = _fault_of(path, name, folder, base, look) if name else f"column {column!r} is empty"
            if not fault:
                break
            faults.append(fault)
        else:
            path = root
            outside = any(_OUTSIDE in fault for fault in faults)
            problems.add(row, " and ".join(dict.fromkeys(faults)), advice if outside else "")
        paths.append(path)
    return paths


def _fault_of(path: Path, name: str, root: Path, base: str, look: bool) -> str:
    """Return what is wrong with a file of a name in ``root``, whose full path is ``base``; nothing if it is good."""
    if "\0" in name or not is_within(path, base, follow=look):
        return f"{name!r} {_OUTSIDE} {root}"
    return f"{name!r} is missing in {root}" if look and not os.path.isfile(path) else ""
