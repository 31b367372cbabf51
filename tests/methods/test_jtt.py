"""Just train twice: what the second stage sees."""

from __future__ import annotations

import pytest
import torch

from logit_correction.errors import TrainingError

from .conftest import collect_stage_outputs


def test_jtt_upweights_the_errors_of_the_first_network(table, build, take_steps) -> None:
    method = build("JTT", table, up_weight=7, identification_epochs=2, identification_learning_rate=0.1)
    first = method.begin_stage(0, None)
    assert (first.epochs, first.learning_rate, first.sample_weight) == (2, 0.1, None)
    take_steps(method, table, epochs=2)
    rows = table.split["train"]
    wrong = method.identification_network(table.inputs.fetch(rows)).argmax(1) != table.label[rows]
    assert 0 < int(wrong.sum()) < 48
    plan = method.begin_stage(1, collect_stage_outputs(method, table))
    assert torch.equal(plan.sample_weight, torch.where(wrong, 7, 1))  # whole numbers: each row exactly so often
    assert plan.epochs is None and plan.learning_rate is None


def test_jtt_without_errors_is_refused(table, build, take_steps) -> None:
    method = build("JTT", table)
    take_steps(method, table, epochs=80)
    with pytest.raises(TrainingError, match=r"error set is empty.*lower `identification_epochs`"):
        method.begin_stage(1, collect_stage_outputs(method, table))
