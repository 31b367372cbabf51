"""A table refuses what cannot be trained on, and counts its groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.types import UNKNOWN_ATTRIBUTE, Correlation


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table(Correlation.from_table([[0], [0], [1]]))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_count_groups_equals_a_loop_over_rows(table: DataTable, split: str) -> None:
    assert table.has_attributes(split)
    table.attribute[table.split[split][0]] = UNKNOWN_ATTRIBUTE
    assert not table.has_attributes(split)
    counts = [[0, 0], [0, 0], [0, 0]]
    for row in table.split[split].tolist():
        if table.attribute[row] != UNKNOWN_ATTRIBUTE:
            counts[int(table.label[row])][int(table.attribute[row])] += 1
    assert table.count_groups(split).tolist() == counts


def test_table_that_cannot_be_trained_on_is_refused(table: DataTable) -> None:
    train = table.split["train"]
    label = table.label
    for bad_table, message in (
        (replace(table, split={"train": train, "valid": train[:0], "test": train}), "the valid split has no rows"),
        (replace(table, split={"train": train, "valid": train}), "the test split has no rows"),
        (replace(table, label=label.clone().fill_(1)), "one label only"),
        (replace(table, label=label % 2), "no training row has label label 2"),
        (replace(table, inputs=ArrayStore(torch.ones(len(label), 3))), "all training rows have the same input"),
        (replace(table, inputs=ArrayStore(torch.eye(len(label)) / 0)), "holds NaN or infinity"),
    ):
        with pytest.raises(InputError, match=message):
            bad_table.check()
