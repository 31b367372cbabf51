"""What changed, whom to ask and who gains: by closed forms, by brute force, and over many draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from logit_correction.shortcuts import averaging, sampling, selection


def draw_predictions(seed: int, rows: int, disagreement_shares: tuple[float, ...], labels: int = 3) -> np.ndarray:
    """Predictions of ERM, and of candidates that disagree with it in these shares of the rows."""
    generator = np.random.default_rng(seed)
    first = generator.integers(labels, size=rows)
    others = [
        np.where(generator.random(rows) < share, (first + generator.integers(1, labels, rows)) % labels, first)
        for share in disagreement_shares
    ]
    return np.stack([first, *others])


def draw_distances(seed: int, rows: int, shares: tuple[float, ...]) -> np.ndarray:
    """How far candidates are from the first: 1 where they contradict it."""
    predictions = draw_predictions(seed, rows, shares)
    return (predictions != predictions[0]).astype(float)


def prediction_arrays() -> st.SearchStrategy[np.ndarray]:
    """Predictions of some candidates on some rows."""
    cell = st.integers(0, 2)
    return st.integers(2, 5).flatmap(
        lambda candidates: st.integers(1, 25).flatmap(
            lambda rows: st.lists(
                st.lists(cell, min_size=rows, max_size=rows), min_size=candidates, max_size=candidates
            ).map(np.array)
        )
    )


# -- what changed


def test_shift_test_rejects_unshifted_rows_one_time_in_twenty() -> None:
    rejections = [
        selection.compute_shift_p_value(distances[:, :70], distances[:, 70:], seed) <= selection.SHIFT_LEVEL
        for seed in range(100)
        for distances in [draw_distances(seed, 190, (0.05, 0.1, 0.2, 0.4))]
    ]
    # A level of 5 % rejects more than 10 times in 100 draws one time in 90, and never with a hundredth of the chance.
    assert binomtest(sum(rejections), 100, selection.SHIFT_LEVEL).pvalue > 0.01


def test_shift_test_finds_a_shift_seen_by_few_candidates() -> None:
    for seed in range(20):
        training_distances = draw_distances(seed, 120, (0.05, 0.05, 0.3, 0.0))
        new = draw_distances(seed + 1000, 80, (0.05, 0.35, 0.3, 0.0))
        assert selection.compute_shift_p_value(new, training_distances, seed) <= selection.SHIFT_LEVEL


# -- whom to ask


@pytest.mark.parametrize(
    ("disagreement_shares", "count", "answered"),
    [
        ((0.3, 0.1, 0.05), 8, ()),
        ((0.3, 0.1, 0.05), 8, tuple(range(0, 60, 3))),
        ((0.02, 0.9, 0.02), 20, ()),  # a few rows of many contradictions
        ((0.04, 0.04), 30, ()),  # fewer rows differ than are asked
    ],
)
def test_rows_to_label_are_drawn_with_their_inclusion_probability(
    disagreement_shares: tuple[float, ...], count: int, answered: tuple[int, ...]
) -> None:
    predictions = draw_predictions(3, 60, disagreement_shares)
    differ = (predictions != predictions[0]).any(axis=0)
    differ[list(answered)] = False
    expected_count = min(count, int(differ.sum()))
    times_drawn = np.zeros(60)
    times = 1500
    for seed in range(times):
        places, chance = selection.sample_rows_to_label(predictions, count, seed, answered)
        assert len(places) == expected_count == len(set(places.tolist()))
        times_drawn[places] += 1
    assert chance.sum() == pytest.approx(expected_count) and expected_count > 0 and chance.max() <= 1 + 1e-9
    assert (times_drawn[~differ] == 0).all() and (chance[~differ] == 0).all() and (chance[differ] > 0).all()
    error = np.sqrt(chance * (1 - chance) / times)
    assert (np.abs(times_drawn / times - chance) <= 4.5 * error + 1e-9).all()
    # Proportional to the square root of the share that contradicts ERM, except certain rows.
    uncertain = differ & (chance < 1 - 1e-9)
    parts = chance[uncertain] / np.sqrt((predictions != predictions[0]).mean(axis=0)[uncertain])
    np.testing.assert_allclose(parts, parts[:1].repeat(len(parts)))


@settings(max_examples=60, deadline=None)
@given(prediction_arrays(), st.integers(1, 30), st.integers(0, 9), st.sets(st.integers(0, 24)))
def test_rows_to_label_are_distinct_and_as_many_as_requested(
    predictions: np.ndarray, count: int, seed: int, answered: set[int]
) -> None:
    labelled_rows = [row for row in answered if row < predictions.shape[1]]
    places, chance = selection.sample_rows_to_label(predictions, count, seed, labelled_rows)
    differ = set(np.flatnonzero((predictions != predictions[0]).any(axis=0)).tolist()) - set(labelled_rows)
    assert len(places) == min(count, len(differ)) and set(places.tolist()) <= differ
    assert len(set(places.tolist())) == len(places) and chance.sum() == pytest.approx(len(places))
    # The order of the candidates after ERM does not matter.
    turned = np.concatenate([predictions[:1], predictions[:0:-1]])
    np.testing.assert_allclose(selection.sample_rows_to_label(turned, count, seed, labelled_rows)[1], chance)


# -- who gains


def draw_pool(
    seed: int, rows: int = 400, disagreement_shares: tuple[float, ...] = (0.1, 0.3, 0.02)
) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    predictions = draw_predictions(seed, rows, disagreement_shares)
    label = np.where(generator.random(rows) < 0.6, predictions[0], predictions[1])
    return predictions, np.where(generator.random(rows) < 0.1, generator.integers(3, size=rows), label)


def reference_gains(predictions: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Share of rows on which a candidate is right minus that of ERM, (C,)."""
    is_right = predictions == label
    return np.array([np.mean(candidate.astype(float) - is_right[0]) for candidate in is_right])


@pytest.fixture
def no_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains by the labels alone, since what is believed before counts as no row."""
    monkeypatch.setattr(averaging, "SHRINKAGE_ROWS", 1e-9)


def test_gains_of_a_fully_labelled_pool_are_exact(no_prior: None) -> None:
    predictions, label = draw_pool(0)
    everything = np.arange(predictions.shape[1])
    gain, error = averaging.estimate_gain_posterior(predictions, everything, label, np.ones(len(label)))
    np.testing.assert_allclose(gain, reference_gains(predictions, label), atol=1e-8)
    assert gain[0] == 0 == error[0]


def test_gains_from_sampled_rows_are_unbiased_with_valid_errors(no_prior: None) -> None:
    predictions, label = draw_pool(1, rows=1500)
    expected = reference_gains(predictions, label)
    estimated_gains = []
    errors = []
    for seed in range(400):
        places, chance = selection.sample_rows_to_label(predictions, 60, seed)
        gain, error = averaging.estimate_gain_posterior(predictions, places, label[places], 1 / chance[places])
        estimated_gains.append(gain)
        errors.append(error)
    bias = np.mean(estimated_gains, axis=0) - expected
    spread = np.std(estimated_gains, axis=0)
    assert (np.abs(bias) <= 4 * spread / math.sqrt(400) + 2e-4).all(), (bias, spread)
    assert (np.mean(errors, axis=0)[1:3] > 0.7 * spread[1:3]).all()


def ask_in_rounds(
    predictions: np.ndarray, counts: Sequence[int], seed: int, labelled: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Rows that are known, the round of each row, and the chances of each round, as an audit asks."""
    turn = np.full(predictions.shape[1], -1)
    chances = {}
    turn[list(labelled)] = 0
    for number, count in enumerate(counts, 1):
        places, chances[number] = selection.sample_rows_to_label(
            predictions, count, seed + number, np.flatnonzero(turn >= 0).tolist()
        )
        turn[places] = number
    return turn >= 0, turn, chances


@pytest.mark.parametrize("counts", [(120,), (10,) * 12, (3,) * 40, (50, 1, 90)])
@pytest.mark.parametrize("labelled", [0, 30])
def test_gains_are_exact_once_all_disputed_rows_are_answered(
    counts: tuple[int, ...], labelled: int, no_prior: None
) -> None:
    predictions, label = draw_pool(4, rows=300)
    label = np.where(np.arange(300) % 4 == 0, label, predictions[1])  # the best to choose
    first = np.random.default_rng(5).choice(300, labelled, replace=False).tolist()
    assert (predictions != predictions[0]).any(axis=0).sum() <= 120
    is_labelled, turn, chances = ask_in_rounds(predictions, counts, 6, first)
    weight = sampling.compute_answer_weights(predictions, is_labelled, turn, chances)
    places = np.flatnonzero(is_labelled)
    gain, _ = averaging.estimate_gain_posterior(predictions, places, label[places], weight[places])
    np.testing.assert_allclose(gain, reference_gains(predictions, label), atol=1e-8)
    average = averaging.average_candidates(predictions, None, places, label[places], weight[places])
    assert average.is_advised and average.weight[1] == 1 and average.gain == pytest.approx(gain[1])


@pytest.mark.parametrize("count", [1, 7])
def test_gains_are_exact_if_the_last_round_might_have_left_out_a_disputed_row(count: int, no_prior: None) -> None:
    predictions, label = draw_pool(4, rows=100)
    is_disputed = (predictions != predictions[0]).any(axis=0)
    rounds = np.full(100, -1)
    chances: dict[int, np.ndarray] = {}
    while (rounds[is_disputed] < 0).any():
        number = len(chances) + 1
        labelled = np.flatnonzero(rounds >= 0).tolist()
        places, chances[number] = selection.sample_rows_to_label(predictions, count, number, labelled, 0.5)
        rounds[places] = number
    weight = sampling.compute_answer_weights(predictions, rounds >= 0, rounds, chances)
    places = np.flatnonzero(rounds >= 0)
    gain, _ = averaging.estimate_gain_posterior(predictions, places, label[places], weight[places])
    np.testing.assert_allclose(gain, reference_gains(predictions, label), atol=1e-8)


def enumerate_samples(chance: np.ndarray, size: int, pool: Sequence[int]) -> list[tuple[float, tuple[int, ...]]]:
    """All samples of so many rows, and how likely they are if each row comes by itself, given their number."""
    odds = [
        (math.prod(chance[row] / (1 - chance[row]) for row in sample), sample) for sample in combinations(pool, size)
    ]
    total = sum(weight for weight, _ in odds)
    return [(weight / total, sample) for weight, sample in odds]


def test_answer_weights_of_two_rounds_are_unbiased_over_all_samples() -> None:
    """Two rounds of two of seven rows: every pair of samples by its probability, for any dependence of the second."""
    generator = np.random.default_rng(0)
    predictions = draw_predictions(2, 7, (0.9, 0.8, 0.9), labels=2)
    value = generator.normal(size=7)  # what is to be summed
    odds = np.array([0.2, 0.35, 0.3, 0.25, 0.4, 0.2, 0.3])

    def inclusion(pairs: list[tuple[float, tuple[int, ...]]]) -> np.ndarray:
        return np.array([sum(weight for weight, first_sample in pairs if row in first_sample) for row in range(7)])

    total = 0.0
    mean = 0.0
    plain = 0.0
    first = enumerate_samples(odds, 2, range(7))
    for first_probability, first_sample in first:
        remaining_rows = [row for row in range(7) if row not in first_sample]
        second = enumerate_samples(odds, 2, remaining_rows)
        chances = {1: inclusion(first), 2: inclusion(second)}
        for second_probability, second_sample in second:
            turn = np.full(7, -1)
            turn[list(first_sample)] = 1
            turn[list(second_sample)] = 2
            weight = sampling.compute_answer_weights(predictions, turn >= 0, turn, chances)
            total += first_probability * second_probability
            mean += first_probability * second_probability * float(weight @ value)
            plain += (
                first_probability * second_probability * float((value / (chances[1] + chances[2]))[turn >= 0].sum())
            )
    assert total == pytest.approx(1)
    assert abs(mean - value.sum()) < 0.03 * np.abs(value).sum() < abs(plain - value.sum())


def test_gains_from_several_rounds_are_unbiased_and_more_precise_than_one_round(no_prior: None) -> None:
    predictions, label = draw_pool(1, rows=400)
    expected = reference_gains(predictions, label)
    generator = np.random.default_rng(3)
    estimated_gains: dict[str, list[np.ndarray]] = {"all": [], "a part": [], "one round": []}
    for seed in range(300):
        first = generator.choice(400, 20, replace=False).tolist()
        is_labelled, turn, chances = ask_in_rounds(predictions, (15, 15, 15), 10 * seed, first)
        part = is_labelled & ((turn != 2) | (generator.random(400) < 0.5))
        for name, is_used in (("all", is_labelled), ("a part", part), ("one round", is_labelled & (turn == 1))):
            weight = sampling.compute_answer_weights(predictions, is_used, turn, chances)
            places = np.flatnonzero(is_used)
            gain, _ = averaging.estimate_gain_posterior(predictions, places, label[places], weight[places])
            estimated_gains[name].append(gain)
    spread = {name: np.std(gains, axis=0) for name, gains in estimated_gains.items()}
    for name in ("all", "a part"):
        bias = np.mean(estimated_gains[name], axis=0) - expected
        assert (np.abs(bias) <= 4 * spread[name] / math.sqrt(300) + 3e-3).all(), (name, bias)
    assert (spread["all"][1:] < 0.8 * spread["one round"][1:]).all()
