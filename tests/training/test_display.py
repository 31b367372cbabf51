"""What a person sees while a run trains."""

from __future__ import annotations

import sys

import pytest

from logit_correction.training.display import Bar, Display, Lines, choose_display


def test_nothing_is_shown_by_the_base(capsys: pytest.CaptureFixture[str]) -> None:
    with Display() as display:
        display.start("training", 10, 0)
        display.update(10, {"loss": 1.0})
    assert capsys.readouterr() == ("", "")


def test_lines_come_now_and_then_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as display:
        display.start("stage 1 of 2", 100, 0)
        for done in (1, 50, 100):
            display.update(
                done,
                {"loss": 3.0, "loss_robust": 1.25, "loss_biased": 0.5, "valid_average": 0.75, "epoch": 1},
            )
    out, err = capsys.readouterr()
    first, last = err.splitlines()
    assert out == "" and "stage 1 of 2" in first and "1 of 100" in first and "100 of 100" in last
    for figure in ("robust 1.250", "biased 0.500", "valid average 0.750"):
        assert figure in last
    assert "epoch" not in last


def test_one_loss_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    display = Lines()
    display.start("training", 1, 0)
    display.update(1, {"loss": 0.125, "valid_average": 0.5})
    assert "loss 0.125" in capsys.readouterr().err


def test_a_bar_goes_on_from_where_the_run_stood(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar() as display:
        display.start("training", 40, 10)
        display.update(30, {"loss": 0.25})
        (task,) = display._bar.tasks
        assert (task.total, task.completed) == (40, 30) and "loss 0.250" in task.fields["figures"]
    assert capsys.readouterr().out == ""


def test_the_display_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(choose_display(quiet=True)) is Display
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert type(choose_display()) is Lines
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert type(choose_display()) is Bar
