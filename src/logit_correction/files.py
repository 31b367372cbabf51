"""Files that are complete or absent, checksums, JSON, values as JSON holds them, YAML, cells of CSV files, threads."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import re
import shutil
import socket
import types
import unicodedata
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from logit_correction.errors import InputError, reason_of

if TYPE_CHECKING:
    import pandas as pd

#: Most threads where nobody chooses; more hardly read faster.
MOST_THREADS = 16

#: Characters that nobody sees: soft hyphen, blanks of no width, marks of direction; for ``str.translate``.
INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufe0e\ufe0f\ufeff"))

T = TypeVar("T")
R = TypeVar("R")

#: Checksums of the files of a folder.
SEAL = ".checksums"

#: Files that are about to replace those of the folder they lie in: from its name on nothing can stop the change.
CHANGE = ".change"

#: In such a change: the names of files that it removes.
REMOVED = ".removed"

#: Names of files and folders that are not complete: of what, on which machine, by which process, and at random.
_TEMPORARY = re.compile(r"\..*-(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")


class NoRoom(OSError):
    """A file could not be written, since the disk or the user's quota is full; ``filename`` names it."""


def printable(name: str | Path) -> str:
    r"""Return the name of a file with bytes that are not UTF-8 escaped.

    >>> printable("caf\udce9.png")
    'caf\\udce9.png'
    """
    return str(name).encode("utf-8", "backslashreplace").decode()


def canonical(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    r"""Return a text such that two that look alike are equal; in NFKC also those of letters of another width.

    Half a character, such as a cut emoji leaves, is escaped: no file could hold it.

    >>> canonical("cafe\u0301\u200b"), canonical("\ufeff\uff21", "NFKC"), canonical("good \ud83d")
    ('café', 'A', 'good \\ud83d')
    """
    return text if text.isascii() else unicodedata.normalize(form, printable(text)).translate(INVISIBLE)


def plain(path: Path) -> Path:
    """Return ``path``; raise ``OSError`` if a queue or a device is there: reading would wait for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return path


def checksum_of_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            state.update(block)
    return state.hexdigest()


def seal(folder: Path, names: Collection[str], former: Path | None = None) -> None:
    """Write the checksums of these files of a folder, those that are there, in the form of ``sha256sum --check``.

    Of files that the folder does not hold the checksums in the folder ``former`` stay, whose files it will replace.
    """
    checksums = {} if former is None or not (former / SEAL).is_file() else _read_checksums(former / SEAL)
    checksums |= {name: checksum_of_file(folder / name) for name in names if (folder / name).is_file()}
    write_text(folder / SEAL, "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items()))


def check_seal(path: Path, fix: str) -> None:
    """Raise ``InputError`` if a file is not as it was sealed; a folder without checksums is taken as it is."""
    there = path.parent / SEAL
    try:
        sealed = _read_checksums(there)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{there} cannot be read ({error.strerror}): {fix}") from error
    if path.is_file() and checksum_of_file(path) != sealed.get(path.name):
        why = "its checksum differs" if path.name in sealed else f"{SEAL} has no checksum of it"
        raise InputError(f"{path} has been changed since it was written ({why}): {fix}")


def _read_checksums(file: Path) -> dict[str, str]:
    """Return the checksum of each file that ``seal`` has named."""
    with plain(file).open(encoding="utf-8", errors="replace") as opened:
        lines = opened.read(2**20).splitlines()
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


@contextmanager
def _room_for(path: Path) -> Iterator[None]:
    """Raise ``NoRoom`` if the disk or the quota is full, ``InputError`` if the path may not be written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoRoom(error.errno, os.strerror(error.errno), str(path)) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise InputError(f"{path} cannot be written ({os.strerror(error.errno)}): give another place") from error
        raise


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; its file or folder replaces ``path`` when the block ends well.

    If the block raises, it is removed and an older file stays. ``NoRoom`` if the disk is full.
    """
    path = Path(path)
    temporary = _temporary(path)
    try:
        with _room_for(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        _remove(temporary)


@contextmanager
def changing(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; its files replace those of ``folder`` together when the block ends well.

    However the process ends, ``folder`` has its old files, or ``finish_change`` gives it all new ones. Who calls this
    holds the lock of the folder. ``NoRoom`` if the disk is full.
    """
    finish_change(folder)
    with _room_for(folder), replacing(folder / CHANGE) as temporary:
        temporary.mkdir()
        yield temporary
    finish_change(folder)


def finish_change(folder: Path) -> None:
    """Move the files of a change to their places, whose process may have been stopped while it did so."""
    change = folder / CHANGE
    if change.is_symlink() or not change.is_dir():
        return
    with _room_for(folder):
        for path in list(change.iterdir()):
            if path.name == REMOVED:
                for name in path.read_text(encoding="utf-8").splitlines():
                    (folder / Path(name).name).unlink(missing_ok=True)
            else:
                os.replace(path, folder / path.name)
        shutil.rmtree(change)


def _remove(path: Path) -> None:
    """Remove a file or a folder, as far as the system permits."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def _temporary(path: Path) -> Path:
    """Return a hidden name beside a path; remove what killed processes of this machine left under such names."""
    begin = f".{path.stem}-{_machine()}-"
    for left in path.parent.glob(f"{glob.escape(begin)}*{glob.escape(path.suffix)}"):
        if is_abandoned(left):
            _remove(left)
    return path.with_name(f"{begin}{os.getpid()}-{uuid.uuid4().hex[:8]}{path.suffix}")


def _machine() -> str:
    """Return a short name of this machine."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def is_abandoned(path: Path) -> bool:
    """Return whether a process of this machine began a file or folder, and ended before it was complete."""
    match = _TEMPORARY.match(path.name)
    return match is not None and match["machine"] == _machine() and not _lives(int(match["process"]))


def _lives(process: int) -> bool:
    """Return whether there is a process of this number; True if it cannot be told."""
    if os.name != "nt":  # where 0 is no question but Ctrl-C
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
    return True


def write_text(path: Path | str, text: str) -> None:
    """Write a text file that is complete or absent."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_within(path: Path, base: str, follow: bool = True) -> bool:
    """Return whether a path lies in a folder, whose real (or, if links are not followed, absolute) path is ``base``."""
    return Path((os.path.realpath if follow else os.path.abspath)(path)).is_relative_to(base)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder, which replaces ``path`` when the block ends well and is removed otherwise.

    An empty folder at ``path`` stays and gets the files: it may be a link, a mount, or the working directory.
    """
    there = path.is_dir()
    with writable(path):
        temporary = _temporary(path.absolute() / "new" if there else path.absolute())
    check_new(path)
    with writable(path):
        temporary.mkdir(parents=True)
    try:
        with _room_for(path):
            yield temporary
            for one in list(temporary.iterdir()) if there else []:
                os.replace(one, path / one.name)
            if not there:
                os.replace(temporary, path)
    finally:
        _remove(temporary)


def check_new(folder: Path, but: Collection[str] = (), kind: str = "") -> None:
    """Raise ``InputError`` if the folder of ``--out`` holds other files than those of the names ``but``."""
    with writable(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--out {folder} is a file: give a folder")
        if folder.is_dir() and any(path.name not in but and not is_abandoned(path) for path in folder.iterdir()):
            no_such = f" and holds no {kind}" if kind else ""
            raise InputError(f"--out {folder} is not empty{no_such}: give a new or empty folder")


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Raise ``InputError`` if the folder of ``--out`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written ({error.strerror}): give another folder") from error


def write_cells(frame: pd.DataFrame, path: Path) -> None:
    """Write a CSV for spreadsheets: a text that would be a formula there gets an apostrophe; see ``read_cells``."""
    escaped = {name: frame[name].map(as_cell, na_action="ignore") for name in _texts(frame)}
    with replacing(path) as temporary:
        frame.assign(**escaped).to_csv(temporary, index=False)


def as_cell(text: str) -> str:
    """Return a text with an apostrophe in front if a spreadsheet would take it for a formula.

    >>> as_cell("=1+1"), as_cell("-3.5"), as_cell("yes")
    ("'=1+1", '-3.5', 'yes')
    """
    formula = re.match(r"'*[=+\-@\t\r]", text) and not re.fullmatch(r"[+-][\d.,]+(?:[eE][+-]?\d+)?", text)
    return f"'{text}" if formula else text


def read_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table, read from a CSV, without the apostrophes of ``write_cells``."""
    bare = {name: frame[name].str.replace(r"^'(?='*[=+\-@\t\r])", "", regex=True) for name in _texts(frame)}
    return frame.assign(**bare)


def _texts(frame: pd.DataFrame) -> list[str]:
    from pandas.api.types import infer_dtype

    return [str(name) for name in frame if infer_dtype(frame[name], skipna=True) == "string"]


def read_json(path: Path, fix: str) -> Any:
    """Read a file of strict JSON; ``fix`` says what to do about one that is damaged, in an ``InputError``."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(plain(path).read_text(encoding="utf-8"), parse_constant=refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}): {fix}") from error


def frame_of(kind: type, rows: Any) -> pd.DataFrame:
    """Return columns, or a list of rows, as a frame with the fields of a dataclass; None becomes NaN among numbers.

    A field ``Annotated[pd.DataFrame, kind]`` holds such a frame; JSON holds it as a list of mappings.
    """
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[one.name for one in fields(kind)], dtype=object)
    numbers: dict[Any, type] = {int: int, float: float, float | None: float}
    return frame.astype({name: numbers[hint] for name, hint in _hints(kind).items() if hint in numbers})


def to_plain(value: Any) -> Any:
    """Return a value as strict JSON values; numbers that are not finite become None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in fields(value)}
    if hasattr(value, "columns"):  # a data frame
        return [to_plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their numbers
        return to_plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_plain(kind: Any, value: Any, place: str = "") -> Any:
    """Return JSON values as a dataclass (or another type) of typed fields; unknown entries are left out.

    Raise ``ValueError`` or ``TypeError`` if an entry is missing or has another type. ``place`` names the value.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # with None
        return None if value is None else from_plain(parts[0], value, place)
    if origin is Annotated:
        return frame_of(parts[1], from_plain(list[dict[str, Any]], value, place))
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{place or 'it'} is {value!r}, but must be one of {', '.join(map(str, parts))}")
        return value
    record = is_dataclass(kind)
    plain = dict if record else list if origin is tuple else origin or kind
    if plain is not Any and not isinstance(value, int | float if plain is float else plain):
        raise ValueError(f"{place or 'it'} is {repr(value)[:40]}, but must be {plain.__name__}")
    if record:
        known = {name: hint for name, hint in _hints(kind).items() if name in value}
        inside = f"{place}." if place else ""
        return kind(**{name: from_plain(one, value[name], inside + name) for name, one in known.items()})
    if origin in (list, tuple):
        return origin(from_plain(parts[0], one, f"{place}[{number}]") for number, one in enumerate(value))
    return {name: from_plain(parts[1], one, f"{place}.{name}") for name, one in value.items()} if parts else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


class Unquoted(str):
    """A word of a YAML file that YAML takes for another value than its text, such as no, on, 017 or 1.50.

    Attributes:
        value: What YAML takes it for.
    """

    value: Any


def read_yaml(
    path: Path, content: str = "options such as `method: LC`, one a line", as_written: bool = False
) -> dict[str, Any]:
    """Read a YAML file of a mapping.

    Args:
        path: The file.
        content: What it must hold, for messages.
        as_written: Whether words that are other values than their text stay ``Unquoted``.

    Raises:
        InputError: If it cannot be read.
    """
    import yaml

    most = 2**20  # characters, and values
    try:
        text = plain(path).read_text(encoding="utf-8")
        root = yaml.compose(text, yaml.SafeLoader) if len(text) <= most else None
        if len(text) > most or (root and _size_of_yaml(root, {}) > most):
            raise ValueError("it is too large, or its aliases make it so")
        found = yaml.load(text, _unquoted_loader() if as_written else yaml.SafeLoader)
    except FileNotFoundError as error:
        audit = "; an audit writes it where it finds a shortcut, or where you name one by --shortcut"
        raise InputError(f"{path} does not exist{audit if path.name == 'fix.yaml' else ''}") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as YAML ({reason_of(error)}): give {content}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: it must hold {content}")
    return found


@cache
def _unquoted_loader() -> Any:
    """Return a safe loader of YAML that keeps the text of unquoted words."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def construct(loader: Any, node: Any) -> Any:
        value = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
        as_text = node.value.lower() == str(value).lower() and not node.tag.endswith("timestamp")
        if node.style is not None or as_text:
            return value
        word = Unquoted(node.value)
        word.value = value
        return word

    for kind in ("bool", "int", "float", "timestamp"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", construct)
    return Loader


def _size_of_yaml(node: Any, known: dict[int, float]) -> float:
    """Return the number of values in a node with all aliases expanded; infinity if it contains itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        parts = chain.from_iterable(node.value) if node.id == "mapping" else node.value
        known[id(node)] = 1 + sum(_size_of_yaml(part, known) for part in parts if not isinstance(part, str))
    return known[id(node)]


def available_cores() -> int:
    """Return the processor cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    function: Callable[[T], R],
    items: Sequence[T],
    title: str = "",
    images: int | None = None,
    threads: int | None = None,
) -> Iterator[R]:
    """Yield ``function`` of all items in order, with a bar on a terminal and a line elsewhere if they are many.

    Without a title nothing is shown; ``images`` is how many the items stand for.
    """
    from rich.console import Console
    from rich.progress import track

    console, total, chunk = Console(stderr=True), len(items) if images is None else images, 512
    many = bool(title) and total >= 500
    if many and not console.is_terminal:
        console.print(f"{title}: {total:,}", highlight=False)
    hidden = not (many and console.is_terminal)
    with ThreadPoolExecutor(threads or min(MOST_THREADS, available_cores())) as pool:
        parts = (items[start : start + chunk] for start in range(0, len(items), chunk))
        results = (result for part in parts for result in pool.map(function, part))
        yield from track(results, title, len(items), console=console, disable=hidden, transient=True)
