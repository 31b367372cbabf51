"""Killed at any moment, by a signal that nobody can catch, a run goes on to the same end; so does a full disk's."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from ..forked import Forked, launch

WORDS = ("--data", "Digits", "--network", "MLP", "--epochs", "4", "--batch_size", "64", "--threads", "1")

#: Seconds that nothing here takes, even on a machine with other work.
PATIENCE = 800


def weights(run: Path) -> dict[str, object]:
    state: dict[str, object] = torch.load(run / "checkpoint.pt", weights_only=True)["algorithm"]
    return state


def same(run: Path, other: Path) -> None:
    one, two = weights(run), weights(other)
    assert one.keys() == two.keys()
    assert all(v.equal(two[k]) for k, v in one.items() if isinstance(v, torch.Tensor))  # type: ignore[arg-type]
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()}


def start(words: list[str]) -> Forked:
    """Start the program; what it says goes to a file beside its folder."""
    return Forked(words, log=Path(f"{words[-1]}.log"))


def ended(words: list[str]) -> None:
    """Run the program to its end."""
    with start(words) as process:
        assert process.wait(PATIENCE) == 0, process.told


def both_end(words: list[str]) -> None:
    """Run the program to its end, as two processes."""
    with ExitStack() as stack:
        processes = launch(stack, words)
        assert [process.wait(PATIENCE) for process in processes] == [0, 0], [process.told for process in processes]


def child_of(process: subprocess.Popen[bytes] | Forked) -> int | None:
    """The number of a process's one child, while both are there."""
    try:
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(text[0]) if text else None


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no way to find the other process")
def test_one_of_two_processes_killed(program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    words = ("--data", "Digits", "--network", "MLP", "--batch_size", "64", "--threads", "1", "--device", "cpu")
    command = ["train", *words, "--devices", "2", "--epochs", "15", "--method", "ERM", "--out"]
    both_end([*command, str(tmp_path / "whole")])
    run = tmp_path / "run"
    process = subprocess.Popen([*program, *command, str(run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (run / "resume.pt").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    other = child_of(process)
    assert other is not None
    os.kill(other, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    # Lightning Fabric looks every five seconds for processes that died, and kills the rest: it may be there first.
    if process.returncode != -signal.SIGKILL:
        said = [line for line in errors.decode().splitlines() if line.startswith("error: another process of this run")]
        assert process.returncode == 1 and len(said) == 1, errors
        assert f"go on with `train --resume --out {run}`" in said[0]
    both_end([*command, str(run), "--resume"])
    same(run, tmp_path / "whole")


def small_disk(size: str, place: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a small file system at ``place``, whose files are kept in ``place`` afterwards."""
    kept = place.with_name("kept")
    script = f'mount -t tmpfs -o size={size} none "$0" && shift 0; "$@"; s=$?; cp -a "$0" {kept}; exit $s'
    words = ["unshare", "-rm", "sh", "-c", script, str(place), *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if kept.exists():
        shutil.rmtree(place)
        kept.rename(place)
    return done


@pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0, reason="no file system of our own"
)
def test_full_disk(program: list[str], tmp_path: Path, times: Callable[[int, int], int]) -> None:
    whole = tmp_path / "whole"
    words = ["train", *WORDS, "--method", "ERM", "--out"]
    ended([*words, str(whole)])
    draw, full = random.Random(0), 0
    for number in range(times(1, 20)):
        disk = tmp_path / f"disk-{number}"
        disk.mkdir()
        # Something else fills the disk when the run has begun to write: the first checkpoint comes with an epoch.
        waits = f"while [ ! -e {disk}/run/config.yaml ]; do sleep 0.02; done; sleep {draw.uniform(0, 0.3)}"
        fills = f"({waits}; cat /dev/zero > {disk}/filler) 2>/dev/null &"
        train = " ".join([*program, *words, f"{disk}/run"])
        script = f"{fills} {train}; s=$?; kill $! 2>/dev/null; rm -f {disk}/filler; exit $s"
        done = small_disk("24m", disk, ["sh", "-c", script])
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
        if done.returncode == 0:
            continue
        full, last = full + 1, done.stderr.splitlines()[-1]
        assert last.startswith("error: ") and "cannot be written (No space left on device)" in last, last
        ended([*words[:-1], "--resume", "--out", f"{disk}/run"])
        same(disk / "run", whole)
    assert full
