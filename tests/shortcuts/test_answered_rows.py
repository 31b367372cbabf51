"""What an audit shows of the rows that a person has labelled."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction import Audit, audit
from logit_correction.shortcuts.answered_rows import count_answers
from logit_correction.shortcuts.summaries import AnsweredRow, SelectionSummary

from .conftest import CHANGED, filled, says
from .test_new_rows import photos  # noqa: F401


@pytest.fixture
def answered(changed: Audit, tmp_path: Path) -> Audit:
    found = Audit(shutil.copytree(changed.path, tmp_path / "answered"))
    return found.answer(filled(found).iloc[:18])


def test_each_answer_is_shown_with_what_is_predicted_of_it(answered: Audit) -> None:
    rows = answered.summary["new_rows"]["answered_rows"]
    assert len(rows) == 18 and {row["row"] for row in rows} == set(filled(answered)["row"][:18])
    names = np.array(["ill", "well"])
    for row in rows:
        assert row["label"] == CHANGED["outcome"][row["row"]]
        assert row["erm_label"] == names[says(answered.new_rows)[0, row["row"]]]
        assert row["text"].startswith("age ") and row["name"] == f"row {row['row']}"
    disputed = [row["erm_label"] != row["compared_label"] for row in rows]
    assert disputed == sorted(disputed, reverse=True) and any(disputed)
    page = (answered.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    part = page.partition("<h2>Your answers</h2>")[2].partition("<h2>")[0]
    erm = sum(row["erm_label"] == row["label"] for row, is_disputed in zip(rows, disputed, strict=True) if is_disputed)
    is_advised = answered.verdict == "shortcut"
    name = "the advice" if is_advised else "the best average"
    sentence = f"Where ERM and {name} disagree, ERM is right on {erm} of your 18 answers, {name} on "
    sentence += f"{sum(disputed) - erm}; elsewhere both are right on"  # of two labels
    first_screen = page.partition('<p class="verdict">')[2].partition("<h2>")[0]
    assert first_screen.partition("<p>")[2].startswith(sentence)
    cells = re.findall(r'<td data-name="(.*?)">(\w+)(?:<small>(\w+)</small>)?</td>', part)
    assert len(cells) == 3 * 18
    truths = [label for name, label, _ in cells if name == "Your label"]
    for kind in ("ERM", "Advice" if is_advised else "Best average"):
        shown = [(label, verdict) for name, label, verdict in cells if name == kind]
        assert [verdict == "right" for _, verdict in shown] == [
            label == truth for (label, _), truth in zip(shown, truths, strict=True)
        ]


def test_the_advice_that_is_compared_is_the_average_of_its_members(answered: Audit) -> None:
    weight = np.array([one["weight"] for one in answered.summary["new_rows"]["candidates"]])
    with np.load(answered.path / "new_rows.npz") as archive:
        average = np.tensordot(weight, archive["logits"], axes=1).argmax(axis=1)
    for row in answered.summary["new_rows"]["answered_rows"]:
        assert row["compared_label"] == ("ill", "well")[average[row["row"]]]


def test_one_candidate_is_compared_where_one_is_advised(changed: Audit, tmp_path: Path) -> None:
    found = Audit(shutil.copytree(changed.path, tmp_path / "single"))
    found.answer(filled(found), single=True)
    new = found.summary["new_rows"]
    number = [one["name"] for one in new["candidates"]].index(new["chosen"])
    for row in new["answered_rows"]:
        label = ("ill", "well")[says(found.new_rows)[number, row["row"]]]
        assert row["compared_label"] == (label if number else None)


def test_before_answers_nothing_is_said_of_them(changed: Audit) -> None:
    assert changed.summary["new_rows"]["answered_rows"] == []
    assert "<h2>Your answers</h2>" not in (changed.path / "report.html").read_text(encoding="utf-8")


def test_sentences_where_nothing_is_compared_or_in_dispute(answered: Audit) -> None:
    assert isinstance(answered.result, SelectionSummary)
    selection = answered.result.selection
    selection = replace(selection, chosen=selection.candidates[1].name)
    alone = AnsweredRow(0, "row 0", "ill", "ill")
    assert count_answers(replace(selection, answered_rows=(alone,))) is None
    alike = replace(alone, compared_label="ill")
    wrong = replace(alike, label="well")
    counts = count_answers(replace(selection, answered_rows=(alike, wrong)))
    assert (
        counts is not None and counts.describe() == "ERM and the advice never disagree: both are right on 1 of your 2"
    )
    ordinary = count_answers(replace(selection, chosen="ERM", answered_rows=(alike,)))
    assert ordinary is not None and "the best average" in ordinary.describe()


def test_pictures_of_answered_rows_stay_after_a_further_sheet(photos: Path, tmp_path: Path) -> None:  # noqa: F811
    found = audit(photos / "old", tmp_path / "out", new_rows=photos / "flat", ask=6, size=10, epochs=2, threads=1)
    sheet = pd.read_csv(found.path / "sheet.csv", dtype={"answer": object})
    sheet["answer"] = ["bright" if int(Path(path).stem) % 2 == 0 else "dark" for path in sheet["path"]]
    found.answer(sheet)
    found.ask(4)
    pictures = json.loads((found.path / "pictures.json").read_text())
    assert {str(row) for row in sheet["row"]} < {*pictures} and len(pictures) == 10
    part = (found.path / "report.html").read_text(encoding="utf-8").partition("<h2>Your answers</h2>")[2]
    assert part.partition("<h2>")[0].count("<img src") == 6
