"""Attributes from a file or a column: how rows are matched, what is unknown, and which files are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import Given, train
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.seeds import StepRandomness
from logit_correction.shortcuts.held_out import load_class_probabilities
from logit_correction.types import TrainingRows

from .conftest import attach_estimator, build_training_batch, train_estimator

#: Training rows of the whole data set, in an order of their own.
ROWS = torch.tensor([7, 3, 60, 11, 20, 4])


@pytest.fixture
def small_table(table: DataTable) -> DataTable:
    """Six training rows, named by the order in which files would stand."""
    return replace(table, split={**table.split, "train": ROWS}, row_names=[f"img/{i:03}.png" for i in range(88)])


def write_table(path: Path, /, **columns: Any) -> str:
    frame = pd.DataFrame(columns)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_given_file_names_rows_by_their_number_in_the_data_set(suffix: str, small_table, tmp_path) -> None:
    file = write_table(tmp_path / f"a.{suffix}", row=[3, 80, 7, 60, 20, 4], attribute=["b", "zz", "a", "b", None, "c"])
    estimator = train_estimator(Given(file), small_table)
    assert estimator.attribute_names == ["a", "b", "c"]
    # Row 11 is not in the file, and row 20 has an empty cell.
    assert estimator.row_attribute.tolist() == [0, 1, 1, -1, -1, 2]
    assert estimator.list_estimate_warnings() == [
        f"2 of 6 training rows have no attribute in the file a.{suffix}: not corrected"
    ]
    assert estimator.describe() == f"the file a.{suffix}" and not estimator.needs_attributes
    estimate = estimator(build_training_batch(small_table), 0.0, StepRandomness(0))
    assert torch.equal(estimate.attribute, estimator.row_attribute) and estimate.loss is None


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"path": [f"img/{int(row):03}.png" for row in ROWS.flip(0)], "attribute": [*"cbaabc"]}, [2, 1, 0, 0, 1, 2]),
        ({"line": [9, 5, 62], "attribute": [*"abc"]}, [0, 1, 2, -1, -1, -1]),  # as predict numbers them
        ({"path": ["x/img/007.png", "x/y/img/003.png", "z007.png"], "attribute": [*"abc"]}, [0, 1, -1, -1, -1, -1]),
        ({"path": ["x/img/007.png", "y/img/007.png", "img/003.png"], "attribute": [*"aba"]}, [-1, 0, -1, -1, -1, -1]),
    ],
)
def test_given_file_names_rows_by_path_line_or_row(columns: Any, expected: list[int], small_table, tmp_path) -> None:
    assert (
        train_estimator(Given(write_table(tmp_path / "a.csv", **columns)), small_table).row_attribute.tolist()
        == expected
    )


def test_given_reads_a_column_of_the_data_or_of_the_file(small_table, tmp_path) -> None:
    file = write_table(tmp_path / "a.csv", row=ROWS.tolist(), attribute="same", place=["a", "b"] * 3)
    assert train_estimator(Given(file, column="place"), small_table).row_attribute.tolist() == [0, 1] * 3
    values = np.array([f"scanner {i % 2}" if i % 5 else "" for i in range(88)])
    estimator = train_estimator(Given(column="scanner"), replace(small_table, columns={"scanner": values}))
    assert estimator.attribute_names == ["scanner 0", "scanner 1"]
    assert estimator.row_attribute.tolist() == [1, 1, -1, 1, -1, 0]
    assert estimator.describe() == "the column scanner of the data"
    numbers = np.where(np.arange(88) == 7, np.nan, np.arange(88) % 3 - 1)
    row_attribute = train_estimator(Given(column="n"), replace(small_table, columns={"n": numbers})).row_attribute
    assert row_attribute.tolist() == [-1, -1, -1, 1, 1, 0]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"file": ["x"], "attribute": ["a"]}, r"has no column row, line or path: name each row"),
        ({"row": [7, 3], "atribute": ["a", "b"]}, r"no column 'attribute' \(did you mean atribute\?\)"),
        ({"row": [7, 3, 7], "attribute": ["a", "b", "a"]}, "row '7' is empty or stands there twice"),
        ({"row": [70, 71], "attribute": ["a", "b"]}, r"gives no attribute to the rows .* such as '70'"),
        (
            {"row": [0, 7, 10**18], "attribute": [*"aba"]},
            "has row 1000000000000000000, .*: give the file of these data",
        ),
        ({"row": [7, 88], "attribute": ["a", "b"]}, "has row 88, but the rows of the data are 0 to 87: count from 0"),
        ({"line": [1, 2], "attribute": ["a", "b"]}, "has a row for line 1, but line 1 is the header"),
        (
            {"row": [80, 7, 11, 3], "attribute": [*"abab"], "label": ["x", "label 1", None, "label 1"]},
            "row '3' has label 'label 1', but 'label 0' in the data",
        ),
    ],
)
def test_given_file_with_an_error_is_refused_with_the_reason(columns: Any, words: str, small_table, tmp_path) -> None:
    with pytest.raises(InputError, match=words) as error:
        attach_estimator(Given(write_table(tmp_path / "mine.csv", **columns)), small_table)
    assert "mine.csv" in str(error.value)


@pytest.mark.parametrize(("method", "split"), [("LC", "train"), ("LastLayer", "valid")])
def test_report_lists_the_given_attribute_as_read(method: str, split: str, tmp_path: Path) -> None:
    rows = np.arange(150)
    labels = np.array(["circle", "square", "star"])[rows % 3]
    file = write_table(tmp_path / "a.csv", row=rows, label=labels, attribute=rows % 2)
    chosen = {"name": method, "attributes": {"name": "Given", "file": file}}
    run = train({"name": "my_parts.Points"}, method=chosen, epochs=1, selection="last", threads=1, page=False)
    labels_read = {"train": ["label"], "valid": ["label"], "test": ["label", "attribute"]}
    assert run.report.labels_read == labels_read | {split: ["label", "given attribute"]}


def test_class_probabilities_are_read_by_row(tmp_path) -> None:
    rows = TrainingRows(torch.tensor([0, 1, 1]), numbers=torch.tensor([4, 9, 6]))
    file = write_table(tmp_path / "a.csv", row=[9, 4], probability_x=[0.25, 1], probability_y=[0.75, 0])
    predictions = load_class_probabilities(file, rows, "xy", lambda label, unit: torch.arange(len(label)))
    assert (predictions.split, predictions.rows.tolist(), predictions.fold.tolist()) == ("train", [0, 1], [0, 1])
    assert predictions.network.tolist() == [[1, 0], [0.25, 0.75]]
    other = TrainingRows(rows.label, numbers=torch.tensor([50, 51, 52]), held_out=rows)
    assert load_class_probabilities(file, other, "xy", torch.arange).split == "valid"
    with pytest.raises(InputError, match="has no training or validation row"):
        load_class_probabilities(file, replace(other, held_out=None), "xy", torch.arange)
    for columns, words in (
        ({"p_x": [0.5]}, "has no column 'p_y'"),
        ({"p_x": [2.0], "p_y": [1.0]}, "do not add up to 1: give probabilities"),
        ({"p_x": ["a"], "p_y": [1.0]}, "must hold numbers"),
    ):
        with pytest.raises(InputError, match=words):
            load_class_probabilities(write_table(tmp_path / "b.csv", row=[9], **columns), rows, "xy", torch.arange)
