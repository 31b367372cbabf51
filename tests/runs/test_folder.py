"""What may be written where: one process at a time, complete files, checksums, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logit_correction import train
from logit_correction.atomic_files import create_folder_atomically, replace_atomically
from logit_correction.runs.folder import LOCK, FolderHeld, check_folder_unlocked, lock_folder

HOLD = """
import os, sys, time
from pathlib import Path
os.setsid()
from logit_correction.runs.folder import lock_folder
with lock_folder(Path(sys.argv[1])):
    if "fork" in sys.argv and os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    print("held", flush=True)
    time.sleep(3600)
"""


@contextmanager
def start_lock_holder(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start another process that holds the folder, and end it."""
    command = [sys.executable, "-c", HOLD, str(folder), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_folder_lock_is_released_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), lock_folder(tmp_path):
        with lock_folder(tmp_path / "." / ".." / tmp_path.name):  # a block within one is free, by any path
            check_folder_unlocked(tmp_path)
        raise RuntimeError("mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_folder_is_locked_until_the_other_process_is_killed(tmp_path: Path) -> None:
    with start_lock_holder(tmp_path, "fork") as other:
        with pytest.raises(FolderHeld, match=f"{tmp_path}'. is in use by another process"):
            train("Digits", tmp_path, method="ERM", epochs=1, threads=1, resume=True)
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]
        other.kill()  # but not its child, which does not keep it
        other.wait()
        try:
            train("Digits", tmp_path, method="ERM", epochs=1, threads=1, page=False)  # no --resume needed
        finally:
            os.killpg(other.pid, signal.SIGKILL)
    assert not (tmp_path / LOCK).exists()


def test_temporary_files_of_killed_processes_are_removed_by_the_next_write(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from logit_correction.atomic_files import create_folder_atomically, replace_atomically
out = Path(sys.argv[1])
with replace_atomically(out / "out.csv") as file, create_folder_atomically(out / "out") as folder:
    file.touch()
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)])
    assert len(list(tmp_path.iterdir())) == 2
    with replace_atomically(tmp_path / "out.csv") as mine:
        mine.write_text("a")
        with replace_atomically(tmp_path / "out.csv") as other:  # of a living process
            other.write_text("b")
        assert mine.exists()
    with pytest.raises(RuntimeError, match="broken"), replace_atomically(tmp_path / "out.csv") as half:
        half.write_text("half")
        raise RuntimeError("broken")
    assert (tmp_path / "out.csv").read_text() == "a"
    for _ in range(2):  # the second time it is there: in place of a mount, which nothing can replace
        with create_folder_atomically(tmp_path / "out"):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.csv"]
