"""Table files: all cells are read as text, rows are numbered, wrong files are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from logit_correction.data.table_files import is_table_file, read_frame
from logit_correction.errors import InputError


@pytest.mark.parametrize(
    ("text", "rows", "values"),
    [
        ("a,b\n007,NA\n", [2], [["007", "NA"]]),
        ("a;b\n1,5;2\n\n\n3;4\n\n", [2, 5], [["1,5", "2"], ["3", "4"]]),
        ("\ufeffa\tb\n1\t2\n", [2], [["1", "2"]]),
        ("a|b\n1|2\n3\n", [2, 3], [["1", "2"], ["3", ""]]),
        ('a,b\n1,"x, y\nz"\n2,3\n', [2, 3], [["1", "x, y\nz"], ["2", "3"]]),
        ("a\nx\n\ny\n", [2, 3, 4], [["x"], [""], ["y"]]),  # a text that is empty is a row
    ],
)
def test_csv_is_read_as_text_with_spreadsheet_row_numbers(
    text: str, rows: list[int], values: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as packed:
        packed.write(text)
    for name in ("t.csv", "t.csv.gz"):
        frame = read_frame(tmp_path / name)
        assert is_table_file(tmp_path / name) and frame.index.tolist() == rows and frame.to_numpy().tolist() == values


@pytest.mark.parametrize("text", ["a,b\n1,2,3\n", "a,b\n1,2\n4,5,6\n", 'a,b\n1,"2\n', "", "a,b\n", b"a,b\n\xff,1\n"])
def test_file_that_is_not_a_table_is_named(text: str | bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=r"t\.csv (cannot be read as a table|has no rows)"):
        read_frame(tmp_path / "t.csv")
    for name in ("t.xlsx", "t.json", "t.parquet", "gone.csv"):
        (tmp_path / name).write_bytes(b"PAR1") if name != "gone.csv" else None
        with pytest.raises(InputError, match=name):
            read_frame(tmp_path / name)


@pytest.mark.parametrize("text", ["y;x; x\n1;2;3\n", '\ufeff"x",y,x\n1,2,3\n'])
def test_duplicate_column_name_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=r"t\.csv has more than one column 'x'"):
        read_frame(tmp_path / "t.csv")
