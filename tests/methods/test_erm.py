"""Empirical risk minimization against its definition."""

from __future__ import annotations

import torch

from logit_correction.types import Batch


def test_the_loss_is_the_mean_cross_entropy(build, make_table) -> None:
    table = make_table()
    algorithm = build("ERM", table).double()
    rows = table.split["train"]
    inputs, label = table.inputs.fetch(rows).double(), table.label[rows]
    step = algorithm(Batch(inputs, label, rows), 0.0)
    logits = algorithm.network(inputs)
    by_hand = [logits[i].exp().sum().log() - logits[i, label[i]] for i in range(len(label))]
    torch.testing.assert_close(step.loss, torch.stack(by_hand).mean())
    assert torch.equal(step.logs["loss"], step.loss.detach())
