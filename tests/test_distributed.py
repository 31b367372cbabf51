"""What several processes that train together have in common."""

from __future__ import annotations

import subprocess
import time

import pytest
from lightning_fabric.strategies.launchers import subprocess_script

from logit_correction import distributed


def test_another_process_has_ended_and_this_one_has_time_to_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[float] = []
    monkeypatch.setattr(distributed, "GRACE", 0.5)
    monkeypatch.setattr(
        subprocess_script._ChildProcessObserver, "_terminate_all", lambda _: killed.append(time.monotonic())
    )
    ended = subprocess.Popen(["false"])
    observer = subprocess_script._ChildProcessObserver(0, [ended], sleep_period=0.2)  # type: ignore[arg-type]
    started = time.monotonic()
    observer.start()
    distributed.delay_kill()
    once = vars(observer)["_terminate_all"]
    distributed.delay_kill()  # as a second training of the process does
    assert vars(observer)["_terminate_all"] is once
    observer.join(timeout=30)
    ended.wait()
    assert len(killed) == 1 and killed[0] - started >= 0.7
