"""Files that are made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from logit_correction.data.cache import cache_folder, digest, made_once
from logit_correction.errors import InputError


def test_the_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("LOGIT_CORRECTION_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "logit_correction"


def test_digests_tell_parts_apart() -> None:
    given = [["a", "b"], ["b", "a"], ["ab"], ["a", b"b", "c"], ["a", 1], ["a", "", "b"], []]
    assert len({digest(parts) for parts in given}) == len(given)
    assert digest(["a", 1]) == digest(["a", "1"])


def test_a_file_is_made_once_and_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.bin"

    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        made_once(target, fails)
    assert list(target.parent.iterdir()) == []
    assert made_once(target, lambda path: path.write_bytes(b"whole") and None) == target
    assert made_once(target, fails).read_bytes() == b"whole"
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot be written .* LOGIT_CORRECTION_CACHE"):
        made_once(tmp_path / "file" / "deep" / "x.bin", lambda path: None)
