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


def test_margins_of_appendix_c(make_table: Any) -> None:
    table = make_table()
    rows = table.split["train"]
    noise = torch.randn(len(rows), 3, generator=torch.Generator().manual_seed(0))
    logits = noise + 5.0 * torch.eye(3)[table.label[rows]]
    found = compute_monitored_metrics(["train_margins"], table, lambda split: {"train": logits}[split])
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
    assert "train_margin_ratio" not in compute_monitored_metrics(["train_margins"], table, lambda split: -logits)


def trained(out: Path, rule: str, follower: Any = None, resume: bool = False) -> Run:
    parts = {"data": "Digits", "method": {"name": "LC", "attributes": "Online"}, "network": "MLP"}
    config = RunConfig.from_dict({**parts, "epochs": 3, "threads": 1, "device": "cpu", "selection": rule})
    return Run(train(config, out, page=False, after_epoch=follower, resume=resume))


def test_other_rules_choose_as_if_they_were_the_runs_own_and_nothing_else_changes(tmp_path: Path) -> None:
    own = {rule: trained(tmp_path / rule, rule) for rule in RULES}
    out = tmp_path / "followed"
    follower = TrainingMonitor(out, ["test", "train_margins"], RULES)

    def stopping(fit: Any) -> dict[str, float]:
        figures = follower(fit)
        if fit.progress.epoch == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return figures

    with pytest.raises(TrainingInterrupted):
        trained(out, "last", stopping)
    run = trained(out, "last", follower, resume=True)
    for name in ("labels_read", "test", "selection", "warnings"):
        assert run.report.to_dict()[name] == own["last"].report.to_dict()[name], name
    chosen = {one["rule"]: one for one in read_selections(out)}
    assert list(chosen) == ["valid_average", "valid_worst_group"]
    for rule, one in chosen.items():
        selection = own[rule].report.to_dict()["selection"]
        assert [one[name] for name in ("epoch", "labels_read")] == [selection[n] for n in ("epoch", "labels_read")]
        assert one["test"] == own[rule].report.to_dict()["test"]
    last = list(csv.DictReader((out / "metrics.csv").open()))[-1]
    assert float(last["test_group_balanced"]) == pytest.approx(run.report.test.group_balanced)


@pytest.mark.parametrize("given", [{"watch": ["tests"]}, {"also_select": ["valid_avrage"]}])
def test_names_that_are_unknown(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tests|did you mean valid_average"):
        TrainingMonitor(tmp_path, **given)
