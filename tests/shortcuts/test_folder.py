"""What an audit leaves and a person or a program reads: cells that run nowhere, bytes that nobody changed, a page."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction import Audit, InputError, audit, train
from logit_correction.cli import main
from logit_correction.spreadsheets import unescape_spreadsheet_texts, write_spreadsheet_csv

from .conftest import LABELS, data_of, online_alone


@pytest.fixture(scope="session")
def asked(named: Audit) -> Audit:
    """An audit with new rows of such names, in which the scanner tells nothing."""
    folder = named.path.parent
    draw = np.random.default_rng(1)
    rows = pd.read_csv(folder / "rows.csv")
    rows["scanner"] = draw.permutation(rows["scanner"])
    rows.drop(columns="label").to_csv(folder / "new.csv", index=False)
    given = {"shortcut": ["column:scanner"], "new_rows": folder / "new.csv", "ask": 30}
    with online_alone():
        return audit(data_of(folder), folder / "asked", **given, epochs=3, threads=1)  # type: ignore[arg-type]


def cells(file: Path) -> list[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        return [cell for row in csv.reader(opened) for cell in row]


def test_a_cell_comes_back_as_it_was_and_is_no_formula(named: Audit, asked: Audit, tmp_path: Path) -> None:
    texts = ["=1", "'=1", "''-x", "-x", "@", "+1 day", "\t=1", "-", "plain", "'quoted'", "-1.5", "+3"]
    write_spreadsheet_csv(pd.DataFrame({"a": texts, "b": -1.5}), tmp_path / "x.csv")
    held = pd.read_csv(tmp_path / "x.csv", dtype=str, keep_default_na=False)
    assert set(held["b"]) == {"-1.5"} and unescape_spreadsheet_texts(held)["a"].tolist() == texts
    assert "'=<b>no</b>" in cells(named.path / "rows.csv")
    for file in (named.path / "rows.csv", asked.path / "sheet.csv", tmp_path / "x.csv"):
        formulas = [cell for cell in cells(file) if cell.startswith(("=", "+", "-", "@", "\t"))]
        assert set(formulas) <= {"-1.5", "+3"}  # numbers


def test_the_rows_train_and_the_sheet_is_taken_back_with_such_names(named: Audit, asked: Audit, tmp_path: Path) -> None:
    given = {"name": "LC", "attributes": {"name": "Given", "file": str(named.path / "rows.csv")}}
    run = train(data_of(named.path.parent), tmp_path / "run", method=given, page=False, epochs=3, threads=1)  # type: ignore[arg-type]
    assert set(run.report.group_prior.attribute_names) == set(LABELS)
    folder = Path(shutil.copytree(asked.path, tmp_path / "copy"))
    sheet = pd.read_csv(folder / "sheet.csv")
    true = pd.read_csv(named.path.parent / "rows.csv")["label"]
    assert len(sheet) == 30
    assert sheet["content"].str.contains("scanner [+@]", regex=True).all()  # a person sees what the row holds
    answers = true[sheet["line"] - 2].tolist()
    write_spreadsheet_csv(sheet.assign(answer=answers), folder / "sheet.csv")
    assert main(["audit", "--answers", str(folder / "sheet.csv"), "--out", str(folder)]) == 0
    rows = Audit(folder).new_rows
    assert [LABELS[number] for number in rows["label_number"][sheet["row"]]] == answers
    assert (rows["label_number"] >= 0).sum() == 30


@pytest.mark.parametrize("name", ["rows.parquet", "audit.json", "new_rows.parquet"])
def test_one_changed_bit_is_noticed(
    name: str, asked: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(asked.path, tmp_path / "copy"))
    held = bytearray((folder / name).read_bytes())
    for place in (5, len(held) // 2, len(held) - 20):
        (folder / name).write_bytes(held[:place] + bytes([held[place] ^ 4]) + held[place + 1 :])
        with pytest.raises(InputError, match=name):
            if name == "rows.parquet":
                _ = Audit(folder).rows
            Audit(folder).ask(5)
        if name != "rows.parquet":  # which nobody reads here
            before = {path.name: path.read_bytes() for path in folder.iterdir()}
            assert main(["audit", "--ask", "5", "--out", str(folder)]) == 2
            assert name in capsys.readouterr().err
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (folder / name).write_bytes(held)
    (folder / ".checksums").unlink()
    with pytest.raises(InputError, match=r"checksums is missing"):
        Audit(folder)


def test_the_page_names_the_column_says_the_price_and_shows_what_rows_hold(named: Audit) -> None:
    page = (named.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "ERM relies on the column <code>scanner</code>." in page
    # The price stands before everything else that a reader could act on.
    assert page.index("Data like your training data") < page.index("What to do") < page.index("rows</h2>")
    assert ">line " in page and ">row " not in page  # a line of the CSV, as rows.csv has it
    assert "scanner +two, age " in page and str(named.path) not in page
    assert "<b>no</b>" not in page and "&lt;b&gt;no&lt;/b&gt;" in page and "<script" not in page
    assert not re.search(r'(src|href)="(?!data:image/png)', page) and "default-src 'none'" in page
    assert "fix.yaml" in page and "rows.csv" in page and "evaluate fixed --on" in page
    rows = named.rows
    assert (rows["line"] == rows["row"] + 2).all() and "name" not in rows
