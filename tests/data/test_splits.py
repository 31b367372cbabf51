"""Splits that are given, and stratified ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.data.splits import Splitting, make_splits
from logit_correction.errors import InputError

SPLITTING = Splitting(0.1, 0.2, 0)


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(3, 60), min_size=2, max_size=5),
    valid=st.floats(0.05, 0.45),
    test=st.floats(0.05, 0.45),
    seed=st.integers(0, 5),
)
def test_drawn_split_has_its_share_of_every_label(counts: list[int], valid: float, test: float, seed: int) -> None:
    label = torch.cat([torch.full((count,), y) for y, count in enumerate(counts)])
    label = label[torch.randperm(len(label), generator=torch.Generator().manual_seed(seed))]
    names = [f"label {y}" for y in range(len(counts))]
    split, description = make_splits(label, (), names, Splitting(valid, test, seed))
    assert sorted(torch.cat(list(split.values())).tolist()) == list(range(len(label)))
    for y, count in enumerate(counts):
        parts = {name: int((label[rows] == y).sum()) for name, rows in split.items()}
        assert min(parts.values()) >= 1
        if count >= 10:
            assert abs(parts["valid"] - valid * count) <= 1 and abs(parts["test"] - test * count) <= 1
    assert description.startswith("drawn label by label")
    repeated, _ = make_splits(label, (), names, Splitting(valid, test, seed))
    assert all(torch.equal(split[name], repeated[name]) for name in split)


def test_more_rows_of_one_label_do_not_move_rows_of_other_labels() -> None:
    label = torch.arange(60) % 2
    more = torch.cat([label, torch.zeros(40, dtype=torch.long)])
    first, second = (make_splits(values, (), ["a", "b"], SPLITTING)[0] for values in (label, more))
    for name in first:
        label_rows, label_rows_with_more = (
            rows[values[rows] == 1] for rows, values in ((first[name], label), (second[name], more))
        )
        assert torch.equal(label_rows, label_rows_with_more)


@settings(max_examples=30)
@given(units=st.integers(20, 80), most=st.integers(1, 9), seed=st.integers(0, 9))
def test_rows_of_one_unit_stay_in_one_split(units: int, most: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    unit = torch.arange(units).repeat_interleave(torch.randint(1, most + 1, (units,), generator=draw))
    unit = unit[torch.randperm(len(unit), generator=draw)]
    unit_label = (torch.arange(units) % 3 == 0).long()[unit]
    label = torch.where(torch.rand(len(unit), generator=draw) < 0.1, 1 - unit_label, unit_label)
    split, description = make_splits(label, (), ["a", "b"], SPLITTING, unit, "patient")
    units_by_split = [set(unit[rows].tolist()) for rows in split.values()]
    assert sum(map(len, units_by_split)) == len(set.union(*units_by_split)) == units and description.endswith(
        "one patient together"
    )
    assert abs(len(split["test"]) - 0.2 * len(label)) <= 2 * most
    every = torch.cat(list(split.values()))
    assert torch.equal(every.sort().values, torch.arange(len(label)))


def test_given_splits_are_kept_and_missing_ones_drawn_from_training() -> None:
    label = torch.arange(40) % 2
    split_names = ["train"] * 30 + ["valid"] * 10
    split, description = make_splits(label, split_names, ["a", "b"], SPLITTING)
    assert split["valid"].tolist() == list(range(30, 40))
    assert len(split["test"]) == 6 and int(split["test"].max()) < 30
    assert description == "given; drawn label by label, 20 % test, seed 0 from the training rows"
    complete, description = make_splits(label, ["train"] * 20 + ["valid"] * 10 + ["test"] * 10, ["a", "b"], SPLITTING)
    assert description == "given" and len(complete["train"]) == 20


def test_too_few_rows_to_split_are_refused() -> None:
    label = torch.tensor([0] * 10 + [1] * 2)
    with pytest.raises(InputError, match=r"too few rows to split \(rows per label: rare 2\).*at least 3"):
        make_splits(label, (), ["common", "rare"], SPLITTING)
    make_splits(label, ["train"] * 9 + ["test", "train", "train"], ["common", "rare"], SPLITTING)
    with pytest.raises(InputError, match=r"too few values of patient to split \(values of patient per label: b 2\)"):
        make_splits(torch.arange(80) // 60, (), ["a", "b"], SPLITTING, torch.arange(80) // 10, "patient")
    with pytest.raises(InputError, match="no row is for training"):
        make_splits(label, ["test"] * 12, ["common", "rare"], SPLITTING)
