"""Folders of images: which folders are labels or splits, and which files in them people did not put there.

Network drives, cameras and operating systems leave thumbnails and copies in folders. Such hidden files would be rows,
and hidden folders would be labels, so they are left out and named.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from logit_correction.data.image_files import IMAGE_SUFFIXES
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.splits import NEW, SPLIT_ALIASES
from logit_correction.errors import InputError
from logit_correction.formatting import format_first, format_option, format_row_count
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


class Listing(NamedTuple):
    """What lies in a folder, in order.

    Attributes:
        folders: Visible folders, and links to such.
        files: Visible files, and links that lead nowhere.
        hidden: Hidden folders that hold something, and hidden files that are images by name.
    """

    folders: list[Path]
    files: list[Path]
    hidden: list[Path]

    @property
    def images(self) -> list[Path]:
        """The images among the visible files."""
        return [path for path in self.files if is_image_name(path) and path.is_file()]


def list_folder(folder: Path) -> Listing:
    """Return what lies in a folder; ``InputError`` if it cannot be looked into."""
    listing = Listing([], [], [])
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = folder / entry.name
                is_folder = entry.is_dir()
                if not is_hidden_name(entry.name):
                    (listing.folders if is_folder else listing.files).append(path)
                elif (os.access(path, os.R_OK) and os.listdir(path)) if is_folder else is_image_name(path):
                    listing.hidden.append(path)
    except OSError as error:
        fault = f"cannot be looked into ({error.strerror}): permit it, or remove it"
        raise InputError(f"{error.filename} {fault}") from error
    return listing


def walk_folder(folder: Path) -> Listing:
    """Return what lies in a folder and in those below it; links to folders are not followed, but files."""
    listing = list_folder(folder)
    for inner in listing.folders:
        if inner.is_symlink():
            listing.files.append(inner)
        else:
            below = walk_folder(inner)
            listing.files.extend(below.files)
            listing.hidden.extend(below.hidden)
    listing.files.sort()
    return listing


def find_label_folders(root: Path) -> dict[Path, str | None]:
    """Return the folder of every label with its split, None if ``root`` has no folders of splits.

    Folders are splits if each has the name of one and there are several, or one that holds folders.

    Raises:
        InputError: If folders of labels seem to hold those of other labels.
    """
    folders = list_folder(root).folders
    listings = {folder: list_folder(folder) for folder in folders}
    splits = {folder: SPLIT_ALIASES.get(folder.name.strip().lower()) for folder in folders}
    has_images = {folder: any(map(is_image_name, listings[folder].files)) for folder in folders}
    inner = {folder: [] if has_images[folder] else listings[folder].folders for folder in folders}
    if all(splits.values()) and (len(folders) > 1 or any(inner.values())):
        labels = {label: splits[folder] for folder in folders for label in listings[folder].folders}
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


def find_labelled_images(root: Path, split_by_folder: Mapping[Path, str | None]) -> Rows:
    """Find the images in folders of ``root``, or in itself, and in all below them; links may not leave it.

    Args:
        root: The folder.
        split_by_folder: Folders in it, each with its split or None, as ``find_label_folders`` returns them.

    Returns:
        The rows, with the name of the folder as their label, with its split if it has one, with errors for links that
        lead nowhere or leave ``root``, and with notes for the user.
    """
    hidden: list[Path] = []
    loose = []
    folder_of_file: dict[Path, Path] = {}
    parents = {root, *(folder.parent for folder in split_by_folder if folder != root)}
    if any(split_by_folder.values()):
        parents.update(list_folder(root).folders)  # also splits without folders of labels
    for parent in sorted(parents - {*split_by_folder}):
        listing = list_folder(parent)
        hidden += listing.hidden
        loose += listing.images
        lost = [path for path in listing.files if not path.exists()]
        folder_of_file |= dict.fromkeys(lost, parent)  # links, perhaps to a folder that was moved
    other: list[Path] = []
    notes = []
    suffixes = ", ".join(IMAGE_SUFFIXES)
    for folder in split_by_folder:
        _, paths, hidden_below = walk_folder(folder)
        hidden += hidden_below
        # A link that leads to no file is reported under any name: it may stand for a folder of images.
        images = [path for path in paths if is_image_name(path) or not path.is_file()]
        for path in images:
            folder_of_file.setdefault(path, folder)  # those below a folder of rows to predict were found in their label
        other += [path for path in paths if path not in folder_of_file]
        if not images:
            notes.append(f"{escape_undecodable(folder)} holds no image ({suffixes})")
    if not folder_of_file and loose:
        raise InputError(
            f"{root} holds images, but none in the folder of a label: put each into a folder named by its label, or "
            "give a table that names images and labels"
        )
    if not folder_of_file:
        raise InputError(f"{root} holds no images ({suffixes})")
    labels_like_splits = [folder.name for folder in split_by_folder if folder.name.strip().lower() in SPLIT_ALIASES]
    if labels_like_splits and len(split_by_folder) > 1 and not any(split_by_folder.values()):
        fact = "folders named as splits count as labels, since others are not splits"
        notes.append(f"{fact}: {format_first(labels_like_splits)}")
    left_out = {
        f"{format_row_count(len(loose))} beside the folders of labels, hence without a label": loose,
        "what computers put into folders is not read": sorted(hidden),
        "files that are not images by name are left out": other,
    }
    for fact, paths in left_out.items():
        names = [escape_undecodable(path.relative_to(root)) for path in paths]
        notes += [f"{fact}: {format_first(names, separator='; ')}"] if names else []
    labels = {
        folder: None if split and folder.parent == root else normalize_text(escape_undecodable(folder.name)).strip()
        for folder, split in split_by_folder.items()
    }
    rows = Rows(
        str(root),
        range(len(folder_of_file)),
        folder=root,
        files=list(folder_of_file),
        label=[labels.get(folder) for folder in folder_of_file.values()],  # None in the folder of a split itself
        split=[split_by_folder.get(folder) for folder in folder_of_file.values()]
        if any(split_by_folder.values())
        else None,
        notes=tuple(notes),
    )
    base = os.path.realpath(root)
    outside = {parent for parent in {path.parent for path in folder_of_file} if not is_within(parent, base)}
    copy = f"cp -RL {quote(str(root))} {quote(f'{root}-copied')}"
    for row, path in enumerate(folder_of_file):
        if path.parent in outside or (path.is_symlink() and not is_within(path, base)):
            target = os.path.dirname(os.path.realpath(path))
            fault = f"is a link that leaves the folder, to {target}, and could show any file of yours"
            rows.errors.add(row, f"{fault}: give a copy without links, made by `{copy}`")
        elif not path.is_file():
            rows.errors.add(row, "is a link to no file")
    return rows


def find_files_within(
    root: Path, names: Sequence[str | None], errors: RowErrors, column: str, fallback: Path | None = None
) -> list[Path]:
    """Return the images (M,) that the rows of a table name, and note rows whose file is missing or outside of ``root``.

    A name may lack its ending, differ in case, or have backslashes, where only one image can be meant.

    Args:
        root: The folder of the files, which no link may leave.
        names: Their names, relative to it.
        errors: Where bad rows are noted.
        column: The column of the names, for messages.
        fallback: Another folder, for names that are not files in ``root``.
    """
    bases = [(folder, os.path.realpath(folder)) for folder in (root, fallback) if folder]
    images_by_folder: dict[Path, dict[str, list[Path]]] = {}
    paths = []
    for row, given_name in enumerate(names):
        name = (given_name or "").partition("\0")[0]  # which no file's name holds
        inside = [folder / name for folder, base in bases if is_within(folder / name, base)]
        files = [path for path in inside if name and os.path.isfile(path)]
        if name and not files:
            similar = [_find_image_of_similar_name(folder, base, name, images_by_folder) for folder, base in bases]
            files = [image for image in similar if image is not None]
            if files:
                fact = f"column {column!r} names images not quite as their files are called"
                errors.add_remark(fact, "the only image of such a name is taken", 1, f"{name!r} for {files[0].name!r}")
        paths.append(files[0] if files else root / name)
        if files:
            continue
        if not name:
            errors.add(row, f"column {column!r} is empty")
        elif not inside:
            remedy = f"name the folder of all files by {format_option('data.root')}"
            errors.add(row, f"{name!r} lies outside of {root} ({remedy})")
        else:
            errors.add(row, f"{name!r} is missing in {root} (name another folder by {format_option('data.root')})")
    return paths


def _find_image_of_similar_name(
    root: Path, base: str, name: str, images_by_folder: dict[Path, dict[str, list[Path]]]
) -> Path | None:
    """Return the only image whose name is that of a missing file except for its ending and case, or None.

    Args:
        root: The folder of the files.
        base: Its real path, which no link may leave.
        name: The name of the missing file, relative to it.
        images_by_folder: Folder -> name in small letters, with and without its ending -> images; filled as needed.
    """
    path = root / name.replace("\\", "/")
    if not is_within(path, base):
        return None
    folder = path.parent
    if folder not in images_by_folder:
        images_by_name = defaultdict(list)
        for image in list_folder(folder).images if folder.is_dir() else ():
            for spelling in {image.name.lower(), image.stem.lower()}:
                images_by_name[spelling].append(image)
        images_by_folder[folder] = images_by_name
    images = images_by_folder[folder].get(path.name.lower(), [])
    return images[0] if len(images) == 1 and is_within(images[0], base) else None
