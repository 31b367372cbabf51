"""Attributes from a file or a column: which row is whose, what is unknown, and what is wrong with a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import Given
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness

from .conftest import all_rows, attached, prepared

#: Training rows of the whole data set, in an order of their own.
ROWS = torch.tensor([7, 3, 60, 11, 20, 4])


@pytest.fixture
def small(table: DataTable) -> DataTable:
    """Six training rows, named by the order in which files would stand."""
    return replace(table, split={**table.split, "train": ROWS}, row_names=[f"img/{i:03}.png" for i in range(88)])


def written(path: Path, /, **columns: Any) -> str:
    frame = pd.DataFrame(columns)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_are_named_by_their_number_in_the_whole_data_set(suffix: str, small, tmp_path) -> None:
    file = written(tmp_path / f"a.{suffix}", row=[3, 99, 7, 60, 20, 4], attribute=["b", "zz", "a", "b", None, "c"])
    estimator = prepared(Given(file), small)
    assert estimator.attribute_names == ["a", "b", "c", "zz"]
    # Row 11 is not in the file, and row 20 has an empty cell.
    assert estimator.row_attribute.tolist() == [0, 1, 1, -1, -1, 2]
    assert estimator.settled and not estimator.needs_attributes and estimator.num_attributes == 4
    assert estimator.warnings() == [f"2 of 6 training rows have no attribute in {file}: not corrected"]
    assert estimator.describe() == f"the file a.{suffix}"


def test_rows_are_named_by_their_path(small, tmp_path) -> None:
    names = [f"img/{int(row):03}.png" for row in ROWS.flip(0)]
    file = written(tmp_path / "a.csv", path=names, attribute=["c", "b", "a", "a", "b", "c"])
    estimator = prepared(Given(file), small)
    assert estimator.row_attribute.tolist() == [2, 1, 0, 0, 1, 2] and estimator.warnings() == []


def test_rows_are_named_as_predict_names_them(small, tmp_path) -> None:
    lines = written(tmp_path / "lines.csv", line=[9, 5, 62], attribute=["a", "b", "c"])
    assert prepared(Given(lines), small).row_attribute.tolist() == [0, 1, 2, -1, -1, -1]
    names = ["x/img/007.png", "x/y/img/003.png", "z007.png"]
    paths = written(tmp_path / "paths.csv", path=names, attribute=["a", "b", "c"])
    assert prepared(Given(paths), small).row_attribute.tolist() == [0, 1, -1, -1, -1, -1]
    first = written(tmp_path / "first.csv", line=[1, 2], attribute=["a", "b"])
    with pytest.raises(InputError, match=r"first\.csv tells of line 1, but line 1 is the header"):
        attached(Given(first), small)
    unclear = written(tmp_path / "unclear.csv", path=["x/img/007.png", "y/img/007.png"], attribute=["a", "b"])
    with pytest.raises(InputError, match=r"unclear\.csv: more than one path ends with img/007\.png"):
        attached(Given(unclear), small)


def test_of_posteriors_the_greatest_counts(small, tmp_path) -> None:
    file = written(
        tmp_path / "a.csv",
        row=ROWS.tolist(),
        p_sea=[0.9, 0.2, 0.5, None, 0.1, "?"],
        p_land=[0.1, 0.7, 0.4, 0.8, 0.2, 0.3],
        p_air=[0.0, 0.1, 0.1, 0.2, 0.7, 0.7],
        note="x",
    )
    estimator = prepared(Given(file), small)
    assert estimator.attribute_names == ["air", "land", "sea"]
    assert estimator.row_attribute.tolist() == [2, 1, 2, -1, 0, -1]


def test_a_column_beside_a_file_is_its_column_of_names(small, tmp_path) -> None:
    file = written(tmp_path / "a.csv", row=ROWS.tolist(), attribute="same", place=["a", "b"] * 3)
    assert prepared(Given(file, column="place"), small).row_attribute.tolist() == [0, 1] * 3


def test_a_column_of_the_data(small) -> None:
    values = np.array([f"scanner {i % 2}" if i % 5 else "" for i in range(88)])
    estimator = prepared(Given(column="scanner"), replace(small, columns={"scanner": values}))
    assert estimator.attribute_names == ["scanner 0", "scanner 1"]
    assert estimator.row_attribute.tolist() == [1, 1, -1, 1, -1, 0]
    assert estimator.describe() == "the column scanner of the data"
    assert estimator.warnings() == ["2 of 6 training rows have no attribute in column scanner: not corrected"]
    numbers = np.where(np.arange(88) == 7, np.nan, np.arange(88) % 3)
    assert prepared(Given(column="n"), replace(small, columns={"n": numbers})).row_attribute.tolist() == [
        -1,
        0,
        0,
        2,
        2,
        1,
    ]


def test_a_labels_majority_is_its_commonest_value(small, tmp_path) -> None:
    # Labels of the rows 7, 3, 60, 11, 20, 4 are 1, 0, 0, 2, 2, 1.
    file = written(tmp_path / "a.csv", row=ROWS.tolist(), attribute=["x", "y", "y", "x", "x", None])
    estimator = prepared(Given(file), small)
    assert estimator.correlation.to_table() == [[1], [0], [0]]
    assert estimator.group_counts().tolist() == [[0, 2], [1, 0], [2, 0]]


def test_what_is_given_is_looked_up(small, tmp_path) -> None:
    file = written(tmp_path / "a.csv", row=[7, 60], attribute=["a", "b"])
    estimator = prepared(Given(file), small)
    found = estimator(all_rows(small), 0.0, StepRandomness(0))
    assert found.attribute.tolist() == [0, -1, 1, -1, -1, -1] and found.loss is None
    assert estimator.diagnose(all_rows(small))["minority"].tolist() == [False] * 6


COLUMNS: dict[str, Any] = {"row": [7, 3], "attribute": ["a", "b"]}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"file": ["x"], "attribute": ["a"]}, r"has no column row, line or path: name each row"),
        (
            {"row": [7, 3], "atribute": ["a", "b"]},
            r"no column 'attribute' \(did you mean atribute\?\), and no columns p_",
        ),
        ({"row": [7, 3, 7], "attribute": ["a", "b", "a"]}, "row 7 stands there more than once"),
        ({"path": ["x", "y", "y"], "attribute": "a"}, "path y stands there more than once"),
        ({"row": [7, 3], "attribute": [None, None]}, "gives no row an attribute"),
        ({"row": [7, 3], "p_a": [0.5, 1.5], "p_b": [0.5, 0.5]}, "posteriors must lie in 0..1"),
        ({"row": [7, 3], "p_a": [None, None]}, "gives no row an attribute"),
        ({"row": [1000, 1001], "attribute": ["a", "b"]}, r"tells of no training row.*such as '1000'.*such as '7'"),
        ({"path": ["a.png"], "attribute": ["a"]}, r"tells of no training row.*'a\.png'.*'img/007\.png'"),
        ({"row": [7, "x"], "attribute": ["a", "b"]}, "row 'x' is no whole number: number the rows so, or give path"),
        ({"line": ["7.0", "8.0"], "attribute": ["a", "b"]}, r"line '7\.0' is no whole number"),
    ],
)
def test_a_bad_file_is_refused_with_what_is_wrong(columns: Any, words: str, small, tmp_path) -> None:
    file = written(tmp_path / "mine.csv", **columns)
    with pytest.raises(InputError, match=words) as error:
        attached(Given(file), small)
    assert "mine.csv" in str(error.value)


def test_a_file_that_is_not_there_or_no_table_is_refused(small, tmp_path) -> None:
    with pytest.raises(InputError, match=r"missing\.csv"):
        attached(Given(str(tmp_path / "missing.csv")), small)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match=r"empty\.csv"):
        attached(Given(str(tmp_path / "empty.csv")), small)
    with pytest.raises(InputError, match="Given needs a file, or a column of the data"):
        Given()
    with pytest.raises(InputError, match=r"has no column 'plce' \(did you mean place\?\)"):
        attached(Given(written(tmp_path / "a.csv", row=[7], place=["a"], p_a=[1]), column="plce"), small)


def test_paths_need_rows_that_have_names(small, tmp_path) -> None:
    file = written(tmp_path / "a.csv", path=["img/007.png"], attribute=["a"])
    with pytest.raises(InputError, match="names rows by path, but the rows of these data have no names: give row"):
        attached(Given(file), replace(small, row_names=None))


def test_a_column_that_cannot_be_an_attribute_is_refused(small) -> None:
    columns = {"scanner": np.array(["a"] * 88), "id": np.arange(88)}
    with pytest.raises(
        InputError, match=r"no feature column 'scaner' \(did you mean scanner\?\): name one, or give a file"
    ):
        attached(Given(column="scaner"), replace(small, columns=columns))
    with pytest.raises(InputError, match=r"column 'scanner' has 1 different values: name one of 2 to 100"):
        attached(Given(column="scanner"), replace(small, columns=columns))
    many = replace(small, columns=columns, split={**small.split, "train": torch.arange(48)})
    assert attached(Given(column="id"), many).num_attributes == 48
    wide = {"id": np.arange(200)}
    table = replace(
        many,
        columns=wide,
        label=torch.arange(200) % 3,
        attribute=torch.arange(200) % 3,
        row_names=None,
        split={name: torch.arange(200) for name in many.split},
    )
    with pytest.raises(InputError, match="column 'id' has 200 different values"):
        attached(Given(column="id"), table)


def test_a_model_is_loaded_without_the_file_that_it_was_trained_with(table, tmp_path) -> None:
    def network() -> MLP:
        return MLP(table.info)

    gone = Given(str(tmp_path / "gone.csv"))
    with without_pretrained_weights():
        gone.attach(ERM(network, table.info).build, network, table.info, 0)
    assert gone.num_attributes == 1
