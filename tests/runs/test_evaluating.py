"""A run judged on new labelled rows whose attributes nobody named: by the groups that its estimator finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, audit, load, train
from logit_correction.evaluation import Predictions
from logit_correction.runs.run import Run


def people(rows: int, seed: int) -> pd.DataFrame:
    """A form's version that goes with the answer in nine of ten rows, an age that tells it a little."""
    draw = np.random.default_rng(seed)
    answer = draw.integers(0, 2, rows)
    version = np.where(draw.random(rows) < 0.1, 1 - answer, answer)
    age = 30 + 10 * answer + draw.normal(0, 8, rows)
    return pd.DataFrame(
        {"answer": np.array(["no", "yes"])[answer], "form": np.array(["old", "new"])[version], "age": age}
    )


def fitted(out: Path, data: ComponentConfig, view: str, method: str = "LC") -> Run:
    options = {"attributes": {"name": "Auto", "shortcut": [view]}} if method == "LC" else {}
    training = TrainingConfig(epochs=3, batch_size=64, threads=1, device="cpu")
    config = RunConfig(
        data, ComponentConfig(method, options), ComponentConfig("MLP", {"hidden": [16]}), training=training
    )
    return load(train(config, out, page=False))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("people")
    people(600, 0).to_csv(folder / "people.csv", index=False)
    data = ComponentConfig("Table", {"file": str(folder / "people.csv"), "label": "answer", "features": "*"})
    return fitted(folder / "run", data, "column:form")


def by_side(block: dict[str, Any]) -> dict[str, int]:
    counts = {"agrees": 0, "conflicts": 0}
    for group in block["groups"]:
        counts["conflicts" if group["minority"] else "agrees"] += group["count"]
    return counts


def true_sides(frame: pd.DataFrame) -> dict[str, int]:
    agrees = int(((frame["answer"] == "yes") == (frame["form"] == "new")).sum())
    return {"agrees": agrees, "conflicts": len(frame) - agrees}


def test_the_report_has_the_accuracy_by_estimated_group(run: Run) -> None:
    test = run.report["test"]
    assert test["worst_group"] is None and all(group["attribute"] is None for group in test["groups"])
    block = test["estimated"]
    assert block["source"] == "heads on column:form, cross-fitted"
    rows = Predictions.load(run / "predictions.parquet")
    assert rows.estimate is not None and list(rows.estimate.names) == ["that of no", "that of yes"]
    conflicting = rows.estimate.attribute != rows.label
    assert by_side(block)["conflicts"] == conflicting.sum() > 0
    assert block["minority"] == pytest.approx((rows.prediction == rows.label)[conflicting].mean())
    assert block["majority"] == pytest.approx((rows.prediction == rows.label)[~conflicting].mean())
    assert run.report["labels_read"]["test"] == ["label"]


def test_splits_and_new_rows_are_judged_by_the_same_estimator(run: Run, tmp_path: Path) -> None:
    again = run.evaluate("test")["estimated"]
    assert again["minority"] == pytest.approx(run.report["test"]["estimated"]["minority"])
    frame = people(200, 1)
    of_frame = run.evaluate(frame)
    assert by_side(of_frame["estimated"]) == true_sides(frame)
    frame.to_csv(tmp_path / "new.csv", index=False)
    of_file = run.evaluate(tmp_path / "new.csv")
    assert of_file["estimated"]["minority"] == pytest.approx(of_frame["estimated"]["minority"])
    named = run.evaluate(tmp_path / "new.csv", attribute="form")
    assert {group["attribute"] for group in named["groups"]} == {"old", "new"}
    assert named["estimated"] == of_file["estimated"]


def test_data_that_have_changed_are_not_taken_for_those_of_training(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    people(200, 0).to_csv(file, index=False)
    data = ComponentConfig("Table", {"file": str(file), "label": "answer", "features": "*"})
    run = fitted(tmp_path / "run", data, "", method="ERM")
    figures = run.evaluate("valid")
    people(210, 0).to_csv(file, index=False)
    with pytest.raises(InputError, match=r"are not those that .*run was trained on.*`evaluate --on FILE`"):
        run.evaluate("valid")
    with pytest.raises(InputError, match=r"are not those that .*run was trained on.*`--predictions`"):
        audit(data, tmp_path / "audit", run=run, epochs=1, threads=1)
    assert not (tmp_path / "audit").exists()
    people(200, 0).to_csv(file, index=False)
    assert run.evaluate("valid") == figures


def test_data_that_lay_where_the_run_was_trained_are_missed_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    people(200, 0).to_csv(tmp_path / "there" / "people.csv", index=False)
    monkeypatch.chdir(tmp_path / "there")
    data = ComponentConfig("Table", {"file": "people.csv", "label": "answer", "features": "*"})
    run = load(fitted(tmp_path / "run", data, "", method="ERM").path)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match=r"people\.csv does not exist here: --data\.file of .*counts from the folder"):
        run.evaluate("valid")
    monkeypatch.chdir(tmp_path / "there")
    assert run.evaluate("valid")["count"] > 0


def test_a_run_that_estimates_nothing_has_no_estimated_groups(run: Run, tmp_path: Path) -> None:
    erm = fitted(tmp_path / "ERM", run.config.data, "", method="ERM")
    assert erm.report["test"]["estimated"] is None and erm.evaluate(people(50, 2))["estimated"] is None


def test_new_images_are_judged_in_folders_as_files_and_as_arrays(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)

    def write(folder: Path, count: int) -> dict[str, int]:
        conflicts = 0
        for number in range(count):
            label, odd = number % 2, number % 10 >= 8
            conflicts += odd
            image = draw.integers(100, 156, (8, 8, 3))
            image[:, :, label if not odd else 1 - label] += 90
            place = folder / ("cat", "dog")[label] / f"{number:03}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.astype(np.uint8)).save(place)
        return {"agrees": count - conflicts, "conflicts": conflicts}

    write(tmp_path / "photos", 300)
    data = ComponentConfig("ImageFolder", {"root": str(tmp_path / "photos"), "size": 8})
    run = fitted(tmp_path / "run", data, "colour")
    expected = write(tmp_path / "new", 60)
    found = by_side(run.evaluate(tmp_path / "new")["estimated"])
    assert found["conflicts"] == pytest.approx(expected["conflicts"], abs=2)  # of 60, after 200 rows of training
    files = sorted((tmp_path / "new").rglob("*.png"))
    labels = [file.parent.name for file in files]
    assert by_side(run.evaluate(files, labels)["estimated"]) == found
    arrays = np.stack([np.asarray(Image.open(file)) for file in files])
    assert by_side(run.evaluate(arrays, labels)["estimated"]) == found


def test_the_console_shows_the_estimated_groups(run: Run, tmp_path: Path, capsys: Any) -> None:
    from logit_correction.cli import main

    frame = people(200, 1)
    frame.to_csv(tmp_path / "new.csv", index=False)
    words = ["evaluate", str(run), "--on", str(tmp_path / "new.csv")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "estimated groups: by heads on column:form, cross-fitted" in shown
    assert "where it conflicts" in shown and "nobody named these attributes" in shown
    assert main([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert f"where it conflicts {100 * figures['estimated']['minority']:.1f}" in shown
