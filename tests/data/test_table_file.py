"""A CSV or Parquet file of texts, images or features."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction.attributes.given import RowFile
from logit_correction.data.frames import read_frame
from logit_correction.data.table_file import Table
from logit_correction.data.texts import hashed_words
from logit_correction.errors import InputError, InputWarning
from logit_correction.types import TrainingRows

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


def test_texts(file: Path) -> None:
    table = source(file, text="text").build().check()
    assert table.label_names == ["glad", "sad"] and not table.has_attributes("train")
    rows = torch.arange(ROWS)
    assert torch.equal(table.inputs.fetch(rows), hashed_words(FRAME["text"].tolist()).fetch(rows))
    assert table.row_names is not None and table.row_names[3] == "text number 3 of joy"
    new = source(file, text="text")
    assert torch.equal(new.read_values(["text number 3 of joy"]).fetch(rows[:1]), table.inputs.fetch(rows[3:4]))
    kind, names, store = new.read_table(file)
    assert (kind, names[:2]) == ("line", ["2", "3"]) and torch.equal(store.fetch(rows), table.inputs.fetch(rows))


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


def test_features_are_standardised_by_the_training_rows_alone(file: Path) -> None:
    table = source(file, features=["age", "place"], split="part").build().check()
    rows = table.split["train"]
    age = FRAME["age"].to_numpy(dtype=float)
    mean, deviation = age[rows].mean(), age[rows].std()
    vectors = table.inputs.fetch(torch.arange(ROWS))
    np.testing.assert_allclose(vectors[:, 0], (age - mean) / deviation, rtol=1e-5)
    assert vectors[:, 1:].sum(1).tolist() == [1.0] * ROWS and table.info.input_shape == (4,)
    columns = table.preparation["columns"]
    assert columns[1] == {"name": "place", "categories": ["land", "sea", "town"]}
    fresh = source(file.parent / "gone.csv", features="*")  # a loaded model needs no file of training rows
    fresh.prepare(table.preparation)
    again = fresh.read_values(FRAME[["age", "place"]].iloc[::-1]).fetch(torch.arange(ROWS))
    assert torch.equal(again.flip(0), vectors)
    with pytest.raises(InputError, match="some features are names"):
        fresh.as_store(vectors)


def test_numbers_alone_may_come_as_an_array(file: Path) -> None:
    one = source(file, features="age")
    table = one.build()
    values = torch.tensor(FRAME["age"].to_numpy(dtype=np.float32))[:, None]
    assert torch.allclose(
        one.as_store(values).fetch(torch.arange(ROWS)), table.inputs.fetch(torch.arange(ROWS)), atol=1e-6
    )


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


def test_image_files(images: Path, tmp_path: Path) -> None:
    table = source(images, path="shot", size=5, augment="crop-flip").build().check()
    found = table.inputs.images(torch.arange(ROWS))
    assert found is not None and found[:, 0, 0, 0].tolist() == list(range(ROWS)) and table.augment is not None
    above = source(tmp_path / "above.csv", path="shot", size=5).build()
    rooted = source(images, path="shot", size=5, root=str(images.parent)).build()
    for other in (above, rooted):
        assert torch.equal(other.inputs.images(torch.arange(ROWS)), found)
    kind, names, store = source(images, path="shot", size=5).read_table(images)
    assert (kind, names[1]) == ("path", "1.png") and torch.equal(store.images(torch.arange(ROWS)), found)
    with pytest.raises(InputError, match=r"30 rows are bad: row 2: '0.png' is missing in"):
        source(images, path="shot", root=str(tmp_path)).build()


def test_images_of_new_tables_lie_beside_them_or_in_the_root_of_training(images: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    file = images.rename(tmp_path / "tables" / "rows.csv")
    rooted = source(file, path="shot", size=5, root=str(images.parent))
    found = rooted.build().inputs.images(torch.arange(ROWS))
    assert found is not None
    assert torch.equal(rooted.read_table(file)[2].images(torch.arange(ROWS)), found)
    assert rooted.looks(read_frame(file), file.parent)["files"] == rooted.build().files
    Image.new("RGB", (5, 5), (90, 90, 90)).save(file.parent / "1.png")  # beside comes first
    assert rooted.read_table(file)[2].images(torch.arange(3))[:, 0, 0, 0].tolist() == [0, 90, 2]
    assert rooted.looks(read_frame(file), file.parent)["files"][1] == file.parent / "1.png"
    (images.parent / "0.png").unlink()
    both = f"1 row is bad: row 2: '0.png' is missing in {file.parent} and '0.png' is missing in {images.parent}"
    with pytest.raises(InputError, match=re.escape(both)):
        rooted.read_table(file)
    alone = source(images.parent / "gone.csv", path="shot", size=5)  # no root was named: that of training is no place
    with pytest.raises(InputError, match="29 rows are bad"):
        alone.read_table(file)


@pytest.mark.parametrize("rule", ["error", "skip"])
def test_files_elsewhere_are_answered_with_the_option(rule: str, images: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(images)
    frame["shot"] = [str(images.parent / name) for name in frame["shot"]]
    (tmp_path / "tables").mkdir()
    frame.to_csv(tmp_path / "tables" / "rows.csv", index=False)
    with pytest.raises(InputError, match=r"lies outside of .* give the folder that holds them all by --data\.root$"):
        source(tmp_path / "tables" / "rows.csv", path="shot", size=5, on_bad_rows=rule).build()
    table = source(tmp_path / "tables" / "rows.csv", path="shot", size=5, root=str(images.parent)).build()
    assert len(table.label) == ROWS


def bad(file: Path, **changes: tuple[int, Any]) -> Path:
    """Write the rows with some values changed."""
    frame = FRAME.astype(object)
    for column, (row, value) in changes.items():
        frame.loc[row, column] = value
    frame.to_csv(file, index=False)
    return file


def test_every_bad_row_is_named(file: Path) -> None:
    changed = bad(file, text=(4, "  "), mood=(9, None), part=(12, "holdout"))
    with pytest.raises(InputError) as caught:
        source(changed, text="text", split="part").build()
    assert str(caught.value) == (
        f"{changed}: 3 rows are bad: row 6: the text (column 'text') is empty; row 11: has no label; row 14: split "
        "'holdout' is none of train, valid, test; fix them, or leave them out by --data.on_bad_rows skip"
    )
    table = source(changed, text="text", split="part", on_bad_rows="skip").build().check()
    assert sum(map(len, table.split.values())) == ROWS - 3 and "3 bad rows were left out" in table.notes[0]


def test_features_that_are_no_numbers(file: Path) -> None:
    changed = bad(file, age=(4, "old"))
    with pytest.raises(InputError, match=r"row 6: column 'age' holds 'old', which is no finite number; fix"):
        source(changed, features=["age", "place"]).build()
    table = source(changed, features=["age", "place"], on_bad_rows="skip").build().check()
    assert [column["name"] for column in table.preparation["columns"]] == ["age", "place"]


def test_missing_values_and_texts_that_are_no_categories_are_told(file: Path, tmp_path: Path) -> None:
    frame = FRAME.astype({"age": object}).assign(code=[f"p{i}" for i in range(ROWS)])
    frame.loc[[4, 9], "age"], frame.loc[[5], "place"] = [None, "NA"], ""
    frame = pd.concat([frame] * 6, ignore_index=True).assign(code=lambda rows: [f"p{i}" for i in rows.index])
    frame.to_csv(file, index=False)
    star = source(file, features="*", attribute=["writer", "text", "part"], keep_duplicates=True)
    table = star.build().check()
    notes = [note for note in table.notes if "columns" in note]
    assert [column["name"] for column in table.preparation["columns"]] == ["age", "place"]
    assert notes == [
        "columns that are no features, since few rows share a text: 'code' (180 different texts)",
        "columns with missing values: 'age' in 12 of 180 rows; 'place' in 6 of 180 rows; a number or date that is "
        "missing counts as the mean of the training rows, and an input of its own says that it is missing",
    ]
    with pytest.raises(InputError, match=r"column 'code' holds .* different texts"):
        source(file, features=["age", "code"], keep_duplicates=True).build()
    frame.head(30).drop(columns=["mood", "code"]).to_csv(tmp_path / "new.csv", index=False)
    new = star.read_table(tmp_path / "new.csv")[2].fetch(torch.arange(30))
    numbers = source(file, features=["age"], keep_duplicates=True)
    numbers.build()
    with pytest.raises(InputError, match="may be missing: give the new rows as a data frame"):
        numbers.as_store(torch.zeros(2, 2))
    assert torch.equal(new, table.inputs.fetch(torch.arange(30))) and new[:, 1].nonzero().flatten().tolist() == [4, 9]


def test_what_a_star_takes_is_not_refused_for_the_training_rows_alone(file: Path) -> None:
    cities = [f"city {i % 119}" for i in range(1_200)]  # ten rows share one, of training about seven
    pd.DataFrame({"city": cities, "age": range(1_200), "mood": ["glad", "sad"] * 600}).to_csv(file, index=False)
    assert source(file, features="*").build().info.input_shape == (120,)


@pytest.mark.parametrize("kind", [{"text": "text"}, {"features": ["age"]}])
def test_rows_that_repeat_others(kind: dict[str, Any], file: Path) -> None:
    twice = pd.concat([FRAME, FRAME.iloc[[0, 3]].assign(part="test")])
    twice.to_csv(file, index=False)
    with pytest.raises(InputError, match="2 rows are bad: row 32: repeats row 2; row 33: repeats row 5"):
        source(file, split="part", **kind).build()
    kept = source(file, split="part", keep_duplicates=True, **kind).build()
    assert sum(map(len, kept.split.values())) == ROWS + 2


def test_a_feature_that_is_written_otherwise_is_the_same_and_any_other_column_is_not(file: Path) -> None:
    frame = FRAME.astype({"age": str}).assign(number=[f"1234567890123456789{i:02}" for i in range(ROWS)])
    frame.loc[ROWS] = {**frame.loc[3], "age": f"{frame.age[3]}.0"}
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match="1 row is bad: row 32: repeats row 5"):
        source(file, features=["age"]).build()
    frame.loc[ROWS, "number"] = "123456789012345678999"  # as a float it is that of row 5
    frame.to_csv(file, index=False)
    assert len(source(file, features=["age"]).build().label) == ROWS + 1


def test_new_rows_are_checked(file: Path, tmp_path: Path) -> None:
    texts = source(file, text="text")
    (tmp_path / "new.csv").write_text("text,more\ngood,1\n,2\n")
    with pytest.raises(InputError, match=r"new\.csv: 1 row is bad: row 3: the text .* is empty; fix or remove them"):
        texts.read_table(tmp_path / "new.csv")
    (tmp_path / "new.csv").write_text("txt\ngood\n")
    with pytest.raises(InputError, match=r"no column 'text' \(did you mean txt\?\)"):
        texts.read_table(tmp_path / "new.csv")
    with pytest.raises(InputError, match="takes texts, not image files"):
        texts.read_new([tmp_path / "a.png"])


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


def test_unknown_names_of_new_rows_are_told_of_once(file: Path) -> None:
    table = source(file, features=["age", "place"])
    table.build()
    new = pd.DataFrame({"age": [20, 30], "place": ["sea", "moon"]})
    with pytest.warns(InputWarning, match=r"column 'place' holds names .*, such as 'moon', in 1 of 2 new rows"):
        table.read_values(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.read_values(new)


@pytest.mark.parametrize("features", ["*", "size"])
def test_numbers_that_are_written_otherwise_are_told_of(features: str, file: Path) -> None:
    frame = FRAME[["mood", "age"]].assign(size=[f"0,{126 + i}" for i in range(ROWS)])
    frame.to_csv(file, index=False)
    told = (
        "columns that look like numbers, but are read as names: 'size' (such as '0,126'); write plain numbers, such as "
    )
    assert told + "0.126 or 1037.5" in source(file, features=features).build().notes
    pd.concat([frame.assign(size=[f"{k},{i}" for i in range(ROWS)]) for k in range(6)]).to_csv(file, index=False)
    if features == "*":
        assert any("(such as '0,0')" in note for note in source(file, features="*", keep_duplicates=True).build().notes)
        return
    with pytest.raises(InputError, match=r"180 different texts .* write '0,0' as a plain number, such as 1037\.5"):
        source(file, features="size").build()


@pytest.mark.parametrize("inputs", [{"features": ["age", "mood"]}, {"text": "mood"}, {"path": "mood"}])
def test_the_label_is_no_input(inputs: dict[str, Any], file: Path) -> None:
    with pytest.raises(InputError, match=f"'mood' would be its own input: leave it out of --data.{next(iter(inputs))}"):
        source(file, **inputs)


def test_a_first_column_that_only_numbers_the_rows_is_left_out(file: Path) -> None:
    FRAME.drop(columns="text").sort_values("mood").to_csv(file)
    told = "the first column, without a name, numbers the rows and is not used (Unnamed: 0)"
    table = source(file, features="*", keep_duplicates=True).build()
    assert told in table.notes and "Unnamed: 0" not in [column["name"] for column in table.preparation["columns"]]
    named = source(file, features=["age", "Unnamed: 0"], keep_duplicates=True).build()
    assert told not in named.notes and named.info.input_shape == (2,)
    pd.concat([FRAME, FRAME[3:4]], ignore_index=True).to_csv(file)
    with pytest.raises(InputError, match="row 32: repeats row 5"):
        source(file, text="text").build()
    FRAME[["age", "mood"]].assign(age=FRAME["age"] % 5).rename(columns={"age": ""}).to_csv(file, index=False)
    assert source(file, features="*", keep_duplicates=True).build().info.input_shape == (1,)


def test_the_lines_of_a_csv_are_kept_for_files_that_tell_of_them(file: Path, tmp_path: Path) -> None:
    rows = file.read_text().splitlines()
    file.write_text("\n".join([*rows[:3], "", *rows[3:]]) + "\n")  # a blank line behind line 3
    table = source(file, features=["age"], keep_duplicates=True).build()
    assert table.lines is not None and table.lines.tolist() == [2, 3, *range(5, ROWS + 3)]
    names = source(file, features=["age"], keep_duplicates=True)
    names.prepare(table.preparation)
    assert names.read_table(file)[1] == [str(line) for line in table.lines.tolist()]
    train = table.split["train"]
    (tmp_path / "told.csv").write_text("line,attribute\n" + "\n".join(f"{line},a" for line in table.lines.tolist()))
    asked = TrainingRows(table.label[train], numbers=train, lines=table.lines[train])
    assert RowFile(tmp_path / "told.csv").names_of(asked) == [str(line) for line in table.lines[train].tolist()]
    FRAME.to_parquet(tmp_path / "rows.parquet")
    assert source(tmp_path / "rows.parquet", features=["age"]).build().lines is None


def test_files_that_are_no_tables(file: Path, tmp_path: Path) -> None:
    for name, content, message in (
        ("a.csv", b"", "a.csv is empty: give a CSV with the names of its columns"),
        ("b.csv", b"text,mood\n", "has no rows"),
        ("c.csv", b"text,mood\na,\xe9\n", 'cannot be read as a table .*: save it as UTF-8 .in Excel: "CSV UTF-8".'),
        ("d.parquet", b"PAR1", "cannot be read as a table"),
        ("e.csv", b"text,mood\na,b\nc,d,e,f\n", "row 3 has 4 cells, but there are 2 columns.: put texts that"),
        ("g.json", b"{}", "no CSV or Parquet file: save the table as CSV"),
        ("h.xlsx", b"PK", "no CSV or Parquet file: save the table as CSV"),
        ("f.csv", b"text,mood,mood \na,b,c\n", "more than one column mood"),
        ("i.csv", b"text,mood,mood\na,b,c\n", "more than one column mood"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message) as caught:
            source(tmp_path / name, text="text").build()
        assert name in str(caught.value)
    with pytest.raises(InputError, match=r"gone\.csv does not exist"):
        source(tmp_path / "gone.csv", text="text").build()
    with pytest.raises(InputError, match=r"no column 'moods' \(did you mean mood\?\), 'who': it has text, mood, age"):
        source(file, text="text", label="moods", attribute="who").build()


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


@pytest.mark.parametrize("values", NESTED.values(), ids=NESTED.keys())
def test_a_column_of_lists_or_structs_that_nobody_uses_tells_rows_apart(values: list[Any], tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [20, 30] * (ROWS // 2), "mood": ["sad", "glad"] * (ROWS // 2), "nested": values})
    frame["nested"] = values if values[1] is not None else [one or [{"size": [-i]}] for i, one in enumerate(values)]
    frame.to_parquet(tmp_path / "rows.parquet")
    table = Table(str(tmp_path / "rows.parquet"), "mood", features="age").build()
    assert sum(len(rows) for rows in table.split.values()) == ROWS
    pd.concat([frame, frame[3:4]]).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=f"row {ROWS}: repeats row 3"):
        Table(str(tmp_path / "rows.parquet"), "mood", features="age").build()
