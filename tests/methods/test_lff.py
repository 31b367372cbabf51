"""Learning from failure against a loop over rows."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


class ReferenceLfF:
    """Moving averages in dicts, one row at a time."""

    def __init__(self, momentum: float) -> None:
        self.momentum = momentum
        self.average: list[dict[int, float]] = [{}, {}]
        self.label: dict[int, int] = {}

    def weights(self, index: Tensor, label: Tensor, biased: Tensor, debiased: Tensor) -> Tensor:
        for index_of_network, losses in enumerate((biased, debiased)):
            for i, y, loss in zip(index.tolist(), label.tolist(), losses.tolist(), strict=True):
                past = self.average[index_of_network].get(i, loss)
                self.average[index_of_network][i] = self.momentum * past + (1 - self.momentum) * loss
                self.label[i] = y
        weights = []
        for i, y in zip(index.tolist(), label.tolist(), strict=True):
            relative = []
            for average in self.average:
                greatest = max(value for row, value in average.items() if self.label[row] == y)
                relative.append(average[i] / greatest)
            weights.append(relative[0] / (relative[0] + relative[1]))
        return torch.tensor(weights)


@pytest.mark.parametrize("q", [0.7, 0.0])
def test_lff_equals_reference_for_both_networks(q: float, table, build, batches, take_steps) -> None:
    algorithm = build("LfF", table, q=q)
    biased = copy.deepcopy(algorithm.biased_network)
    debiased = copy.deepcopy(algorithm.network)
    first, second = (torch.optim.Adam(network.parameters(), lr=1e-2) for network in (biased, debiased))
    reference = ReferenceLfF(0.7)
    take_steps(algorithm, table, epochs=4)
    for epoch in range(4):
        for batch in batches(algorithm, table, epoch):
            biased_losses = cross_entropy(biased(batch.inputs), batch.label, reduction="none")
            debiased_losses = cross_entropy(debiased(batch.inputs), batch.label, reduction="none")
            weight = reference.weights(batch.index, batch.label, biased_losses, debiased_losses)
            # The biased network never hears of the weights.
            loss = ((1 - torch.exp(-biased_losses) ** q) / q).mean() if q else biased_losses.mean()
            for optimizer, value in ((first, loss), (second, (weight * debiased_losses).mean())):
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
    for actual, expected in ((algorithm.biased_network, biased), (algorithm.network, debiased)):
        for key, value in actual.state_dict().items():
            torch.testing.assert_close(value, expected.state_dict()[key], rtol=1e-3, atol=1e-4)
