"""Names of files in tables: none leads out of its folder, by whatever way."""

from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction.data.problems import Problems
from logit_correction.data.tabular_io import files_within


def test_names_that_leave_the_root_are_problems_of_their_rows(tmp_path: Path) -> None:
    names = ["a.jpg", "b/c.jpg", "../x.jpg", "/etc/passwd", "a/../../x", "", None, "a\0b", "..a/b.jpg", "b/../a.jpg"]
    problems = Problems("list.csv", [f"line {i}" for i in range(len(names))])
    paths = files_within(tmp_path, names, problems, "file", look=False)
    assert [row for row in range(len(names)) if row in problems] == [2, 3, 4, 5, 6, 7]
    assert paths[:3] == [tmp_path / "a.jpg", tmp_path / "b" / "c.jpg", tmp_path] and len(paths) == len(names)
    assert "line 5: column 'file' is empty" in str(problems)


@pytest.mark.parametrize("look", [True, False])
def test_links_and_missing_files_are_seen_only_by_looking(tmp_path: Path, look: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for file in (tmp_path / "secret.jpg", root / "own.jpg"):
        file.touch()
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    problems = Problems("list.csv", ["line 2", "line 3", "line 4", "line 5"])
    names = ["own.jpg", str(root / "own.jpg"), "link.jpg", "gone.jpg"]
    paths = files_within(root, names, problems, look=look)
    assert paths[:2] == [root / "own.jpg"] * 2
    expected = f"line 4: 'link.jpg' lies outside of {root}; line 5: 'gone.jpg' is missing in {root}" if look else ""
    assert str(problems) == expected
