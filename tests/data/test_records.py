"""From rows as they were found to a table: names, combinations, and everything that may be wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from logit_correction.data.rows import Problems, Records, Splitting, build_table, coded, combined, format_faults
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError


def good(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.bool)


def make(
    label: list[str | None], on_bad_rows: Any = "error", problems: Problems | None = None, **options: Any
) -> DataTable:
    names = [f"row {i}" for i in range(len(label))]
    raw = Records(problems or Problems("rows.csv", names), label, **options)
    store = ArrayStore(torch.zeros(len(label), 2))
    return build_table(raw, lambda: store, Splitting(0.2, 0.2, 0), on_bad_rows)


LABELS: list[str | None] = ["a", "b"] * 6


def test_numbers_sort_as_numbers_and_names_as_texts() -> None:
    assert coded(["10", "9", "1.5", "-2"], good(4))[1] == ["-2", "1.5", "9", "10"]
    assert coded(["10", "9", "b"], good(3))[1] == ["10", "9", "b"]
    assert coded(["10", "nan"], good(2))[1] == ["10", "nan"]
    usable = torch.tensor([True, False, True])
    number, names = coded(["x", "only here", None], usable)
    assert (number.tolist(), names) == ([0, -1, -1], ["x"])


def test_attributes_combine_to_their_product() -> None:
    columns: dict[str, list[str | None]] = {"sex": ["m", "f", "f", None, "m"], "age": ["9", "10", "9", "9", "10"]}
    attribute, names = combined(columns, good(5))
    assert names == ["sex=f, age=9", "sex=f, age=10", "sex=m, age=9", "sex=m, age=10"]
    assert attribute.tolist() == [2, 1, 0, -1, 3]
    assert combined({"sex": columns["sex"]}, good(5))[1] == ["f", "m"]
    attribute, names = combined({}, good(2))
    assert (attribute.tolist(), names) == ([-1, -1], [])


def test_a_table_without_attributes_and_with_half_of_them() -> None:
    table = make(LABELS)
    assert table.check() is table and not table.has_attributes("test") and table.info.num_attributes == 2
    partly = make(LABELS, attributes={"place": ["here", "there", None] * 4})
    assert partly.attribute.tolist() == [0, 1, -1] * 4 and partly.attribute_names == ["here", "there"]
    assert partly.check() is partly and not partly.has_attributes("train")


def test_every_bad_row_is_told_at_once() -> None:
    label = [*LABELS, None, "a", "b", "b", "b"]
    split = ["train", "train", "valid", "valid", "test", "test"] * 2 + ["train", "holdout", None, "train", "train"]
    keys = [*range(15), 0, 1]
    with pytest.raises(InputError) as caught:
        make(label, split=split, keys=keys)
    assert str(caught.value) == (
        "rows.csv: 5 rows are bad: row 12: has no label; row 13: split 'holdout' is none of train, valid, test; "
        "row 14: has no split; row 15: repeats row 0; row 16: repeats row 1; fix them, or leave them out by "
        "--data.on_bad_rows skip"
    )


def test_ten_are_shown_and_the_others_counted() -> None:
    with pytest.raises(InputError) as caught:
        make([*LABELS, *[None] * 1013])
    message = str(caught.value)
    assert "1,013 rows are bad" in message and "row 21: has no label; and 1,003 more;" in message
    assert "row 22" not in message
    assert format_faults(["one"]) == "one"


def test_bad_rows_can_be_skipped() -> None:
    table = make([*LABELS, None, "c"], "skip", keys=[*range(13), 3])
    assert table.label_names == ["a", "b"]
    used = torch.cat(list(table.split.values()))
    assert sorted(used.tolist()) == list(range(12))
    assert table.notes == ("rows.csv: 2 bad rows were left out: row 12: has no label; row 13: repeats row 3",)
    table.check()
    problems = Problems("rows.csv", ["row 0", "row 1"])
    for row in range(2):
        problems.add(row, "is bad")
    with pytest.raises(InputError, match="2 rows are bad, so none is left"):
        problems.raise_if_any("skip")


def test_a_label_that_training_does_not_know() -> None:
    split: list[str | None] = ["train"] * 8 + ["valid"] * 2 + ["test"] * 4
    label = [*LABELS, "new", "other"]
    with pytest.raises(InputError, match=r"row 12: label 'new' is in the test split but not in train; row 13"):
        make(label, split=split)
    table = make(label, "skip", split=split)
    assert table.label_names == ["a", "b"] and len(table.split["test"]) == 2


def test_a_label_that_the_test_does_not_know_is_noted() -> None:
    split: list[str | None] = ["train"] * 8 + ["valid"] * 2 + ["test"] * 2
    table = make([*LABELS[:11], "a"], split=split)
    assert table.notes == ("the test split has no row with label b: nothing can be said of it there",)


def test_one_label_is_not_enough() -> None:
    with pytest.raises(InputError, match=r"rows.csv: the only label is 'a'"):
        make(["a"] * 10)
    with pytest.raises(InputError, match="label 'b' is in the test split but not in train"):
        make(["a"] * 8 + ["b"] * 2, split=["train"] * 6 + ["valid"] * 2 + ["test"] * 2)
    with pytest.raises(InputError, match=r"rows.csv: labels with too few rows to split \(rows per label: b 1\)"):
        make(["a"] * 8 + ["b"])


def test_structure_is_checked_before_the_inputs_are_made() -> None:
    raw = Records(Problems("rows.csv", ["row 0"] * 4), ["a"] * 4)
    with pytest.raises(InputError, match="only label"):
        build_table(raw, lambda: pytest.fail("made"), Splitting(0.2, 0.2, 0), "error")


def test_test_rows_of_unknown_attribute_are_noted() -> None:
    split: list[str | None] = ["train"] * 6 + ["valid"] * 2 + ["test"] * 4
    place: list[str | None] = [None] * 8 + ["here", "there", None, "here"]
    noted = make(LABELS, split=split, attributes={"place": place})
    assert noted.notes == () and noted.attribute_notes == (
        "1 of 4 test rows have no attribute: they count in the average and in no group",
    )
    assert make(LABELS, split=split, attributes={"place": [None] * 12}).attribute_notes == ()


def test_a_column_of_many_values_is_no_attribute() -> None:
    names: list[str | None] = [f"customer {i}" for i in range(1001)]
    with pytest.raises(InputError, match="attribute who has 1,001 different values, more than 1,000"):
        make(["a", "b"] * 500 + ["a"], attributes={"who": names})
