"""A table refuses what cannot be trained on, and counts its groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from logit_correction.correlation import Correlation
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.errors import InputError


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table(Correlation.from_table([[0], [0], [1]]))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_groups_are_counted_row_by_row(table: DataTable, split: str) -> None:
    assert table.has_attributes(split)
    table.attribute[table.split[split][0]] = UNKNOWN
    assert not table.has_attributes(split)
    counts = [[0, 0], [0, 0], [0, 0]]
    for row in table.split[split].tolist():
        if table.attribute[row] != UNKNOWN:
            counts[int(table.label[row])][int(table.attribute[row])] += 1
    assert table.group_counts(split).tolist() == counts


def test_what_cannot_be_trained_on_is_refused(table: DataTable) -> None:
    train, label = table.split["train"], table.label
    for found, message in (
        (replace(table, split={"train": train, "valid": train[:0], "test": train}), "the valid split has no rows"),
        (replace(table, split={"train": train, "valid": train}), "the test split has no rows"),
        (replace(table, label=label + 1), r"labels must be 0\.\.2"),
        (replace(table, label=label.clone().fill_(1)), "one label only"),
        (replace(table, label=label % 2), "no row with label label 2"),
        (replace(table, attribute=table.attribute + 1), r"attributes must be 0\.\.1"),
    ):
        with pytest.raises(InputError, match=message):
            found.check()


@pytest.mark.parametrize(("bad", "row"), [(float("nan"), 0), (-float("inf"), 4999)])
def test_inputs_that_are_not_finite_are_refused_with_their_row(bad: float, row: int) -> None:
    values, rows = torch.zeros(5000, 2), torch.arange(5000)
    values[row, 1] = bad
    split = {"train": rows[:4000], "valid": rows[4000:4500], "test": rows[4500:]}
    table = DataTable(ArrayStore(values), rows % 2, torch.full((5000,), UNKNOWN), split, ["a", "b"], ["x"])
    with pytest.raises(InputError, match=f"input of row {row} holds NaN"):
        table.check()
