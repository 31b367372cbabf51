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
from PIL import Image

import logit_correction
from logit_correction import (
    ComponentConfig,
    InputError,
    LogitCorrectionClassifier,
    Run,
    RunConfig,
    TrainingConfig,
    audit,
    estimate_attributes,
    from_arrays,
    from_table,
    runs_table,
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
        lambda folder: LogitCorrectionClassifier(
            method="ERM", epochs=1, validation_fraction=0.2, training={"threads": 1}
        ).fit(np.arange(60)[:, None] % 2 + np.zeros((60, 3)), np.arange(60) % 2),
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


def test_a_place_is_the_source_that_reads_it(frame: pd.DataFrame, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    frame.to_csv("t.csv", index=False)
    data = {"name": "t.csv", "label": "kind", "features": "size"}
    run = train(data, method="ERM", **{**SHORT, "epochs": np.int64(1)})
    assert run.config.data.name == "Table" and run.config.data.options["file"] == "t.csv"
    named = train({**data, "name": "Table", "file": Path("t.csv")}, method="ERM", **SHORT)
    assert named.config.data.options == run.config.data.options
    for place in ("t.csv", Path("t.csv")):
        with pytest.raises(InputError, match=r"give --data\.label.*t\.csv has the columns size, kind, place"):
            train(place)
    with pytest.raises(InputError, match=r"--data gone\.csv"):
        audit("gone.csv")
    Path("digits").mkdir()
    with pytest.raises(InputError, match="digits must hold a folder of images"):
        train("digits", **SHORT)


def test_without_a_folder_the_run_lives_as_long_as_its_object() -> None:
    def folder_of_one() -> Path:
        run = train(DIGITS, method="ERM", **SHORT)
        run.predict(np.zeros((1, 3, 8, 8), np.uint8))
        assert (run.path / "report.json").is_file()
        return run.path

    folder = folder_of_one()
    gc.collect()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": "Digit"}, "did you mean Digits"),
        ({"data": DIGITS, "method": "LCC"}, "'LCC' is unknown"),
        ({"data": DIGITS, "epoch": 3}, "no option --epoch .did you mean --epochs"),
        ({"data": np.zeros((3, 2))}, "from_arrays and from_table"),
        (
            {"data": RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM")), "method": "LC"},
            "method is given beside a whole",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    arguments: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        train(out=tmp_path / "run", **arguments)
    assert not any(tmp_path.iterdir())


def test_groups_are_a_frame_and_notebooks_show_tables(digits: Run) -> None:
    groups = digits.groups
    assert len(groups) == 100 and groups["count"].sum() == digits.report["test"]["count"]
    page = digits._repr_html_()
    assert page.count("<table") == 2 and "ERM" in page and "20 least accurate of 100 groups" in page
    least = groups["accuracy"].min()
    assert f"{100 * least:.1f}".removesuffix(".0") in page
    assert "ERM on Digits" in repr(digits)


def test_runs_side_by_side(digits: Run) -> None:
    table = runs_table([digits, str(digits)])
    assert list(table["method"]) == ["ERM", "ERM"]
    assert table["group_balanced"][0] == digits.report["test"]["group_balanced"]
    assert len(runs_table([digits], other_selections=True)) == 2


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


def test_new_rows_of_arrays_with_the_attributes_of_training_have_minority_and_majority(digits: Run) -> None:
    table = digits.source.build()
    rows = table.split["test"]
    names = [table.attribute_names[value] for value in table.attribute[rows]]
    found = digits.evaluate(table.inputs.fetch(rows).numpy(), table.label[rows].tolist(), names)
    there = digits.report["test"]
    assert found["average"] == pytest.approx(there["average"]) and found["minority"] == pytest.approx(there["minority"])


def test_labels_that_do_not_fit_are_told(digits: Run, frame: pd.DataFrame) -> None:
    images = np.zeros((2, 3, 8, 8), np.uint8)
    with pytest.raises(InputError, match="row 0: has no label; row 1: the label 'x' is none that was trained on; "):
        digits.evaluate(images, ["", "x"])
    with pytest.raises(InputError, match=r"no column 'knd' \(did you mean kind\?\): it has size, kind, place"):
        digits.evaluate(frame, "knd")
    with pytest.raises(InputError, match="only by their labels"):
        digits.evaluate(images)
    with pytest.raises(InputError, match="2 rows, but 3 labels"):
        digits.evaluate(images, [0, 1, 2])
    with pytest.raises(InputError, match="names a column, and the new rows have none"):
        digits.evaluate(images, "kind")
    with pytest.raises(InputError, match="'tests' is no split"):
        digits.evaluate("tests")
    run = train(from_table(frame, label="kind", features=["size"]), method="ERM", **SHORT)
    with pytest.raises(InputError, match="no column 'Kind'"):
        run.evaluate(frame, "Kind")


def test_rows_may_come_one_by_one(digits: Run, frame: pd.DataFrame) -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 8, 8, 3)).astype(np.uint8)
    expected = digits.predict_proba(images)
    for rows in (list(images), [Image.fromarray(image) for image in images]):
        np.testing.assert_allclose(digits.predict_proba(rows), expected)
    with pytest.raises(InputError, match="images have shape"):
        digits.predict([[1.0, 2.0]])
    data = from_table(frame, label="kind", features=["size", "place"])
    run = train(data, method="ERM", epochs=1, threads=1)
    rows = frame[["size", "place"]].iloc[:3]
    np.testing.assert_allclose(run.predict_proba(rows.to_dict("records")), run.predict_proba(rows))
    assert run.predict([]).shape == (0,) and run.predict_proba([]).shape == (0, 2)


def test_arrays_make_a_run(tmp_path: Path) -> None:
    label = np.arange(100) % 2
    rows = np.random.default_rng(0).normal(size=(100, 3)) + 4 * label[:, None]
    run = train(from_arrays(rows, label, folder=tmp_path), method="ERM", **{**SHORT, "epochs": 20})
    assert run.evaluate(rows.astype("float32"), label)["average"] > 0.9
    assert torch.is_tensor(run.algorithm.network(torch.zeros(1, 3)))
    assert logit_correction.load(run).label_names == ["0", "1"]
