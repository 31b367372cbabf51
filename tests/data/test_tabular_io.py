"""Names of files in tables: none leads out of its folder, by whatever way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logit_correction.data import tabular_io
from logit_correction.data.problems import Problems
from logit_correction.data.row_names import LazyNames, row_names
from logit_correction.data.tabular_io import files_within, read_frame
from logit_correction.errors import InputError


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


PIECES = st.sampled_from(["a", "1.50", "NA", "é", " ", '"', '""', ",", ";", "\n", "\r\n", "\t", "\0", "\ufeff", "#"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(PIECES, max_size=30).map("".join), sep=st.sampled_from(",;\t"))
def test_any_csv_reads_as_pandas_reads_it(text: str, sep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, found = tmp_path / "a.csv", []
    file.write_bytes((f"a{sep}b\n1{sep}2\n{text}").encode())
    for arrow in (True, False):
        with monkeypatch.context() as patch:
            if not arrow:
                patch.setattr(tabular_io, "_by_arrow", lambda *_: None)
            try:
                found.append(read_frame(file))
            except InputError as error:
                found.append(str(error))
    if isinstance(found[0], str) or isinstance(found[1], str):
        assert isinstance(found[0], str) and found[0] == found[1]
    else:
        pd.testing.assert_frame_equal(found[0], found[1])


def test_a_regular_csv_is_read_by_arrow_and_an_irregular_one_by_pandas(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    for text, regular in (
        ("a;b\n007;x\n", True),
        ('a;b\n1;"x"\n', False),
        ("a;b\n1\n", False),
        ("a\n1\n", False),
        ("a;a\n1;2\n", False),
    ):
        file.write_text(text)
        header = list(pd.read_csv(file, sep=";", nrows=0).columns)
        assert (tabular_io._by_arrow(file, header, ";", None) is not None) == regular, text
    file.write_text("a;b\n007;\n")
    assert read_frame(file).to_numpy().tolist() == [["007", ""]]
    assert read_frame(file, columns=["b"]).columns.tolist() == ["b"]


def test_names_of_chosen_rows_are_those_of_a_list() -> None:
    names, rows = row_names(Path("a.csv"), 9), np.asarray([4, 0, 7])
    chosen = LazyNames(names.__getitem__, rows)
    assert list(chosen) == [names[4], names[0], names[7]] and len(chosen) == 3
    assert list(chosen[1:]) == ["row 2", "row 9"] and chosen[-1] == "row 9"
