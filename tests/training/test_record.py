"""What is recorded while a run trains: rows of figures, and what is watched."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest
import torch

from logit_correction import train
from logit_correction.training.record import Record
from logit_correction.training.rules import watched


def test_a_row_holds_the_means_of_the_steps_that_have_the_figure() -> None:
    record = Record()
    logged = {"loss_biased": torch.tensor(1.0), "loss": torch.tensor(9.0)}
    record.add(torch.tensor(1.0), logged)  # the total loss stands, whatever a method logs
    record.add(torch.tensor(2.0), {"loss_robust": torch.tensor(4.0), "loss_biased": torch.tensor(3.0)})
    record.add(torch.tensor(6.0, dtype=torch.bfloat16), {"loss_robust": torch.tensor(6.0, dtype=torch.float64)})
    assert record.flush(3, epoch=0) and not record.flush(3, epoch=0)
    assert record.rows == [{"step": 3, "epoch": 0, "loss": 3.0, "loss_biased": 2.0, "loss_robust": 5.0}]


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
