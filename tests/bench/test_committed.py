"""The grids beside the committed results can be read still; their options are those of the commit they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction.bench import read

GRIDS = sorted((Path(__file__).parents[2] / "results").glob("*/*.yaml"))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_grid_of_the_results_is_read(path: Path, tmp_path: Path) -> None:
    assert list(read(str(path)).cells(tmp_path))


def test_there_are_some() -> None:
    assert GRIDS
