"""Stand-ins for the paper's photos and comments: other real data with the same kind of shortcut, by other names."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Literal

import pandas as pd
import torch
from filelock import FileLock

from logit_correction.atomic_files import replace_atomically
from logit_correction.data.cache import compute_digest, get_cache_folder
from logit_correction.data.frames import read_frame
from logit_correction.data.images import ImageReader
from logit_correction.data.rows import Rows
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError
from logit_correction.formatting import format_reason
from logit_correction.types import Correlation
from logit_correction_lab.sources.published import PublishedSource, encode_column, find_split_rows

Set = Literal["birds-on-scenes", "fairface-age-by-gender", "celeba-subset", "tweets-by-dialect", "wiki-identity"]

#: Set -> names of labels and attributes, the attributes that each label goes with if known, what it is, and its files.
SETS: dict[str, tuple[list[str], list[str], list[list[int]] | None, str, list[str]]] = {
    "birds-on-scenes": (["land bird", "water bird"], ["forest", "sea"], [[0], [1]], "not Waterbirds: other photos",
                        ["birds-on-scenes.tar"]),
    "fairface-age-by-gender": (["young", "old"], ["woman", "man"], [[0], [1]], "not biased FFHQ: FairFace's photos",
                               ["fairface-age-by-gender-train.tar", "fairface-age-by-gender-eval.tar"]),
    "celeba-subset": (["not blond", "blond"], ["not male", "male"], [[0, 1], [0]], "13.6 % of CelebA, at 80 px",
                      ["celeba-subset-train.tar", "celeba-subset-val.tar", "celeba-subset-test.tar"]),
    "tweets-by-dialect": (["neither", "offensive"], ["other", "African-American English"], None,
                          "not CivilComments: tweets", ["davidson-tweets-by-dialect.csv.gz"]),
    "wiki-identity": (["not toxic", "toxic"], ["no identity word", "identity word"], None,
                      "not CivilComments: talk on Wikipedia", ["wiki-toxic-by-identity-words.csv.gz"]),
}  # fmt: skip

#: The set of which a share of the training rows can be chosen, and what there is: those against the correlation.
AGES, RATIOS = "fairface-age-by-gender", (0.005, 0.01, 0.02, 0.05)


class StandIn(PublishedSource):
    """Stand-ins for the paper's sets of photos and comments: smaller, and comparable in order, not in value."""

    title = "StandIn"
    folders = ()
    source = "whoever made it: it may not be passed on"

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
        if set not in SETS:
            raise InputError(f"--data.set {set} is unknown: there are {', '.join(SETS)}")
        if minority_ratio is not None and (set != AGES or minority_ratio not in RATIOS):
            raise InputError(f"--data.minority_ratio is one of {', '.join(map(str, RATIOS))}, and for {AGES} alone")
        self.set, self.root, self.minority_ratio = set, root, minority_ratio or RATIOS[0]
        self.files = SETS[set][-1]
        self.reader = ImageReader(None, "crop", column="path") if self.files[0].endswith(".tar") else TextReader("text")

    def build(self) -> DataTable:
        labels, attributes, goes_with, what, _ = SETS[self.set]
        folder, tables = self.folder(), [self.folder() / name for name in self.files]
        if isinstance(self.reader, ImageReader):
            folder = unpack_archives(tables)
            tables = sorted(folder.glob("*/metadata*.csv"))
        frame = pd.concat([read_frame(table, fix="get it again") for table in tables], ignore_index=True)
        rows = Rows(f"{self.set} in {folder}", frame.index, frame, folder)
        label, attribute = (
            encode_column(frame[name], {"0": 0, "1": 1}, rows.errors) for name in ("label", "attribute")
        )
        split = encode_column(frame["split"], {"train": 0, "val": 1, "test": 2, "extra": 3}, rows.errors)
        metadata: dict[str, object] = {"source": self.set, "this is": what}
        if self.set == AGES:  # all ratios keep all rows, so that they share the features of an encoder
            percent = pd.to_numeric(frame["in_train_from_percent"], errors="coerce")
            split[torch.tensor((percent <= round(100 * self.minority_ratio, 3)).tolist())] = 0
            metadata["minority ratio"] = self.minority_ratio
        read, names, _ = self.reader.validate(rows)
        made = self.reader.fit_transform(read, (split == 0).nonzero().flatten(), rows.errors)
        rows.errors.raise_if_any(fix="get it again")
        return DataTable(
            inputs=made.inputs,
            label=label,
            attribute=attribute,
            split=find_split_rows(split),
            label_names=labels,
            attribute_names=attributes,
            correlation=Correlation.from_table(goes_with) if goes_with else None,
            metadata=metadata | made.metadata,
            row_names=names,
            preparation=made.preparation,
            ordered=False,  # most tables stand by label
            **made.forms,
        )


def unpack_archives(archives: list[Path]) -> Path:
    """Return a folder of the cache into which archives were unpacked, once, also where several runs ask at once."""
    stamps = [(str(one.resolve()), one.stat().st_size, one.stat().st_mtime_ns) for one in archives]
    folder = get_cache_folder() / "unpacked" / compute_digest(part for stamp in stamps for part in stamp)
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
