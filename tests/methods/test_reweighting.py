"""Fisher-consistent reweighting: its loss is the group-balanced risk."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.methods.reweighting import Reweighting
from logit_correction.networks.small import MLP
from logit_correction.types import Batch, DataInfo, TrainingRows

#: Rows of each group (label, attribute): very unequal, one group empty.
COUNTS = {(0, 0): 20, (0, 1): 1, (1, 0): 3, (1, 1): 40}


def build_batch_with_counts(counts: dict[tuple[int, int], int]) -> tuple[Batch, Tensor]:
    """A batch with so many rows of each group, and their attributes."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    label, attribute = torch.tensor(pairs).T
    inputs = torch.randn((len(pairs), 4), generator=torch.Generator().manual_seed(0))
    return Batch(inputs, label.clone(), torch.arange(len(pairs))), attribute.clone()


def build_reweighting(batch: Batch, attribute: Tensor, **options: object) -> Reweighting:
    info = DataInfo(num_labels=2, num_rows=len(batch.label), input_shape=(4,))
    algorithm = Reweighting(lambda: MLP(info, hidden=(5,)), info, **options)  # type: ignore[arg-type]
    algorithm.setup(TrainingRows(batch.label, attribute))
    algorithm.begin_stage(0, None)
    return algorithm


def reference_balanced_risk(
    algorithm: Reweighting, batch: Batch, attribute: Tensor, counts: dict[tuple[int, int], int]
) -> Tensor:
    losses = cross_entropy(algorithm.network(batch.inputs), batch.label, reduction="none")
    risks = [losses[(batch.label == y) & (attribute == a)].mean() for y, a in counts]
    return sum(risks) / len(risks)


@pytest.mark.parametrize("counts", [COUNTS, {k: v for k, v in COUNTS.items() if k != (0, 1)}], ids=["all", "one empty"])
def test_loss_with_true_groups_is_the_group_balanced_risk(counts) -> None:
    batch, attribute = build_batch_with_counts(counts)
    algorithm = build_reweighting(batch, attribute, attributes="TrueAttributes")
    assert algorithm.needs_attributes
    torch.testing.assert_close(algorithm(batch, 0.0).loss, reference_balanced_risk(algorithm, batch, attribute, counts))
    # Batches of an epoch, of one row each, have that risk as their mean.
    row_batches = [
        Batch(batch.inputs[i : i + 1], batch.label[i : i + 1], batch.index[i : i + 1]) for i in range(len(batch.label))
    ]
    mean = torch.stack([algorithm(row_batch, 0.0).loss for row_batch in row_batches]).mean()
    torch.testing.assert_close(mean, reference_balanced_risk(algorithm, batch, attribute, counts))
