"""CivilComments: comments whose toxicity is to be told whatever group of people they mention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.frames import format_row_names
from logit_correction.data.rows import RowErrors
from logit_correction.data.table import DataTable, Scoring
from logit_correction.data.texts import TextReader
from logit_correction_lab.sources.published import PublishedSource, encode_column, find_split_rows, read_columns

if TYPE_CHECKING:
    import pandas as pd

#: The groups of people whose mention, with each label, makes the groups that are scored on.
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
LABELS = ("non-toxic", "toxic")

_TEXT = "comment_text"
_FILE = "all_data_with_identities.csv"


class CivilComments(PublishedSource):
    """CivilComments of WILDS: 269,038 train, 45,180 valid, 133,782 test comments, judged on 16 overlapping groups."""

    title = "CivilComments"
    folders = ("civilcomments_v1.0", "civilcomments")
    files = (_FILE,)
    source = "https://worksheets.codalab.org/rest/bundles/0x8cd3de0634154aeaad2ee6eb96723c6e/contents/blob/ (CC0)"

    def __init__(self, root: str | None = None, tokenizer: str | None = None, max_tokens: int = 300) -> None:
        """Choose the place of the file and the form of the texts.

        Methods that need attributes get four groups: the label, and whether any group of people is mentioned. All
        figures are of sixteen: the label, and the mention of each of eight groups of people; a comment counts in each
        that it belongs to.

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
        folder = self.folder()
        columns = [_TEXT, "split", "toxicity", *IDENTITIES, "identity_any"]
        frame = read_columns(folder / _FILE, columns)
        problems = RowErrors(str(folder / _FILE), format_row_names(frame.index))
        split = encode_column(frame["split"], {"train": 0, "val": 1, "test": 2}, problems)
        label = _present(frame["toxicity"], problems, required=True).long()
        mentioned = torch.stack([_present(frame[name], problems) for name in IDENTITIES], dim=1)
        anybody = _present(frame["identity_any"], problems).long()
        problems.raise_if_any(fix=f"get {_FILE} again, or fix it")
        texts = frame[_TEXT].tolist()
        of_split = find_split_rows(split)
        made = self.reader.fit_transform(texts, of_split["train"], problems)
        # Label x mentioned group of people.
        membership = torch.cat([mentioned & (label == y)[:, None] for y in range(len(LABELS))], dim=1)
        labels = [name for name in LABELS for _ in IDENTITIES]
        return DataTable(
            inputs=made.inputs,
            label=label,
            attribute=anybody,
            split=of_split,
            label_names=LABELS,
            attribute_names=["nobody mentioned", "somebody mentioned"],
            metadata={
                "source": "CivilComments, WILDS v1.0",
                **made.metadata,
                "figures": "16 overlapping groups: label and mentioned group of people",
            },
            scoring=Scoring(membership, labels, [name.replace("_", " ") for name in IDENTITIES] * len(LABELS)),
            row_names=[line[:80] for line in texts],
            preparation=made.preparation,
            **made.forms,
        )


def _present(values: pd.Series[str], problems: RowErrors, required: bool = False) -> Tensor:
    """Return whether at least half of those asked said so, (M,) bool; nobody where nothing is written.

    What is no number in [0, 1] is a problem of its row, and so is an empty cell if it is ``required``.
    """
    import pandas as pd

    share = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    good = (share >= 0) & (share <= 1)
    if not required:
        good |= (values.str.strip() == "").to_numpy()
    for row in np.flatnonzero(~good).tolist():
        problems.add(row, f"{values.name} is {values.iloc[row]!r}, but must be a number in [0, 1]")
    return torch.from_numpy(share >= 0.5)
