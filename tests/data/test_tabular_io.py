"""Names of files in tables: none leads out of its folder, by whatever way."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logit_correction.data import frames
from logit_correction.data.frames import LazyNames, read_frame, row_names
from logit_correction.data.rows import Problems, files_within
from logit_correction.errors import InputError


def test_names_that_leave_the_root_are_problems_of_their_rows(tmp_path: Path) -> None:
    names = ["a.jpg", "b/c.jpg", "../x.jpg", "/etc/passwd", "a/../../x", "", None, "a\0b", "..a/b.jpg", "b/../a.jpg"]
    problems = Problems("list.csv", [f"line {i}" for i in range(len(names))])
    paths = files_within(tmp_path, names, problems, "file", look=False)
    assert (~problems.good).nonzero().flatten().tolist() == [2, 3, 4, 5, 6, 7]
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
                patch.setattr(frames, "_by_arrow", lambda *_: None)
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
        ("a;b\n007;x\n\n", True),
        ("a;b\n\n007;x\n", True),
        ('a;b\n1;"x"\n', False),
        ("a;b\n1\n", False),
        ("a\n1\n", False),
        ("a;a\n1;2\n", False),
    ):
        file.write_text(text)
        header = list(pd.read_csv(file, sep=";", nrows=0).columns)
        assert (frames._by_arrow(frames._look(file), header, None) is not None) == regular, text
    file.write_text("a;b\n007;\n")
    assert read_frame(file).to_numpy().tolist() == [["007", ""]]
    assert read_frame(file, columns=["b"]).columns.tolist() == ["b"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n\n3,4\n,\n \n5,\n\n\n", {2: ["1", "2"], 4: ["3", "4"], 7: ["5", ""]}),
        ('a,b\n1,"2"\n\n3,4\n', {2: ["1", "2"], 4: ["3", "4"]}),
        ('a,b\n1,"2\n\n"\n3,4\n', {2: ["1", "2\n\n"], 3: ["3", "4"]}),
        ("\n\na,b\n1,2\n", {4: ["1", "2"]}),
        ("a\n1\n\n3\n\n\n", {2: ["1"], 3: [""], 4: ["3"]}),
        ('a\n1\n""\n\n', {2: ["1"], 3: [""]}),
        ("a,b\n1,2,\n3,4,\n", {2: ["1", "2"], 3: ["3", "4"]}),
        ("a,b\n1,2,,\n3,4,,\n", {2: ["1", "2"], 3: ["3", "4"]}),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_are_numbered_as_in_a_spreadsheet(text: str, rows: dict[int, list[str]], end: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text.replace("\n", end), newline="")
    frame = read_frame(tmp_path / "a.csv")
    found = dict(zip(frame.index.tolist(), frame.to_numpy().tolist(), strict=True))
    assert found == {number: [cell.replace("\n", end) for cell in cells] for number, cells in rows.items()}
    assert list(row_names(frame.index)) == [f"row {number}" for number in rows]


def test_a_row_is_blank_if_it_is_so_in_all_columns(tmp_path: Path) -> None:
    for quote in ('"', ""):
        (tmp_path / "a.csv").write_text(f"a,b,c\n1,,2\n,,3\n,,\n4,{quote}5{quote},6\n")
        frame = read_frame(tmp_path / "a.csv", ["a", "b"])
        assert frame.to_numpy().tolist() == [["1", ""], ["", ""], ["4", "5"]] and frame.index.tolist() == [2, 3, 5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("review\nnot good, sadly\nbad\n", "row 2 has 2 cells, but there is 1 column"),
        ("label,text\ngood,nice, cheap, quick\nbad,slow, dear\n", "row 2 has 4 cells, but there are 2 columns"),
        ("label,text\n\ngood,nice\nbad,slow, dear\n", "row 4 has 3 cells, but there are 2 columns"),
    ],
)
def test_a_row_that_is_too_long_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=f"{said}.: put texts that hold the separator in quotes"):
        read_frame(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "a,b\n1,2\n".encode("utf-16")),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)),
        ("a.csv", b"\xef\xbb\xbfsep=;\r\na;b\r\n1;2\r\n"),
        ("a.csv", b"a|b\n1|2\n"),
        ("a.csv", b" a , b\n1,2\n"),
    ],
)
def test_other_forms_of_csv(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    frame = read_frame(tmp_path / name)
    assert frame.columns.tolist() == ["a", "b"] and frame.to_numpy().tolist() == [["1", "2"]]
    assert frame.index.tolist() == [2] and frames.is_table(tmp_path / name)


def test_the_separator_is_that_of_the_suffix_or_the_rarer_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a, as they say\tb\n1\t2\n")
    assert read_frame(tmp_path / "a.tsv").columns.tolist() == ["a, as they say", "b"]
    (tmp_path / "a.csv").write_text("a, as they say;b\n1;2\n")
    assert read_frame(tmp_path / "a.csv").columns.tolist() == ["a, as they say", "b"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_some_columns_alone(suffix: str, tmp_path: Path) -> None:
    file, frame = tmp_path / f"a.{suffix}", pd.DataFrame({"a": ["1", "2"], " b ": ["3", "4"], "c": ["5", "6"]})
    frame.to_csv(file, index=False) if suffix == "csv" else frame.to_parquet(file)
    assert read_frame(file, ["c", "b"]).columns.tolist() == ["b", "c"]
    with pytest.raises(InputError, match="no column 'd': it has a, b, c: get it again"):
        read_frame(file, ["a", "d"], "get it again")
    with pytest.raises(InputError, match=r"no column 'a,c' \(several columns are written '\[a, c\]'\)"):
        read_frame(file, ["a,c"])
    (frame.rename(columns={" b ": "a "})).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match="more than one column a: rename all but one"):
        read_frame(tmp_path / "b.csv")


def test_names_of_chosen_rows_are_those_of_a_list() -> None:
    names, rows = row_names(range(2, 11)), np.asarray([4, 0, 7])
    chosen = LazyNames(names.__getitem__, rows)
    assert list(chosen) == [names[4], names[0], names[7]] and len(chosen) == 3
    assert list(chosen[1:]) == ["row 2", "row 9"] and chosen[-1] == "row 9"
