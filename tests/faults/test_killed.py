"""A run that is killed at any moment, or meets a full disk, resumes to the same end."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..conftest import find_differing_tensors, load_trained_tensors
from ..forked_programs import PATIENCE, ForkedProgram, start_two_processes

WORDS = ("--data", "Digits", "--network", "MLP", "--epochs", "4", "--batch_size", "64", "--threads", "1")


def check_same_run(run: Path, other: Path) -> None:
    assert find_differing_tensors(load_trained_tensors(run), load_trained_tensors(other)) == []
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()}


def run_command(words: list[str]) -> None:
    """Run the program to its end."""
    with ForkedProgram(words) as process:
        assert process.wait() == 0, process.output


def test_run_with_one_of_two_processes_killed_resumes_to_the_same_end(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    method = ("--method", "my_parts.Stopped", "--method.attributes", "Online")
    head_start = ("--method.attributes.head_start_epochs", "1")  # a stage, which ends with a checkpoint
    short = ("--epochs", "1", "--batch_size", "128", "--device", "cpu", "--devices", "2")
    words = ["train", *WORDS, *short, *method, *head_start, "--out"]
    run = tmp_path / "run"
    uninterrupted = tmp_path / "whole"
    process = subprocess.run(
        [*program, *words, str(uninterrupted)], capture_output=True, text=True
    )  # starts the other one
    assert process.returncode == 0, process.stderr
    with ExitStack() as stack, monkeypatch.context() as patch:
        patch.setenv("STOP", "SIGKILL:15")  # an epoch has ten steps
        patch.setenv("STOP_RANK", "1")
        first, second = start_two_processes(stack, [*words, str(run)])
        assert (second.wait(), first.wait()) == (-signal.SIGKILL, 1), first.output
        messages = [line for line in first.output.splitlines() if line.startswith("error: another process of this run")]
        assert len(messages) == 1 and messages[0].endswith(f"--out {run} --resume"), first.output
    assert (run / "resume.pt").exists()
    with ExitStack() as stack:
        resumed_processes = start_two_processes(stack, [*words, str(run), "--resume"])
        assert [process.wait() for process in resumed_processes] == [0, 0], [
            process.output for process in resumed_processes
        ]
    check_same_run(run, uninterrupted)


def run_on_small_disk(size: str, place: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a small file system at ``place``, whose files are kept in ``place`` afterwards."""
    copy = place.with_name("kept")
    script = f'mount -t tmpfs -o size={size} none "$0" && shift 0; "$@"; s=$?; cp -a "$0" {copy}; exit $s'
    words = ["unshare", "-rm", "sh", "-c", script, str(place), *command]
    process = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if copy.exists():
        shutil.rmtree(place)
        copy.rename(place)
    return process


needs_mount = pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0, reason="no file system of our own"
)


@needs_mount
def test_export_to_a_full_disk_leaves_nothing(program: list[str], tmp_path: Path) -> None:
    run_command(["train", *WORDS, "--method", "ERM", "--out", str(tmp_path / "run")])
    (tmp_path / "disk").mkdir()
    words = ["export", str(tmp_path / "run"), "--format", "torch-export", "--out", f"{tmp_path}/disk/x"]
    process = run_on_small_disk("40k", tmp_path / "disk", [*program, *words])
    last = process.stderr.splitlines()[-1]
    assert process.returncode == 1 and "x cannot be written (No space left on device): make room" in last, last
    assert not list((tmp_path / "disk").iterdir())


@needs_mount
def test_run_on_a_full_disk_resumes_to_the_same_end(
    program: list[str], tmp_path: Path, times: Callable[[int, int], int]
) -> None:
    uninterrupted = tmp_path / "whole"
    words = ["train", *WORDS, "--method", "ERM", "--out"]
    run_command([*words, str(uninterrupted)])
    needed = sum(file.stat().st_size for file in uninterrupted.iterdir()) // 1024
    draw = random.Random(0)
    for number in range(times(1, 20)):
        disk = tmp_path / f"disk-{number}"
        disk.mkdir()
        size = draw.randint(40, needed * 3 // 4)  # KiB; the files that a run begins with take less than ten of them
        process = run_on_small_disk(f"{size}k", disk, [*program, *words, f"{disk}/run"])
        last = process.stderr.splitlines()[-1]
        assert process.returncode == 1 and "Traceback" not in process.stderr, process.stderr
        assert last.startswith("error: ") and "cannot be written (No space left on device)" in last, last
        run_command([*words[:-1], "--resume", "--out", f"{disk}/run"])
        check_same_run(disk / "run", uninterrupted)
