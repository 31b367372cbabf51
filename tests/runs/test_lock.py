"""One process at a time writes into a run folder, and a dead one blocks nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from logit_correction import Choice, InputError, RunConfig, TrainingConfig, train
from logit_correction.errors import TrainingError
from logit_correction.runs import lock
from logit_correction.runs.holder import SIZE, Holder, here, is_shared
from logit_correction.runs.lock import LOCK, FolderHeld, check_free, hold, holder_of

HOLD = """
import sys, time
from pathlib import Path
from logit_correction.runs.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that holds the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def leave(folder: Path, holder: Holder, seconds_ago: float = 0.0) -> None:
    """Leave a lock's file as another machine would have."""
    (folder / LOCK).write_bytes(json.dumps(asdict(holder)).encode().ljust(SIZE))
    then = time.time() - seconds_ago
    os.utime(folder / LOCK, (then, then))


def elsewhere(**changes: object) -> Holder:
    return replace(here("there", False), host="another", kernel="another", **changes)


def test_a_lock_is_held_and_given_back(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    with hold(tmp_path):
        found = holder_of(tmp_path)
        assert found is not None and found.pid == os.getpid()
        with hold(tmp_path):  # a block within one is free
            check_free(tmp_path)
        assert holder_of(tmp_path) == found
    assert holder_of(tmp_path) is None and list(tmp_path.iterdir()) == []


def test_another_process_is_named(other: subprocess.Popen[str], tmp_path: Path) -> None:
    for attempt in (lambda: hold(tmp_path).__enter__(), lambda: check_free(tmp_path)):
        with pytest.raises(FolderHeld, match=rf"{tmp_path} is in use: process {other.pid} on "):
            attempt()
    config = RunConfig(Choice("Digits"), Choice("ERM"), training=TrainingConfig(epochs=1))
    for resume in (False, True):
        with pytest.raises(InputError, match=f"process {other.pid} on "):
            train(config, tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_kill_frees_the_folder_at_once(other: subprocess.Popen[str], tmp_path: Path) -> None:
    other.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while holder_of(tmp_path) is not None:  # not waited for: a zombie does not hold it either
        assert time.monotonic() < deadline
    assert (tmp_path / LOCK).is_file()
    training = TrainingConfig(epochs=1, threads=1)
    train(RunConfig(Choice("Digits"), Choice("ERM"), training=training), tmp_path, page=False)  # no --resume needed
    assert not (tmp_path / LOCK).exists()


def test_two_threads_do_not_share_a_lock(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            with hold(tmp_path):
                pass
        except FolderHeld as error:
            errors.append(error)

    with hold(tmp_path):
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert len(errors) == 1 and f"process {os.getpid()}" in str(errors[0])


def test_of_many_that_want_it_one_at_a_time_has_it(tmp_path: Path) -> None:
    inside, most, done = [0], [0], [0]

    def attempt() -> None:
        while True:
            try:
                with hold(tmp_path):
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


@pytest.mark.parametrize("locked", [True, False])
def test_a_lease_from_another_machine(locked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_SETTLE", 0.0)
    leave(tmp_path, elsewhere(locked=locked), seconds_ago=lock.LEASE_SECONDS - 20)
    assert holder_of(tmp_path) is not None
    with pytest.raises(FolderHeld, match="on another is"), hold(tmp_path):
        pass
    leave(tmp_path, elsewhere(locked=locked), seconds_ago=lock.LEASE_SECONDS + 20)
    assert holder_of(tmp_path) is None
    with hold(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_without_locks_of_the_system_the_lease_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(lock, "_SETTLE", 0.0)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    leave(tmp_path, replace(here("dead", False), pid=dead.pid, started="1"))
    with hold(tmp_path):
        assert (found := holder_of(tmp_path)) is not None and not found.locked
    leave(tmp_path, replace(here("alive", False)))
    with pytest.raises(FolderHeld, match=f"process {os.getpid()}"), hold(tmp_path):
        pass


def test_a_number_used_again_is_another_process(tmp_path: Path) -> None:
    leave(tmp_path, replace(here("before", True), started="1"))
    assert holder_of(tmp_path) is None


def test_the_last_of_two_machines_to_write_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rival = elsewhere(token="rival")
    leave(tmp_path, elsewhere(), seconds_ago=1000)
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: leave(tmp_path, rival) if seconds == lock._SETTLE else None)
    with pytest.raises(FolderHeld, match="on another is"), hold(tmp_path):
        pass
    assert (found := holder_of(tmp_path)) is not None and found.token == "rival"


def test_a_holder_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.02)
    with hold(tmp_path):
        os.utime(tmp_path / LOCK, (1, 1))
        deadline = time.monotonic() + 5
        while (tmp_path / LOCK).stat().st_mtime < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_holder_that_was_taken_for_dead_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.02)
    with pytest.raises(TrainingError, match=r"took .* over"), hold(tmp_path):
        leave(tmp_path, elsewhere(token="rival"))
        try:
            time.sleep(5)
            raise AssertionError("it was not told")
        except KeyboardInterrupt:
            pass
    assert (found := holder_of(tmp_path)) is not None and found.token == "rival"  # the rival's lock stays


def test_a_damaged_lock_is_none(tmp_path: Path) -> None:
    for content in (b"", b"{", b"[1]", b"\xff" * SIZE):
        (tmp_path / LOCK).write_bytes(content)
        assert holder_of(tmp_path) is None
        with hold(tmp_path):
            pass


def test_a_fork_does_not_keep_the_lock(tmp_path: Path) -> None:
    program = HOLD.replace("import sys, time", "import os, sys, time").replace(
        '    print("held"', '    if os.fork() == 0:\n        time.sleep(30)\n        os._exit(0)\n    print("held"'
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        process.kill()  # but not its child
        process.wait()
        with hold(tmp_path):
            pass
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_a_local_disk_is_not_shared(tmp_path: Path) -> None:
    assert not is_shared(tmp_path)
