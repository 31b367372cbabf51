"""A CSV or Parquet file of texts, images or features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction.data.table_file import Table
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


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def source(file: Path, **options: Any) -> Table:
    return Table(str(file), **({"label": "mood"} | options))


@pytest.mark.parametrize("kind", ["semicolon.csv", "tab.tsv", "quoted.csv", "file.parquet"])
def test_kinds_of_files(kind: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / kind
    frame = FRAME.assign(text=FRAME["text"] + '\nwith "quotes", commas; and lines')
    if kind.endswith("parquet"):
        frame.to_parquet(path)
    else:
        separator = {"semicolon.csv": ";", "tab.tsv": "\t"}.get(kind, ",")
        frame.to_csv(path, sep=separator, index=False, encoding="utf-8-sig")
    table = source(path, text="text", attribute="writer", split="part").build().check()
    assert torch.equal(
        table.inputs.fetch(torch.arange(ROWS)), hashed_words(frame["text"].tolist()).fetch(torch.arange(ROWS))
    )
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 18, "valid": 6, "test": 6}
    assert table.attribute.tolist() == [int(i % 5 == 0) for i in range(ROWS)]


def test_several_attributes_make_one(file: Path) -> None:
    table = source(file, text="text", attribute=["writer", "place"]).build().check()
    assert len(table.attribute_names) == 6 and table.attribute_names[0] == "writer=a, place=land"
    named = [table.attribute_names[int(a)] for a in table.attribute]
    assert named == [f"writer={w}, place={p}" for w, p in zip(FRAME["writer"], FRAME["place"], strict=True)]


def test_a_star_takes_all_that_is_left(file: Path, tmp_path: Path) -> None:
    FRAME.drop(columns="text").to_csv(tmp_path / "few.csv", index=False)
    table = source(tmp_path / "few.csv", features="*", split="part", attribute="writer").build()
    assert [column["name"] for column in table.preparation["columns"]] == ["age", "place"]
    FRAME[["mood"]].to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(InputError, match="no column left for features"):
        source(tmp_path / "none.csv", features="*", keep_duplicates=True).build()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "shots"
    folder.mkdir()
    for i in range(ROWS):
        Image.new("RGB", (5, 5), (i, i, i)).save(folder / f"{i}.png")
    names = [f"{i}.png" for i in range(ROWS)]
    FRAME.assign(shot=names).to_csv(folder / "rows.csv", index=False)
    FRAME.assign(shot=[f"shots/{name}" for name in names]).to_csv(tmp_path / "above.csv", index=False)
    return folder / "rows.csv"


def bad(file: Path, **changes: tuple[int, Any]) -> Path:
    """Write the rows with some values changed."""
    frame = FRAME.astype(object)
    for column, (row, value) in changes.items():
        frame.loc[row, column] = value
    frame.to_csv(file, index=False)
    return file


def test_features_that_are_no_numbers(file: Path) -> None:
    changed = bad(file, age=(4, "old"))
    with pytest.raises(InputError, match=r"row 6: column 'age' holds 'old', which is no finite number; fix"):
        source(changed, features=["age", "place"]).build()
    table = source(changed, features=["age", "place"], on_bad_rows="skip").build().check()
    assert [column["name"] for column in table.preparation["columns"]] == ["age", "place"]


def test_what_a_star_takes_is_not_refused_for_the_training_rows_alone(file: Path) -> None:
    cities = [f"city {i % 119}" for i in range(1_200)]  # ten rows share one, of training about seven
    pd.DataFrame({"city": cities, "age": range(1_200), "mood": ["glad", "sad"] * 600}).to_csv(file, index=False)
    assert source(file, features="*").build().info.input_shape == (120,)


def test_numbers_may_stand_for_names(file: Path) -> None:
    table = source(file, features="*", categorical="age", split="part").build().check()
    (age,) = (column for column in table.preparation["columns"] if column["name"] == "age")
    assert age["categories"] == sorted({str(FRAME["age"][row]) for row in table.split["train"].tolist()})
    with pytest.raises(InputError, match=r"--data\.categorical age is none of the features: add it to --data\.feat"):
        source(file, features="place", categorical="age")
    with pytest.raises(InputError, match=r"no column 'site'"):
        source(file, features="*", categorical=["site"]).build()
    with pytest.raises(InputError, match=r"--data\.categorical is for features"):
        source(file, text="text", categorical="age")


@pytest.mark.parametrize("inputs", [{"features": ["age", "mood"]}, {"text": "mood"}, {"path": "mood"}])
def test_the_label_is_no_input(inputs: dict[str, Any], file: Path) -> None:
    with pytest.raises(InputError, match=f"'mood' would be its own input: leave it out of --data.{next(iter(inputs))}"):
        source(file, **inputs)


def test_options_that_do_not_go_together(file: Path) -> None:
    FRAME.to_parquet(file.with_suffix(".parquet"))
    for suffix in (".csv", ".parquet"):
        with pytest.raises(InputError, match=rf"given: none; .*rows\{suffix} has the columns text, mood, age"):
            source(file.with_suffix(suffix))
        with pytest.raises(InputError, match=rf"data.label is missing: .*; .*rows\{suffix} has the columns text, mood"):
            Table(str(file.with_suffix(suffix)), text="text")
    for broken in (b"", b"PAR1"):
        file.with_name("broken.parquet").write_bytes(broken)
        with pytest.raises(InputError, match=r"given: none$"):
            source(file.with_name("broken.parquet"))
    with pytest.raises(InputError, match="given: text and path"):
        source(file, text="text", path="text")
    with pytest.raises(InputError, match=r"--data\.tokenizer is for texts"):
        source(file, path="text", tokenizer="x")
    noted = source(file.rename(file.with_name("named.csv")), text="text")
    noted.file.write_text(noted.file.read_text().replace("part", "split", 1))
    note = "the column 'split' is not used: give --data.split split to use it"
    assert noted.build().notes == (note,)
    table = source(noted.file, features="*").build()
    assert note in table.notes and "split" not in table.columns
    for options in ({"features": ["age", "split"]}, {"features": "*", "categorical": "split"}):
        table = source(noted.file, **options).build()
        assert note not in table.notes and "split" in table.columns


NESTED = {
    "lists": [[0, i] for i in range(ROWS)],
    "structs": [{"size": i} for i in range(ROWS)],
    "lists of structs, some missing": [None if i % 2 else [{"size": [i]}] for i in range(ROWS)],
}


@pytest.mark.parametrize("values", NESTED.values(), ids=NESTED.keys())
@pytest.mark.parametrize(
    "options",
    [
        {"label": "nested", "features": "age"},
        {"label": "mood", "features": ["age", "nested"]},
        {"label": "mood", "features": "*"},
        {"label": "mood", "features": "age", "attribute": "nested"},
        {"label": "mood", "features": "age", "split": "nested"},
        {"label": "mood", "text": "nested"},
        {"label": "mood", "path": "nested"},
    ],
    ids=str,
)
def test_a_column_of_lists_or_structs_is_refused(values: list[Any], options: dict[str, Any], tmp_path: Path) -> None:
    FRAME.assign(nested=values).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"rows\.parquet: column nested holds lists or mappings"):
        Table(str(tmp_path / "rows.parquet"), **options).build()
