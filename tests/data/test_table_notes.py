"""What is told of good rows: labels written in two ways, and test rows that training has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction.data.arrays import Arrays
from logit_correction.data.image_folder import ImageFolder
from logit_correction.data.rows import alike_names
from logit_correction.data.table_file import Table

#: Ten training rows, two of validation, four test rows: the first two of these hold what training rows 0 and 1 hold.
SPLIT = ["train"] * 10 + ["valid"] * 2 + ["test"] * 4
CONTENT = [*range(12), 0, 1, 12, 13]
LABEL = ["ab"[i % 2] for i in CONTENT]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["Cat", "cat", "dog"], "'Cat' and 'cat'"),
        (["dog", "dog ", "cat"], "'dog' and 'dog '"),
        (["red  deer", "red deer", "cat"], "'red  deer' and 'red deer'"),
        (["0", "1", "1.0"], "'1' and '1.0'"),
        (["7", "007"], "'7' and '007'"),
        (["ﬁsh", "fish", "Straße", "STRASSE"], "'ﬁsh' and 'fish'; 'Straße' and 'STRASSE'"),
    ],
)
def test_names_that_are_probably_one_are_told(names: list[str], alike: str) -> None:
    (note,) = alike_names("labels", names)
    assert f"labels that differ only in how they are written: {alike} are taken for different ones" in note


@pytest.mark.parametrize("names", [["0", "1", "10"], ["nan", "1"], ["cat", "cats"], ["non-toxic", "toxic"], []])
def test_names_that_differ_are_not_told(names: list[str]) -> None:
    assert alike_names("labels", names) == []


def test_labels_and_attributes_of_a_table_are_looked_at(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": range(40), "label": ["a", "A", "b", "c"] * 10, "who": ["m", "f", "F", "m"] * 10})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    table = Table(str(tmp_path / "rows.csv"), label="label", features="x", attribute="who").build()
    assert [note for note in table.notes if "'A' and 'a'" in note and note.startswith("labels")]
    assert [note for note in table.attribute_notes if "'F' and 'f'" in note]
    assert table.label_names == ["A", "a", "b", "c"]


def told(notes: tuple[str, ...]) -> list[str]:
    return [note.partition(":")[0] for note in notes if "as a training row" in note]


def table_of(folder: Path, label: list[str], **options: Any) -> tuple[str, ...]:
    frame = pd.DataFrame(
        {
            "number": range(len(CONTENT)),
            "text": [f"text {i}" for i in CONTENT],
            "age": [20 + i for i in CONTENT],
            "place": [f"place {i % 3}" for i in CONTENT],
            "label": label,
            "part": SPLIT,
        }
    )
    frame.to_csv(folder / "rows.csv", index=False)
    return Table(str(folder / "rows.csv"), label="label", split="part", **options).build().notes


@pytest.mark.parametrize(
    ("options", "what"), [({"text": "text"}, "text"), ({"features": ["age", "place"]}, "features")]
)
def test_copies_of_training_rows_under_another_number(tmp_path: Path, options: dict[str, Any], what: str) -> None:
    assert told(table_of(tmp_path, LABEL, **options)) == [f"2 of 4 test rows have the same {what} as a training row"]
    label = [*LABEL[:12], "b", *LABEL[13:]]
    assert told(table_of(tmp_path, label, **options)) == [
        f"2 of 4 test rows have the same {what} as a training row, 1 of them under another label only"
    ]


def test_rows_of_their_own_are_not_told(tmp_path: Path) -> None:
    assert told(table_of(tmp_path, LABEL, features=["number", "age"])) == []


def pictures(same_in_part: bool = False) -> np.ndarray:
    """An image a row; where they are the same in part, the copies differ from training in one pixel."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (14, 3, 16, 16), dtype=np.uint8)[CONTENT]
    if same_in_part:
        images[12:14, 1, 7, 7] ^= 1
    return images


@pytest.mark.parametrize("in_part", [False, True])
def test_copies_of_training_images(tmp_path: Path, in_part: bool) -> None:
    for row, image in enumerate(pictures(in_part)):
        file = tmp_path / "images" / SPLIT[row] / LABEL[row] / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(file)
    expected = [] if in_part else ["2 of 4 test rows have the same image as a training row"]
    assert told(ImageFolder(str(tmp_path / "images"), size=16).build().notes) == expected
    streamed = ImageFolder(str(tmp_path / "images"), size=16, memory_limit=0).build()
    assert told(streamed.notes) == [] and len(streamed.split["test"]) == 4


@pytest.mark.parametrize("inputs", [pictures(), pictures().reshape(16, -1)[:, :5].astype(np.float32)])
def test_copies_among_arrays(tmp_path: Path, inputs: np.ndarray) -> None:
    from logit_correction import from_arrays

    given = from_arrays(inputs, LABEL, split=SPLIT, folder=tmp_path)
    what = "image" if inputs.ndim == 4 else "features"
    table = Arrays(**given.options).build()
    assert told(table.notes) == [f"2 of 4 test rows have the same {what} as a training row"]
    assert torch.equal(table.label[:2], torch.tensor([0, 1]))
