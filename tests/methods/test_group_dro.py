"""Group DRO against a loop over rows and groups."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from logit_correction.data.table import DataTable


def count_training_groups(table: DataTable) -> list[int]:
    return table.count_groups("train").flatten().tolist()


@pytest.mark.parametrize("adjustment", [0.0, 2.0])
def test_group_dro_equals_a_loop_over_rows_and_groups(adjustment: float, table, build, batches, take_steps) -> None:
    algorithm = build("GroupDRO", table, adjustment=adjustment, step_size=0.5)
    network = copy.deepcopy(algorithm.network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    take_steps(algorithm, table, epochs=3, optimizer=torch.optim.SGD(algorithm.parameters(), lr=0.1))

    size = count_training_groups(table)
    attribute = table.attribute[table.split["train"]]
    q = [1.0 / sum(n > 0 for n in size) if n else 0.0 for n in size]
    absent = 0
    for epoch in range(3):
        for batch in batches(algorithm, table, epoch):
            losses = cross_entropy(network(batch.inputs), batch.label, reduction="none")
            group = [int(y) * 3 + int(a) for y, a in zip(batch.label, attribute[batch.index], strict=True)]
            absent += len(set(group)) < sum(n > 0 for n in size)  # such a group only loses what the others gain
            means = {}
            for g in set(group):
                members = [losses[i] for i in range(len(group)) if group[i] == g]
                means[g] = sum(members) / len(members)
                q[g] *= math.exp(0.5 * (float(means[g].detach()) + adjustment / math.sqrt(size[g])))
            total = sum(q)
            q = [weight / total for weight in q]
            optimizer.zero_grad()
            sum(q[g] * means[g] for g in means).backward()
            optimizer.step()
    assert absent
    torch.testing.assert_close(algorithm.q, torch.tensor(q), rtol=1e-4, atol=1e-6)
    for actual, expected in zip(algorithm.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def test_group_dro_samples_every_group_equally(table, build) -> None:
    weight = build("GroupDRO", table).begin_stage(0, None).sample_weight
    rows = table.split["train"]
    group = table.label[rows] * 3 + table.attribute[rows]
    shares = torch.zeros(9, dtype=torch.float64).index_add_(0, group, weight)
    torch.testing.assert_close(shares, (torch.tensor(count_training_groups(table)) > 0).double())
    assert weight.is_floating_point()
