"""Frozen features: computed once, kept, and made again for new inputs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, load, train
from logit_correction.data.digits import Digits
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.runs.encode import EncodedStore, Encoder, encode_table
from logit_correction.runs.options import complete_config
from logit_correction.training.display import LineDisplay

from ..conftest import TableFactory

SMALL = ComponentConfig("ConvNet", {"channels": [4, 6], "hidden": 6})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


@pytest.fixture
def images(make_table: TableFactory) -> DataTable:
    return make_table(images=True)


def build_config(
    encoder: ComponentConfig = SMALL, method: str = "ERM", data: str = "Digits", **training: Any
) -> RunConfig:
    options = TrainingConfig(**{"epochs": 1, "batch_size": 512, "threads": 1, **training})
    return complete_config(RunConfig(ComponentConfig(data), ComponentConfig(method), encoder=encoder, training=options))


def test_encode_table_replaces_inputs_by_features(cache: Path, images: DataTable) -> None:
    encoder = Encoder(complete_config(build_config()).encoder or SMALL, images.info)
    table = encode_table(images, build_config())
    rows = torch.tensor([0, 17, len(images.inputs) - 1])
    expected = encoder.features(images.inputs.fetch(rows))
    torch.testing.assert_close(table.inputs.fetch(rows), expected, rtol=1e-4, atol=1e-5)
    assert table.inputs.input_shape == (6,) and len(table.inputs) == len(images.inputs)
    assert torch.equal(table.label, images.label) and table.split == images.split
    images_read = table.inputs.images(rows)
    original = images.inputs.images(rows)
    assert images_read is not None and original is not None and torch.equal(images_read, original)
    assert "6 numbers a row" in str(table.metadata["inputs"])
    table.check()


def test_encoder_encodes_other_rows_with_the_same_precision(cache: Path, images: DataTable) -> None:
    plain, table = (
        encode_table(images, build_config(precision=precision)).inputs for precision in ("32-true", "bf16-mixed")
    )
    assert isinstance(plain, EncodedStore) and isinstance(table, EncodedStore)
    other_rows = ArrayStore(images.inputs.fetch(torch.arange(48)))  # type: ignore[arg-type]
    torch.testing.assert_close(table.encoder.encode_store(other_rows).values, table.values[:48])
    assert not torch.allclose(plain.values[:48], table.values[:48])


def test_features_are_cached_by_inputs_weights_and_options(cache: Path, images: DataTable) -> None:
    first = encode_table(images, build_config())
    second = encode_table(images, build_config(method="LC", seed=5))  # neither method nor seed makes other features
    rows = torch.arange(9)
    assert torch.equal(torch.as_tensor(first.inputs.fetch(rows)), torch.as_tensor(second.inputs.fetch(rows)))
    assert len(list(cache.glob("*.npy"))) == 1
    values = images.inputs.values.clone()  # type: ignore[attr-defined]
    values[-1, 2, 3, 3] ^= 1  # one pixel of one row
    encode_table(dataclasses.replace(images, inputs=ArrayStore(values)), build_config())
    assert len(list(cache.glob("*.npy"))) == 2
    encode_table(images, build_config(ComponentConfig("ConvNet", {**SMALL.options, "channels": [4, 5]})))
    assert len(list(cache.glob("*.npy"))) == 3


def test_features_are_computed_once_if_the_disk_is_full(
    cache: Path, images: DataTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Encoder.encode_batches
    calls = list[int]()

    def encode_and_count(*arguments: Any) -> Any:
        calls.append(1)
        return encode(*arguments)

    def fail_to_save(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    expected = encode_table(images, build_config()).inputs.fetch(torch.arange(len(images.label)))
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(cache.parent / "another"))
    monkeypatch.setattr(Encoder, "encode_batches", encode_and_count)
    monkeypatch.setattr(np, "save", fail_to_save)
    actual = encode_table(images, build_config()).inputs.fetch(torch.arange(len(images.label)))
    assert len(calls) == 1 and torch.equal(torch.as_tensor(actual), torch.as_tensor(expected))


def test_run_with_encoder_trains_a_head_and_predicts_from_images(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = ComponentConfig("LC", {"attributes": {"name": "Online", "head_start_epochs": 1, "epochs": 1}})
    training = TrainingConfig(epochs=2, batch_size=128, threads=1)
    run = train(RunConfig(ComponentConfig("Digits"), method, encoder=SMALL, training=training), tmp_path / "run")
    report = json.loads((run / "report.json").read_text())
    assert report["network"]["name"] == "Linear" and report["data"]["input_shape"] == [6]
    assert report["encoder"]["name"] == "ConvNet" and report["encoder"]["input_shape"] == [3, 8, 8]
    assert yaml.safe_load((run / "config.yaml").read_text())["encoder"]["channels"] == [4, 6]
    assert "features of ConvNet" in (run / "report.html").read_text()
    model = load(run)
    table = Digits().build()
    assert model.evaluate("test")["average"] == pytest.approx(report["test"]["average"])
    rows = table.split["test"]
    images = table.inputs.images(rows)
    assert images is not None
    names = np.asarray(table.label_names)[table.label[rows].numpy()]
    assert (model.predict(images) == names).mean() == pytest.approx(report["test"]["average"], abs=0.003)
    assert model.predict_proba(images[:0]).shape == (0, 10)
    first_images = images[:40]
    messages = list[str]()
    expected = model.predict(first_images)
    loaded = load(run)
    loaded.display = LineDisplay()
    loaded.display.show_message = messages.append  # type: ignore[method-assign]
    loaded.model.encoder.encode_batches = None  # type: ignore[method-assign,assignment]
    assert (loaded.predict(first_images) == expected).all() and not messages  # features are kept
    loaded = load(run)
    loaded.display = LineDisplay()
    loaded.display.show_message = messages.append  # type: ignore[method-assign]
    loaded.predict(images[:33])
    assert messages[-1] == "encode by ConvNet: step 33 of 33"
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(run / "report.json"))  # no folder
    assert (load(run).predict(first_images) == expected).all()
    with pytest.raises(InputError, match="images have shape"):
        model.predict(np.zeros((2, 6), np.float32))


@pytest.mark.parametrize(
    ("encoder", "expected"),
    [
        (ComponentConfig("my_parts.Narrow"), "`encoder='my_parts.Narrow'` has no `features`"),
        (ComponentConfig("TextClassifier"), "takes tokens"),
        (ComponentConfig("my_parts.build_broken_features"), "features that are not finite vectors"),
    ],
)
def test_networks_that_cannot_encode_are_refused(
    encoder: ComponentConfig, expected: str, cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=expected):
        train(build_config(encoder), tmp_path / "run")
    assert not (tmp_path / "run").exists() and not list(cache.glob("*.npy"))


def test_features_do_not_depend_on_the_number_of_threads() -> None:
    digits = Digits().build()
    encoder = Encoder(complete_config(build_config()).encoder or SMALL, digits.info)
    features = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            features.append(encoder.encode_store(digits.inputs).values)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*features) and len(features[0]) == len(digits.inputs)
