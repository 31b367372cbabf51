"""What methods do with the attribute of every row, wherever it comes from: the same with each estimator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.data.table import DataTable

from ..conftest import Told, differing

#: A method, and options that hold with any settled estimator.
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("LC", {}),
    ("LC", {"mixing": "GroupMixUp", "prior": {"name": "Counted", "smoothing": 0.1}}),
    ("Reweighting", {}),
    ("GroupDRO", {"adjustment": 1.0}),
]


def train_rows(table: DataTable) -> tuple[Tensor, Tensor]:
    rows = table.split["train"]
    return table.label[rows], table.attribute[rows]


@pytest.mark.parametrize(("name", "options"), METHODS)
def test_with_a_perfect_estimate_it_trains_as_with_true_attributes(
    name: str, options: dict[str, Any], table, build, take_steps
) -> None:
    true = build(name, table, attributes="TrueAttributes", **options)
    found = build(name, table, attributes=Told(train_rows(table)[1]), **options)
    assert true.needs_attributes and not found.needs_attributes
    assert true.num_stages == found.num_stages == 1
    plans = [algorithm.begin_stage(0, None).sample_weight for algorithm in (true, found)]
    assert (plans[0] is None and plans[1] is None) or torch.equal(*plans)
    assert (plans[0] is not None) is (name == "GroupDRO")
    for algorithm in (true, found):
        take_steps(algorithm, table, epochs=4)
    assert differing(*(one.network.state_dict() for one in (true, found))) == []
    if true.group_prior is not None:
        assert torch.equal(true.group_prior.table, found.group_prior.table)


@pytest.mark.parametrize("name", ["LC", "Reweighting"])
def test_the_loss_of_an_unknown_row_is_plain_cross_entropy(name: str, table, build, batches) -> None:
    mixing = {} if name == "Reweighting" else {"mixing": "NoMixing"}
    attribute = torch.where(torch.arange(48) % 3 == 1, -1, train_rows(table)[1])
    algorithm = build(name, table, attributes=Told(attribute), **mixing)
    for batch in batches(algorithm, table):
        batch = type(batch)(batch.inputs[:1], batch.label[:1], batch.index[:1])
        plain = cross_entropy(algorithm.network(batch.inputs), batch.label)
        unknown = int(attribute[batch.index]) == -1
        found = algorithm(batch, 0.0).loss
        assert torch.equal(found, plain) if unknown else not torch.allclose(found, plain)
    # They are in no group either.
    known = attribute >= 0
    counts = torch.zeros(3, 3).index_put_((train_rows(table)[0][known], attribute[known]), torch.ones(()), True)
    smoothing = 0.0 if name == "Reweighting" else 0.3
    expected = (counts + smoothing) / (counts + smoothing).sum()
    torch.testing.assert_close(algorithm.group_prior.table, expected)
