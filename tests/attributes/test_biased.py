"""What biased networks share: inputs of which a part is hidden."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from logit_correction.attributes.biased import hidden_logits, hide
from logit_correction.errors import InputError


def test_all_channels_of_a_pixel_are_hidden_together() -> None:
    hidden = hide(torch.ones(50, 3, 8, 8), 0.75, torch.Generator().manual_seed(0))
    assert set(hidden.unique().tolist()) == {0.0, 4.0}
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    assert abs(float(hidden.mean()) - 1) < 0.1


def test_tokens_cannot_be_hidden() -> None:
    with pytest.raises(InputError, match="give input_dropout=0"):
        hide({"tokens": torch.ones(2, 3)}, 0.5, torch.Generator())


def test_running_statistics_are_of_whole_inputs() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3))
    inputs = torch.randn(400, 6)
    hidden_logits(network, inputs, 0.9, torch.Generator().manual_seed(0))
    torch.testing.assert_close(network[0].running_mean, 0.1 * inputs.mean(0))  # one update with momentum 0.1, from 0
    torch.testing.assert_close(network[0].running_var, 0.9 + 0.1 * inputs.var(0))


def test_a_look_without_gradients_comes_after_the_one_that_is_learned_from() -> None:
    # Some versions of autocast keep a weight as it was first cast, so a look without gradients must not come first.
    order: list[bool] = []

    class Looking(nn.Sequential):
        def forward(self, inputs: Tensor) -> Tensor:
            order.append(torch.is_grad_enabled())
            return super().forward(inputs)

    for network, looks in (
        (Looking(nn.BatchNorm1d(6), nn.Linear(6, 3)), [True, False]),
        (Looking(nn.Linear(6, 3)), [True]),
    ):
        order.clear()
        hidden_logits(network, torch.rand(20, 6), 0.5, torch.Generator()).sum().backward()
        assert order == looks
