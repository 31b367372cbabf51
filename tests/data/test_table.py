"""A table refuses what cannot be trained on, and counts its groups."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from logit_correction.correlation import Correlation
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import UNKNOWN, DataTable, Scoring
from logit_correction.errors import InputError


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table(Correlation.from_table([[0], [0], [1]]))


def test_a_sound_table_passes(table: DataTable) -> None:
    assert table.check() is table


def test_info_tells_sizes_and_names_of_the_training_rows(table: DataTable) -> None:
    info = table.info
    assert (info.num_labels, info.num_attributes, info.num_rows) == (3, 2, 48)
    assert info.input_shape == (12,)
    assert info.label_names == ("label 0", "label 1", "label 2")
    assert info.attribute_names == ("attribute 0", "attribute 1")
    assert info.correlation == table.correlation


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_groups_are_counted_row_by_row(table: DataTable, split: str) -> None:
    table.attribute[table.split[split][0]] = UNKNOWN
    counts = [[0, 0], [0, 0], [0, 0]]
    for row in table.split[split].tolist():
        if table.attribute[row] != UNKNOWN:
            counts[int(table.label[row])][int(table.attribute[row])] += 1
    assert table.group_counts(split).tolist() == counts


def test_whether_attributes_are_known_is_asked_for_each_split(table: DataTable) -> None:
    table.attribute[table.split["valid"][2]] = UNKNOWN
    assert table.has_attributes("train") and table.has_attributes("test")
    assert not table.has_attributes("valid")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("missing", [True, False])
def test_an_empty_split_is_refused(table: DataTable, split: str, missing: bool) -> None:
    parts = {name: rows for name, rows in table.split.items() if name != split}
    if not missing:
        parts[split] = torch.zeros(0, dtype=torch.long)
    with pytest.raises(InputError, match=f"the {split} split has no rows"):
        replace(table, split=parts).check()


@pytest.mark.parametrize(("row", "label"), [(3, 3), (50, -1), (87, 10)])
def test_labels_outside_their_range_are_refused(table: DataTable, row: int, label: int) -> None:
    table.label[row] = label
    with pytest.raises(InputError, match=rf"labels must be 0\.\.2, but row {row} has label {label} \(1 such"):
        table.check()


def test_one_label_only_is_refused(table: DataTable) -> None:
    table.label[table.split["train"]] = 1
    with pytest.raises(InputError, match="one label only"):
        table.check()


def test_a_label_without_training_rows_is_refused_by_name(table: DataTable) -> None:
    rows = table.split["train"]
    table.label[rows] = table.label[rows] % 2
    with pytest.raises(InputError, match="no row with label label 2"):
        table.check()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("row", [0, 7, 4999])
def test_inputs_that_are_not_finite_are_refused_with_their_row(bad: float, row: int) -> None:
    values = torch.zeros(5000, 2)
    values[row, 1] = bad
    rows = torch.arange(5000)
    table = DataTable(
        inputs=ArrayStore(values),
        label=rows % 2,
        attribute=torch.full((5000,), UNKNOWN),
        split={"train": rows[:4000], "valid": rows[4000:4500], "test": rows[4500:]},
        label_names=["a", "b"],
        attribute_names=["x"],
    )
    with pytest.raises(InputError, match=f"input of row {row} holds NaN"):
        table.check()
    values[row] = 0
    table.check()


def test_inputs_of_several_parts_are_checked_part_by_part(table: DataTable) -> None:
    class Parts:
        input_shape = (2,)

        def __len__(self) -> int:
            return 88

        def fetch(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
            mask = torch.ones(len(rows), 2)
            mask[rows == 11] = float("nan")
            return {"token": torch.zeros(len(rows), 2, dtype=torch.long), "mask": mask}

    with pytest.raises(InputError, match="row 11"):
        replace(table, inputs=Parts()).check()


def scored(table: DataTable, rows: int = 88, groups: int = 3) -> DataTable:
    names = [str(i) for i in range(groups)]
    return replace(table, scoring=Scoring(torch.rand(rows, groups) < 0.5, names, names))


def test_groups_of_its_own_let_a_table_be_judged_without_attributes(table: DataTable) -> None:
    table.attribute[:] = UNKNOWN
    assert not table.has_groups("valid")
    with_groups = scored(table).check()
    assert with_groups.has_groups("valid") and not with_groups.has_attributes("valid")
    assert with_groups.scoring is not None and with_groups.scoring.names == [("0", "0"), ("1", "1"), ("2", "2")]
