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
from logit_correction.shortcuts.summaries import AnsweredRow

from .conftest import SHIFTED_FRAME, fill_sheet, get_predictions
from .test_new_rows import photos  # noqa: F401


@pytest.fixture
def answered_audit(shifted_audit: Audit, tmp_path: Path) -> Audit:
    copy = Audit(shutil.copytree(shifted_audit.path, tmp_path / "answered"))
    return copy.answer(fill_sheet(copy).iloc[:18])


def test_page_lists_answered_rows_with_their_predictions(answered_audit: Audit) -> None:
    rows = answered_audit.summary["new_rows"]["answered_rows"]
    assert len(rows) == 18 and {row["row"] for row in rows} == set(fill_sheet(answered_audit)["row"][:18])
    names = np.array(["ill", "well"])
    for row in rows:
        assert row["label"] == SHIFTED_FRAME["outcome"][row["row"]]
        assert row["erm_label"] == names[get_predictions(answered_audit.new_rows)[0, row["row"]]]
        assert row["text"].startswith("age ") and row["name"] == f"row {row['row']}"
    disputed = [row["erm_label"] != row["compared_label"] for row in rows]
    assert disputed == sorted(disputed, reverse=True) and any(disputed)
    page = (answered_audit.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    part = page.partition("<h2>Your answers</h2>")[2].partition("<h2>")[0]
    erm, compared = (sum(row[kind] == row["label"] for row in rows) for kind in ("erm_label", "compared_label"))
    assert answered_audit.result.selection is not None
    is_advised = bool(answered_audit.result.selection.members)
    name = "the advice" if is_advised else "the best average"
    sentence = f"Of your 18 answers, ERM is right on {erm} and {name} on {compared}; of the {sum(disputed)} on which"
    first_screen = page.partition('<p class="verdict">')[2].partition("<h2>")[0]
    assert first_screen.partition("<p>")[2].startswith(sentence)
    cells = re.findall(r'<td data-name="(.*?)">(\w+)(?:<small>(\w+)</small>)?</td>', part)
    assert len(cells) == 3 * 18
    truths = [label for name, label, _ in cells if name == "Your label"]
    for kind in ("ERM", "Advice" if is_advised else "Best average"):
        shown_cells = [(label, verdict) for name, label, verdict in cells if name == kind]
        assert [verdict == "right" for _, verdict in shown_cells] == [
            label == truth for (label, _), truth in zip(shown_cells, truths, strict=True)
        ]


def test_compared_label_is_that_of_the_advised_average(answered_audit: Audit) -> None:
    weight = np.array([candidate["weight"] for candidate in answered_audit.summary["new_rows"]["candidates"]])
    with np.load(answered_audit.path / "new_rows.npz") as archive:
        average = np.tensordot(weight, archive["logits"], axes=1).argmax(axis=1)
    for row in answered_audit.summary["new_rows"]["answered_rows"]:
        assert row["compared_label"] == ("ill", "well")[average[row["row"]]]


def test_compared_label_is_that_of_a_single_advised_candidate(shifted_audit: Audit, tmp_path: Path) -> None:
    copy = Audit(shutil.copytree(shifted_audit.path, tmp_path / "single"))
    copy.answer(fill_sheet(copy), single=True)
    new = copy.summary["new_rows"]
    number = [candidate["name"] for candidate in new["candidates"]].index(new["chosen"])
    for row in new["answered_rows"]:
        label = ("ill", "well")[get_predictions(copy.new_rows)[number, row["row"]]]
        assert row["compared_label"] == (label if number else None)
    assert copy.answer(fill_sheet(copy)).summary["new_rows"]["single"]  # as was asked for before


def test_page_without_answers_has_no_section_on_them(shifted_audit: Audit) -> None:
    assert shifted_audit.summary["new_rows"]["answered_rows"] == []
    assert "<h2>Your answers</h2>" not in (shifted_audit.path / "report.html").read_text(encoding="utf-8")


def test_describe_answered_rows_without_comparison_or_dispute(answered_audit: Audit) -> None:
    assert answered_audit.result.selection is not None
    selection = answered_audit.result.selection
    selection = replace(selection, chosen=selection.candidates[1].name)
    row_without_comparison = AnsweredRow(0, "row 0", "ill", "ill")
    assert count_answers(replace(selection, answered_rows=(row_without_comparison,))) is None
    agreeing_row = replace(row_without_comparison, compared_label="ill")
    wrong = replace(agreeing_row, label="well")
    counts = count_answers(replace(selection, answered_rows=(agreeing_row, wrong)))
    assert (
        counts is not None and counts.describe() == "ERM and the advice never disagree: both are right on 1 of your 2"
    )
    selection_of_erm = count_answers(replace(selection, chosen="ERM", changed=False, answered_rows=(agreeing_row,)))
    assert selection_of_erm is not None and "the best average" in selection_of_erm.describe()


def test_pictures_of_answered_rows_are_kept_after_another_sheet(photos: Path, tmp_path: Path) -> None:  # noqa: F811
    photo_audit = audit(photos / "old", tmp_path / "out", new_rows=photos / "flat", ask=6, size=10, epochs=2, threads=1)
    sheet = pd.read_csv(photo_audit.path / "sheet.csv", dtype={"answer": object})
    sheet["answer"] = ["bright" if int(Path(path).stem) % 2 == 0 else "dark" for path in sheet["path"]]
    photo_audit.answer(sheet)
    photo_audit.ask(4)
    pictures = json.loads((photo_audit.path / "pictures.json").read_text())
    assert {str(row) for row in sheet["row"]} < {*pictures} and len(pictures) == 10
    part = (photo_audit.path / "report.html").read_text(encoding="utf-8").partition("<h2>Your answers</h2>")[2]
    assert part.partition("<h2>")[0].count("<img src") == 6
