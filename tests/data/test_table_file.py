"""A CSV or Parquet file of texts, images or features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import from_table, train
from logit_correction.data.own import ImageFolder, Table
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


def build_source(file: Path, **options: Any) -> Table:
    return Table(str(file), **({"label": "mood"} | options))


@pytest.mark.parametrize("kind", ["tab.tsv", "quoted.csv", "file.parquet"])
def test_table_reads_texts_splits_and_attributes_of_any_file_format(kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    frame = FRAME.assign(text=FRAME["text"] + '\nwith "quotes", commas; and lines')
    if kind.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if kind.endswith("tsv") else ",", index=False, encoding="utf-8-sig")
    table = build_source(path, text="text", attribute=["writer", "place"], split="part").build().check()
    assert table.texts == frame["text"].tolist()
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 18, "valid": 6, "test": 6}
    attribute_values = [table.attribute_names[int(a)] for a in table.attribute]
    assert attribute_values == [f"writer={w}, place={p}" for w, p in zip(FRAME["writer"], FRAME["place"], strict=True)]


def test_star_takes_all_remaining_columns_as_features(tmp_path: Path) -> None:
    FRAME.drop(columns="text").to_csv(tmp_path / "few.csv", index=False)
    table = build_source(tmp_path / "few.csv", features="*", split="part", attribute="writer").build()
    assert [column["name"] for column in table.preparation["columns"]] == ["age", "place"]


def test_categorical_option_reads_numbers_as_names(file: Path) -> None:
    table = build_source(file, features="*", categorical="age", split="part").build().check()
    (age,) = (column for column in table.preparation["columns"] if column["name"] == "age")
    assert age["categories"] == sorted({str(FRAME["age"][row]) for row in table.split["train"].tolist()})
    with pytest.raises(InputError, match=r"`categorical='age'` is not one of the features: add it to `feat"):
        build_source(file, features="place", categorical="age")


def test_unnamed_index_and_split_columns_are_not_features(tmp_path: Path) -> None:
    frame = FRAME.rename(columns={"part": "split"}).drop(columns="text")
    frame.to_csv(tmp_path / "rows.csv")  # with the index
    table = build_source(tmp_path / "rows.csv", features="*").build()
    assert list(table.columns) == ["age", "place", "writer"] and table.lines is not None
    assert "the first column, without a name, is not used (Unnamed: 0)" in table.notes
    assert "the column 'split' is not used: give `split='split'` to use it" in table.notes
    for options in ({"features": ["age", "split"]}, {"features": "*", "categorical": "split"}):
        assert "split" in build_source(tmp_path / "rows.csv", **options).build().columns


def test_split_numbers_are_read_only_where_one_is_that_of_test(tmp_path: Path) -> None:
    """0 and 1 alone may be the answer to "is it a training row?"."""
    numbers = FRAME["part"].map({"train": 0, "dev": 1, "test": 2})
    FRAME.assign(part=numbers).to_csv(tmp_path / "rows.csv", index=False)
    table = build_source(tmp_path / "rows.csv", text="text", split="part").build()
    assert {name: len(rows) for name, rows in table.split.items()} == {"train": 18, "valid": 6, "test": 6}
    FRAME.assign(part=numbers % 2).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InputError, match=r"split '0' is not one of train, valid, test and new \(of 0 and 1 alone"):
        build_source(tmp_path / "rows.csv", text="text", split="part").build()


def test_name_that_often_stands_for_no_value_is_told(tmp_path: Path) -> None:
    frame = FRAME.assign(mood=np.where(np.arange(ROWS) % 3, FRAME["mood"], "NA"))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    notes = build_source(tmp_path / "rows.csv", text="text", attribute="writer").build().notes
    assert [note for note in notes if note.startswith("'NA' counts as a name of the label")]
    assert not any("of the attribute" in note for note in notes)


def test_blank_lines_above_the_heading_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("\n\n" + FRAME.to_csv(index=False))
    table = build_source(tmp_path / "rows.csv", text="text").build()
    assert table.texts == FRAME["text"].tolist() and table.lines is not None and table.lines[0] == 4


@pytest.mark.parametrize("values", [[[0, i] for i in range(ROWS)], [None if i % 2 else {"a": i} for i in range(ROWS)]])
def test_column_of_lists_or_structs_is_refused(values: list[Any], tmp_path: Path) -> None:
    FRAME.assign(nested=values).to_parquet(tmp_path / "rows.parquet")
    for options in ({"label": "nested", "features": "age"}, {"features": "*"}, {"text": "nested"}, {"path": "nested"}):
        with pytest.raises(InputError, match=r"rows\.parquet: column nested holds lists or mappings"):
            build_source(tmp_path / "rows.parquet", **options).build()


def test_image_paths_are_relative_to_the_root_option(tmp_path: Path) -> None:
    folder = tmp_path / "birds"
    folder.mkdir()
    names = [f"birds/{row}.png" for row in range(ROWS)]
    for row, name in enumerate(names):
        Image.new("RGB", (8, 8), (row, 0, 0)).save(tmp_path / name)
    FRAME.assign(path=names).to_csv(folder / "metadata.csv", index=False)
    with pytest.raises(InputError, match=r"is missing in .* \(name another folder by `root`\)"):
        build_source(folder / "metadata.csv", path="path").build()
    assert len(build_source(folder / "metadata.csv", path="path", root=str(tmp_path)).build().check().label) == ROWS


@pytest.mark.parametrize(
    "spelling", ["birds/{}", "birds/{}.JPG", "birds\\{}.jpg"], ids=["no ending", "case", "backslash"]
)
def test_image_names_may_lack_their_ending_where_only_one_image_can_be_meant(spelling: str, tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    for row in range(ROWS):
        Image.new("RGB", (8, 8), (row, 0, 0)).save(tmp_path / f"birds/a{row}.jpg")
    FRAME.assign(path=[spelling.format(f"a{row}") for row in range(ROWS)]).to_csv(tmp_path / "rows.csv", index=False)
    source = build_source(tmp_path / "rows.csv", path="path")
    table = source.build()
    assert len(table.label) == ROWS and any("not quite as their files are called" in note for note in table.notes)
    (tmp_path / "birds/A3.JPG").symlink_to(tmp_path / "birds/a4.jpg")  # now two images may be meant
    with pytest.raises(InputError, match=r"a3.* is missing in"):
        build_source(tmp_path / "rows.csv", path="path").build()


LOOK_ALIKE_SPELLINGS = {
    "composed": "krank-e\u0301",
    "no width": "krank\u200b-é",
    "byte order mark": "\ufeffkrank-é",
    "soft": "kra\u00adnk-é",
}
WIDE = "\uff54\uff4f\uff57\uff4e"  # town


@pytest.mark.parametrize("kind", LOOK_ALIKE_SPELLINGS)
def test_names_that_differ_by_invisible_characters_are_equal(kind: str, tmp_path: Path) -> None:
    def respell(name: str, place: int) -> str:
        return LOOK_ALIKE_SPELLINGS[kind] if name == "krank-é" and place % 4 == 1 else name

    moods = [respell(("gut", "krank-é")[i % 2], i) for i in range(ROWS)]
    frame = FRAME.assign(mood=moods, place=moods[::-1], writer=moods)
    frame = frame.rename(columns={"mood": "stimmung-e\u0301", "writer": "wer\u200b"})
    frame.to_parquet(tmp_path / "rows.parquet")
    options = {"label": "stimmung-é", "features": ["age", "place"], "attribute": "wer"}
    table = build_source(tmp_path / "rows.parquet", **options).build()
    assert table.label_names == table.attribute_names == ["gut", "krank-é"]
    assert [column_info["categories"] for column_info in table.preparation["columns"][1:]] == [["gut", "krank-é"]]
    folder = tmp_path / "folder"
    for name in ("gut", "krank-é", LOOK_ALIKE_SPELLINGS[kind]):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(4):
            Image.new("RGB", (9, 9)).save(folder / name / f"cafe\u0301 {number}.png")
    folder_table = ImageFolder(str(folder)).build()
    assert folder_table.label_names == ["gut", "krank-é"] and len(folder_table.label) == 12


def test_letters_of_another_width_are_one_category_and_refused_as_labels(tmp_path: Path) -> None:
    frame = FRAME.assign(place=[WIDE if i % 6 == 0 else place for i, place in enumerate(FRAME["place"])])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    table = build_source(tmp_path / "rows.csv", features=["place"]).build()
    assert table.preparation["columns"][0]["categories"] == ["land", "sea", "town"]
    with pytest.raises(InputError, match=rf"'town' .* and '{WIDE}'"):
        build_source(tmp_path / "rows.csv", label="place", features=["age"]).build()


def test_names_in_new_rows_and_labels_are_normalized(tmp_path: Path) -> None:
    frame = pd.DataFrame({"größe": ["groß-é", "klein"] * 30, "y": ["é", "a"] * 30})
    data = from_table(frame, label="y", features="gro\u0308ße", folder=tmp_path)
    run = train(data, method="ERM", device="cpu", epochs=3)
    new = pd.DataFrame({"gro\u0308\u200bße": ["groß-e\u0301", "klein"] * 4, "y": ["e\u0301", "a"] * 4})
    assert run.predict(new).tolist() == run.predict(frame[:8]).tolist()
    assert run.evaluate(new, label="y")["average"] == run.evaluate(frame[:8], label="y")["average"]
