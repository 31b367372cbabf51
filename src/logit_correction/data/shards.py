"""Tar files of samples, as WebDataset writes them: which files, and what lies where in them."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.data.cache import cache_folder, digest, made_once
from logit_correction.data.image_io import SUFFIXES, check_whole, fault_of
from logit_correction.data.tabular_io import as_text
from logit_correction.errors import InputError, reason_of

if TYPE_CHECKING:
    import pandas as pd

#: Changes whenever an index would come out otherwise.
VERSION = 1

#: Most shards that braces may stand for, and most bytes of a label or of what is written beside an image.
MOST_SHARDS, MOST_BYTES = 1_000_000, 2**20

#: Most bytes of an image file, which is read whole before it is decoded.
MOST_OF_IMAGE = 2**28

_RANGE = re.compile(r"\{(\d{1,18})\.\.(\d{1,18})\}")


def shard_files(shards: Sequence[str], option: str) -> list[Path]:
    """Return the files that paths with ``{000..099}`` or ``*`` in them stand for.

    Raises:
        InputError: If one is missing or no file of a file system, or there are none or too many.
    """
    names: list[str] = []
    for text in shards:
        if "://" in text or text.startswith("pipe:"):
            raise InputError(
                f"{option} {text} is no file: images are read in any order, which takes shards on a disk or on storage "
                "that is mounted; a stream is trained on as in examples/stream.py"
            )
        ranges = [(one[1], int(one[1]), int(one[2]) + 1) for one in _RANGE.finditer(text)]
        if math.prod(max(0, end - first) for _, first, end in ranges) > MOST_SHARDS:
            raise InputError(f"{option} {text} names more than {MOST_SHARDS:,} shards")
        numbers = [[f"{number:0{len(zeros)}}" for number in range(first, end)] for zeros, first, end in ranges]
        form = _RANGE.sub("\0", text).split("\0")
        for chosen in itertools.product(*numbers):
            name = "".join(itertools.chain(*itertools.zip_longest(form, chosen, fillvalue="")))
            name = os.path.expanduser(name)
            names += sorted(glob(name)) if "*" in name else [name]
    missing = [name for name in names if not os.path.isfile(name)]
    if missing or not names:
        what = f"{missing[0]} is missing" if missing else f"no file is called {', '.join(shards)}"
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise InputError(f"{option}: {what}{more}: give tar files, such as train-{{000..099}}.tar or train-*.tar")
    return [Path(name) for name in names]


@dataclass
class Sample:
    """What an index keeps of the members of one name: where the image lies, and what is said of it."""

    name: str
    offset: int = 0
    length: int = 0
    fault: str | None = None
    texts: dict[str, str | None] = field(default_factory=dict)


def read_index(file: Path, label: str, others: Sequence[str], size: tuple[int, int]) -> pd.DataFrame:
    """Return the samples of a shard, a row each: name, offset, length, fault, and a column for each of their texts.

    It is kept, and read anew where the shard has changed. Members are looked at one by one, images at their beginning
    and end, so that what is cut or larger than memory is known; none is decoded whole for that where its end tells.

    Args:
        file: The shard.
        label: What says the label: ``cls`` for a member ``NAME.cls``, else an entry of ``NAME.json``.
        others: Further entries of ``NAME.json``.
        size: Height and width that images are resized to.

    Raises:
        InputError: If the shard is damaged, compressed, or holds what no shard may; names shard and member.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    status = file.stat()
    parts: list[str | int] = [VERSION, os.path.abspath(file), status.st_size, status.st_mtime_ns, label, *others]
    kept = cache_folder() / "shards" / f"{digest(parts)}.parquet"
    try:
        return pq.read_table(kept, page_checksum_verification=True).to_pandas()
    except (OSError, pa.ArrowException):
        kept.unlink(missing_ok=True)
    samples = list(_samples(file, label, others, size))
    rows = [{"name": s.name, "offset": s.offset, "length": s.length, "fault": s.fault, **s.texts} for s in samples]
    frame = pd.DataFrame(rows, columns=["name", "offset", "length", "fault", *dict.fromkeys([label, *others])])
    if not frame["fault"].notna().any():  # else somebody may fix it elsewhere, as by more memory
        table = pa.Table.from_pandas(frame, preserve_index=False)
        made_once(kept, lambda path: pq.write_table(table, path, write_page_checksum=True))
    return frame


def _samples(file: Path, label: str, others: Sequence[str], size: tuple[int, int]) -> Iterator[Sample]:
    """Yield the samples of a shard: members that follow each other and are called alike up to the first dot."""
    last, sample, total = "its beginning", None, file.stat().st_size
    try:
        with tarfile.open(file, "r:") as shard:
            while (member := shard.next()) is not None:
                vars(shard)["members"].clear()  # else it keeps all it has seen
                last = member.name
                if member.isdir():
                    continue
                if fault := _refused(member):
                    raise InputError(f"{file}: member {member.name!r} {fault}: make the shard again without it")
                if member.offset_data + member.size > total:
                    raise EOFError("the file ends inside of it")
                name, _, kind = member.name.rpartition("/")[2].partition(".")
                name = member.name[: len(member.name) - len(kind) - 1] if kind else member.name
                if sample is None or sample.name != name:
                    if sample is not None:
                        yield _finished(sample)
                    sample = Sample(name)
                _take(sample, shard, member, kind.lower(), label, others, size)
            with file.open("rb") as opened:
                opened.seek(shard.offset)
                if opened.read(tarfile.BLOCKSIZE).strip(b"\0") or shard.offset >= total:
                    raise EOFError("what follows is no member, or the file was cut")
    except InputError:
        raise
    except Exception as error:  # tarfile raises errors of many kinds
        raise InputError(
            f"{file} is damaged, or no tar file without compression, at {last!r} ({reason_of(error)}): copy or "
            "make it again, or leave it out"
        ) from error
    if sample is not None:
        yield _finished(sample)


def _refused(member: tarfile.TarInfo) -> str | None:
    """Return why a member may not be in a shard: what is no plain file, or would lie outside of a folder."""
    if not member.isreg() or member.issparse():
        return "is no plain file but a link, a device or a file with holes"
    if member.name.startswith("/") or ".." in member.name.split("/"):
        return "has a name that leaves its folder"
    return None


def _take(
    sample: Sample,
    shard: tarfile.TarFile,
    member: tarfile.TarInfo,
    kind: str,
    label: str,
    others: Sequence[str],
    size: tuple[int, int],
) -> None:
    """Note what a member says of its sample."""
    opened = shard.extractfile(member)
    assert opened is not None
    wanted = [name for name in dict.fromkeys([label, *others]) if name != "cls"]
    if f".{kind.rpartition('.')[2]}" in SUFFIXES:
        if sample.length:
            sample.fault = sample.fault or "holds several images"
        sample.offset, sample.length = member.offset_data, member.size
        if member.size > MOST_OF_IMAGE:
            sample.fault = f"has an image file of {member.size:,} bytes, more than {MOST_OF_IMAGE:,}"
            return
        try:
            check_whole(opened, size)  # type: ignore[arg-type]
        except Exception as error:  # SyntaxError is among them
            sample.fault = fault_of(error)
    elif (kind == "cls" and label == "cls") or (kind == "json" and wanted):
        if member.size > MOST_BYTES:
            sample.fault = f"has a {kind} of {member.size:,} bytes, more than {MOST_BYTES:,}"
            return
        try:
            found = opened.read().decode()
            given: Any = json.loads(found) if kind == "json" else {"cls": found}
            values = {name: given.get(name) for name in (wanted if kind == "json" else ["cls"])}
        except (ValueError, AttributeError, RecursionError) as error:
            sample.fault = f"has a {kind} that cannot be read ({type(error).__name__})"
            return
        if any(isinstance(value, list | dict) for value in values.values()):
            sample.fault = "has a json with several values for one"
        else:
            sample.texts |= {name: as_text(value) for name, value in values.items()}


def _finished(sample: Sample) -> Sample:
    if not sample.length and sample.fault is None:
        sample.fault = f"has no image ({', '.join(SUFFIXES)})"
    return sample
