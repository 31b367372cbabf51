"""Which rows are drawn with which probability, and whether accuracy estimated from them is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.shortcuts import sampling
from logit_correction.shortcuts.new_rows_table import NewRows
from logit_correction.shortcuts.sheets import sample_sheet
from logit_correction.shortcuts.summaries import Interval


def draw_predictions(seed: int, num_rows: int = 40, share: float = 0.3) -> np.ndarray:
    """Draw predicted labels of ERM and three candidates that contradict it on a share of the rows."""
    generator = np.random.default_rng(seed)
    erm = generator.integers(2, size=num_rows)
    return np.stack([erm, *(np.where(generator.random(num_rows) < share, 1 - erm, erm) for _ in range(3))])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_inclusion_probabilities_sum_to_the_sample_size(seed: int, count: int, uniform_share: float) -> None:
    predictions = draw_predictions(seed)
    labelled = list(range(seed % 10))
    probability = sampling.compute_inclusion_probabilities(predictions, count, labelled, uniform_share)
    possible = np.ones(40, dtype=bool)
    if uniform_share == 0:
        possible = (predictions != predictions[0]).any(axis=0)
    possible[labelled] = False
    assert probability.sum() == pytest.approx(min(count, possible.sum()))
    assert (probability >= 0).all()
    assert (probability <= 1 + 1e-12).all()
    np.testing.assert_array_equal(probability > 0, possible)
    pattern = np.unique(predictions, axis=1, return_inverse=True)[1].ravel()
    rows = sampling.draw_systematic_sample(probability, pattern, seed)
    assert len(set(rows.tolist())) == len(rows) == round(probability.sum())
    assert set(np.flatnonzero(probability > 1 - 1e-9)) <= set(rows.tolist())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30))
def test_inclusion_probabilities_ignore_the_order_of_rows_and_candidates(seed: int, count: int) -> None:
    predictions = draw_predictions(seed)
    order = np.random.default_rng(seed).permutation(40)
    expected = sampling.compute_inclusion_probabilities(predictions, count)
    actual = sampling.compute_inclusion_probabilities(predictions[[0, 3, 1, 2]][:, order], count)
    np.testing.assert_allclose(actual, expected[order])


def test_half_of_the_sample_is_drawn_uniformly() -> None:
    predictions = np.zeros((2, 100), dtype=int)
    predictions[1, :10] = 1
    probability = sampling.compute_inclusion_probabilities(predictions, 10)
    np.testing.assert_allclose(probability[10:], 0.5 * 10 / 100)
    np.testing.assert_allclose(probability[:10], 0.5 + 0.05)


def test_uniform_share_grows_with_the_sample_size() -> None:
    shares = [sampling.compute_uniform_share(count) for count in (1, 5, 8, 20, 100)]
    np.testing.assert_allclose(shares, [0, 0, 0.1, 0.5, 0.5])
    assert [sampling.compute_uniform_share(3, num_asked) for num_asked in (0, 2, 5, 50)] == [0, 0, 0.1, 0.5]


def test_systematic_sample_draws_rows_with_their_inclusion_probability() -> None:
    predictions = draw_predictions(3)
    probability = sampling.compute_inclusion_probabilities(predictions, 8)
    pattern = np.unique(predictions, axis=1, return_inverse=True)[1].ravel()
    times = np.zeros(40)
    for seed in range(3000):
        times[sampling.draw_systematic_sample(probability, pattern, seed)] += 1
    error = np.sqrt(probability * (1 - probability) / 3000)
    assert (np.abs(times / 3000 - probability) < 4.5 * error + 1e-9).all()


# -- accuracy


def estimate_accuracy_from_sample(
    is_right: np.ndarray, predictions: np.ndarray, count: int, seed: int
) -> Interval | None:
    probability = sampling.compute_inclusion_probabilities(predictions, count)
    pattern = np.unique(predictions, axis=1, return_inverse=True)[1].ravel()
    rows = sampling.draw_systematic_sample(probability, pattern, seed)
    contradicted = (predictions != predictions[0]).any(axis=0).astype(int)
    sizes = np.bincount(contradicted, minlength=2)
    return sampling.estimate_accuracy(is_right[rows], 1 / probability[rows], contradicted[rows], sizes)


@pytest.mark.parametrize(("count", "agreed", "disputed"), [(10, 0.95, 0.5), (20, 0.9, 0.4), (50, 0.99, 0.7)])
def test_accuracy_intervals_cover_the_accuracy_in_nine_of_ten_draws(count: int, agreed: float, disputed: float) -> None:
    generator = np.random.default_rng(count)
    predictions = draw_predictions(1, 400, 0.15)
    contradicted = (predictions != predictions[0]).any(axis=0)
    inside = list[bool]()
    errors = list[float]()
    for seed in range(200):
        is_right = generator.random(400) < np.where(contradicted, disputed, agreed)
        actual = estimate_accuracy_from_sample(is_right.astype(float), predictions, count, seed)
        if actual is not None:
            inside.append(bool(actual.low <= is_right.mean() <= actual.high))
            errors.append(actual.accuracy - is_right.mean())
    assert len(inside) > 190
    assert np.mean(inside) > 0.84  # 0.9 less three standard errors
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors)) + 0.003


@pytest.mark.parametrize("counts", [(20,), (10, 10), (5, 15), (5, 5, 10)])
def test_answers_of_several_sheets_stand_for_all_rows(counts: tuple[int, ...]) -> None:
    """Those on which the candidates disagree, and the others, which a small first sheet does not ask about."""
    predictions = np.zeros((3, 400), int)
    predictions[1:, :60] = np.random.default_rng(0).integers(2, size=(2, 60))
    is_disputed = (predictions != predictions[0]).any(axis=0)
    sums = []
    for seed in range(120):
        unknown = np.full(400, -1)
        rows = NewRows(pd.DataFrame({"row": np.arange(400)}), unknown, unknown, predictions, np.zeros((3, 400)), {})
        for count in counts:
            rows, sheet = sample_sheet(rows, count, seed)
            label = rows.label.copy()
            label[sheet["row"].to_numpy()] = 0
            rows = replace(rows, label=label)
        sums.append([rows.answer_weights[side].sum() for side in (is_disputed, ~is_disputed)])
    expected = [is_disputed.sum(), (~is_disputed).sum()]
    error = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(np.mean(sums, axis=0) - expected) < 4 * error + 0.03 * np.array(expected)).all()


def test_accuracy_estimate_is_exact_if_all_rows_are_labelled() -> None:
    is_right = np.array([1.0, 0, 1, 1])
    actual = sampling.estimate_accuracy(is_right, np.ones(4), np.array([0, 0, 1, 1]), np.array([2, 2]))
    assert actual == Interval(0.75, 0.75, 0.75)


def test_accuracy_of_a_stratum_without_labels_is_not_estimated() -> None:
    assert sampling.estimate_accuracy(np.ones(3), np.ones(3), np.ones(3, int), np.array([9, 5])) is None
    actual = sampling.estimate_accuracy(np.ones(3), np.ones(3), np.ones(3, int), np.array([0, 5]))
    assert actual is not None
    assert 0 < actual.low < actual.high == actual.accuracy == 1


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_accuracy_estimate_ignores_order_and_weight_scale_in_a_stratum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    is_right = generator.integers(2, size=12).astype(float)
    weight = generator.uniform(1, 20, 12)
    stratum = np.repeat([0, 1], 6)
    sizes = np.array([200, 100])
    expected = sampling.estimate_accuracy(is_right, weight, stratum, sizes)
    order = generator.permutation(12)
    actual = sampling.estimate_accuracy(is_right[order], 3 * weight[order], stratum[order], sizes)
    assert expected is not None
    assert actual is not None
    for name in ("accuracy", "low", "high"):
        assert getattr(actual, name) == pytest.approx(getattr(expected, name))
    assert 0 <= expected.low <= expected.accuracy <= expected.high <= 1
