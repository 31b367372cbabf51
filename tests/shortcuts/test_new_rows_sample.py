"""What an audit shows of views that differ between the training data and new rows."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction import Audit, audit
from logit_correction.checksums import write_checksums
from logit_correction.shortcuts import new_rows_sample
from logit_correction.shortcuts.audit_files import SEALED
from logit_correction.shortcuts.shift import MAX_VALUES

from .conftest import SHIFTED_FRAME, SHORT, TRAINING_FRAME

SUBJECTS = ("bill", "lunch", "train", "garden")


def read_page(audit_with_page: Audit) -> str:
    return (audit_with_page.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")


def read_changes(audit_with_page: Audit) -> list[str]:
    """The lines below the heading ``What changed``, without tags."""
    part = read_page(audit_with_page).partition("<h2>What changed</h2>")[2].partition("<h2>")[0]
    return [html.unescape(re.sub(r"<.*?>", "", line)) for line in re.findall(r"<li>(.*?)</li>", part)]


def draw_sites(rows: int, north: float, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.where(draw.random(rows) < north, "<b>north</b>", np.where(draw.random(rows) < 0.9, "south", "west"))


def test_shifted_column_is_listed_first_with_its_values(tmp_path: Path) -> None:
    """Values of the data are escaped; without a label, nothing about the columns that did not change."""
    old = TRAINING_FRAME.assign(site=draw_sites(600, 0.48, 0))
    new = SHIFTED_FRAME.assign(site=draw_sites(300, 0.03, 1), age=SHIFTED_FRAME["age"] + 9).drop(columns="outcome")
    shifted = audit(old, tmp_path / "out", new_rows=new, **SHORT)
    shifts = shifted.summary["new_rows"]["view_shifts"]
    assert [shift["auc"] for shift in shifts] == sorted((shift["auc"] for shift in shifts), reverse=True)
    assert {shift["view"] for shift in shifts if shift["auc_low"] > 0.5} == {"column:site", "column:age"}
    site = next(shift for shift in shifts if shift["view"] == "column:site")
    share = (new["site"] == "<b>north</b>").mean()
    assert site["values"][0]["value"] == "<b>north</b>" and site["values"][0]["new_share"] == share
    assert abs(site["values"][0]["old_share"] - 0.48) < 0.12  # of the validation rows
    age = next(shift for shift in shifts if shift["view"] == "column:age")
    assert 1 <= len(age["values"]) <= MAX_VALUES and any("from" in value["value"] for value in age["values"])
    lines = read_changes(shifted)
    assert len(lines) == 2
    text = next(line for line in lines if "site" in line)
    assert re.match(r"The column site: <b>north</b> \d+ % of the training data, \d % of the new rows; ", text)
    assert "<b>north</b>" not in (shifted.path / "report.html").read_text(encoding="utf-8")


def test_page_says_if_no_single_view_separates_new_rows(shifted_audit: Audit) -> None:
    """Only the correlation of scanner and outcome has changed, which no view shows without labels."""
    assert all(shift["auc_low"] <= 0.5 for shift in shifted_audit.summary["new_rows"]["view_shifts"])
    assert read_changes(shifted_audit) == [] and "No view alone separates" in read_page(shifted_audit)


def test_words_with_other_shares_are_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    texts = []
    labels = []
    for number in range(500):
        is_new = number >= 300
        label = number % 2
        words = draw.choice(SUBJECTS, 4).tolist() + ["yes" if label else "no"] * 2
        words += ["webinar"] if is_new and draw.random() < 0.7 else ["fax"] if draw.random() < 0.5 else []
        texts.append(" ".join(draw.permutation(words)))
        labels.append("ham" if label else "spam")
    data = pd.DataFrame({"text": texts, "label": labels})
    text_audit = audit(data[:300], tmp_path / "out", new_rows=data["text"][300:].tolist(), label="label", text="text",
                  epochs=2, threads=1)  # fmt: skip
    words = next(shift for shift in text_audit.summary["new_rows"]["view_shifts"] if shift["view"] == "word")
    assert words["auc_low"] > 0.5
    fax = next(value for value in words["values"] if value["value"] == "fax")
    true_share = data["text"][300:].str.contains("fax").mean()
    assert abs(fax["new_share"] - true_share) < 1e-6 and abs(fax["old_share"] - 0.5) < 0.15


def test_random_sample_of_many_rows_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more rows than are compared a random part counts, and repeating the audit repeats its figures."""
    monkeypatch.setattr(new_rows_sample, "MAX_ROWS", 60)
    new = SHIFTED_FRAME.drop(columns="outcome")
    audits = [audit(TRAINING_FRAME, tmp_path / name, new_rows=new, **SHORT | {"epochs": 1}) for name in ("one", "two")]
    shifts = [audit_.summary["new_rows"]["view_shifts"] for audit_ in audits]
    assert shifts[0] == shifts[1]
    share = next(shift for shift in shifts[0] if shift["view"] == "column:scanner")["values"]
    assert all(round(value["new_share"] * 60, 6) == round(value["new_share"] * 60) for value in share)


def test_few_new_rows_are_not_compared_view_by_view(tmp_path: Path) -> None:
    small_audit = audit(TRAINING_FRAME, tmp_path / "out", new_rows=SHIFTED_FRAME.drop(columns="outcome")[:5], **SHORT)
    assert small_audit.summary["new_rows"]["view_shifts"] is None and "What changed" not in read_page(small_audit)


def test_audit_of_an_older_version_can_be_read(shifted_audit: Audit, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shifted_audit.path, tmp_path / "older"))
    values = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    del values["new_rows"]["view_shifts"]
    (folder / "audit.json").write_text(json.dumps(values), encoding="utf-8")
    rows = pd.read_parquet(folder / "new_rows.parquet")
    former_names = {"prediction": "says", "distance_to_erm": "apart", "inclusion_probability": "chance"}
    rows.columns = pd.Index(
        [re.sub(r"(.*)(_\d)$", lambda name: former_names[name[1]] + name[2], name) for name in rows]
    )
    assert {"says_0", "apart_0", "chance_1"} < {*rows}
    rows.to_parquet(folder / "new_rows.parquet", index=False)
    write_checksums(folder, SEALED, folder)
    older_audit = Audit(folder)
    pd.testing.assert_frame_equal(older_audit.new_rows, shifted_audit.new_rows)
    assert older_audit.result.selection.view_shifts is None and older_audit.ask(25) is not None
    assert "What changed" not in read_page(older_audit)
