"""How samples are mixed: who with whom, how much, and the prior that goes with it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from logit_correction.attributes.given import TrueAttributes
from logit_correction.methods.lc import LC
from logit_correction.methods.parts import IndependentMixUp
from logit_correction.types import Batch, DataInfo, TrainingRows


class Recorder(nn.Module):
    """Keeps what it is shown."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.head = nn.Linear(size, 2)
        self.shown: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.shown.append(inputs.detach())
        return self.head(inputs)


def told(size: int, label: Tensor, attribute: Tensor, limit: float) -> LC:
    """LC that knows the attributes, on rows that are unit vectors: a mixed input tells who was mixed and how."""
    info = DataInfo(num_labels=2, num_rows=size, input_shape=(size,))
    mixing = IndependentMixUp(limit)
    algorithm = LC(lambda: Recorder(size), info, attributes=TrueAttributes(), mixing=mixing)
    algorithm.setup(TrainingRows(label, attribute))
    algorithm.begin_stage(0, None)
    return algorithm


def test_partners_are_drawn_whatever_their_label() -> None:
    size, steps = 60, 150
    label = (torch.arange(size) >= 45).long()  # 45 rows of label 0
    algorithm = told(size, label, label, limit=0.3)
    batch = Batch(torch.eye(size), label, torch.arange(size))
    for _ in range(steps):
        algorithm(batch, 0.0)
    mixed = torch.stack(algorithm.network.shown)  # (steps, size, size)
    own = mixed.diagonal(dim1=1, dim2=2)
    assert float(own.min()) >= 0.7 - 1e-6
    partner = (mixed - torch.diag_embed(own)).argmax(dim=2)
    share = 1 - own
    apart = share > 1e-4  # a row may meet itself
    assert float(share[apart].max()) > 0.29 and float(share[apart].mean()) == pytest.approx(0.15, abs=0.01)
    torch.testing.assert_close(mixed.sum(dim=2), torch.ones(steps, size))
    for y in (0, 1):
        mine = (label == y).expand(steps, size) & apart
        # Among the other 59 rows, 15 have label 1 (14, if the row itself is one of them).
        rate = label[partner[mine]].double().mean()
        assert float(rate) == pytest.approx((15 - y) / 59, abs=0.03)
    visits = torch.bincount(partner[apart], minlength=size).double()
    assert float(((visits / visits.mean() - 1) ** 2).sum() * visits.mean()) < 110  # chi-square, 59 degrees, 0.01 %
