"""Mixing with independent partners: partners, shares, and the mixed prior."""

from __future__ import annotations

import pytest
import torch

from logit_correction.losses import GroupPrior
from logit_correction.methods.parts import IndependentMixUp, MixingContext
from logit_correction.types import Batch, Correlation


def test_independent_mixup_draws_partners_independent_of_the_label() -> None:
    size = 600
    label = (torch.arange(size) >= 450).long()  # three quarters have label 0
    prior = GroupPrior(2, 2, averaging="fixed", floor=0.0)
    prior.set_table(torch.tensor([[9.0, 1.0], [2.0, 8.0]]))
    batch = Batch(torch.eye(size), label, torch.arange(size))
    generator = torch.Generator().manual_seed(0)
    context = MixingContext(batch, label, prior, Correlation.one_to_one(2), 0.0, generator)
    # Rows are unit vectors: a mixed input tells who was mixed and how.
    mixed, log_prior = IndependentMixUp(limit=0.3)(torch.nn.Identity(), context)
    own_share = mixed.diagonal()
    partner = (mixed - torch.diag(own_share)).argmax(dim=1)
    partner_share = 1 - own_share
    torch.testing.assert_close(mixed.sum(dim=1), torch.ones(size))
    assert 0.29 < float(partner_share.max()) <= 0.3 + 1e-6 and float(partner_share.mean()) == pytest.approx(
        0.15, abs=0.01
    )
    for y in (0, 1):
        assert float(label[partner[label == y]].double().mean()) == pytest.approx(0.25, abs=0.07)
    assert len(partner.unique()) > size / 2
    assert torch.equal(log_prior, prior.log_for_attribute(label))  # that of the row itself
