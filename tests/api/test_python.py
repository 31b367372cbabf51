"""The public Python names, each used once as the README and the docs use it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import logit_correction
from logit_correction.losses import LogitCorrectedLoss

README = Path(__file__).parents[2] / "README.md"

#: Names that README and docs import, by module.
NAMES = {
    "logit_correction": """
        train load Run from_arrays from_table estimate_attributes AttributeEstimates audit Audit export
        LogitCorrectionClassifier runs_table RunConfig TrainingConfig ComponentConfig load_preset InputError
        InputWarning LogitCorrectedLoss GroupPrior Correlation GroupReport Predictions LC ERM StagedLC GroupDRO LfF
        JTT DFA Reweighting PostHoc LastLayer Auto Online CrossFitted Given TrueAttributes Clusters MLP Algorithm
        AttributeEstimator BatchEstimate View ViewInputs DataSource DataTable Network Batch DataInfo Stage Step
        TrainingRows functional __version__""",
    "logit_correction.functional": """
        generalized_cross_entropy logit_corrected_cross_entropy group_mixup group_accuracy group_balanced_accuracy
        worst_group_accuracy margin count_prior group_membership""",
    "logit_correction.losses": "LogitCorrectedLoss",
    "logit_correction.cli": "main",
}


def test_documented_names_exist() -> None:
    for module, names in NAMES.items():
        imported = importlib.import_module(module)
        assert [name for name in names.split() if not hasattr(imported, name)] == []


def test_train_and_load_return_a_usable_run(tmp_path: Path) -> None:
    digits = {"name": "Digits", "minority_ratio": 0.05}
    run = logit_correction.train(digits, tmp_path / "run", method="ERM", epochs=1, threads=1)
    assert run.report.method == "ERM" and {"label", "attribute", "count", "accuracy"} <= set(run.groups)
    assert run.predict(np.zeros((2, 3, 8, 8), np.float32)).shape == (2,)
    assert run.evaluate("valid")["count"] == 200
    loaded = logit_correction.load(tmp_path / "run")
    images = np.random.default_rng(0).random((5, 3, 8, 8)).astype(np.float32)
    assert np.array_equal(loaded.predict_proba(images), run.predict_proba(images))
    assert np.allclose(loaded.predict_proba(images.transpose(0, 2, 3, 1)), run.predict_proba(images))
    assert loaded.label_names == [str(digit) for digit in range(10)]
    metrics = loaded.evaluate(images, ["3"] * 5)
    assert metrics["count"] == 5
    temporary_run = logit_correction.train(
        "Digits", method="ERM", epochs=1, threads=1, page=False
    )  # in a temporary folder
    table = logit_correction.runs_table([run, temporary_run])
    assert list(table["method"]) == ["ERM", "ERM"] and table["average"][0] == run.report.test.average
    with pytest.raises(logit_correction.InputError, match="epochz"):
        logit_correction.train("Digits", epochz=3)


def test_train_repeats_a_run_from_its_config() -> None:
    options = {"epochs": 1, "threads": 1, "page": False}
    first = logit_correction.train("Digits", method={"name": "ERM"}, network={"name": "MLP", "hidden": [8]}, **options)
    assert first.report.network.options["hidden"] == [8]
    second = logit_correction.train(logit_correction.RunConfig.read(first.path / "config.yaml"), page=False)
    assert second.report.to_dict()["test"] == first.report.to_dict()["test"]
    assert (second / "metrics.csv").read_text() == (first / "metrics.csv").read_text()
    assert logit_correction.ComponentConfig("Timm", {"model": "convnext_tiny"}).name == "Timm"
    assert logit_correction.load_preset("paper")


def test_audit_finds_the_shortcut_and_fix_trains(data_folder: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(data_folder / "patients.csv")
    options = {"epochs": 6, "threads": 1, "try_fix": False, "shortcut": "column:scanner"}
    patient_audit = logit_correction.audit(frame, label="outcome", **options)
    assert (patient_audit.verdict, patient_audit.views) == ("shortcut", ["column:scanner"])
    assert patient_audit.rows["split"].value_counts().to_dict() == {"train": 420, "test": 120, "valid": 60}
    assert patient_audit.summary["verdict"] == "shortcut"
    assert "<code>scanner</code>" in patient_audit._repr_html_() and "named this shortcut" in repr(patient_audit)
    fixed = patient_audit.fix(tmp_path / "fixed")
    assert fixed.report.method == "LC" and fixed.report.epochs == 6 and set(fixed.predict(frame)) == {"ill", "well"}
    attributes = fixed.config.to_dict()["method"]["attributes"]
    assert attributes["name"] == "Given" and Path(attributes["file"]).parent == patient_audit.path


@pytest.mark.slow
def test_readme_python_code_trains_a_fixed_model(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"<!-- not run: tests/api .*?-->\n```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(block.splitlines()) <= 10
    later = pd.read_csv(data_folder / "later.csv")
    names = dict[str, Any]()
    prompts = list[str]()

    def answer_prompt(prompt: str) -> str:
        row = names["sheet"]["row"].iloc[len(prompts)]
        prompts.append(prompt)
        return str(later["outcome"].iloc[row])

    (tmp_path / "patients.csv").write_bytes((data_folder / "patients.csv").read_bytes())
    later.drop(columns="outcome").to_csv(tmp_path / "new-patients.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", answer_prompt)
    exec(block, names)
    assert 0 < len(prompts) <= 20 and "scanner" in prompts[0]
    assert f"By {len(prompts)} labelled new rows" in repr(names["result"])
    assert (names["fixed"].predict(later) == later["outcome"]).mean() > 0.75


def test_train_needs_labels_and_takes_folder_options(data_folder: Path) -> None:
    frame = pd.read_csv(data_folder / "reviews.csv")
    for options, message in (({}, "label="), ({"label": "verdikt"}, "verdict"), ({"label": "verdict"}, "review")):
        with pytest.raises(logit_correction.InputError, match=message):
            logit_correction.train(frame, method="ERM", threads=1, **options)
    run = logit_correction.train(data_folder / "photos", size=16, method="ERM", epochs=1, threads=1, page=False)
    assert run.config.data.options["size"] == 16


QUICK: dict[str, Any] = {"epochs": 1, "threads": 1, "page": False}


def test_tensors_and_numeric_column_names_are_accepted() -> None:
    label = np.arange(200) % 2
    rows = (40 * np.random.default_rng(0).random((200, 3)) + 150 * label[:, None]).astype(np.uint8)
    columns = {"a": torch.from_numpy(rows[:, 0]), "label": torch.from_numpy(label)}
    run = logit_correction.train(columns, label="label", method="ERM", **QUICK)
    assert run.predict({"a": columns["a"]}).shape == (200,)
    frame = pd.DataFrame({0: rows[:, 0], 4: label})
    run = logit_correction.train(frame, label=4, method="ERM", **QUICK)
    for unknown in (np.where(label, -1, 0), torch.from_numpy(np.where(label, -1, 0)), np.where(label, -1, 0).tolist()):
        groups = run.evaluate(frame, 4, attribute=unknown)["groups"]
        assert {group["attribute"] for group in groups} == {"0"}
    patients = frame.assign(patient=np.arange(200) // 5)
    run = logit_correction.train(patients, label="4", split_by="patient", method="ERM", **QUICK)
    assert "one patient together" in str(run.report.data)
    large = np.where(label, np.uint64(2**64 - 1), np.uint64(3))
    assert {*logit_correction.train(rows, label=large, method="ERM", **QUICK).predict(rows)} <= {*large.tolist()}
    for prior in (pd.crosstab(label, label[::-1]), np.eye(2)[::-1], np.ones((2, 2), dtype=">f8")):
        assert LogitCorrectedLoss(prior).prior.table.shape == (2, 2)


def test_views_in_an_array_and_a_path_are_accepted(data_folder: Path) -> None:
    views = np.array(["column:scanner"])
    run = logit_correction.train(data_folder / "patients.csv", label="outcome", shortcut=views, **QUICK)
    assert run.report.method == "LC" and run.report.evidence["views"] == views.tolist()
    assert run.report.evidence["sentence"] in run._repr_html_()
    estimates = logit_correction.estimate_attributes(
        data_folder / "patients.csv", "outcome", shortcut=views, epochs=1, threads=1
    )
    assert len(estimates.label) == len(pd.read_csv(data_folder / "patients.csv"))


def test_run_of_augmented_images_is_loaded(tmp_path: Path) -> None:
    label = np.arange(60) % 2
    images = np.random.default_rng(0).integers(0, 99, (60, 3, 12, 12)) + 100 * label[:, None, None, None]
    images = images.astype(np.uint8)
    data = logit_correction.from_arrays(images, label, augment="crop-flip", folder=tmp_path)
    run = logit_correction.train(data, tmp_path / "run", network="MLP", shortcut="colour", **QUICK)
    assert logit_correction.load(tmp_path / "run").evaluate("test")["average"] == run.report.test.average
