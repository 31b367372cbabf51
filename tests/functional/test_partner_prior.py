"""The prior of mixed samples, against every batch that can be drawn from a small distribution."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest
import torch
from torch import Tensor

from logit_correction.functional import partner_prior, partner_prior_of

#: P(y, a) of two labels and three attribute values, and which groups are the minority.
TABLES = {
    "one-to-one": ([[0.40, 0.04, 0.06], [0.02, 0.45, 0.03]], [[0, 1, 1], [1, 0, 1]]),
    "two majority values": ([[0.30, 0.15, 0.05], [0.05, 0.05, 0.40]], [[0, 0, 1], [1, 1, 0]]),
    "a label without minority": ([[0.40, 0.10, 0.10], [0.0, 0.40, 0.0]], [[0, 1, 1], [1, 0, 1]]),
}


def tables(name: str) -> tuple[Tensor, Tensor]:
    table, minority = TABLES[name]
    return torch.tensor(table, dtype=torch.float64), torch.tensor(minority, dtype=torch.bool)


def candidates(label: list[int], minority: list[bool], row: int, form: str) -> list[int]:
    """The rows of a batch among which the partner of a row is drawn, by the words of ``mixup_partner``."""
    if form == "independent":
        return list(range(len(label)))
    if form == "minority-rows" and not minority[row]:
        return [row]
    same = [i for i in range(len(label)) if label[i] == label[row]]
    wanted = [i for i in same if minority[i] is (form == "every-row")]
    return wanted or same


def enumerated(table: Tensor, minority: Tensor, batch_size: int, form: str) -> Tensor:
    """P(y, a_j, a_i) of the first row of a batch and its partner, over all batches of independent rows, (L, K, K)."""
    num_labels, num_attributes = table.shape
    groups = list(product(range(num_labels), range(num_attributes)))
    result = torch.zeros(num_labels, num_attributes, num_attributes, dtype=torch.float64)
    for batch in product(groups, repeat=batch_size):
        probability = float(torch.tensor([float(table[y, a]) for y, a in batch], dtype=torch.float64).prod())
        if probability == 0:
            continue
        label, conflicts = [y for y, _ in batch], [bool(minority[y, a]) for y, a in batch]
        chosen = candidates(label, conflicts, 0, form)
        for i in chosen:
            result[batch[0][0], batch[0][1], batch[i][1]] += probability / len(chosen)
    return result


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("form", ["every-row", "minority-rows"])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_the_product_prior_is_that_of_every_batch_that_can_be_drawn(name: str, form: str, batch_size: int) -> None:
    table, minority = tables(name)
    expected = enumerated(table, minority, batch_size, form)
    assert float(expected.sum()) == pytest.approx(1.0)
    found = table.unsqueeze(2) * partner_prior(table, minority, batch_size, form)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["one-to-one", "two majority values"])
def test_an_independent_partner_says_nothing_of_the_label(name: str) -> None:
    table, minority = tables(name)
    joint = enumerated(table, minority, 3, "independent")
    shown = joint / joint.sum(dim=0)  # P(y | a_j, a_i)
    counted = (table / table.sum(dim=0)).unsqueeze(2).expand_as(shown)  # P(y | a_j)
    torch.testing.assert_close(shown, counted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["every-row", "minority-rows"])
def test_some_pairs_are_those_of_the_whole_table(form: Literal["every-row", "minority-rows"]) -> None:
    generator = torch.Generator().manual_seed(0)
    table, minority = torch.rand(3, 5, generator=generator), torch.rand(3, 5, generator=generator) < 0.5
    own, other = torch.randint(5, (2, 40), generator=generator)
    whole = partner_prior(table, minority, 16, form)
    torch.testing.assert_close(partner_prior_of(table, minority, 16, own, other, form), whole[:, own, other])
    many = torch.randint(1000, (2, 64), generator=generator)  # the table of all would take 8 GB
    drawn = partner_prior_of(torch.rand(2000, 1000), torch.rand(2000, 1000) < 0.5, 64, *many, form)
    assert drawn.shape == (2000, 64) and bool(((drawn >= 0) & (drawn <= 1 + 1e-6)).all())
