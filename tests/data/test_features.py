"""Columns as vectors: one scale, learnt from the training rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from logit_correction.data.features import (
    Columns,
    gaps_of,
    learn_columns,
    note_bad_features,
    to_vectors,
    warn_of_unknown_names,
)
from logit_correction.data.rows import Problems
from logit_correction.errors import InputError, InputWarning

FRAME = pd.DataFrame(
    {
        "age": ["30", " 40 ", "50", "60", "1e2"],
        "sex": ["f", "m", "f", "m", "x"],
        "flat": ["7"] * 5,
        "sum": [1.5, 2.5, -3.5, 4.5, 0.0],
    }
)
TRAIN = torch.tensor([0, 1, 2])


def test_vectors_are_those_of_scikit_learn() -> None:
    columns = learn_columns(Columns(FRAME), ["age", "sex", "sum"], TRAIN)
    numbers = FRAME[["age", "sum"]].astype(float)
    scaled = StandardScaler().fit(numbers.iloc[:3]).transform(numbers)
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(FRAME[["sex"]].iloc[:3])
    expected = np.column_stack([scaled[:, 0], hot.transform(FRAME[["sex"]]), scaled[:, 1]])
    vectors = to_vectors(Columns(FRAME), columns)
    assert vectors.dtype == torch.float32
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("values", [[1.0, 2.0], [1, 2], [1.0, "2"], ["1", 2]])
def test_a_number_that_stands_for_a_name_is_the_same_however_a_row_holds_it(values: list[object]) -> None:
    trained = pd.DataFrame({"ward": [1.0, 2.0, np.nan]})  # 1.0, for another row has a gap
    learnt = learn_columns(Columns(trained, ["ward"]), ["ward"], TRAIN)
    assert learnt == [{"name": "ward", "categories": ["", "1", "2"]}]
    rows = pd.DataFrame({"ward": values}, dtype=object)
    assert to_vectors(Columns(rows, ["ward"]), learnt).tolist() == [[0, 1, 0], [0, 0, 1]]


def test_a_column_that_never_changes_is_zero() -> None:
    columns = learn_columns(Columns(FRAME), ["flat"], TRAIN)
    assert to_vectors(Columns(FRAME), columns).flatten().tolist() == [0.0] * 5


def test_rounding_does_not_make_a_column_change() -> None:
    flat = np.full(90, 0.1)
    assert flat.std() > 0
    columns = learn_columns(Columns(pd.DataFrame({"flat": flat})), ["flat"], torch.arange(90))
    new = to_vectors(Columns(pd.DataFrame({"flat": [0.1, 0.2]})), columns)
    np.testing.assert_allclose(new.flatten(), [0, 0.1], atol=1e-6)


def test_a_few_wrong_values_do_not_make_a_column_one_of_names() -> None:
    values = pd.Series([str(i) for i in range(19)] + ["unknown"])
    days = pd.Series([f"2024-02-{i:02}" for i in range(1, 19)] + ["2024-02-30", "31.1.2024"])
    frame = pd.DataFrame(
        {
            "x": values,
            "y": [1.0, 2.0, np.inf, np.nan] + [0.0] * 16,
            "gaps": ["1", "", " NA ", "?"] * 5,
            "day": days,
            "name": ["a", ""] + ["b"] * 18,
            "mixed": ["a", "1"] * 10,
            "empty": [""] * 20,
        }
    )
    columns = Columns(frame)
    kinds = dict.fromkeys(("x", "y", "gaps"), "numbers") | {"day": "dates"}
    assert {name: columns.kind(name) for name in frame} == kinds | dict.fromkeys(("name", "mixed", "empty"), "names")
    problems = Problems("f.csv", [f"row {i}" for i in range(20)])
    note_bad_features(columns, list(frame), problems)
    assert str(problems) == (
        "row 2: column 'y' holds 'inf', which is no finite number; "
        "row 18: column 'day' holds '2024-02-30', which is no date, such as 2024-05-31; "
        "row 19: column 'x' holds 'unknown', which is no finite number"
    )
    assert gaps_of(columns, list(frame)) == {"y": 1, "gaps": 15, "name": 1, "empty": 20}


@pytest.mark.parametrize("dtype", ["bool", "boolean", "object", "str"])
def test_true_and_false_are_names_however_they_are_held(dtype: str) -> None:
    held = Columns(pd.DataFrame({"flag": pd.Series([True, False, True]).astype(dtype)}))
    learnt = learn_columns(held, ["flag"], TRAIN)
    assert learnt == [{"name": "flag", "categories": ["False", "True"]}]
    written = Columns(pd.DataFrame({"flag": ["True", "False", "True"]}))
    assert to_vectors(held, learnt).tolist() == to_vectors(written, learnt).tolist() == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "str", "category"])
def test_numbers_that_stand_for_names(dtype: str) -> None:
    sites = pd.DataFrame({"site": pd.Series([3, 12, 3, 7]).astype(dtype)})
    columns = Columns(sites) if dtype == "category" else Columns(sites, ["site"])
    learnt = learn_columns(columns, ["site"], torch.arange(3))
    assert learnt == [{"name": "site", "categories": ["12", "3"]}]
    # New rows need not hold them in the same way: one gap makes floats of whole numbers.
    for new in ([12, 7, 3], [12.0, float("nan"), 3.0], ["12", "", "3"]):
        vectors = to_vectors(Columns(pd.DataFrame({"site": new})), learnt)
        assert vectors.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]


def test_missing_values_are_those_of_scikit_learn() -> None:
    frame = pd.DataFrame({"age": ["30", "", "50", "nan", "60", "70"], "sex": ["f", "", "m", "f", "", "m"]})
    train = torch.tensor([0, 1, 2])
    learnt = learn_columns(Columns(frame), ["age", "sex"], train)
    numbers = pd.to_numeric(frame[["age"]].stack(), errors="coerce").unstack().to_numpy()
    filled = SimpleImputer(add_indicator=True).fit(numbers[:3]).transform(numbers)
    filled[:, 0] = (filled[:, 0] - 40) / 10
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(frame[["sex"]].iloc[:3])
    np.testing.assert_allclose(
        to_vectors(Columns(frame), learnt), np.column_stack([filled, hot.transform(frame[["sex"]])]), rtol=1e-6
    )
    problems = Problems("new.csv", [f"row {i}" for i in range(6)])
    to_vectors(Columns(frame), learnt, problems)
    assert not len(problems)


def test_a_gap_is_a_fault_where_training_rows_had_none() -> None:
    learnt = learn_columns(Columns(FRAME), ["age"], TRAIN)
    problems = Problems("new.csv", ["row 2", "row 3"])
    vectors = to_vectors(Columns(pd.DataFrame({"age": ["", "40"]})), learnt, problems)
    assert str(problems) == "row 2: column 'age' is empty" and vectors.tolist() == [[0.0], [0.0]]


def test_a_column_whose_training_rows_are_all_missing() -> None:
    learnt = learn_columns(Columns(pd.DataFrame({"x": ["", "", "5"]})), ["x"], torch.tensor([0, 1]))
    assert to_vectors(Columns(pd.DataFrame({"x": ["", "7"]})), learnt).tolist() == [[0, 1], [7, 0]]


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_dates_count_as_days_however_they_are_held(zone: str) -> None:
    times = ["1970-01-02T12:00:00", "2024-02-29T00:00:00", "1969-12-31T06:00:00"]
    days = [1.5, 19782.0, -0.75]
    hours = 2 if zone == "+02:00" else 0
    texts = [time + zone for time in times]
    held = pd.to_datetime(pd.Series(texts))
    frame = pd.DataFrame({"text": [*texts, ""], "time": [*held, None]})
    for name in frame:
        columns = Columns(frame)
        assert columns.kind(name) == "dates" and np.isnan(columns.numbers(name)).all()
        np.testing.assert_allclose(columns.days(name), [*(np.array(days) - hours / 24), np.nan])
    learnt = learn_columns(Columns(frame), ["text"], torch.tensor([0, 1]))
    problems = Problems("new.csv", ["row 0", "row 1"])
    to_vectors(Columns(pd.DataFrame({"text": ["2024", "now"]})), learnt, problems)
    assert str(problems) == (
        "row 0: column 'text' holds '2024', which is no date, such as 2024-05-31; "
        "row 1: column 'text' holds 'now', which is no date, such as 2024-05-31"
    )


def test_spans_of_time_count_as_days() -> None:
    columns = Columns(pd.DataFrame({"stay": pd.to_timedelta(["36h", None, "-6h"])}))
    assert columns.kind("stay") == "numbers" and columns.gaps("stay", "numbers").tolist() == [False, True, False]
    np.testing.assert_allclose(columns.numbers("stay"), [1.5, np.nan, -0.25])
    assert learn_columns(columns, ["stay"], TRAIN) == [{"name": "stay", "mean": 0.625, "std": 0.875, "gaps": True}]


@pytest.mark.parametrize(
    ("texts", "example"),
    [
        (["0,126", "12", "", "-3,5"], "0,126"),
        (["1,037", "12", "1,234,567.5"], "1,037"),
        (["37 %", "4.5%"], "37 %"),
        (["1 037", "12"], "1 037"),
        (["a,1", "2,5"], None),
        (["2.5", "3"], None),
        (["31.12.2024", "1.2.3"], None),
    ],
)
def test_numbers_that_are_written_otherwise(texts: list[str], example: str | None) -> None:
    assert Columns(pd.DataFrame({"x": texts})).written_number("x") == example
    assert Columns(pd.DataFrame({"x": texts}), ["x"]).written_number("x") is None


def test_new_rows_are_checked_against_what_was_learnt() -> None:
    columns = learn_columns(Columns(FRAME), ["age", "sex"], TRAIN)
    problems = Problems("new.csv", ["row 2", "row 3"])
    vectors = to_vectors(Columns(pd.DataFrame({"age": ["old", "40"], "sex": ["m", ""]})), columns, problems)
    assert str(problems) == "row 2: column 'age' holds 'old', which is no finite number"
    assert torch.isfinite(vectors).all() and vectors[1].tolist() == [0.0, 0.0, 0.0]


def test_names_that_no_training_row_had() -> None:
    learnt = learn_columns(Columns(FRAME), ["age", "sex"], TRAIN)
    new = pd.DataFrame({"age": ["1", "2", "3", "4"], "sex": ["m", "d", "", " f"]})
    told: set[str] = set()
    with pytest.warns(InputWarning, match="column 'sex' holds names .*, such as 'd', in 2 of"):
        warn_of_unknown_names(Columns(new), learnt, told)
    assert told == {"sex"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_unknown_names(Columns(new), learnt, told)  # once is enough
        warn_of_unknown_names(Columns(FRAME.iloc[:4]), learnt, set())


def test_too_many_names_are_refused() -> None:
    frame = pd.DataFrame({"id": [f"user {i}" for i in range(101)]})
    with pytest.raises(InputError, match=r"column 'id' holds 101 different texts in 101 rows, which are hardly"):
        learn_columns(Columns(frame), ["id"], torch.arange(101))


def test_of_many_names_the_commonest_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logit_correction.views.tables.MOST_NUMBERS", 1)  # a hundred names in any case
    cities = [f"city {i:03}" for i in range(150) for _ in range(20 if i % 3 else 5)]  # a hundred are common
    columns = Columns(pd.DataFrame({"city": cities}))
    learnt = learn_columns(columns, ["city"], torch.arange(len(cities)))
    assert learnt[0]["categories"] == [f"city {i:03}" for i in range(150) if i % 3]
    assert to_vectors(columns, learnt).sum(1).tolist() == [float(int(city[-3:]) % 3 > 0) for city in cities]


@pytest.mark.parametrize("dtype", [str, object])
def test_numbers_are_read_as_pandas_reads_them(dtype: type) -> None:
    written = [" 1.5", "-2e3 ", "007", "0.1", "1e400", "-inf", "3."]
    for odd in ((), ("three",), ("",), ("1_000",), ("+4",), ("0x10",)):
        values = pd.Series([*written, *odd], dtype=dtype)
        expected = pd.to_numeric(values.str.strip(), errors="coerce").to_numpy(dtype=float)
        np.testing.assert_array_equal(Columns(pd.DataFrame({"x": values})).numbers("x"), expected)
