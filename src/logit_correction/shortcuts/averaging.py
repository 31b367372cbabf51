"""Average the candidates by the probability that each is the best one on the target data.

After a few labels it is rarely clear which of several trained candidates is most accurate on the unlabelled target
data (the new rows). Selecting one of them throws away what the labels say about the others: two candidates that are
half a point apart get the weights 1 and 0. This module weights each candidate by the posterior probability that its
gain over ERM is the greatest, and averages the logits. A candidate that is clearly best gets nearly all weight;
candidates that are still level share it, and their average is usually better than either.

- ``average_candidates``: all of it, from the labels to the advice.
- ``compute_prior_gain``: what the validation rows say about each candidate before any new row is labelled.
- ``estimate_gain_posterior``: the gains and their errors, by the labels and the prior.
- ``compute_prediction_correlation``: how far two candidates win and lose on the same rows, known without labels.
- ``compute_probability_best``: the probability that each candidate has the greatest gain, from gains and their errors.
- ``select_members``: the few candidates that are worth training again, with their weights.
- ``shrink_weight_to_erm``: the same with more weight for ERM, the less likely it is that the average gains.
- ``average_logits``: the weighted average of the members' logits.

Weights that are posterior probabilities of models are those of Bayesian model averaging (Hoeting et al., Statistical
Science 1999). Here a model is "candidate k is the best of these", so that the weights do not depend on how many rows
have been labelled in total, but only on how well the labels separate the candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from logit_correction.types import Array

#: Least probability of being the best with which a candidate is a member of the average.
MIN_MEMBER_WEIGHT = 0.05

#: Most members: each is trained again for the fix, and three do nearly as well as all.
MAX_MEMBERS = 5

#: Rows that a prior by the validation rows is worth where no change of the inputs was seen: 8 still lost a point on
#: planted sets without a shortcut, 16 and 32 lost nothing.
UNCHANGED_PRIOR_ROWS = 16.0

#: Prior of a candidate's gain where the inputs have changed, as by so many labelled rows with this gain each; also what
#: the gain on the validation rows is shrunk by.
SHRINKAGE_ROWS = 4.0
SHRINKAGE_GAIN = -0.05

#: Share of the overlap of two candidates that counts as correlation of their gains. With all of it near-duplicates
#: share one weight exactly, with none of it each has its own. On four planted sets (16 samples, half of the rows
#: uniform) 1, 0.5 and 0 won 94, 98 and 98 % of the best gain by 10 labels; on tweets 1 was the best by 5 labels.
CORRELATION_SHARE = 0.5

#: Draws from the posterior of the gains: the standard error of a probability is then below 0.4 %.
NUM_DRAWS = 20_000

#: Gains that are closer than this are a tie, such as those of two identical candidates: a row in a million.
TIE_TOLERANCE = 1e-6

#: Least variance of the gain on a row: a few rows that are all won tell little.
MIN_VARIANCE = 0.1

#: Standard errors to either side of an interval of 90 %.
INTERVAL_STANDARD_ERRORS = 1.645

#: Gain, as a share of all rows, that is written as 0 points: no one would train again for it.
NEGLIGIBLE_GAIN = 0.005

#: Probability that the average gains from which on it is not shrunk towards ERM.
LIKELY_GAIN_PROBABILITY = 0.8

#: Most further labels that are recommended at a time.
MAX_LABELS_NEEDED = 200


def compute_prior_gain(accuracy: Array, disagreement: Array, num_rows: int) -> Array:
    """Return what each candidate gains over ERM on a validation row on which the two contradict each other.

    Where the new rows are seen to be like the validation rows, a candidate that loses on the validation rows loses on
    the new rows too, so this is the mean of the prior of its gain there, worth ``UNCHANGED_PRIOR_ROWS`` labelled rows.
    Where the inputs have changed, the validation rows do not show it: ERM is at its best on them.

    Args:
        accuracy: (C,) of the candidates on the validation rows, from 0 to 1; the first candidate is ERM.
        disagreement: (C,) shares of these rows on which a candidate and ERM predict different labels.
        num_rows: Number of these rows.

    Returns:
        (C,) means of (candidate is right) - (ERM is right), from -1 to 1, shrunk a little below 0; 0 for ERM.

    >>> compute_prior_gain(np.array([0.5, 1.0]), np.array([0.0, 0.5]), num_rows=4).round(2)
    array([0. , 0.3])
    """
    total = (accuracy - accuracy[0]) * num_rows
    prior_gain = (total + SHRINKAGE_ROWS * SHRINKAGE_GAIN) / (disagreement * num_rows + SHRINKAGE_ROWS)
    prior_gain[0] = 0.0
    return np.asarray(prior_gain.clip(-1, 1))


def compute_disagreement(predictions: Array) -> Array:
    """Return the share of rows (C,) on which each candidate and ERM predict different labels.

    >>> compute_disagreement(np.array([[0, 0, 1, 1], [0, 0, 1, 0]]))
    array([0.  , 0.25])
    """
    return np.asarray((predictions != predictions[0]).mean(axis=1))


def estimate_gain_posterior(
    predictions: Array, rows: Array, label: Array, weight: Array, prior_gain: Array | None = None
) -> tuple[Array, Array]:
    """Return the gain of each candidate over ERM on rows like these, and its standard error.

    Where a candidate predicts the same as ERM it gains nothing, and on how many rows it contradicts ERM is known
    without labels. So the gain is that share times the mean gain on a contradicted row, ``(n m + n_0 m_0) / (n +
    n_0)``, with ``m`` the weighted mean over the n labelled contradicted rows (Kish's effective number), and the prior
    ``m_0`` worth ``n_0`` rows. The weak prior counts only as far as contradicted rows have no label: once all have one,
    each stands for itself, and the gain on these rows is exact. The error is always that for further rows like these.

    Args:
        predictions: (C, M) predicted labels of the candidates on all new rows; the first candidate is ERM.
        rows: (n,) positions of the labelled rows.
        label: (n,) their labels.
        weight: (n,) number of rows for which each labelled row stands.
        prior_gain: (C,) as ``compute_prior_gain`` returns it, for new rows that are like the validation rows; it is
            worth ``UNCHANGED_PRIOR_ROWS``. None takes a weak prior a little below 0, for inputs that have changed.

    Returns:
        Gains (C,) as shares of all rows, and their standard errors (C,); both 0 for ERM.

    >>> predictions = np.array([[0] * 100, [1] * 20 + [0] * 80])
    >>> gain, error = estimate_gain_posterior(predictions, np.arange(10), np.ones(10, int), np.ones(10))
    >>> gain.round(3), error.round(3)
    (array([0.   , 0.165]), array([0.   , 0.033]))
    """
    prior_mean = np.full(len(predictions), SHRINKAGE_GAIN) if prior_gain is None else prior_gain
    labelled = predictions[:, rows]
    gain_by_row = (labelled == label).astype(np.float64) - (labelled[0] == label)
    contradicts = labelled != labelled[0]
    num_contradicted = (predictions != predictions[0]).sum(axis=1)
    is_complete = contradicts.sum(axis=1) == num_contradicted
    row_weight = contradicts * np.where(is_complete[:, None], 1.0, weight)
    total = row_weight.sum(axis=1)
    num_rows = total**2 / np.square(row_weight).sum(axis=1).clip(1e-12)
    mean = (row_weight * gain_by_row).sum(axis=1) / total.clip(1e-12)
    second_moment = (row_weight * np.square(gain_by_row)).sum(axis=1) / total.clip(1e-12)
    num_prior_rows = np.full(len(predictions), UNCHANGED_PRIOR_ROWS)
    if prior_gain is None:
        num_prior_rows = SHRINKAGE_ROWS * (1 - num_rows / num_contradicted.clip(1)).clip(0)
    posterior_rows = (num_rows + num_prior_rows).clip(1e-12)
    gain = (num_rows * mean + num_prior_rows * prior_mean) / posterior_rows
    variance = (num_rows * second_moment + num_prior_rows) / posterior_rows - np.square(gain)
    error = np.sqrt(variance.clip(MIN_VARIANCE) / posterior_rows)
    gain[0] = 0.0
    error[0] = 0.0
    disagreement = compute_disagreement(predictions)
    return disagreement * gain, disagreement * error


def compute_prediction_correlation(predictions: Array, overlap_share: float = CORRELATION_SHARE) -> Array:
    """Return how strongly the gains of two candidates over ERM are correlated, by their predictions alone.

    Two candidates that predict the same label wherever they contradict ERM are right and wrong on the same rows, so
    their gains are equal whatever the labels are. The correlation is the share of such rows,
    ``n_kl / sqrt(n_k n_l)``, with ``n_k`` the number of rows on which candidate k contradicts ERM, and ``n_kl`` the
    number of rows on which k and l contradict ERM by the same label. It is a cosine similarity of indicator vectors,
    hence a valid (positive semidefinite) correlation matrix. The correlation is a part of it,
    ``overlap_share n_kl / sqrt(n_k n_l)``, for an average of candidates that differ a little gains by their variety.

    Args:
        predictions: (C, M) predicted labels of the C candidates on M rows; the first candidate is ERM.
        overlap_share: Correlation of two candidates that predict the same, from 0 to 1. With 1 a candidate that is
            listed twice gets in total the weight of one; with 0 all candidates are independent.

    Returns:
        (C, C) correlations from 0 to ``overlap_share``, with ones on the diagonal.

    >>> predictions = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]])
    >>> compute_prediction_correlation(predictions, overlap_share=1.0)[1]
    array([0. , 1. , 0.5, 1. ])
    """
    contradicts = predictions != predictions[0]
    shared = np.zeros((len(predictions), len(predictions)))
    for label in np.unique(predictions):
        indicator = (contradicts & (predictions == label)).astype(np.float64)
        shared += indicator @ indicator.T
    count = np.sqrt(np.diag(shared)).clip(1e-12)
    correlation = overlap_share * shared / count / count[:, None]
    np.fill_diagonal(correlation, 1.0)
    return correlation


def compute_probability_best(
    gain: Array, error: Array, correlation: Array | None = None, num_draws: int = NUM_DRAWS
) -> Array:
    """Return the probability that each candidate has the greatest gain.

    The gains are taken to be normal, ``N(gain, D R D)`` with ``D = diag(error)`` and ``R`` the correlation, and the
    probability is the share of draws in which a candidate comes first. A draw in which several are level, such as
    identical candidates, counts in equal parts for each of them.

    Independent draws (no ``correlation``) favour near-duplicates, since the greatest of two draws is more often in
    front than one. With the ``correlation`` of ``compute_prediction_correlation`` they share their weight.

    Args:
        gain: (C,) estimated gains over ERM, whose own entry is 0.
        error: (C,) standard errors of the gains, 0 for ERM.
        correlation: (C, C) correlation of the errors; None takes them to be independent.
        num_draws: Number of draws; the standard error of a probability is at most ``0.5 / sqrt(num_draws)``.

    Returns:
        (C,) probabilities that sum to 1. The order of the candidates does not change them.

    >>> compute_probability_best(np.array([0.0, 0.3, 0.0]), np.array([0.0, 0.01, 0.01])).round(2)
    array([0., 1., 0.])
    >>> compute_probability_best(np.array([0.0, 0.3, 0.3]), np.zeros(3))
    array([0. , 0.5, 0.5])
    """
    order = np.lexsort((error, gain))  # so that each candidate gets the same random numbers in any order of the list
    root = np.eye(len(gain))
    if correlation is not None:
        eigenvalues, eigenvectors = np.linalg.eigh(correlation[np.ix_(order, order)])
        root = (eigenvectors * np.sqrt(eigenvalues.clip(0))) @ eigenvectors.T
    noise = np.random.default_rng(0).standard_normal((len(gain), num_draws))
    draws = gain[order, None] + error[order, None] * (root @ noise)
    leads = draws >= draws.max(axis=0) - TIE_TOLERANCE
    probability = np.empty(len(gain))
    probability[order] = (leads / leads.sum(axis=0)).mean(axis=1)
    return probability


def select_members(probability: Array, max_members: int = MAX_MEMBERS) -> Array:
    """Return the weight of each candidate in the average: its probability of being the best, for the few likely ones.

    Candidates below ``MIN_MEMBER_WEIGHT`` and all but the ``max_members`` likeliest get weight 0; the others are scaled
    to sum to 1. The likeliest candidate is always a member. Of equally likely ones the first in the list comes first.

    Args:
        probability: (C,) as ``compute_probability_best`` returns it.
        max_members: Most members; 1 selects the likeliest candidate.

    Returns:
        (C,) weights that sum to 1.

    >>> select_members(np.array([0.03, 0.57, 0.40]))
    array([0.        , 0.58762887, 0.41237113])
    >>> select_members(np.array([0.3, 0.3, 0.4]), max_members=1)
    array([0., 0., 1.])
    """
    ranked = np.argsort(-probability, kind="stable")[:max_members]
    members = [ranked[0], *(candidate for candidate in ranked[1:] if probability[candidate] >= MIN_MEMBER_WEIGHT)]
    weight = np.zeros(len(probability))
    weight[members] = probability[members]
    return weight / weight.sum()


def shrink_weight_to_erm(weight: Array, gain: float, error: float) -> Array:
    """Return the weights of an average of which ERM gets more, the less likely it is that the average gains.

    The corrections keep the share ``min(1, P(gain > 0) / LIKELY_GAIN_PROBABILITY)`` of their weights. Where new rows
    are merely harder, labels of a few of them rarely exclude a gain that is not there, and such an average loses less.
    Corrections whose weight falls below ``MIN_MEMBER_WEIGHT`` are left out, and so is ERM: the weights then stay.

    Args:
        weight: (C,) as ``select_members`` returns it; ERM comes first.
        gain: Estimated gain of the average over ERM.
        error: Its standard error.

    Returns:
        (C,) weights that sum to 1.

    >>> shrink_weight_to_erm(np.array([0.0, 0.75, 0.25]), gain=0.0, error=0.02)
    array([0.375  , 0.46875, 0.15625])
    """
    probability = 0.5 * (1 + math.erf(gain / max(error, 1e-12) / math.sqrt(2)))
    shrunk = weight * min(1.0, probability / LIKELY_GAIN_PROBABILITY)
    shrunk[shrunk < MIN_MEMBER_WEIGHT] = 0.0
    shrunk[0] = 1 - shrunk[1:].sum()
    return weight if shrunk[0] < MIN_MEMBER_WEIGHT else shrunk


def average_logits(logits: Array, weight: Array) -> Array:
    """Return the weighted average of the candidates' logits.

    The logits of each candidate are first centred to mean 0 over the labels, ``z_k(y) - mean_y z_k(y)``: a constant
    that is added to all logits changes no prediction, so it must not change the average. On frozen features, where each
    candidate is a linear head, the average is one linear head again.

    Args:
        logits: (C, M, L) logits of the candidates.
        weight: (C,) weights that sum to 1.

    Returns:
        (M, L) logits.

    >>> average_logits(np.array([[[2.0, 0.0]], [[11.0, 15.0]]]), np.array([0.75, 0.25]))
    array([[ 0.25, -0.25]])
    """
    centred = logits - logits.mean(axis=2, keepdims=True)
    return np.asarray(np.tensordot(weight, centred, axes=1))


@dataclass(frozen=True)
class CandidateAverage:
    """The average of the candidates by their labels, and how much it gains over ERM on rows like the new ones.

    Attributes:
        candidate_gain: (C,) estimated gain of each candidate, as a share of all rows, 0 for ERM.
        candidate_error: (C,) their standard errors.
        probability_best: (C,) probability that each candidate has the greatest gain.
        weight: (C,) of each candidate in the average; they sum to 1. After a change of the inputs they are shrunk
            towards ERM where a gain is doubtful.
        predictions: (M,) labels that the average predicts on the new rows, before it is shrunk.
        gain: Estimated gain of the average, before it is shrunk.
        error: Its standard error.
        is_unsure: Whether the 90 % interval of the gain holds 0, or the gain rounds to 0 points.
        is_advised: Whether a correction is better than ERM, as far as the labels show.
    """

    candidate_gain: Array
    candidate_error: Array
    probability_best: Array
    weight: Array
    predictions: Array
    gain: float
    error: float
    is_unsure: bool
    is_advised: bool


def average_candidates(
    predictions: Array,
    logits: Array | None,
    rows: Array,
    label: Array,
    weight: Array,
    prior_gain: Array | None = None,
) -> CandidateAverage:
    """Average the candidates by labels of some new rows, and advise the average or ERM.

    The average is advised if its gain does not round to 0 points. Without a change of the inputs a correction is not
    plausible, so the 90 % interval ``gain -+ 1.645 error`` must not hold 0 either, or ERM alone is used. With a change,
    a headline has to say that the gain is unsure as long as the interval holds 0, and the average is shrunk towards
    ERM: nothing then hangs on whether the gain is just above 0 or just below. Where either contradicts ERM on too few
    rows to gain anything, ERM has all weight.

    Args:
        predictions: (C, M) predicted labels of the candidates on all new rows; the first candidate is ERM.
        logits: (C, M, L) of the candidates on these rows. None averages nothing: the likeliest correction has all
            weight, and is compared with ERM.
        rows: (n,) positions of the labelled rows.
        label: (n,) their labels.
        weight: (n,) number of rows for which each labelled row stands.
        prior_gain: (C,) as ``compute_prior_gain`` returns it, for new rows that are like the validation rows; None for
            inputs that have changed.

    Returns:
        The average, its gain and the advice.

    >>> predictions = np.array([[0] * 100, [1] * 20 + [0] * 80])
    >>> average = average_candidates(predictions, None, np.arange(10), np.ones(10, int), np.ones(10))
    >>> round(average.gain, 2), average.is_unsure, average.is_advised
    (0.17, False, True)
    """
    gain, error = estimate_gain_posterior(predictions, rows, label, weight, prior_gain)
    probability = compute_probability_best(gain, error, compute_prediction_correlation(predictions))
    likeliest_correction = np.eye(len(gain))[1 + probability[1:].argmax()]
    member_weight = likeliest_correction if logits is None else select_members(probability)
    average = predict_average(predictions, logits, member_weight)
    if prior_gain is not None:
        corrections = member_weight[1:]
        prior_gain = np.array([0.0, corrections @ prior_gain[1:] / max(corrections.sum(), 1e-9)])
    both = np.stack([predictions[0], average])
    (_, average_gain), (_, average_error) = estimate_gain_posterior(both, rows, label, weight, prior_gain)
    is_negligible = bool(average_gain < NEGLIGIBLE_GAIN)
    is_unsure = is_negligible or bool(average_gain <= INTERVAL_STANDARD_ERRORS * average_error)
    if prior_gain is None and logits is not None:
        member_weight = shrink_weight_to_erm(member_weight, float(average_gain), float(average_error))
        shrunk_average = predict_average(predictions, logits, member_weight)
        disagreement = compute_disagreement(np.stack([*both, shrunk_average]))[1:]
        if disagreement.min() < NEGLIGIBLE_GAIN:
            member_weight = np.eye(len(gain))[0]
    return CandidateAverage(
        candidate_gain=gain,
        candidate_error=error,
        probability_best=probability,
        weight=member_weight,
        predictions=average,
        gain=float(average_gain),
        error=float(average_error),
        is_unsure=is_unsure,
        is_advised=not (is_negligible if prior_gain is None else is_unsure),
    )


def predict_average(predictions: Array, logits: Array | None, weight: Array) -> Array:
    """Return the labels (M,) that the average predicts; without logits, those of the candidate of the greatest weight.

    Args:
        predictions: (C, M) predicted labels of the candidates.
        logits: (C, M, L) of the candidates; None where they are not kept.
        weight: (C,) weights that sum to 1.
    """
    if logits is None:
        return np.asarray(predictions[weight.argmax()])
    return np.asarray(average_logits(logits, weight).argmax(axis=1))


def count_labels_needed(gain: float, error: float, num_labelled: int, num_open: int) -> int:
    """Return how many further labels should decide whether the average beats ERM; 0 if that is decided.

    The standard error falls with the square root of the number of labels.

    Args:
        gain: Estimated gain of the average over ERM, as a share of all rows.
        error: Its standard error.
        num_labelled: Labels that they are estimated from.
        num_open: Rows without a label that can still show which candidate is better: no more are needed.

    >>> count_labels_needed(0.1, 0.1, num_labelled=20, num_open=500)
    40
    """
    half_width = INTERVAL_STANDARD_ERRORS * error
    distance = max(abs(gain), NEGLIGIBLE_GAIN)
    if distance >= half_width:
        return 0
    needed = num_labelled * (half_width / distance) ** 2 - num_labelled
    return min(num_open, math.ceil(min(needed, MAX_LABELS_NEEDED) / 10) * 10)
