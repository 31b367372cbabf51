"""The files that a run and an audit leave, their keys and columns; more may come, none may go."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction import InputError, runs_table

RunGetter = Callable[[str], Path]

RUN_FILES = {"config.yaml", "metrics.csv", "report.json", "report.html", "checkpoint.pt", "predictions.parquet"}
AUDIT_FILES = {"audit.json", "config.yaml", "fix.yaml", "report.html", "rows.csv", "rows.parquet"}

EVIDENCE_KEYS = """
verdict view views sentence breadth accuracy accuracy_low network_accuracy ratio rows share follows_view
follows_label follows_low follows_high information probability corrects candidates
looks named legitimate who judged commonest about leak
"""
TEST_KEYS = """
count average group_balanced worst_group worst_class minority majority minority_margin majority_margin adjusted_average
auroc f1 ece groups estimated
"""
REPORT_KEYS = f"""
method method_options data data.name data.options data.facts data.counts.train data.counts.valid data.counts.test
data.rows.train data.rows.valid data.rows.test data.label_names data.label_kind data.attribute_names data.correlation
data.input_shape data.preparation data.fingerprint network network.name network.options network.parameters encoder
seed epochs epochs_per_stage steps training training.batch_size training.learning_rate training.weight_decay
training.precision training.device labels_read labels_read.train labels_read.valid labels_read.test
attributes environment.version environment.commit environment.torch environment.python
environment.device environment.machine environment.threads selection.rule selection.epoch selection.split
selection.labels_read
test.groups[].label test.groups[].attribute test.groups[].count test.groups[].correct test.groups[].accuracy
test.groups[].low test.groups[].high test.groups[].margin_min test.groups[].margin_mean test.groups[].ece
test.groups[].minority test.estimated.source test.estimated.minority test.estimated.majority
test.estimated.group_balanced test.estimated.worst_group test.estimated.groups
group_prior.estimated group_prior.true group_prior.label_names group_prior.attribute_names estimated_minority.count
estimated_minority.recall estimated_minority.precision estimated_minority.examples warnings seconds.train
seconds.evaluate {" ".join(f"evidence.{name}" for name in EVIDENCE_KEYS.split())}
{" ".join(f"test.{name}" for name in TEST_KEYS.split())}
"""
AUDIT_KEYS = f"""
verdict views sentence leans would_change question groups[].label groups[].attribute groups[].rows groups[].share
groups[].share_low groups[].share_high groups[].network.accuracy groups[].fixed.accuracy cost.network.name
cost.network.conflicting.accuracy cost.network.conflicting.low cost.network.conflicting.high
cost.network.conflicting.rows cost.network.agreeing.accuracy cost.fixed.name cost.fixed.conflicting.accuracy
cost.fixed.agreeing.accuracy shown[].row shown[].label shown[].attribute shown[].score shown[].network_label
shown[].fixed_label contrasts[].kind contrasts[].view rows.file rows.train rows.conflicting examined
classifier data.name data.source data.options data.rows.train data.label_names data.warnings network.name
training.epochs training.seed labels_read.train labels_read.valid labels_read.test new_rows environment.version
seconds
{" ".join(f"evidence.{name}" for name in EVIDENCE_KEYS.split())}
"""
NEW_ROWS_KEYS = """
question.views question.text new_rows.rows new_rows.labelled new_rows.usual_rows new_rows.changed new_rows.likely
new_rows.answers new_rows.asked new_rows.sheet_answers new_rows.chosen new_rows.gain new_rows.gain_low
new_rows.gain_high new_rows.more new_rows.candidates[].name new_rows.candidates[].does new_rows.candidates[].config
new_rows.candidates[].views
new_rows.candidates[].seconds new_rows.candidates[].like_training new_rows.candidates[].differs_new
new_rows.candidates[].differs_new_low new_rows.candidates[].differs_new_high new_rows.candidates[].differs_usual
new_rows.candidates[].differs_usual_low new_rows.candidates[].differs_usual_high new_rows.candidates[].gain
new_rows.candidates[].gain_low new_rows.candidates[].gain_high new_rows.candidates[].told_by
new_rows.view_shifts[].view new_rows.view_shifts[].auc new_rows.view_shifts[].auc_low new_rows.view_shifts[].auc_high
new_rows.view_shifts[].values new_rows.answered_rows
"""


def iterate_keys(value: dict[str, Any], before: str = "") -> Iterator[str]:
    """Yield the dotted names of all that a JSON object holds; of a list of objects those of the first."""
    for name, part in value.items():
        yield before + name
        if isinstance(part, dict):
            yield from iterate_keys(part, f"{before}{name}.")
        elif isinstance(part, list) and part and isinstance(part[0], dict):
            yield from iterate_keys(part[0], f"{before}{name}[].")


def test_run_has_its_files(get_run: RunGetter) -> None:
    for name in ("digits-erm", "digits-lc", "photos-erm", "reviews-lc"):
        file_names = {path.name for path in get_run(name).iterdir() if not path.name.startswith(".")}
        assert file_names >= RUN_FILES and "resume.pt" not in file_names


def test_report_has_its_keys(get_run: RunGetter) -> None:
    report = json.loads((get_run("digits-lc") / "report.json").read_text())
    assert set(REPORT_KEYS.split()) - set(iterate_keys(report)) == set()
    assert report["method"] == "LC" and report["data"]["name"] == "Digits" and report["network"]["name"] == "MLP"
    assert report["labels_read"] == {"train": ["label"], "valid": ["label"], "test": ["label", "attribute"]}
    assert report["evidence"]["verdict"] == "cannot tell" and report["evidence"]["view"] == "colour"
    plain = json.loads((get_run("digits-erm") / "report.json").read_text())
    assert plain.keys() == report.keys() and plain["evidence"] is None and plain["group_prior"] is None


def test_metrics_have_their_columns(get_run: RunGetter) -> None:
    expected = {"step", "stage", "epoch", "learning_rate", "loss", "valid_average", "valid_worst_class"}
    plain, lc = (pd.read_csv(get_run(name) / "metrics.csv") for name in ("digits-erm", "digits-lc"))
    assert set(plain) >= expected
    assert set(lc) >= expected | {"loss_robust", "loss_ordinary", "valid_estimated_within_error"}
    assert plain["step"].max() == 76 and lc["stage"].unique().tolist() == [0, 1]


def test_predictions_have_their_columns(get_run: RunGetter) -> None:
    rows = pd.read_parquet(get_run("digits-lc") / "predictions.parquet")
    logits = [f"logit_{number}" for number in range(10)]
    assert set(rows) >= {"index", "label", "attribute", "estimated_attribute", "prediction", *logits}
    test = json.loads((get_run("digits-lc") / "report.json").read_text())["test"]
    assert (rows["label"] == rows["prediction"]).mean() == test["average"]
    assert (rows[logits].to_numpy().argmax(1) == rows["prediction"]).all()
    valid = pd.read_parquet(get_run("digits-lc") / "validation.parquet")
    assert len(valid) == 200 and (valid["attribute"] == -1).all()  # no rule has read it


def test_audit_has_its_files_and_keys(get_run: RunGetter) -> None:
    folder = get_run("audit-patients")
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == AUDIT_FILES
    audit = json.loads((folder / "audit.json").read_text())
    assert set(AUDIT_KEYS.split()) - set(iterate_keys(audit)) == set()
    assert (audit["verdict"], audit["views"]) == ("shortcut", ["column:scanner"])
    # Rows that were drawn for the test have an attribute, since the fix trains on them in the end.
    assert audit["labels_read"] == {split: ["label"] for split in ("train", "valid", "test")}
    assert audit["new_rows"] is None


def test_audit_of_new_rows_has_its_files_and_keys(get_run: RunGetter) -> None:
    folder = get_run("audit-asked")
    file_names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert file_names == AUDIT_FILES - {"fix.yaml"} | {"sheet.csv", "new_rows.parquet", "new_rows.npz"}
    audit = json.loads((folder / "audit.json").read_text())
    keys_of_trial = {key for key in AUDIT_KEYS.split() if key.startswith("cost.") or "fixed" in key}
    assert {*AUDIT_KEYS.split(), *NEW_ROWS_KEYS.split()} - keys_of_trial - set(iterate_keys(audit)) == set()
    assert audit["new_rows"]["candidates"][0]["name"] == "ERM" and audit["new_rows"]["answers"] == 0
    rows = pd.read_parquet(folder / "new_rows.parquet")
    prediction_columns = [f"prediction_{number}" for number in range(len(audit["new_rows"]["candidates"]))]
    distance_columns = [name.replace("prediction", "distance_to_erm") for name in prediction_columns]
    description_columns = ["row", "line", "content", "fields"]
    assert list(rows) == [
        *description_columns,
        "label_number",
        "round",
        *prediction_columns,
        *distance_columns,
        "inclusion_probability_1",
    ]
    assert len(rows) == audit["new_rows"]["rows"] and rows["row"].tolist() == list(range(len(rows)))
    assert (rows["label_number"] == -1).all() and (rows["round"] == 1).sum() == 8 == audit["new_rows"]["asked"]
    sheet = pd.read_csv(folder / "sheet.csv")
    assert list(sheet) == ["row", "line", "content", "answer"] and sheet["answer"].isna().all()  # no estimate shows


def test_rows_of_an_audit_have_their_columns(get_run: RunGetter) -> None:
    expected = "row line split label attribute conflicting score view_label sure p_ill p_well network_label"
    rows = pd.read_csv(get_run("audit-patients") / "rows.csv")
    assert list(rows) == [*expected.split(), "network_p", "fixed_label", "fixed_p"]
    audit = json.loads((get_run("audit-patients") / "audit.json").read_text())
    train = rows[rows["split"] == "train"]
    assert len(train) == audit["rows"]["train"] and train["conflicting"].sum() == audit["rows"]["conflicting"]
    assert rows["split"].value_counts().to_dict() == audit["data"]["rows"]
    assert ((rows["label"] != rows["attribute"]) == rows["conflicting"]).all()
    audit_of_new_rows = json.loads((get_run("audit-asked") / "audit.json").read_text())
    assert audit_of_new_rows["verdict"] == "cannot tell" and audit_of_new_rows["question"].keys() == {"views", "text"}


def test_moved_read_only_run_predicts_the_same(
    run_command: Callable[..., Any], get_run: RunGetter, data_folder: Path, tmp_path: Path
) -> None:
    before = run_command("predict", get_run("patients-lc"), data_folder / "later.csv").out
    moved = shutil.copytree(get_run("patients-lc"), tmp_path / "moved")
    for path in moved.iterdir():
        path.chmod(0o444)
    os.chmod(moved, 0o555)
    result = run_command("predict", moved, data_folder / "later.csv")
    os.chmod(moved, 0o755)
    assert result.status == 0 and result.out == before


def test_run_is_retrained_from_its_config_in_any_folder_and_seeds_are_separate_runs(
    run_command: Callable[..., Any], data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data_folder)
    words = ("--data.label", "outcome", "--method", "ERM", "--epochs", "1", "--threads", "1", "--seeds", "2")
    assert run_command("train", "--data", "patients.csv", *words, "--out", tmp_path / "runs").status == 0
    first, second = (json.loads((tmp_path / f"runs/seed-{s}/report.json").read_text()) for s in (0, 1))
    assert (first["seed"], second["seed"]) == (0, 1) and first["test"]["average"] != second["test"]["average"]
    assert (tmp_path / "runs" / "report.html").is_file()
    monkeypatch.chdir(tmp_path)
    assert run_command("train", "--config", "runs/seed-1/config.yaml", "--out", "again").status == 0
    assert run_command("report", "again", "runs").status == 0
    assert (tmp_path / "runs" / "report.html").read_text().count("seed-0/config.yaml") == 1
    assert runs_table([tmp_path / "runs", tmp_path / "again"])["seed"].tolist() == [0, 1, 1]
    assert runs_table(str(tmp_path / "runs"))["seed"].tolist() == [0, 1]
    with pytest.raises(InputError):
        runs_table([])
    result = run_command("train", "--config", "runs/seed-0/config.yaml", "--resume", "--out", "runs")
    assert result.status == 2 and "add --seeds N" in result.err
    assert run_command("train", "--config", "runs/seed-0/config.yaml", "--seeds", "2", "--out", "runs").status == 0
