"""Checksums of the files of a folder: a run or an audit refuses files that were changed after it wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

from logit_correction.atomic_files import write_text_file
from logit_correction.errors import InputError
from logit_correction.paths import reject_special_file

#: The file that holds the checksums of a folder, in the format of ``sha256sum --check``.
CHECKSUMS_FILE = ".checksums"

#: Bytes that are read at a time.
BLOCK_BYTES = 2**20


def compute_file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            checksum.update(block)
    return checksum.hexdigest()


def write_checksums(folder: Path, names: Collection[str], former: Path | None = None) -> None:
    """Write the checksums of some files of a folder into its ``.checksums``.

    Args:
        folder: The folder, which is complete except for the checksums.
        names: Files to protect; those that do not exist are left out.
        former: A folder whose files ``folder`` will replace. The checksums there of files that ``folder`` does not
            hold are kept.
    """
    checksums = {}
    if former is not None and (former / CHECKSUMS_FILE).is_file():
        checksums = _read_checksums(former / CHECKSUMS_FILE)
    checksums |= {name: compute_file_checksum(folder / name) for name in names if (folder / name).is_file()}
    text = "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())
    write_text_file(folder / CHECKSUMS_FILE, text)


def verify_checksum(path: Path, remedy: str) -> None:
    """Check that a file is as ``write_checksums`` found it; a folder without checksums is accepted.

    Args:
        path: The file; it may be missing.
        remedy: What the user can do about a changed file; ends the message.

    Raises:
        InputError: The file has changed, or the checksums cannot be read.
    """
    checksums_file = path.parent / CHECKSUMS_FILE
    try:
        checksums = _read_checksums(checksums_file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{checksums_file} cannot be read ({error.strerror}): {remedy}") from error
    if path.is_file() and compute_file_checksum(path) != checksums.get(path.name):
        why = "its checksum differs" if path.name in checksums else f"{CHECKSUMS_FILE} has no checksum of it"
        raise InputError(f"{path} has been changed since it was written ({why}): {remedy}")


def _read_checksums(file: Path) -> dict[str, str]:
    """Return name -> checksum."""
    with reject_special_file(file).open(encoding="utf-8", errors="replace") as opened:
        lines = opened.read(2**20).splitlines()
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
