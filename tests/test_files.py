from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction.files import replacing


def test_a_finished_block_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == tmp_path  # os.replace is atomic within one file system only
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="broken"), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("broken")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "table.csv"):
        pass
    assert not list(tmp_path.iterdir())
