"""Values in many types and formats are read right, or a message names them."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from logit_correction import InputError, InputWarning, LogitCorrectionClassifier, audit, from_table, load, train

from ..shortcuts.conftest import use_online_candidates_only

CommandRunner = Callable[..., Any]

SHORT: dict[str, Any] = {"method": "ERM", "device": "cpu", "threads": 1}
TRAINING_OPTIONS = ("--method", "ERM", "--device", "cpu", "--threads", 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where the files are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: Categories of whole numbers, as Arrow has them.
DICTIONARY = pa.dictionary(pa.int32(), pa.int64())


def draw_wards(rows: int = 240) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with a ward number that determines the label, though its order means nothing."""
    ward = np.arange(rows) % 12 + 1
    label = np.where(np.isin(ward, [1, 3, 5, 8, 10, 12]), "ill", "well")
    return pd.DataFrame({"z": np.random.default_rng(0).normal(size=rows), "y": label}), ward


def train_run(run_command: CommandRunner, data: str, *words: object, epochs: int = 20) -> Any:
    """Train a run ``r`` by the command line, which must be able to."""
    result = run_command(
        "train", "--data", data, "--data.label", "y", *words, *TRAINING_OPTIONS, "--epochs", epochs, "--out", "r"
    )
    assert result.status == 0, result.err
    return result


def convert_to_periods(ward: np.ndarray) -> Any:
    return pd.PeriodIndex([f"2024-{number:02}" for number in ward], freq="M")


CATEGORIES: dict[str, Callable[[np.ndarray], Any]] = {
    "whole numbers": pd.Categorical,
    "floats": lambda ward: pd.Categorical(ward + 0.5),
    "ordered": lambda ward: pd.Categorical(ward, ordered=True),
    "texts of numbers": lambda ward: pd.Categorical(ward.astype(str)),
    "gaps": lambda ward: pd.Categorical(np.where(ward == 12, None, ward)),
    "numbers and texts": lambda ward: pd.Categorical([int(value) if value > 4 else f"w{value}" for value in ward]),
    "periods": lambda ward: pd.Categorical(convert_to_periods(ward)),
    "days": lambda ward: pd.Categorical(convert_to_periods(ward).to_timestamp()),
    "bins": lambda ward: pd.cut(ward, 12),
    "Arrow": lambda ward: pd.Series(pa.array(ward).dictionary_encode(), dtype=pd.ArrowDtype(DICTIONARY)),
}  # fmt: skip


@pytest.mark.parametrize("form", CATEGORIES)
def test_category_column_is_read_as_names_everywhere(form: str, folder: Path) -> None:
    frame, ward = draw_wards()
    frame["ward"] = CATEGORIES[form](ward)
    run = train(from_table(frame, label="y", folder=folder), **SHORT, epochs=20, page=False)
    assert run.evaluate(frame)["average"] == 1.0
    assert run.evaluate(frame.astype({"ward": object}))["average"] == 1.0  # the same values, no category
    rows = frame[["ward", "z"]]
    classifier = LogitCorrectionClassifier("ERM", epochs=20, random_state=0).fit(rows, frame["y"])
    assert classifier.score(rows, frame["y"]) == classifier.score(rows.astype({"ward": object}), frame["y"]) == 1.0


@pytest.mark.parametrize("writer", ["pandas", "Arrow", "notes of pandas alone"])
@pytest.mark.parametrize(
    "form",
    [
        *("whole numbers", "days"),
        *(pytest.param(form, marks=pytest.mark.slow) for form in ("floats", "ordered")),
    ],
)
def test_category_column_lost_by_parquet_is_read_as_names(writer: str, form: str, run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame["ward"] = CATEGORIES[form](ward)
    if writer == "pandas":
        frame.to_parquet("t.parquet")
    elif writer == "Arrow":
        parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(), "t.parquet")
    else:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        plain = table.column("ward").cast(table.schema.field("ward").type.value_type)
        parquet.write_table(table.set_column(2, "ward", plain), "t.parquet")
    train_run(run_command, "t.parquet")
    assert load("r").evaluate(Path("t.parquet"))["average"] == 1.0
    frame.astype({"ward": str}).to_csv("t.csv", index=False)
    assert load("r").evaluate(Path("t.csv"))["average"] == 1.0


def test_category_labels_keep_their_type(folder: Path) -> None:
    frame, _ = draw_wards()
    labels = pd.Categorical(np.where(frame["y"] == "ill", 3, 1))
    run = train(from_table(frame[["z"]].assign(y=labels), label="y", folder=folder), **SHORT, epochs=1, page=False)
    assert run.predict(frame[["z"]]).dtype.kind == "i"


def test_audit_of_a_category_column_equals_that_of_its_texts(folder: Path) -> None:
    frame, ward = draw_wards(120)
    frame["ward"] = pd.Categorical(ward)
    category_audit = audit(frame, label="y", out=folder / "a", epochs=2, device="cpu", threads=1, try_fix=False)
    options = {"epochs": 2, "device": "cpu", "threads": 1, "try_fix": False}
    texts = frame.astype({"ward": str})
    text_audit = audit(texts, label="y", categorical="ward", out=folder / "b", **options)
    assert (
        category_audit.summary["verdict"] == text_audit.summary["verdict"] and category_audit.views == text_audit.views
    )
    assert category_audit.summary["evidence"] == text_audit.summary["evidence"]
    rows = frame.drop(columns="y")
    with use_online_candidates_only():
        classifier = LogitCorrectionClassifier(epochs=2, random_state=0).fit(rows, frame["y"], new_rows=rows)
    assert classifier.new_rows_ is not None


@pytest.mark.parametrize(
    ("trained", "later"),
    [
        ("{}", "{}.0"),
        ("{}.0", "{}"),
        ("{:02}", "{}"),
        ("{:02}", "{}.0"),
        ("{}", "{:03}"),
        ("{}.5", "{}.50"),
        ("{}", "{}e0"),
    ],
)
def test_codes_in_another_number_format_are_the_same_names(
    trained: str, later: str, run_command: CommandRunner
) -> None:
    frame, ward = draw_wards()
    for name, form in (("t.csv", trained), ("n.csv", later)):
        frame.assign(ward=[form.format(number) for number in ward]).to_csv(name, index=False)
    train_run(run_command, "t.csv", "--data.categorical", "ward")
    result = run_command("evaluate", "r", "--on", "n.csv", "--json")
    assert '"average": 1.0' in result.out and "was not trained on" not in result.err


def test_codes_that_differ_in_training_stay_distinct_and_unknown_ones_are_counted(run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    code = np.where(ward % 2 == 0, "7", "007")
    frame.assign(ward=code, y=np.where(ward % 2, "a", "b")).to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", "--data.categorical", "ward")
    assert '"average": 1.0' in run_command("evaluate", "r", "--on", "t.csv", "--json").out
    frame.assign(ward=np.where(ward == 1, "7", "seven")).to_csv("n.csv", index=False)
    assert "in 220 of 240 rows, such as 'seven'" in run_command("predict", "r", "n.csv", "--out", "a.csv").err
    frame.assign(ward="07").to_csv("n.csv", index=False)  # may be either
    for _ in range(2):
        assert "in all 240 rows, such as '07'" in run_command("predict", "r", "n.csv", "--out", "a.csv").err
    run = load("r")
    for _ in range(2):  # a later call is told as well
        with pytest.warns(InputWarning, match="in all 3 rows, such as '7.5'"):
            run.predict(pd.DataFrame({"ward": [7.5] * 3, "z": 0.0}))


def test_labels_of_equal_numbers_are_one_label_or_noted(run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame.assign(y=ward % 2).to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", epochs=1)
    frame.assign(y=(ward % 2).astype(float)).to_csv("n.csv", index=False)
    figures = [run_command("evaluate", "r", "--on", name, "--json").out for name in ("t.csv", "n.csv")]
    assert figures[0] == figures[1]
    frame.assign(y=np.where(ward == 3, "1.0", (ward % 2).astype(str))).to_csv("t.csv", index=False)
    result = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert result.status == 0 and "as they are written: '1' and '1.0'" in result.err


@pytest.mark.parametrize("training_value", ["", "7", "one"])
def test_constant_column_is_left_out_and_changes_no_prediction(training_value: str, run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    split = np.where(ward == 2, "test", np.where(ward == 3, "valid", "train"))
    later_value = "two" if training_value == "one" else "900"
    frame = frame.assign(e=np.where(split == "train", training_value, later_value), s=split)
    frame.to_csv("t.csv", index=False)
    result = train_run(run_command, "t.csv", "--data.split", "s", "--data.features", "[e, z]", epochs=2)
    assert "same in all training rows: 'e'" in result.err
    run = load("r")
    values = [training_value, later_value, "4000"] if training_value == "7" else [training_value, later_value]
    probabilities = [run.predict_proba(frame[["z"]].assign(e=value)) for value in values]
    assert all(np.array_equal(probabilities[0], probability) for probability in probabilities)
    assert np.array_equal(probabilities[0], run.predict_proba(frame[["z"]]))  # it need not be there
    assert np.array_equal(probabilities[0], load("r").predict_proba(frame[["z"]]))


def test_constant_array_column_changes_no_prediction() -> None:
    frame, _ = draw_wards()
    rows = np.stack([np.full(240, 7.0), frame["z"]], axis=1)
    moved = rows + np.array([900, 0])
    run = train(rows, label=frame["y"].tolist(), **SHORT, epochs=2, page=False)
    assert any("same in all training rows: 0" in note for note in run.report.warnings)
    np.testing.assert_array_equal(run.predict_proba(rows), run.predict_proba(moved))
    for training_rows in (rows, pd.DataFrame(rows, columns=["e", "z"])):
        classifier = LogitCorrectionClassifier(epochs=2, random_state=0).fit(training_rows, frame["y"])
        later = moved if training_rows is rows else pd.DataFrame(moved, columns=["e", "z"])
        np.testing.assert_array_equal(classifier.predict_proba(training_rows), classifier.predict_proba(later))
    np.testing.assert_array_equal(
        classifier.predict_proba(training_rows), classifier.predict_proba(moved)
    )  # an array later


TIMES = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]
MISSING_LABELS: dict[str, tuple[list[Any], Any]] = {
    "None": (["a", "b"], None), "NaN": (["a", "b"], float("nan")), "NA": (["a", "b"], pd.NA),
    "blank": (["a", "b"], " "), "a span": ([pd.Timedelta(1)] * 2, pd.NaT),
    "NaT": (TIMES, pd.NaT), "NaT of NumPy": (["a", "b"], np.datetime64("NaT")),
    "numbers": ([1, 2], None), "NaN among numbers": ([1, 2], float("nan")), "decimal": ([1, 2], Decimal("NaN")),
}  # fmt: skip
HOLDERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": lambda values: np.array(values, dtype=object),
    "series": lambda values: pd.Series(values, dtype=object),
    "typed series": pd.Series,
    "typed array": lambda values: pd.Series(values).to_numpy(),
    "category": pd.Categorical,
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("gap", MISSING_LABELS)
def test_missing_label_of_any_type_is_refused(gap: str, holder: str) -> None:
    values, missing = MISSING_LABELS[gap]
    labels = [values[row % 2] for row in range(40)]
    if gap == "a span":
        labels = [pd.Timedelta(hours=row % 2 + 1) for row in range(40)]
    labels[7] = missing
    try:
        held_labels = HOLDERS[holder](labels)
    except (TypeError, ValueError):
        pytest.skip("this type cannot hold these labels")
    rows = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame(rows, columns=["u", "v"])
    once = SHORT | {"epochs": 1, "page": False}
    texts = [f"text of row {row}" for row in range(40)]
    for train_with_labels in (
        lambda: train(rows, label=held_labels, **once),
        lambda: train(texts, label=held_labels, **once),
        lambda: train(frame, label=held_labels, **once),
        lambda: train(frame.assign(y=held_labels), label="y", **once),
        lambda: LogitCorrectionClassifier(epochs=1).fit(rows, held_labels),
        lambda: LogitCorrectionClassifier(epochs=1).fit(frame, held_labels),
    ):
        with pytest.raises(ValueError, match=r"[Rr]ow 7.*has no label"):
            train_with_labels()


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_labels_can_be_times(unit: str) -> None:
    labels = pd.Series(TIMES * 20).to_numpy(f"datetime64[{unit}]")
    rows = np.random.default_rng(0).normal(size=(40, 2))
    run = train(rows, label=labels, **SHORT, epochs=1, page=False)
    assert run.label_names == ["2020-01-01 00:00:00", "2021-01-01 00:00:00"]
    assert run.evaluate(rows, label=labels) == run.evaluate(rows, label=list(TIMES * 20))
    classifier = LogitCorrectionClassifier(epochs=1).fit(rows, labels)
    assert classifier.predict(rows).dtype.kind == "M"
    assert classifier.group_report(rows, labels, attribute=labels)["count"].sum() == 40


@pytest.mark.parametrize("labels", [[1, "b"] * 30, pd.Series([1, "b"] * 30, dtype=object), [True, "yes"] * 30])
def test_classifier_refuses_texts_among_other_labels(labels: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(InputError, match=r"y holds texts and others, such as '(b|yes)' and (1|True)"):
        LogitCorrectionClassifier(epochs=1).fit(rows, labels)


def test_text_with_half_a_surrogate_pair_is_read_everywhere(folder: Path) -> None:
    half = json.loads('"\\ud83d"')
    frame = pd.DataFrame({"z": np.arange(60) % 7 / 7})
    frame["t"] = pd.Series([f"{('kind', 'rude')[row % 2]} order {row}" for row in range(60)], dtype=object)
    frame["c"] = pd.Series(["u" if row % 3 else "v" for row in range(60)], dtype=object)
    frame["y"] = pd.Series(["p" if row % 2 else "q" for row in range(60)], dtype=object)
    clean_frame = frame.copy()
    for name in ("t", "c"):
        frame.loc[frame.index % 20 == 7, name] += half
    frame.loc[frame["y"] == "q", "y"] += half
    once: dict[str, Any] = SHORT | {"epochs": 2, "page": False}
    for rows in (frame[["t", "y"]], frame[["c", "z", "y"]]):
        options = {"text": "t"} if "t" in rows else {}
        run = train(from_table(rows, label="y", folder=folder, **options), **once)
        assert run.label_names == ["p", "q\\ud83d"] and run.evaluate(rows)["average"] >= 0
        inputs = rows.drop(columns="y")
        classifier = LogitCorrectionClassifier(epochs=2, random_state=0)
        classifier_inputs = list(inputs["t"]) if options else inputs
        assert classifier.fit(classifier_inputs, rows["y"]).predict(classifier_inputs).shape == (60,)
        run_on_clean = train(from_table(clean_frame[rows.columns], label="y", folder=folder, **options), **once)
        assert len(run_on_clean.predict(inputs)) == 60
        if options:
            assert run.predict(classifier_inputs).tolist() == run.predict(inputs).tolist()
    assert train(frame[["z"]].to_numpy(), label=frame["y"].tolist(), **once).label_names == ["p", "q\\ud83d"]
    text_audit = audit(clean_frame[["t", "y"]], label="y", text="t", new_rows=frame[["t"]], out=folder / "a", epochs=2)
    assert text_audit.verdict


def build_dated_frame(days: list[str]) -> pd.DataFrame:
    """Rows with dates; the second half of the year has the second label."""
    frame = pd.DataFrame({"d": days, "z": np.random.default_rng(0).normal(size=len(days))})
    return frame.assign(y=np.where(np.arange(len(days)) < len(days) // 2, "p", "q"))


YEAR = pd.date_range("2024-01-01", periods=180, freq="2D")
ORDERS = {
    "month": "%m/%d/%Y",
    "day": "%d/%m/%Y",
    "dots": "%d.%m.%Y",
    "month with a time": "%m/%d/%Y %H:%M",
    "month with half days": "%m/%d/%Y %I:%M %p",
    "year": "%Y/%m/%d",
    "ISO": "%Y-%m-%d",
}


@pytest.mark.parametrize("form", ORDERS)
def test_date_order_is_inferred_from_the_column_and_noted(form: str, run_command: CommandRunner) -> None:
    times = [day + pd.Timedelta(hours=13 if "with" in form else 0) for day in YEAR]
    build_dated_frame([time.strftime(ORDERS[form]) for time in times]).to_csv("t.csv", index=False)
    result = train_run(run_command, "t.csv", "--data.features", "[d, z]")
    note = re.search(r"the (day|month) first \(--data.dayfirst\): 'd' \((\S+) is (\S+)\)", result.err)
    first = {"dots": "day"}.get(form, form.partition(" ")[0])
    assert (note is not None) == (first in ("day", "month")) and (note is None or note[1] == first)
    column, _ = json.loads(Path("r/report.json").read_text())["data"]["preparation"]["columns"]
    rows = build_dated_frame([*map(str, YEAR)])
    run = load("r")
    assert column["kind"] == "dates"
    np.testing.assert_array_equal(
        run.predict_proba(pd.read_csv("t.csv")), run.predict_proba(rows.assign(d=pd.Series(times)))
    )
    # Later rows that fit both orders are read in that of training, and what fits none is told as it stands.
    rows.loc[:9, "d"] = [time.strftime(ORDERS[form]) for time in times[:10]]
    rows.loc[10, "d"] = "31/31/2024"
    rows.to_csv("n.csv", index=False)
    assert "column 'd' holds '31/31/2024'" in run_command("predict", "r", "n.csv", "--out", "a.csv").err


def test_ambiguous_date_order_asks_for_an_option(
    run_command: CommandRunner,
) -> None:
    days = [f"{1 + row % 12:02}/{1 + row // 12 % 12:02}/2024" for row in range(144)]
    frame = build_dated_frame(days)
    frame.to_csv("t.csv", index=False)
    result = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "both orders fit all rows, so give --data.dayfirst true or false" in result.err
    readings = {}
    for word, first in (("true", "day"), ("false", "month")):
        result = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.dayfirst", word)
        readings[first] = re.search(rf"{first} first \(--data.dayfirst\): 'd' \((\S+) is (\S+)\)", result.err)
    assert readings["day"][1] == readings["month"][1] and readings["day"][2] != readings["month"][2]
    frame.loc[frame.index[:5], "d"] = "04/28/2024"  # not a date with the day first
    frame.to_csv("t.csv", index=False)
    result = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.dayfirst", "true")
    assert result.status == 2 and "'04/28/2024'" in result.err and "2024-28" not in result.err
    frame["d"] = ["04/28/2024", "28/04/2024"] * 72
    frame.to_csv("t.csv", index=False)
    result = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "some rows have the day first and some the month" in result.err


def test_mixed_time_zones_and_outlying_dates_are_noted(run_command: CommandRunner) -> None:
    frame = build_dated_frame([f"{day:%Y-%m-%d} 10:00" for day in YEAR])
    frame.loc[::4, "d"] += "+02:00"
    frame.to_csv("t.csv", index=False)
    result = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "count as UTC: 'd' in 45 of 180 rows" in result.err
    for far in ("9999-12-31", "1800-01-01"):
        for rows in (1, 60):
            frame = build_dated_frame([f"{day:%Y-%m-%d}" for day in YEAR])
            frame.loc[: rows - 1, "d"] = far
            frame.to_csv("t.csv", index=False)
            result = run_command("preview", "--data", "t.csv", "--data.label", "y")
            assert re.search(rf"nearly equal: 'd' \({far} in {rows} rows?\)", result.err)
    build_dated_frame([f"{day:%Y-%m-%d}" for day in YEAR]).to_csv("t.csv", index=False)
    assert "nearly equal" not in run_command("preview", "--data", "t.csv", "--data.label", "y").err


def write_review_lines(rows: int) -> list[str]:
    return [f"{('kind', 'rude')[row % 2]} service {row},{('p', 'q')[row % 2]},{row % 7}" for row in range(rows)]


@pytest.mark.parametrize(
    "header",
    ["t,y,n", "t, y , n", '"t","y","n"', '"t", "y", "n"', "\ufefft,y,n", "T,Y,N", "t;y;n,,", "n,t,y", "t\ty\tn,,"],
)
def test_repeated_header_is_a_bad_row_with_its_line(header: str, run_command: CommandRunner) -> None:
    lines = ["t,y,n", *write_review_lines(6), header, *write_review_lines(6), header, *write_review_lines(6)]
    Path("t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for options in (("--data.text", "t"), ("--data.features", "n")):
        words = ("preview", "--data", "t.csv", "--data.label", "y", *options)
        result = run_command(*words)
        assert result.status == 2 and "2 rows are bad: line 8, line 15: holds the names of the columns" in result.err
        result = run_command(*words, "--data.on_bad_rows", "skip")
        assert result.status == 0 and "Table: 12 train, 2 valid, 4 test rows" in result.err
    Path("o.csv").write_text("\n".join(["t,y,n", *write_review_lines(30)]), encoding="utf-8")
    train_run(run_command, "o.csv", "--data.text", "t", epochs=1)
    result = run_command("predict", "r", "t.csv", "--out", "a.csv")
    assert "line 8, line 15: holds the names" in result.err and pd.read_csv("a.csv").iloc[:, 1].isna().sum() == 2
    result = run_command("evaluate", "r", "--on", "t.csv")
    assert result.status == 2 and "line 8, line 15: holds the names" in result.err
    frame = pd.read_csv("t.csv")
    with pytest.raises(InputError, match="row 6, row 13: holds the names"):
        train(from_table(frame, label="y", text="t"), **SHORT, epochs=1)


def test_values_equal_to_column_names_are_not_a_header(run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame.assign(ill=np.where(ward > 6, "ill", "y"), y=frame["y"]).to_csv("t.csv", index=False)
    assert "names of the columns" not in train_run(run_command, "t.csv", epochs=1).err


@pytest.mark.parametrize(("opened", "closed", "lost"), [(10, 25, 15), (10, 11, 1), (10, 12, 2)])
@pytest.mark.parametrize("is_last_column", [False, True])
def test_unclosed_quote_is_refused_with_its_lines(
    opened: int, closed: int, lost: int, is_last_column: bool, run_command: CommandRunner
) -> None:
    lines = [
        ",".join(line.split(",")[::-1] if is_last_column else line.split(","))
        for line in ["t,y,n", *write_review_lines(80)]
    ]
    quoted = [*lines]
    for line in (opened, closed):  # as people write them, numbered from 1
        start, text, end = quoted[line - 1].partition("kind" if line % 2 == 0 else "rude")
        quoted[line - 1] = f'{start}"{text}{end}' if line == opened else f'{start}{text}"{end}'
    Path("t.csv").write_text("\n".join(quoted) + "\n")
    words = ("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t")
    result = run_command(*words)
    assert result.status == 2, result.err
    assert f"line {opened}: the quote of column 't' takes in lines {opened} to {closed}" in result.err
    quoted[closed - 1] = lines[closed - 1]
    quoted[2] = quoted[2].replace("service", '5" service')  # which opens nothing
    Path("t.csv").write_text("\n".join(quoted) + "\n")
    assert f"the quote that opens in line {opened} is not closed" in run_command(*words).err


def test_texts_of_several_lines_are_one_row_and_lines_are_counted(run_command: CommandRunner) -> None:
    draw = np.random.default_rng(0)
    texts = [f"dear shop, hello,\nI came in, twice, {row}\nand, well, left" for row in draw.integers(0, 90, 60)]
    frame = pd.DataFrame({"t": texts, "y": ["p", "q"] * 30, "n": range(60)})
    frame.to_csv("t.csv", index=False)
    assert run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t").status == 0
    lines = Path("t.csv").read_text().splitlines()
    lines.insert(100, '"kind and open,p,3')
    Path("t.csv").write_text("\n".join(lines) + "\n")
    result = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t")
    assert result.status == 2 and "line 104 has 5 cells, and others 3" in result.err, result.err


@pytest.mark.parametrize("first_line", ["sep=;\n", '"sep=;"\r\n', "SEP=\t\n", "\ufeffsep=,\r\n"])
def test_line_that_names_the_separator_to_excel_is_not_a_row(first_line: str, run_command: CommandRunner) -> None:
    separator = next(mark for mark in ";\t," if mark in first_line)
    frame, _ = draw_wards()
    rows = frame.to_csv(index=False, sep=separator)
    Path("t.csv").write_text(rows, encoding="utf-8")
    Path("n.csv").write_text(first_line + rows, encoding="utf-8")
    for file in ("t.csv", "n.csv"):
        words = ("train", "--data", file, "--data.label", "y", *TRAINING_OPTIONS, "--epochs", 1, "--out", file[0])
        assert run_command(*words).status == 0
    tests = [load(name).evaluate(Path("t.csv"))["average"] for name in "tn"]
    assert tests[0] == tests[1]
    answers = pd.read_csv(StringIO(run_command("predict", "n", "n.csv").out))
    assert answers["line"].tolist() == [*range(3, 3 + len(frame))]
    lines = (first_line + rows).splitlines()
    Path("n.csv").write_text("\n".join([*lines[:9], lines[9] + separator, *lines[10:]]), encoding="utf-8")
    assert "line 10 has 3 cells, and others 2" in run_command("predict", "n", "n.csv").err


@pytest.mark.parametrize("name", ["run\ud83d", "run\udcff", "a\0b"])
def test_output_folder_whose_name_no_file_can_have_is_refused(name: str) -> None:
    frame, _ = draw_wards(60)
    for start in (train, audit):
        with pytest.raises(InputError, match="cannot have in their names"):
            start(from_table(frame, label="y"), out=name)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("label: no", "--data.label is no"),
        ("label: Yes", "--data.label is Yes"),
        ("label: off", "--data.label is off"),
        ("label: 017", "--data.label is 017"),
        ("label: 1.50", "--data.label is 1.50"),
        ("label: 2024", "--data.label is 2024"),
        ("label: 2024-01-01", "--data.label is 2024-01-01"),
        ("label: 0x1F", "--data.label is 0x1F"),
        ("label: 1:30", "--data.label is 1:30"),
        ("label: 'no'\n  features: [x, on]", "--data.features is on"),
        ("label: 'no'\n  features: [017]", "--data.features is 017"),
        ("label: 'no'\n  categorical: [x, 1_000]", "--data.categorical is 1_000"),
    ],
)
def test_unquoted_yaml_word_with_another_meaning_is_refused(
    entry: str, message: str, run_command: CommandRunner
) -> None:
    frame, ward = draw_wards()
    names = ["Yes", "off", "017", "1.50", "2024", "2024-01-01", "0x1F", "1:30", "on", "1_000"]
    frame.rename(columns={"y": "no"}).assign(x=ward, **{name: ward % 2 for name in names}).to_csv("t.csv", index=False)
    start = "data:\n  name: Table\n  file: t.csv\n  "
    end = "\nmethod: ERM\nepochs: 1\nlearning_rate: 0.0010\n"
    Path("c.yaml").write_text(start + entry + end)
    result = run_command("train", "--config", "c.yaml", "--out", "r")
    assert result.status == 2 and message in result.err and "quote it" in result.err, result.err
    text = message.rpartition(" ")[2]
    quoted = entry if f"'{text}'" in entry else entry.replace(text, f"'{text}'")
    Path("c.yaml").write_text(start + quoted.replace("features: ['017']", "features: ['017', x]") + end)
    assert run_command("train", "--config", "c.yaml", "--out", "r").status == 0


def test_unquoted_yaml_word_is_a_value_where_one_is_meant(run_command: CommandRunner) -> None:
    draw_wards()[0].rename(columns={"y": "no"}).to_csv("t.csv", index=False)
    start = "data:\n  name: Table\n  file: t.csv\n  "
    end = "\nmethod: ERM\nepochs: 1\n"
    Path("c.yaml").write_text(start + "label: 'no'\n  dayfirst: yes" + end + "deterministic: off\n")
    assert run_command("train", "--config", "c.yaml", "--out", "q").status == 0
    Path("c.yaml").write_text(start + "label: 'no'" + end.replace("epochs: 1", "epochs: 010"))
    assert "--epochs is 010, which YAML takes for 8" in run_command("train", "--config", "c.yaml", "--out", "p").err


LIKE_TRAINING: dict[str, Callable[[np.ndarray], Any]] = {
    "zoned times": lambda ward: pd.Categorical([pd.Timestamp(2024, number, 1, tz="Europe/Paris") for number in ward]),
    "spans": lambda ward: pd.Categorical(pd.to_timedelta(ward, unit="D")),
    "truth values and a gap": lambda ward: pd.Categorical(
        [None if number == 2 else number in (1, 3, 5, 8) for number in ward]
    ),
    "decimals": lambda ward: pd.Categorical([Decimal(f"{number}.50") for number in ward]),
}


@pytest.mark.parametrize("form", LIKE_TRAINING)
def test_categories_of_any_type_are_equal_in_new_rows(form: str, folder: Path, recwarn: Any) -> None:
    frame, ward = draw_wards()
    frame["ward"] = LIKE_TRAINING[form](ward)
    run = train(from_table(frame, label="y", folder=folder), **SHORT, epochs=1, page=False)
    frame.to_parquet("t.parquet")
    probability = run.predict_proba(frame)
    if form != "spans":  # which Parquet takes for numbers
        np.testing.assert_array_equal(probability, run.predict_proba(Path("t.parquet")))
    assert not any("was not trained on" in str(warning.message) for warning in recwarn)


@pytest.mark.parametrize("holder", [pd.Series, lambda values: values])
def test_category_in_a_mapping_of_columns_is_read_as_names(holder: Any, folder: Path) -> None:
    frame, ward = draw_wards()
    columns = {"z": frame["z"], "y": frame["y"][::-1][::-1], "ward": holder(pd.Categorical(ward))}
    run = train(from_table(columns, label="y", folder=folder), **SHORT, epochs=1, page=False)
    kinds = {column["name"]: column["kind"] for column in run.report.to_dict()["data"]["preparation"]["columns"]}
    assert kinds == {"ward": "names", "z": "numbers"}


@pytest.mark.parametrize("spellings", [("TRUE", "FALSE"), ("true", "false"), ("1", "0"), ("1.0", "0.0")])
def test_truth_values_in_any_spelling_are_equal(spellings: tuple[str, str], run_command: CommandRunner) -> None:
    frame, _ = draw_wards()
    truth = frame["y"] == "ill"
    frame = frame.assign(flag=truth, y=truth)
    frame.to_parquet("t.parquet")
    train_run(run_command, "t.parquet", epochs=1)
    frame.assign(flag=np.where(truth, *spellings), y=np.where(truth, *spellings)).to_csv("n.csv", index=False)
    results = [run_command("evaluate", "r", "--on", name, "--json") for name in ("t.parquet", "n.csv")]
    assert results[0].out == results[1].out and not results[1].err


def test_splits_may_be_numbers_and_not_truth_values(run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    words = ("preview", "--data", "t.csv", "--data.label", "y", "--data.split", "s")
    frame.assign(s=(ward % 3).astype(float)).to_csv("t.csv", index=False)
    assert "Table: 80 train, 80 valid, 80 test rows" in run_command(*words).err
    frame.assign(s=ward > 6).to_csv("t.csv", index=False)
    assert "'True' is not one of train, valid, test and new" in run_command(*words).err


@pytest.mark.parametrize("trained", ["month", "day"])
def test_new_dates_in_the_other_order_are_bad_rows(trained: str, run_command: CommandRunner) -> None:
    other = {"month": "day", "day": "month"}[trained]
    build_dated_frame([time.strftime(ORDERS[trained]) for time in YEAR]).to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", epochs=1)
    days = pd.date_range("2024-02-01", periods=28)  # half of them are dates in both orders
    build_dated_frame([time.strftime(ORDERS[other]) for time in days]).to_csv("n.csv", index=False)
    result = run_command("predict", "r", "n.csv", "--out", "a.csv")
    assert result.status == 2 and f"{trained} first in training" in result.err, result.err
    result = run_command("evaluate", "r", "--on", "n.csv")
    assert result.status == 2 and "28 rows are bad" in result.err and "write 2024-12-31" in result.err
    build_dated_frame([f"{time:%Y-%m-%d}" for time in days]).to_csv("n.csv", index=False)
    assert run_command("evaluate", "r", "--on", "n.csv").status == 0


@pytest.mark.parametrize("form", ["%d.%m.%Y %H:%M Uhr", "%d.%m.%Y %H.%M", "%m/%d/%Y 24:00"])
def test_dates_with_an_unknown_time_format_name_the_format_to_write(form: str, run_command: CommandRunner) -> None:
    build_dated_frame([time.strftime(form) for time in YEAR]).to_csv("t.csv", index=False)
    result = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "looks like a date: write its time as 14:30" in result.err and "dayfirst" not in result.err


def test_time_zones_in_some_rows_of_a_frame_are_noted(folder: Path) -> None:
    times = [time.tz_localize("Asia/Tokyo") if row % 4 else time for row, time in enumerate(YEAR)]
    frame = build_dated_frame([*map(str, YEAR)]).assign(d=pd.Series(times, dtype=object))
    run = train(from_table(frame, label="y", folder=folder), **SHORT, epochs=1, page=False)
    assert any("count as UTC: 'd' in 135 of 180 rows" in note for note in run.report.warnings)


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"]


@pytest.mark.parametrize("trained", ["utf-8", "utf-16", "latin-1"])
def test_encodings_are_read_or_refused_with_advice(trained: str, run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame["place"] = np.where(ward > 6, "Köln", "Zürich")
    frame.to_csv("t.csv", index=False, encoding=trained)
    encoding_option = ("--data.encoding", trained) if trained == "latin-1" else ()
    train_run(run_command, "t.csv", "--data.text", "place", *encoding_option, epochs=1)
    expected = run_command("evaluate", "r", "--on", "t.csv", "--json")
    assert expected.status == 0
    for later, ending in itertools.product(ENCODINGS, ("csv", "csv.gz")):
        new = f"{later}.{ending}"
        frame.to_csv(new, index=False, encoding=later)
        is_refused = later == "utf-16-le" or (later == "latin-1" and trained != "latin-1")
        evaluated = run_command("evaluate", "r", "--on", new, "--json")
        for result in (evaluated, run_command("predict", "r", new, "--out", "a.csv")):
            assert result.status == (2 if is_refused else 0), (new, result.err)
            assert "--data." not in result.err and (is_refused or result.err == ""), new
        assert is_refused or evaluated.out == expected.out, new


def test_bad_rows_are_not_counted_as_unknown_names(run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame.assign(ward=[f"w{number}" for number in ward]).to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", epochs=1)
    lines = Path("t.csv").read_text().splitlines()
    Path("n.csv").write_text("\n".join([*lines[:30], lines[0], *lines[30:]]) + "\n")
    result = run_command("predict", "r", "n.csv", "--out", "a.csv")
    assert "line 31: holds the names" in result.err and "was not trained on" not in result.err


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("closed", [12, 25])
def test_unclosed_quote_is_refused_with_any_line_end(end: str, closed: int, run_command: CommandRunner) -> None:
    lines = ["n,y,t", *(",".join(line.split(",")[::-1]) for line in write_review_lines(80))]
    lines[9] = lines[9].replace("kind", '"kind').replace("rude", '"rude')
    lines[closed - 1] += '"'
    Path("t.csv").write_bytes((end.join(lines) + end).encode())
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t")
    assert answer.status == 2 and f"takes in lines 10 to {closed}" in answer.err, answer.err


def test_half_an_emoji_is_read_in_labels_names_and_mappings(folder: Path) -> None:
    half = json.loads('"\\ud83d"')
    labels = [f"{'pq'[row % 2]}{half}" for row in range(60)]
    place = [f"{'uv'[row % 2]}{half}" for row in range(60)]
    rows = {f"c{half}": place, "z": np.arange(60) % 7, f"y{half}": labels, f"a{half}": place}
    once: dict[str, Any] = SHORT | {"epochs": 1, "page": False}
    run = train(from_table(rows, label=f"y{half}", attribute=f"a{half}", folder=folder), **once)
    assert run.label_names == ["p\\ud83d", "q\\ud83d"] and len(run.report.test.groups) == 4
    assert run.evaluate(rows)["count"] == 60 and len(run.predict(rows)) == 60
    frame = pd.DataFrame({"z": np.arange(60) % 7})
    for given in (frame, frame.to_numpy(), [f"text {row}" for row in range(60)]):
        assert train(given, label=labels, **once).label_names == ["p\\ud83d", "q\\ud83d"]


def test_values_under_a_mask_are_no_labels() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2))
    labels = np.ma.array([0, 1] * 20, mask=[row == 7 for row in range(40)])
    for call in (
        lambda: train(rows, label=labels, **SHORT, epochs=1),
        lambda: train(pd.DataFrame(rows), label=labels, **SHORT, epochs=1),
        lambda: LogitCorrectionClassifier(epochs=1).fit(rows, labels),
    ):
        with pytest.raises(InputError, match=r"[Rr]ow 7.*has no label"):
            call()
    with pytest.raises(InputError, match=r"label has shape \(40, 2\)"):
        train(pd.DataFrame(rows), label=np.eye(2)[[0, 1] * 20], **SHORT, epochs=1)


def test_texts_in_bytes_are_texts(run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame["place"] = np.where(ward > 6, "Köln", "Zürich")
    frame.to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", epochs=1)
    frame.assign(place=frame["place"].str.encode("utf-8"), y=frame["y"].str.encode("utf-8")).to_parquet("n.parquet")
    answers = [run_command("evaluate", "r", "--on", name, "--json") for name in ("t.csv", "n.parquet")]
    assert answers[0].out == answers[1].out and not answers[1].err


@pytest.mark.parametrize("written", [".1", "0.10", "1e-1", "'0.1'", "+0.1"])
def test_numbers_of_a_file_of_options_are_numbers_however_they_are_written(
    written: str, run_command: CommandRunner
) -> None:
    draw_wards()[0].to_csv("t.csv", index=False)
    start = f"data:\n  name: Table\n  file: t.csv\n  label: y\n  valid_fraction: {written}\nmethod: ERM\nepochs: 1\n"
    Path("c.yaml").write_text(start + "learning_rate: .001\n")
    assert run_command("train", "--config", "c.yaml", "--out", "r").status == 0
    assert load("r").config.data.options["valid_fraction"] == 0.1
    Path("c.yaml").write_text(start + "epochs: 3\n")
    answer = run_command("train", "--config", "c.yaml", "--out", "q")
    assert answer.status == 2 and "c.yaml cannot be read as YAML (epochs stands there twice)" in answer.err


@pytest.mark.parametrize("held", ["7", "2024-01-31"])
def test_a_column_of_one_value_and_gaps_says_only_whether_there_is_one(held: str, run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame.assign(e=np.where(ward % 3, held, "")).to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", "--data.features", "[e, z]", epochs=3)
    run = load("r")
    later = {"7": "-9000", "2024-01-31": "1999-12-31"}[held]
    given, moved, none = (run.predict_proba(frame[["z"]].assign(e=value)) for value in (held, later, ""))
    np.testing.assert_array_equal(given, moved)
    assert np.abs(given - none).max() > 0


def test_answers_are_the_same_in_every_form_of_a_number(run_command: CommandRunner) -> None:
    draw = np.random.default_rng(0)
    label = draw.integers(0, 2, 200)
    frame = pd.DataFrame({"site": np.where(draw.random(200) < 0.9, label, 1 - label), "z": draw.normal(size=200)})
    frame.assign(y=label).to_csv("t.csv", index=False)
    frame.assign(site=1 - frame["site"]).to_csv("n.csv", index=False)
    words = ("--data", "t.csv", "--data.label", "y", "--new-rows", "n.csv", "--ask", 12, "--epochs", 2)
    with use_online_candidates_only():
        asked = run_command("audit", *words, "--device", "cpu", "--threads", 1, "--out", "a")
    assert asked.status == 0, asked.err
    sheet = pd.read_csv("a/sheet.csv")
    sheet["answer"] = label[sheet["row"]]
    forms: dict[str, Any] = {"{}": str, "{}.0": lambda one: f"{one}.0", "0{}": lambda one: f"0{one}", "TRUE": bool}
    found = []
    for name, form in forms.items():
        shutil.copytree("a", name)
        answers = sheet.assign(answer=[str(form(one)).upper() for one in sheet["answer"]])
        answers.to_csv("s.csv", index=False)
        answer = run_command("audit", "--out", name, "--answers", "s.csv")
        assert answer.status == 0, answer.err
        found.append(json.loads(Path(name, "audit.json").read_text())["new_rows"])
    assert found[0]["answers"] == 12 and all(one == found[0] for one in found)


@pytest.mark.parametrize("name", ["#", "# patient", "~", "&x", "!", "%"])
def test_columns_may_be_called_what_yaml_takes_for_nothing(name: str, run_command: CommandRunner) -> None:
    frame, ward = draw_wards()
    frame.rename(columns={"y": name}).assign(p=ward).to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", name, "--data.split_by", "p")
    assert answer.status == 0, answer.err
    frame.assign(**{name: np.arange(240) // 20}).to_csv("t.csv", index=False)
    train_run(run_command, "t.csv", "--data.split_by", name, epochs=1)
    assert load("r").config.data.options["split_by"] == name
    run = train(from_table(frame.rename(columns={"y": name}), label=name), **SHORT, epochs=1, page=False)
    assert run.label_names == ["ill", "well"]
    with pytest.raises(InputError, match="label"):
        train(from_table(frame.rename(columns={"y": ""}), label=""), **SHORT, epochs=1)


def test_column_called_null_is_a_column_in_python() -> None:
    frame, ward = draw_wards()
    run = train(frame.assign(null=ward), label="y", attribute="null", **SHORT, epochs=1, page=False)
    assert run.config.data.options["attribute"] == "null"
