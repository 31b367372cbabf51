"""No text of a written table runs as a formula, whichever separator a spreadsheet program takes; all are read back."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logit_correction.spreadsheets import unescape_spreadsheet_texts, write_spreadsheet_csv

TEXTS = st.lists(st.text(alphabet="ab1.,;|\t\n\r\"' =+-@\uff1d", max_size=8), min_size=1, max_size=5)
NUMBER_OR_SIGN = re.compile(r"[+-]([\d.,]|$)")


def write_and_read(texts: list[str], file: Path) -> pd.DataFrame:
    frame = pd.DataFrame({"name": "x", "text": texts, "kind": pd.Categorical(texts), "number": -1.5})
    write_spreadsheet_csv(frame, file)
    return unescape_spreadsheet_texts(pd.read_csv(file, dtype=str, keep_default_na=False))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TEXTS)
def test_no_cell_is_a_formula_at_any_separator_and_texts_are_read_back(tmp_path: Path, texts: list[str]) -> None:
    file = tmp_path / "sheet.csv"
    table = write_and_read(texts, file)
    assert table["text"].tolist() == texts == table["kind"].tolist() and set(table["number"]) == {"-1.5"}
    for separator in ",;|\t":
        with file.open(newline="") as opened:
            cells = [cell for row in csv.reader(opened, delimiter=separator) for cell in row]
        formulas = [cell for cell in cells if re.match("[=+\\-@\t\r\n\uff1d]", cell) and not NUMBER_OR_SIGN.match(cell)]
        assert not formulas, separator


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("good;=1+1", "good;'=1+1"),
        ("a\n@SUM(A1)", "a\n'@SUM(A1)"),
        (";'=1", ";''=1"),
        ("|-cmd", "|'-cmd"),
        ("\t=1", "'\t'=1"),
    ],
)
def test_formulas_are_escaped_at_the_start_and_after_a_separator(tmp_path: Path, text: str, cell: str) -> None:
    assert write_and_read([text], tmp_path / "sheet.csv")["text"].tolist() == [text]
    assert pd.read_csv(tmp_path / "sheet.csv")["text"].tolist() == [cell]


def test_numbers_and_other_texts_are_not_escaped(tmp_path: Path) -> None:
    texts = ["-3.5", "+1e-5", "-1,000", "+", "-", "a-b", "yes = no", "it's; fine", "a\r\nb\n\nc"]
    assert write_and_read(texts, tmp_path / "sheet.csv")["text"].tolist() == texts
    assert pd.read_csv(tmp_path / "sheet.csv", dtype=str)["text"].tolist() == texts


def test_heading_that_would_be_a_formula_is_escaped(tmp_path: Path) -> None:
    write_spreadsheet_csv(pd.DataFrame({"=1+1": [1]}), tmp_path / "sheet.csv")
    assert (tmp_path / "sheet.csv").read_text().startswith("'=1+1")
    assert list(unescape_spreadsheet_texts(pd.read_csv(tmp_path / "sheet.csv"))) == ["=1+1"]
