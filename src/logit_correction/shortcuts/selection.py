"""Which candidate to train: what changed in the rows that the model will be used on, whom to ask, who gains.

Predictions are (C, M) numbers of labels: of C candidates, the first of which is ERM, on M rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from logit_correction.evaluation.predictions import Array

#: Standard deviations to either side of an interval of 90 %.
Z_90 = 1.645

#: Chance of telling a change where there is none, and random exchanges of rows by which that is judged.
SHIFT_LEVEL, NUM_PERMUTATIONS = 0.05, 400

#: What is believed of a candidate before anybody answers: as by so many answered rows, and its gain on each of them.
PRIOR_ROWS, PRIOR_GAIN = 4.0, -0.05

#: Standard errors by which a candidate must be ahead of ERM: where the new rows changed, and where they did not.
SELECTION_MARGIN, SELECTION_MARGIN_WITHOUT_SHIFT = 0.5, 1.5

#: Times that answers are drawn anew to correct the figure of a choice for the selection.
DRAWS = 500


# -- what changed


def compute_disagreement(predictions: Array) -> Array:
    """Return the share of rows (C,) on which each candidate says another label than ERM.

    >>> compute_disagreement(np.array([[0, 0, 1, 1], [0, 0, 1, 0]]))
    array([0.  , 0.25])
    """
    return np.asarray((predictions != predictions[0]).mean(axis=1))


def compute_shift_p_value(new: Array, usual: Array, seed: int = 0) -> float:
    """Return how likely candidates are as much further from ERM on new rows (C, M) than on usual ones (C, U) by chance.

    A permutation test exchanges rows between the two and compares the greatest rise of all candidates, in standard
    errors. It is exact whatever the candidates are. Up to ``SHIFT_LEVEL`` something has changed.
    """
    there = np.concatenate([new, usual], axis=1).T.astype(np.float64)
    rows, total = new.shape[1], there.sum(axis=0)
    others = len(there) - rows
    error = np.where((deviation := there.std(axis=0)) > 1e-6, deviation * math.sqrt(1 / rows + 1 / others), np.inf)

    def rise(sums: Array) -> Array:
        return np.asarray((sums / rows - (total - sums) / others) / error)

    seen, generator = rise(there[:rows].sum(axis=0)), np.random.default_rng(seed)
    chosen = np.zeros(len(there))
    chosen[:rows] = 1
    drawn = [rise(generator.permutation(chosen) @ there).max() for _ in range(NUM_PERMUTATIONS)]
    return float((1 + sum(one >= seen.max() for one in drawn)) / (1 + NUM_PERMUTATIONS))


# -- whom to ask


def sample_rows_to_label(
    predictions: Array, count: int, seed: int, answered: Sequence[int] = ()
) -> tuple[Array, Array]:
    """Draw rows to ask a person about: those that tell most about which candidate is best.

    A row tells the more, the more candidates contradict ERM there: it is drawn with a chance in proportion to the root
    of their share, systematically along rows that are sorted by what all candidates say, so that each pattern has its
    share of the rows.

    Returns:
        Places (n,) of at most ``count`` rows that were not ``answered``, in random order, and the chance (M,) of each
        row to be drawn.
    """
    chance = np.sqrt((predictions != predictions[0]).mean(axis=0))
    chance[list(answered)] = 0
    count = min(count, int((chance > 0).sum()))
    if not count:
        return np.zeros(0, dtype=np.int64), np.zeros_like(chance)
    certain = np.zeros(len(chance), dtype=bool)
    while True:  # no chance is above 1
        rest = np.where(certain, 0, chance)
        scaled = rest * (count - certain.sum()) / max(rest.sum(), 1e-12)
        if not (scaled > 1).any():
            break
        certain |= scaled > 1
    chance = np.where(certain, 1.0, scaled)
    generator = np.random.default_rng(seed)
    _, pattern = np.unique(predictions, axis=1, return_inverse=True)
    order = np.lexsort((generator.random(len(chance)), pattern.ravel()))
    ends = np.cumsum(chance[order]) + generator.random()
    hit = np.floor(ends + 1e-9) > np.floor(ends - chance[order] + 1e-9)
    return generator.permutation(order[hit]), chance


def compute_answer_weights(predictions: Array, known: Array, turn: Array, chances: Mapping[int, Array]) -> Array:
    """Return for how many rows each answered row stands, (M,), 0 of others, by the rounds in which rows were asked.

    Each round estimates sums over all rows: by its own answers in inverse proportion to their chance, and by what
    earlier rounds have told as it is (the sequential estimator of Des Raj). It is right in the mean whatever was asked
    before. Rounds count by their precision, if all candidates are right as often where they contradict ERM. So a round
    after which nothing is open counts alone, and each row stands for itself.

    Of a round that is answered in part, each answer stands for as many more rows.

    Args:
        predictions: (C, M) of the candidates.
        known: (M,) boolean: rows whose label is known.
        turn: (M,) the round in which a row was asked: 0 if it came with a label, -1 if nobody was asked.
        chances: Round -> the chance (M,) of each row to be asked in it, 0 of those that had been asked before.
    """
    share = (predictions != predictions[0]).mean(axis=0)
    earlier = np.zeros(len(turn))  # for how many rows the answers of earlier rounds stand
    missed = np.ones(len(turn))  # chance of a row not to be in a round that nobody answered
    lost = 0.0  # variance that open rows of earlier rounds leave
    weights = list[Array]()
    precisions = list[float]()
    for number in sorted({0, *chances}):
        members = turn == number
        answered = members & known
        chance = np.full(len(turn), members.mean()) if number == 0 else chances[number]
        if not answered.any():
            missed = missed * (1 - chance) if number else missed
            continue
        response = answered.sum() / members.sum()
        probability = chance * missed * response
        weights.append(earlier + np.divide(1, probability, out=np.zeros(len(turn)), where=answered & (probability > 0)))
        pool = ((turn < 0) | (turn >= number)) & (probability > 0)
        precisions.append(1 / max(1e-12, lost + float((share[pool] * (1 / probability[pool] - 1)).sum())))
        earlier = np.where(answered, 1 / response, earlier)
        lost += float(share[answered].sum()) * (1 / response - 1) / response
    return np.average(weights, axis=0, weights=precisions) if weights else earlier


# -- who gains


@dataclass(frozen=True)
class Gains:
    """What each candidate gains over ERM on the new rows, as a share of all of them.

    Attributes:
        gain: (C,) drawn towards a little below 0 where few answers tell of a candidate; exact where all rows are
            answered on which it and ERM differ.
        cautious: (C,) what the choice goes by, of rows like these: drawn as far whatever is answered.
        error: (C,) standard errors of that.
        answers: (C,) answered rows on which a candidate and ERM differ.
        unanswered: (C,) share of such rows that answers do not tell of, from 0 to 1.
    """

    gain: Array
    cautious: Array
    error: Array
    answers: Array
    unanswered: Array


def estimate_gains(predictions: Array, places: Array, label: Array, weight: Array) -> Gains:
    """Return what candidates gain by answers: the ``label`` (n,) of the rows at ``places`` (n,), each of a ``weight``.

    A candidate gains nothing where it says the same as ERM. On how many rows it says something else is known without
    an answer. So answers only have to tell how often it is right there and ERM wrong, less the reverse.
    """
    differs = (predictions != predictions[0]).sum(axis=1)
    apart = compute_disagreement(predictions)
    said = predictions[:, places]
    right = (said == label).astype(np.float64) - (said[0] == label)
    counted = (said != said[0]) * weight
    total = counted.sum(axis=1)
    rows = total**2 / (counted**2).sum(axis=1).clip(1e-12)  # that equally weighted ones would be worth
    mean = (counted * right).sum(axis=1) / total.clip(1e-12)
    unanswered = np.where(differs > 0, 1 - rows / differs.clip(1), 0).clip(0)
    believed = unanswered * PRIOR_ROWS
    gain = (rows * mean + believed * PRIOR_GAIN) / (rows + believed).clip(1e-12)
    cautious = (rows * mean + PRIOR_ROWS * PRIOR_GAIN) / (rows + PRIOR_ROWS)
    variance = ((counted * right**2).sum(axis=1) / total.clip(1e-12) * rows + PRIOR_ROWS) / (rows + PRIOR_ROWS)
    error = np.sqrt((variance - cautious**2).clip(0.1) / (rows + PRIOR_ROWS))
    error[0] = 0
    cautious[0] = 0
    gain[0] = 0
    return Gains(apart * gain, apart * cautious, apart * error, (said != said[0]).sum(axis=1), unanswered)


def select_candidate(gains: Gains, changed: bool) -> int:
    """Return the candidate of the greatest gain, or 0, ERM, where it is not ahead of ERM by enough standard errors."""
    best = int(gains.cautious.argmax())
    ahead = SELECTION_MARGIN if changed else SELECTION_MARGIN_WITHOUT_SHIFT
    return best if gains.cautious[best] > ahead * gains.error[best] else 0


def correct_gain_for_selection(
    predictions: Array, places: Array, label: Array, weight: Array, changed: bool, seed: int
) -> float:
    """Return the gain of the chosen candidate less what it owes to having been chosen by the same answers.

    The whole choice is made again on answers that are drawn from these with replacement. By how much the gain of what
    is chosen then falls on the answers themselves is taken off. Where they tell of all rows, nothing is left to chance.
    """
    gains, generator = estimate_gains(predictions, places, label, weight), np.random.default_rng(seed)
    chosen, falls = select_candidate(gains, changed), []
    for _ in range(DRAWS):
        again = generator.integers(len(places), size=len(places))
        drawn = estimate_gains(predictions, places[again], label[again], weight[again])
        other = select_candidate(drawn, changed)
        falls.append(drawn.cautious[other] - gains.cautious[other])
    corrected = gains.cautious[chosen] - max(0.0, float(np.mean(falls)))
    return float(gains.gain[chosen] if gains.unanswered[chosen] < 1e-9 else corrected)


def count_labels_needed(gains: Gains, chosen: int, answered: int) -> int:
    """Return how many further answers would tell whether the best candidate is ahead of ERM; 0 if that is told."""
    best = chosen or 1 + int(gains.cautious[1:].argmax())
    apart, error = abs(float(gains.cautious[best])), float(gains.error[best])
    if apart >= Z_90 * error:
        return 0
    needed = answered * (Z_90 * error / max(apart, 0.005)) ** 2
    return int(math.ceil(min(needed - answered, 200) / 10) * 10)
