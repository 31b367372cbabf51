"""An audit from its data to its folder, and what is done with the folder."""

from __future__ import annotations

import base64
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import Audit, audit, from_table, load, train
from logit_correction.shortcuts.audit_page import print_audit, render_audit_page
from logit_correction.shortcuts.audit_text import describe_audit
from logit_correction.shortcuts.evidence import EvidenceModel
from logit_correction.shortcuts.summaries import AuditSummary, Interval
from logit_correction_lab.sources.planted import Planted

DATA = {"name": "Planted", "set": "column", "rows": 900}
SHORT = {"epochs": 4, "device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def column_audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return audit(DATA, tmp_path_factory.mktemp("audit") / "out", **SHORT)


@pytest.fixture
def folder(column_audit: Audit, tmp_path: Path) -> Path:
    return Path(shutil.copytree(column_audit.path, tmp_path / "copy"))


def find_planted_conflicts(rows: pd.Series) -> np.ndarray:
    table = Planted(set="column", rows=900).build()
    chosen = torch.tensor(rows.to_numpy(dtype=np.int64))
    return (table.attribute[chosen] != table.label[chosen]).numpy()


@pytest.mark.parametrize("frame", ["{}", "{} best regards the whole team"])
def test_audit_of_texts_without_common_terms(frame: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    # Each word stands in one text: all that texts share is the frame, which nearly all of them have.
    texts = [frame.format(" ".join(f"w{number}" for number in draw.integers(10**9, size=6))) for _ in range(200)]
    data = from_table({"mail": texts, "kind": ["a", "b"] * 100}, label="kind", text="mail", folder=tmp_path)
    text_audit = audit(data, tmp_path / "out", **SHORT)
    terms_by_view = {entry["view"]: entry["rows"] for entry in text_audit.summary["words"] if entry["kind"] == "terms"}
    assert terms_by_view["word"] == [] and (text_audit.path / "report.html").exists()


def test_contrasts_of_a_pair_of_columns_show_comparison_and_ratio(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    income, spent = draw.integers(1, 9, (2, 240)).astype(float)
    gaps = draw.random(240) < 0.3
    income[gaps] = np.nan
    yes = gaps | (spent == income)
    weight = draw.uniform(50, 100, 240)
    height = weight * np.where(yes, draw.uniform(1.4, 1.5, 240), draw.uniform(1.5, 1.6, 240))
    columns = {"income": income, "spent": spent, "height": height, "weight": weight}
    frame = pd.DataFrame(columns | {"label": np.where(yes, "yes", "no")})
    data = from_table(frame, label="label", folder=tmp_path)
    views = ["pair:income & spent", "pair:height & weight"]
    pair_audit = audit(data, tmp_path / "out", shortcut=views, try_fix=False, **SHORT)
    train = frame.iloc[pair_audit.rows["row"][pair_audit.rows["split"] == "train"]]
    compared, ratio = (contrast["rows"] for contrast in pair_audit.summary["contrasts"])
    assert [row["value"].split(" 1")[0] for row in ratio] == ["height / weight up to", "height / weight from"]
    assert [row["other_rows"] for row in ratio] == [0, 0]
    # What is missing is neither less nor greater.
    rows_by_value = {row["value"]: row["rows"] + row["other_rows"] for row in compared}
    assert rows_by_value == {
        "income < spent": (train["income"] < train["spent"]).sum(),
        "income = spent": (train["income"] == train["spent"]).sum(),
        "income > spent": (train["income"] > train["spent"]).sum(),
        "(missing)": train["income"].isna().sum(),
    }


def test_view_that_predicts_the_majority_class_is_not_a_shortcut(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.where(draw.random(500) < 0.9, "no", "yes")
    site = np.where((label == "yes") & (draw.random(500) < 0.3), "b", "a")
    frame = pd.DataFrame({"site": site, "age": draw.normal(size=500), "label": label})
    data = from_table(frame, label="label", folder=tmp_path)
    site_audit = audit(data, tmp_path / "out", **SHORT)
    rows = pd.Series(label)[site_audit.rows["row"]]
    text = " ".join((tmp_path / "out" / "report.html").read_text().replace("\u00a0", " ").split())
    assert site_audit.verdict == "none found" and site_audit.views == []
    assert f"the commonest label {100 * (rows == 'no').mean():.0f} %" in text
    user_named_audit = audit(data, tmp_path / "named", shortcut="column:site", try_fix=False, **SHORT)
    assert user_named_audit.views == ["column:site"]  # as the user named it


def test_column_that_contains_the_label_is_reported_as_a_leak_and_left_out(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(400) % 2
    time = np.where(draw.random(400) < 0.98, label, 1 - label)
    frame = pd.DataFrame({"time": time, "age": label + draw.normal(0, 2, 400), "label": np.array(["no", "yes"])[label]})
    leak_audit = audit(from_table(frame, label="label", folder=tmp_path), tmp_path / "out", try_fix=False, **SHORT)
    assert leak_audit.verdict == "cannot tell" and "may give the label away" in leak_audit.summary["sentence"]
    first = next(iter(describe_audit(leak_audit.result, "out").commands.values()))
    assert first.startswith("logit-correction train") and first.endswith("--leave_out column:time")


def test_audit_names_the_shortcut_its_rows_and_its_cost(column_audit: Audit) -> None:
    # What the search holds for a shortcut is an accident only to a person: it is corrected, and asked about.
    assert (column_audit.verdict, column_audit.views) == ("cannot tell", ["column:form_version"])
    assert column_audit.summary["evidence"]["verdict"] == "cannot tell" and column_audit.summary["new_rows"] is None
    rows = column_audit.rows
    true = find_planted_conflicts(rows["row"])
    assert (rows["conflicting"].to_numpy(dtype=bool) == true).mean() > 0.99
    assert set(rows["split"]) == {"train"} and rows["row"].is_unique
    assert (rows["network_label"] == rows["label"]).mean() < 0.97  # a network that had seen them would know more
    summary = column_audit.summary
    assert summary["cost"]["network"]["conflicting"]["accuracy"] < summary["cost"]["fixed"]["conflicting"]["accuracy"]
    assert sum(group["rows"] for group in summary["groups"]) == len(rows)
    values = summary["contrasts"][0]
    assert values["kind"] == "values" and {row["value"] for row in values["rows"]} == {"2019-A", "2021-C"}
    assert "legitimate cause" in summary["question"]["text"] and summary["question"]["views"] == ["column:form_version"]


def test_audit_never_reads_attributes(tmp_path: Path) -> None:
    def audit_with_attributes(seed: int) -> dict[str, object]:
        x = np.random.default_rng(0).normal(size=(240, 4)).astype(np.float32)
        names = np.random.default_rng(seed).permutation(np.asarray(["u", "v", None])[np.arange(240) % 3])
        frame = pd.DataFrame(x, columns=list("abcd")).assign(label=np.where(x[:, 0] > 0, "p", "n"), attribute=names)
        options = {"label": "label", "attribute": "attribute", "features": list("abcd")}
        data = from_table(frame, **options, folder=tmp_path / str(seed))
        return audit(data, try_fix=False, **SHORT).summary

    first_summary = audit_with_attributes(1)
    second_summary = audit_with_attributes(2)
    for summary in (first_summary, second_summary):
        summary.pop("seconds")
        summary["data"] |= {"options": None, "source": None}  # the file's name
    assert first_summary == second_summary


def test_audit_of_plain_texts_finds_no_shortcut(tmp_path: Path) -> None:
    text_audit = audit({"name": "Planted", "set": "plain-texts", "rows": 400}, tmp_path / "out", **SHORT)
    assert text_audit.verdict != "shortcut" and text_audit.views == []
    assert text_audit.rows["conflicting"].isna().all() and text_audit.summary["cost"] == {}
    advised = text_audit.advised_config
    assert advised.method.name == "ERM" and advised.training.refit is (text_audit.verdict == "none found")
    assert text_audit.summary["would_change"]
    headlines = {
        "none found": "No shortcut was found.",
        "cannot tell": "It cannot be told whether there is a shortcut.",
    }
    assert f"<strong>{headlines[text_audit.verdict]}</strong>" in text_audit._repr_html_()
    assert (
        "Typical of each label: single words" in (text_audit.path / "report.html").read_text()
    )  # a person judges them
    assert text_audit.advised_config.method.name == "ERM"
    assert text_audit.fix(tmp_path / "fixed").report.method == "ERM"  # there is nothing to correct


def test_row_conflicts_with_any_of_several_named_shortcuts(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(800) % 2
    marks = {name: np.where(draw.random(800) < 0.1, 1 - label, label) for name in ("site", "form")}
    data = from_table(pd.DataFrame({"y": label, "size": label + draw.normal(size=800), **marks}), label="y")
    views = ["column:site", "column:form"]
    two_shortcut_audit = audit(data, tmp_path / "out", shortcut=views, try_fix=False, **SHORT)
    train = two_shortcut_audit.rows[two_shortcut_audit.rows["split"] == "train"]
    row_indices = train["row"].to_numpy(dtype=int)
    conflicting = (marks["site"] != label) | (marks["form"] != label)
    assert (train["conflicting"].to_numpy(dtype=bool) == conflicting[row_indices]).all()
    assert (train["attribute"] == np.where(conflicting, 1 - label, label)[row_indices].astype(str)).all()
    assert (train["score"].to_numpy() > 0.5).tolist() == conflicting[row_indices].tolist()
    fixed = two_shortcut_audit.fix(tmp_path / "fixed")
    assert fixed.config.method.options["attributes"]["shortcut"] == views
    assert len(fixed.report.to_dict()["test"]["estimated"]["groups"]) == 8


def test_audit_examines_a_given_run_or_file_of_predictions(tmp_path: Path) -> None:
    biased = train(DATA, tmp_path / "erm", method="ERM", page=False, **SHORT)
    run_audit = audit(DATA, tmp_path / "of-run", run=biased.path, shortcut=["column:form_version"], **SHORT)
    rows = run_audit.rows
    assert set(rows["split"]) == {"train", "valid"}
    assert rows.loc[rows["split"] == "train", "network_label"].isna().all()  # it was trained on those
    page = (tmp_path / "of-run" / "report.html").read_text()
    assert "relies on the column <code>form_version</code>" in page and "ERM" not in page
    # The same classifier's answers as a file.
    table = Planted(set="column", rows=900).build()
    valid = table.split["valid"]
    probability = load(biased.path).predict_proba(table.inputs.fetch(valid).numpy())
    columns = {f"probability_{name}": probability[:, i] for i, name in enumerate(table.label_names)}
    pd.DataFrame({"row": valid.numpy(), **columns}).to_csv(tmp_path / "said.csv", index=False)
    file_audit = audit(DATA, predictions=tmp_path / "said.csv", shortcut=["column:form_version"], **SHORT)
    # A check of too few rows says how many there are, and no figure.
    rows = run_audit.summary["evidence"]["rows"]
    sentence = run_audit.summary["sentence"]
    assert ("A check needs 30" in sentence) == (rows < 30) and str(rows) in sentence
    assert (run_audit.summary["cost"] == {}) == (rows < 30)
    assert file_audit.summary["cost"] == run_audit.summary["cost"]


def test_audit_in_doubt_shows_the_rows_in_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvidenceModel, "verdicts", {"shortcut": 1.0, "cannot tell": 0.4})
    doubtful_audit = audit(DATA, tmp_path / "out", **SHORT)
    assert (doubtful_audit.verdict, doubtful_audit.views) == ("cannot tell", [])
    assert not (doubtful_audit.path / "fix.yaml").exists()
    assert doubtful_audit.summary["question"]["views"] == ["column:form_version"]
    assert (
        doubtful_audit.rows["conflicting"].to_numpy(dtype=bool) == find_planted_conflicts(doubtful_audit.rows["row"])
    ).mean() > 0.99
    assert doubtful_audit.summary["contrasts"][0]["view"] == "column:form_version" and doubtful_audit.summary["shown"]
    assert "network" in doubtful_audit.summary["cost"] and "fixed" not in doubtful_audit.summary["cost"]


def test_audit_describes_the_commands_to_fix_and_check(column_audit: Audit) -> None:
    first, second, third, *_ = describe_audit(column_audit.result, "here").commands.values()
    assert first == "logit-correction audit --config here/config.yaml --new-rows new-rows --out another-audit"
    assert second == "logit-correction train --config here/fix.yaml --out fixed"
    assert third == "logit-correction evaluate fixed --on new-rows"  # of so few rows an audit could not tell
    record = column_audit.result.record
    data = replace(record.data, rows={"train": 900, "valid": 9000})
    many = replace(column_audit.result, record=replace(record, data=data))
    assert "audit --run fixed --shortcut column:form_version" in list(describe_audit(many, "here").commands.values())[2]
    assert "--legitimate column:form_version" in (column_audit.path / "report.html").read_text()
    user_named_finding = replace(record.finding, user_named=True)
    assert user_named_finding.main_evidence is not None
    few = replace(user_named_finding, evidence=(replace(user_named_finding.main_evidence, rows=10),))
    checked = AuditSummary(replace(record, finding=few), {}, "fixed")
    assert [*describe_audit(checked, "here").commands.values()] == ["logit-correction evaluate fixed --on new-rows"]
    followed = replace(
        user_named_finding, evidence=(replace(user_named_finding.main_evidence, rows=100, follows_low=0.9),)
    )
    relies = AuditSummary(replace(record, finding=followed), {}, "fixed")
    assert "fix.yaml" in next(iter(describe_audit(relies, "here").commands.values()))


def test_page_says_if_the_trial_does_not_confirm_the_verdict(
    column_audit: Audit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "A trial does not confirm it"
    assert warning not in (column_audit.path / "report.html").read_text() and warning not in repr(column_audit)
    cost = column_audit.summary["cost"]
    typed = column_audit.result.cost
    less = replace(typed["network"], balanced=Interval(cost["fixed"]["balanced"]["low"] - 0.01, 0, 1))
    lost = replace(column_audit.result, cost={"network": typed["fixed"], "fixed": less})
    page = render_audit_page(lost, folder)
    print_audit(lost, folder / "report.html")
    for text in (page.replace("\u00a0", " "), capsys.readouterr().out.replace("\u00a0", " ")):
        right = [f"{100 * cost[classifier]['like_training']['accuracy']:.0f}" for classifier in ("fixed", "network")]
        assert f"on data like yours from {right[0]} % to {right[1]} %" in text
        assert (
            text.index("A network may rely on") < text.index(warning) < text.index("--legitimate column:form_version")
        )
        assert text.index(warning) < text.index("bias-aligned rows")
        assert "If you are sure that it is an accident all the same, train" in text
    common = replace(column_audit.result.record.finding, majority_share=1.0)
    rare = replace(column_audit.result, record=replace(column_audit.result.record, finding=common))
    page = render_audit_page(rare, folder).replace("\u00a0", " ")
    assert "%, where the commonest label alone is right in 100 %. You decide" in page


def test_page_shows_detail_lost_in_small_images_at_full_size(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(40):
        grain = np.where(number % 2 == (number % 9 == 0), 40, 4)
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.normal(120, grain, (100, 300, 3)).clip(0, 255).astype(np.uint8)).save(file)
    photo_audit = audit(
        tmp_path / "photos", tmp_path / "out", shortcut="spectrum", size=24, network="Linear", try_fix=False, **SHORT
    )
    (contrast,) = photo_audit.result.record.contrasts
    conflicting_rows = photo_audit.rows[photo_audit.rows["conflicting"].eq(True)].sort_values(
        "score", ascending=False, kind="stable"
    )
    first = next(row for row in contrast.rows if row.label == conflicting_rows["label"].iloc[0]).conflict[0]
    shown_pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(first.image.partition(",")[2]))))
    file = tmp_path / "photos" / conflicting_rows["path"].iloc[0]
    assert (shown_pixels == np.asarray(Image.open(file))[18:82, 118:182]).all()
    assert "64 pixels wide" in (photo_audit.path / "report.html").read_text()


def test_contrasts_of_number_and_date_columns_are_intervals(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = (np.arange(400) % 3 == 0).astype(int)
    date = pd.Timestamp("2021-01-01") + pd.to_timedelta(draw.integers(0, 90, 400) + 85 * label, unit="D")
    dose = (5 * label + 2 * draw.normal(size=400)).round(1)
    frame = pd.DataFrame({"taken": date.strftime("%Y-%m-%d"), "dose": dose, "age": draw.normal(size=400).round(2)})
    frame["label"] = np.where(label, "ill", "well")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data = {"name": "Table", "file": str(tmp_path / "rows.csv"), "label": "label"}
    two_column_audit = audit(data, shortcut=["column:taken", "column:dose"], try_fix=False, **SHORT)
    values = {
        contrast["view"]: [row["value"] for row in contrast["rows"]]
        for contrast in two_column_audit.summary["contrasts"]
    }
    for column, number in (("taken", r"20\d\d-\d\d-\d\d"), ("dose", r"-?\d+(\.\d)?")):
        first, *between, last = values[f"column:{column}"]
        assert re.fullmatch(f"up to {number}", first) and re.fullmatch(f"from {number}", last)
        assert between and all(re.fullmatch(f"{number} to {number}", contrast) for contrast in between)
    counts = [
        row["other_rows"] for row in two_column_audit.summary["contrasts"][0]["rows"]
    ]  # bins end where the label changes
    assert sum(counts) <= 0.05 * len(two_column_audit.rows)
    content = two_column_audit.rows.set_index("row")["content"]
    assert all(f"taken {frame['taken'][row]}" in text for row, text in content.items())
