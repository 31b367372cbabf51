"""Scripts of ``lab/scripts/``: committed tables can be trained again, and judgements of new rows are written."""

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


def test_new_rows_judge_writes_the_means_of_each_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label = np.arange(80) % 2
    right = np.eye(2, dtype=np.float16)[label]
    candidates = {
        "ERM": {"test": 1 - right, "usual": right, "seconds": 1.0},  # always wrong on new rows
        "LC by colour": {"test": right, "usual": right, "seconds": 1.0},
    }
    for file in ("digits-0.pkl", "digits-1.pkl", "mails-0.pkl"):
        kept = {"found": candidates, "label": label, "attribute": np.full(80, -1)}
        (tmp_path / file).write_bytes(pickle.dumps(kept))
    command = f"new_rows.py judge {tmp_path} --answers 4 8 --times 2 --anyway --csv {tmp_path / 'sets.csv'}"
    monkeypatch.setattr(sys, "argv", command.split())
    import_lab_script("new_rows").main()
    written = pd.read_csv(tmp_path / "sets.csv")
    expected = [("digits", 4), ("mails", 4), ("digits", 8), ("mails", 8)]
    assert list(zip(written["set"], written["answers"], strict=True)) == expected
    assert written[["ERM", "best", "chosen"]].to_numpy() == pytest.approx(np.tile([0.0, 100.0, 100.0], (4, 1)))
