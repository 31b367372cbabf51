"""Faults of rows that users met: each is told, and what can be used is used."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from datetime import date, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from PIL import Image

from logit_correction import InputError, from_table, load, train

Run = Callable[[str], Path]
CommandRunner = Callable[..., Any]
TRAIN = "train --method ERM --threads 1 --epochs 1 --data.label y --data.features * --out x --data t.csv"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(rows: int = 80, **columns: Any) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    label = np.arange(rows) % 2
    frame = pd.DataFrame({"a": draw.normal(size=rows) + label, "y": np.array(["no", "yes"])[label]}).assign(**columns)
    frame.to_csv("t.csv", index=False)
    return frame


@pytest.mark.parametrize("values", [["4"] * 76, [str(number) for number in range(76)]])
def test_of_a_column_of_numbers_with_a_word_an_option_decides(values: list[str], run_command: CommandRunner) -> None:
    table(b=["4", "6", "8", "rotary", *values])
    answer = run_command(*TRAIN.split())
    assert answer.status == 2 and "line 5: column 'b' holds 'rotary'" in answer.err and not Path("x").exists()
    assert run_command(*TRAIN.split(), "--data.numbers", "b").status == 0
    columns = json.loads(Path("x/report.json").read_text())["data"]["preparation"]["columns"]
    assert columns[1]["kind"] == "numbers" and columns[1]["gaps"] in (True, False)
    Path("new.csv").write_text("a,b\n1,4\n1,rotary\n1,>9\n")
    answer = run_command("predict", "x", "new.csv")
    assert answer.status == 0 and len(answer.out.splitlines()) == 4  # of training alone or not, they are missing
    assert run_command(*f"{TRAIN} --out z --data.categorical b".split()).status == 0


WRITTEN = {
    "semicolons": ("{:.3f}", ";", ()),
    "a comma": ("{:.3f}", ",", ("--data.decimal", ",")),
    "thousands": ("{:,.1f}", ",", ("--data.thousands", ",")),
    "points in thousands": ("{:,.1f}", ";", ("--data.thousands", ".")),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_numbers_as_other_countries_write_them_are_read(kind: str, run_command: CommandRunner) -> None:
    form, separator, options = WRITTEN[kind]
    frame = table(b=np.random.default_rng(1).normal(5000, 2000, 80).round(1))
    run_command(*TRAIN.split())
    exact = json.loads(Path("x/report.json").read_text())["data"]["preparation"]["columns"]

    def written(number: float) -> str:
        text = form.format(number)
        return text if kind == "thousands" else text.translate(str.maketrans(".,", ",."))

    frame.assign(b=frame["b"].map(written), a=frame["a"].round(3)).to_csv("t.csv", index=False, sep=separator)
    if options:
        answer = run_command(*TRAIN.replace("x", "y").split())
        assert options[0] in answer.err
    assert run_command(*f"{TRAIN} --out z".split(), *options).status == 0
    found = json.loads(Path("z/report.json").read_text())["data"]["preparation"]["columns"]
    assert [one["kind"] for one in found] == ["numbers"] * 2
    assert found[1]["mean"] == pytest.approx(exact[1]["mean"], abs=0.1)
    assert run_command("predict", "z", "t.csv").status == 0


def test_days_before_months_encodings_and_units(run_command: CommandRunner) -> None:
    days = [f"{1 + row % 28:02}.{1 + row % 12:02}.2021" for row in range(80)]
    frame = table(b=days, c=[f"{row % 9}.5 kg" for row in range(80)])
    answer = run_command(*TRAIN.split())
    assert "--data.dayfirst" in answer.err and "'0.5 kg' has a unit" in answer.err
    assert run_command(*f"{TRAIN} --out z --data.dayfirst true".split()).status == 0
    found = json.loads(Path("z/report.json").read_text())["data"]["preparation"]["columns"]
    assert found[1]["kind"] == "dates"
    frame.to_csv("t.csv", index=False, encoding="utf-16")
    assert run_command(*f"{TRAIN} --out v --data.dayfirst true".split()).status == 0
    reports = [json.loads(Path(name, "report.json").read_text())["test"] for name in ("z", "v")]
    assert reports[0] == reports[1]
    frame.drop(columns="b").assign(c=["süd", "nord"] * 40).to_csv("t.csv", index=False, encoding="latin-1")
    assert "--data.encoding latin-1" in run_command(*f"{TRAIN} --out u".split()).err
    assert run_command(*f"{TRAIN} --out u --data.encoding latin-1".split()).status == 0
    answer = run_command("predict", "u", "t.csv")
    assert answer.status == 0 and "not trained" not in answer.err


def test_whole_numbers_that_differ_in_every_row_are_told_as_identifiers(run_command: CommandRunner) -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(size=200), "id": 7000 + draw.permutation(200), "y": ["no", "yes"] * 100})
    frame.to_csv("t.csv", index=False)
    for options, kept in (((), ["a"]), (("--data.numbers", "id"), ["a", "id"])):
        answer = run_command(*TRAIN.split(), *(("--out", "z") if options else ()), *options)
        assert answer.status == 0 and ("identifiers" in answer.err and "'id'" in answer.err) == (not options)
        report = json.loads(Path("z" if options else "x", "report.json").read_text())
        assert [one["name"] for one in report["data"]["preparation"]["columns"]] == kept


def test_a_missing_file_suggests_a_name_that_is_like_it(run_command: CommandRunner, tmp_path: Path) -> None:
    table().to_csv("wine.csv")
    folder = tmp_path.resolve()
    for given, near in (("tt.csv", "t.csv"), ("quite-another.csv", None), ("nofile.csv", None)):
        for place in (given, str(folder / given)):
            err = run_command("train", "--data", place, "--data.label", "y", "--out", "x").err
            assert ("did you mean" in err) == (near is not None)
            assert near is None or f"did you mean {place.replace(given, near)}?" in err


def test_test_rows_that_copy_training_rows_are_told(run_command: CommandRunner) -> None:
    table(a=np.arange(80) % 2)
    answer = run_command(*TRAIN.split())
    assert answer.status == 0 and "16 of 16 test rows have the input of a training row: are they copies?" in answer.err


@pytest.mark.parametrize("separator", [",", ";"])
def test_predict_answers_all_but_the_bad_rows_and_lists_them(
    separator: str, run_command: CommandRunner, run: Run, here: Path
) -> None:
    frame = pd.read_csv(here / "later.csv", dtype=str)
    whole = pd.read_csv(
        io.StringIO(run_command("predict", run("patients-lc"), here / "later.csv").out), index_col="line"
    )
    frame.loc[3, "age"] = ""
    frame.loc[9, "age"] = "old"
    frame.to_csv("new.csv", index=False, sep=separator)
    answer = run_command("predict", run("patients-lc"), "new.csv", "--out", "out.csv")
    found = pd.read_csv("out.csv", index_col="line")
    assert answer.status == 0 and found[found["label"].isna()].index.tolist() == [5, 11]
    assert "2 rows have no answer" in answer.err and "line 5: column 'age' is empty" in answer.err
    pd.testing.assert_frame_equal(found.dropna(), whole.drop([5, 11]))
    assert load(run("patients-lc")).predict(frame.drop([3, 9])).tolist() == found["label"].dropna().tolist()
    frame.loc[[3, 9]].to_csv("new.csv", index=False, sep=separator)
    answer = run_command("predict", run("patients-lc"), "new.csv", "--out", "none.csv")
    assert answer.status == 2 and "2 rows are bad" in answer.err and not Path("none.csv").exists()


def test_predict_reads_a_large_file_part_by_part(
    run_command: CommandRunner, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predicted() -> pd.DataFrame:
        return pd.read_csv(StringIO(run_command("predict", run("patients-lc"), here / "later.csv").out))

    whole = predicted()
    monkeypatch.setattr("logit_correction.data.source.ROWS_AT_A_TIME", 7)
    # How many rows are multiplied at a time changes the last digit on some processors.
    pd.testing.assert_frame_equal(predicted(), whole, rtol=1e-5)


def test_images_whose_names_are_not_utf8(run_command: CommandRunner, run: Run, here: Path) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    Path("photos").mkdir()
    try:
        Image.linear_gradient("L").save(Path("photos") / name)
    except OSError:
        pytest.skip("the file system takes no such names")
    (Path("photos") / "broken.png").write_bytes(b"no image")
    answer = run_command("predict", run("photos-erm"), "photos", "--out", "out.csv")
    found = pd.read_csv("out.csv")
    assert answer.status == 0 and "broken.png: is not an image" in answer.err
    assert found["path"].tolist() == ["photos/broken.png", "photos/caf\\udce9.png"]
    assert found["label"].isna().tolist() == [True, False]


def test_no_cell_of_the_answers_is_a_formula(run_command: CommandRunner) -> None:
    table(y=["=1+1", "-cmd"] * 40, a=[0.0, 5.0] * 40)
    assert run_command(*TRAIN.replace("epochs 1", "epochs 20").split()).status == 0
    lines = run_command("predict", "x", "t.csv").out.splitlines()
    assert {line.split(",")[1] for line in lines[1:]} == {"'=1+1", "'-cmd"}


def test_what_cannot_be_read_in_a_folder_leaves_the_rest_its_answers(run_command: CommandRunner) -> None:
    for label, colour in (("dark", 0), ("light", 255)):
        Path("photos", label).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (8, 8), (colour, colour, number)).save(Path("photos", label, f"{number}.png"))
    words = "train --data photos --method ERM --network MLP --epochs 1 --threads 1 --out x"
    assert run_command(*words.split()).status == 0
    Path("new").mkdir()
    for name in ("good.png", "other.png"):
        Image.new("RGB", (8, 8)).save(Path("new", name))
    Path("new/lost.png").symlink_to("nowhere.png")
    Path("new/away.png").symlink_to(Path("photos/dark/1.png").absolute())
    os.mkfifo("new/queue.png")
    found = run_command("predict", "x", "new")
    assert found.status == 0 and all(f"{name}.png" in found.err for name in ("lost", "queue", "away"))
    answered = [line.split(",") for line in found.out.splitlines()[1:]]
    assert [Path(line[0]).name for line in answered if line[1]] == ["good.png", "other.png"]


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({"b": [1e308, -1e308] * 40}, "", "column 'b' holds '1e+308', which is more than 3.4e+38"),
        ({"rows": 400, "b": np.arange(400) / 7}, "--data.attribute b --data.features a --method GroupDRO", "bins"),
        ({"rows": 400, "b": np.arange(400) / 7}, "--data.label b", "looks continuous"),
        ({}, "--method LastLayer --method.attributes TrueAttributes", "--data.attribute"),
    ],
)
def test_what_no_training_can_take_is_refused(
    columns: dict[str, Any], options: str, told: str, run_command: CommandRunner
) -> None:
    table(**columns)
    train, *words = f"{TRAIN} {options}".split()
    given = dict(zip(words[::2], words[1::2], strict=True))  # each option once, the last value of it
    answer = run_command(train, *(word for pair in given.items() for word in pair))
    assert answer.status == 2 and told in answer.err and not Path("x").exists()


def test_a_name_in_quotes_may_hold_separators_and_line_ends(run_command: CommandRunner) -> None:
    table().rename(columns={"a": "a, b, c\nand d"}).to_csv("t.csv", index=False, sep=";")
    answer = run_command(*TRAIN.split())
    assert answer.status == 0, answer.err
    assert run_command("predict", "x", "t.csv", "--out", "answers.csv").status == 0
    assert len(pd.read_csv("answers.csv")) == 80


def test_a_column_of_several_kinds_of_values_is_read_alike_in_training_and_later(tmp_path: Path) -> None:
    frame = table(b=["4", "many"] * 40)
    frame["b"] = pd.Series([4, "many"] * 40, dtype=object)
    frame["c"] = np.array([1j, 2.0] * 40)  # which no file can hold
    frame["e"] = np.arange(80, dtype=np.longdouble)  # nor these
    frame["d"] = pd.Series([date(2024, 1, 1), datetime(2024, 1, 2, 3)] * 40, dtype=object)
    run = train(from_table(frame, label="y", folder=tmp_path), method="ERM", epochs=1, threads=1, page=False)
    rows = frame.drop(columns="y")
    assert run.predict(rows).tolist() == run.predict([*rows.to_dict("records")]).tolist()
    assert np.array_equal(run.predict_proba(rows[::-1]), run.predict_proba(rows)[::-1])


def test_a_gap_among_texts_and_a_column_of_mappings_are_told_by_row_and_column() -> None:
    with pytest.raises(InputError, match="row 1 of the inputs is not a text"):
        train(["good", None, "bad"] * 20, label=(row % 2 for row in range(60)))
    mappings = pd.Series([[("k", 1)]] * 80, dtype=pd.ArrowDtype(pyarrow.map_(pyarrow.string(), pyarrow.int64())))
    for column in (mappings, [{}] * 80):
        with pytest.raises(InputError, match=r"column b|'b'"):
            train(table().assign(b=column), label="y")
        with pytest.raises(InputError, match=r"column b|'b'"):
            train(table()[["a"]].assign(b=column), label=[0, 1] * 40)
    with pytest.raises(InputError, match=r"same input \(rows given in Python\)"):
        train(["good"] * 60, label=(row % 2 for row in range(60)))


def test_an_index_may_bear_the_name_of_a_column() -> None:
    frame = table().set_index(pd.Index(range(80), name="a"))
    with pytest.raises(InputError, match="more than one column 'a'"):
        from_table(frame, label="y")
