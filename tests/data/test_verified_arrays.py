"""Arrays that are made once: verified when they are read, and made again when they are damaged."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from logit_correction.data.cache import checksum_of, verified_array
from logit_correction.errors import InputError

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


class Maker:
    """Makes the values and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> NDArray[np.uint8]:
        self.count += 1
        return VALUES


def test_the_array_is_made_once_and_its_checksum_lies_beside_it(tmp_path: Path) -> None:
    make, path = Maker(), tmp_path / "deep" / "a.npy"
    for _ in range(3):
        values, checksum = verified_array(path, make)
        assert np.array_equal(values, VALUES)
    assert make.count == 1
    assert checksum == hashlib.sha256(bytes(range(24))).hexdigest() == path.with_suffix(".sha256").read_text().strip()
    assert {file.suffix for file in path.parent.iterdir()} <= {".npy", ".sha256", ".lock"}


def test_the_checksum_is_of_the_values_and_not_of_their_layout() -> None:
    assert checksum_of(np.asfortranarray(VALUES)) == checksum_of(VALUES) != checksum_of(VALUES[::-1])


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "no checksum", "other checksum", "other type"])
def test_a_damaged_array_is_made_again(tmp_path: Path, damage: str) -> None:
    make, path = Maker(), tmp_path / "a.npy"
    verified_array(path, make)
    content = path.read_bytes()
    if damage == "changed":
        path.write_bytes(content[:-1] + b"x")
    elif damage == "cut":
        path.write_bytes(content[:-5])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no checksum":
        path.with_suffix(".sha256").unlink()
    elif damage == "other checksum":
        path.with_suffix(".sha256").write_text("0" * 64)
    else:
        np.save(path, VALUES.astype(np.int64))
    values, _ = verified_array(path, make)
    assert make.count == 2 and np.array_equal(values, VALUES)
    verified_array(path, make)
    assert make.count == 2


def test_nothing_is_left_of_a_making_that_failed(tmp_path: Path) -> None:
    def fail() -> NDArray[np.uint8]:
        raise InputError("no")

    path = tmp_path / "a.npy"
    with pytest.raises(InputError, match="no"):
        verified_array(path, fail)
    assert not path.exists() and not path.with_suffix(".sha256").exists()
    verified_array(path, Maker())


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written.*LOGIT_CORRECTION_CACHE"):
        verified_array(tmp_path / "file" / "a.npy", Maker())


def test_of_two_processes_one_makes_and_both_read(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    code = (
        "import sys, time, numpy as np\n"
        "from pathlib import Path\n"
        "from logit_correction.data.cache import verified_array\n"
        "def make():\n"
        "    print('made', flush=True)\n"
        "    time.sleep(0.5)\n"
        "    return np.full((3, 4), 7, np.uint8)\n"
        "print(verified_array(Path(sys.argv[1]), make)[0].sum())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.npy")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    shown = [process.communicate(timeout=60)[0] for process in both]
    assert sorted("made" in text for text in shown) == [False, True]
    assert all(text.split()[-1] == "84" for text in shown)
