"""Arrays, data frames and datasets from Python become the data of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from scipy.sparse import csr_matrix

from logit_correction import InputError, from_arrays, from_table, train
from logit_correction.data.own import Arrays, Table
from logit_correction.runs.options import complete_config

SHORT = {"method": "ERM", "device": "cpu", "epochs": 1}


def draw_two_clouds(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    label = np.arange(rows) % 2
    return np.random.default_rng(0).normal(size=(rows, 3)) + 4 * label[:, None], np.array(["low", "high"])[label]


def test_from_arrays_names_the_file_by_its_content(tmp_path: Path) -> None:
    X, y = draw_two_clouds()
    assert from_arrays(X, y) == from_arrays(torch.tensor(X), list(y))
    assert len({str(from_arrays(*arrays).options["file"]) for arrays in ((X, y), (X + 1, y), (X, y[::-1]))}) == 3
    mine = Arrays(**from_arrays(X, y, folder=tmp_path / "mine", test_fraction=0.5).options)
    assert len(mine.build().split["test"]) == 30
    every = torch.arange(60)  # times in seconds keep their digits
    features, shifted_features = (
        Arrays(**from_arrays(X + add, y).options).build().inputs.fetch(every) for add in (0, 1.7e9)
    )
    torch.testing.assert_close(features, shifted_features, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "spoil", [lambda content: content[:-9], lambda content: b"", lambda content: content[:99] + b"\xff" + content[100:]]
)
def test_changed_cache_file_is_refused_and_written_again(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    X, y = draw_two_clouds()
    columns = {"a": X[:, 0], "b": y}
    makes = (lambda: from_arrays(X, y, folder=tmp_path), lambda: from_table(columns, label="b", folder=tmp_path))
    for make in makes:
        source_config = make()
        file = Path(source_config.options["file"])
        original = file.read_bytes()
        file.write_bytes(spoil(original))
        with pytest.raises(InputError, match=r"has been changed .*call from_(arrays|table) again"):
            complete_config({"data": source_config}).data.make().build()
        assert make() == source_config and file.read_bytes() == original
        complete_config({"data": source_config}).data.make().build()


def test_removed_cache_file_is_named_with_what_writes_it_again(tmp_path: Path) -> None:
    X, y = draw_two_clouds()
    columns = {"a": X[:, 0], "b": y}
    makes = (lambda: from_arrays(X, y, folder=tmp_path), lambda: from_table(columns, label="b", folder=tmp_path))
    for make in makes:
        source_config = make()
        Path(source_config.options["file"]).unlink()
        with pytest.raises(InputError, match=r"is gone: call from_(arrays|table) again with the same rows"):
            complete_config({"data": source_config}).data.make().build()
        assert make() == source_config
        complete_config({"data": source_config}).data.make().build()


def test_from_arrays_reads_attributes_and_splits(tmp_path: Path) -> None:
    X, y = draw_two_clouds(30)
    split = ["train", "train", "train", "train", "valid", "test"] * 5
    table = Arrays(**from_arrays(X, y, attribute=np.arange(30) % 3 - 1.0, split=split).options).build().check()
    assert table.attribute.tolist() == [-1, 0, 1] * 10 and table.attribute_names == ["0", "1"]
    assert table.split["test"].tolist() == [5, 11, 17, 23, 29] and table.metadata["split"] == "given"
    table_with_names = Arrays(**from_arrays(X, y, attribute=[None, "b", "a"] * 10).options).build()
    assert table_with_names.attribute.tolist() == [-1, 1, 0] * 10
    numbers = Arrays(**from_arrays(X, np.arange(30) % 12 // 5).options).build()
    assert numbers.label_names == ["0", "1", "2"]


COLUMN_MAKERS = {
    "dates of Arrow": lambda i: pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(i, unit="D")).astype(DAY),
    "dictionary of Arrow": lambda i: pd.Series([f"site {value % 3}" for value in i]).astype(SITES),
    "numbers and texts": lambda i: [int(value) if value % 2 else "none of it" for value in i],
    "intervals": lambda i: pd.cut(i, [-1, 20, 40, 60]),
    "sparse": lambda i: pd.arrays.SparseArray((i % 3).astype(float)),
    "months": lambda i: pd.PeriodIndex(pd.Timestamp("2020-01-15") + pd.to_timedelta(31 * i, unit="D"), freq="M"),
}
DAY = pd.ArrowDtype(pyarrow.date32())
SITES = pd.ArrowDtype(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))


@pytest.mark.parametrize("kind", COLUMN_MAKERS)
def test_columns_of_any_type_are_read_as_in_new_rows(kind: str, tmp_path: Path) -> None:
    i = np.arange(60)
    frame = pd.DataFrame({"c": COLUMN_MAKERS[kind](i), "x": i % 7, "y": ["a", "b"] * 30})
    run = train(from_table(frame, label="y", folder=tmp_path), **SHORT)
    assert [column_info["name"] for column_info in run.report.data.preparation["columns"]] == ["c", "x"]
    if kind in ("dates of Arrow", "months"):
        assert run.report.data.preparation["columns"][0]["kind"] == "dates"
    training_table = Table(str(next(tmp_path.glob("*.parquet"))), label="y").build()
    forms = next(iter(run.model.read(run.source.new_rows(frame))))[2]
    for column in (training_table.columns["c"], forms["columns"]["c"]):
        assert len(set(column)) == frame["c"].astype(str).nunique()
    if "Arrow" in kind:
        frame.to_parquet(tmp_path / "own.parquet", index=False)
        np.testing.assert_equal(Table(str(tmp_path / "own.parquet"), label="y").build().columns, training_table.columns)


def test_named_index_is_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"site": ["u", "v"] * 30, "x": np.arange(60) % 7, "y": ["a", "b"] * 30})
    frame_with_named_index = frame.set_index("site")
    frame_with_numbered_index = frame.set_index(np.arange(60) * 2)
    frame_with_named_index.to_parquet(tmp_path / "named.parquet")
    frame_with_numbered_index.to_parquet(tmp_path / "numbered.parquet")
    for rows in ("named", "numbered"):
        table = Table(str(tmp_path / f"{rows}.parquet"), label="y").build()
        assert {*table.columns} == {"site", "x"}
    run = train(from_table(frame_with_named_index, label="y", folder=tmp_path), **SHORT)
    np.testing.assert_array_equal(run.predict_proba(frame_with_named_index), run.predict_proba(frame))


def test_sparse_matrix_is_read_as_an_array(tmp_path: Path) -> None:
    dense = np.eye(6)[np.arange(60) % 6]
    sparse = train(from_arrays(csr_matrix(dense), np.arange(60) % 2, folder=tmp_path), **SHORT)
    np.testing.assert_array_equal(sparse.predict_proba(csr_matrix(dense)), sparse.predict_proba(dense))
