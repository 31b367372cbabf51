"""Which rows are drawn with which probability, and whether accuracy estimated from them is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logit_correction.shortcuts import sampling
from logit_correction.shortcuts.summaries import Interval


def draw_predictions(seed: int, num_rows: int = 40, share: float = 0.3) -> np.ndarray:
    """Draw predicted labels of ERM and three candidates that contradict it on a share of the rows."""
    generator = np.random.default_rng(seed)
    erm = generator.integers(2, size=num_rows)
    return np.stack([erm, *(np.where(generator.random(num_rows) < share, 1 - erm, erm) for _ in range(3))])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_probabilities_sum_to_the_size_of_the_sample(seed: int, count: int, uniform_share: float) -> None:
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
def test_the_order_of_rows_and_of_corrections_does_not_change_a_probability(seed: int, count: int) -> None:
    predictions = draw_predictions(seed)
    order = np.random.default_rng(seed).permutation(40)
    expected = sampling.compute_inclusion_probabilities(predictions, count)
    found = sampling.compute_inclusion_probabilities(predictions[[0, 3, 1, 2]][:, order], count)
    np.testing.assert_allclose(found, expected[order])


def test_half_of_a_sample_is_spread_over_all_rows() -> None:
    predictions = np.zeros((2, 100), dtype=int)
    predictions[1, :10] = 1
    probability = sampling.compute_inclusion_probabilities(predictions, 10)
    np.testing.assert_allclose(probability[10:], 0.5 * 10 / 100)
    np.testing.assert_allclose(probability[:10], 0.5 + 0.05)


def test_a_few_rows_are_drawn_where_candidates_differ_and_half_of_many_uniformly() -> None:
    shares = [sampling.compute_uniform_share(count) for count in (1, 5, 8, 20, 100)]
    np.testing.assert_allclose(shares, [0, 0, 0.1, 0.5, 0.5])
    assert [sampling.compute_uniform_share(3, asked) for asked in (0, 2, 5, 50)] == [0, 0, 0.1, 0.5]


def test_rows_are_drawn_as_often_as_their_probability_says() -> None:
    predictions = draw_predictions(3)
    probability = sampling.compute_inclusion_probabilities(predictions, 8)
    pattern = np.unique(predictions, axis=1, return_inverse=True)[1].ravel()
    times = np.zeros(40)
    for seed in range(3000):
        times[sampling.draw_systematic_sample(probability, pattern, seed)] += 1
    error = np.sqrt(probability * (1 - probability) / 3000)
    assert (np.abs(times / 3000 - probability) < 4.5 * error + 1e-9).all()


# -- accuracy


def estimate(is_right: np.ndarray, predictions: np.ndarray, count: int, seed: int) -> Interval | None:
    probability = sampling.compute_inclusion_probabilities(predictions, count)
    pattern = np.unique(predictions, axis=1, return_inverse=True)[1].ravel()
    rows = sampling.draw_systematic_sample(probability, pattern, seed)
    contradicted = (predictions != predictions[0]).any(axis=0).astype(int)
    sizes = np.bincount(contradicted, minlength=2)
    return sampling.estimate_accuracy(is_right[rows], 1 / probability[rows], contradicted[rows], sizes)


@pytest.mark.parametrize(("count", "agreed", "disputed"), [(10, 0.95, 0.5), (20, 0.9, 0.4), (50, 0.99, 0.7)])
def test_accuracy_on_all_rows_lies_in_nine_of_ten_intervals(count: int, agreed: float, disputed: float) -> None:
    generator = np.random.default_rng(count)
    predictions = draw_predictions(1, 400, 0.15)
    contradicted = (predictions != predictions[0]).any(axis=0)
    inside = list[bool]()
    errors = list[float]()
    for seed in range(400):
        is_right = generator.random(400) < np.where(contradicted, disputed, agreed)
        found = estimate(is_right.astype(float), predictions, count, seed)
        if found is not None:
            inside.append(bool(found.low <= is_right.mean() <= found.high))
            errors.append(found.accuracy - is_right.mean())
    assert len(inside) > 380
    assert np.mean(inside) > 0.85  # 0.9 less three standard errors
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors)) + 0.003


def test_accuracy_is_exact_where_all_rows_are_labelled() -> None:
    is_right = np.array([1.0, 0, 1, 1])
    found = sampling.estimate_accuracy(is_right, np.ones(4), np.array([0, 0, 1, 1]), np.array([2, 2]))
    assert found == Interval(0.75, 0.75, 0.75)


def test_nothing_is_estimated_of_rows_of_which_none_is_labelled() -> None:
    assert sampling.estimate_accuracy(np.ones(3), np.ones(3), np.ones(3, int), np.array([9, 5])) is None
    found = sampling.estimate_accuracy(np.ones(3), np.ones(3), np.ones(3, int), np.array([0, 5]))
    assert found is not None
    assert 0 < found.low < found.high == found.accuracy == 1


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_order_and_scale_of_weights_do_not_matter_within_a_stratum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    is_right = generator.integers(2, size=12).astype(float)
    weight = generator.uniform(1, 20, 12)
    stratum = np.repeat([0, 1], 6)
    sizes = np.array([200, 100])
    expected = sampling.estimate_accuracy(is_right, weight, stratum, sizes)
    order = generator.permutation(12)
    found = sampling.estimate_accuracy(is_right[order], 3 * weight[order], stratum[order], sizes)
    assert expected is not None
    assert found is not None
    for name in ("accuracy", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))
    assert 0 <= expected.low <= expected.accuracy <= expected.high <= 1
