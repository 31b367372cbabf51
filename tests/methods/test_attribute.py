"""The biased network that tells the attribute."""

from __future__ import annotations

import torch

from logit_correction.correlation import Correlation
from logit_correction.methods.attribute import BiasedNetwork
from logit_correction.methods.base import StepRandomness
from logit_correction.types import Batch


def test_batch_norms_running_statistics_are_of_whole_inputs_and_stay_when_the_network_does() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3))
    biased = BiasedNetwork(network, Correlation.one_to_one(3), input_dropout=0.9, epochs=1.0)
    inputs = torch.randn((40, 6), generator=torch.Generator().manual_seed(1))
    batch = Batch(inputs, torch.arange(40) % 3, torch.arange(40))
    biased(batch, 0.0, StepRandomness(0))
    expected = 0.1 * batch.inputs.mean(0)  # one update with momentum 0.1, from 0
    torch.testing.assert_close(network[0].running_mean, expected)
    biased(batch, 1.0, StepRandomness(0))
    torch.testing.assert_close(network[0].running_mean, expected)


def test_the_estimate_is_made_in_full_precision_whatever_the_networks_compute_in() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(6, 3))
    biased = BiasedNetwork(network, Correlation.one_to_one(3), q=0.0)
    inputs = torch.randn((40, 6), generator=torch.Generator().manual_seed(1))
    batch = Batch(inputs, torch.arange(40) % 3, torch.arange(40))
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(inputs)
        found = biased(batch, 0.0, StepRandomness(0))
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(found.probability, logits.float().softmax(1))
    torch.testing.assert_close(found.posterior.sum(1), torch.ones(40))
    torch.testing.assert_close(found.loss, torch.nn.functional.cross_entropy(logits.float(), batch.label))
