"""One process at a time writes into a run folder, and a dead one blocks nobody."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, train
from logit_correction.runs.folder import LOCK, FolderHeld, acquire, check_free, owner_of

HOLD = """
import errno, fcntl, os, sys, time
from pathlib import Path
os.setsid()
from logit_correction.runs.folder import acquire
def refuse(*_):
    raise OSError(errno.ENOSYS, "Function not implemented")
if "no flock" in sys.argv:
    fcntl.flock = refuse
with acquire(Path(sys.argv[1])):
    if "fork" in sys.argv and os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holding(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start another process that holds the folder, and end it."""
    command = [sys.executable, "-c", HOLD, str(folder), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with holding(tmp_path) as process:
        yield process


def test_a_lock_is_held_and_given_back(tmp_path: Path) -> None:
    assert owner_of(tmp_path) is None
    with acquire(tmp_path):
        found = owner_of(tmp_path)
        assert found is not None and found.startswith(f"process {os.getpid()} on ")
        with acquire(tmp_path / "." / ".." / tmp_path.name):  # a block within one is free, by whatever path
            check_free(tmp_path)
        assert owner_of(tmp_path) == found
    assert owner_of(tmp_path) is None and list(tmp_path.iterdir()) == []


def test_an_error_gives_it_back_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), acquire(tmp_path):
        raise RuntimeError("mine")
    assert list(tmp_path.iterdir()) == []


def test_another_process_is_named(other: subprocess.Popen[str], tmp_path: Path) -> None:
    for attempt in (lambda: acquire(tmp_path).__enter__(), lambda: check_free(tmp_path)):
        with pytest.raises(FolderHeld, match=rf"{tmp_path} is in use: process {other.pid} on "):
            attempt()
    config = RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), training=TrainingConfig(epochs=1))
    for resume in (False, True):
        with pytest.raises(InputError, match=f"process {other.pid} on "):
            train(config, tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_kill_frees_the_folder_at_once(other: subprocess.Popen[str], tmp_path: Path) -> None:
    other.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while owner_of(tmp_path) is not None:  # not waited for: a zombie does not hold it either
        assert time.monotonic() < deadline
    assert (tmp_path / LOCK).is_file()
    training = TrainingConfig(epochs=1, threads=1)
    train(
        RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), training=training), tmp_path, page=False
    )  # no --resume needed
    assert not (tmp_path / LOCK).exists()


def test_a_fork_does_not_keep_the_lock(tmp_path: Path) -> None:
    with holding(tmp_path, "fork") as process:
        process.kill()  # but not its child
        process.wait()
        try:
            with acquire(tmp_path):
                pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_file_system_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with holding(tmp_path, "no flock") as process:
        assert owner_of(tmp_path) == f"process {process.pid} on {socket.gethostname()}"
        with pytest.raises(FolderHeld, match=f"process {process.pid} on "), acquire(tmp_path):
            pass
    with acquire(tmp_path):  # on the same machine a dead holder is seen to be dead
        assert owner_of(tmp_path) is not None
    assert owner_of(tmp_path) is None and list(tmp_path.iterdir()) == []


def test_two_threads_do_not_share_a_lock(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def attempt() -> None:
        for block in (acquire(tmp_path).__enter__, lambda: check_free(tmp_path)):
            try:
                block()
            except FolderHeld as error:
                errors.append(error)

    with acquire(tmp_path):
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert len(errors) == 2 and all(f"process {os.getpid()}" in str(error) for error in errors)


def test_of_many_that_want_it_one_at_a_time_has_it(tmp_path: Path) -> None:
    inside, most, done = [0], [0], [0]

    def attempt() -> None:
        while True:
            try:
                with acquire(tmp_path):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    time.sleep(0.002)
                    inside[0] -= 1
                    done[0] += 1
                    return
            except FolderHeld:
                pass

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], done[0]) == (1, 6)


def test_a_damaged_lock_is_none(tmp_path: Path) -> None:
    for content in (b"", b"{", b"[1]", b"\xff" * 600):
        (tmp_path / LOCK).write_bytes(content)
        assert owner_of(tmp_path) is None
        with acquire(tmp_path):
            pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot be written"), acquire(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "mine"
