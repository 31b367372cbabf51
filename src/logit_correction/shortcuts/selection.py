"""Active model selection on unlabelled target data: has the distribution shifted, which rows to label, what to train.

A model will be used on *new rows*, whose distribution may differ from that of the training data, and whose labels are
unknown. Several candidates were trained on the training data: ERM, and corrections of a possible shortcut. This module

1. tests for a distribution shift by how far the candidates are from ERM, in a permutation test
   (``compute_shift_p_value``);
2. samples rows to label with probability proportional to a size (PPS sampling; Särndal, Swensson and Wretman, *Model
   Assisted Survey Sampling*, 1992) that is large where candidates contradict ERM (``sample_rows_to_label``);
3. weighs the answers of several rounds by inverse inclusion probabilities (Horvitz and Thompson 1952, Des Raj 1956;
   ``sampling.compute_answer_weights``);
4. advises the average of the candidates, weighted by the probability that each is best, or one candidate, or ERM, see
   ``averaging`` (``select_from_answers``).

In active testing (Kossen et al. 2021) and active model selection the same weights estimate the risk of given models.
Predictions are (C, M) label indices of C candidates, ERM first, on M rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    test exchanges rows between the two samples. It is exact for any candidates, if rows are independent, and needs no
    labels. Up to ``SHIFT_LEVEL``, something that held in the training data does not hold in the new rows.

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
    weight = rows.answer_weights[positions]
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
