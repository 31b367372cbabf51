"""Folders of images: which folders are labels or splits, and which files in them people did not put there.

Network drives, cameras and operating systems leave thumbnails and copies in folders. Such hidden files would be rows,
and hidden folders would be labels, so they are left out and named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from logit_correction.data.image_files import IMAGE_SUFFIXES
from logit_correction.data.rows import Rows
from logit_correction.data.splits import NEW, SPLIT_ALIASES
from logit_correction.errors import InputError
from logit_correction.formatting import format_first, format_row_count
from logit_correction.paths import is_within
from logit_correction.unicode_text import escape_undecodable, normalize_text

#: What computers and network drives put into folders, in small letters; other names begin with ``HIDDEN_PREFIXES``.
JUNK = (
    "__macosx",
    "__pycache__",
    "$recycle.bin",
    "#recycle",
    "#snapshot",
    "~snapshot",
    "recycler",
    "recycled",
    "lost.dir",
    "network trash folder",
    "temporary items",
    "system volume information",
    "lost+found",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
)
HIDDEN_PREFIXES = (".", "@")


def is_hidden_name(name: str) -> bool:
    """Return whether a computer, not a person, put a file or a folder of this name there."""
    return name.startswith(HIDDEN_PREFIXES) or name.casefold() in JUNK


def is_image_name(path: Path | str) -> bool:
    """Return whether a file is an image by its name."""
    return Path(path).suffix.lower() in IMAGE_SUFFIXES


def list_visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, in order, without hidden ones."""
    return sorted(path for path in folder.iterdir() if not is_hidden_name(path.name) and path.is_dir())


def list_own_images(folder: Path) -> list[Path]:
    """Return the images in a folder itself, in order, without hidden ones."""
    visible = [path for path in sorted(folder.iterdir()) if not is_hidden_name(path.name)]
    return [path for path in visible if is_image_name(path) and path.is_file()]


def walk_folder(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files in a folder and in those below it, in order, links to folders among them; and hidden paths.

    Hidden are folders that hold something, and files that are images by name.
    """

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be looked into ({error.strerror}): permit it, or remove it")

    paths: list[Path] = []
    hidden: list[Path] = []
    for parent, folders, files in os.walk(folder, onerror=refuse):
        hidden += find_hidden_paths(Path(parent), folders, files)
        folders[:] = [name for name in folders if not is_hidden_name(name)]
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        paths += [Path(parent, name) for name in (*files, *links) if not is_hidden_name(name)]
    return sorted(paths), hidden


def find_hidden_paths(parent: Path, folders: Iterable[str], files: Iterable[str]) -> list[Path]:
    """Return the hidden folders that hold something, and the hidden files that are images by name.

    Args:
        parent: The folder that they lie in.
        folders: Names of folders in it.
        files: Names of files in it.
    """
    hidden = [parent / name for name in folders if is_hidden_name(name)]
    holding = [folder for folder in hidden if os.access(folder, os.R_OK) and os.listdir(folder)]
    return holding + [parent / name for name in files if is_hidden_name(name) and is_image_name(name)]


def find_label_folders(root: Path) -> dict[Path, str | None]:
    """Return the folder of every label with its split, None if ``root`` has no folders of splits.

    Folders are splits if each has the name of one and there are several, or one that holds folders.

    Raises:
        InputError: If folders of labels seem to hold those of other labels.
    """
    folders = list_visible_folders(root)
    splits = {folder: SPLIT_ALIASES.get(folder.name.strip().lower()) for folder in folders}
    has_images = {
        folder: any(is_image_name(path) and not is_hidden_name(path.name) for path in folder.iterdir())
        for folder in folders
    }
    inner = {folder: [] if has_images[folder] else list_visible_folders(folder) for folder in folders}
    if all(splits.values()) and (len(folders) > 1 or any(inner.values())):
        labels = {label: splits[folder] for folder in folders for label in list_visible_folders(folder)}
        return labels | {folder: NEW for folder in folders if splits[folder] == NEW and has_images[folder]}
    names = [path.name for paths in inner.values() for path in paths]
    repeated = {name for name in names if names.count(name) > 1}
    if len(repeated) > 1 or any(splits[folder] and inner[folder] for folder in folders):
        example = next(folder for folder in folders if inner[folder])
        raise InputError(
            f"{root} holds folders that hold folders ({format_first(sorted(set(names)))}): give one of "
            f"them, such as {example}; if they are the labels, list their images in a CSV and give that"
        )
    return dict.fromkeys(folders)


def find_images(root: Path, folders: Mapping[Path, str | None]) -> tuple[Rows, list[str]]:
    """Find the images in folders of ``root``, or in itself, and in all below them; links may not leave it.

    Args:
        root: The folder.
        folders: Folders in it, each with its split or None, as ``find_label_folders`` returns them.

    Returns:
        The rows, with the name of the folder as their label, with its split if it has one, and with errors for links
        that lead nowhere or leave ``root``; and notes for the user.
    """
    hidden: list[Path] = []
    loose = []
    folder_of_file: dict[Path, Path] = {}
    for parent in sorted({root, *(folder.parent for folder in folders if folder != root)} - {*folders}):
        paths = sorted(parent.iterdir())
        hidden += find_hidden_paths(parent, [path.name for path in paths if path.is_dir()], [])
        loose += list_own_images(parent)
        lost = [path for path in paths if not path.exists() and not is_hidden_name(path.name)]
        folder_of_file |= dict.fromkeys(lost, parent)  # links, perhaps to a folder that was moved
    other = []
    notes = []
    suffixes = ", ".join(IMAGE_SUFFIXES)
    for folder in folders:
        paths, hidden_below = walk_folder(folder)
        hidden += hidden_below
        # A link that leads to no file is reported under any name: it may stand for a folder of images.
        images = [path for path in paths if is_image_name(path) or not path.is_file()]
        for path in images:
            folder_of_file.setdefault(path, folder)  # those below a folder of rows to predict were found in their label
        other += [escape_undecodable(path) for path in paths if path not in folder_of_file]
        if not images:
            notes.append(f"{escape_undecodable(folder)} holds no image ({suffixes})")
    if not folder_of_file:
        raise InputError(f"{root} holds no images ({suffixes})")
    if loose:
        names = [escape_undecodable(path.relative_to(root)) for path in loose]
        count = format_row_count(len(loose))
        notes.append(f"{count} beside the folders of labels, hence without a label: {format_first(names)}")
    if hidden:
        names = [escape_undecodable(path.relative_to(root)) for path in sorted(hidden)]
        notes.append(f"what computers put into folders is not read: {format_first(names, separator='; ')}")
    if other:  # in one line: each folder may hold what its owner's computer puts into every folder
        notes.append(f"files that are not images by name are left out: {format_first(other, separator='; ')}")
    labels = {
        folder: None if split and folder.parent == root else normalize_text(escape_undecodable(folder.name))
        for folder, split in folders.items()
    }
    rows = Rows(
        str(root),
        range(len(folder_of_file)),
        folder=root,
        files=list(folder_of_file),
        label=[labels.get(folder) for folder in folder_of_file.values()],  # None in the folder of a split itself
        split=[folders.get(folder) for folder in folder_of_file.values()] if any(folders.values()) else None,
    )
    base = os.path.realpath(root)
    outside = {parent for parent in {path.parent for path in folder_of_file} if not is_within(parent, base)}
    for row, path in enumerate(folder_of_file):
        if path.parent in outside or (path.is_symlink() and not is_within(path, base)):
            rows.errors.add(row, f"is a link that leaves the folder, to {os.path.realpath(path)}")
        elif not path.is_file():
            rows.errors.add(row, "is a link to no file")
    return rows, notes
