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
    """Forty rows in no order of the label, of which number 7 is bad in every form."""
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
def test_tables(kind: str, split_column: str | None, file: Path) -> None:
    options = {"text": "text", "path": "image", "features": ["age", "place"]}
    shared = {"split": split_column, "attribute": "writer", "on_bad_rows": "skip", "seed": 3}
    source = Table(str(file), "mood", **{kind: options[kind], **shared})  # type: ignore[arg-type]
    table = source.build().check()
    seen_rows = []
    for split in SPLITS:
        seen = table.view_inputs(split)
        rows = table.split[split].tolist()
        some = torch.tensor([seen.num_rows - 1, 0])
        assert torch.equal(seen.inputs(some), table.inputs.fetch(table.split[split][some]))
        assert seen.position is not None and seen.position.tolist() == rows
        seen_rows += rows
        assert BAD not in rows
        assert (seen.texts is not None) == (kind == "text")
        assert (seen.files is not None) == (kind == "path")
        assert set(seen.columns) == ({"age", "place"} if kind == "features" else set())
        if seen.texts is not None:
            assert list(seen.texts) == [f"text {i}" for i in rows]
        if seen.files is not None:
            assert list(seen.files) == [file.parent / f"{i}.png" for i in rows]
            assert seen.images(torch.arange(len(rows)))[:, 0, 0, 0].tolist() == rows
        if seen.columns:
            assert seen.columns["age"].dtype == np.float64 and seen.columns["age"].tolist() == [20.0 + i for i in rows]
            assert seen.columns["place"].tolist() == [("town", "sea")[i % 3 == 0] for i in rows]
    assert sorted(seen_rows) == [i for i in range(ROWS) if i != BAD]


def test_an_attribute_that_is_also_a_feature_is_not_looked_at(file: Path) -> None:
    table = Table(str(file), "mood", features=["age", "writer"], attribute="writer", on_bad_rows="skip").build()
    assert list(table.view_inputs("train").columns) == ["age"]
    assert table.inputs.input_shape == (3,)


def test_no_label_and_no_attribute_can_be_reached() -> None:
    """Everything that hangs on the inputs, closures and arguments too, is followed."""
    values = torch.randn(12, 2)
    label = torch.arange(12) % 2
    attribute = torch.arange(12) % 3
    split = {name: torch.arange(i, 12, 3) for i, name in enumerate(SPLITS)}
    table = DataTable(
        ArrayStore(values), label, attribute, split, ["x", "y"], ["a", "b", "c"], columns={"0": values.numpy()[:, 0]}
    )
    reached: list[object] = [table.view_inputs("train")]
    met: set[int] = set()
    while reached:
        thing = reached.pop()
        if id(thing) in met:
            continue
        met.add(id(thing))
        cells = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
        own = list(vars(thing).values()) if hasattr(thing, "__dict__") and not isinstance(thing, type) else []
        inside = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, tuple | list) else []
        given = [getattr(thing, name, None) for name in ("__self__", "func", "args", "keywords")]
        reached += [*cells, *own, *inside, *given]
    assert id(values) in met
    assert not {id(table), id(label), id(attribute)} & met
