"""What new rows are, decided in one place, and that they are read as those of training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction.data.new_rows import convert_to_rows
from logit_correction.data.own import ImageFolder, Table
from logit_correction.data.rows import Rows
from logit_correction.data.source import DataSource
from logit_correction.errors import InputError

LABEL = np.arange(40) % 2
FRAME = pd.DataFrame(
    {
        "age": np.arange(40) / 7,
        "day": [f"2024-05-{1 + i % 28:02}" for i in range(40)],
        "place": ["lawn", "sofa", "roof", ""] * 10,
        "text": [f"word{i} and some" for i in range(40)],
        "y": np.array(["no", "yes"])[LABEL],
    }
)


class ConvertibleSplit:
    """What becomes a data frame, as datasets of Hugging Face do."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def to_pandas(self) -> pd.DataFrame:
        return self.frame


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (FRAME, "frame"),
        (FRAME.to_dict("list"), "frame"),
        (FRAME.to_dict("records"), "frame"),
        (ConvertibleSplit(FRAME), "frame"),
        (FRAME["text"].tolist(), "texts"),
        (FRAME["text"].to_numpy(), "texts"),
        (np.zeros((40, 2)), "values"),
        (torch.zeros(40, 2), "values"),
        ([[0, 1]] * 40, "values"),
        ([np.zeros(2)] * 40, "values"),
        ([Path(f"{i}.png") for i in range(40)], "files"),
    ],
)
def test_convert_to_rows_recognizes_each_form_of_rows(data: Any, form: str) -> None:
    (rows,) = convert_to_rows(data, texts=True)
    forms = [name for name in ("frame", "texts", "values", "files") if getattr(rows, name) is not None]
    assert forms == [form] and len(rows) == 40
    assert sum(len(part) for part in rows.iterate_parts(7)) == 40


def write_source(file: Path, **options: Any) -> Table:
    FRAME.to_csv(file, index=False)
    return Table(str(file), "y", **options)


def read_with_loaded_state(source: DataSource, data: Any) -> tuple[Rows, dict[str, Any]]:
    """Read rows by a new source with the state that the first one fitted, as a run does."""
    built = source.build()
    source.reader.load_state(built.preparation)
    ((rows, store, forms),) = source.read(source.new_rows(data), built.info)
    every = torch.arange(len(built.label))
    torch.testing.assert_close(store.fetch(every), built.inputs.fetch(every))
    return rows, forms


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"features": ["age", "day", "place"]}, pd.DataFrame),
        ({"features": ["age", "day", "place"]}, lambda frame: frame.to_dict("records")),
        ({"text": "text"}, lambda frame: frame.to_dict("list")),
    ],
)
def test_training_rows_read_as_new_rows_give_the_same_inputs(
    options: dict[str, Any], form: Callable[[pd.DataFrame], Any], tmp_path: Path
) -> None:
    source = write_source(tmp_path / "t.csv", **options)
    of_file, _ = read_with_loaded_state(source, tmp_path / "t.csv")
    assert of_file.names == [f"line {row}" for row in range(2, 42)]
    new, forms = read_with_loaded_state(source, form(FRAME.drop(columns="y")))
    assert new.names[0] == "row 0" and forms.keys() == ({"texts"} if "text" in options else {"columns"})


def test_new_rows_with_errors_are_noted_or_refused(tmp_path: Path) -> None:
    source = write_source(tmp_path / "t.csv", features=["age", "day"])
    built = source.build()
    new = FRAME.astype(object)
    new.loc[1, "age"] = "old"
    new.loc[2, "day"] = "soon"
    new.loc[3, "age"] = 1e300
    (rows,) = source.new_rows(new)
    ((part, store, _),) = source.read([rows], built.info, keep_bad=True)
    assert sorted(part.errors.by_row) == [1, 2, 3] and torch.isfinite(store.fetch(torch.arange(40))).all()
    assert "column 'day' holds 'soon', which is not a date" in str(part.errors)
    with pytest.raises(InputError, match="3 rows are bad: row 1: column 'age' holds 'old'"):
        list(source.read(source.new_rows(new), built.info))
    with pytest.raises(InputError, match="no column 'day'"):
        list(source.read(source.new_rows(FRAME[["age"]]), built.info))
    with pytest.raises(InputError, match="or a number for each"):
        list(source.read(source.new_rows(np.zeros((3, 3))), built.info))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    for i in range(24):
        file = tmp_path / "photos" / ("cat", "dog")[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (9, 8, 3), dtype=np.uint8)).save(file)
    return tmp_path / "photos"


def test_new_images_are_read_from_files_folders_and_tables(photos: Path) -> None:
    source = ImageFolder(str(photos), size=6)
    built = source.build()
    assert built.files is not None
    expected = built.inputs.fetch(torch.arange(24))
    frame = pd.DataFrame({"file": [str(path.relative_to(photos)) for path in built.files]})
    frame.to_csv(photos / "list.csv", index=False)
    for data in (list(built.files), photos / "list.csv", [photos / "cat", photos / "dog"]):
        ((_, store, forms),) = source.read(source.new_rows(data), built.info)
        torch.testing.assert_close(store.fetch(torch.arange(24)), expected)
        assert forms["files"] == built.files
    images = built.inputs.images(torch.arange(24))
    assert images is not None
    with pytest.raises(InputError, match="unsigned bytes or floats"):
        list(source.read(source.new_rows(images.int()), built.info))
    with pytest.raises(InputError, match="inputs have shape"):
        list(source.read(source.new_rows(images[..., :4]), built.info))
    with pytest.raises(InputError, match="this model takes images"):
        source.reader.transform(next(convert_to_rows(["a", "b"], texts=True)))
    with pytest.raises(InputError, match="lies outside"):
        frame.assign(file="../t.csv").to_csv(photos / "list.csv", index=False)
        list(source.read(source.new_rows(photos / "list.csv"), built.info))


def test_labelled_folder_gives_labels_and_folder_of_splits_is_refused(photos: Path) -> None:
    source = ImageFolder(str(photos), size=6)
    (rows,) = source.new_rows(photos, labelled=True)
    assert rows.label == ["cat"] * 12 + ["dog"] * 12
    photos.rename(photos.with_name("test"))
    (photos.parent / "train" / "cat").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds folders of splits: give one, such as .*test"):
        list(source.new_rows(photos.parent, labelled=True))
