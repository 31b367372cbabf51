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

from logit_correction.shortcuts import averaging, selection


def predictions_of(seed: int, rows: int, apart: tuple[float, ...], labels: int = 3) -> np.ndarray:
    """ERM, and candidates that each say something else in such shares of the rows."""
    generator = np.random.default_rng(seed)
    first = generator.integers(labels, size=rows)
    others = [
        np.where(generator.random(rows) < share, (first + generator.integers(1, labels, rows)) % labels, first)
        for share in apart
    ]
    return np.stack([first, *others])


def distances_of(seed: int, rows: int, shares: tuple[float, ...]) -> np.ndarray:
    """How far candidates are from the first: 1 where they contradict it."""
    predictions = predictions_of(seed, rows, shares)
    return (predictions != predictions[0]).astype(float)


def shapes() -> st.SearchStrategy[np.ndarray]:
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


def test_rows_like_those_of_training_are_called_changed_one_time_in_twenty() -> None:
    found = [
        selection.compute_shift_p_value(whole[:, :70], whole[:, 70:], seed) <= selection.SHIFT_LEVEL
        for seed in range(100)
        for whole in [distances_of(seed, 190, (0.05, 0.1, 0.2, 0.4))]
    ]
    # A level of 5 % rejects more than 10 times in 100 draws one time in 90, and never with a hundredth of the chance.
    assert binomtest(sum(found), 100, selection.SHIFT_LEVEL).pvalue > 0.01


def test_a_change_is_found_however_few_candidates_see_it() -> None:
    for seed in range(20):
        usual = distances_of(seed, 120, (0.05, 0.05, 0.3, 0.0))
        new = distances_of(seed + 1000, 80, (0.05, 0.35, 0.3, 0.0))
        assert selection.compute_shift_p_value(new, usual, seed) <= selection.SHIFT_LEVEL


# -- whom to ask


@pytest.mark.parametrize(
    ("apart", "count", "answered"),
    [
        ((0.3, 0.1, 0.05), 8, ()),
        ((0.3, 0.1, 0.05), 8, tuple(range(0, 60, 3))),
        ((0.02, 0.9, 0.02), 20, ()),  # a few rows of many contradictions
        ((0.04, 0.04), 30, ()),  # fewer rows differ than are asked
    ],
)
def test_rows_are_drawn_with_the_chances_that_are_told(
    apart: tuple[float, ...], count: int, answered: tuple[int, ...]
) -> None:
    predictions = predictions_of(3, 60, apart)
    differ = (predictions != predictions[0]).any(axis=0)
    differ[list(answered)] = False
    wanted, drawn, times = min(count, int(differ.sum())), np.zeros(60), 1500
    for seed in range(times):
        places, chance = selection.sample_rows_to_label(predictions, count, seed, answered)
        assert len(places) == wanted == len(set(places.tolist()))
        drawn[places] += 1
    assert chance.sum() == pytest.approx(wanted) and wanted > 0 and chance.max() <= 1 + 1e-9
    assert (drawn[~differ] == 0).all() and (chance[~differ] == 0).all() and (chance[differ] > 0).all()
    error = np.sqrt(chance * (1 - chance) / times)
    assert (np.abs(drawn / times - chance) <= 4.5 * error + 1e-9).all()
    # In proportion to the root of how many contradict ERM, but for those that are certain.
    uncertain = differ & (chance < 1 - 1e-9)
    parts = chance[uncertain] / np.sqrt((predictions != predictions[0]).mean(axis=0)[uncertain])
    np.testing.assert_allclose(parts, parts[:1].repeat(len(parts)))


@settings(max_examples=60, deadline=None)
@given(shapes(), st.integers(1, 30), st.integers(0, 9), st.sets(st.integers(0, 24)))
def test_any_draw_keeps_its_count_and_asks_nobody_twice(
    predictions: np.ndarray, count: int, seed: int, answered: set[int]
) -> None:
    known = [row for row in answered if row < predictions.shape[1]]
    places, chance = selection.sample_rows_to_label(predictions, count, seed, known)
    differ = set(np.flatnonzero((predictions != predictions[0]).any(axis=0)).tolist()) - set(known)
    assert len(places) == min(count, len(differ)) and set(places.tolist()) <= differ
    assert len(set(places.tolist())) == len(places) and chance.sum() == pytest.approx(len(places))
    # The order of the candidates beside ERM says nothing of a row.
    turned = np.concatenate([predictions[:1], predictions[:0:-1]])
    np.testing.assert_allclose(selection.sample_rows_to_label(turned, count, seed, known)[1], chance)


# -- who gains


def pool(seed: int, rows: int = 400, apart: tuple[float, ...] = (0.1, 0.3, 0.02)) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    predictions = predictions_of(seed, rows, apart)
    label = np.where(generator.random(rows) < 0.6, predictions[0], predictions[1])
    return predictions, np.where(generator.random(rows) < 0.1, generator.integers(3, size=rows), label)


def brute(predictions: np.ndarray, label: np.ndarray) -> np.ndarray:
    return np.array([np.mean([(a == y) - float(e == y) for a, e, y in zip(one, predictions[0], label, strict=True)])
                     for one in predictions])  # fmt: skip


@pytest.fixture
def no_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains by the labels alone, since what is believed before counts as no row."""
    monkeypatch.setattr(averaging, "SHRINKAGE_ROWS", 1e-9)


def test_gains_of_a_fully_labelled_pool_are_the_gains(no_prior: None) -> None:
    predictions, label = pool(0)
    everything = np.arange(predictions.shape[1])
    gain, error = averaging.estimate_gain_posterior(predictions, everything, label, np.ones(len(label)))
    np.testing.assert_allclose(gain, brute(predictions, label), atol=1e-8)
    assert gain[0] == 0 == error[0]


def test_gains_by_rows_that_were_drawn_are_right_in_the_mean_and_within_their_errors(no_prior: None) -> None:
    predictions, label = pool(1, rows=1500)
    wanted, found, errors = brute(predictions, label), [], []
    for seed in range(400):
        places, chance = selection.sample_rows_to_label(predictions, 60, seed)
        gain, error = averaging.estimate_gain_posterior(predictions, places, label[places], 1 / chance[places])
        found.append(gain)
        errors.append(error)
    bias = np.mean(found, axis=0) - wanted
    spread = np.std(found, axis=0)
    assert (np.abs(bias) <= 4 * spread / math.sqrt(400) + 2e-4).all(), (bias, spread)
    assert (np.mean(errors, axis=0)[1:3] > 0.7 * spread[1:3]).all()


def asked_in_rounds(
    predictions: np.ndarray, counts: Sequence[int], seed: int, labelled: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Rows that are known, the round of each row, and the chances of each round, as an audit asks."""
    turn, chances = np.full(predictions.shape[1], -1), {}
    turn[list(labelled)] = 0
    for number, count in enumerate(counts, 1):
        places, chances[number] = selection.sample_rows_to_label(
            predictions, count, seed + number, np.flatnonzero(turn >= 0).tolist()
        )
        turn[places] = number
    return turn >= 0, turn, chances


@pytest.mark.parametrize("counts", [(120,), (10,) * 12, (3,) * 40, (50, 1, 90)])
@pytest.mark.parametrize("labelled", [0, 30])
def test_gains_are_exact_once_all_is_answered_that_tells(
    counts: tuple[int, ...], labelled: int, no_prior: None
) -> None:
    predictions, label = pool(4, rows=300)
    label = np.where(np.arange(300) % 4 == 0, label, predictions[1])  # the best to choose
    first = np.random.default_rng(5).choice(300, labelled, replace=False).tolist()
    assert (predictions != predictions[0]).any(axis=0).sum() <= 120
    known, turn, chances = asked_in_rounds(predictions, counts, 6, first)
    weight = selection.compute_answer_weights(predictions, known, turn, chances)
    places = np.flatnonzero(known)
    gain, _ = averaging.estimate_gain_posterior(predictions, places, label[places], weight[places])
    np.testing.assert_allclose(gain, brute(predictions, label), atol=1e-8)
    average = averaging.average_candidates(predictions, None, places, label[places], weight[places])
    assert average.is_advised and average.weight[1] == 1 and average.gain == pytest.approx(gain[1])


def samples(chance: np.ndarray, size: int, pool: Sequence[int]) -> list[tuple[float, tuple[int, ...]]]:
    """All samples of so many rows, and how likely they are if each row comes by itself, given their number."""
    odds = [(math.prod(chance[row] / (1 - chance[row]) for row in one), one) for one in combinations(pool, size)]
    total = sum(weight for weight, _ in odds)
    return [(weight / total, one) for weight, one in odds]


def test_rounds_are_right_in_the_mean_over_all_samples_that_there_are() -> None:
    """Two rounds of two of seven rows: every pair of samples by its probability, whatever the second hangs on."""
    generator = np.random.default_rng(0)
    predictions = predictions_of(2, 7, (0.9, 0.8, 0.9), labels=2)
    value = generator.normal(size=7)  # what is to be summed
    odds = np.array([0.2, 0.35, 0.3, 0.25, 0.4, 0.2, 0.3])

    def inclusion(pairs: list[tuple[float, tuple[int, ...]]]) -> np.ndarray:
        return np.array([sum(weight for weight, one in pairs if row in one) for row in range(7)])

    total, mean, plain = 0.0, 0.0, 0.0
    first = samples(odds, 2, range(7))
    for likely, one in first:
        rest = [row for row in range(7) if row not in one]
        second = samples(odds, 2, rest)
        chances = {1: inclusion(first), 2: inclusion(second)}
        for then, other in second:
            turn = np.full(7, -1)
            turn[list(one)], turn[list(other)] = 1, 2
            weight = selection.compute_answer_weights(predictions, turn >= 0, turn, chances)
            total += likely * then
            mean += likely * then * float(weight @ value)
            plain += likely * then * float((value / (chances[1] + chances[2]))[turn >= 0].sum())
    assert total == pytest.approx(1)
    assert abs(mean - value.sum()) < 0.03 * np.abs(value).sum() < abs(plain - value.sum())


def test_rounds_together_are_right_in_the_mean_and_nearer_than_one_of_them(no_prior: None) -> None:
    predictions, label = pool(1, rows=400)
    wanted = brute(predictions, label)
    generator = np.random.default_rng(3)
    found: dict[str, list[np.ndarray]] = {"all": [], "a part": [], "one round": []}
    for seed in range(300):
        first = generator.choice(400, 20, replace=False).tolist()
        known, turn, chances = asked_in_rounds(predictions, (15, 15, 15), 10 * seed, first)
        part = known & ((turn != 2) | (generator.random(400) < 0.5))
        for name, which in (("all", known), ("a part", part), ("one round", known & (turn == 1))):
            weight = selection.compute_answer_weights(predictions, which, turn, chances)
            places = np.flatnonzero(which)
            gain, _ = averaging.estimate_gain_posterior(predictions, places, label[places], weight[places])
            found[name].append(gain)
    spread = {name: np.std(gains, axis=0) for name, gains in found.items()}
    for name in ("all", "a part"):
        bias = np.mean(found[name], axis=0) - wanted
        assert (np.abs(bias) <= 4 * spread[name] / math.sqrt(300) + 3e-3).all(), (name, bias)
    assert (spread["all"][1:] < 0.8 * spread["one round"][1:]).all()
