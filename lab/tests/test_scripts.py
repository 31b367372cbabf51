"""Scripts of ``lab/scripts/``: committed tables can be trained again, and rules of selection are compared."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from logit_correction_lab.grid import read_grid
from tests.conftest import import_lab_script

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*/*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_row_of_the_committed_results_can_be_trained_again(path: Path, tmp_path: Path) -> None:
    cells = {cell.row: cell for cell in read_grid(str(path)).make_cells(tmp_path)}
    assert cells and all(cell.build_config().method.name for cell in cells.values())


@pytest.mark.parametrize("option", ["--quick", "--harder", "--like labels", "--wrong 0.01"])
def test_rules_are_compared_on_each_set(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label = np.arange(80) % 2
    right = 4 * np.eye(2, dtype=np.float16)[label]
    candidates = {
        "ERM": {"test": 4 - right, "usual": right, "seconds": 1.0},  # always wrong on new rows
        "LC by colour": {"test": right, "usual": right, "seconds": 1.0},
    }
    unknown = np.full(80, -1)
    kept = {"found": candidates, "label": label, "attribute": unknown, "valid label": label, "features": {}}
    kept["trained on"] = {"label": label, "attribute": unknown}
    for file in ("digits-0.pkl", "digits-1.pkl", "mails-0.pkl"):
        (tmp_path / file).write_bytes(pickle.dumps(kept))
    command = f"compare_selection.py {tmp_path} --answers 4 8 --times 2 --csv {tmp_path / 'sets.csv'} {option}"
    monkeypatch.setattr(sys, "argv", command.split())
    import_lab_script("compare_selection").compare_rules_on_sets()
    written = pd.read_csv(tmp_path / "sets.csv")
    expected = [
        (name, seed, answers) for name, seed in (("digits", 0), ("digits", 1), ("mails", 0)) for answers in (4, 8)
    ]
    assert list(zip(written["set"], written["seed"], written["answers"], strict=True)) == expected
    for rule in ("best", "single", "average", "advised", *(() if option == "--quick" else ("Model Selector", "VMA"))):
        assert (written[rule] == 100).all(), rule
    assert (written["ERM"] == 0).all()
    (tmp_path / "digits-0.pkl").write_bytes(b"")  # of which the lines are there already
    (tmp_path / "spam-0.pkl").write_bytes((tmp_path / "mails-0.pkl").read_bytes())
    import_lab_script("compare_selection").compare_rules_on_sets()
    assert pd.read_csv(tmp_path / "sets.csv")["set"].tolist() == [*written["set"], "spam", "spam"]


@pytest.mark.parametrize("option", ["--kinds texts tables", "--max-rows 700"])
def test_drawn_cases_of_other_kinds_and_sizes_are_left_out(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")  # for evidence_cases.py
    command = f"new_rows.py collect {tmp_path} --drawn 3 --part 2/3 --seed 7 {option}"  # images, 810 rows
    monkeypatch.setattr(sys, "argv", command.split())
    import_lab_script("new_rows").collect_sets()
    assert not list(tmp_path.iterdir())
