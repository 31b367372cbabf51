"""Ctrl-C and SIGTERM stop at a clean place."""

from __future__ import annotations

import signal
import threading

import pytest

from logit_correction.training import checkpoint
from logit_correction.training.interrupt import Interrupted, stop_requests

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread alone"
)

KINDS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_becomes_a_request(kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    with stop_requests() as request:
        assert not request.asked
        signal.raise_signal(kind)
        assert request.asked
    assert signal.getsignal(kind) is before


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_signal_stops_at_once(kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    with pytest.raises(KeyboardInterrupt), stop_requests():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(kind)
    assert signal.getsignal(kind) is before


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_signal_waits_while_a_checkpoint_is_written_and_a_third_does_not(kind: signal.Signals) -> None:
    with stop_requests() as request:
        signal.raise_signal(kind)
        with request.waiting():
            signal.raise_signal(kind)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(kind)
    with stop_requests() as request, request.waiting():
        signal.raise_signal(kind)
        assert request.asked
        signal.raise_signal(kind)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(kind)


def test_another_thread_trains_without_signals() -> None:
    asked: list[bool] = []

    def work() -> None:
        with stop_requests() as request:
            asked.append(request.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert asked == [False]


class SignalAt:
    """A logger that sends a signal when it is told the figures of a step."""

    def __init__(self, kind: signal.Signals, step: int) -> None:
        self.kind, self.step = kind, step

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        if step == self.step and "loss" in figures:
            signal.raise_signal(self.kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [4, 6])
def test_training_stops_after_the_signal_and_goes_on_later(
    kind: signal.Signals, step: int, make_table, trainer, assert_ended_alike
) -> None:
    table = make_table()
    whole = trainer.fit(table, "LC", place="whole")
    whole.run()
    fit = trainer.fit(table, "LC", loggers=(SignalAt(kind, step),))
    with pytest.raises(Interrupted):
        fit.run()
    assert checkpoint.load(fit.checkpoint_path)[0].total_steps == step
    resumed = trainer.fit(table, "LC")
    resumed.run(resume=True)
    assert_ended_alike(whole, resumed)
