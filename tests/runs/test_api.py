"""``train`` for Python, and what it returns."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import (
    ComponentConfig,
    InputError,
    LogitCorrectionClassifier,
    Run,
    RunConfig,
    TrainingConfig,
    audit,
    estimate_attributes,
    from_table,
    train,
)
from logit_correction.errors import TrainingError

SHORT: dict[str, Any] = {"epochs": 1, "device": "cpu", "threads": 1}
DIGITS = {"name": "Digits", "minority_ratio": 0.05}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(DIGITS, tmp_path_factory.mktemp("runs") / "digits", method="ERM", **{**SHORT, "epochs": 5})


@pytest.fixture
def frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    label = np.arange(120) % 2
    values = generator.normal(size=120) + 3 * label
    return pd.DataFrame({"size": values, "kind": np.where(label, "dog", "cat"), "place": ["lawn", "sofa", None] * 40})


def test_plain_names_make_the_run_that_a_config_makes(digits: Run, tmp_path: Path) -> None:
    training = TrainingConfig(**{**SHORT, "epochs": 5})
    config = RunConfig(ComponentConfig("Digits", {"minority_ratio": 0.05}), ComponentConfig("ERM"), training=training)
    other = train(config, tmp_path / "run", page=False)
    assert other.report["test"] == digits.report["test"] and other.config.to_dict() == digits.config.to_dict()
    assert (digits / "report.html").is_file() and not (other / "report.html").exists()
    assert Path(digits) == digits.path and os.fspath(digits) == str(digits.path)


COLUMN = {"name": "Planted", "set": "column", "rows": 200}
KNOWN: dict[str, Any] = {"shortcut": ["column:form_version"], **SHORT}


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: train(COLUMN, folder, method="ERM", page=False, **SHORT),
        lambda folder: train(COLUMN, folder, method="ERM", learning_rate=1e30, page=False, **SHORT),
        lambda folder: estimate_attributes(COLUMN, **KNOWN),
        lambda folder: LogitCorrectionClassifier(method="ERM", epochs=1, training={"threads": 1}).fit(
            np.arange(60)[:, None] % 2 + np.zeros((60, 3)), np.arange(60) % 2
        ),
        pytest.param(lambda folder: audit(COLUMN, folder, try_fix=False, **SHORT), marks=pytest.mark.slow),
    ],
    ids=["train", "an error", "estimate_attributes", "classifier", "audit"],
)
def test_the_threads_of_a_training_are_no_longer_in_force_after_it(call: Any, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suppress(TrainingError):
            call(tmp_path / "run")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_default_method_is_lc_and_a_preset_brings_its_own() -> None:
    data = {"name": "Planted", "set": "column", "rows": 200}
    run = train(data, **SHORT)
    assert run.report["method"] == "LC" and run.report["evidence"]["sentence"] in run._repr_html_()
    staged = train(data, preset="staged", **SHORT)
    assert staged.config.method.options["attributes"]["name"] == "CrossFitted"


def test_without_a_folder_the_run_lives_as_long_as_its_object() -> None:
    def folder_of_one() -> Path:
        run = train(DIGITS, method="ERM", **SHORT)
        run.predict(np.zeros((1, 3, 8, 8), np.uint8))
        assert (run.path / "report.json").is_file()
        return run.path

    folder = folder_of_one()
    gc.collect()
    assert not folder.parent.exists()


def test_new_labelled_rows_are_judged_by_label_and_by_attribute(frame: pd.DataFrame) -> None:
    run = train(from_table(frame, label="kind", features=["size"]), method="ERM", **{**SHORT, "epochs": 20})
    right = run.predict(frame) == frame["kind"].to_numpy()
    by_label = run.evaluate(frame)
    assert by_label["average"] == pytest.approx(right.mean()) and by_label["worst_group"] is None
    by_group = run.evaluate(frame, attribute="place")
    shown = {(group["label"], group["attribute"]): group["accuracy"] for group in by_group["groups"]}
    for (kind, place), rows in frame.groupby(["kind", "place"]):
        assert shown[kind, place] == pytest.approx(right[rows.index].mean())
    assert by_group["count"] == 120 and by_group["worst_group"] == pytest.approx(min(shown.values()))
    # The same with lists instead of columns.
    lists = run.evaluate(frame[["size"]], list(frame["kind"]), list(frame["place"]))
    assert lists == by_group


def test_labels_that_do_not_fit_are_told(digits: Run, frame: pd.DataFrame) -> None:
    images = np.zeros((2, 3, 8, 8), np.uint8)
    with pytest.raises(InputError, match="row 0: has no label; row 1: the label 'x' is none that was trained on; "):
        digits.evaluate(images, ["", "x"])
    with pytest.raises(InputError, match=r"no column 'knd' \(did you mean kind\?\): it has size, kind, place"):
        digits.evaluate(frame, "knd")
    with pytest.raises(InputError, match="2 rows, but 3 labels"):
        digits.evaluate(images, [0, 1, 2])
    with pytest.raises(InputError, match="names a column, and the new rows have none"):
        digits.evaluate(images, "kind")
