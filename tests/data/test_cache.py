"""Files that are made once, and again where they are damaged."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logit_correction.data.cache import cache_array, get_cache_folder
from logit_correction.data.own import from_arrays, from_table
from logit_correction.errors import InputError

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def test_cache_folder_is_set_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "here"))
    assert get_cache_folder() == tmp_path / "here"
    monkeypatch.delenv("LOGIT_CORRECTION_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert get_cache_folder() == tmp_path / ".cache" / "logit_correction"


def test_cache_command_lists_and_removes_data_given_from_python(
    run_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path))
    table = Path(from_table({"a": [1, 2], "y": ["no", "yes"]}, label="y").options["file"])
    array = Path(from_arrays(np.eye(2), ["no", "yes"]).options["file"])
    cache_array(tmp_path / "features" / f"{'0' * 32}.npy", lambda file: np.save(file, VALUES))
    others = [tmp_path / "tables" / "mine.parquet", tmp_path / "MNIST" / f"{'0' * 32}.npy"]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.touch()
    os.utime(array, (time.time() - 10 * 86_400,) * 2)

    result = run_command("cache")
    assert result.status == 0 and table.exists() and str(table.parent) in result.out and "cache --clear" in result.out
    assert run_command("cache", "--days", "-1").status == 2 and array.exists()
    assert run_command("cache", "--clear", "--days", "9").status == 0
    assert table.exists() and not array.exists()
    assert run_command("cache", "--clear").status == 0
    remaining_files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert set(remaining_files) == set(others)


def test_cache_holds_no_file_of_a_failed_write(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        cache_array(tmp_path / "deep" / "a.npy", fails)
    assert {file.suffix for file in (tmp_path / "deep").iterdir()} <= {".lock"}
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot be written.*LOGIT_CORRECTION_CACHE"):
        cache_array(tmp_path / "file" / "a.npy", fails)


def test_cache_array_is_computed_once_and_again_if_the_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.npy"
    written_files = list[Path]()

    def make(file: Path) -> None:
        written_files.append(file)
        np.save(file, VALUES)

    for _ in range(3):
        assert np.array_equal(cache_array(path, make)[0], VALUES)
    assert len(written_files) == 1
    other = tmp_path / "deep" / "b.npy"
    cache_array(other, lambda file: np.save(file, VALUES + 1))
    original = path.read_bytes()
    checksum_file = path.with_suffix(".json")
    spoiled = [
        (path, damaged_content) for damaged_content in (b"", original[:-5], bytes([*original[:-1], original[-1] ^ 1]))
    ]
    spoiled += [
        (path, other.read_bytes()),
        (checksum_file, b""),
        (checksum_file, b"3"),
        (checksum_file, b'["a", null]'),
    ]
    for file, damaged_content in spoiled:
        file.write_bytes(damaged_content)
        assert np.array_equal(cache_array(path, make)[0], VALUES)
    for file in (path, checksum_file):
        os.replace(other.with_suffix(file.suffix), file)
    assert np.array_equal(cache_array(path, make)[0], VALUES)
    assert len(written_files) == 2 + len(spoiled)


def _cache_slowly(path: Path) -> tuple[int, bool]:
    written_files = list[Path]()

    def write_slowly(file: Path) -> None:
        time.sleep(0.2)
        written_files.append(file)
        np.save(file, VALUES)

    return int(cache_array(path, write_slowly)[0].sum()), bool(written_files)


def test_cache_array_is_computed_by_one_of_two_processes(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(_cache_slowly, [tmp_path / "a.npy"] * 2, chunksize=1)
    assert sorted(results) == [(276, False), (276, True)]
