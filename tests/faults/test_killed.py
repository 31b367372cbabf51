"""Killed at any moment, by a signal that nobody can catch, a run goes on to the same end; so does a full disk's."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

METHODS = ("ERM", "LC", "StagedLC", "GroupDRO", "LfF", "JTT", "DFA", "Reweighting")
WORDS = ("--data", "Digits", "--network", "MLP", "--epochs", "4", "--batch_size", "64", "--threads", "1")


def weights(run: Path) -> dict[str, object]:
    state: dict[str, object] = torch.load(run / "checkpoint.pt", weights_only=True)["algorithm"]
    return state


def same(run: Path, other: Path) -> None:
    one, two = weights(run), weights(other)
    assert one.keys() == two.keys()
    assert all(v.equal(two[k]) for k, v in one.items() if isinstance(v, torch.Tensor))  # type: ignore[arg-type]
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()}


def test_kill_and_resume(program: list[str], tmp_path: Path, times: Callable[[int, int], int]) -> None:
    draw, kills, number = random.Random(0), 0, 0
    while kills < times(2, 50):
        method = METHODS[number % len(METHODS)]
        whole, run, number = tmp_path / f"{method}-whole", tmp_path / f"run-{number}", number + 1
        command = [*program, "train", *WORDS, "--method", method, "--out"]
        if not whole.exists():
            started = time.monotonic()
            subprocess.run([*command, str(whole)], check=True, capture_output=True, timeout=250)
            seconds = time.monotonic() - started
        for _ in range(6):
            process = subprocess.Popen([*command, str(run), "--resume"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                process.wait(draw.uniform(0.3, 1.0) * seconds)
                assert process.returncode == 0, process.communicate()[1].decode()
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        else:
            subprocess.run([*command, str(run), "--resume"], check=True, capture_output=True, timeout=250)
        same(run, whole)


def small_disk(size: str, place: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a small file system at ``place``, whose files are kept in ``place`` afterwards."""
    kept = place.with_name("kept")
    script = f'mount -t tmpfs -o size={size} none "$0" && shift 0; "$@"; s=$?; cp -a "$0" {kept}; exit $s'
    words = ["unshare", "-rm", "sh", "-c", script, str(place), *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    if kept.exists():
        shutil.rmtree(place)
        kept.rename(place)
    return done


@pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0, reason="no file system of our own"
)
def test_full_disk(program: list[str], tmp_path: Path, times: Callable[[int, int], int]) -> None:
    whole = tmp_path / "whole"
    command = [*program, "train", *WORDS, "--method", "ERM", "--out"]
    subprocess.run([*command, str(whole)], check=True, capture_output=True, timeout=250)
    draw, full = random.Random(0), 0
    for number in range(times(2, 20)):
        disk = tmp_path / f"disk-{number}"
        disk.mkdir()
        # Something else fills the disk when the run has begun to write: the first checkpoint comes with an epoch.
        waits = f"while [ ! -e {disk}/run/config.yaml ]; do sleep 0.02; done; sleep {draw.uniform(0, 0.3)}"
        fills = f"({waits}; cat /dev/zero > {disk}/filler) 2>/dev/null &"
        train = " ".join([*command, f"{disk}/run"])
        script = f"{fills} {train}; s=$?; kill $! 2>/dev/null; rm -f {disk}/filler; exit $s"
        done = small_disk("24m", disk, ["sh", "-c", script])
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
        if done.returncode == 0:
            continue
        full, last = full + 1, done.stderr.splitlines()[-1]
        assert last.startswith("error: ") and "cannot be written (No space left on device)" in last, last
        subprocess.run([*command, f"{disk}/run", "--resume"], check=True, capture_output=True, timeout=250)
        same(disk / "run", whole)
    assert full
