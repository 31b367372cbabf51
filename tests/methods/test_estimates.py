"""What methods do with the attribute of every row, wherever it comes from: the same with each estimator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.data.table import DataTable

from ..conftest import FixedAttributes


def get_training_rows(table: DataTable) -> tuple[Tensor, Tensor]:
    rows = table.split["train"]
    return table.label[rows], table.attribute[rows]


@pytest.mark.parametrize("name", ["LC", "Reweighting"])
def test_loss_of_a_row_with_unknown_attribute_is_cross_entropy(name: str, table, build, batches) -> None:
    mixing = {} if name == "Reweighting" else {"mixing": "NoMixing"}
    attribute = torch.where(torch.arange(48) % 3 == 1, -1, get_training_rows(table)[1])
    algorithm = build(name, table, attributes=FixedAttributes(attribute), **mixing)
    for batch in batches(algorithm, table):
        batch = type(batch)(batch.inputs[:1], batch.label[:1], batch.index[:1])
        plain = cross_entropy(algorithm.network(batch.inputs), batch.label)
        unknown = int(attribute[batch.index]) == -1
        loss = algorithm(batch, 0.0).loss
        assert torch.equal(loss, plain) if unknown else not torch.allclose(loss, plain)
    # They are in no group either.
    is_known = attribute >= 0
    counts = torch.zeros(3, 3).index_put_(
        (get_training_rows(table)[0][is_known], attribute[is_known]), torch.ones(()), True
    )
    smoothing = 0.0 if name == "Reweighting" else 0.3
    expected = (counts + smoothing) / (counts + smoothing).sum()
    torch.testing.assert_close(algorithm.group_prior.table, expected)
