"""What is told while a run trains: rows of figures, what is watched, lines and bars."""

from __future__ import annotations

import csv
import math
from typing import Any

import numpy as np
import pytest
import torch

from logit_correction import train
from logit_correction.errors import TrainingError
from logit_correction.training.display import Lines
from logit_correction.training.record import Record
from logit_correction.training.rules import watched


def add(record: Record, loss: float, **logs: float) -> None:
    record.add(torch.tensor(loss), {name: torch.tensor(value) for name, value in logs.items()})


def test_a_row_holds_the_means_of_the_steps_that_have_the_figure() -> None:
    record = Record()
    logged = {"loss_biased": torch.tensor(1.0), "loss": torch.tensor(9.0)}
    record.add(torch.tensor(1.0), logged)  # the total loss stands, whatever a method logs
    add(record, 2.0, loss_robust=4.0, loss_biased=3.0)
    record.add(torch.tensor(6.0, dtype=torch.bfloat16), {"loss_robust": torch.tensor(6.0, dtype=torch.float64)})
    assert record.flush(3, epoch=0) and not record.flush(3, epoch=0)
    assert record.rows == [{"step": 3, "epoch": 0, "loss": 3.0, "loss_biased": 2.0, "loss_robust": 5.0}]


@pytest.mark.parametrize(("bad", "place"), [(math.nan, 0), (math.inf, 3)])
def test_a_loss_that_is_not_finite_is_named_by_its_step(bad: float, place: int) -> None:
    record = Record()
    for number in range(5):
        add(record, bad if number >= place else 1.0, part=1.0)
    with pytest.raises(TrainingError, match=f"at step {100 + place + 1}"):
        record.flush(105)


def test_margins_of_appendix_c(make_table: Any) -> None:
    table = make_table()
    rows = table.split["train"]
    noise = torch.randn(len(rows), 3, generator=torch.Generator().manual_seed(0))
    logits = noise + 5.0 * torch.eye(3)[table.label[rows]]
    found = watched(["train_margins"], table, lambda split: {"train": logits}[split])
    least: dict[bool, list[float]] = {True: [], False: []}
    mean: dict[bool, list[float]] = {True: [], False: []}
    for y in range(3):
        for a in range(3):
            own = logits[(table.label[rows] == y) & (table.attribute[rows] == a)].numpy()
            if len(own):
                margins = [row[y] - max(np.delete(row, y)) for row in own]
                least[y == a].append(min(margins))
                mean[y == a].append(float(np.mean(margins)))
    assert found["train_majority_margin"] == pytest.approx(np.mean(least[True]), rel=1e-5)
    assert found["train_margin_ratio"] == pytest.approx(np.mean(least[True]) / np.mean(least[False]), rel=1e-5)
    assert found["train_mean_margin_ratio"] == pytest.approx(np.mean(mean[True]) / np.mean(mean[False]), rel=1e-5)
    assert "train_margin_ratio" not in watched(["train_margins"], table, lambda split: -logits)


def test_what_is_watched_changes_nothing_and_the_report_says_what_was_read() -> None:
    parts = {"method": {"name": "LC", "attributes": "Online"}, "network": "MLP"}
    options = {**parts, "epochs": 2, "threads": 1, "page": False}
    plain, seen = (train("Digits", **options, watch=watch) for watch in ([], ["test", "train_margins"]))
    both = ["label", "attribute"]
    assert (plain.report["watched_labels_read"], seen.report["watched_labels_read"]) == (
        {},
        {"test": both, "train": both},
    )
    for name in ("labels_read", "test", "selection", "other_selections"):
        assert plain.report[name] == seen.report[name], name
    last = list(csv.DictReader((seen / "metrics.csv").open()))[-1]
    assert float(last["test_group_balanced"]) == pytest.approx(seen.report["test"]["group_balanced"])


def test_what_takes_long_is_told_once_at_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for second_of_a_step, told in ((2, 1), (0.02, 0)):
        display, now = Lines(), [0.0]
        display.whole = 3
        monkeypatch.setattr("logit_correction.training.display.time.monotonic", lambda now=now: now[0])
        for stage in range(2):
            display.start(f"stage {stage}", 100, 0)
            for done in range(1, 101):
                now[0] += second_of_a_step
                display.update(done, {})
        assert capsys.readouterr().err.count("takes 5:00 to 30:00") == told
