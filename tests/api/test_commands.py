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

from ..shortcuts.conftest import online_alone

CommandRunner = Callable[..., Any]
Run = Callable[[str], Path]

README = Path(__file__).parents[2] / "README.md"

TINY = ("--data", "Digits", "--epochs", "1", "--threads", "1")

#: A word for each kind of `list`, which must be among what it names.
LISTED = {
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


def patients(here: Path) -> tuple[object, ...]:
    """Return the words that name the table of patients."""
    return ("--data", here / "patients.csv", "--data.label", "outcome", "--data.features", "*", "--threads", "1")


def python(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    words = (sys.executable, *words)
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=dict(os.environ))


def test_the_program_in_a_process_of_its_own(tmp_path: Path) -> None:
    answer = python("-m", "logit_correction", "--help", cwd=tmp_path)
    assert answer.returncode == 0 and answer.stderr == ""
    commands = "quickstart train evaluate predict report benchmark audit export list"
    assert all(f" {name} " in answer.stdout for name in commands.split())


def test_help_and_version(run_command: CommandRunner) -> None:
    for name in ("train", "evaluate", "predict", "report", "benchmark", "audit", "export", "list"):
        answer = run_command(name, "--help")
        assert answer.status == 0 and "usage" in answer.out.lower() and answer.err == ""
    assert run_command("--version").out.strip() == __version__
    shown = run_command("train", "--data", "ColoredMNIST", "--method", "LC", "--help").out
    assert "--data.minority_ratio" in shown and "--method.strength" in shown


@pytest.mark.parametrize("kind", LISTED)
def test_list(kind: str, run_command: CommandRunner) -> None:
    answer = run_command("list", kind)
    assert answer.status == 0
    shown = answer.out.split()
    assert [name for name in LISTED[kind].split() if name not in shown] == []


def test_train_prints_the_table_and_names_the_page(run: Run) -> None:
    folder = run("digits-erm")
    out = folder.parent.parent.joinpath("digits-erm.out").read_text()
    assert "ERM" in out and "27.9" in out and "report.html" in out
    assert "ERM" in read_page(folder / "report.html")


def test_print_config_runs_nothing(run_command: CommandRunner, tmp_path: Path) -> None:
    answer = run_command("train", *TINY, "--method", "LC", "--print_config", "--out", tmp_path / "run")
    config = yaml.safe_load(answer.out)
    assert answer.status == 0 and config["data"]["name"] == "Digits" and not (tmp_path / "run").exists()


def test_to_resume_a_finished_run_changes_nothing(run_command: CommandRunner, run: Run) -> None:
    folder = run("digits-jtt")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = run_command("train", "--resume", "--out", folder)
    assert answer.status in (0, 2) and "Traceback" not in answer.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_train_by_given_attributes(run_command: CommandRunner, run: Run, tmp_path: Path) -> None:
    config = run("audit-patients") / "fix.yaml"
    assert run_command("train", "--config", config, "--epochs", "2", "--out", tmp_path / "fixed").status == 0
    options = json.loads((tmp_path / "fixed" / "report.json").read_text())["method_options"]["attributes"]
    assert options["name"] == "Given" and options["file"].endswith("rows.csv")
    words = ("audit", "--run", tmp_path / "fixed")  # on the data of the run
    assert run_command(*words, "--shortcut", "column:scanner", "--out", tmp_path / "audit").status == 0
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert found["examined"] is not None and found["views"] == ["column:scanner"]


def test_evaluate_gives_the_figures_of_the_report(run_command: CommandRunner, run: Run) -> None:
    folder = run("patients-lc")
    report = json.loads((folder / "report.json").read_text())
    found = json.loads(run_command("evaluate", folder, "--json").out)
    for name in ("average", "group_balanced", "worst_group", "worst_class"):
        assert found[name] == report["test"][name]
    assert [group["accuracy"] for group in found["groups"]] == [g["accuracy"] for g in report["test"]["groups"]]
    shown = run_command("evaluate", folder).out
    assert "ill" in shown and "margin" not in shown and "90 % interval" in shown
    assert json.loads(run_command("evaluate", folder, "--split", "valid", "--json").out)["count"] == 60


def test_evaluate_on_new_rows(run_command: CommandRunner, run: Run, here: Path) -> None:
    answer = run_command("evaluate", run("patients-lc"), "--on", here / "later.csv", "--attribute", "scanner", "--json")
    found = json.loads(answer.out)
    assert answer.status == 0 and found["count"] == 120
    assert {(g["label"], g["attribute"]) for g in found["groups"]} == {
        (a, b) for a in ("ill", "well") for b in ("old", "new")
    }
    found = json.loads(run_command("evaluate", run("photos-erm"), "--on", here / "later", "--json").out)
    files = list((here / "later").rglob("*.png"))
    assert found["count"] == len(files) and 0.4 < found["average"] < 0.95


def test_predict_a_table(run_command: CommandRunner, run: Run, here: Path, tmp_path: Path) -> None:
    answer = run_command("predict", run("patients-lc"), here / "later.csv", "--out", tmp_path / "answers.csv")
    assert answer.status == 0
    rows = pd.read_csv(tmp_path / "answers.csv")
    assert list(rows) == ["line", "label", "probability_ill", "probability_well"] and len(rows) == 120
    assert rows["line"].tolist() == list(range(2, 122))
    assert (rows[["probability_ill", "probability_well"]].sum(axis=1) - 1).abs().max() < 1e-5
    truth = pd.read_csv(here / "later.csv")["outcome"]
    found = json.loads(run_command("evaluate", run("patients-lc"), "--on", here / "later.csv", "--json").out)
    assert (rows["label"] == truth).mean() == pytest.approx(found["average"])


def test_predict_files_a_folder_and_a_csv_of_names(
    run_command: CommandRunner, run: Run, here: Path, tmp_path: Path
) -> None:
    shutil.copytree(here / "later" / "one", tmp_path / "one")
    files = sorted((tmp_path / "one").iterdir())
    pd.DataFrame({"path": [f"one/{file.name}" for file in files]}).to_csv(tmp_path / "names.csv", index=False)
    tables = []
    for number, words in enumerate((files, [tmp_path / "one"], [tmp_path / "names.csv"])):
        out = tmp_path / f"{number}.csv"
        assert run_command("predict", run("photos-erm"), *words, "--out", out).status == 0
        tables.append(pd.read_csv(out))
    columns = ["path", "label", *(f"probability_{name}" for name in ("five", "four", "one", "three"))]
    assert all(list(table) == columns and len(table) == len(files) for table in tables)
    assert all(table.drop(columns="path").equals(tables[0].drop(columns="path")) for table in tables)


def test_report_compares_runs(run_command: CommandRunner, run: Run, tmp_path: Path) -> None:
    runs = [run("digits-erm"), run("digits-lc")]
    assert run_command("report", *runs, "--out", tmp_path / "page.html").status == 0
    text = read_page(tmp_path / "page.html")
    assert "ERM" in text and "LC" in text and "27.9" in text and "35.3" in text and "colour" in text


def test_audit(run_command: CommandRunner, run: Run, here: Path, tmp_path: Path) -> None:
    folder = run("audit-patients")
    text = read_page(folder / "report.html")
    assert "shortcut" in text and "scanner" in text
    words = ("audit", *patients(here), "--epochs", "2", "--try-fix", "false", "--fail-on", "shortcut", "--json")
    answer = run_command(*words, "--shortcut", "column:scanner", "--out", tmp_path / "named")
    assert answer.status == 3 and json.loads(answer.out)["verdict"] == "shortcut"


def test_new_rows_and_answers_about_them_choose_what_is_trained(
    run_command: CommandRunner, here: Path, tmp_path: Path
) -> None:
    truth = pd.read_csv(here / "later.csv")
    truth.drop(columns="outcome").to_csv(tmp_path / "new.csv", index=False)
    folder = tmp_path / "first-audit"
    words = ("train", *patients(here), "--epochs", "4")
    named = ("--shortcut", "column:sex")  # which no search would try
    with online_alone():
        first = run_command(*words, *named, "--new-rows", tmp_path / "new.csv", "--out", tmp_path / "first")
    assert first.status == 0 and "audit --answers" in first.out
    assert json.loads((tmp_path / "first" / "report.json").read_text())["method"] == "ERM"  # nobody has said more
    sheet = pd.read_csv(folder / "sheet.csv")
    assert list(sheet) == ["row", "line", "content", "answer"] and len(sheet) == 20 and sheet["answer"].isna().all()
    wrong = sheet.assign(answer="maybe")
    wrong.to_csv(tmp_path / "wrong.csv", index=False)
    answer = run_command("audit", "--answers", tmp_path / "wrong.csv", "--out", folder)
    assert answer.status == 2 and "'maybe' is not a label" in answer.err
    sheet.assign(answer=truth["outcome"].iloc[sheet["row"]].str.upper().to_numpy()).to_csv(folder / "sheet.csv")
    assert run_command(*words, "--answers", folder / "sheet.csv", "--out", tmp_path / "second").status == 0
    found = json.loads((folder / "audit.json").read_text())["new_rows"]
    assert "ERM without the column sex" in [one["name"] for one in found["candidates"]]
    assert found["answers"] == 20 and found["chosen"] in [one["name"] for one in found["candidates"]]
    report = json.loads((tmp_path / "second" / "report.json").read_text())
    assert report["method"] == ("ERM" if found["chosen"] == "ERM" else "Average")
    assert run_command(*words, "--answers", folder / "sheet.csv", "--single", "--out", tmp_path / "third").status == 0
    found = json.loads((folder / "audit.json").read_text())["new_rows"]
    report = json.loads((tmp_path / "third" / "report.json").read_text())
    assert found["single"] and report["method"] == ("ERM" if found["chosen"].startswith("ERM") else "LC")
    assert run_command("audit", "--ask", "5", "--out", folder).status == 0
    assert len(pd.read_csv(folder / "sheet.csv")) == 5


@pytest.mark.slow
def test_export_to_onnx_gives_the_same_answers(
    run_command: CommandRunner, run: Run, here: Path, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    assert run_command("export", run("photos-erm"), "--format", "onnx", "--out", tmp_path / "model").status == 0
    images = np.stack([np.asarray(Image.open(file)) for file in sorted((here / "later" / "one").iterdir())[:5]])
    session = runtime.InferenceSession(tmp_path / "model" / "model.onnx")
    (logits,) = session.run(["logits"], {"images": images.transpose(0, 3, 1, 2)})
    answers = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.abs(answers - load(run("photos-erm")).predict_proba(images)).max() < 1e-4


def test_preview(run_command: CommandRunner) -> None:
    answer = run_command("preview", "--data", "Digits", "--data.minority_ratio", "0.1")
    assert answer.status == 0 and "training rows per group" in answer.out + answer.err


@pytest.mark.slow
def test_quickstart(run_command: CommandRunner, tmp_path: Path) -> None:
    answer = run_command("quickstart", "--out", tmp_path / "quickstart")
    assert answer.status == 0 and "ERM" in answer.out and "LC" in answer.out
    assert re.search(r"valid \d\d\.\d %", answer.err)  # in per cent, as in the tables
    assert "LC" in read_page(tmp_path / "quickstart" / "report.html")


def mails(num_rows: int, correlated: bool) -> pd.DataFrame:
    """Return mails in which six words go with the label, or do not."""
    draws = np.random.default_rng(num_rows)
    label = draws.integers(0, 2, num_rows)
    has_words = (draws.random(num_rows) < 0.94) == (label == 1) if correlated else draws.random(num_rows) < 0.5
    texts = []
    for bad, words in zip(label, has_words, strict=True):
        ordinary = draws.choice(["please", "help", "with", "printer", "thanks", "screen", "how"], 8)
        telling = draws.choice(["crash", "broken"] if bad else ["works", "happy"], 2)
        aside = ["imap", "errors", "quota", "folder", "sync", "inbox"] if words else []
        texts.append(" ".join([*ordinary, *telling, *aside]))
    return pd.DataFrame({"text": texts, "label": np.where(label, "bad", "good")})


def test_an_audit_can_be_read_on_a_terminal_of_80_columns(
    run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails(400, True).to_csv(tmp_path / "mails.csv", index=False)
    mails(200, False)[["text"]].to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.setenv("COLUMNS", "80")
    words = ["--data", tmp_path / "mails.csv", "--data.text", "text", "--data.label", "label", "--epochs", 2]
    answer = run_command("audit", *words, "--new-rows", tmp_path / "new.csv", "--out", tmp_path / "audit")
    assert answer.status == 0, answer.err
    lines = answer.out.splitlines()
    copied = [line for line in lines if line.startswith(("  logit-correction", "page:"))]
    assert len(copied) > 1 and all(len(line) <= 80 for line in lines if line not in copied)

    candidates = json.loads((tmp_path / "audit" / "audit.json").read_text())["new_rows"]["candidates"]
    many = [one for one in candidates if sum(view.startswith("word:") for view in one["views"]) > 2]
    assert many
    for candidate in many:
        members = [view.partition(":")[2] for view in candidate["views"] if view.startswith("word:")]
        assert candidate["name"].endswith(f"{len(members)} words: {members[0]}, {members[1]} ...")
        prose = " ".join(answer.out.split())
        assert prose.count(f"`{'`, `'.join(members[:-1])}` and `{members[-1]}`") == 1  # the whole list, once
        assert sum(line.startswith(candidate["name"]) for line in lines) == 1


def test_the_lines_of_the_readme_train_what_an_audit_advises_also_where_that_is_erm(
    run_command: CommandRunner, run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.findall(r"```bash\n(.*?)```", README.read_text(), flags=re.DOTALL)[2]
    lines = [line for line in block.splitlines() if line.startswith("logit-correction")]
    assert [line.split()[1] for line in lines] == ["audit", "train", "predict"]
    shutil.copytree(run("audit-asked"), tmp_path / "audit")
    monkeypatch.chdir(tmp_path)
    sheet = pd.read_csv("audit/sheet.csv")
    says = Audit(Path("audit")).new_rows["says_0"].map(dict(enumerate(["ill", "well"])))
    sheet["answer"] = says[sheet["row"]].to_numpy()  # so that no candidate is better than ERM
    sheet.to_csv("audit/sheet.csv", index=False)
    later = str(here / "later.csv")
    for line in lines[1:]:
        words = shlex.split(line, comments=True)[1:]
        own = [*map(str, patients(here)), "--epochs", "4"] if words[0] == "train" else []
        words = [word for word in words if own == [] or word not in ("--data", "photos")]
        answer = run_command(*(later if word == "new-photos" else word for word in words), *own)
        assert answer.status == 0, answer.err
    assert load("fixed").config.method.name == "ERM" and len(pd.read_csv("answers.csv")) == len(pd.read_csv(later))


def test_metrics_of_each_group_by_name_and_by_a_dotted_path(
    run_command: CommandRunner, run: Run, here: Path, tmp_path: Path
) -> None:
    words = ["--metric", "precision", "--metric", "sklearn.metrics.roc_auc_score"]
    of_table = ["--on", here / "later.csv", "--attribute", "scanner"]
    folder = run("patients-lc")
    answer = run_command("evaluate", folder, *of_table, *words, "--json")
    assert answer.status == 0, answer.err
    rows = pd.read_csv(here / "later.csv")
    groups = json.loads(answer.out)["groups"]
    probability = load(folder).predict_proba(here / "later.csv")
    names = load(folder).label_names
    assert {group["attribute"] for group in groups} == {*rows["scanner"]}
    for group in groups:
        there = (rows["scanner"] == group["attribute"]).to_numpy()
        own = (rows["outcome"] == group["label"]).to_numpy()[there]
        said = probability[there].argmax(1) == names.index(group["label"])
        assert group["precision"] == pytest.approx(own[said].mean() if said.any() else None)
        assert group["roc_auc_score"] == pytest.approx(
            roc_auc_score(own, probability[there, names.index(group["label"])])
        )
    shown = run_command("evaluate", folder, *of_table, *words).out
    assert f"{groups[0]['precision']:.3f}" in shown and f"{groups[0]['roc_auc_score']:.3f}" in shown
    unknown = run_command("evaluate", folder, "--metric", "precison")
    assert unknown.status == 2 and "precision" in unknown.err

    assert run_command("report", folder, *words, "--out", tmp_path / "page.html").status == 0
    page = read_page(tmp_path / "page.html")
    own = json.loads(run_command("evaluate", folder, *words, "--json").out)["groups"]
    assert all(f"{group['roc_auc_score']:.2f}" in page.partition("Other metrics")[2] for group in own if group["count"])
    assert "--metric sklearn.metrics.roc_auc_score" in page
