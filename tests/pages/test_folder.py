from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logit_correction.errors import InputError
from logit_correction.pages.compare import RunFolder

Make = Callable[..., Path]


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", "null", "3", '"x"', "[" * 100_000, '{"method": NaN}'),
        *('{"method": "LC", "test": {"groups": 3}}', '{"test": {"groups": []}, "data": {}}'),
    ],
    ids=range(10),
)
def test_a_damaged_report_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(InputError, match=r"report\.json cannot be read"):
        RunFolder.read(tmp_path)


def test_a_folder_without_a_finished_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing is not a run folder"):
        RunFolder.read(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file is not a run folder"):
        RunFolder.read(tmp_path / "file")


def test_damaged_metrics_are_named_and_missing_ones_are_empty(birds: Make, tmp_path: Path) -> None:
    folder = birds(tmp_path / "run", "LC")
    (folder / "metrics.csv").write_text("a,b\n1,2,3\n4,5,6,7\n")
    with pytest.raises(InputError, match=r"metrics\.csv cannot be read"):
        RunFolder.read(folder)
    (folder / "metrics.csv").unlink()
    assert RunFolder.read(folder).metrics.empty
