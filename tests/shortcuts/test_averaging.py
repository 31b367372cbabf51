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


def draw_labelled_rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw predictions (C, M), and the positions and labels of 15 labelled rows."""
    generator = np.random.default_rng(seed)
    return draw_predictions(seed), generator.permutation(60)[:15], generator.integers(3, size=15)


# -- probability of being best


@pytest.mark.parametrize(("gain", "error"), [(0.0, 0.1), (0.05, 0.1), (-0.2, 0.1), (0.3, 0.05)])
def test_probability_best_of_two_candidates_equals_the_normal_distribution(gain: float, error: float) -> None:
    probability = averaging.compute_probability_best(np.array([0.0, gain]), np.array([0.0, error]))
    assert probability[1] == pytest.approx(norm.cdf(gain / error), abs=0.012)


def test_probability_best_of_three_candidates_equals_the_orthant_probability() -> None:
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
def test_probability_best_does_not_depend_on_the_order_of_candidates(seed: int, order: list[int]) -> None:
    generator = np.random.default_rng(seed)
    gain = generator.normal(0, 0.1, 5)
    error = generator.uniform(0.01, 0.2, 5)
    correlation = averaging.compute_prediction_correlation(draw_predictions(seed, 5))
    expected = averaging.compute_probability_best(gain, error, correlation, num_draws=500)
    actual = averaging.compute_probability_best(gain[order], error[order], correlation[np.ix_(order, order)], 500)
    np.testing.assert_allclose(actual, expected[order], atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_duplicate_candidates_share_the_weight_of_one(seed: int) -> None:
    generator = np.random.default_rng(seed)
    gain = np.array([0.0, *generator.normal(0.02, 0.05, 3)])
    error = np.array([0.0, *generator.uniform(0.02, 0.1, 3)])
    predictions = draw_predictions(seed)
    once = averaging.compute_probability_best(gain, error, averaging.compute_prediction_correlation(predictions, 1.0))
    twice = [0, 1, 2, 3, 3]
    correlation = averaging.compute_prediction_correlation(predictions[twice], 1.0)
    actual = averaging.compute_probability_best(gain[twice], error[twice], correlation)
    assert actual[3] == pytest.approx(actual[4], abs=1e-6)
    np.testing.assert_allclose([*actual[:3], actual[3] + actual[4]], once, atol=0.02)


def test_independent_draws_favour_duplicate_candidates() -> None:
    gain = np.array([-1.0, 0.0, 0.0, 0.0])
    error = np.array([0.0, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(averaging.compute_probability_best(gain, error), [0, 1 / 3, 1 / 3, 1 / 3], atol=0.01)
    same = np.eye(4)
    same[2, 3] = same[3, 2] = 1.0
    actual = averaging.compute_probability_best(gain, error, same)
    np.testing.assert_allclose(actual, [0, 1 / 2, 1 / 4, 1 / 4], atol=0.012)


def test_probability_best_without_errors_is_one_for_the_greatest_gain() -> None:
    assert averaging.compute_probability_best(np.array([0.0, -0.1, 0.2]), np.zeros(3)).tolist() == [0, 0, 1]


# -- gains


def test_gain_of_a_candidate_with_all_labels_is_exact_whatever_the_weights() -> None:
    """Another candidate contradicts ERM on rows that have no label yet."""
    predictions = np.zeros((3, 40), int)
    predictions[1, :6] = 1
    predictions[2, 20:] = 1
    label = np.array([1, 1, 1, 0, 0, 1])
    weight = np.array([9.0, 1, 1, 5, 5, 1])
    gain, _ = averaging.estimate_gain_posterior(predictions, np.arange(6), label, weight)
    assert gain[1] == pytest.approx((4 - 2) / 40)


# -- correlation and prior


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_prediction_correlation_is_valid_and_ignores_the_order_of_rows(seed: int) -> None:
    predictions = draw_predictions(seed)
    correlation = averaging.compute_prediction_correlation(predictions)
    assert np.linalg.eigvalsh(correlation).min() > -1e-9
    np.testing.assert_array_equal(np.diag(correlation), 1)
    assert ((correlation >= 0) & (correlation <= 1 + 1e-12)).all()
    order = np.random.default_rng(seed).permutation(predictions.shape[1])
    np.testing.assert_allclose(averaging.compute_prediction_correlation(predictions[:, order]), correlation)


def test_prediction_correlation_of_candidates_equal_to_erm_is_zero() -> None:
    predictions = np.array([[0, 1], [0, 1], [1, 1]])
    np.testing.assert_array_equal(averaging.compute_prediction_correlation(predictions), np.eye(3))


def test_prior_gain_is_exact_on_many_rows() -> None:
    generator = np.random.default_rng(0)
    label = generator.integers(2, size=20_000)
    erm = np.where(generator.random(20_000) < 0.9, label, 1 - label)
    other = np.where(generator.random(20_000) < 0.6, label, 1 - label)
    contradicts = erm != other
    expected = ((other == label) * 1.0 - (erm == label))[contradicts].mean()
    predictions = np.stack([erm, other])
    accuracy = (predictions == label).mean(axis=1)
    disagreement = averaging.compute_disagreement(predictions)
    prior = averaging.compute_prior_gain(accuracy, disagreement, len(label))
    assert prior[1] == pytest.approx(expected, abs=1e-3)
    prior = averaging.compute_prior_gain(accuracy[[0, 0]], disagreement[[0, 0]], len(label))
    assert prior[1] == pytest.approx(averaging.SHRINKAGE_GAIN)


# -- members and their average


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=12), st.integers(1, 6))
def test_select_members_keeps_few_likely_candidates_with_weights_that_sum_to_one(
    values: list[float], max_members: int
) -> None:
    probability = np.array(values) / sum(values)
    weight = averaging.select_members(probability, max_members=max_members)
    assert weight.sum() == pytest.approx(1)
    assert 1 <= (weight > 0).sum() <= max_members
    assert weight[probability.argmax()] > 0
    others = np.delete(np.arange(len(probability)), probability.argmax())
    assert not weight[others][probability[others] < averaging.MIN_MEMBER_WEIGHT].any()
    is_member = weight > 0
    np.testing.assert_allclose(weight[is_member] / probability[is_member], 1 / probability[is_member].sum())


def test_select_members_of_equally_likely_candidates_takes_the_first() -> None:
    assert averaging.select_members(np.full(40, 1 / 40)).tolist() == [1.0, *[0.0] * 39]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_average_logits_ignores_a_constant_added_to_a_row(seed: int) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(3, 7, 4))
    weight = generator.dirichlet(np.ones(3))
    average = averaging.average_logits(logits, weight)
    moved = averaging.average_logits(logits + generator.normal(size=(3, 7, 1)), weight)
    np.testing.assert_allclose(moved, average, atol=1e-12)
    np.testing.assert_allclose(average.sum(axis=1), 0, atol=1e-12)
    order = generator.permutation(3)
    np.testing.assert_allclose(averaging.average_logits(logits[order], weight[order]), average, atol=1e-12)


def test_average_of_linear_heads_is_a_linear_head() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(20, 5))
    heads = generator.normal(size=(3, 5, 4))
    weight = np.array([0.5, 0.3, 0.2])
    average = averaging.average_logits(features @ heads, weight)
    head = np.tensordot(weight, heads - heads.mean(axis=2, keepdims=True), axes=1)
    np.testing.assert_allclose(average, features @ head)


# -- gains


@pytest.mark.parametrize(("prior_gain", "num_prior_rows"), [(None, 4), (-0.5, 16)])
def test_prior_counts_as_rows_in_proportion_to_unlabelled_rows(prior_gain: float | None, num_prior_rows: int) -> None:
    predictions = np.array([[0] * 50, [1] * 20 + [0] * 30])
    label = np.array([1] * 15 + [0] * 35)
    prior = None if prior_gain is None else np.array([0.0, prior_gain])
    for num_labelled, total in ((5, 5), (20, 15 - 5), (50, 15 - 5)):
        rows = np.arange(num_labelled)
        gain, error = averaging.estimate_gain_posterior(predictions, rows, label[rows], np.ones(num_labelled), prior)
        count = min(num_labelled, 20)
        num_open = num_prior_rows * (1 - count / 20) if prior_gain is None else num_prior_rows
        mean = (total + num_open * (averaging.SHRINKAGE_GAIN if prior_gain is None else prior_gain)) / (
            count + num_open
        )
        assert gain[1] == pytest.approx(0.4 * mean)
        variance = max(1 - mean**2, averaging.MIN_VARIANCE)
        assert error[1] == pytest.approx(0.4 * np.sqrt(variance / (count + num_open)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_gain_posterior_ignores_row_order_and_weight_scale(seed: int) -> None:
    predictions, rows, label = draw_labelled_rows(seed)
    generator = np.random.default_rng(seed + 1)
    weight = generator.uniform(1, 9, 15)
    expected = averaging.estimate_gain_posterior(predictions, rows, label, weight)
    order = generator.permutation(15)
    actual = averaging.estimate_gain_posterior(predictions, rows[order], label[order], 7 * weight[order])
    np.testing.assert_allclose(actual, expected)
    candidates = [0, *(1 + generator.permutation(3))]
    actual = averaging.estimate_gain_posterior(predictions[candidates], rows, label, weight)
    np.testing.assert_allclose(actual, np.array(expected)[:, candidates])


def test_gain_posterior_without_labels_is_the_prior() -> None:
    predictions = draw_predictions(0)
    none = np.zeros(0, int)
    gain, _ = averaging.estimate_gain_posterior(predictions, none, none, np.zeros(0))
    share = (predictions != predictions[0]).mean(axis=1)
    np.testing.assert_allclose(gain, share * averaging.SHRINKAGE_GAIN * (share > 0))


# -- advice


def average_with_candidate(
    shares: tuple[float, float, float], has_changed: bool = True, num_labelled: int = 50
) -> averaging.CandidateAverage:
    """Average ERM and a candidate that contradicts it on such a share of rows, and is right on such a share of these.

    The last share is that of rows on which it is right by the validation rows.
    """
    contradicted, right, right_before = shares
    predictions = np.zeros((2, 1000), dtype=np.int64)
    predictions[1, : round(1000 * contradicted)] = 1
    rows = np.arange(num_labelled)
    label = (rows < round(num_labelled * right)).astype(np.int64)
    prior = None if has_changed else np.array([0.0, 2 * right_before - 1])
    return averaging.average_candidates(predictions, None, rows, label, np.ones(num_labelled), prior)


@pytest.mark.parametrize(
    ("shares", "is_advised", "is_advised_if_changed", "is_unsure"),
    [
        ((0.3, 0.9, 0.5), True, True, False),
        ((0.3, 0.55, 0.5), False, True, True),  # its interval holds 0
        ((0.3, 0.9, 0.0), True, True, False),
        ((0.05, 0.52, 0.5), False, False, True),  # it rounds to 0 points
        ((0.3, 0.2, 0.9), False, False, True),
    ],
)
def test_average_is_advised_only_if_a_gain_is_likely(
    shares: tuple[float, float, float], is_advised: bool, is_advised_if_changed: bool, is_unsure: bool
) -> None:
    average = average_with_candidate(shares, has_changed=False)
    assert (average.is_advised, average.is_unsure) == (is_advised, is_unsure)
    assert average_with_candidate(shares).is_advised == is_advised_if_changed


@pytest.mark.parametrize(("gain", "error"), [(0.03, 0.02), (0.0, 0.05), (-0.01, 0.02)])
def test_corrections_keep_a_share_in_proportion_to_the_probability_of_a_gain(gain: float, error: float) -> None:
    weight = np.array([0.1, 0.6, 0.3])
    share = min(1.0, norm.cdf(gain / error) / averaging.LIKELY_GAIN_PROBABILITY)
    shrunk = averaging.shrink_weight_to_erm(weight, gain, error)
    np.testing.assert_allclose(shrunk, [1 - 0.9 * share, 0.6 * share, 0.3 * share])


@given(st.integers(0, 10_000))
def test_every_member_keeps_at_least_the_least_weight(seed: int) -> None:
    generator = np.random.default_rng(seed)
    weight = averaging.select_members(generator.dirichlet(np.ones(6)))
    shrunk = averaging.shrink_weight_to_erm(weight, generator.normal(0.02, 0.02), generator.uniform(0, 0.03))
    assert shrunk.sum() == pytest.approx(1) and shrunk[shrunk != 0].min() >= averaging.MIN_MEMBER_WEIGHT


def test_only_erm_is_left_where_a_gain_is_unlikely() -> None:
    weight = np.array([0.0, 0.9, 0.1])
    assert averaging.shrink_weight_to_erm(weight, -0.05, 0.02).tolist() == [1.0, 0.0, 0.0]
    assert averaging.shrink_weight_to_erm(weight, -0.01, 0.0).tolist() == [1.0, 0.0, 0.0]
    np.testing.assert_array_equal(averaging.shrink_weight_to_erm(weight, 0.05, 0.02), weight)


@pytest.mark.parametrize("has_changed", [True, False])
def test_average_is_shrunk_towards_erm_only_after_a_shift(has_changed: bool) -> None:
    predictions = np.zeros((2, 1000), dtype=np.int64)
    predictions[1, :400] = 1
    logits = 8.0 * (predictions[:, :, None] == np.arange(2))
    logits[0] /= 8  # ERM is less sure, so that the average contradicts it
    rows = np.arange(10)
    label = rows % 2  # each is right on half of the rows
    prior = None if has_changed else np.array([0.0, 0.0])
    average = averaging.average_candidates(predictions, logits, rows, label, np.ones(10), prior)
    probability = norm.cdf(average.gain / average.error)
    unshrunk = averaging.select_members(average.probability_best)
    share = min(1.0, probability / averaging.LIKELY_GAIN_PROBABILITY) if has_changed else 1.0
    assert probability < averaging.LIKELY_GAIN_PROBABILITY
    np.testing.assert_allclose(average.weight[1], share * unshrunk[1])


def test_validation_rows_count_in_the_advice_only_without_a_shift() -> None:
    shares = (0.3, 0.8, 0.0)
    assert average_with_candidate(shares, num_labelled=10).is_advised
    assert not average_with_candidate(shares, has_changed=False, num_labelled=10).is_advised


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_average_without_logits_is_the_likeliest_candidate(seed: int) -> None:
    """Without logits the likeliest correction has all weight, and its own gain and predictions."""
    predictions, rows, label = draw_labelled_rows(seed)
    single = averaging.average_candidates(predictions, None, rows, label, np.ones(15))
    selected = 1 + int(single.probability_best[1:].argmax())
    assert single.weight.tolist() == np.eye(4)[selected].tolist()
    np.testing.assert_array_equal(single.predictions, predictions[selected])
    assert (single.gain, single.error) == pytest.approx(
        (single.candidate_gain[selected], single.candidate_error[selected])
    )
    logits = np.eye(3)[predictions]
    averaged = averaging.average_candidates(predictions, logits, rows, label, np.ones(15))
    np.testing.assert_array_equal(averaged.probability_best, single.probability_best)
    weight = averaging.select_members(averaged.probability_best)
    np.testing.assert_array_equal(averaged.predictions, averaging.average_logits(logits, weight).argmax(axis=1))


def test_interval_of_the_selected_candidate_covers_its_gain() -> None:
    """Its gain is shrunk, so that it is not overrated for having been selected by the same labels."""
    excess = []
    is_covered = []
    for seed in range(200):
        generator = np.random.default_rng(seed)
        predictions = draw_predictions(seed, num_candidates=6, num_rows=400)
        share_right = generator.uniform(0.2, 0.9, 6)
        label = predictions[0].copy()
        for number in range(1, 6):
            is_followed = generator.random(400) < share_right[number]
            label = np.where(is_followed & (predictions[number] != predictions[0]), predictions[number], label)
        rows = generator.permutation(400)[:30]
        average = averaging.average_candidates(predictions, None, rows, label[rows], np.ones(30))
        gain = ((average.predictions == label) * 1.0 - (predictions[0] == label)).mean()
        excess.append(average.gain - gain)
        is_covered.append(abs(average.gain - gain) <= averaging.INTERVAL_STANDARD_ERRORS * average.error)
    assert np.mean(excess) < 0.01
    assert np.mean(is_covered) > 0.85


# -- further labels


def test_labels_needed_are_counted_until_the_gain_is_significant() -> None:
    assert averaging.count_labels_needed(0.1, 0.05, num_labelled=20, num_open=500) == 0
    # An error falls with the root of the labels: from 0.1 to 0.1 / 1.645 takes 2.7 times as many.
    assert averaging.count_labels_needed(0.1, 0.1, num_labelled=20, num_open=500) == 40
    assert averaging.count_labels_needed(-0.1, 0.05, num_labelled=20, num_open=500) == 0
    assert averaging.count_labels_needed(0.0, 0.1, num_labelled=20, num_open=500) == averaging.MAX_LABELS_NEEDED


@given(st.floats(-0.3, 0.3), st.floats(0, 0.3), st.integers(1, 500), st.integers(0, 300))
def test_labels_needed_are_at_most_the_open_rows(gain: float, error: float, num_labelled: int, num_open: int) -> None:
    assert 0 <= averaging.count_labels_needed(gain, error, num_labelled, num_open) <= num_open
