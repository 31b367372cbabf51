"""Child processes that are stopped together."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from logit_correction.runs.processes import Processes


def test_exit_status_and_options(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as file:
        command = [sys.executable, "-c", "import sys; print(sys.stdin.read()); sys.exit(3)"]
        assert Processes().run(command, stdout=file) == 3
    assert log.read_text() == "\n"


def test_stop_ends_what_runs_and_lets_nothing_begin(tmp_path: Path) -> None:
    processes = Processes()
    program = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(60)"
    started = [tmp_path / str(i) for i in range(2)]
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(processes.run, [sys.executable, "-c", program, str(path)]) for path in started]
        while not all(path.exists() for path in started):
            assert not any(future.done() for future in running)
        processes.stop()
        assert [future.result(timeout=30) for future in running] == [-signal.SIGTERM] * 2
    assert processes.run([sys.executable, "-c", program, str(tmp_path / "late")]) == 130
    assert not (tmp_path / "late").exists()
