"""Weights of candidates: closed forms, invariances, and what an average must not do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from logit_correction.shortcuts import averaging


def draw_predictions(seed: int, num_candidates: int = 4, num_rows: int = 60, num_labels: int = 3) -> np.ndarray:
    """Draw predicted labels (C, M) of candidates that contradict the first on a third of the rows."""
    generator = np.random.default_rng(seed)
    erm = generator.integers(num_labels, size=num_rows)
    others = [
        np.where(generator.random(num_rows) < 1 / 3, generator.integers(num_labels, size=num_rows), erm)
        for _ in range(num_candidates - 1)
    ]
    return np.stack([erm, *others])


# -- probability of being best


@pytest.mark.parametrize(("gain", "error"), [(0.0, 0.1), (0.05, 0.1), (-0.2, 0.1), (0.3, 0.05)])
def test_of_two_candidates_it_is_the_normal_distribution_function(gain: float, error: float) -> None:
    probability = averaging.compute_probability_best(np.array([0.0, gain]), np.array([0.0, error]))
    assert probability[1] == pytest.approx(norm.cdf(gain / error), abs=0.012)


def test_of_three_correlated_candidates_it_is_the_orthant_probability() -> None:
    # With equal gains, the correlation of the two differences to candidate 1 decides: 1/4 + asin(rho) / (2 pi).
    correlation = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.6, 0.2], [0.0, 0.6, 1.0, 0.2], [0.0, 0.2, 0.2, 1.0]])
    gain = np.array([-9.0, 0.1, 0.1, 0.1])
    probability = averaging.compute_probability_best(gain, np.array([0.0, 0.1, 0.1, 0.1]), correlation)
    for candidate in (1, 2, 3):
        first, second = (other for other in (1, 2, 3) if other != candidate)
        difference = np.eye(4)[candidate] - np.eye(4)[[first, second]]
        covariance = difference @ correlation @ difference.T
        rho = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
        assert probability[candidate] == pytest.approx(0.25 + np.arcsin(rho) / (2 * np.pi), abs=0.012)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(5)))
def test_the_order_of_candidates_does_not_matter(seed: int, order: list[int]) -> None:
    generator = np.random.default_rng(seed)
    gain = generator.normal(0, 0.1, 5)
    error = generator.uniform(0.01, 0.2, 5)
    correlation = averaging.compute_prediction_correlation(draw_predictions(seed, 5))
    expected = averaging.compute_probability_best(gain, error, correlation, num_draws=500)
    found = averaging.compute_probability_best(gain[order], error[order], correlation[np.ix_(order, order)], 500)
    np.testing.assert_allclose(found, expected[order], atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_candidate_that_is_listed_twice_has_the_weight_of_one(seed: int) -> None:
    generator = np.random.default_rng(seed)
    gain = np.array([0.0, *generator.normal(0.02, 0.05, 3)])
    error = np.array([0.0, *generator.uniform(0.02, 0.1, 3)])
    predictions = draw_predictions(seed)
    once = averaging.compute_probability_best(gain, error, averaging.compute_prediction_correlation(predictions, 1.0))
    twice = [0, 1, 2, 3, 3]
    correlation = averaging.compute_prediction_correlation(predictions[twice], 1.0)
    found = averaging.compute_probability_best(gain[twice], error[twice], correlation)
    assert found[3] == pytest.approx(found[4], abs=1e-6)
    np.testing.assert_allclose([*found[:3], found[3] + found[4]], once, atol=0.02)


def test_independent_draws_favour_a_candidate_that_is_listed_twice() -> None:
    gain = np.array([-1.0, 0.0, 0.0, 0.0])
    error = np.array([0.0, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(averaging.compute_probability_best(gain, error), [0, 1 / 3, 1 / 3, 1 / 3], atol=0.01)
    same = np.eye(4)
    same[2, 3] = same[3, 2] = 1.0
    found = averaging.compute_probability_best(gain, error, same)
    np.testing.assert_allclose(found, [0, 1 / 2, 1 / 4, 1 / 4], atol=0.012)


def test_without_errors_the_greatest_gain_has_all_weight() -> None:
    assert averaging.compute_probability_best(np.array([0.0, -0.1, 0.2]), np.zeros(3)).tolist() == [0, 0, 1]


# -- correlation and prior


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_correlation_is_a_correlation_and_ignores_the_order_of_rows(seed: int) -> None:
    predictions = draw_predictions(seed)
    correlation = averaging.compute_prediction_correlation(predictions)
    assert np.linalg.eigvalsh(correlation).min() > -1e-9
    np.testing.assert_array_equal(np.diag(correlation), 1)
    assert ((correlation >= 0) & (correlation <= 1 + 1e-12)).all()
    order = np.random.default_rng(seed).permutation(predictions.shape[1])
    np.testing.assert_allclose(averaging.compute_prediction_correlation(predictions[:, order]), correlation)


def test_correlation_of_candidates_that_never_contradict_erm_is_none() -> None:
    predictions = np.array([[0, 1], [0, 1], [1, 1]])
    np.testing.assert_array_equal(averaging.compute_prediction_correlation(predictions), np.eye(3))


def test_prior_gain_is_exact_on_many_rows() -> None:
    generator = np.random.default_rng(0)
    label = generator.integers(2, size=20_000)
    erm = np.where(generator.random(20_000) < 0.9, label, 1 - label)
    other = np.where(generator.random(20_000) < 0.6, label, 1 - label)
    contradicts = erm != other
    expected = ((other == label) * 1.0 - (erm == label))[contradicts].mean()
    prior = averaging.compute_prior_gain(np.stack([erm, other]), label)
    assert prior[1] == pytest.approx(expected, abs=1e-3)
    assert averaging.compute_prior_gain(np.stack([erm, erm]), label)[1] == pytest.approx(averaging.SHRINKAGE_GAIN)


# -- members and their average


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=12), st.integers(1, 6))
def test_members_are_few_likely_and_sum_to_one(values: list[float], max_members: int) -> None:
    probability = np.array(values) / sum(values)
    weight = averaging.select_members(probability, max_members=max_members)
    assert weight.sum() == pytest.approx(1)
    assert 1 <= (weight > 0).sum() <= max_members
    assert weight[probability.argmax()] > 0
    others = np.delete(np.arange(len(probability)), probability.argmax())
    assert not weight[others][probability[others] < averaging.MIN_MEMBER_WEIGHT].any()
    kept = weight > 0
    np.testing.assert_allclose(weight[kept] / probability[kept], 1 / probability[kept].sum())


def test_of_many_equally_likely_candidates_the_first_is_a_member() -> None:
    assert averaging.select_members(np.full(40, 1 / 40)).tolist() == [1.0, *[0.0] * 39]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_constant_on_all_logits_of_a_row_changes_no_average(seed: int) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(3, 7, 4))
    weight = generator.dirichlet(np.ones(3))
    average = averaging.average_logits(logits, weight)
    moved = averaging.average_logits(logits + generator.normal(size=(3, 7, 1)), weight)
    np.testing.assert_allclose(moved, average, atol=1e-12)
    np.testing.assert_allclose(average.sum(axis=1), 0, atol=1e-12)
    order = generator.permutation(3)
    np.testing.assert_allclose(averaging.average_logits(logits[order], weight[order]), average, atol=1e-12)


def test_of_linear_heads_the_average_is_a_linear_head() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(20, 5))
    heads = generator.normal(size=(3, 5, 4))
    weight = np.array([0.5, 0.3, 0.2])
    average = averaging.average_logits(features @ heads, weight)
    head = np.tensordot(weight, heads - heads.mean(axis=2, keepdims=True), axes=1)
    np.testing.assert_allclose(average, features @ head)


# -- gains


def test_of_rows_that_stand_for_all_the_gain_is_shrunk_by_four_rows() -> None:
    predictions = np.array([[0] * 50, [1] * 20 + [0] * 30])
    label = np.array([1] * 15 + [0] * 35)
    gain, error = averaging.estimate_gain_posterior(predictions, np.arange(50), label, np.ones(50))
    mean = (15 - 5 + 4 * averaging.SHRINKAGE_GAIN) / 24
    assert gain[1] == pytest.approx(0.4 * mean)
    assert error[1] == pytest.approx(0.4 * np.sqrt((1 - mean**2) / 24))


def test_a_prior_by_the_validation_rows_is_worth_sixteen_rows() -> None:
    predictions = np.array([[0] * 10, [1] * 10])
    prior = np.array([0.0, -0.5])
    gain, _ = averaging.estimate_gain_posterior(predictions, np.arange(4), np.ones(4, int), np.ones(4), prior)
    assert gain[1] == pytest.approx((4 - 8) / 20)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_rows_and_scale_of_weights_do_not_change_a_gain(seed: int) -> None:
    generator = np.random.default_rng(seed)
    predictions = draw_predictions(seed)
    rows = generator.permutation(60)[:15]
    label = generator.integers(3, size=15)
    weight = generator.uniform(1, 9, 15)
    expected = averaging.estimate_gain_posterior(predictions, rows, label, weight)
    order = generator.permutation(15)
    found = averaging.estimate_gain_posterior(predictions, rows[order], label[order], 7 * weight[order])
    np.testing.assert_allclose(found, expected)
    candidates = [0, *(1 + generator.permutation(3))]
    found = averaging.estimate_gain_posterior(predictions[candidates], rows, label, weight)
    np.testing.assert_allclose(found, np.array(expected)[:, candidates])


def test_without_a_label_the_gain_is_the_prior() -> None:
    predictions = draw_predictions(0)
    none = np.zeros(0, int)
    gain, _ = averaging.estimate_gain_posterior(predictions, none, none, np.zeros(0))
    share = (predictions != predictions[0]).mean(axis=1)
    np.testing.assert_allclose(gain, share * averaging.SHRINKAGE_GAIN * (share > 0))


# -- advice


@pytest.mark.parametrize(
    ("gain", "error", "use", "use_if_changed", "unsure"),
    [
        (0.10, 0.02, "average", "average", False),
        (0.03, 0.02, "ERM", "average", True),  # its interval holds 0
        (0.004, 0.0, "ERM", "ERM", True),  # it rounds to 0 points
        (-0.1, 0.01, "ERM", "ERM", True),
    ],
)
def test_erm_is_advised_unless_a_gain_is_likely(
    gain: float, error: float, use: str, use_if_changed: str, unsure: bool
) -> None:
    advice = averaging.advise_average(gain, error, has_changed=False)
    assert (advice.use, advice.unsure) == (use, unsure)
    changed = averaging.advise_average(gain, error, has_changed=True)
    assert (changed.use, changed.unsure) == (use_if_changed, unsure)
    assert averaging.advise_average(gain, error, has_changed=False, insist=True).use == "average"
    assert advice.gain_low <= advice.gain <= advice.gain_high
