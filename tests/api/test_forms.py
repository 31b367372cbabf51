"""Forms in which people hold their values: what is read is right, or told; never silently another thing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from logit_correction import InputError, InputWarning, LogitCorrectionClassifier, audit, from_table, load, train

CommandRunner = Callable[..., Any]

SHORT: dict[str, Any] = {"method": "ERM", "device": "cpu", "threads": 1}
ONCE = ("--method", "ERM", "--device", "cpu", "--threads", 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where the files are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: Categories of whole numbers, as Arrow has them.
DICTIONARY = pa.dictionary(pa.int32(), pa.int64())


def wards(rows: int = 240) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of which the number of a ward tells the label, though more of it does not mean more of anything."""
    ward = np.arange(rows) % 12 + 1
    label = np.where(np.isin(ward, [1, 3, 5, 8, 10, 12]), "ill", "well")
    return pd.DataFrame({"z": np.random.default_rng(0).normal(size=rows), "y": label}), ward


def fit(run_command: CommandRunner, data: str, *words: object, epochs: int = 20) -> Any:
    """Train a run ``r`` by the command line, which must be able to."""
    answer = run_command("train", "--data", data, "--data.label", "y", *words, *ONCE, "--epochs", epochs, "--out", "r")
    assert answer.status == 0, answer.err
    return answer


def as_period(ward: np.ndarray) -> Any:
    return pd.PeriodIndex([f"2024-{number:02}" for number in ward], freq="M")


CATEGORIES: dict[str, Callable[[np.ndarray], Any]] = {
    "whole numbers": pd.Categorical,
    "floats": lambda ward: pd.Categorical(ward + 0.5),
    "ordered": lambda ward: pd.Categorical(ward, ordered=True),
    "texts of numbers": lambda ward: pd.Categorical(ward.astype(str)),
    "gaps": lambda ward: pd.Categorical(np.where(ward == 12, None, ward)),
    "numbers and texts": lambda ward: pd.Categorical([int(one) if one > 4 else f"w{one}" for one in ward]),
    "periods": lambda ward: pd.Categorical(as_period(ward)),
    "days": lambda ward: pd.Categorical(as_period(ward).to_timestamp()),
    "bins": lambda ward: pd.cut(ward, 12),
    "Arrow": lambda ward: pd.Series(pa.array(ward).dictionary_encode(), dtype=pd.ArrowDtype(DICTIONARY)),
}  # fmt: skip


@pytest.mark.parametrize("form", CATEGORIES)
def test_a_category_is_a_category_in_every_door(form: str, folder: Path) -> None:
    frame, ward = wards()
    frame["ward"] = CATEGORIES[form](ward)
    run = train(from_table(frame, label="y", folder=folder), **SHORT, epochs=20, page=False)
    assert run.evaluate(frame)["average"] == 1.0
    assert run.evaluate(frame.astype({"ward": object}))["average"] == 1.0  # the same values, no category
    rows = frame[["ward", "z"]]
    classifier = LogitCorrectionClassifier(epochs=20, random_state=0).fit(rows, frame["y"])
    assert classifier.score(rows, frame["y"]) == classifier.score(rows.astype({"ward": object}), frame["y"]) == 1.0


@pytest.mark.parametrize("writer", ["pandas", "Arrow", "notes of pandas alone"])
@pytest.mark.parametrize("form", ["whole numbers", "floats", "ordered", "days"])
def test_a_category_that_parquet_does_not_keep_is_one_all_the_same(
    writer: str, form: str, run_command: CommandRunner
) -> None:
    frame, ward = wards()
    frame["ward"] = CATEGORIES[form](ward)
    if writer == "pandas":
        frame.to_parquet("t.parquet")
    elif writer == "Arrow":
        parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(), "t.parquet")
    else:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        plain = table.column("ward").cast(table.schema.field("ward").type.value_type)
        parquet.write_table(table.set_column(2, "ward", plain), "t.parquet")
    fit(run_command, "t.parquet")
    assert load("r").evaluate(Path("t.parquet"))["average"] == 1.0
    frame.astype({"ward": str}).to_csv("t.csv", index=False)
    assert load("r").evaluate(Path("t.csv"))["average"] == 1.0


def test_labels_of_a_category_stay_of_their_kind(folder: Path) -> None:
    frame, _ = wards()
    labels = pd.Categorical(np.where(frame["y"] == "ill", 3, 1))
    run = train(from_table(frame[["z"]].assign(y=labels), label="y", folder=folder), **SHORT, epochs=1, page=False)
    assert run.predict(frame[["z"]]).dtype.kind == "i"


def test_an_audit_sees_the_same_category(folder: Path) -> None:
    frame, ward = wards(120)
    frame["ward"] = pd.Categorical(ward)
    found = audit(frame, label="y", out=folder / "a", epochs=2, device="cpu", threads=1, try_fix=False)
    again = audit(frame.astype({"ward": str}), label="y", categorical="ward", out=folder / "b", epochs=2, device="cpu",
                  threads=1, try_fix=False)  # fmt: skip
    assert found.summary["verdict"] == again.summary["verdict"] and found.views == again.views
    assert found.summary["evidence"] == again.summary["evidence"]
    rows = frame.drop(columns="y")
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
def test_codes_written_otherwise_are_the_same_codes(trained: str, later: str, run_command: CommandRunner) -> None:
    frame, ward = wards()
    for name, form in (("t.csv", trained), ("n.csv", later)):
        frame.assign(ward=[form.format(one) for one in ward]).to_csv(name, index=False)
    fit(run_command, "t.csv", "--data.categorical", "ward")
    answer = run_command("evaluate", "r", "--on", "n.csv", "--json")
    assert '"average": 1.0' in answer.out and "was not trained on" not in answer.err


def test_codes_apart_in_training_stay_apart_and_unknown_ones_are_counted(run_command: CommandRunner) -> None:
    frame, ward = wards()
    code = np.where(ward % 2 == 0, "7", "007")
    frame.assign(ward=code, y=np.where(ward % 2, "a", "b")).to_csv("t.csv", index=False)
    fit(run_command, "t.csv", "--data.categorical", "ward")
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


def test_labels_that_are_one_number_are_one_label_or_told(run_command: CommandRunner) -> None:
    frame, ward = wards()
    frame.assign(y=ward % 2).to_csv("t.csv", index=False)
    fit(run_command, "t.csv", epochs=1)
    frame.assign(y=(ward % 2).astype(float)).to_csv("n.csv", index=False)
    figures = [run_command("evaluate", "r", "--on", name, "--json").out for name in ("t.csv", "n.csv")]
    assert figures[0] == figures[1]
    frame.assign(y=np.where(ward == 3, "1.0", (ward % 2).astype(str))).to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert answer.status == 0 and "as they are written: '1' and '1.0'" in answer.err


@pytest.mark.parametrize("held", ["", "7", "one"])
def test_a_column_that_never_varies_in_training_is_left_out_and_moves_nothing_later(
    held: str, run_command: CommandRunner
) -> None:
    frame, ward = wards()
    split = np.where(ward == 2, "test", np.where(ward == 3, "valid", "train"))
    other = "two" if held == "one" else "900"
    frame = frame.assign(e=np.where(split == "train", held, other), s=split)
    frame.to_csv("t.csv", index=False)
    answer = fit(run_command, "t.csv", "--data.split", "s", "--data.features", "[e, z]", epochs=2)
    assert "same in all training rows: 'e'" in answer.err
    run = load("r")
    values = [held, other, "4000"] if held == "7" else [held, other]
    answers = [run.predict_proba(frame[["z"]].assign(e=value)) for value in values]
    assert all(np.array_equal(answers[0], one) for one in answers)
    assert np.array_equal(answers[0], run.predict_proba(frame[["z"]]))  # it need not be there
    assert np.array_equal(answers[0], load("r").predict_proba(frame[["z"]]))


def test_numbers_of_arrays_that_never_vary_in_training_move_nothing_later() -> None:
    frame, _ = wards()
    rows = np.stack([np.full(240, 7.0), frame["z"]], axis=1)
    moved = rows + np.array([900, 0])
    run = train(rows, label=frame["y"].tolist(), **SHORT, epochs=2, page=False)
    assert any("same in all training rows: 0" in note for note in run.report.warnings)
    np.testing.assert_array_equal(run.predict_proba(rows), run.predict_proba(moved))
    for given in (rows, pd.DataFrame(rows, columns=["e", "z"])):
        classifier = LogitCorrectionClassifier(epochs=2, random_state=0).fit(given, frame["y"])
        later = moved if given is rows else pd.DataFrame(moved, columns=["e", "z"])
        np.testing.assert_array_equal(classifier.predict_proba(given), classifier.predict_proba(later))
    np.testing.assert_array_equal(classifier.predict_proba(given), classifier.predict_proba(moved))  # an array later


TIMES = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]
GAPS: dict[str, tuple[list[Any], Any]] = {
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
@pytest.mark.parametrize("gap", GAPS)
def test_no_label_is_no_label_whatever_it_is_written_as(gap: str, holder: str) -> None:
    values, none = GAPS[gap]
    labels = [values[row % 2] for row in range(40)]
    if gap == "a span":
        labels = [pd.Timedelta(hours=row % 2 + 1) for row in range(40)]
    labels[7] = none
    try:
        given = HOLDERS[holder](labels)
    except (TypeError, ValueError):
        pytest.skip("nobody can hold these so")
    rows = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame(rows, columns=["u", "v"])
    once = SHORT | {"epochs": 1, "page": False}
    texts = [f"text of row {row}" for row in range(40)]
    for call in (
        lambda: train(rows, label=given, **once),
        lambda: train(texts, label=given, **once),
        lambda: train(frame, label=given, **once),
        lambda: train(frame.assign(y=given), label="y", **once),
        lambda: LogitCorrectionClassifier(epochs=1).fit(rows, given),
        lambda: LogitCorrectionClassifier(epochs=1).fit(frame, given),
    ):
        with pytest.raises(ValueError, match=r"[Rr]ow 7.*has no label|contains NaN"):
            call()


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_labels_may_be_times(unit: str) -> None:
    labels = pd.Series(TIMES * 20).to_numpy(f"datetime64[{unit}]")
    rows = np.random.default_rng(0).normal(size=(40, 2))
    run = train(rows, label=labels, **SHORT, epochs=1, page=False)
    assert run.label_names == ["2020-01-01 00:00:00", "2021-01-01 00:00:00"]
    assert run.evaluate(rows, label=labels) == run.evaluate(rows, label=list(TIMES * 20))
    classifier = LogitCorrectionClassifier(epochs=1).fit(rows, labels)
    assert classifier.predict(rows).dtype.kind == "M"
    assert classifier.group_report(rows, labels, attribute=labels)["count"].sum() == 40


@pytest.mark.parametrize("labels", [[1, "b"] * 30, pd.Series([1, "b"] * 30, dtype=object), [True, "yes"] * 30])
def test_texts_among_other_labels_are_told_by_the_classifier(labels: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(InputError, match=r"y holds texts and others, such as '(b|yes)' and (1|True)"):
        LogitCorrectionClassifier(epochs=1).fit(rows, labels)


def test_half_an_emoji_is_read_in_every_door(folder: Path) -> None:
    half = json.loads('"\\ud83d"')
    frame = pd.DataFrame({"z": np.arange(60) % 7 / 7})
    frame["t"] = pd.Series([f"{('kind', 'rude')[row % 2]} order {row}" for row in range(60)], dtype=object)
    frame["c"] = pd.Series(["u" if row % 3 else "v" for row in range(60)], dtype=object)
    frame["y"] = pd.Series(["p" if row % 2 else "q" for row in range(60)], dtype=object)
    whole = frame.copy()
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
        given = list(inputs["t"]) if options else inputs
        assert classifier.fit(given, rows["y"]).predict(given).shape == (60,)
        of_whole = train(from_table(whole[rows.columns], label="y", folder=folder, **options), **once)
        assert len(of_whole.predict(inputs)) == 60
        if options:
            assert run.predict(given).tolist() == run.predict(inputs).tolist()
    assert train(frame[["z"]].to_numpy(), label=frame["y"].tolist(), **once).label_names == ["p", "q\\ud83d"]
    found = audit(whole[["t", "y"]], label="y", text="t", new_rows=frame[["t"]], out=folder / "a", epochs=2)
    assert found.verdict


def dated(days: list[str]) -> pd.DataFrame:
    """Rows with dates, of which those in the second half of the year are of the second label."""
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
def test_dates_in_an_order_that_the_column_proves_are_read_and_told(form: str, run_command: CommandRunner) -> None:
    times = [day + pd.Timedelta(hours=13 if "with" in form else 0) for day in YEAR]
    dated([time.strftime(ORDERS[form]) for time in times]).to_csv("t.csv", index=False)
    answer = fit(run_command, "t.csv", "--data.features", "[d, z]")
    told = re.search(r"the (day|month) first \(--data.dayfirst\): 'd' \((\S+) is (\S+)\)", answer.err)
    first = {"dots": "day"}.get(form, form.partition(" ")[0])
    assert (told is not None) == (first in ("day", "month")) and (told is None or told[1] == first)
    column, _ = json.loads(Path("r/report.json").read_text())["data"]["preparation"]["columns"]
    rows = dated([*map(str, YEAR)])
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


def test_dates_that_fit_both_orders_are_asked_about_and_no_cell_is_shown_that_is_not_there(
    run_command: CommandRunner,
) -> None:
    days = [f"{1 + row % 12:02}/{1 + row // 12 % 12:02}/2024" for row in range(144)]
    frame = dated(days)
    frame.to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "both orders fit all rows, so give --data.dayfirst true or false" in answer.err
    taken = {}
    for word, first in (("true", "day"), ("false", "month")):
        answer = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.dayfirst", word)
        taken[first] = re.search(rf"{first} first \(--data.dayfirst\): 'd' \((\S+) is (\S+)\)", answer.err)
    assert taken["day"][1] == taken["month"][1] and taken["day"][2] != taken["month"][2]
    frame.loc[frame.index[:5], "d"] = "04/28/2024"  # of which the day first makes no date
    frame.to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.dayfirst", "true")
    assert answer.status == 2 and "'04/28/2024'" in answer.err and "2024-28" not in answer.err
    frame["d"] = ["04/28/2024", "28/04/2024"] * 72
    frame.to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "some rows have the day first and some the month" in answer.err


def test_zones_in_some_dates_and_a_date_that_flattens_the_others_are_told(run_command: CommandRunner) -> None:
    frame = dated([f"{day:%Y-%m-%d} 10:00" for day in YEAR])
    frame.loc[::4, "d"] += "+02:00"
    frame.to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "count as UTC: 'd' in 45 of 180 rows" in answer.err
    for far in ("9999-12-31", "1800-01-01"):
        for rows in (1, 60):
            frame = dated([f"{day:%Y-%m-%d}" for day in YEAR])
            frame.loc[: rows - 1, "d"] = far
            frame.to_csv("t.csv", index=False)
            answer = run_command("preview", "--data", "t.csv", "--data.label", "y")
            assert re.search(rf"nearly equal: 'd' \({far} in {rows} rows?\)", answer.err)
    dated([f"{day:%Y-%m-%d}" for day in YEAR]).to_csv("t.csv", index=False)
    assert "nearly equal" not in run_command("preview", "--data", "t.csv", "--data.label", "y").err


def reviews(rows: int) -> list[str]:
    return [f"{('kind', 'rude')[row % 2]} service {row},{('p', 'q')[row % 2]},{row % 7}" for row in range(rows)]


@pytest.mark.parametrize(
    "again",
    ["t,y,n", "t, y , n", '"t","y","n"', '"t", "y", "n"', "\ufefft,y,n", "T,Y,N", "t;y;n,,", "n,t,y", "t\ty\tn,,"],
)
def test_a_header_in_the_middle_is_a_bad_row_with_its_line(again: str, run_command: CommandRunner) -> None:
    lines = ["t,y,n", *reviews(6), again, *reviews(6), again, *reviews(6)]
    Path("t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for options in (("--data.text", "t"), ("--data.features", "n")):
        words = ("preview", "--data", "t.csv", "--data.label", "y", *options)
        answer = run_command(*words)
        assert answer.status == 2 and "2 rows are bad: line 8, line 15: holds the names of the columns" in answer.err
        answer = run_command(*words, "--data.on_bad_rows", "skip")
        assert answer.status == 0 and "Table: 12 train, 2 valid, 4 test rows" in answer.err
    Path("o.csv").write_text("\n".join(["t,y,n", *reviews(30)]), encoding="utf-8")
    fit(run_command, "o.csv", "--data.text", "t", epochs=1)
    answer = run_command("predict", "r", "t.csv", "--out", "a.csv")
    assert "line 8, line 15: holds the names" in answer.err and pd.read_csv("a.csv").iloc[:, 1].isna().sum() == 2
    answer = run_command("evaluate", "r", "--on", "t.csv")
    assert answer.status == 2 and "line 8, line 15: holds the names" in answer.err
    frame = pd.read_csv("t.csv")
    with pytest.raises(InputError, match="row 6, row 13: holds the names"):
        train(from_table(frame, label="y", text="t"), **SHORT, epochs=1)


def test_values_that_are_names_of_columns_are_no_header(run_command: CommandRunner) -> None:
    frame, ward = wards()
    frame.assign(ill=np.where(ward > 6, "ill", "y"), y=frame["y"]).to_csv("t.csv", index=False)
    assert "names of the columns" not in fit(run_command, "t.csv", epochs=1).err


@pytest.mark.parametrize(("opened", "closed", "lost"), [(10, 25, 15), (10, 11, 1), (10, 12, 2)])
@pytest.mark.parametrize("last", [False, True])
def test_a_quote_that_takes_in_other_rows_is_told_with_its_lines(
    opened: int, closed: int, lost: int, last: bool, run_command: CommandRunner
) -> None:
    lines = [",".join(line.split(",")[::-1] if last else line.split(",")) for line in ["t,y,n", *reviews(80)]]
    quoted = [*lines]
    for line in (opened, closed):  # as people write them, numbered from 1
        start, text, end = quoted[line - 1].partition("kind" if line % 2 == 0 else "rude")
        quoted[line - 1] = f'{start}"{text}{end}' if line == opened else f'{start}{text}"{end}'
    Path("t.csv").write_text("\n".join(quoted) + "\n")
    words = ("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t")
    answer = run_command(*words)
    assert answer.status == 2, answer.err
    assert f"line {opened}: the quote of column 't' takes in lines {opened} to {closed}" in answer.err
    quoted[closed - 1] = lines[closed - 1]
    quoted[2] = quoted[2].replace("service", '5" service')  # which opens nothing
    Path("t.csv").write_text("\n".join(quoted) + "\n")
    assert f"the quote that opens in line {opened} is not closed" in run_command(*words).err


def test_texts_of_several_lines_are_no_rows_and_lines_are_counted_through_them(run_command: CommandRunner) -> None:
    draw = np.random.default_rng(0)
    texts = [f"dear shop, hello,\nI came in, twice, {row}\nand, well, left" for row in draw.integers(0, 90, 60)]
    frame = pd.DataFrame({"t": texts, "y": ["p", "q"] * 30, "n": range(60)})
    frame.to_csv("t.csv", index=False)
    assert run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t").status == 0
    held = Path("t.csv").read_text().splitlines()
    held.insert(100, '"kind and open,p,3')
    Path("t.csv").write_text("\n".join(held) + "\n")
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t")
    assert answer.status == 2 and "line 104 has 5 cells, and others 3" in answer.err, answer.err


@pytest.mark.parametrize(
    ("written", "told"),
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
def test_a_word_that_yaml_takes_for_something_else_is_to_be_quoted(
    written: str, told: str, run_command: CommandRunner
) -> None:
    frame, ward = wards()
    names = ["Yes", "off", "017", "1.50", "2024", "2024-01-01", "0x1F", "1:30", "on", "1_000"]
    frame.rename(columns={"y": "no"}).assign(x=ward, **{name: ward % 2 for name in names}).to_csv("t.csv", index=False)
    start = "data:\n  name: Table\n  file: t.csv\n  "
    end = "\nmethod: ERM\nepochs: 1\nlearning_rate: 0.0010\n"
    Path("c.yaml").write_text(start + written + end)
    answer = run_command("train", "--config", "c.yaml", "--out", "r")
    assert answer.status == 2 and told in answer.err and "quote it" in answer.err, answer.err
    text = told.rpartition(" ")[2]
    quoted = written if f"'{text}'" in written else written.replace(text, f"'{text}'")
    Path("c.yaml").write_text(start + quoted.replace("features: ['017']", "features: ['017', x]") + end)
    assert run_command("train", "--config", "c.yaml", "--out", "r").status == 0
    Path("c.yaml").write_text(start + "label: 'no'\n  dayfirst: yes" + end + "deterministic: off\n")
    assert run_command("train", "--config", "c.yaml", "--out", "q").status == 0  # where yes and no are meant
    Path("c.yaml").write_text(start + "label: 'no'" + end.replace("epochs: 1", "epochs: 010"))
    assert "--epochs is 010, which YAML takes for 8" in run_command("train", "--config", "c.yaml", "--out", "p").err


LIKE_TRAINING: dict[str, Callable[[np.ndarray], Any]] = {
    "zoned times": lambda ward: pd.Categorical([pd.Timestamp(2024, one, 1, tz="Europe/Paris") for one in ward]),
    "spans": lambda ward: pd.Categorical(pd.to_timedelta(ward, unit="D")),
    "truth values and a gap": lambda ward: pd.Categorical([None if one == 2 else one in (1, 3, 5, 8) for one in ward]),
    "decimals": lambda ward: pd.Categorical([Decimal(f"{one}.50") for one in ward]),
}


@pytest.mark.parametrize("form", LIKE_TRAINING)
def test_categories_of_any_values_are_the_same_in_new_rows(form: str, folder: Path, recwarn: Any) -> None:
    frame, ward = wards()
    frame["ward"] = LIKE_TRAINING[form](ward)
    run = train(from_table(frame, label="y", folder=folder), **SHORT, epochs=1, page=False)
    frame.to_parquet("t.parquet")
    given = run.predict_proba(frame)
    if form != "spans":  # which Parquet takes for numbers
        np.testing.assert_array_equal(given, run.predict_proba(Path("t.parquet")))
    assert not any("was not trained on" in str(warning.message) for warning in recwarn)


@pytest.mark.parametrize("holder", [pd.Series, lambda values: values])
def test_a_category_in_a_mapping_of_columns_is_a_category(holder: Any, folder: Path) -> None:
    frame, ward = wards()
    columns = {"z": frame["z"], "y": frame["y"][::-1][::-1], "ward": holder(pd.Categorical(ward))}
    run = train(from_table(columns, label="y", folder=folder), **SHORT, epochs=1, page=False)
    kinds = {column["name"]: column["kind"] for column in run.report.to_dict()["data"]["preparation"]["columns"]}
    assert kinds == {"ward": "names", "z": "numbers"}


@pytest.mark.parametrize("written", [("TRUE", "FALSE"), ("true", "false"), ("1", "0"), ("1.0", "0.0")])
def test_truth_values_are_the_same_however_a_program_writes_them(
    written: tuple[str, str], run_command: CommandRunner
) -> None:
    frame, _ = wards()
    truth = frame["y"] == "ill"
    frame = frame.assign(flag=truth, y=truth)
    frame.to_parquet("t.parquet")
    fit(run_command, "t.parquet", epochs=1)
    frame.assign(flag=np.where(truth, *written), y=np.where(truth, *written)).to_csv("n.csv", index=False)
    answers = [run_command("evaluate", "r", "--on", name, "--json") for name in ("t.parquet", "n.csv")]
    assert answers[0].out == answers[1].out and not answers[1].err


def test_splits_are_numbers_in_any_form_but_no_truth_values(run_command: CommandRunner) -> None:
    frame, ward = wards()
    words = ("preview", "--data", "t.csv", "--data.label", "y", "--data.split", "s")
    frame.assign(s=(ward % 3).astype(float)).to_csv("t.csv", index=False)
    assert "Table: 80 train, 80 valid, 80 test rows" in run_command(*words).err
    frame.assign(s=ward > 6).to_csv("t.csv", index=False)
    assert "'True' is not one of train, valid, test and new" in run_command(*words).err


@pytest.mark.parametrize("trained", ["month", "day"])
def test_later_dates_that_show_the_other_order_are_all_bad_rows(trained: str, run_command: CommandRunner) -> None:
    other = {"month": "day", "day": "month"}[trained]
    dated([time.strftime(ORDERS[trained]) for time in YEAR]).to_csv("t.csv", index=False)
    fit(run_command, "t.csv", epochs=1)
    days = pd.date_range("2024-02-01", periods=28)  # half of them are dates in both orders
    dated([time.strftime(ORDERS[other]) for time in days]).to_csv("n.csv", index=False)
    answer = run_command("predict", "r", "n.csv", "--out", "a.csv")
    assert answer.status == 2 and f"{trained} first in training" in answer.err, answer.err
    answer = run_command("evaluate", "r", "--on", "n.csv")
    assert answer.status == 2 and "28 rows are bad" in answer.err and "write 2024-12-31" in answer.err
    dated([f"{time:%Y-%m-%d}" for time in days]).to_csv("n.csv", index=False)
    assert run_command("evaluate", "r", "--on", "n.csv").status == 0


@pytest.mark.parametrize("form", ["%d.%m.%Y %H:%M Uhr", "%d.%m.%Y %H.%M", "%m/%d/%Y 24:00"])
def test_dates_with_a_time_in_another_form_are_told_what_to_write(form: str, run_command: CommandRunner) -> None:
    dated([time.strftime(form) for time in YEAR]).to_csv("t.csv", index=False)
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y")
    assert "looks like a date: write its time as 14:30" in answer.err and "dayfirst" not in answer.err


def test_zones_in_some_times_of_a_frame_are_told(folder: Path) -> None:
    times = [time.tz_localize("Asia/Tokyo") if row % 4 else time for row, time in enumerate(YEAR)]
    frame = dated([*map(str, YEAR)]).assign(d=pd.Series(times, dtype=object))
    run = train(from_table(frame, label="y", folder=folder), **SHORT, epochs=1, page=False)
    assert any("count as UTC: 'd' in 135 of 180 rows" in note for note in run.report.warnings)


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"]


@pytest.mark.parametrize("trained", ["utf-8", "utf-16", "latin-1"])
@pytest.mark.parametrize("later", ENCODINGS)
@pytest.mark.parametrize("zipped", [False, True])
def test_encodings_are_read_or_told_with_what_the_command_takes(
    trained: str, later: str, zipped: bool, run_command: CommandRunner
) -> None:
    frame, ward = wards()
    frame["place"] = np.where(ward > 6, "Köln", "Zürich")
    frame.to_csv("t.csv", index=False, encoding=trained)
    given = ("--data.encoding", trained) if trained == "latin-1" else ()
    fit(run_command, "t.csv", "--data.text", "place", *given, epochs=1)
    new = "n.csv.gz" if zipped else "n.csv"
    frame.to_csv(new, index=False, encoding=later)
    answers = [run_command("evaluate", "r", "--on", name, "--json") for name in ("t.csv", new)]
    refused = later == "utf-16-le" or (later == "latin-1" and trained != "latin-1")
    assert answers[0].status == 0
    for answer in (answers[1], run_command("predict", "r", new, "--out", "a.csv")):
        assert answer.status == (2 if refused else 0), answer.err
        assert "--data." not in answer.err and (refused or answer.err == "")
    assert refused or answers[1].out == answers[0].out


def test_rows_counted_as_unknown_are_none_that_are_bad(run_command: CommandRunner) -> None:
    frame, ward = wards()
    frame.assign(ward=[f"w{one}" for one in ward]).to_csv("t.csv", index=False)
    fit(run_command, "t.csv", epochs=1)
    lines = Path("t.csv").read_text().splitlines()
    Path("n.csv").write_text("\n".join([*lines[:30], lines[0], *lines[30:]]) + "\n")
    answer = run_command("predict", "r", "n.csv", "--out", "a.csv")
    assert "line 31: holds the names" in answer.err and "was not trained on" not in answer.err


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("closed", [12, 25])
def test_a_quote_that_takes_in_other_rows_is_told_whatever_ends_lines(
    end: str, closed: int, run_command: CommandRunner
) -> None:
    lines = ["n,y,t", *(",".join(line.split(",")[::-1]) for line in reviews(80))]
    lines[9] = lines[9].replace("kind", '"kind').replace("rude", '"rude')
    lines[closed - 1] += '"'
    Path("t.csv").write_bytes((end.join(lines) + end).encode())
    answer = run_command("preview", "--data", "t.csv", "--data.label", "y", "--data.text", "t")
    assert answer.status == 2 and f"takes in lines 10 to {closed}" in answer.err, answer.err
