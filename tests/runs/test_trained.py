"""``load``: a finished run that predicts and can be judged again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, load, train
from logit_correction.bench.digits import Digits
from logit_correction.runs.run import Run


@pytest.fixture(scope="module")
def model(digits_run: Path) -> Run:
    return load(digits_run)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    table = Digits().build()
    found = table.inputs.images(table.split["test"][::99])
    assert found is not None
    return found.numpy()


def test_probabilities_of_arrays_and_tensors(model: Run, images: np.ndarray) -> None:
    probability = model.predict_proba(images)
    assert probability.shape == (len(images), 10) and probability.dtype == np.float32
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-5)
    for same in (
        torch.from_numpy(images),
        torch.from_numpy(images).float() / 255,
        images.astype(np.float64) / 255,
        np.asfortranarray(images),
    ):
        np.testing.assert_allclose(model.predict_proba(same), probability, atol=1e-5)


def test_flipped_and_read_only_arrays(model: Run, images: np.ndarray) -> None:
    flipped = images[..., ::-1]
    np.testing.assert_allclose(model.predict_proba(flipped), model.predict_proba(flipped.copy()))
    frozen = images.copy()
    frozen.setflags(write=False)
    np.testing.assert_allclose(model.predict_proba(frozen), model.predict_proba(images))
    assert not frozen.flags.writeable


def test_rows_of_the_test_split_have_the_stored_logits(digits_run: Path, model: Run) -> None:
    table = Digits().build()
    stored = pd.read_parquet(digits_run / "predictions.parquet").filter(like="logit_").to_numpy()[:500]
    inputs = table.inputs.fetch(table.split["test"][:500])
    expected = torch.tensor(stored).softmax(1).numpy()
    np.testing.assert_allclose(model.predict_proba(inputs), expected, atol=1e-5)


def test_labels_are_names_of_the_most_probable(model: Run, images: np.ndarray) -> None:
    names = np.asarray(model.label_names)[model.predict_proba(images).argmax(axis=1)]
    assert model.predict(images).tolist() == names.tolist()
    assert model.label_names == [str(digit) for digit in range(10)]


def test_files_by_any_kind_of_name(model: Run, images: np.ndarray, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(4)]
    for path, image in zip(paths, images, strict=False):
        Image.fromarray(image.transpose(1, 2, 0)).save(path)
    expected = model.predict_proba(images[:4])
    names = [str(path) for path in paths]
    for given in (paths, names, tuple(paths), np.array(names), np.array(paths), pd.Series(names)):
        np.testing.assert_allclose(model.predict_proba(given), expected, atol=1e-6)
    with pytest.raises(InputError, match=r"no\.png"):
        model.predict([*paths, tmp_path / "no.png"])


def test_nothing_gives_nothing(model: Run) -> None:
    for nothing in (np.zeros((0, 3, 8, 8), np.uint8), torch.zeros(0, 3, 8, 8), []):
        assert model.predict_proba(nothing).shape == (0, 10)
        assert model.predict(nothing).shape == (0,)


def test_many_rows_are_predicted_in_parts(model: Run, images: np.ndarray) -> None:
    many = np.resize(images, (2345, 3, 8, 8))
    probability = model.predict_proba(many)
    np.testing.assert_allclose(probability[-7:], model.predict_proba(many[-7:]), atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 8, 8), (5, 8, 3, 8), (5, 3, 8), (5, 1, 8, 8), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...], model: Run) -> None:
    with pytest.raises(InputError, match=r"shape|one number"):
        model.predict_proba(np.zeros(shape, np.uint8))


def test_values_that_are_no_images_are_refused(model: Run, images: np.ndarray) -> None:
    broken = images / 255
    broken[3, 1, 2, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        model.predict_proba(broken)
    broken[3, 1, 2, 2] = np.inf
    with pytest.raises(InputError, match="infinity"):
        model.predict_proba(torch.from_numpy(broken))
    with pytest.raises(InputError, match="unsigned bytes or floats"):
        model.predict_proba(images.astype(np.int64))  # 0..255 or 0..1? nobody can tell
    for scaled in (images.astype(np.float32), torch.from_numpy(images).half(), images / 255 - 0.5):
        with pytest.raises(InputError, match="unsigned bytes or floats in"):
            model.predict_proba(scaled)
    with pytest.raises(InputError, match="give a list"):
        model.predict("picture.png")


def test_features_may_be_whole_numbers(tmp_path: Path) -> None:
    training = TrainingConfig(epochs=1, batch_size=32, threads=1)
    config = RunConfig(ComponentConfig("my_parts.Points"), ComponentConfig("ERM"), training=training)
    model = load(train(config, tmp_path / "run", page=False))
    rows = np.arange(24).reshape(2, 12) % 5
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(rows.astype(np.float32)))


def test_evaluate_gives_the_block_of_the_report(digits_run: Path, model: Run) -> None:
    block = json.loads((digits_run / "report.json").read_text())["test"]
    again = model.evaluate("test")
    assert again["group_balanced"] == pytest.approx(block["group_balanced"], abs=1e-6)
    assert again["groups"] == [pytest.approx(group, abs=1e-5) for group in block["groups"]]
    assert model.evaluate("valid")["count"] == 200


def test_predicting_leaves_the_run_as_it_was(digits_run: Path, images: np.ndarray) -> None:
    before = {path: path.read_bytes() for path in Path(digits_run).iterdir()}
    model = load(str(digits_run))
    first = model.predict_proba(images)
    model.evaluate("valid")
    np.testing.assert_array_equal(model.predict_proba(images), first)
    assert {path: path.read_bytes() for path in Path(digits_run).iterdir()} == before
    assert not model.algorithm.training


def test_a_run_that_was_trained_elsewhere_can_be_loaded(digits_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(digits_run, tmp_path / "run")
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("device: auto", "device: cuda"))
    assert load(run).predict_proba(torch.zeros(1, 3, 8, 8)).shape == (1, 10)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        load(tmp_path)
    with pytest.raises(InputError, match="is not a run folder"):
        load(tmp_path / "missing")
