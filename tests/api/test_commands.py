"""Every command as a user types it, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from sklearn.metrics import roc_auc_score

from logit_correction import Audit, __version__, load

from ..shortcuts.conftest import use_online_candidates_only

CommandRunner = Callable[..., Any]
RunGetter = Callable[[str], Path]

README = Path(__file__).parents[2] / "README.md"

SHORT_TRAINING = ("--data", "Digits", "--epochs", "1", "--threads", "1")

#: A word for each kind of `list`, which must be among what it names.
LISTED_NAMES = {
    "methods": "ERM LC StagedLC GroupDRO LfF JTT DFA Reweighting",
    "estimators": "Auto Online CrossFitted Given TrueAttributes Clusters",
    "views": "colour border places column word",
    "presets": "paper staged",
    "data": "Digits ColoredMNIST CorruptedCIFAR10 Waterbirds CelebA CivilComments BiasedFFHQ ImageFolder Table Planted",
    "networks": "MLP ConvNet Linear ResNet18 ResNet50 TextClassifier Timm",
    "rules": "last valid_average valid_worst_class valid_worst_group valid_estimated_group_balanced",
    "formats": "onnx torch-export",
    "metrics": "recall precision auroc",
}


def read_page(file: Path) -> str:
    """Return a page, after a look that it loads nothing from elsewhere."""
    page = file.read_text()
    assert re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(?!data:)', page) == []
    return page


def patient_options(data_folder: Path) -> tuple[object, ...]:
    """Return the words that name the table of patients."""
    return ("--data", data_folder / "patients.csv", "--data.label", "outcome", "--data.features", "*", "--threads", "1")


def run_python(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    words = (sys.executable, *words)
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=dict(os.environ))


def test_module_runs_as_a_program(tmp_path: Path) -> None:
    result = run_python("-m", "logit_correction", "--help", cwd=tmp_path)
    assert result.returncode == 0 and result.stderr == ""
    commands = "quickstart train evaluate predict report benchmark audit export list"
    assert all(f" {name} " in result.stdout for name in commands.split())


def test_every_command_has_help_and_version_is_printed(run_command: CommandRunner) -> None:
    for name in ("train", "evaluate", "predict", "report", "benchmark", "audit", "export", "list"):
        result = run_command(name, "--help")
        assert result.status == 0 and "usage" in result.out.lower() and result.err == ""
    assert run_command("--version").out.strip() == __version__
    help_text = run_command("train", "--data", "ColoredMNIST", "--method", "LC", "--help").out
    assert "--data.minority_ratio" in help_text and "--method.strength" in help_text


@pytest.mark.parametrize("kind", LISTED_NAMES)
def test_list_prints_the_names_of_a_kind(kind: str, run_command: CommandRunner) -> None:
    result = run_command("list", kind)
    assert result.status == 0
    names = result.out.split()
    assert [name for name in LISTED_NAMES[kind].split() if name not in names] == []


def test_train_prints_the_table_and_the_page(get_run: RunGetter) -> None:
    folder = get_run("digits-erm")
    out = folder.parent.parent.joinpath("digits-erm.out").read_text()
    assert "ERM" in out and "27.9" in out and "report.html" in out
    assert "ERM" in read_page(folder / "report.html")


def test_print_config_prints_the_config_without_training(run_command: CommandRunner, tmp_path: Path) -> None:
    result = run_command("train", *SHORT_TRAINING, "--method", "LC", "--print_config", "--out", tmp_path / "run")
    config = yaml.safe_load(result.out)
    assert result.status == 0 and config["data"]["name"] == "Digits" and not (tmp_path / "run").exists()


def test_resume_of_a_finished_run_changes_nothing(run_command: CommandRunner, get_run: RunGetter) -> None:
    folder = get_run("digits-jtt")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run_command("train", "--resume", "--out", folder)
    assert result.status in (0, 2) and "Traceback" not in result.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_fix_config_trains_by_given_attributes_and_is_audited(
    run_command: CommandRunner, get_run: RunGetter, tmp_path: Path
) -> None:
    config = get_run("audit-patients") / "fix.yaml"
    assert run_command("train", "--config", config, "--epochs", "2", "--out", tmp_path / "fixed").status == 0
    options = json.loads((tmp_path / "fixed" / "report.json").read_text())["method_options"]["attributes"]
    assert options["name"] == "Given" and options["file"].endswith("rows.csv")
    words = ("audit", "--run", tmp_path / "fixed")  # on the data of the run
    assert run_command(*words, "--shortcut", "column:scanner", "--out", tmp_path / "audit").status == 0
    audit_content = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert audit_content["examined"] is not None and audit_content["views"] == ["column:scanner"]


def test_evaluate_gives_the_metrics_of_the_report(run_command: CommandRunner, get_run: RunGetter) -> None:
    folder = get_run("patients-lc")
    report = json.loads((folder / "report.json").read_text())
    metrics = json.loads(run_command("evaluate", folder, "--json").out)
    for name in ("average", "group_balanced", "worst_group", "worst_class"):
        assert metrics[name] == report["test"][name]
    assert [group["accuracy"] for group in metrics["groups"]] == [g["accuracy"] for g in report["test"]["groups"]]
    output = run_command("evaluate", folder).out
    assert "ill" in output and "margin" not in output and "90 % interval" in output
    assert json.loads(run_command("evaluate", folder, "--split", "valid", "--json").out)["count"] == 60


def test_evaluate_reads_new_rows(run_command: CommandRunner, get_run: RunGetter, data_folder: Path) -> None:
    result = run_command(
        "evaluate", get_run("patients-lc"), "--on", data_folder / "later.csv", "--attribute", "scanner", "--json"
    )
    metrics = json.loads(result.out)
    assert result.status == 0 and metrics["count"] == 120
    assert {(g["label"], g["attribute"]) for g in metrics["groups"]} == {
        (a, b) for a in ("ill", "well") for b in ("old", "new")
    }
    metrics = json.loads(run_command("evaluate", get_run("photos-erm"), "--on", data_folder / "later", "--json").out)
    files = list((data_folder / "later").rglob("*.png"))
    assert metrics["count"] == len(files) and 0.4 < metrics["average"] < 0.95


def test_predict_writes_a_row_for_each_row_of_a_table(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, tmp_path: Path
) -> None:
    result = run_command(
        "predict", get_run("patients-lc"), data_folder / "later.csv", "--out", tmp_path / "answers.csv"
    )
    assert result.status == 0
    rows = pd.read_csv(tmp_path / "answers.csv")
    assert list(rows) == ["line", "label", "probability_ill", "probability_well"] and len(rows) == 120
    assert rows["line"].tolist() == list(range(2, 122))
    assert (rows[["probability_ill", "probability_well"]].sum(axis=1) - 1).abs().max() < 1e-5
    truth = pd.read_csv(data_folder / "later.csv")["outcome"]
    metrics = json.loads(
        run_command("evaluate", get_run("patients-lc"), "--on", data_folder / "later.csv", "--json").out
    )
    assert (rows["label"] == truth).mean() == pytest.approx(metrics["average"])


def test_predict_reads_files_folders_and_csv_of_paths_alike(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(data_folder / "later" / "one", tmp_path / "one")
    files = sorted((tmp_path / "one").iterdir())
    pd.DataFrame({"path": [f"one/{file.name}" for file in files]}).to_csv(tmp_path / "names.csv", index=False)
    tables = []
    for number, words in enumerate((files, [tmp_path / "one"], [tmp_path / "names.csv"])):
        out = tmp_path / f"{number}.csv"
        assert run_command("predict", get_run("photos-erm"), *words, "--out", out).status == 0
        tables.append(pd.read_csv(out))
    columns = ["path", "label", *(f"probability_{name}" for name in ("five", "four", "one", "three"))]
    assert all(list(table) == columns and len(table) == len(files) for table in tables)
    assert all(table.drop(columns="path").equals(tables[0].drop(columns="path")) for table in tables)


def test_report_compares_runs_on_a_page(run_command: CommandRunner, get_run: RunGetter, tmp_path: Path) -> None:
    runs = [get_run("digits-erm"), get_run("digits-lc")]
    assert run_command("report", *runs, "--out", tmp_path / "page.html").status == 0
    text = read_page(tmp_path / "page.html")
    assert "ERM" in text and "LC" in text and "27.9" in text and "35.3" in text and "colour" in text


def test_audit_fails_on_the_named_verdict(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, tmp_path: Path
) -> None:
    folder = get_run("audit-patients")
    text = read_page(folder / "report.html")
    assert "shortcut" in text and "scanner" in text
    words = (
        "audit",
        *patient_options(data_folder),
        "--epochs",
        "2",
        "--try-fix",
        "false",
        "--fail-on",
        "shortcut",
        "--json",
    )
    result = run_command(*words, "--shortcut", "column:scanner", "--out", tmp_path / "named")
    assert result.status == 3 and json.loads(result.out)["verdict"] == "shortcut"


def test_train_with_new_rows_and_answers_trains_the_advised_model(
    run_command: CommandRunner, data_folder: Path, tmp_path: Path
) -> None:
    truth = pd.read_csv(data_folder / "later.csv")
    truth.drop(columns="outcome").to_csv(tmp_path / "new.csv", index=False)
    folder = tmp_path / "first-audit"
    words = ("train", *patient_options(data_folder), "--epochs", "4")
    shortcut_option = ("--shortcut", "column:sex")  # which no search would try
    with use_online_candidates_only():
        first = run_command(*words, *shortcut_option, "--new-rows", tmp_path / "new.csv", "--out", tmp_path / "first")
    assert first.status == 0 and "audit --answers" in first.out
    assert json.loads((tmp_path / "first" / "report.json").read_text())["method"] == "ERM"  # without answers
    again = ("--new-rows", tmp_path / "new.csv", "--out", tmp_path / "first", "--resume")  # what a stopped one prints
    resumed = run_command(*words, *shortcut_option, *again)
    assert resumed.status == 0 and f"the finished audit in {folder} is taken" in " ".join(resumed.err.split())
    sheet = pd.read_csv(folder / "sheet.csv")
    assert list(sheet) == ["row", "line", "content", "answer"] and len(sheet) == 20 and sheet["answer"].isna().all()
    wrong = sheet.assign(answer="maybe")
    wrong.to_csv(tmp_path / "wrong.csv", index=False)
    result = run_command("audit", "--answers", tmp_path / "wrong.csv", "--out", folder)
    assert result.status == 2 and "'maybe' is not a label" in result.err
    sheet.assign(answer=truth["outcome"].iloc[sheet["row"]].str.upper().to_numpy()).to_csv(folder / "sheet.csv")
    assert run_command(*words, "--answers", folder / "sheet.csv", "--out", tmp_path / "second").status == 0
    new_rows_summary = json.loads((folder / "audit.json").read_text())["new_rows"]
    assert "ERM without the column sex" in [candidate["name"] for candidate in new_rows_summary["candidates"]]
    assert new_rows_summary["answers"] == 20 and new_rows_summary["chosen"] in [
        candidate["name"] for candidate in new_rows_summary["candidates"]
    ]
    report = json.loads((tmp_path / "second" / "report.json").read_text())
    assert report["method"] == ("ERM" if new_rows_summary["chosen"] == "ERM" else "Average")
    assert run_command(*words, "--answers", folder / "sheet.csv", "--single", "--out", tmp_path / "third").status == 0
    new_rows_summary = json.loads((folder / "audit.json").read_text())["new_rows"]
    report = json.loads((tmp_path / "third" / "report.json").read_text())
    assert new_rows_summary["single"] and report["method"] == (
        "ERM" if new_rows_summary["chosen"].startswith("ERM") else "LC"
    )
    assert run_command("audit", "--ask", "5", "--out", folder).status == 0
    assert len(pd.read_csv(folder / "sheet.csv")) == 5


@pytest.mark.slow
def test_onnx_export_gives_the_same_probabilities(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    assert run_command("export", get_run("photos-erm"), "--format", "onnx", "--out", tmp_path / "model").status == 0
    images = np.stack([np.asarray(Image.open(file)) for file in sorted((data_folder / "later" / "one").iterdir())[:5]])
    session = runtime.InferenceSession(tmp_path / "model" / "model.onnx")
    (logits,) = session.run(["logits"], {"images": images.transpose(0, 3, 1, 2)})
    answers = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.abs(answers - load(get_run("photos-erm")).predict_proba(images)).max() < 1e-4


def test_preview_prints_the_rows_per_group(run_command: CommandRunner) -> None:
    result = run_command("preview", "--data", "Digits", "--data.minority_ratio", "0.1")
    assert result.status == 0 and "training rows per group" in result.out + result.err


@pytest.mark.slow
def test_quickstart_trains_and_writes_a_page(run_command: CommandRunner, tmp_path: Path) -> None:
    result = run_command("quickstart", "--out", tmp_path / "quickstart")
    assert result.status == 0 and "ERM" in result.out and "LC" in result.out
    assert re.search(r"valid \d\d\.\d %", result.err)  # in per cent, as in the tables
    assert "LC" in read_page(tmp_path / "quickstart" / "report.html")


def draw_mails(num_rows: int, correlated: bool) -> pd.DataFrame:
    """Return mails in which six words are correlated with the label, or are not."""
    draws = np.random.default_rng(num_rows)
    label = draws.integers(0, 2, num_rows)
    has_words = (draws.random(num_rows) < 0.94) == (label == 1) if correlated else draws.random(num_rows) < 0.5
    texts = []
    for bad, words in zip(label, has_words, strict=True):
        common_words = draws.choice(["please", "help", "with", "printer", "thanks", "screen", "how"], 8)
        content_words = draws.choice(["crash", "broken"] if bad else ["works", "happy"], 2)
        shortcut_words = ["imap", "errors", "quota", "folder", "sync", "inbox"] if words else []
        texts.append(" ".join([*common_words, *content_words, *shortcut_words]))
    return pd.DataFrame({"text": texts, "label": np.where(label, "bad", "good")})


def test_audit_output_fits_80_columns(
    run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_mails(400, True).to_csv(tmp_path / "mails.csv", index=False)
    draw_mails(200, False)[["text"]].to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.setenv("COLUMNS", "80")
    words = ["--data", tmp_path / "mails.csv", "--data.text", "text", "--data.label", "label", "--epochs", 2]
    with use_online_candidates_only():
        result = run_command("audit", *words, "--new-rows", tmp_path / "new.csv", "--out", tmp_path / "audit")
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    copied = [line for line in lines if line.startswith(("  logit-correction", "page:"))]
    assert len(copied) > 1 and all(len(line) <= 80 for line in lines if line not in copied)

    candidates = json.loads((tmp_path / "audit" / "audit.json").read_text())["new_rows"]["candidates"]
    candidates_of_many_words = [
        entry for entry in candidates if sum(view.startswith("word:") for view in entry["views"]) > 2
    ]
    assert candidates_of_many_words
    for candidate in candidates_of_many_words:
        members = [view.partition(":")[2] for view in candidate["views"] if view.startswith("word:")]
        assert candidate["name"].endswith(f"{len(members)} words: {members[0]}, {members[1]} ...")
        prose = " ".join(result.out.split())
        assert prose.count(f"`{'`, `'.join(members[:-1])}` and `{members[-1]}`") == 1  # the whole list, once
        assert sum(line.startswith(candidate["name"]) for line in lines) == 1


def test_readme_commands_train_what_is_advised(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.findall(r"```bash\n(.*?)```", README.read_text(), flags=re.DOTALL)[2]
    lines = [line for line in block.splitlines() if line.startswith("logit-correction")]
    assert [line.split()[1] for line in lines] == ["audit", "train", "predict"]
    shutil.copytree(get_run("audit-asked"), tmp_path / "audit")
    monkeypatch.chdir(tmp_path)
    sheet = pd.read_csv("audit/sheet.csv")
    erm_labels = Audit(Path("audit")).new_rows["prediction_0"].map(dict(enumerate(["ill", "well"])))
    sheet["answer"] = erm_labels[sheet["row"]].to_numpy()  # so that no candidate is better than ERM
    sheet.to_csv("audit/sheet.csv", index=False)
    later = str(data_folder / "later.csv")
    for line in lines[1:]:
        words = shlex.split(line, comments=True)[1:]
        data_options = [*map(str, patient_options(data_folder)), "--epochs", "4"] if words[0] == "train" else []
        words = [word for word in words if data_options == [] or word not in ("--data", "photos")]
        result = run_command(*(later if word == "new-photos" else word for word in words), *data_options)
        assert result.status == 0, result.err
    assert load("fixed").report.display_name == "Average of ERM and LC by Online"
    assert len(pd.read_csv("answers.csv")) == len(pd.read_csv(later))


def test_evaluate_and_report_compute_metrics_per_group(
    run_command: CommandRunner, get_run: RunGetter, data_folder: Path, tmp_path: Path
) -> None:
    words = ["--metric", "precision", "--metric", "sklearn.metrics.roc_auc_score"]
    table_options = ["--on", data_folder / "later.csv", "--attribute", "scanner"]
    folder = get_run("patients-lc")
    result = run_command("evaluate", folder, *table_options, *words, "--json")
    assert result.status == 0, result.err
    rows = pd.read_csv(data_folder / "later.csv")
    groups = json.loads(result.out)["groups"]
    probability = load(folder).predict_proba(data_folder / "later.csv")
    names = load(folder).label_names
    assert {group["attribute"] for group in groups} == {*rows["scanner"]}
    for group in groups:
        in_group = (rows["scanner"] == group["attribute"]).to_numpy()
        has_label = (rows["outcome"] == group["label"]).to_numpy()[in_group]
        predicted_label = probability[in_group].argmax(1) == names.index(group["label"])
        assert group["precision"] == pytest.approx(has_label[predicted_label].mean() if predicted_label.any() else None)
        assert group["roc_auc_score"] == pytest.approx(
            roc_auc_score(has_label, probability[in_group, names.index(group["label"])])
        )
    output = run_command("evaluate", folder, *table_options, *words).out
    assert f"{groups[0]['precision']:.3f}" in output and f"{groups[0]['roc_auc_score']:.3f}" in output
    unknown = run_command("evaluate", folder, "--metric", "precison")
    assert unknown.status == 2 and "precision" in unknown.err

    assert run_command("report", folder, *words, "--out", tmp_path / "page.html").status == 0
    page = read_page(tmp_path / "page.html")
    has_label = json.loads(run_command("evaluate", folder, *words, "--json").out)["groups"]
    assert all(
        f"{group['roc_auc_score']:.2f}" in page.partition("Other metrics")[2] for group in has_label if group["count"]
    )
    assert "--metric sklearn.metrics.roc_auc_score" in page
