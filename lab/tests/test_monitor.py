"""What a grid follows of a training: further splits, and epochs that other rules would take."""

from __future__ import annotations

import csv
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from logit_correction import InputError, RunConfig
from logit_correction.errors import TrainingInterrupted
from logit_correction.runs.run import Run
from logit_correction.runs.train import train
from logit_correction_lab.monitor import TrainingMonitor, compute_monitored_metrics, read_selections

RULES = ("last", "valid_average", "valid_worst_group")


def test_compute_monitored_metrics_gives_the_margins_of_appendix_c(make_table: Any) -> None:
    table = make_table()
    rows = table.split["train"]
    noise = torch.randn(len(rows), 3, generator=torch.Generator().manual_seed(0))
    logits = noise + 5.0 * torch.eye(3)[table.label[rows]]
    metrics = compute_monitored_metrics(["train_margins"], table, lambda split: {"train": logits}[split])
    least: dict[bool, list[float]] = {True: [], False: []}
    mean: dict[bool, list[float]] = {True: [], False: []}
    for y in range(3):
        for a in range(3):
            group_logits = logits[(table.label[rows] == y) & (table.attribute[rows] == a)].numpy()
            if len(group_logits):
                margins = [row[y] - max(np.delete(row, y)) for row in group_logits]
                least[y == a].append(min(margins))
                mean[y == a].append(float(np.mean(margins)))
    assert metrics["train_majority_margin"] == pytest.approx(np.mean(least[True]), rel=1e-5)
    assert metrics["train_margin_ratio"] == pytest.approx(np.mean(least[True]) / np.mean(least[False]), rel=1e-5)
    assert metrics["train_mean_margin_ratio"] == pytest.approx(np.mean(mean[True]) / np.mean(mean[False]), rel=1e-5)
    assert "train_margin_ratio" not in compute_monitored_metrics(["train_margins"], table, lambda split: -logits)


def train_digits(out: Path, rule: str, monitor: Any = None, resume: bool = False) -> Run:
    parts = {"data": "Digits", "method": {"name": "LC", "attributes": "Online"}, "network": "MLP"}
    config = RunConfig.from_dict({**parts, "epochs": 3, "threads": 1, "device": "cpu", "selection": rule})
    return Run(train(config, out, page=False, after_epoch=monitor, resume=resume))


def test_monitor_selects_what_each_rule_would_select_in_a_run_of_its_own(tmp_path: Path) -> None:
    runs = {rule: train_digits(tmp_path / rule, rule) for rule in RULES}
    out = tmp_path / "followed"
    monitor = TrainingMonitor(out, ["test", "train_margins"], RULES)

    def stop_after_two_epochs(fit: Any) -> dict[str, float]:
        figures = monitor(fit)
        if fit.progress.epoch == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return figures

    with pytest.raises(TrainingInterrupted):
        train_digits(out, "last", stop_after_two_epochs)
    run = train_digits(out, "last", monitor, resume=True)
    for name in ("labels_read", "test", "selection", "warnings"):
        assert run.report.to_dict()[name] == runs["last"].report.to_dict()[name], name
    chosen = {selected_epoch["rule"]: selected_epoch for selected_epoch in read_selections(out)}
    assert list(chosen) == ["valid_average", "valid_worst_group"]
    for rule, selected_epoch in chosen.items():
        selection = runs[rule].report.to_dict()["selection"]
        assert [selected_epoch[name] for name in ("epoch", "labels_read")] == [
            selection[n] for n in ("epoch", "labels_read")
        ]
        assert selected_epoch["test"] == runs[rule].report.to_dict()["test"]
    last = list(csv.DictReader((out / "metrics.csv").open()))[-1]
    assert float(last["test_group_balanced"]) == pytest.approx(run.report.test.group_balanced)


@pytest.mark.parametrize("options", [{"watch": ["tests"]}, {"also_select": ["valid_avrage"]}])
def test_monitor_refuses_unknown_names(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tests|did you mean valid_average"):
        TrainingMonitor(tmp_path, **options)
