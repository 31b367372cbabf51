"""A CSV or Parquet file of texts, images or features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from logit_correction.data.own import Table
from logit_correction.data.texts import hashed_words
from logit_correction.errors import InputError

ROWS = 30
FRAME = pd.DataFrame(
    {
        "text": [f"text number {i} of " + ("joy" if i % 2 else "woe") for i in range(ROWS)],
        "mood": ["glad" if i % 2 else "sad" for i in range(ROWS)],
        "age": [20 + 7 * i % 31 for i in range(ROWS)],
        "place": [("town", "land", "sea")[i % 3] for i in range(ROWS)],
        "writer": [("a", "b")[i % 5 == 0] for i in range(ROWS)],
        "part": [("train", "train", "train", "dev", "test")[i // 2 % 5] for i in range(ROWS)],
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def source(file: Path, **options: Any) -> Table:
    return Table(str(file), **({"label": "mood"} | options))


@pytest.mark.parametrize("kind", ["tab.tsv", "quoted.csv", "file.parquet"])
def test_kinds_of_files(kind: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / kind
    frame = FRAME.assign(text=FRAME["text"] + '\nwith "quotes", commas; and lines')
    if kind.endswith("parquet"):
        frame.to_parquet(path)
    else:
        separator = {"tab.tsv": "\t"}.get(kind, ",")
        frame.to_csv(path, sep=separator, index=False, encoding="utf-8-sig")
    table = source(path, text="text", attribute="writer", split="part").build().check()
    assert torch.equal(
        table.inputs.fetch(torch.arange(ROWS)),
        hashed_words(frame["text"].tolist(), table.preparation["weights"]).fetch(torch.arange(ROWS)),
    )
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 18, "valid": 6, "test": 6}
    assert table.attribute.tolist() == [int(i % 5 == 0) for i in range(ROWS)]


def test_several_attributes_make_one(file: Path) -> None:
    table = source(file, text="text", attribute=["writer", "place"]).build().check()
    named = [table.attribute_names[int(a)] for a in table.attribute]
    assert named == [f"writer={w}, place={p}" for w, p in zip(FRAME["writer"], FRAME["place"], strict=True)]


def test_a_star_takes_all_that_is_left(file: Path, tmp_path: Path) -> None:
    FRAME.drop(columns="text").to_csv(tmp_path / "few.csv", index=False)
    table = source(tmp_path / "few.csv", features="*", split="part", attribute="writer").build()
    assert [column["name"] for column in table.preparation["columns"]] == ["age", "place"]


def test_numbers_may_stand_for_names(file: Path) -> None:
    table = source(file, features="*", categorical="age", split="part").build().check()
    (age,) = (column for column in table.preparation["columns"] if column["name"] == "age")
    assert age["categories"] == sorted({str(FRAME["age"][row]) for row in table.split["train"].tolist()})
    with pytest.raises(InputError, match=r"--data\.categorical age is none of the features: add it to --data\.feat"):
        source(file, features="place", categorical="age")


def test_columns_that_nobody_named(tmp_path: Path) -> None:
    frame = FRAME.rename(columns={"part": "split"}).drop(columns="text")
    frame.to_csv(tmp_path / "rows.csv")  # with the index
    table = source(tmp_path / "rows.csv", features="*").build()
    assert list(table.columns) == ["age", "place", "writer"] and table.lines is not None
    assert "the first column, without a name, is not used (Unnamed: 0)" in table.notes
    assert "the column 'split' is not used: give --data.split split to use it" in table.notes
    for options in ({"features": ["age", "split"]}, {"features": "*", "categorical": "split"}):
        assert "split" in source(tmp_path / "rows.csv", **options).build().columns


@pytest.mark.parametrize("values", [[[0, i] for i in range(ROWS)], [None if i % 2 else {"a": i} for i in range(ROWS)]])
def test_a_column_of_lists_or_structs_is_refused(values: list[Any], tmp_path: Path) -> None:
    FRAME.assign(nested=values).to_parquet(tmp_path / "rows.parquet")
    for options in ({"label": "nested", "features": "age"}, {"features": "*"}, {"text": "nested"}, {"path": "nested"}):
        with pytest.raises(InputError, match=r"rows\.parquet: column nested holds lists or mappings"):
            source(tmp_path / "rows.parquet", **options).build()
