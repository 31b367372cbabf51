"""The example of a selection rule chooses an epoch, and by nothing but labels."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, train
from logit_correction.training.rules.base import ValidationRows

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_false_alarms_are_counted_among_rows_of_other_labels() -> None:
    from selection_rule import LeastFalseAlarms  # type: ignore[import-not-found]

    label, prediction = torch.tensor([0, 1, 1, 2, 2]), torch.tensor([1, 0, 1, 2, 1])
    assert LeastFalseAlarms().score(ValidationRows(prediction, label, 3)) == -1 / 4
    assert LeastFalseAlarms().score(ValidationRows(prediction[:1], label[:1], 3)) == 0


def test_a_run_takes_the_epoch_that_the_rule_prefers(tmp_path: Path) -> None:
    rule = "selection_rule.LeastFalseAlarms"
    training = TrainingConfig(epochs=4, batch_size=128, threads=1, device="cpu", selection=rule)
    run = train(
        RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), training=training), tmp_path / "run", page=False
    )
    report = json.loads((run / "report.json").read_text())
    scores = pd.read_csv(run / "metrics.csv")[rule].dropna().tolist()
    assert len(scores) == 4 and report["selection"] == {
        "rule": rule, "epoch": scores.index(max(scores)) + 1, "split": "valid", "labels_read": ["label"],
    }  # fmt: skip
