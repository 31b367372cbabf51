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

RunGetter = Callable[[str], Path]
CommandRunner = Callable[..., Any]
TRAIN_COMMAND = "train --method ERM --threads 1 --epochs 1 --data.label y --data.features * --out x --data t.csv"


@pytest.fixture(autouse=True)
def _work_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_table(rows: int = 80, **columns: Any) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    label = np.arange(rows) % 2
    frame = pd.DataFrame({"a": draw.normal(size=rows) + label, "y": np.array(["no", "yes"])[label]}).assign(**columns)
    frame.to_csv("t.csv", index=False)
    return frame


@pytest.mark.parametrize("values", [["4"] * 76, [str(number) for number in range(76)]])
def test_word_in_a_number_column_asks_for_an_option(values: list[str], run_command: CommandRunner) -> None:
    write_table(b=["4", "6", "8", "rotary", *values])
    result = run_command(*TRAIN_COMMAND.split())
    assert result.status == 2 and "line 5: column 'b' holds 'rotary'" in result.err and not Path("x").exists()
    assert run_command(*TRAIN_COMMAND.split(), "--data.numbers", "b").status == 0
    columns = json.loads(Path("x/report.json").read_text())["data"]["preparation"]["columns"]
    assert columns[1]["kind"] == "numbers" and columns[1]["gaps"] in (True, False)
    Path("new.csv").write_text("a,b\n1,4\n1,rotary\n1,>9\n")
    result = run_command("predict", "x", "new.csv")
    assert result.status == 0 and len(result.out.splitlines()) == 4  # of training alone or not, they are missing
    assert run_command(*f"{TRAIN_COMMAND} --out z --data.categorical b".split()).status == 0


NUMBER_FORMATS = {
    "semicolons": ("{:.3f}", ";", ()),
    "a comma": ("{:.3f}", ",", ("--data.decimal", ",")),
    "thousands": ("{:,.1f}", ",", ("--data.thousands", ",")),
    "points in thousands": ("{:,.1f}", ";", ("--data.thousands", ".")),
}


@pytest.mark.parametrize("kind", NUMBER_FORMATS)
def test_numbers_in_other_locales_are_read(kind: str, run_command: CommandRunner) -> None:
    form, separator, options = NUMBER_FORMATS[kind]
    frame = write_table(b=np.random.default_rng(1).normal(5000, 2000, 80).round(1))
    run_command(*TRAIN_COMMAND.split())
    exact = json.loads(Path("x/report.json").read_text())["data"]["preparation"]["columns"]

    def format_number(number: float) -> str:
        text = form.format(number)
        return text if kind == "thousands" else text.translate(str.maketrans(".,", ",."))

    frame.assign(b=frame["b"].map(format_number), a=frame["a"].round(3)).to_csv("t.csv", index=False, sep=separator)
    if options:
        result = run_command(*TRAIN_COMMAND.replace("x", "y").split())
        assert options[0] in result.err
    assert run_command(*f"{TRAIN_COMMAND} --out z".split(), *options).status == 0
    columns = json.loads(Path("z/report.json").read_text())["data"]["preparation"]["columns"]
    assert [column["kind"] for column in columns] == ["numbers"] * 2
    assert columns[1]["mean"] == pytest.approx(exact[1]["mean"], abs=0.1)
    assert run_command("predict", "z", "t.csv").status == 0


def test_dates_encodings_and_units_name_their_options(run_command: CommandRunner) -> None:
    days = [f"{1 + row % 28:02}.{1 + row % 12:02}.2021" for row in range(80)]
    frame = write_table(b=days, c=[f"{row % 9}.5 kg" for row in range(80)])
    result = run_command(*TRAIN_COMMAND.split())
    assert "--data.dayfirst" in result.err and "'0.5 kg' has a unit" in result.err
    assert run_command(*f"{TRAIN_COMMAND} --out z --data.dayfirst true".split()).status == 0
    columns = json.loads(Path("z/report.json").read_text())["data"]["preparation"]["columns"]
    assert columns[1]["kind"] == "dates"
    frame.to_csv("t.csv", index=False, encoding="utf-16")
    assert run_command(*f"{TRAIN_COMMAND} --out v --data.dayfirst true".split()).status == 0
    reports = [json.loads(Path(name, "report.json").read_text())["test"] for name in ("z", "v")]
    assert reports[0] == reports[1]
    frame.drop(columns="b").assign(c=["süd", "nord"] * 40).to_csv("t.csv", index=False, encoding="latin-1")
    assert "--data.encoding cp1252" in run_command(*f"{TRAIN_COMMAND} --out u".split()).err
    assert run_command(*f"{TRAIN_COMMAND} --out u --data.encoding cp1252".split()).status == 0
    result = run_command("predict", "u", "t.csv")
    assert result.status == 0 and "not trained" not in result.err


def test_unique_whole_numbers_are_left_out_as_identifiers(run_command: CommandRunner) -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(size=200), "id": 7000 + draw.permutation(200), "y": ["no", "yes"] * 100})
    frame.to_csv("t.csv", index=False)
    for options, expected_columns in (((), ["a"]), (("--data.numbers", "id"), ["a", "id"])):
        result = run_command(*TRAIN_COMMAND.split(), *(("--out", "z") if options else ()), *options)
        assert result.status == 0 and ("identifiers" in result.err and "'id'" in result.err) == (not options)
        report = json.loads(Path("z" if options else "x", "report.json").read_text())
        assert [column["name"] for column in report["data"]["preparation"]["columns"]] == expected_columns


def test_missing_file_suggests_a_similar_name(run_command: CommandRunner, tmp_path: Path) -> None:
    write_table().to_csv("wine.csv")
    folder = tmp_path.resolve()
    for file_name, similar_name in (("tt.csv", "t.csv"), ("quite-another.csv", None), ("nofile.csv", None)):
        for place in (file_name, str(folder / file_name)):
            err = run_command("train", "--data", place, "--data.label", "y", "--out", "x").err
            assert ("did you mean" in err) == (similar_name is not None)
            assert similar_name is None or f"did you mean {place.replace(file_name, similar_name)}?" in err


def test_copies_of_training_rows_in_the_test_split_are_noted(run_command: CommandRunner) -> None:
    write_table(a=np.arange(80) % 2)
    result = run_command(*TRAIN_COMMAND.split())
    assert result.status == 0 and "16 of 16 test rows have the input of a training row: are they copies?" in result.err


@pytest.mark.parametrize("separator", [",", ";"])
def test_predict_lists_bad_rows_and_predicts_the_others(
    separator: str, run_command: CommandRunner, get_run: RunGetter, data_folder: Path
) -> None:
    frame = pd.read_csv(data_folder / "later.csv", dtype=str)
    expected = pd.read_csv(
        io.StringIO(run_command("predict", get_run("patients-lc"), data_folder / "later.csv").out), index_col="line"
    )
    frame.loc[3, "age"] = ""
    frame.loc[9, "age"] = "old"
    frame.to_csv("new.csv", index=False, sep=separator)
    result = run_command("predict", get_run("patients-lc"), "new.csv", "--out", "out.csv")
    predictions = pd.read_csv("out.csv", index_col="line")
    assert result.status == 0 and predictions[predictions["label"].isna()].index.tolist() == [5, 11]
    assert "2 rows have no answer" in result.err and "line 5: column 'age' is empty" in result.err
    pd.testing.assert_frame_equal(predictions.dropna(), expected.drop([5, 11]))
    assert load(get_run("patients-lc")).predict(frame.drop([3, 9])).tolist() == predictions["label"].dropna().tolist()
    frame.loc[[3, 9]].to_csv("new.csv", index=False, sep=separator)
    result = run_command("predict", get_run("patients-lc"), "new.csv", "--out", "none.csv")
    assert result.status == 2 and "2 rows are bad" in result.err and not Path("none.csv").exists()


def test_predict_reads_a_large_file_in_parts(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict_later_rows() -> pd.DataFrame:
        return pd.read_csv(StringIO(run_command("predict", get_run("patients-lc"), data_folder / "later.csv").out))

    expected = predict_later_rows()
    monkeypatch.setattr("logit_correction.data.source.ROWS_AT_A_TIME", 7)
    # How many rows are multiplied at a time changes the last digit on some processors.
    pd.testing.assert_frame_equal(predict_later_rows(), expected, rtol=1e-5)


def test_images_with_names_that_are_not_utf8_are_predicted(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path
) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    Path("photos").mkdir()
    try:
        Image.linear_gradient("L").save(Path("photos") / name)
    except OSError:
        pytest.skip("the file system refuses these names")
    (Path("photos") / "broken.png").write_bytes(b"no image")
    result = run_command("predict", get_run("photos-erm"), "photos", "--out", "out.csv")
    predictions = pd.read_csv("out.csv")
    assert result.status == 0 and "broken.png: is not an image" in result.err
    assert predictions["path"].tolist() == ["photos/broken.png", "photos/caf\\udce9.png"]
    assert predictions["label"].isna().tolist() == [True, False]


def test_predicted_labels_are_not_formulas(run_command: CommandRunner) -> None:
    write_table(y=["=1+1", "-cmd"] * 40, a=[0.0, 5.0] * 40)
    assert run_command(*TRAIN_COMMAND.replace("epochs 1", "epochs 20").split()).status == 0
    lines = run_command("predict", "x", "t.csv").out.splitlines()
    assert {line.split(",")[1] for line in lines[1:]} == {"'=1+1", "'-cmd"}


def test_file_names_with_carriage_returns_stay_in_one_cell(run_command: CommandRunner, get_run: RunGetter) -> None:
    Path("photos").mkdir()
    for name in ("a\rb.png", "c.png"):
        Image.linear_gradient("L").save(Path("photos") / name)
    assert run_command("predict", get_run("photos-erm"), "photos", "--out", "out.csv").status == 0
    assert pd.read_csv("out.csv")["path"].tolist() == ["photos/a\rb.png", "photos/c.png"]


def test_unreadable_files_in_a_folder_do_not_prevent_other_predictions(run_command: CommandRunner) -> None:
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
    prediction_result = run_command("predict", "x", "new")
    assert prediction_result.status == 0 and all(
        f"{name}.png" in prediction_result.err for name in ("lost", "queue", "away")
    )
    predicted_lines = [line.split(",") for line in prediction_result.out.splitlines()[1:]]
    assert [Path(line[0]).name for line in predicted_lines if line[1]] == ["good.png", "other.png"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"b": [1e308, -1e308] * 40}, "", "column 'b' holds '1e+308', which is more than 3.4e+38"),
        ({"rows": 400, "b": np.arange(400) / 7}, "--data.attribute b --data.features a --method GroupDRO", "bins"),
        ({"rows": 400, "b": np.arange(400) / 7}, "--data.label b", "looks continuous"),
        ({}, "--method LastLayer --method.attributes TrueAttributes", "--data.attribute"),
    ],
)
def test_data_that_cannot_be_trained_on_are_refused(
    columns: dict[str, Any], options: str, message: str, run_command: CommandRunner
) -> None:
    write_table(**columns)
    train, *words = f"{TRAIN_COMMAND} {options}".split()
    options_by_name = dict(zip(words[::2], words[1::2], strict=True))  # each option once, the last value of it
    result = run_command(train, *(word for pair in options_by_name.items() for word in pair))
    assert result.status == 2 and message in result.err and not Path("x").exists()


def test_quoted_column_name_may_hold_separators_and_line_ends(run_command: CommandRunner) -> None:
    write_table().rename(columns={"a": "a, b, c\nand d"}).to_csv("t.csv", index=False, sep=";")
    result = run_command(*TRAIN_COMMAND.split())
    assert result.status == 0, result.err
    assert run_command("predict", "x", "t.csv", "--out", "answers.csv").status == 0
    assert len(pd.read_csv("answers.csv")) == 80


def test_column_of_mixed_types_is_read_alike_in_training_and_prediction(tmp_path: Path) -> None:
    frame = write_table(b=["4", "many"] * 40)
    frame["b"] = pd.Series([4, "many"] * 40, dtype=object)
    frame["c"] = np.array([1j, 2.0] * 40)  # which no file can hold
    frame["e"] = np.arange(80, dtype=np.longdouble)  # nor these
    frame["d"] = pd.Series([date(2024, 1, 1), datetime(2024, 1, 2, 3)] * 40, dtype=object)
    run = train(from_table(frame, label="y", folder=tmp_path), method="ERM", epochs=1, threads=1, page=False)
    rows = frame.drop(columns="y")
    assert run.predict(rows).tolist() == run.predict([*rows.to_dict("records")]).tolist()
    assert np.array_equal(run.predict_proba(rows[::-1]), run.predict_proba(rows)[::-1])


def test_missing_text_and_column_of_mappings_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="row 1 of the inputs is not a text"):
        train(["good", None, "bad"] * 20, label=(row % 2 for row in range(60)))
    mappings = pd.Series([[("k", 1)]] * 80, dtype=pd.ArrowDtype(pyarrow.map_(pyarrow.string(), pyarrow.int64())))
    for column in (mappings, [{}] * 80):
        with pytest.raises(InputError, match=r"column b|'b'"):
            train(write_table().assign(b=column), label="y")
        with pytest.raises(InputError, match=r"column b|'b'"):
            train(write_table()[["a"]].assign(b=column), label=[0, 1] * 40)
    with pytest.raises(InputError, match=r"same input \(rows given in Python\)"):
        train(["good"] * 60, label=(row % 2 for row in range(60)))


def test_index_named_like_a_column_is_refused() -> None:
    frame = write_table().set_index(pd.Index(range(80), name="a"))
    with pytest.raises(InputError, match="more than one column 'a'"):
        from_table(frame, label="y")
