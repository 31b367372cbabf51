"""CivilComments: comments whose toxicity is predicted; the groups of people that they mention may mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.cells import format_row_names
from logit_correction.data.rows import RowErrors
from logit_correction.data.table import DataTable, EvaluationGroups
from logit_correction.data.texts import TextReader
from logit_correction_lab.sources.published import (
    PublishedSource,
    build_table_by_reader,
    encode_column,
    find_split_rows,
    read_list_columns,
)

if TYPE_CHECKING:
    import pandas as pd

#: Groups of people; the mention of each, with each label, is a group that is evaluated.
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
LABELS = ("non-toxic", "toxic")

_TEXT = "comment_text"
_FILE = "all_data_with_identities.csv"


class CivilComments(PublishedSource):
    """CivilComments of WILDS: 269,038 train, 45,180 valid, 133,782 test comments, 16 overlapping groups."""

    title = "CivilComments"
    folders = ("civilcomments_v1.0", "civilcomments")
    files = (_FILE,)
    source = "https://worksheets.codalab.org/rest/bundles/0x8cd3de0634154aeaad2ee6eb96723c6e/contents/blob/ (CC0)"

    def __init__(self, root: str | None = None, tokenizer: str | None = None, max_tokens: int = 300) -> None:
        """Choose the place of the file and the form of the texts.

        Methods that need attributes get four groups: the label, and whether any group of people is mentioned. All
        figures are of sixteen: the label, and the mention of each of eight groups of people, each with all
        comments that belong to it.

        Args:
            root: Folder that holds ``all_data_with_identities.csv``, or the folder ``civilcomments_v1.0`` with it; by
                default LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            tokenizer: Name or folder of a language model's tokenizer; without one, hashed words, which a small network
                takes.
            max_tokens: Longer comments are cut; 300 is what WILDS takes.
        """
        self.root = root
        self.reader: TextReader = TextReader(_TEXT, tokenizer, max_tokens)

    def build(self) -> DataTable:
        file = self.find_folder() / _FILE
        frame = read_list_columns(file, [_TEXT, "split", "toxicity", *IDENTITIES, "identity_any"])
        errors = RowErrors(str(file), format_row_names(frame.index))
        split = encode_column(frame["split"], {"train": 0, "val": 1, "test": 2}, errors)
        label = _find_majority_yes(frame["toxicity"], errors, is_required=True).long()
        mentions = torch.stack([_find_majority_yes(frame[name], errors) for name in IDENTITIES], dim=1)
        mentions_any = _find_majority_yes(frame["identity_any"], errors).long()
        errors.raise_if_any(remedy=f"get {_FILE} again, or fix it")
        texts = frame[_TEXT].tolist()
        membership = torch.cat([mentions & (label == code)[:, None] for code in range(len(LABELS))], dim=1)
        labels = [name for name in LABELS for _ in IDENTITIES]
        table = build_table_by_reader(
            self.reader,
            texts,
            errors,
            find_split_rows(split),
            label=label,
            attribute=mentions_any,
            label_names=LABELS,
            attribute_names=["nobody mentioned", "somebody mentioned"],
            metadata={"source": "CivilComments, WILDS v1.0"},
            with_reader_metadata=True,
            evaluation_groups=EvaluationGroups(
                membership, labels, [name.replace("_", " ") for name in IDENTITIES] * len(LABELS)
            ),
            row_names=[text[:80] for text in texts],
        )
        table.metadata["figures"] = "16 overlapping groups: label and mentioned group of people"
        return table


def _find_majority_yes(shares: pd.Series[str], errors: RowErrors, is_required: bool = False) -> Tensor:
    """Return whether the share of annotators who said yes is at least half, (M,) bool; False for an empty cell.

    A row gets an error if its cell is not a number in [0, 1], or if it is empty and ``is_required``.
    """
    import pandas as pd

    numbers = pd.to_numeric(shares, errors="coerce")
    is_good = numbers.between(0, 1)
    if not is_required:
        is_good |= shares.str.strip() == ""
    for row in np.flatnonzero(~is_good).tolist():
        errors.add(row, f"{shares.name} is {shares.iloc[row]!r}, but must be a number in [0, 1]")
    return torch.from_numpy((numbers >= 0.5).to_numpy(copy=True))
