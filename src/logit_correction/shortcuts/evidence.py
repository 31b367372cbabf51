"""Is there a shortcut? What each view tells, the signs of a candidate to correct by, and the model that weighs them.

Class probabilities are (n, L) and held out: of what was not trained on the row. Labels and attributes are (n,) long.
No sign reads an attribute label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor

from logit_correction.evaluation.metrics import compute_auroc
from logit_correction.evaluation.predictions import Array
from logit_correction.finding import CandidateStatistics, Verdict, ViewEvidence
from logit_correction.functional import wilson_interval

#: Probability from which a view is sure of a label.
SURE = 0.8

#: Fewer rows that conflict tell nothing.
LEAST_ROWS = 3

#: Views that know less of the label than this share of its entropy do not tell which rows are typical of it; what is
#: said where none does; rows that a share of few rows is drawn with.
KNOWS, UNDECIDED, DRAWN = 0.02, 0.75, 4

#: Probabilities count as no less than this where a logarithm is taken.
LEAST = 1e-3


# -- what a view tells


def find_conflicts(seen: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a view says of each row (n,), and where it is sure of another label than the row's (n,) bool."""
    confidence, says = seen.max(dim=1)
    return says, (says != label) & (confidence > SURE)


def evaluate_view(views: Sequence[str], breadth: int, seen: Tensor, network: Tensor, label: Tensor) -> ViewEvidence:
    """Return what views tell of a shortcut of their kind.

    ``seen`` is what a head on them says, ``network`` what the whole network says of the same rows. Counted are rows
    where the views are sure of another label, and whether the network then says what they say, or the label.
    """
    says, conflict = find_conflicts(seen, label)
    answer = network.argmax(dim=1)
    right, network_right = (says == label).double(), (answer == label).double()
    rows = int(conflict.sum())
    with_view, with_label = (int((answer == other)[conflict].sum()) for other in (says, label))
    low, high = map(float, wilson_interval(with_view, with_view + with_label))
    least, _ = map(float, wilson_interval(int(right.sum()), len(label)))
    return ViewEvidence(
        views=tuple(views),
        breadth=breadth,
        accuracy=float(right.mean()),
        accuracy_low=least,
        network_accuracy=float(network_right.mean()),
        ratio=float(right.mean() / network_right.mean()) if network_right.any() else None,
        rows=rows,
        share=rows / max(1, len(label)),
        follows_view=with_view / rows if rows else None,
        follows_label=with_label / rows if rows else None,
        follows_low=low,
        follows_high=high,
        information=compute_information_share(seen.numpy(), label.numpy()),
    )


# -- the signs of a candidate


def compute_information_share(probability: Array, label: Array) -> float:
    """Return the share of the label's entropy that predictions take away: 1 less cross-entropy over entropy.

    It is less than 0 where predictions are worse than the labels' shares.

    >>> round(compute_information_share(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])), 2)
    1.0
    """
    share = np.bincount(label, minlength=probability.shape[1]) / max(1, len(label))
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    own = probability[np.arange(len(label)), label].astype(float).clip(LEAST)
    return float(1 + np.log(own).mean() / max(entropy, LEAST))


def compute_typicality(other: Array, label: Array, flagged: Array) -> float:
    """Return how much less typical of their label ``flagged`` rows (n,) are to another view than the rest.

    It is an area under the curve: 0.5 where they are as typical, as those of a mark are that was laid on regardless of
    what else is there. Labels count by their flagged rows.
    """
    own = other[np.arange(len(label)), label].astype(float).clip(LEAST, 1 - LEAST)
    odds, found, rows = np.log(own / (1 - own)), 0.0, 0
    for y in np.unique(label):
        many, few = odds[(label == y) & ~flagged], odds[(label == y) & flagged]
        if min(len(many), len(few)) >= LEAST_ROWS:
            found, rows = found + compute_auroc(many, few) * len(few), rows + len(few)
    return found / rows if rows else UNDECIDED


def compute_statistics(
    label: Array, network: Array, attribute: Array, alone: Array, others: Sequence[Array]
) -> CandidateStatistics:
    """Return the signs of a candidate.

    Args:
        label: (n,).
        network: (n, L) of ordinary networks.
        attribute: (n,) the attribute that the candidate estimates.
        alone: (n, L) of plain heads on the candidate's views.
        others: (n, L) of each other view; none where the candidate looks at one thing, and so sees no object.
    """
    says, flagged = network.argmax(1), attribute != label
    few, wrong, follows = int(flagged.sum()), says != label, says == attribute
    error = float(wrong[~flagged].mean()) if few < len(label) else 1.0
    voting = [one for one in others if compute_information_share(one, label) >= KNOWS]
    return CandidateStatistics(
        flagged=few,
        error=error,
        # Of few rows the share is drawn to what the network does everywhere.
        excess=float((follows[flagged].sum() + DRAWN * error) / (few + DRAWN)) - error,
        explains=float((follows & flagged & wrong).sum() / (wrong.sum() + 5)),
        plain_information=compute_information_share(alone, label),
        # To the view that sees least of a difference.
        typical=min((compute_typicality(one, label, flagged) for one in voting), default=UNDECIDED if others else 0.5),
    )


class EvidenceModel:
    """From signs to the probability that correcting helps, the logistic function of a weighted sum.

    ``lab/results/evidence`` tells where its numbers come from, and how right they are.

    Attributes:
        ends: Sign -> value at which it counts nothing, and value at which it counts in full.
        weights: Kind of data -> weight of each sign, in the same order, and a constant.
        verdicts: Verdict -> P(helps) above which it is given; ``none found`` below all.
    """

    ends: ClassVar[Mapping[str, tuple[float, float]]] = {
        "excess": (-0.1, 0.5),
        "explains": (0.0, 0.8),
        "plain_information": (0.0, 0.8),
        "typical": (0.85, 0.5),
    }
    weights: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "images": (1.67, 0.85, 5.08, 2.72, -8.13),
        "texts": (3.73, 3.99, 2.95, 0.0, -5.6),
        "tables": (0.83, 3.21, 1.76, 0.0, -3.35),
    }
    verdicts: ClassVar[Mapping[Verdict, float]] = {"shortcut": 0.6, "cannot tell": 0.3}

    @classmethod
    def predict_probability(cls, signs: CandidateStatistics, kind: str) -> float:
        """Return the probability that correcting by a candidate helps; ``kind`` is images, texts or tables."""
        *weights, score = cls.weights[kind]
        for weight, (name, (none, full)) in zip(weights, cls.ends.items(), strict=True):
            score += weight * min(1.0, max(0.0, (getattr(signs, name) - none) / (full - none)))
        return round(1 / (1 + math.exp(-score)), 4)

    @classmethod
    def classify(cls, probability: float) -> Verdict:
        """Return the verdict on a candidate of this P(helps)."""
        return next((name for name, least in cls.verdicts.items() if probability > least), "none found")
