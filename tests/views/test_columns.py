"""Columns of a table, each alone, and the pattern of what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from logit_correction.views.base import ViewInputs
from logit_correction.views.columns import BINS, FURTHEST, VALUES, Columns
from logit_correction.views.missing import Missing


def inputs_of(**columns: Any) -> ViewInputs:
    arrays = {
        name: np.asarray(values, dtype=object if isinstance(values[0], str) else None)
        for name, values in columns.items()
    }
    rows = len(next(iter(arrays.values())))
    return ViewInputs(num_rows=rows, inputs=lambda chosen: torch.zeros(len(chosen), 1), columns=arrays)


def features(values: Any, new: Any = None) -> torch.Tensor:
    """The features of new rows by a view that was fitted on others."""
    view = Columns("a")
    view.fit(inputs_of(a=values))
    found = view.features(inputs_of(a=values if new is None else new))
    assert found.dtype == torch.float32 and bool(torch.isfinite(found).all())
    return found


def test_one_view_for_each_column_that_varies() -> None:
    inputs = inputs_of(
        age=[1.0, 2.0, 3.0],
        place=["sea", "town", ""],
        same=[5, 5, 5],
        gap=[5.0, np.nan, 5.0],
        void=[np.nan] * 3,
        nameless=["", "", ""],
        odd=[True, False, True],
    )
    views = Columns.views_of(inputs)
    assert [view.name for view in views] == ["column:age", "column:place", "column:gap", "column:odd"]
    assert views[0].sentence == "the column age alone" and views[1].sentence == "the column place alone"
    assert Columns.sentence == "one column alone" and views[0].breadth == 0 and views[0].few is None
    assert Columns.views_of(ViewInputs(num_rows=3, inputs=lambda rows: rows)) == []


def test_many_numbers_are_cut_into_bins_of_equally_many_rows() -> None:
    values = np.random.default_rng(0).permutation(1600).astype(float)
    found = features(values)
    assert found.shape == (1600, 3 + BINS)
    value, missing, rank, bins = found[:, 0], found[:, 1], found[:, 2], found[:, 3:]
    assert torch.equal(bins.sum(0), torch.full((BINS,), 100.0)) and torch.equal(bins.sum(1), torch.ones(1600))
    assert torch.equal(bins.argmax(1), torch.from_numpy(values // 100).long())
    assert not missing.any()
    torch.testing.assert_close(rank, torch.from_numpy(values / 1600).float(), atol=2e-3, rtol=0)
    # The value is counted from the median in units of the distance from the 5th to the 95th percentile.
    torch.testing.assert_close(value, torch.from_numpy((values - 799) / 1440).float(), atol=2e-3, rtol=0)


def test_few_numbers_are_told_apart_each() -> None:
    values = np.arange(90) % VALUES * 0.1
    found = features(values)
    assert found.shape == (90, 3 + VALUES)
    assert torch.equal(found[:, 3:].argmax(1), torch.arange(90) % VALUES)
    unseen = features(values, [0.05, 99.0])
    assert not unseen[:, 3:].any() and unseen[1, 2] == 1


def test_a_number_that_many_rows_share_stands_out_of_its_bin() -> None:
    values = np.concatenate([np.zeros(900), np.arange(1, 1101)])
    found = features(values)
    rest = found[:, 3:]
    # One flag tells the zeros from all other rows, although the bins of small numbers hold others too.
    assert any(torch.equal(rest[:, i] > 0, torch.from_numpy(values == 0)) for i in range(rest.shape[1]))


def test_missing_numbers_have_the_median_and_a_flag() -> None:
    found = features([1.0, 2.0, np.nan, 4.0, 9.0, np.inf, 3.0])
    assert found[:, 1].tolist() == [0, 0, 1, 0, 0, 1, 0]
    assert found[2].tolist() == found[5].tolist() and found[2, 0] == 0 and not found[2, 3:].any()
    assert found[6, 0] == 0 and found[6, 2] == found[2, 2]  # 3 is the median


@pytest.mark.parametrize("values", [[np.nan] * 4, [7.0] * 4, [3.0], [np.nan]])
def test_nothing_to_learn(values: list[float]) -> None:
    found = features(values)
    assert len(found) == len(values) and found[:, 1].tolist() == [float(np.isnan(value)) for value in values]
    assert features(values, [1.0, np.nan])[:, 1].tolist() == [0, 1]


def test_huge_and_tiny_numbers_stay_finite() -> None:
    found = features(np.concatenate([np.arange(100), [1e308, -1e308]]))
    assert found[-2, 0] == FURTHEST and found[-1, 0] == -FURTHEST
    features([1e308, -1e308, 0.0])
    features([5e-324, 0.0, 0.0])
    late = features(1.7e9 + np.arange(100.0))  # times in seconds: close ones still differ
    assert len(late[:, 0].unique()) == 100


def test_a_column_with_one_other_value_is_seen() -> None:
    found = features([5.0] * 99 + [6.0])
    assert found[-1, 0] == 1 and not found[:-1, 0].any()


def test_whole_numbers_and_truth_values() -> None:
    assert torch.equal(features([True, False, True])[:, 3:], torch.tensor([[0.0, 1], [1, 0], [0, 1]]))
    assert torch.equal(features(np.array([3, 1, 3], dtype=np.int8))[:, 3:], torch.tensor([[0.0, 1], [1, 0], [0, 1]]))


def test_names() -> None:
    found = features(["sea", "town", "sea", "", "naïve ☃"], ["town", "sea", "", "land"])
    # Missing, another, then the commonest: sea, naïve ☃, town.
    assert found.tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert features(["", ""]).tolist() == [[1, 0], [1, 0]]


def test_the_commonest_names_have_a_flag_and_others_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logit_correction.views.columns.MOST_NAMES", 50)
    names = [f"n{i:02}" for i in range(60) for _ in range(2 + (i >= 55))]
    found = features(names)
    assert found.shape == (len(names), 52)
    alone = {names[i] for i in range(len(names)) if not found[i, 1]}
    assert alone == {f"n{i:02}" for i in [*range(45), *range(55, 60)]}
    assert torch.equal(found[:, 2:].sum(1) + found[:, 1], torch.ones(len(names)))


def test_names_of_fixed_width_do_as_well() -> None:
    inputs = ViewInputs(num_rows=3, inputs=lambda rows: rows, columns={"a": np.array(["x", "y", ""])})
    view = Columns.views_of(inputs)[0]
    view.fit(inputs)
    assert view.features(inputs).tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]


def test_the_pattern_of_missing_values() -> None:
    train = inputs_of(a=[1.0, np.nan, 2.0], b=["x", "", ""], c=[1, 2, 3])
    (view,) = Missing.views_of(train)
    view.fit(train)
    assert view.features(train).tolist() == [[0, 0, 0], [1, 1, 2], [0, 1, 1]]
    new = inputs_of(a=[np.nan, 0.0], b=["x", "x"], c=[np.nan, 1.0])  # nothing was missing in c before
    assert view.features(new).tolist() == [[1, 0, 2], [0, 0, 0]]
    assert view.features(new).dtype == torch.float32


def test_where_nothing_is_missing_there_is_no_pattern() -> None:
    assert Missing.views_of(inputs_of(a=[1.0, 2.0], b=["x", "y"])) == []
    assert Missing.views_of(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []
