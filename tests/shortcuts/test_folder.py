"""The files of an audit: cells that are not formulas, checksums, the page."""

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

from .conftest import LABELS, build_formula_table_config, use_online_candidates_only


@pytest.fixture(scope="session")
def formula_audit_with_new_rows(formula_audit: Audit) -> Audit:
    """An audit with new rows of such names, in which the scanner is independent of the label."""
    folder = formula_audit.path.parent
    draw = np.random.default_rng(1)
    rows = pd.read_csv(folder / "rows.csv")
    rows["scanner"] = draw.permutation(rows["scanner"])
    rows.drop(columns="label").to_csv(folder / "new.csv", index=False)
    options = {"shortcut": ["column:scanner"], "new_rows": folder / "new.csv", "ask": 30}
    with use_online_candidates_only():
        return audit(build_formula_table_config(folder), folder / "asked", **options, epochs=3, threads=1)  # type: ignore[arg-type]


def read_cells(file: Path) -> list[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        return [cell for row in csv.reader(opened) for cell in row]


def test_cells_are_read_back_and_are_not_formulas(
    formula_audit: Audit, formula_audit_with_new_rows: Audit, tmp_path: Path
) -> None:
    texts = ["=1", "'=1", "''-x", "-x", "@", "+1 day", "\t=1", "-", "plain", "'quoted'", "-1.5", "+3"]
    write_spreadsheet_csv(pd.DataFrame({"a": texts, "b": -1.5}), tmp_path / "x.csv")
    read_frame = pd.read_csv(tmp_path / "x.csv", dtype=str, keep_default_na=False)
    assert set(read_frame["b"]) == {"-1.5"} and unescape_spreadsheet_texts(read_frame)["a"].tolist() == texts
    assert "'=<b>no</b>" in read_cells(formula_audit.path / "rows.csv")
    for file in (formula_audit.path / "rows.csv", formula_audit_with_new_rows.path / "sheet.csv", tmp_path / "x.csv"):
        formulas = [cell for cell in read_cells(file) if cell.startswith(("=", "+", "-", "@", "\t"))]
        assert set(formulas) <= {"-1.5", "+3", "-"}  # numbers, and a sign alone


def test_rows_and_sheet_with_formula_names_can_be_used(
    formula_audit: Audit, formula_audit_with_new_rows: Audit, tmp_path: Path
) -> None:
    method = {"name": "LC", "attributes": {"name": "Given", "file": str(formula_audit.path / "rows.csv")}}
    run = train(
        build_formula_table_config(formula_audit.path.parent),
        tmp_path / "run",
        method=method,
        page=False,
        epochs=3,
        threads=1,
    )  # type: ignore[arg-type]
    assert set(run.report.group_prior.attribute_names) == set(LABELS)
    folder = Path(shutil.copytree(formula_audit_with_new_rows.path, tmp_path / "copy"))
    sheet = pd.read_csv(folder / "sheet.csv")
    true = pd.read_csv(formula_audit.path.parent / "rows.csv")["label"]
    assert len(sheet) == 30
    assert sheet["content"].str.contains("scanner [+@]", regex=True).all()  # a person sees what the row holds
    answers = true[sheet["line"] - 2].tolist()
    write_spreadsheet_csv(sheet.assign(answer=answers), folder / "sheet.csv")
    assert main(["audit", "--answers", str(folder / "sheet.csv"), "--out", str(folder)]) == 0
    rows = Audit(folder).new_rows
    assert [LABELS[number] for number in rows["label_number"][sheet["row"]]] == answers
    assert (rows["label_number"] >= 0).sum() == 30


@pytest.mark.parametrize("name", ["rows.parquet", "audit.json", "new_rows.parquet"])
def test_changed_bit_of_an_audit_file_is_noticed(
    name: str, formula_audit_with_new_rows: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(formula_audit_with_new_rows.path, tmp_path / "copy"))
    content = bytearray((folder / name).read_bytes())
    for place in (5, len(content) // 2, len(content) - 20):
        (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(InputError, match=name):
            if name == "rows.parquet":
                _ = Audit(folder).rows
            Audit(folder).ask(5)
        if name != "rows.parquet":  # which is not read here
            before = {path.name: path.read_bytes() for path in folder.iterdir()}
            assert main(["audit", "--ask", "5", "--out", str(folder)]) == 2
            assert name in capsys.readouterr().err
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (folder / name).write_bytes(content)
    (folder / ".checksums").unlink()
    with pytest.raises(InputError, match=r"checksums is missing"):
        Audit(folder)


def test_page_names_the_column_the_cost_and_the_content_of_rows(formula_audit: Audit) -> None:
    page = (formula_audit.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "ERM relies on the column <code>scanner</code>." in page
    # The price stands before everything else that a reader could act on.
    assert page.index("Data like your training data") < page.index("What to do") < page.index("rows</h2>")
    assert ">line " in page and ">row " not in page  # a line of the CSV, as rows.csv has it
    assert "scanner +two, age " in page and str(formula_audit.path) not in page
    assert "<b>no</b>" not in page and "&lt;b&gt;no&lt;/b&gt;" in page and "<script" not in page
    assert not re.search(r'(src|href)="(?!data:image/png)', page) and "default-src 'none'" in page
    assert "fix.yaml" in page and "rows.csv" in page and "evaluate fixed --on" in page
    rows = formula_audit.rows
    assert (rows["line"] == rows["row"] + 2).all() and "name" not in rows
