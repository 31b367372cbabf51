"""The script of ``lab/scripts/`` that trains a run of a committed table again."""

from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction_lab.grid import read

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*/*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_row_of_the_committed_results_can_be_trained_again(path: Path, tmp_path: Path) -> None:
    cells = {cell.row: cell for cell in read(str(path)).cells(tmp_path)}
    assert cells and all(cell.config().method.name for cell in cells.values())
