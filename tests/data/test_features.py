"""Columns as vectors: one scale, learnt from the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from logit_correction.data.features import Columns, learn_columns, note_bad_features, to_vectors
from logit_correction.data.problems import Problems
from logit_correction.errors import InputError

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


def test_a_column_that_never_changes_is_zero() -> None:
    columns = learn_columns(Columns(FRAME), ["flat"], TRAIN)
    assert to_vectors(Columns(FRAME), columns).flatten().tolist() == [0.0] * 5


def test_a_few_wrong_values_do_not_make_a_column_one_of_names() -> None:
    values = pd.Series([str(i) for i in range(19)] + ["unknown"])
    columns = Columns(pd.DataFrame({"x": values, "gaps": [1.0, np.nan] * 10, "names": ["a", "1"] * 10}))
    assert columns.is_numeric("x") and columns.is_numeric("gaps") and not columns.is_numeric("names")
    frame = pd.DataFrame({"x": values, "name": ["a", ""] + ["b"] * 18, "y": [1.0, 2.0, np.inf, np.nan] + [0.0] * 16})
    problems = Problems("f.csv", [f"row {i}" for i in range(20)])
    note_bad_features(Columns(frame), ["x", "name", "y"], problems)
    assert str(problems) == (
        "row 1: column 'name' is empty; row 2: column 'y' holds 'inf', which is no finite number; "
        "row 3: column 'y' is empty; row 19: column 'x' holds 'unknown', which is no finite number"
    )


def test_new_rows_are_checked_against_what_was_learnt() -> None:
    columns = learn_columns(Columns(FRAME), ["age", "sex"], TRAIN)
    problems = Problems("new.csv", ["row 2", "row 3"])
    vectors = to_vectors(Columns(pd.DataFrame({"age": ["old", "40"], "sex": ["m", ""]})), columns, problems)
    assert str(problems) == "row 2: column 'age' holds 'old', which is no finite number"
    assert torch.isfinite(vectors).all() and vectors[1].tolist() == [0.0, 0.0, 0.0]


def test_too_many_names_are_refused() -> None:
    frame = pd.DataFrame({"id": [f"user {i}" for i in range(101)]})
    with pytest.raises(InputError, match=r"column 'id' holds 101 different texts"):
        learn_columns(Columns(frame), ["id"], torch.arange(101))


@pytest.mark.parametrize("dtype", [str, object])
def test_numbers_are_read_as_pandas_reads_them(dtype: type) -> None:
    written = [" 1.5", "-2e3 ", "007", "0.1", "1e400", "-inf", "3."]
    for odd in ((), ("three",), ("",), ("1_000",), ("+4",), ("0x10",)):
        values = pd.Series([*written, *odd], dtype=dtype)
        expected = pd.to_numeric(values.str.strip(), errors="coerce").to_numpy(dtype=float)
        np.testing.assert_array_equal(Columns(pd.DataFrame({"x": values})).numbers("x"), expected)
