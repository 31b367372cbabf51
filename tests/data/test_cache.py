"""Files that are made once, and again where they are damaged."""

from __future__ import annotations

import multiprocessing
import os
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from logit_correction.data.cache import cache_folder, digest, kept_array
from logit_correction.errors import InputError

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


class Maker:
    """Makes the values and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path: Path) -> None:
        self.count += 1
        np.save(path, VALUES)


def test_the_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("LOGIT_CORRECTION_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "logit_correction"


def test_digests_tell_parts_apart() -> None:
    given = [["a", "b"], ["b", "a"], ["ab"], ["a", b"b", "c"], ["a", 1], ["a", "", "b"], []]
    assert len({digest(parts) for parts in given}) == len(given)


def test_a_file_is_made_once_and_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.bin"

    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        kept_array(target, fails)
    assert {file.suffix for file in target.parent.iterdir()} <= {".lock"}
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot be written.*LOGIT_CORRECTION_CACHE"):
        kept_array(tmp_path / "file" / "a.npy", Maker())


def test_the_array_is_made_once_and_again_where_the_file_is_damaged(tmp_path: Path) -> None:
    make, path = Maker(), tmp_path / "deep" / "a.npy"
    for _ in range(3):
        assert np.array_equal(kept_array(path, make)[0], VALUES)
    assert make.count == 1
    other = tmp_path / "deep" / "b.npy"
    kept_array(other, lambda path: np.save(path, VALUES + 1))
    whole, beside = path.read_bytes(), path.with_suffix(".json")
    flipped, fewer = bytes([*whole[:-1], whole[-1] ^ 1]), BytesIO()
    np.save(fewer, VALUES[:, :2])
    spoiled = [(path, content) for content in (b"", whole[:-5], b"no array" * 99, flipped, fewer.getvalue())]
    spoiled += [(path, other.read_bytes()), (beside, b""), (beside, b"{}"), (beside, b"3"), (beside, b'["a", null]')]
    for file, content in spoiled:
        file.write_bytes(content)
        assert np.array_equal(kept_array(path, make)[0], VALUES)
    for file in (path, beside):
        os.replace(other.with_suffix(file.suffix), file)
    assert np.array_equal(kept_array(path, make)[0], VALUES)
    assert make.count == 2 + len(spoiled)


def _slowly(path: Path) -> tuple[int, bool]:
    make = Maker()

    def slowly(file: Path) -> None:
        time.sleep(0.2)
        make(file)

    return int(kept_array(path, slowly)[0].sum()), bool(make.count)


def test_of_two_processes_one_makes_and_both_read(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(_slowly, [tmp_path / "a.npy"] * 2, chunksize=1)
    assert sorted(found) == [(276, False), (276, True)]
