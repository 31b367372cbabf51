"""Stand-ins for the paper's photos and comments: other real data with the same kind of shortcut, by other names.

Where the paper's files cannot be had, these show whether methods keep their order. Their values are not comparable.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Literal

import pandas as pd
import torch
from filelock import FileLock

from logit_correction.atomic_files import replace_atomically
from logit_correction.data.cache import compute_digest, get_cache_folder
from logit_correction.data.images import ImageReader
from logit_correction.data.rows import Rows
from logit_correction.data.table import DataTable
from logit_correction.data.table_files import read_frame
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError, check_choice
from logit_correction.formatting import format_option, format_reason
from logit_correction.types import Correlation
from logit_correction.yaml_files import read_yaml_file
from logit_correction_lab.sources.published import (
    PublishedSource,
    build_table_by_reader,
    encode_column,
    find_split_rows,
)

Set = Literal["birds-on-scenes", "fairface-age-by-gender", "celeba-subset", "tweets-by-dialect", "wiki-identity"]

#: Set -> what ``stand_ins.yaml`` holds of it.
SETS = read_yaml_file(Path(__file__).with_suffix(".yaml"))

#: The set whose share of training rows against the correlation can be chosen.
AGES = "fairface-age-by-gender"

#: The shares that it has.
RATIOS = (0.005, 0.01, 0.02, 0.05)


class StandIn(PublishedSource):
    """Stand-ins for the paper's sets of photos and comments: smaller, and comparable in order, not in value."""

    title = "StandIn"
    folders = ()
    source = "its maker, since it may not be passed on"

    def __init__(
        self, set: Set = "birds-on-scenes", root: str | None = None, minority_ratio: float | None = None
    ) -> None:
        """Choose the set. Splits are given; groups are label by attribute.

        - birds-on-scenes: birds of CUB-200 (2010) pasted on forest and sea, 95 % on their own place in training.
        - fairface-age-by-gender: FairFace's young women and old men, and few others.
        - celeba-subset: blond hair by gender, 27,476 faces at 80 px.
        - tweets-by-dialect: offensive or not (Davidson et al. 2017), by estimated dialect.
        - wiki-identity: toxic or not, by whether a group of people is named.

        Args:
            set: Its name.
            root: Folder of the files; by default LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            minority_ratio: Share of training rows against the correlation in fairface-age-by-gender: 0.005, which
                None stands for, 0.01, 0.02 or 0.05.
        """
        check_choice("set", set, SETS)
        if minority_ratio is not None and (set != AGES or minority_ratio not in RATIOS):
            option = format_option("data.minority_ratio")
            raise InputError(f"{option} is one of {', '.join(map(str, RATIOS))}, and only for {AGES}")
        self.set = set
        self.root = root
        self.minority_ratio = minority_ratio or RATIOS[0]
        self.files = SETS[set]["files"]
        self.are_images = self.files[0].endswith(".tar")
        self.reader = ImageReader(None, "crop", column="path") if self.are_images else TextReader("text")

    def build(self) -> DataTable:
        facts = SETS[self.set]
        folder = self.find_folder()
        tables = [folder / name for name in self.files]
        if self.are_images:
            folder = unpack_archives(tables)
            tables = sorted(folder.glob("*/metadata*.csv"))
        frame = pd.concat([read_frame(table, remedy="get it again") for table in tables], ignore_index=True)
        rows = Rows(f"{self.set} in {folder}", frame.index, frame, folder)
        label, attribute = (
            encode_column(frame[name], {"0": 0, "1": 1}, rows.errors) for name in ("label", "attribute")
        )
        split = encode_column(frame["split"], {"train": 0, "val": 1, "test": 2, "extra": 3}, rows.errors)
        metadata: dict[str, object] = {"source": self.set, "this is": facts["description"]}
        if self.set == AGES:  # all ratios keep all rows, so that they share the features of an encoder
            percent = pd.to_numeric(frame["in_train_from_percent"], errors="coerce")
            split[torch.tensor((percent <= round(100 * self.minority_ratio, 3)).tolist())] = 0
            metadata["minority ratio"] = self.minority_ratio
        read, names, _ = self.reader.validate(rows)
        table = build_table_by_reader(
            self.reader,
            read,
            rows.errors,
            find_split_rows(split),
            label=label,
            attribute=attribute,
            label_names=facts["label_names"],
            attribute_names=facts["attribute_names"],
            correlation=facts["correlation"] and Correlation.from_table(facts["correlation"]),
            metadata=metadata,
            with_reader_metadata=True,
            row_names=names,
            ordered=False,  # most files are sorted by label
        )
        rows.errors.raise_if_any(remedy="get it again")
        return table


def unpack_archives(archives: list[Path]) -> Path:
    """Return a folder of the cache with what is in the archives; they are unpacked once, also if several runs ask."""
    key: list[str | int] = []
    for archive in archives:
        status = archive.stat()
        key += [str(archive.resolve()), status.st_size, status.st_mtime_ns]
    folder = get_cache_folder() / "unpacked" / compute_digest(key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(get_cache_folder() / "unpacked.lock"):
        if folder.is_dir():
            return folder
        with replace_atomically(folder) as temporary:
            for archive in archives:
                try:
                    with tarfile.open(archive) as members:
                        members.extractall(temporary, filter="data")  # nothing outside of the folder
                except (tarfile.TarError, EOFError) as error:
                    raise InputError(f"{archive} cannot be unpacked ({format_reason(error)}): get it again") from error
    return folder
