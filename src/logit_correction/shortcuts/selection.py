"""Active model selection on unlabelled target data: has the distribution shifted, which rows to label, what to train.

A model will be used on *new rows*, whose distribution may differ from that of the training data, and whose labels are
unknown. Several candidates were trained on the training data: ERM, and corrections of a possible shortcut. This module

1. tests for a distribution shift by how far the candidates are from ERM, in a permutation test
   (``compute_shift_p_value``);
2. samples rows to label with probability proportional to a size (PPS sampling; Särndal, Swensson and Wretman, *Model
   Assisted Survey Sampling*, 1992) that is large where candidates contradict ERM (``sample_rows_to_label``);
3. estimates the gain of each candidate over ERM by inverse-probability weights (Horvitz and Thompson 1952), over
   several rounds of labels (Des Raj 1956), shrunk towards a small loss (``compute_answer_weights``,
   ``estimate_gains``);
4. advises the average of the candidates, weighted by the probability that each is best, see ``averaging``; or one
   candidate if its gain is clear, and corrects the gain for the selection (``select_from_answers``).

In active testing (Kossen et al. 2021) and active model selection the same weights estimate the risk of given models.
Predictions are (C, M) label indices of C candidates, ERM first, on M rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logit_correction.evaluation.predictions import Array
from logit_correction.finding import BASELINE
from logit_correction.shortcuts.averaging import (
    INTERVAL_STANDARD_ERRORS,
    SHRINKAGE_GAIN,
    SHRINKAGE_ROWS,
    advise_average,
    average_logits,
    compute_labelled_gain_moments,
    compute_prediction_correlation,
    compute_probability_best,
    estimate_gain_posterior,
    select_members,
)
from logit_correction.shortcuts.new_rows_table import NewRows
from logit_correction.shortcuts.sampling import (
    AccuracyEstimate,
    compute_inclusion_probabilities,
    draw_systematic_sample,
    estimate_accuracy,
)
from logit_correction.shortcuts.summaries import AverageResult, Interval, Selection

#: Significance level of the test for a shift: the chance of a false report.
SHIFT_LEVEL = 0.05

#: Random exchanges of rows in the permutation test; the smallest p-value is one over this, plus one.
NUM_PERMUTATIONS = 400

#: Standard errors by which a gain must exceed 0 to be selected if the distribution shifted. It did, so ERM has no lead.
SELECTION_MARGIN = 0.5

#: The same without a shift: then ERM is likely to be best, and a candidate needs more evidence.
SELECTION_MARGIN_WITHOUT_SHIFT = 1.5

#: Bootstrap samples of the answers that correct the selected candidate's gain for the selection.
NUM_BOOTSTRAP_SAMPLES = 500

#: Gain, from 0 to 1, below which ``estimate_num_further_labels`` counts no closer: smaller ones are not worth labels.
MIN_RELEVANT_GAIN = 0.005

#: Most further labels that are recommended at a time.
MAX_LABELS_NEEDED = 200


# -- distribution shift


def compute_disagreement(predictions: Array) -> Array:
    """Return the share of rows (C,) on which each candidate and ERM predict different labels.

    >>> compute_disagreement(np.array([[0, 0, 1, 1], [0, 0, 1, 0]]))
    array([0.  , 0.25])
    """
    return np.asarray((predictions != predictions[0]).mean(axis=1))


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
    where they contradict ERM; so a round that leaves nothing open counts alone, and each row stands for itself. In a
    round that is answered in part, each answer stands for proportionally more rows.

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
    return np.average(weights, axis=0, weights=precisions) if weights else weight_before


# -- gains


@dataclass(frozen=True)
class Gains:
    """Estimated gain in accuracy of each candidate over ERM on the new rows, as a share of all of them.

    Attributes:
        gain: (C,) shrunk towards the prior where few answers decide; exact where all rows with a disagreement are
            labelled.
        shrunk_gain: (C,) that of rows like these, by which candidates are compared; shrunk however many are labelled.
        standard_error: (C,) of ``shrunk_gain``.
        num_answers: (C,) labelled rows on which the candidate and ERM disagree.
        unlabelled_share: (C,) effective share of the rows with a disagreement that no answer covers, from 0 to 1.
    """

    gain: Array
    shrunk_gain: Array
    standard_error: Array
    num_answers: Array
    unlabelled_share: Array


def estimate_gains(predictions: Array, positions: Array, label: Array, weight: Array) -> Gains:
    """Estimate the gains of all candidates from labelled rows.

    A candidate gains nothing where it agrees with ERM, and the share of rows where it does not is known without labels.
    So labels only estimate the mean gain on those rows, which is in [-1, 1].

    Args:
        predictions: (C, M) of the candidates.
        positions: (n,) of the labelled rows.
        label: (n,) their label indices.
        weight: (n,) the number of rows that each stands for, see ``compute_answer_weights``.
    """
    num_differing = (predictions != predictions[0]).sum(axis=1)
    share_differing = compute_disagreement(predictions)
    predicted = predictions[:, positions]
    effective_rows, mean, _ = compute_labelled_gain_moments(predictions, positions, label, weight)
    unlabelled_share = np.where(num_differing > 0, 1 - effective_rows / num_differing.clip(1), 0).clip(0)
    prior_rows = unlabelled_share * SHRINKAGE_ROWS
    gain = (effective_rows * mean + prior_rows * SHRINKAGE_GAIN) / (effective_rows + prior_rows).clip(1e-12)
    gain[0] = 0
    shrunk_gain, standard_error = estimate_gain_posterior(predictions, positions, label, weight)
    return Gains(
        gain=share_differing * gain,
        shrunk_gain=shrunk_gain,
        standard_error=standard_error,
        num_answers=(predicted != predicted[0]).sum(axis=1),
        unlabelled_share=unlabelled_share,
    )


def select_candidate(gains: Gains, shifted: bool) -> int:
    """Return the index of the candidate of the largest gain; 0, ERM, if that does not exceed the margin of errors.

    Args:
        gains: Of all candidates.
        shifted: Whether the shift is significant; without one, a candidate must be further ahead of ERM.
    """
    best = int(gains.shrunk_gain.argmax())
    margin = SELECTION_MARGIN if shifted else SELECTION_MARGIN_WITHOUT_SHIFT
    return best if gains.shrunk_gain[best] > margin * gains.standard_error[best] else 0


def correct_gain_for_selection(
    predictions: Array, positions: Array, label: Array, weight: Array, shifted: bool, seed: int
) -> float:
    """Return the gain of the selected candidate less its optimism: the same answers chose it and estimate it.

    The selection is repeated on bootstrap samples of the answers. The mean fall of the gain of what is selected, from
    the sample to the answers themselves, is subtracted. If all rows with a disagreement are labelled, optimism is
    0.

    Args:
        predictions: (C, M) of the candidates.
        positions: (n,) of the labelled rows.
        label: (n,) their label indices.
        weight: (n,) the number of rows that each stands for.
        shifted: Whether the shift is significant.
        seed: Of the bootstrap samples.
    """
    gains = estimate_gains(predictions, positions, label, weight)
    selected = select_candidate(gains, shifted)
    if gains.unlabelled_share[selected] < 1e-9:
        return float(gains.gain[selected])
    generator = np.random.default_rng(seed)
    falls = []
    for _ in range(NUM_BOOTSTRAP_SAMPLES):
        sample = generator.integers(len(positions), size=len(positions))
        sample_gains = estimate_gains(predictions, positions[sample], label[sample], weight[sample])
        candidate = select_candidate(sample_gains, shifted)
        falls.append(sample_gains.shrunk_gain[candidate] - gains.shrunk_gain[candidate])
    return float(gains.shrunk_gain[selected] - max(0.0, float(np.mean(falls))))


def estimate_num_further_labels(gains: Gains, selected_index: int, num_labelled: int) -> int:
    """Return how many further labels should decide whether the best candidate beats ERM; 0 if that is decided.

    The standard error falls with the square root of the number of labels.

    Args:
        gains: Of all candidates.
        selected_index: Index of the selected candidate.
        num_labelled: Labels that the gains are estimated from.
    """
    best = selected_index or 1 + int(gains.shrunk_gain[1:].argmax())
    gain = abs(float(gains.shrunk_gain[best]))
    half_width = INTERVAL_STANDARD_ERRORS * float(gains.standard_error[best])
    if gain >= half_width:
        return 0
    needed = num_labelled * (half_width / max(gain, MIN_RELEVANT_GAIN)) ** 2 - num_labelled
    return math.ceil(min(needed, MAX_LABELS_NEEDED) / 10) * 10


# -- from answers to what is trained


def select_from_answers(rows: NewRows, selection: Selection, seed: int) -> Selection:
    """Return what to train by all labels of new rows that are known. The one place where that is decided.

    Args:
        rows: With the answers of all rounds.
        selection: Of the same candidates: whether the distribution shifted, and the results without answers. What it
            says of earlier answers is replaced.
        seed: Of the bootstrap samples.
    """
    rows = rows.take(rows.sort_canonically(rows.rounds, rows.label))
    is_asked = rows.rounds >= 1
    is_known = rows.label >= 0
    num_open = int(((rows.predictions != rows.predictions[0]).any(axis=0) & ~is_known).sum())
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
    )
    if not selection.answers:
        return selection
    weight = compute_answer_weights(rows.predictions, is_known, rows.rounds, rows.inclusion_probability)
    answers = rows.predictions, np.flatnonzero(is_known), rows.label[is_known], weight[is_known]
    gains = estimate_gains(*answers)
    selected = select_candidate(gains, selection.changed)
    half_width = INTERVAL_STANDARD_ERRORS * gains.standard_error
    selection = replace(
        selection,
        candidates=tuple(
            replace(
                candidate,
                num_answers=int(gains.num_answers[number]),
                **_build_gain_interval(gains.gain[number], half_width[number]),
            )
            for number, candidate in enumerate(selection.candidates)
        ),
        chosen=selection.candidates[selected].name,
        num_needed=min(num_open, estimate_num_further_labels(gains, selected, selection.answers)),
        average=None,
    )
    if rows.logits is not None and not selection.single:
        return _average_candidates(rows, weight, selection, num_open)
    if not selected:
        return selection
    gain = correct_gain_for_selection(*answers, selection.changed, seed)
    return replace(selection, **_build_gain_interval(gain, half_width[selected]))


def _average_candidates(rows: NewRows, weight: Array, selection: Selection, num_open: int) -> Selection:
    """Return the selection with the average of all candidates, and whether that or ERM is advised.

    Args:
        rows: With logits and answers.
        weight: (M,) of each labelled row: for how many rows it stands.
        selection: With the results of all candidates.
        num_open: Rows without a label on which candidates contradict ERM.
    """
    assert rows.logits is not None
    positions = np.flatnonzero(rows.label >= 0)
    label = rows.label[positions]
    answer_weight = weight[positions]
    prior_gain = None if selection.changed else _estimate_prior_gain(selection)
    answers = positions, label, answer_weight
    gain, error = estimate_gain_posterior(rows.predictions, *answers, prior_gain)
    correlation = compute_prediction_correlation(rows.predictions)
    probability = compute_probability_best(gain, error, correlation)
    member_weight = select_members(probability)
    average = average_logits(rows.logits, member_weight).argmax(axis=1)
    both = np.stack([rows.predictions[0], average])
    if prior_gain is not None:
        corrections = member_weight[1:]
        prior_gain = np.array([0.0, corrections @ prior_gain[1:] / max(corrections.sum(), 1e-9)])
    average_gain, average_error = estimate_gain_posterior(both, *answers, prior_gain)
    advice = advise_average(float(average_gain[1]), float(average_error[1]), selection.changed)
    stratum = (rows.predictions != rows.predictions[0]).any(axis=0).astype(np.int64)
    stratum_sizes = np.bincount(stratum, minlength=2)
    accuracy = [
        estimate_accuracy((predicted[positions] == label) * 1.0, answer_weight, stratum[positions], stratum_sizes)
        for predicted in (average, rows.predictions[0])
    ]
    likeliest = 1 + int(member_weight[1:].argmax())
    is_advised = advice.use == "average" and member_weight[likeliest] > 0
    gains = estimate_gains(both, *answers)
    interval = _build_gain_interval(advice.gain, advice.gain_high - advice.gain)
    if gains.unlabelled_share[1] < 1e-9:  # all rows are labelled on which the average contradicts ERM
        interval = _build_gain_interval(gains.gain[1], advice.gain_high - advice.gain)
    return replace(
        selection,
        candidates=tuple(
            replace(candidate, probability_best=float(best), weight=float(member))
            for candidate, best, member in zip(selection.candidates, probability, member_weight, strict=True)
        ),
        chosen=selection.candidates[likeliest].name if is_advised else BASELINE,
        num_needed=min(num_open, estimate_num_further_labels(gains, 1, selection.answers)),
        average=AverageResult(
            is_unsure=advice.unsure,
            accuracy=_convert_to_interval(accuracy[0]),
            erm_accuracy=_convert_to_interval(accuracy[1]),
            **interval,
        ),
        **(interval if is_advised else {}),
    )


def _estimate_prior_gain(selection: Selection) -> Array:
    """Return the gain (C,) of each candidate on an in-distribution row on which it contradicts ERM, shrunk a little."""
    num_rows = selection.usual_rows
    accuracy = np.array([result.valid_accuracy for result in selection.candidates])
    differs = np.array([result.differs_usual for result in selection.candidates])
    total = (accuracy - accuracy[0]) * num_rows
    prior_gain = (total + SHRINKAGE_ROWS * SHRINKAGE_GAIN) / (differs * num_rows + SHRINKAGE_ROWS)
    prior_gain[0] = 0
    return np.asarray(prior_gain.clip(-1, 1))


def _convert_to_interval(estimate: AccuracyEstimate | None) -> Interval | None:
    return None if estimate is None else Interval(estimate.accuracy, estimate.low, estimate.high)


def _build_gain_interval(gain: float, half_width: float) -> dict[str, Any]:
    return {"gain": float(gain), "gain_low": float(gain - half_width), "gain_high": float(gain + half_width)}
