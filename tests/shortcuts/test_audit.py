"""An audit from its data to its folder, and what is done with the folder."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import Audit, audit, from_table, load, train
from logit_correction.shortcuts.audit_page import print_audit, render_audit_page
from logit_correction.shortcuts.audit_text import describe_audit
from logit_correction.shortcuts.evidence import EvidenceModel
from logit_correction.shortcuts.summaries import ClassifierCheckSummary, Interval
from logit_correction_lab.sources.planted import Planted

DATA = {"name": "Planted", "set": "column", "rows": 900}
SHORT = {"epochs": 4, "device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, whole_search: Callable[..., Any]) -> Audit:
    with whole_search():
        return audit(DATA, tmp_path_factory.mktemp("audit") / "out", **SHORT)


@pytest.fixture
def folder(found: Audit, tmp_path: Path) -> Path:
    return Path(shutil.copytree(found.path, tmp_path / "copy"))


def conflicts(rows: pd.Series) -> np.ndarray:
    table = Planted(set="column", rows=900).build()
    chosen = torch.tensor(rows.to_numpy(dtype=np.int64))
    return (table.attribute[chosen] != table.label[chosen]).numpy()


@pytest.mark.parametrize("frame", ["{}", "{} best regards the whole team"])
def test_texts_of_which_a_view_learns_no_term_are_audited(frame: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    # Each word stands in one text: all that texts share is the frame, which nearly all of them have.
    texts = [frame.format(" ".join(f"w{number}" for number in draw.integers(10**9, size=6))) for _ in range(200)]
    data = from_table({"mail": texts, "kind": ["a", "b"] * 100}, label="kind", text="mail", folder=tmp_path)
    found = audit(data, tmp_path / "out", **SHORT)
    told = {entry["view"]: entry["rows"] for entry in found.summary["words"] if entry["kind"] == "terms"}
    assert told["word"] == [] and (found.path / "report.html").exists()


def test_two_columns_are_told_by_what_of_them_tells_the_label(tmp_path: Path) -> None:
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
    audit_of = audit(data, tmp_path / "out", shortcut=views, try_fix=False, **SHORT)
    train = frame.iloc[audit_of.rows["row"]]
    compared, ratio = (one["rows"] for one in audit_of.summary["contrasts"])
    assert [row["value"].split(" 1")[0] for row in ratio] == ["height / weight up to", "height / weight from"]
    assert [row["other_rows"] for row in ratio] == [0, 0]
    # What is missing is neither less nor greater.
    told = {row["value"]: row["rows"] + row["other_rows"] for row in compared}
    assert told == {
        "income < spent": (train["income"] < train["spent"]).sum(),
        "income = spent": (train["income"] == train["spent"]).sum(),
        "income > spent": (train["income"] > train["spent"]).sum(),
        "(missing)": train["income"].isna().sum(),
    }


def test_a_view_that_says_the_commonest_label_of_all_rows_is_no_shortcut(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.where(draw.random(500) < 0.9, "no", "yes")
    site = np.where((label == "yes") & (draw.random(500) < 0.3), "b", "a")
    frame = pd.DataFrame({"site": site, "age": draw.normal(size=500), "label": label})
    data = from_table(frame, label="label", folder=tmp_path)
    found = audit(data, tmp_path / "out", **SHORT)
    rows = pd.Series(label)[found.rows["row"]]
    text = " ".join((tmp_path / "out" / "report.html").read_text().replace("\u00a0", " ").split())
    assert found.verdict == "none found" and found.views == []
    assert f"the commonest label {100 * (rows == 'no').mean():.0f} %" in text
    named = audit(data, tmp_path / "named", shortcut="column:site", try_fix=False, **SHORT)
    assert named.views == ["column:site"]  # who says so knows


def test_a_column_that_gives_the_label_away_is_a_leak_and_is_left_out_first(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(400) % 2
    time = np.where(draw.random(400) < 0.98, label, 1 - label)
    frame = pd.DataFrame({"time": time, "age": label + draw.normal(0, 2, 400), "label": np.array(["no", "yes"])[label]})
    found = audit(from_table(frame, label="label", folder=tmp_path), tmp_path / "out", try_fix=False, **SHORT)
    assert found.verdict == "cannot tell" and "may give the label away" in found.summary["sentence"]
    first = next(iter(describe_audit(found.result, "out").commands.values()))
    assert first.startswith("logit-correction train") and first.endswith("--leave_out column:time")


def test_the_shortcut_is_named_with_its_rows_and_what_it_costs(found: Audit) -> None:
    # What the search holds for a shortcut is an accident only to a person: it is corrected, and asked about.
    assert (found.verdict, found.views) == ("cannot tell", ["column:form_version"])
    assert found.summary["evidence"]["verdict"] == "shortcut" and found.summary["new_rows"] is None
    rows = found.rows
    true = conflicts(rows["row"])
    assert (rows["conflicting"].to_numpy(dtype=bool) == true).mean() > 0.99
    assert set(rows["split"]) == {"train"} and rows["row"].is_unique
    assert (rows["network_label"] == rows["label"]).mean() < 0.97  # a network that had seen them would know more
    summary = found.summary
    assert summary["cost"]["network"]["conflicting"]["accuracy"] < summary["cost"]["fixed"]["conflicting"]["accuracy"]
    assert sum(group["rows"] for group in summary["groups"]) == len(rows)
    values = summary["contrasts"][0]
    assert values["kind"] == "values" and {row["value"] for row in values["rows"]} == {"2019-A", "2021-C"}
    assert "legitimate cause" in summary["question"]["text"] and summary["question"]["views"] == ["column:form_version"]


def test_attributes_are_never_read(tmp_path: Path) -> None:
    def of(seed: int) -> dict[str, object]:
        x = np.random.default_rng(0).normal(size=(240, 4)).astype(np.float32)
        names = np.random.default_rng(seed).permutation(np.asarray(["u", "v", None])[np.arange(240) % 3])
        frame = pd.DataFrame(x, columns=list("abcd")).assign(label=np.where(x[:, 0] > 0, "p", "n"), attribute=names)
        given = {"label": "label", "attribute": "attribute", "features": list("abcd")}
        data = from_table(frame, **given, folder=tmp_path / str(seed))
        return audit(data, try_fix=False, **SHORT).summary

    one = of(1)
    other = of(2)
    for summary in (one, other):
        summary.pop("seconds")
        summary["data"] |= {"options": None, "source": None}  # the file's name
    assert one == other


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    found = audit({"name": "Planted", "set": "plain-texts", "rows": 400}, tmp_path / "out", **SHORT)
    assert found.verdict != "shortcut" and found.views == []
    assert found.rows["conflicting"].isna().all() and found.summary["cost"] == {}
    assert not (tmp_path / "out" / "fix.yaml").exists()
    assert found.summary["would_change"]
    told = {"none found": "No shortcut was found.", "cannot tell": "It cannot be told whether there is a shortcut."}
    assert f"<strong>{told[found.verdict]}</strong>" in found._repr_html_()
    assert "Typical of each label: single words" in (found.path / "report.html").read_text()  # a person judges them
    assert found.advised_config.method.name == "ERM"
    assert found.fix(tmp_path / "fixed").report.method == "ERM"  # there is nothing to correct


def test_of_several_named_shortcuts_a_row_conflicts_with_any(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = np.arange(800) % 2
    marks = {name: np.where(draw.random(800) < 0.1, 1 - label, label) for name in ("site", "form")}
    data = from_table(pd.DataFrame({"y": label, "size": label + draw.normal(size=800), **marks}), label="y")
    views = ["column:site", "column:form"]
    found = audit(data, tmp_path / "out", shortcut=views, try_fix=False, **SHORT)
    train = found.rows[found.rows["split"] == "train"]
    own = train["row"].to_numpy(dtype=int)
    conflicting = (marks["site"] != label) | (marks["form"] != label)
    assert (train["conflicting"].to_numpy(dtype=bool) == conflicting[own]).all()
    assert (train["attribute"] == np.where(conflicting, 1 - label, label)[own].astype(str)).all()
    assert (train["score"].to_numpy() > 0.5).tolist() == conflicting[own].tolist()
    fixed = found.fix(tmp_path / "fixed")
    assert fixed.config.method.options["attributes"]["shortcut"] == views
    assert len(fixed.report.to_dict()["test"]["estimated"]["groups"]) == 8


def test_a_classifier_that_is_given_is_examined(tmp_path: Path) -> None:
    biased = train(DATA, tmp_path / "erm", method="ERM", page=False, **SHORT)
    found = audit(DATA, tmp_path / "of-run", run=biased.path, shortcut=["column:form_version"], **SHORT)
    rows = found.rows
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
    again = audit(DATA, predictions=tmp_path / "said.csv", shortcut=["column:form_version"], **SHORT)
    # A check of too few rows says how many there are, and no figure.
    rows = found.summary["evidence"]["rows"]
    told = found.summary["sentence"]
    assert ("A check needs 30" in told) == (rows < 30) and str(rows) in told
    assert (found.summary["cost"] == {}) == (rows < 30)
    assert again.summary["cost"] == found.summary["cost"]


def test_in_doubt_the_page_shows_the_rows_that_it_asks_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvidenceModel, "verdicts", {"shortcut": 1.0, "cannot tell": 0.4})
    found = audit(DATA, tmp_path / "out", **SHORT)
    assert (found.verdict, found.views) == ("cannot tell", [])
    assert not (found.path / "fix.yaml").exists()
    assert found.summary["question"]["views"] == ["column:form_version"]
    assert (found.rows["conflicting"].to_numpy(dtype=bool) == conflicts(found.rows["row"])).mean() > 0.99
    assert found.summary["contrasts"][0]["view"] == "column:form_version" and found.summary["shown"]
    assert "network" in found.summary["cost"] and "fixed" not in found.summary["cost"]


def test_an_audit_ends_with_the_commands_that_fix_and_check_and_a_check_in_doubt_with_a_test(found: Audit) -> None:
    first, second, third, *_ = describe_audit(found.result, "here").commands.values()
    assert first == "logit-correction audit --config here/config.yaml --new-rows new-rows --out another-audit"
    assert second == "logit-correction train --config here/fix.yaml --out fixed"
    assert third == "logit-correction evaluate fixed --on new-rows"  # of so few rows an audit could not tell
    record = found.result.record
    data = replace(record.data, rows={"train": 900, "valid": 9000})
    many = replace(found.result, record=replace(record, data=data))
    assert "audit --run fixed --shortcut column:form_version" in list(describe_audit(many, "here").commands.values())[2]
    assert "--legitimate column:form_version" in (found.path / "report.html").read_text()
    named = replace(record.finding, user_named=True)
    assert named.main_evidence is not None
    few = replace(named, evidence=(replace(named.main_evidence, rows=10),))
    checked = ClassifierCheckSummary(replace(record, finding=few), {}, "fixed")
    assert [*describe_audit(checked, "here").commands.values()] == ["logit-correction evaluate fixed --on new-rows"]
    followed = replace(named, evidence=(replace(named.main_evidence, rows=100, follows_low=0.9),))
    relies = ClassifierCheckSummary(replace(record, finding=followed), {}, "fixed")
    assert "fix.yaml" in next(iter(describe_audit(relies, "here").commands.values()))


def test_a_trial_that_does_not_confirm_the_verdict_stands_beside_it(
    found: Audit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "A trial does not confirm it"
    assert told not in (found.path / "report.html").read_text() and told not in repr(found)
    cost = found.summary["cost"]
    typed = found.result.cost
    less = replace(typed["network"], balanced=Interval(cost["fixed"]["balanced"]["low"] - 0.01, 0, 1))
    lost = replace(found.result, cost={"network": typed["fixed"], "fixed": less})
    page = render_audit_page(lost, folder)
    print_audit(lost, folder / "report.html")
    for text in (page.replace("\u00a0", " "), capsys.readouterr().out.replace("\u00a0", " ")):
        right = [f"{100 * cost[who]['like_training']['accuracy']:.0f}" for who in ("fixed", "network")]
        assert f"on data like yours from {right[0]} % to {right[1]} %" in text
        assert text.index("A network may rely on") < text.index(told) < text.index("--legitimate column:form_version")
        assert text.index(told) < text.index("bias-aligned rows")
        assert "If you are sure that it is an accident all the same, train" in text
    common = replace(found.result.record.finding, majority_share=1.0)
    rare = replace(found.result, record=replace(found.result.record, finding=common))
    page = render_audit_page(rare, folder).replace("\u00a0", " ")
    assert "%, where the commonest label alone is right in 100 %. You decide" in page


def test_what_is_lost_in_small_images_is_shown_at_full_size(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(40):
        grain = np.where(number % 2 == (number % 9 == 0), 40, 4)
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.normal(120, grain, (100, 300, 3)).clip(0, 255).astype(np.uint8)).save(file)
    found = audit(
        tmp_path / "photos", tmp_path / "out", shortcut="spectrum", size=24, network="Linear", try_fix=False, **SHORT
    )
    (contrast,) = found.result.record.contrasts
    own = found.rows[found.rows["conflicting"].eq(True)].sort_values("score", ascending=False, kind="stable")
    first = next(row for row in contrast.rows if row.label == own["label"].iloc[0]).conflict[0]
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(first.image.partition(",")[2]))))
    file = tmp_path / "photos" / own["path"].iloc[0]
    assert (shown == np.asarray(Image.open(file))[18:82, 118:182]).all()
    assert "the middle, 64 pixels wide" in (found.path / "report.html").read_text()


def test_numbers_and_dates_of_a_column_are_read_as_such(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    label = (np.arange(400) % 3 == 0).astype(int)
    taken = pd.Timestamp("2021-01-01") + pd.to_timedelta(draw.integers(0, 90, 400) + 85 * label, unit="D")
    dose = (5 * label + 2 * draw.normal(size=400)).round(1)
    frame = pd.DataFrame({"taken": taken.strftime("%Y-%m-%d"), "dose": dose, "age": draw.normal(size=400).round(2)})
    frame["label"] = np.where(label, "ill", "well")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data = {"name": "Table", "file": str(tmp_path / "rows.csv"), "label": "label"}
    found = audit(data, shortcut=["column:taken", "column:dose"], try_fix=False, **SHORT)
    values = {one["view"]: [row["value"] for row in one["rows"]] for one in found.summary["contrasts"]}
    for column, number in (("taken", r"20\d\d-\d\d-\d\d"), ("dose", r"-?\d+(\.\d)?")):
        first, *between, last = values[f"column:{column}"]
        assert re.fullmatch(f"up to {number}", first) and re.fullmatch(f"from {number}", last)
        assert between and all(re.fullmatch(f"{number} to {number}", one) for one in between)
    counts = [row["other_rows"] for row in found.summary["contrasts"][0]["rows"]]  # bins end where the label changes
    assert sum(counts) <= 0.05 * len(found.rows)
    held = found.rows.set_index("row")["content"]
    assert all(f"taken {frame['taken'][row]}" in text for row, text in held.items())
