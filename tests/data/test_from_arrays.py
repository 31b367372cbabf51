"""Arrays, data frames and datasets from Python become the data of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, from_arrays, from_table, load, train
from logit_correction.data.arrays import Arrays
from logit_correction.data.table_file import Table
from logit_correction.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))


def two_clouds(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    label = np.arange(rows) % 2
    return np.random.default_rng(0).normal(size=(rows, 3)) + 4 * label[:, None], np.array(["low", "high"])[label]


def test_two_lines_train_and_the_run_predicts(tmp_path: Path) -> None:
    X, y = two_clouds()
    data = from_arrays(X, y)
    training = TrainingConfig(epochs=12, batch_size=8, threads=1)
    train(RunConfig(data=data, method=ComponentConfig("LC"), training=training), tmp_path / "run")
    model = load(tmp_path / "run")
    assert np.mean(model.predict(X.astype(np.float32)) == y) > 0.9
    assert model.evaluate("test")["groups"] == model.report["test"]["groups"]
    assert model.report["data"]["facts"]["split"].startswith("drawn label by label")


def test_the_file_is_named_by_its_content(tmp_path: Path) -> None:
    X, y = two_clouds()
    assert from_arrays(X, y) == from_arrays(torch.tensor(X), list(y))
    names = {str(from_arrays(*given).options["file"]) for given in ((X, y), (X + 1, y), (X, y[::-1]))}
    assert len(names) == 3 and all(name.startswith(str(tmp_path / "cache" / "arrays")) for name in names)
    other = from_arrays(X, y, folder=tmp_path / "mine", test_fraction=0.5)
    assert Path(other.options["file"]).parent == tmp_path / "mine" and other.options["test_fraction"] == 0.5
    assert len(Arrays(**other.options).build().split["test"]) == 30


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


def test_images_with_channels_last_are_the_same_data() -> None:
    images = np.random.default_rng(0).integers(0, 255, (24, 3, 6, 4)).astype(np.uint8)
    label = np.arange(24) % 2
    first = from_arrays(images, label)
    assert from_arrays(images.transpose(0, 2, 3, 1), label) == first
    assert from_arrays(images.transpose(0, 2, 3, 1), label, channels="last") == first
    both = images[..., :3]
    with pytest.raises(InputError, match='give channels="first" or channels="last"'):
        from_arrays(both, label)
    assert Arrays(**from_arrays(both, label, channels="first").options).build().inputs.input_shape == (3, 6, 3)
    assert Arrays(**from_arrays(both, label, channels="last").options).build().inputs.input_shape == (3, 3, 6)
    with pytest.raises(InputError, match="with 1 or 3 channels last"):
        from_arrays(images, label, channels="last")


def test_images_are_bytes_or_lie_between_0_and_1() -> None:
    images = np.random.default_rng(0).integers(0, 255, (24, 3, 6, 4))
    label = np.arange(24) % 2
    with pytest.raises(InputError, match="images are of type int64, but must be unsigned bytes or floats"):
        from_arrays(images, label)
    broken = images.astype(np.float32)
    broken[0, 0, 0, 0] = np.nan
    for scaled in (images.astype(np.float32), broken):
        with pytest.raises(InputError, match=r"images lie between 0 and 254, but must be"):
            from_arrays(scaled, label)
    assert from_arrays(images / 255, label) == from_arrays((images / 255).astype(np.float32), label)


def test_images(tmp_path: Path) -> None:
    images = np.zeros((24, 3, 6, 4), np.uint8)
    images[1::2] = 200
    source = Arrays(**from_arrays(images, np.arange(24) % 2).options, augment="crop-flip")
    table = source.build().check()
    assert table.inputs.input_shape == (3, 6, 4) and table.augment is not None
    assert torch.equal(table.inputs.images(torch.arange(24)), torch.from_numpy(images))
    Image.new("RGB", (40, 60), (200, 200, 200)).save(tmp_path / "new.png")
    fresh = Arrays(**from_arrays(images, np.arange(24) % 2).options)
    assert torch.equal(
        fresh.read_new([tmp_path / "new.png"]).fetch(torch.tensor([0])), table.inputs.fetch(torch.tensor([1]))
    )
    with pytest.raises(InputError, match="not image files"):
        Arrays(**from_arrays(*two_clouds()).options).read_new([tmp_path / "new.png"])


@pytest.mark.parametrize(
    ("inputs", "label", "message"),
    [
        ([[1, 2], [3]], [0, 1], "the rows are of different lengths or shapes"),
        (np.zeros((4, 3)), np.zeros(3), r"label has shape \(3,\), but must be \(4,\)"),
        (np.zeros(4), np.zeros(4), "inputs have shape"),
        (np.zeros((4, 8, 8, 4)), np.zeros(4), "with 1 or 3 channels"),
        (np.array([["a"], ["b"]]), np.zeros(2), "must be numbers"),
        (np.zeros((0, 3)), np.zeros(0), "inputs have shape"),
    ],
)
def test_arrays_that_do_not_fit(inputs: np.ndarray, label: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(inputs, label)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_split_of_no_rows_is_told_with_its_option(split: str) -> None:
    choice = from_arrays(*two_clouds(20), **{f"{split}_fraction": 0.0})
    with pytest.raises(InputError, match=rf"the {split} split has no rows: .* a {split}_fraction above 0"):
        Arrays(**choice.options).build().check()


def test_rows_that_are_bad() -> None:
    X, y = two_clouds(20)
    X[3, 1], X[7, 0] = np.nan, np.inf
    y = y.astype(object)
    y[5] = None
    choice = from_arrays(X, y)
    with pytest.raises(
        InputError, match="3 rows are bad: row 3: its input holds NaN or infinity; row 5: has no label; row 7"
    ):
        Arrays(**choice.options).build()
    assert sum(map(len, Arrays(**choice.options, on_bad_rows="skip").build().check().split.values())) == 17


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    for content in (None, b"no arrays"):
        if content is not None:
            (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"x\.npz cannot be read .*call from_arrays again"):
            Arrays(str(tmp_path / "x.npz")).build()


FRAME = pd.DataFrame({"words": [f"row {i}" for i in range(20)], "kind": ["a", "b"] * 10, "size": np.arange(20.0)})


def test_a_data_frame() -> None:
    choice = from_table(FRAME, label="kind", text="words")
    table = Table(**choice.options).build().check()
    assert choice.name == "Table" and table.label_names == ["a", "b"] and len(table.label) == 20
    assert choice == from_table(FRAME.to_dict("list"), label="kind", text="words")
    with pytest.raises(InputError, match="no column 'sort': it has words, kind, size"):
        from_table(FRAME, label="sort", text="words")
    with pytest.raises(InputError, match="the table has more than one column words: rename all but one"):
        from_table(pd.concat([FRAME, FRAME["words"]], axis=1), label="kind", text="words")
    gone = from_table({**FRAME.to_dict("list"), "kind": [None, *FRAME["kind"][1:]]}, label="kind", text="words")
    with pytest.raises(InputError, match=r"^the table given in Python: 1 row is bad: row 0: has no label"):
        Table(**gone.options).build()
    with pytest.raises(InputError, match="int is no table"):
        from_table(3, label="kind")


@pytest.mark.parametrize("label", [2, "2"])
def test_a_data_frame_whose_columns_are_numbered(label: Any) -> None:
    frame = pd.DataFrame({0: np.arange(20.0), 1: np.arange(20.0) ** 2, 2: ["a", "b"] * 10})
    table = Table(**from_table(frame, label=label, features="*").options).build().check()
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


def test_a_real_dataset_of_the_hub() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"label": datasets.ClassLabel(names=["good", "bad"]), "text": datasets.Value("string")}
    )
    rows = {"label": [0, 1] * 10, "text": [f"row {i}" for i in range(20)]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    table = Table(**from_table(datasets.DatasetDict({"train": dataset}), label="label", text="text").options).build()
    assert table.label_names == ["bad", "good"] and table.label.tolist() == [1, 0] * 10


def test_a_column_of_several_kinds_of_values_is_named() -> None:
    with pytest.raises(InputError, match=r"column x.*give each column values of one kind"):
        from_table({"x": [True, 0, "a"], "label": ["a", "b", "a"]}, label="label", features="x")


def test_a_tensor_in_half_precision_is_taken(tmp_path: Path) -> None:
    values = torch.arange(12.0).view(6, 2).requires_grad_()
    made = [from_arrays(values.to(kind), [0, 1] * 3, folder=tmp_path) for kind in (torch.float32, torch.bfloat16)]
    assert made[0] == made[1]
