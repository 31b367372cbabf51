"""What views are given to look at: the rows of a split in every form, and nothing that tells label or attribute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction.data.own import Table
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable

ROWS = 40
BAD = 7
SPLITS = ("train", "valid", "test")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Forty rows in no order of the label, where number 7 is bad in every column."""
    frame = pd.DataFrame(
        {
            "text": [f"  text {i}" for i in range(ROWS)],
            "image": [f"{i}.png" for i in range(ROWS)],
            "age": [str(20 + i) for i in range(ROWS)],
            "place": [("town", "sea")[i % 3 == 0] for i in range(ROWS)],
            "mood": ["glad" if i % 2 else "sad" for i in range(ROWS)],
            "writer": [("a", "b")[i % 5 == 0] for i in range(ROWS)],
            "part": [("train", "train", "train", "dev", "test")[i // 2 % 5] for i in range(ROWS)],
        }
    )
    frame.loc[BAD, ["text", "image", "age"]] = ["", "", "old"]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for i in range(ROWS):
        Image.new("RGB", (4, 4), (i, i, i)).save(tmp_path / f"{i}.png")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(("kind", "split_column"), [("text", None), ("path", "part"), ("features", None)])
def test_view_inputs_hold_the_rows_of_a_split(kind: str, split_column: str | None, file: Path) -> None:
    options = {"text": "text", "path": "image", "features": ["age", "place"]}
    shared = {"split": split_column, "attribute": "writer", "on_bad_rows": "skip", "seed": 3}
    source = Table(str(file), "mood", **{kind: options[kind], **shared})  # type: ignore[arg-type]
    table = source.build().check()
    seen_rows = []
    for split in SPLITS:
        view_inputs = table.view_inputs(split)
        rows = table.split[split].tolist()
        ends = torch.tensor([view_inputs.num_rows - 1, 0])
        assert torch.equal(view_inputs.inputs(ends), table.inputs.fetch(table.split[split][ends]))
        assert view_inputs.position is not None and view_inputs.position.tolist() == rows
        seen_rows += rows
        assert BAD not in rows
        assert (view_inputs.texts is not None) == (kind == "text")
        assert (view_inputs.files is not None) == (kind == "path")
        assert set(view_inputs.columns) == ({"age", "place"} if kind == "features" else set())
        if view_inputs.texts is not None:
            assert list(view_inputs.texts) == [f"text {i}" for i in rows]
        if view_inputs.files is not None:
            assert list(view_inputs.files) == [file.parent / f"{i}.png" for i in rows]
            assert view_inputs.images(torch.arange(len(rows)))[:, 0, 0, 0].tolist() == rows
        if view_inputs.columns:
            assert view_inputs.columns["age"].dtype == np.float64 and view_inputs.columns["age"].tolist() == [
                20.0 + i for i in rows
            ]
            assert view_inputs.columns["place"].tolist() == [("town", "sea")[i % 3 == 0] for i in rows]
    assert sorted(seen_rows) == [i for i in range(ROWS) if i != BAD]


def test_view_inputs_leave_out_the_attribute_column(file: Path) -> None:
    table = Table(str(file), "mood", features=["age", "writer"], attribute="writer", on_bad_rows="skip").build()
    assert list(table.view_inputs("train").columns) == ["age"]
    assert table.inputs.input_shape == (3,)


def test_view_inputs_reach_no_label_and_no_attribute() -> None:
    """Everything that hangs on the inputs, closures and arguments too, is followed."""
    values = torch.randn(12, 2)
    label = torch.arange(12) % 2
    attribute = torch.arange(12) % 3
    split = {name: torch.arange(i, 12, 3) for i, name in enumerate(SPLITS)}
    table = DataTable(
        ArrayStore(values), label, attribute, split, ["x", "y"], ["a", "b", "c"], columns={"0": values.numpy()[:, 0]}
    )
    pending: list[object] = [table.view_inputs("train")]
    visited: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        instance_values = (
            list(vars(value).values()) if hasattr(value, "__dict__") and not isinstance(value, type) else []
        )
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else []
        call_values = [getattr(value, name, None) for name in ("__self__", "func", "args", "keywords")]
        pending += [*cells, *instance_values, *inside, *call_values]
    assert id(values) in visited
    assert not {id(table), id(label), id(attribute)} & visited
