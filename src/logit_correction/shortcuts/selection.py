"""Active model selection on unlabelled target data: has the distribution shifted, which rows to label, what to train.

A model will be used on *new rows*, whose distribution may differ from that of the training data, and whose labels are
unknown. Several candidates were trained on the training data: ERM, and corrections of a possible shortcut. This module

1. tests for a distribution shift by how far the candidates are from ERM, in a permutation test
   (``compute_shift_p_value``);
2. samples rows to label with probability proportional to a size (PPS sampling; Särndal, Swensson and Wretman, *Model
   Assisted Survey Sampling*, 1992) that is large where candidates contradict ERM (``sample_rows_to_label``);
3. weighs the answers of several rounds by inverse inclusion probabilities (Horvitz and Thompson 1952, Des Raj 1956;
   ``compute_answer_weights``);
4. advises the average of the candidates, weighted by the probability that each is best, or one candidate, or ERM, see
   ``averaging`` (``select_from_answers``).

In active testing (Kossen et al. 2021) and active model selection the same weights estimate the risk of given models.
Predictions are (C, M) label indices of C candidates, ERM first, on M rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from logit_correction.finding import BASELINE
from logit_correction.shortcuts.averaging import (
    INTERVAL_STANDARD_ERRORS,
    average_candidates,
    compute_prior_gain,
    count_labels_needed,
)
from logit_correction.shortcuts.new_rows_table import NewRows
from logit_correction.shortcuts.sampling import (
    compute_inclusion_probabilities,
    draw_systematic_sample,
    estimate_accuracy,
)
from logit_correction.shortcuts.summaries import AverageResult, Selection
from logit_correction.types import Array

#: Significance level of the test for a shift: the chance of a false report.
SHIFT_LEVEL = 0.05

#: Random exchanges of rows in the permutation test; the smallest p-value is one over this, plus one.
NUM_PERMUTATIONS = 400


# -- distribution shift


def compute_shift_p_value(new_distances: Array, in_distribution_distances: Array, seed: int = 0) -> float:
    """Return the p-value of a permutation test for a shift of the distribution.

    The statistic is the largest increase, over all candidates and in standard errors, of the mean distance to ERM. The
    test exchanges rows between the two samples. It is exact for any candidates, and needs no labels. Up to
    ``SHIFT_LEVEL``, something that held in the training data does not hold in the new rows.

    Args:
        new_distances: (C, M) distances of the candidates to ERM on new rows, see ``compute_total_variation_to_erm``.
        in_distribution_distances: (C, U) the same on held-out rows like those of training.
        seed: Of the permutations.
    """
    distances = np.concatenate([new_distances, in_distribution_distances], axis=1).T.astype(np.float64)
    num_new = new_distances.shape[1]
    num_others = len(distances) - num_new
    total = distances.sum(axis=0)
    deviation = distances.std(axis=0)
    error = np.where(deviation > 1e-6, deviation * math.sqrt(1 / num_new + 1 / num_others), np.inf)

    def compute_largest_increase(is_new: Array) -> float:
        sums = is_new @ distances
        return float(((sums / num_new - (total - sums) / num_others) / error).max())

    is_new = (np.arange(len(distances)) < num_new).astype(np.float64)
    observed = compute_largest_increase(is_new)
    generator = np.random.default_rng(seed)
    permuted = [compute_largest_increase(generator.permutation(is_new)) for _ in range(NUM_PERMUTATIONS)]
    return (1 + sum(increase >= observed for increase in permuted)) / (1 + NUM_PERMUTATIONS)


# -- rows to label


def sample_rows_to_label(
    predictions: Array, sample_size: int, seed: int, labelled: Sequence[int] = (), uniform_share: float = 0.0
) -> tuple[Array, Array]:
    """Sample the rows whose labels say most about which candidate is best.

    Inclusion probabilities are proportional to the square root of the share of candidates that contradict ERM on a
    row: its labels then have the least variance for a given number, if candidates are right about equally often.
    Sampling is systematic along rows sorted by their pattern of predictions, so each pattern has its share.

    Args:
        predictions: (C, M) of the candidates.
        sample_size: Number of rows; fewer if fewer can decide anything.
        seed: Of the sample.
        labelled: Positions of rows that are not sampled.
        uniform_share: Share of the rows that is sampled uniformly from all, see ``compute_inclusion_probabilities``.

    Returns:
        Positions (n,) of the sampled rows in random order, and the inclusion probability (M,) of each row.
    """
    probability = compute_inclusion_probabilities(predictions, sample_size, labelled, uniform_share)
    _, pattern = np.unique(predictions, axis=1, return_inverse=True)
    return draw_systematic_sample(probability, pattern.ravel(), seed), probability


def compute_answer_weights(
    predictions: Array, is_known: Array, rounds: Array, inclusion_probability: Mapping[int, Array]
) -> Array:
    """Return the weight (M,) of each labelled row: the number of rows that it stands for; 0 of other rows.

    Each round estimates sums over all rows: its own answers count in inverse proportion to their inclusion
    probability, those of earlier rounds as they are (the sequential estimator of Des Raj). It is unbiased after any
    earlier rounds. Rounds are averaged by their precision, which assumes that all candidates are right equally often
    where they contradict ERM; so a round that leaves nothing open counts alone. In a round that is answered in part,
    each answer stands for proportionally more rows. Once all rows that candidates dispute are labelled, each of them
    stands for itself.

    Args:
        predictions: (C, M) of the candidates.
        is_known: (M,) boolean: rows whose label is known.
        rounds: (M,) the round in which a row was sampled: 0 if it came with a label, -1 if it was not.
        inclusion_probability: Round -> the probability (M,) of each row, 0 of those sampled before.
    """
    num_rows = len(rounds)
    share = (predictions != predictions[0]).mean(axis=0)
    weight_before = np.zeros(num_rows)  # of the answers of earlier rounds
    missed = np.ones(num_rows)  # probability of a row to be in no unanswered round
    variance_before = 0.0  # that open rows of earlier rounds leave
    weights = []
    precisions = []
    for number in sorted({0, *inclusion_probability}):
        members = rounds == number
        answered = members & is_known
        probability = np.full(num_rows, members.mean()) if number == 0 else inclusion_probability[number]
        if not answered.any():
            if number:
                missed = missed * (1 - probability)
            continue
        response = answered.sum() / members.sum()
        probability = probability * missed * response
        inverse = np.divide(1, probability, out=np.zeros(num_rows), where=probability > 0)
        weights.append(weight_before + np.where(answered, inverse, 0))
        pool = ((rounds < 0) | (rounds >= number)) & (probability > 0)
        variance = variance_before + float((share[pool] * (inverse[pool] - 1)).sum())
        precisions.append(1 / max(1e-12, variance))
        weight_before = np.where(answered, 1 / response, weight_before)
        variance_before += float(share[answered].sum()) * (1 / response - 1) / response
    weight = np.average(weights, axis=0, weights=precisions) if weights else weight_before
    is_disputed = share > 0
    return np.where(is_disputed, 1.0, weight) if is_known[is_disputed].all() else weight


# -- what to train


def select_from_answers(rows: NewRows, selection: Selection) -> Selection:
    """Return what all answers select, with the gains of all candidates and of what is advised.

    Without answers nothing is selected if the distribution shifted and answers could decide, else ERM.

    Args:
        rows: With all answers.
        selection: Of the same rows, by earlier answers or none.
    """
    is_asked = rows.rounds >= 1
    is_known = rows.label >= 0
    is_disputed = (rows.predictions != rows.predictions[0]).any(axis=0)
    num_open = int((is_disputed & ~is_known).sum())
    selection = replace(
        selection,
        answers=int(is_known.sum()),
        num_asked=int(is_asked.sum()),
        sheet_answers=int((is_asked & is_known).sum()),
        chosen=None if selection.changed and num_open else BASELINE,
        num_needed=None if num_open else 0,
        gain=None,
        gain_low=None,
        gain_high=None,
        average=None,
        single=selection.single or rows.logits is None,
        learns_from_answers=rows.inputs is not None and not selection.single,
    )
    if not selection.answers:
        return selection
    positions = np.flatnonzero(is_known)
    label = rows.label[positions]
    weight = compute_answer_weights(rows.predictions, is_known, rows.rounds, rows.inclusion_probability)[positions]
    logits = None if selection.single else rows.logits
    prior_gain = None if selection.changed else _compute_prior_gain(selection)
    average = average_candidates(rows.predictions, logits, positions, label, weight, prior_gain)
    stratum = is_disputed.astype(np.int64)
    stratum_sizes = np.bincount(stratum, minlength=2)
    accuracy, erm_accuracy = (
        estimate_accuracy((predicted[positions] == label) * 1.0, weight, stratum[positions], stratum_sizes)
        for predicted in (average.predictions, rows.predictions[0])
    )
    if accuracy is not None and erm_accuracy is not None:  # which differ by the gain as it is shown, shrunk
        shrunk = (erm_accuracy.accuracy or 0.0) + average.gain
        accuracy = replace(accuracy, accuracy=min(max(shrunk, accuracy.low), accuracy.high))
    likeliest = 1 + int(average.weight[1:].argmax())
    interval = _build_gain_interval(average.gain, average.error)
    num_answers = (rows.predictions != rows.predictions[0])[:, positions].sum(axis=1)
    return replace(
        selection,
        candidates=tuple(
            replace(
                candidate,
                num_answers=int(num_answers[number]),
                probability_best=float(average.probability_best[number]),
                weight=float(average.weight[number]),
                **_build_gain_interval(average.candidate_gain[number], average.candidate_error[number]),
            )
            for number, candidate in enumerate(selection.candidates)
        ),
        chosen=selection.candidates[likeliest].name if average.is_advised else BASELINE,
        num_needed=count_labels_needed(average.gain, average.error, selection.answers, num_open),
        average=AverageResult(is_unsure=average.is_unsure, accuracy=accuracy, erm_accuracy=erm_accuracy, **interval),
        **(interval if average.is_advised else {}),
    )


def _compute_prior_gain(selection: Selection) -> Array:
    accuracy = np.array([result.valid_accuracy for result in selection.candidates])
    disagreement = np.array([result.differs_usual for result in selection.candidates])
    return compute_prior_gain(accuracy, disagreement, selection.usual_rows)


def _build_gain_interval(gain: float, error: float) -> dict[str, Any]:
    """Return a gain and its 90 % interval, as the fields of summaries name them."""
    half_width = INTERVAL_STANDARD_ERRORS * error
    return {"gain": float(gain), "gain_low": float(gain - half_width), "gain_high": float(gain + half_width)}
