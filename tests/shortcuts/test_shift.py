"""Which views differ between training data and new rows: against SciPy and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from logit_correction.shortcuts.shift import (
    MAX_FEATURES,
    MAX_VALUES,
    ValueShare,
    ViewShift,
    compare_term_shares,
    compare_value_shares,
    compute_auc_error,
    describe_view_shift,
    measure_view_shift,
    score_rows_by_side,
)


def draw_normal(rows: int, features: int, seed: int, mean: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1, (rows, features))


def test_view_shift_of_a_shifted_feature_equals_the_normal_distribution() -> None:
    shift = measure_view_shift("made", draw_normal(2000, 1, 0), draw_normal(2000, 1, 1, mean=1), seed=0)
    assert shift.auc == pytest.approx(0.760, abs=0.02)  # the normal distribution at 1 / sqrt(2)
    assert shift.auc_low < 0.760 < shift.auc_high and shift.is_significant


@pytest.mark.parametrize("features", [1, 30, 3 * MAX_FEATURES])
def test_view_shift_of_one_distribution_is_not_significant(features: int) -> None:
    """Nor where many features could be memorised: the intervals hold 0.5 about as often as they should."""
    shifts = [
        measure_view_shift("made", draw_normal(150, features, 2 * seed), draw_normal(100, features, 2 * seed + 1), seed)
        for seed in range(20)
    ]
    assert sum(shift.is_significant for shift in shifts) <= 4
    assert abs(np.mean([shift.auc for shift in shifts]) - 0.5) < 0.04


def test_view_shift_auc_equals_the_rank_test() -> None:
    old = draw_normal(40, 3, 0)
    new = draw_normal(30, 3, 1, mean=0.7)
    scores = score_rows_by_side(old, new, seed=3)
    expected = mannwhitneyu(scores[40:], scores[:40]).statistic / (40 * 30)
    assert measure_view_shift("made", old, new, seed=3).auc == pytest.approx(expected)


def test_view_shift_of_constant_features_is_not_significant() -> None:
    shift = measure_view_shift("made", np.ones((20, MAX_FEATURES + 1)), np.ones((20, MAX_FEATURES + 1)), seed=0)
    assert shift.auc == pytest.approx(0.5) and not shift.is_significant


def test_auc_error_without_separation_equals_the_rank_sum() -> None:
    assert compute_auc_error(0.5, 50, 80) == pytest.approx(np.sqrt((50 + 80 + 1) / (12 * 50 * 80)), rel=1e-9)
    assert compute_auc_error(1.0, 50, 80) == 0.0


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1), st.lists(st.sampled_from("cdef"), min_size=1))
def test_value_shares_sum_to_one(old: list[str], new: list[str]) -> None:
    shares = compare_value_shares(old, new)
    assert sum(share.old_share for share in shares) == pytest.approx(1)
    assert sum(share.new_share for share in shares) == pytest.approx(1)
    assert {share.value for share in shares} == {*old, *new}


def test_values_that_differ_most_are_listed_first() -> None:
    old = ["north"] * 48 + ["south"] * 52
    new = ["north"] * 3 + ["south"] * 57 + ["east"] * 40
    features = {"north": 0.0, "south": 1.0, "east": 2.0}
    columns = [np.array([[features[value]] for value in side]) for side in (old, new)]
    shift = measure_view_shift("column:site", *columns, seed=0, values=compare_value_shares(old, new))
    assert [value.value for value in shift.values] == ["north", "east", "south"]
    assert shift.values[0] == ValueShare("north", 0.48, 0.03)


def test_term_shares_count_each_term_once_per_row() -> None:
    old = np.array([[2.0, 0.0], [1.0, 0.0]])
    new = np.array([[0.0, 3.0], [1.0, 0.0]])
    assert compare_term_shares(["a", "b"], old, new) == [ValueShare("a", 1.0, 0.5), ValueShare("b", 0.0, 0.5)]


def test_view_shift_keeps_few_values() -> None:
    values = [ValueShare(str(number), 0.0, number / 100) for number in range(20)]
    shift = measure_view_shift("made", draw_normal(9, 1, 0), draw_normal(9, 1, 1), seed=0, values=values)
    assert len(shift.values) == MAX_VALUES and shift.values[0].value == "19"


def test_intervals_of_many_views_have_joint_coverage() -> None:
    """So of a hundred views of rows of one distribution at most one or two seem to differ, not five."""
    old = draw_normal(150, 100, 0)
    new = draw_normal(100, 100, 1)
    shifts = [
        measure_view_shift("made", old[:, [number]], new[:, [number]], seed=0, num_views=100) for number in range(100)
    ]
    assert sum(shift.is_significant for shift in shifts) <= 1
    single_view_shift = measure_view_shift("made", old[:, :1], new[:, :1], seed=0)
    assert shifts[0].auc == single_view_shift.auc and shifts[0].auc_high > single_view_shift.auc_high


def test_view_shift_description_names_both_sides_once() -> None:
    values = (ValueShare("north", 0.48, 0.03), ValueShare("east", 0.0, 0.4))
    shift = ViewShift("column:site", 0.8, 0.7, 0.9, values)
    text = describe_view_shift(shift, "`site`")
    assert text == "`site`: north 48 % of the training data, 3 % of the new rows; east 0 % and 40 %"
    assert describe_view_shift(ViewShift("colour", 0.8, 0.7, 0.9), "colour") == "colour"
