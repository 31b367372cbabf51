"""Rows to label begin with the columns by which people know them, though no network sees these."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction import audit
from logit_correction.data.features import IDENTIFIER_LENGTH

from .conftest import SHIFTED_FRAME, SHORT, TRAINING_FRAME


def add_identifiers(frame: pd.DataFrame, first: int) -> pd.DataFrame:
    numbers = np.random.default_rng(first).permutation(len(frame)) + first
    names = [f"patient {number} " + "x" * 100 for number in numbers]
    return frame.assign(case=numbers, name=names)


@pytest.mark.parametrize("place", ["a table of their own", "the split new"])
def test_sheets_and_forms_begin_with_identifiers(place: str, tmp_path: Path) -> None:
    old = add_identifiers(TRAINING_FRAME, 1000)
    new = add_identifiers(SHIFTED_FRAME, 5000)
    if place == "the split new":
        frame = pd.concat([old.assign(split="train"), new.assign(split="new", outcome=None)], ignore_index=True)
        frame.loc[:150, "split"] = "valid"
        frame.loc[151:300, "split"] = "test"
        found = audit(frame, tmp_path / "out", split="split", ask=6, **SHORT | {"epochs": 1})
    else:
        rows = new.drop(columns="outcome").assign(answer_of_another=SHIFTED_FRAME["outcome"])
        found = audit(old, tmp_path / "out", new_rows=rows, ask=6, **SHORT | {"epochs": 1})
    sheet = pd.read_csv(found.path / "sheet.csv")
    for row, content in zip(sheet["row"], sheet["content"], strict=True):
        case, name = new["case"].iloc[row], new["name"].iloc[row][:IDENTIFIER_LENGTH]
        assert content.startswith(f"case {case}, name {name}, age ") and "answer_of_another" not in content
    fields = json.loads(found.new_rows["fields"].iloc[0])
    assert [name for name, _ in fields] == ["case", "name", "age", "blood", "scanner"]
    assert fields[0][1] == str(new["case"].iloc[0])
    assert len(found.rows.filter(["case", "name"]).columns) == 0  # of training rows nothing is told
