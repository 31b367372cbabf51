"""Arrays, data frames and datasets from Python become the data of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from logit_correction import InputError, from_arrays, from_table
from logit_correction.data.arrays import Arrays
from logit_correction.runs.options import checked


def two_clouds(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    label = np.arange(rows) % 2
    return np.random.default_rng(0).normal(size=(rows, 3)) + 4 * label[:, None], np.array(["low", "high"])[label]


def test_the_file_is_named_by_its_content(tmp_path: Path) -> None:
    X, y = two_clouds()
    assert from_arrays(X, y) == from_arrays(torch.tensor(X), list(y))
    assert len({str(from_arrays(*given).options["file"]) for given in ((X, y), (X + 1, y), (X, y[::-1]))}) == 3
    mine = Arrays(**from_arrays(X, y, folder=tmp_path / "mine", test_fraction=0.5).options)
    assert len(mine.build().split["test"]) == 30
    every = torch.arange(60)  # times in seconds keep their digits
    near, late = (Arrays(**from_arrays(X + add, y).options).build().inputs.fetch(every) for add in (0, 1.7e9))
    torch.testing.assert_close(near, late, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "spoil", [lambda kept: kept[:-9], lambda kept: b"", lambda kept: kept[:99] + b"\xff" + kept[100:]]
)
def test_a_file_that_was_changed_is_refused_and_made_again(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    X, y = two_clouds()
    columns = {"a": X[:, 0], "b": y}
    makes = (lambda: from_arrays(X, y, folder=tmp_path), lambda: from_table(columns, label="b", folder=tmp_path))
    for make in makes:
        chosen = make()
        file = Path(chosen.options["file"])
        whole = file.read_bytes()
        file.write_bytes(spoil(whole))
        with pytest.raises(InputError, match=r"has been changed .*call from_(arrays|table) again"):
            checked("data", chosen).make().build()
        assert make() == chosen and file.read_bytes() == whole
        checked("data", chosen).make().build()


def test_attributes_and_splits(tmp_path: Path) -> None:
    X, y = two_clouds(30)
    split = ["train", "train", "train", "train", "valid", "test"] * 5
    table = Arrays(**from_arrays(X, y, attribute=np.arange(30) % 3 - 1.0, split=split).options).build().check()
    assert table.attribute.tolist() == [-1, 0, 1] * 10 and table.attribute_names == ["0", "1"]
    assert table.split["test"].tolist() == [5, 11, 17, 23, 29] and table.metadata["split"] == "given"
    named = Arrays(**from_arrays(X, y, attribute=[None, "b", "a"] * 10).options).build()
    assert named.attribute.tolist() == [-1, 1, 0] * 10
    numbers = Arrays(**from_arrays(X, np.arange(30) % 12 // 5).options).build()
    assert numbers.label_names == ["0", "1", "2"]
