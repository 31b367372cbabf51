"""Columns as vectors: against scikit-learn, and what a column is taken for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from logit_correction.data.column_kinds import NumberFormat, infer_column_kind
from logit_correction.data.features import ColumnReader
from logit_correction.data.rows import Rows
from logit_correction.errors import InputError

ROWS = 90


def fit_columns(frame: pd.DataFrame, train: int = 60, **options: Any) -> tuple[ColumnReader, torch.Tensor, list[str]]:
    columns = ColumnReader(**options)
    rows = Rows("rows", range(len(frame)), frame)
    read, _, notes = columns.validate(rows)
    rows.errors.raise_if_any()
    store, *_ = columns.fit_transform(read, torch.arange(train), rows.errors)
    return columns, store.fetch(torch.arange(len(frame))), notes


def test_number_and_name_columns_equal_scikit_learn_fitted_on_training_rows() -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(5, 3, ROWS), "b": draw.choice(["x", "y", "z"], ROWS), "c": 7.0})
    columns, vectors, notes = fit_columns(frame)
    scaler = StandardScaler().fit(frame[["a"]][:60])
    flags = OneHotEncoder(sparse_output=False).fit(frame[["b"]][:60]).transform(frame[["b"]])
    expected = np.hstack([scaler.transform(frame[["a"]]), flags])
    np.testing.assert_allclose(vectors.numpy(), expected, atol=1e-6)
    assert notes == []
    restored = ColumnReader()
    rows = Rows("rows", range(ROWS), frame[["c", "b", "a"]].astype(str))
    restored.load_state({"columns": [*columns.fitted_columns.values()], "given": columns.input_columns})
    store, forms = restored.transform(rows)
    torch.testing.assert_close(store.fetch(torch.arange(ROWS)), vectors)
    np.testing.assert_allclose(forms["columns"]["a"], frame["a"], rtol=1e-14)  # pandas 2 reads the last digit otherwise
    assert not rows.errors


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["40", "?"] * 9, "numbers"),
        (["40", "-", ".", "\u22125.5"] * 9, "numbers"),  # gaps, and the minus sign of typesetting
        (["14:30", "2:30 PM", "9:05:30", ""] * 9, "times"),
        (["14:30", "24:70"] * 9, "names"),
        (["1970-01-03", ""] * 9, "dates"),
        (["old", "new"] * 9, "names"),
        ([True, False] * 9, "names"),
        (pd.to_timedelta([1, 2] * 9, unit="D"), "numbers"),
        (pd.to_datetime(["2024-01-01"] * 18, utc=True), "dates"),
        (pd.Categorical([1, 2] * 9), "names"),
        ([*map(str, range(30)), "old"], "numbers"),  # a bad row
        (["4", "6"] * 20 + ["rotary"], "numbers"),  # as well, however few values there are
    ],
)
def test_column_kind_is_inferred_from_its_values(values: Any, kind: str) -> None:
    assert infer_column_kind(pd.Series(values)).name == kind


def test_date_column_with_times_adds_a_column_of_the_hour() -> None:
    days = pd.Series(pd.date_range("2024-05-31", periods=60, freq="D"))
    hour = pd.Series(np.random.default_rng(0).integers(0, 24 * 3600, 60) / 3600)
    frame = pd.DataFrame({"day": days.dt.date.map(str), "at": (days + pd.to_timedelta(hour, unit="h")).map(str)})
    columns, vectors, _ = fit_columns(frame, 40)
    assert vectors.shape == (60, 3)
    np.testing.assert_allclose(vectors[:, 1], (hour - hour[:40].mean()) / hour[:40].std(ddof=0), atol=1e-3)
    store, forms = columns.transform(Rows("rows", range(60), frame))
    assert list(forms["columns"]) == ["at", "day", "at hour"]
    np.testing.assert_allclose(forms["columns"]["at hour"], hour, atol=1e-3)
    torch.testing.assert_close(store.fetch(torch.arange(60)), vectors)


def test_missing_numbers_become_the_mean_with_a_flag_if_training_had_some() -> None:
    frame = pd.DataFrame({"a": ["1", "3", "", "2"] * 15, "b": [*["5", "6"] * 29, "", ""]})
    columns, vectors, notes = fit_columns(frame.assign(c=range(60)), 40)
    assert vectors.shape == (60, 4) and vectors[2].tolist()[:2] == [0.0, 1.0] and vectors[58, 2] == 0
    assert "'a' in 15 of 60 rows; 'b' in 2 of 60 rows" in notes[0]
    # New rows may miss what rows of any split missed, and nothing else.
    new = pd.DataFrame({"a": ["", "1"], "b": ["", "5"], "c": ["7", ""]})
    rows = Rows("rows", range(2), new)
    store, _ = columns.transform(rows)
    assert list(rows.errors.by_row) == [1] and store.fetch(torch.arange(1))[0].tolist()[:3] == [0.0, 1.0, 0.0]


def test_time_column_counts_hours() -> None:
    frame = pd.DataFrame({"start": [f"{hour % 24}:30" for hour in range(ROWS)]})
    _, vectors, _ = fit_columns(frame)
    hours = torch.arange(ROWS) % 24 + 0.5
    expected = (hours - hours[:60].mean()) / hours[:60].std(correction=0)
    torch.testing.assert_close(vectors[:, 0], expected, atol=1e-5, rtol=0)


def test_what_may_be_misread_is_told() -> None:
    values = np.random.default_rng(0).normal(1000, 300, 300).round(1)
    frame = pd.DataFrame(
        {
            "sales": [f"€{value:,.2f}" for value in values],
            "swiss": [f"{value:,.1f}".replace(",", "'") for value in values],
            "dose": [f"{value}" if row % 4 else "<5" for row, value in enumerate(values)],
            "age": np.where(np.arange(300) % 10, values, -999),
            "tweet": 10**17 + np.arange(300),
            "score": values,
            "income": [f"{value * 7:,.0f}".replace(",", ".") for value in values],
            "weight": [f"{value / 1000:.3f}" for value in values],
        }
    )
    frame.loc[0, "income"] = "994"
    columns, _, notes = fit_columns(frame, train=200)
    assert {*columns.fitted_columns} == {"age", "score", "income", "weight"}
    assert any("may stand between thousands" in note and "and '994'" in note for note in notes)
    assert not any("'weight'" in note for note in notes)
    for fault in (
        "has a unit",
        "give `decimal` and `thousands`",
        "'<5' is not a number, as 75 % are",
        "-999 in 30 rows",
    ):
        assert any(fault in note for note in notes)
    assert any("'tweet'" in note and "whole number of its own" in note for note in notes)


def test_thousands_are_parted_by_any_blank() -> None:
    blanks = "\u202f\xa0 " * 30
    frame = pd.DataFrame(
        {"price": [f"1{blank}{number}" for number, blank in zip(range(900, 990), blanks, strict=True)]}
    )
    columns, _, _ = fit_columns(frame, number_format=NumberFormat(thousands=" "), numbers=["price"])
    assert columns.fitted_columns["price"]["range"] == [1900.0, 1959.0]


def test_names_that_no_row_shares_are_left_out_of_few_rows_too() -> None:
    """Names that no row shares; numbers may differ in each row."""
    frame = pd.DataFrame({"review": [f"review {row}" for row in range(40)], "price": np.arange(40) ** 2})
    columns, _, notes = fit_columns(frame, train=30)
    assert [*columns.fitted_columns] == ["price"] and any("'review'" in note for note in notes)


def test_name_column_with_mostly_unique_texts_is_left_out() -> None:
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(180)], "a": np.arange(180) % 9})
    _, vectors, notes = fit_columns(frame)
    assert vectors.shape == (180, 1) and "'name' (180 different texts, such as 'n0')" in notes[0]
    with pytest.raises(InputError, match="'name' holds 180 different texts in 180 rows"):
        fit_columns(frame, names=["name"])
    with pytest.raises(InputError, match="no column left for features"):
        fit_columns(frame[["name"]])
