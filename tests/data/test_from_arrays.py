"""Arrays, data frames and datasets from Python become the data of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import from_arrays, from_table
from logit_correction.data.arrays import Arrays
from logit_correction.data.own import Table
from logit_correction.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


def two_clouds(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    label = np.arange(rows) % 2
    return np.random.default_rng(0).normal(size=(rows, 3)) + 4 * label[:, None], np.array(["low", "high"])[label]


def test_the_file_is_named_by_its_content(tmp_path: Path) -> None:
    X, y = two_clouds()
    assert from_arrays(X, y) == from_arrays(torch.tensor(X), list(y))
    assert len({str(from_arrays(*given).options["file"]) for given in ((X, y), (X + 1, y), (X, y[::-1]))}) == 3
    assert (
        len(Arrays(**from_arrays(X, y, folder=tmp_path / "mine", test_fraction=0.5).options).build().split["test"])
        == 30
    )


def test_attributes_and_splits(tmp_path: Path) -> None:
    X, y = two_clouds(30)
    split = ["train", "train", "train", "train", "valid", "test"] * 5
    table = Arrays(**from_arrays(X, y, attribute=np.arange(30) % 3 - 1, split=split).options).build().check()
    assert table.attribute.tolist() == [-1, 0, 1] * 10 and table.attribute_names == ["0", "1"]
    assert table.split["test"].tolist() == [5, 11, 17, 23, 29] and table.metadata["split"] == "given"
    named = Arrays(**from_arrays(X, y, attribute=[None, "b", "a"] * 10).options).build()
    assert named.attribute.tolist() == [-1, 1, 0] * 10
    numbers = Arrays(**from_arrays(X, np.arange(30) % 12 // 5).options).build()
    assert numbers.label_names == ["0", "1", "2"]


def test_rows_that_are_bad() -> None:
    X, y = two_clouds(20)
    X[3, 1], X[7, 0] = np.nan, np.inf
    y = y.astype(object)
    y[5] = None
    choice = from_arrays(X, y)
    with pytest.raises(
        InputError, match="3 rows are bad: row 3, row 7: its input holds NaN or infinity; row 5: has no label"
    ):
        Arrays(**choice.options).build()
    assert sum(map(len, Arrays(**choice.options, on_bad_rows="skip").build().check().split.values())) == 17


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.npz cannot be read .*call from_arrays again"):
        Arrays(str(tmp_path / "x.npz")).build()


def test_a_data_frame_whose_columns_are_numbered() -> None:
    frame = pd.DataFrame({0: np.arange(20.0), 1: np.arange(20.0) ** 2, 2: ["a", "b"] * 10})
    table = Table(**from_table(frame, label="2", features="*").options).build().check()
    assert table.label_names == ["a", "b"] and list(table.columns) == ["0", "1"]


class Names:
    """What Hugging Face calls a ClassLabel."""

    names = ("good", "bad")


class HubDataset:
    """Looks like a Hugging Face dataset, which tests cannot rely on."""

    def __init__(self, start: int, stop: int) -> None:
        self.features: dict[str, Any] = {"label": Names(), "text": object()}
        self.rows = range(start, stop)

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame({"text": [f"row {i}" for i in self.rows], "label": [i % 2 for i in self.rows]})


def test_datasets_of_the_hub() -> None:
    table = Table(**from_table(HubDataset(0, 20), label="label", text="text").options).build()
    assert table.label_names == ["bad", "good"] and table.label.tolist() == [1, 0] * 10
    splits = {"train": HubDataset(0, 20), "validation": HubDataset(20, 26), "test": HubDataset(26, 30)}
    whole = Table(**from_table(splits, label="label", text="text").options).build().check()
    assert {name: len(rows) for name, rows in whole.split.items()} == {"train": 20, "valid": 6, "test": 4}
    assert whole.metadata["split"] == "given"


def test_a_tensor_in_half_precision_is_taken(tmp_path: Path) -> None:
    values = torch.arange(12.0).view(6, 2).requires_grad_()
    made = [from_arrays(values.to(kind), [0, 1] * 3, folder=tmp_path) for kind in (torch.float32, torch.bfloat16)]
    assert made[0] == made[1]
