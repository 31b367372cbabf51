"""The paper's estimator: a biased network next to the robust one, before it, or both."""

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
from .conftest import attach_estimator, build_training_batch, train_estimator


def record_network_inputs(estimator: Online) -> list[tuple[Tensor, bool]]:
    """What the biased network is shown from now on, and whether it learns from it."""
    inputs: list[tuple[Tensor, bool]] = []
    estimator.network.register_forward_pre_hook(lambda module, args: inputs.append((args[0], torch.is_grad_enabled())))
    return inputs


def build_batch(table: DataTable, label: list[int]) -> Batch:
    return Batch(torch.zeros(len(label), 12), torch.tensor(label), torch.arange(len(label)))


@pytest.mark.parametrize(
    ("table", "expected"),
    [([[0], [1], [2]], [0, 1, 1, 2]), ([[0], [0], [1]], [0, 0, 0, 1])],
    ids=["one-to-one", "known"],
)
def test_online_estimate_follows_from_the_class_probabilities(table: Any, expected: list[int], make_table) -> None:
    correlation = Correlation.from_table(table)
    probability = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])
    data = make_table(correlation)
    estimator = attach_estimator(
        Online(correlation="known"), data, network=lambda: FixedLogits((probability + 1e-12).log())
    )
    batch = build_batch(data, [0, 0, 1, 2])
    label_probability = torch.tensor([0.7, 0.1, 0.5, 0.9])
    estimate = estimator(batch, 0.0, StepRandomness(0))
    torch.testing.assert_close(estimate.posterior, correlation.posterior(probability))
    assert estimate.attribute.tolist() == expected
    torch.testing.assert_close(estimate.label_probability, label_probability)
    torch.testing.assert_close(estimate.loss, ((1 - label_probability**0.7) / 0.7).mean())  # eq. 3
    assert not estimate.posterior.requires_grad
    assert attach_estimator(Online(), make_table(Correlation.from_table([[0, 1], [2], [3]]))).num_attributes == 3


@pytest.mark.parametrize("head_start_epochs", [0, 1])
def test_online_q_ramps_up_and_network_is_frozen_counted_from_the_head_start(head_start_epochs: int, table) -> None:
    estimator = attach_estimator(
        Online(q=0.8, q_ramp_up_epochs=2.0, head_start_epochs=head_start_epochs, epochs=9.5), table
    )
    batch = None
    batch = build_training_batch(table)
    label_probability = estimator.network(batch.inputs).softmax(1).gather(1, batch.label[:, None]).squeeze(1)
    for epoch, q in ((0.0, 0.0), (0.5, 0.2), (2.0, 0.8), (9.5, 0.8)):
        expected = ((1 - label_probability**q) / q if q else -label_probability.log()).mean().detach()
        estimator.finish(None)
        if epoch >= head_start_epochs:
            loss = estimator(batch, epoch - head_start_epochs, StepRandomness(0)).loss
            torch.testing.assert_close(loss.detach(), expected)
            assert loss.requires_grad is (epoch < 9.5)
        estimator.begin_stage(0, None)
        torch.testing.assert_close(estimator.step(batch, epoch, StepRandomness(0)).loss.detach(), expected)


@pytest.mark.parametrize("images", [True, False], ids=["images", "features"])
def test_online_input_dropout_hides_values_only_while_training(images: bool, make_table) -> None:
    table = make_table(images=images, train=480)
    estimator = attach_estimator(Online(input_dropout=0.75, epochs=1.0), table)
    batch = build_training_batch(table)
    network_inputs = record_network_inputs(estimator)
    batch.inputs = batch.inputs + 1  # no value is 0 by itself
    estimate = estimator(batch, 0.0, StepRandomness(0))
    (trained_on,), (estimated_from,) = (
        [inputs for inputs, learns in network_inputs if learns is flag] for flag in (True, False)
    )
    is_kept = trained_on != 0
    torch.testing.assert_close(trained_on, torch.where(is_kept, batch.inputs * 4, 0))
    places = is_kept[:, :1] if images else is_kept
    assert torch.equal(places.expand_as(is_kept), is_kept)  # a pixel is hidden in all channels or in none
    assert abs(float(places.double().mean()) - 0.25) < 5 * (0.25 * 0.75 / places.numel()) ** 0.5
    assert torch.equal(estimated_from, batch.inputs)
    assert torch.equal(estimate.attribute, estimator.network(batch.inputs).argmax(1))
    network_inputs.clear()
    estimator(batch, 1.0, StepRandomness(0))  # nothing is hidden from one that has learned
    assert len(network_inputs) == 1 and torch.equal(network_inputs[0][0], batch.inputs)


# The head start


def test_online_after_the_head_start_is_static_with_the_estimates_of_the_network(table) -> None:
    estimator = train_estimator(Online(head_start_epochs=2, epochs=2, input_dropout=0.5), table)
    batch = build_training_batch(table)
    assert estimator.is_static
    network_inputs = record_network_inputs(estimator)
    randomness = StepRandomness(0)
    estimate = estimator(batch, 5.0, randomness)
    assert (
        estimate.posterior is None and estimate.loss is None and not network_inputs and randomness.count == 0
    )  # only a look-up
    assert torch.equal(estimate.attribute, estimator.row_attribute)
    beside = train_estimator(Online(head_start_epochs=2, epochs=2.5, input_dropout=0.5), table)
    other = beside(batch, 0.5, StepRandomness(0))
    assert torch.equal(estimate.attribute, other.attribute)
