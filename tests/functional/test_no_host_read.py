"""What runs in a training step never reads a tensor's values: on the meta device there are none to read."""

from __future__ import annotations

import pytest
import torch

from logit_correction.correlation import Correlation
from logit_correction.functional import (
    draw_weight,
    generalized_cross_entropy,
    group_mixup,
    joint_prior,
    logit_corrected_cross_entropy,
)
from logit_correction.prior import GroupPrior


@pytest.mark.parametrize("form", ["every-row", "minority-rows"])
@pytest.mark.parametrize("estimator", ["cell", "joint", "algorithm-1"])
@pytest.mark.parametrize("table", [[[0], [1], [2]], [[0], [0], [1, 2]]])
def test_a_whole_step_reads_no_value(form: str, estimator: str, table: list[list[int]]) -> None:
    correlation = Correlation.from_table(table)
    prior = GroupPrior(3, 3, estimator=estimator).to("meta")
    inputs = torch.zeros(8, 2, 5, device="meta")
    label = torch.zeros(8, dtype=torch.long, device="meta")
    logits = torch.zeros(8, 3, device="meta", requires_grad=True)
    generator = torch.Generator().manual_seed(0)

    probs = logits.softmax(dim=1)
    posterior = correlation.posterior(probs)
    prior.update(label, posterior, probs.gather(1, label[:, None]).squeeze(1))
    prior.end_epoch()
    attribute = posterior.argmax(dim=1)
    minority = correlation.is_minority(label, attribute)
    weight = draw_weight(0.0, 0.5, generator, "meta")
    mixed, row_prior = group_mixup(
        inputs, prior.for_attribute(attribute), label, minority, weight=weight, form=form, generator=generator
    )
    loss = logit_corrected_cross_entropy(logits, label, prior.log(row_prior)).mean()
    loss = loss + generalized_cross_entropy(logits, label).mean()
    loss.backward()
    assert mixed.shape == inputs.shape and row_prior.shape == (8, 3)
    assert prior.for_posterior(posterior).shape == (8, 3)
    assert joint_prior(label, posterior, 3).shape == (3, 3)


def test_the_meta_device_would_notice() -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        bool(torch.zeros(1, device="meta").any())
