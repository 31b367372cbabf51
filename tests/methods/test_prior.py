"""How a method comes to the group prior: counted or moving, and which goes with which estimator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.methods.parts import Counted, Moving


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


@pytest.mark.parametrize("method", ["LC", "StagedLC"])
def test_the_oracle_is_corrected_by_the_counted_prior_of_the_true_group(method: str, table, build, batches) -> None:
    counted = {"name": "Counted", "smoothing": 0.5}
    algorithm = build(method, table, attributes="TrueAttributes", prior=counted, mixing="NoMixing", strength=0.7)
    batch = next(batches(algorithm, table))
    counts = [[0.5] * 3 for _ in range(3)]
    rows = table.split["train"]
    for y, a in zip(table.label[rows].tolist(), table.attribute[rows].tolist(), strict=True):
        counts[y][a] += 1
    losses = []
    for i, logits in enumerate(algorithm.network(batch.inputs)):
        prior = torch.tensor([counts[y][int(batch.attribute[i])] / (48 + 9 * 0.5) for y in range(3)])
        losses.append(cross_entropy(logits + 0.7 * prior.log(), batch.label[i]))
    torch.testing.assert_close(algorithm(batch, 0.0).loss, torch.stack(losses).mean())


@pytest.mark.parametrize(
    ("cls", "options", "words"),
    [
        (Counted, {"smoothing": -0.1}, r"smoothing is -0\.1"),
        (Moving, {"momentum": 1.0}, r"momentum is 1\.0"),
        (Moving, {"momentum": -0.5}, r"momentum is -0\.5"),
        (Moving, {"floor": -1e-3}, r"floor is -0\.001"),
    ],
)
def test_impossible_options_are_refused(cls: type, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        cls(**options)
