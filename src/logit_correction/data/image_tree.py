"""Folders of images as people have them: which are labels or splits, and which files in them are images."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from logit_correction.data.image_io import SUFFIXES
from logit_correction.data.problems import Problems, format_faults
from logit_correction.data.splits import split_name
from logit_correction.errors import InputError, format_first
from logit_correction.files import is_within

#: The table of a folder; where it is, the names of folders mean nothing.
METADATA = "metadata.csv"

#: Folders that programs leave behind, beside those whose names begin with a dot.
_LEFT_BEHIND = ("__MACOSX", "__pycache__")

#: Folders that a message names.
MOST_NAMED = 10


@dataclass(frozen=True)
class FoundImages:
    """The images in some folders.

    Attributes:
        files: n files, folder by folder, in order.
        names: n names, within the root of all.
        folders: For each file, in which of the folders it was found.
        problems: What is wrong with links among them.
        notes: What a user should be told: what was left out.
    """

    files: list[Path]
    names: list[str]
    folders: list[Path]
    problems: Problems
    notes: list[str]


def is_hidden(name: str) -> bool:
    """Return whether a file or a folder of this name is none of the user's.

    >>> is_hidden("._cat.png"), is_hidden("__MACOSX"), is_hidden("_cat.png")
    (True, True, False)
    """
    return name.startswith(".") or name in _LEFT_BEHIND


def visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, in order.

    Raises:
        InputError: If a link there leads to nothing.
    """
    visible = sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    for path in visible:
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path} {_fault_of_link(path, '')}: remove it, or put a folder of images there")
    return [path for path in visible if path.is_dir()]


def visible_files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files and the links in a folder and in those below it, and whether each is a link.

    Raises:
        InputError: If a folder cannot be looked into.
    """
    try:
        with os.scandir(folder) as opened:
            entries = [entry for entry in opened if not is_hidden(entry.name)]
    except OSError as error:
        raise InputError(f"{folder} cannot be looked into ({error.strerror}): permit it, or remove it") from error
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from visible_files(folder / entry.name)
        elif entry.is_symlink() or entry.is_file():
            yield folder / entry.name, entry.is_symlink()


def folders_with_splits(root: Path) -> tuple[dict[Path, str | None], list[str]]:
    """Return the folders in a folder, each with the split that it is, and what a user should be told.

    All are splits, or all are labels, whose split is None. They are splits if each has the name of one and there are
    several; one alone is a split if it holds folders rather than images.

    Raises:
        InputError: If some look like splits and others do not.
    """
    folders = visible_folders(root)
    splits = {folder: split_name(folder.name, numbers=False) for folder in folders}
    others = format_first([folder.name for folder, split in splits.items() if split is None], MOST_NAMED)
    if not others and (len(folders) > 1 or any(map(_holds_folders, folders))):
        return splits, []
    if any(split == "train" and _holds_folders(folder) for folder, split in splits.items()):
        raise InputError(
            f"{root} holds folders of splits and others ({others}): give either train, valid and test, each with a "
            "folder per label, or a folder per label; if train is a label, rename its folder"
        )
    labels = [folder.name for folder, split in splits.items() if split is not None]
    notes = [f"{root}: {', '.join(labels)} is taken for a label and not for a split, as {others} beside it name none"]
    return dict.fromkeys(folders), notes if labels and others else []


def find_images(root: Path, folders: Iterable[Path]) -> FoundImages:
    """Find the images in folders and in all below them.

    Args:
        root: The folder of all; links may not leave it.
        folders: Folders in it, or itself.

    Raises:
        InputError: If they hold no images, or one cannot be looked into.
    """
    found: list[tuple[Path, Path]] = []
    links: set[Path] = set()
    notes: list[str] = []
    other: list[Path] = []
    for folder in folders:
        own: list[Path] = []
        for path, link in visible_files(folder):
            # A link that leads to no file is told of, whatever its name: it may stand for a folder of images.
            is_image = path.suffix.lower() in SUFFIXES or (link and not path.is_file())
            (own if is_image else other).append(path)
            if link:
                links.add(path)
        if not own:
            notes.append(f"{folder} holds no image ({', '.join(SUFFIXES)})")
        found += [(path, folder) for path in sorted(own)]
    if other:  # in one line: each folder may hold what its owner's computer puts into every folder
        what = "1 file is no image" if len(other) == 1 else f"{len(other):,} files are no images"
        notes.append(f"{what} by name and left out: {format_faults([str(path) for path in sorted(other)])}")
    if not found:
        raise InputError(f"{root} holds no images ({', '.join(SUFFIXES)})")
    files = [path for path, _ in found]
    names = [path.relative_to(root).as_posix() for path in files]
    problems = Problems(str(root), names)
    _note_links(files, links, os.path.realpath(root), problems)
    return FoundImages(files, names, [folder for _, folder in found], problems, notes)


def _holds_folders(folder: Path) -> bool:
    """Return whether a folder holds folders and, beside them, no images."""
    return bool(visible_folders(folder)) and not any(path.suffix.lower() in SUFFIXES for path in folder.iterdir())


def _note_links(files: list[Path], links: set[Path], base: str, problems: Problems) -> None:
    """Note links, and files in linked folders, that lead to no file within ``base``."""
    outside = {folder for folder in {path.parent for path in files} if not is_within(folder, base)}
    for row, path in enumerate(files):
        fault = _fault_of_link(path, base) if path in links or path.parent in outside else None
        if fault is not None:
            problems.add(row, fault)


def _fault_of_link(path: Path, base: str) -> str | None:
    """Return what is wrong with a link, or with a file in a linked folder; None with any other file."""
    try:
        path.stat()
    except OSError as error:
        return "is a link that leads to itself" if error.errno == errno.ELOOP else "is a link to nothing"
    if not is_within(path, base):
        return f"is a link that leaves the folder, to {os.path.realpath(path)}: put the file itself there"
    return None if path.is_file() else "is a link to a folder: put the folder itself there"
