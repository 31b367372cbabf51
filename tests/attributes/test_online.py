"""The paper's estimator: a biased network beside the robust one, ahead of it, or both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction import Online
from logit_correction.data.table import DataTable
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, Correlation

from ..conftest import FixedLogits
from .conftest import all_rows, attached, prepared


def watched(estimator: Online) -> list[tuple[Tensor, bool]]:
    """What the biased network is shown from now on, and whether it learns from it."""
    shown: list[tuple[Tensor, bool]] = []
    estimator.network.register_forward_pre_hook(lambda module, args: shown.append((args[0], torch.is_grad_enabled())))
    return shown


def asked(table: DataTable, label: list[int]) -> Batch:
    return Batch(torch.zeros(len(label), 12), torch.tensor(label), torch.arange(len(label)))


@pytest.mark.parametrize(
    ("table", "expected"),
    [([[0], [1], [2]], [0, 1, 1, 2]), ([[0], [0], [1]], [0, 0, 0, 1])],
    ids=["one-to-one", "known"],
)
def test_the_estimate_is_that_of_the_class_probabilities(table: Any, expected: list[int], make_table) -> None:
    correlation = Correlation.from_table(table)
    probability = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])
    data = make_table(correlation)
    estimator = attached(Online(correlation="known"), data, network=lambda: FixedLogits((probability + 1e-12).log()))
    batch = asked(data, [0, 0, 1, 2])
    own = torch.tensor([0.7, 0.1, 0.5, 0.9])
    found = estimator(batch, 0.0, StepRandomness(0))
    torch.testing.assert_close(found.posterior, correlation.posterior(probability))
    assert found.attribute.tolist() == expected
    torch.testing.assert_close(found.label_probability, own)
    torch.testing.assert_close(found.loss, ((1 - own**0.7) / 0.7).mean())  # eq. 3
    assert not found.posterior.requires_grad
    assert attached(Online(), make_table(Correlation.from_table([[0, 1], [2], [3]]))).num_attributes == 3


@pytest.mark.parametrize("ahead", [0, 1])
def test_q_rises_and_the_network_stays_as_it_is_counted_from_the_head_start_on(ahead: int, table) -> None:
    estimator = attached(Online(q=0.8, q_ramp_up_epochs=2.0, head_start_epochs=ahead, epochs=9.5), table)
    batch = None
    batch = all_rows(table)
    own = estimator.network(batch.inputs).softmax(1).gather(1, batch.label[:, None]).squeeze(1)
    for epoch, q in ((0.0, 0.0), (0.5, 0.2), (2.0, 0.8), (9.5, 0.8)):
        expected = ((1 - own**q) / q if q else -own.log()).mean().detach()
        estimator.finish(None)
        if epoch >= ahead:
            found = estimator(batch, epoch - ahead, StepRandomness(0)).loss
            torch.testing.assert_close(found.detach(), expected)
            assert found.requires_grad is (epoch < 9.5)
        estimator.begin_stage(0, None)
        torch.testing.assert_close(estimator.step(batch, epoch, StepRandomness(0)).loss.detach(), expected)


@pytest.mark.parametrize("images", [True, False], ids=["images", "features"])
def test_what_is_hidden_from_the_biased_network_while_it_trains(images: bool, make_table) -> None:
    table = make_table(images=images, train=480)
    estimator = attached(Online(input_dropout=0.75, epochs=1.0), table)
    batch = all_rows(table)
    shown = watched(estimator)
    batch.inputs = batch.inputs + 1  # no value is 0 by itself
    found = estimator(batch, 0.0, StepRandomness(0))
    (trained_on,), (estimated_from,) = ([one for one, learns in shown if learns is flag] for flag in (True, False))
    kept = trained_on != 0
    torch.testing.assert_close(trained_on, torch.where(kept, batch.inputs * 4, 0))
    places = kept[:, :1] if images else kept
    assert torch.equal(places.expand_as(kept), kept)  # a pixel is hidden in all channels or in none
    assert abs(float(places.double().mean()) - 0.25) < 5 * (0.25 * 0.75 / places.numel()) ** 0.5
    assert torch.equal(estimated_from, batch.inputs)
    assert torch.equal(found.attribute, estimator.network(batch.inputs).argmax(1))
    shown.clear()
    estimator(batch, 1.0, StepRandomness(0))  # nothing is hidden from one that has learned
    assert len(shown) == 1 and torch.equal(shown[0][0], batch.inputs)


# The head start


def test_after_a_head_start_alone_every_row_is_settled_as_the_network_would_say(table) -> None:
    estimator = prepared(Online(head_start_epochs=2, epochs=2, input_dropout=0.5), table)
    batch = all_rows(table)
    assert estimator.is_static
    shown = watched(estimator)
    randomness = StepRandomness(0)
    found = estimator(batch, 5.0, randomness)
    assert found.posterior is None and found.loss is None and not shown and randomness.count == 0  # only a look-up
    assert torch.equal(found.attribute, estimator.row_attribute)
    beside = prepared(Online(head_start_epochs=2, epochs=2.5, input_dropout=0.5), table)
    other = beside(batch, 0.5, StepRandomness(0))
    assert torch.equal(found.attribute, other.attribute)
