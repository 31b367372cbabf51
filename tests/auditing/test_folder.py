"""What an audit leaves and a person or a program reads: cells that run nowhere, bytes that nobody changed, a page."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction import Audit, InputError, audit, train
from logit_correction.cli import main
from logit_correction.files import read_cells, write_cells

SHORT = {"epochs": 3, "threads": 1}
LABELS = ("=<b>no</b>", "yes")


def data_of(folder: Path) -> dict[str, object]:
    return {"name": "Table", "file": str(folder / "rows.csv"), "label": "label", "features": ["scanner", "age"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """An audit of a table whose label is a formula to a spreadsheet, as are the names of its scanners."""
    folder, draw = tmp_path_factory.mktemp("audit"), np.random.default_rng(0)
    label = np.asarray(LABELS)[np.arange(420) % 2]
    told = np.where(draw.random(420) < 0.92, label, np.roll(label, 1))
    scanner = np.where(told == "yes", "@one", "+two")
    age = (40 + 10 * (label == "yes") + draw.normal(0, 20, 420)).round(4)
    pd.DataFrame({"scanner": scanner, "age": age, "label": label}).to_csv(folder / "rows.csv", index=False)
    return audit(data_of(folder), folder / "out", shortcut=["column:scanner"], label_budget=30, **SHORT)  # type: ignore[arg-type]


def cells(file: Path) -> list[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        return [cell for row in csv.reader(opened) for cell in row]


@pytest.mark.parametrize("name", ["rows.csv", "sheet.csv"])
def test_no_cell_is_a_formula_and_what_is_read_back_is_what_was_written(found: Audit, name: str) -> None:
    held = cells(found.path / name)
    assert not any(cell.startswith(("=", "+", "@")) for cell in held) and "'=<b>no</b>" in held
    back = read_cells(pd.read_csv(found.path / name, dtype=str, keep_default_na=False))
    assert set(back["label"]) <= set(LABELS) == set(found.rows["label"])


@pytest.mark.parametrize(
    "text", ["=1", "'=1", "''-x", "-x", "@", "+1 day", "\t=1", "-", "plain", "'quoted'", "-1.5", "+3"]
)
def test_a_cell_comes_back_as_it_was(text: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [text, "x"], "b": [-1.5, 2]})
    write_cells(frame, tmp_path / "x.csv")
    held = cells(tmp_path / "x.csv")
    assert held[2] == text or held[2] == "'" + text
    assert text in ("-1.5", "+3") or not held[2].startswith(("=", "+", "-", "@", "\t"))
    assert held[3] == "-1.5"
    back = read_cells(pd.read_csv(tmp_path / "x.csv", dtype=str, keep_default_na=False))
    assert back["a"].tolist() == [text, "x"]


def test_the_rows_train_and_the_sheet_is_taken_back_with_such_names(found: Audit, tmp_path: Path) -> None:
    folder = shutil.copytree(found.path, tmp_path / "copy")
    given = {"name": "LC", "attributes": {"name": "Given", "file": str(folder / "rows.csv")}}
    run = train(data_of(found.path.parent), tmp_path / "run", method=given, page=False, **SHORT)  # type: ignore[arg-type]
    assert set(run.report["group_prior"]["attribute_names"]) == set(LABELS)
    sheet = pd.read_csv(folder / "sheet.csv", dtype=str)
    assert sheet["content"].str.contains("scanner [+@]", regex=True).all()  # a person sees what the row holds
    sheet.assign(attribute=sheet["looks_like"]).to_csv(folder / "sheet.csv", index=False)
    assert main(["audit", "--labels", str(folder / "sheet.csv"), "--out", str(folder)]) == 0
    group = Audit(folder).summary["labelled"]["network"]["groups"][0]
    assert group["label"] is None and group["rows"] > 100  # read as labels, most rows agree


def test_one_changed_bit_of_the_rows_is_noticed(
    found: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(found.path, tmp_path / "copy")
    held = bytearray((folder / "rows.parquet").read_bytes())
    for place in (5, len(held) // 2, len(held) - 20):
        (folder / "rows.parquet").write_bytes(held[:place] + bytes([held[place] ^ 4]) + held[place + 1 :])
        with pytest.raises(InputError, match=r"rows\.parquet"):
            _ = Audit(folder).rows
        assert main(["audit", "--label-budget", "30", "--out", str(folder)]) == 2
        assert "rows.parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("classifier", None),
        ("verdict", 3),
        ("data.warnings", None),
        ("training.seed", "x"),
        ("question", 3),
        ("cost.network.conflicting.accuracy", 7),
        ("rows.conflicting", None),
        ("groups", [{"label": "a"}]),
        ("shown", [3]),
        ("evidence", []),
    ],
)
def test_a_changed_summary_is_named(
    found: Audit, tmp_path: Path, entry: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(found.path, tmp_path / "copy")
    summary = json.loads((folder / "audit.json").read_text())
    inside, (*above, last) = summary, entry.split(".")
    for name in above:
        inside = inside[name]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    (folder / "audit.json").write_text(json.dumps(summary))
    assert main(["audit", "--label-budget", "30", "--out", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "audit.json is damaged" in told and entry.rpartition(".")[2] in told


def test_the_page_names_the_column_says_the_price_and_shows_what_rows_hold(found: Audit) -> None:
    page = (found.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "A shortcut is likely: the column <code>scanner</code>." in page
    assert "LC takes the accuracy from" in page and "on data like yours" in page
    assert "scanner +two, age " in page and str(found.path) not in page
    assert "<b>no</b>" not in page and "&lt;b&gt;no&lt;/b&gt;" in page and "<script" not in page
    assert not ("may be mislabelled" in page and "do not explain them" in page)


def test_without_conflicting_rows_nothing_is_advised_or_explained(found: Audit) -> None:
    from logit_correction.pages.audit_page import render_audit

    summary = json.loads(json.dumps(found.summary)) | {"shown": [], "label_budget": None}
    summary["rows"]["conflicting"], summary["evidence"]["rows"] = 0, 0
    page = render_audit(summary, Path("audit"), 10)
    assert "name the attribute of" not in page and "explain them" not in page and "mislabelled" not in page
