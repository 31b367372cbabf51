"""Evidence of a shortcut: what the probe of a view shows, statistics of a candidate, and the model that weighs them.

A probe can be accurate because its view is a shortcut or because it is a legitimate cause. Rows in which the probe is
sure of another label than the row's tell them apart in part: a network that relies on the view follows the probe there.
Four such statistics enter a logistic model that was fitted on data sets with planted shortcuts.

Class probabilities are (n, L) and held out. Labels and attributes are (n,) integers. No attribute label is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor

from logit_correction.evaluation.metrics import compute_auroc
from logit_correction.finding import CandidateStatistics, Verdict, ViewEvidence
from logit_correction.functional import wilson_interval
from logit_correction.types import Array

#: Probability above which a probe is sure of a label.
SURE_PROBABILITY = 0.8

#: Flagged rows below which nothing is concluded from them.
MIN_FLAGGED_ROWS = 3

#: Share of the label's entropy that a view must remove to measure which rows are typical of their label.
MIN_VIEW_INFORMATION = 0.02

#: Typicality where no view can measure it: between 0.5, a mark laid on at random, and 1, a part of the object.
DEFAULT_TYPICALITY = 0.75

#: Rows of the network's average behaviour by which the share of few flagged rows is shrunk.
SHRINKAGE_ROWS = 4

#: Errors of the network that are added to ``explains``'s denominator, so that few errors explain little.
SHRINKAGE_ERRORS = 5

#: Probabilities are clipped to this before a logarithm.
MIN_PROBABILITY = 1e-3


# -- one view


def predict_and_flag_conflicts(probabilities: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probe's predictions (n,), and where it is sure of a label other than the row's (n,) bool.

    Args:
        probabilities: (n, L) of the probe.
        label: (n,) of the rows.
    """
    confidence, predicted = probabilities.max(dim=1)
    return predicted, (predicted != label) & (confidence > SURE_PROBABILITY)


def evaluate_view(
    views: Sequence[str], breadth: int, probe_probabilities: Tensor, network_probabilities: Tensor, label: Tensor
) -> ViewEvidence:
    """Compare the probe of views with a network on the same held-out rows.

    Args:
        views: Names of the views.
        breadth: How much they can see, 0 to 3.
        probe_probabilities: (n, L) of the probe.
        network_probabilities: (n, L) probabilities of the network.
        label: (n,) of the rows.
    """
    predicted, is_conflicting = predict_and_flag_conflicts(probe_probabilities, label)
    network_label = network_probabilities.argmax(dim=1)
    accuracy = (predicted == label).double().mean()
    network_accuracy = (network_label == label).double().mean()
    accuracy_low, _ = wilson_interval(int((predicted == label).sum()), len(label))
    rows = int(is_conflicting.sum())
    follows_view = int((network_label == predicted)[is_conflicting].sum())
    follows_label = int((network_label == label)[is_conflicting].sum())
    follows_low, follows_high = wilson_interval(follows_view, follows_view + follows_label)
    return ViewEvidence(
        views=tuple(views),
        breadth=breadth,
        accuracy=float(accuracy),
        accuracy_low=float(accuracy_low),
        network_accuracy=float(network_accuracy),
        ratio=float(accuracy / network_accuracy) if network_accuracy > 0 else None,
        rows=rows,
        share=rows / max(1, len(label)),
        follows_view=follows_view / rows if rows else None,
        follows_label=follows_label / rows if rows else None,
        follows_low=float(follows_low),
        follows_high=float(follows_high),
        information=compute_information_share(probe_probabilities.numpy(), label.numpy()),
    )


# -- one candidate


def compute_information_share(probabilities: Array, label: Array) -> float:
    """Return the share of the label's entropy that predictions remove: 1 - cross-entropy / entropy.

    It is negative where predictions are worse than the shares of the labels.

    Args:
        probabilities: (n, L) predicted.
        label: (n,) of the rows.

    >>> round(compute_information_share(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])), 2)
    1.0
    """
    share = np.bincount(label) / max(1, len(label))
    share = share[share > 0]
    entropy = -(share * np.log(share)).sum()
    of_label = probabilities[np.arange(len(label)), label].astype(float).clip(MIN_PROBABILITY)
    return float(1 + np.log(of_label).mean() / max(entropy, MIN_PROBABILITY))


def compute_typicality(probabilities: Array, label: Array, is_flagged: Array) -> float:
    """Return how much less typical of their label flagged rows are, to another view, than the other rows.

    It is the AUROC of the log odds of the row's label, the mean over labels weighted by their flagged rows: 0.5 where
    flagged rows are as typical, as those of a mark are that was added regardless of the object.

    Args:
        probabilities: (n, L) by the other view.
        label: (n,) of the rows.
        is_flagged: (n,) boolean.
    """
    of_label = probabilities[np.arange(len(label)), label].astype(float).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    log_odds = np.log(of_label / (1 - of_label))
    total = 0.0
    num_rows = 0
    for index in np.unique(label):
        rows = label == index
        of_flagged = log_odds[rows & is_flagged]
        of_others = log_odds[rows & ~is_flagged]
        if min(len(of_flagged), len(of_others)) >= MIN_FLAGGED_ROWS:
            total += compute_auroc(of_others, of_flagged) * len(of_flagged)
            num_rows += len(of_flagged)
    return total / num_rows if num_rows else DEFAULT_TYPICALITY


def compute_statistics(
    label: Array,
    network_probabilities: Array,
    attribute: Array,
    probe_probabilities: Array,
    other_view_probabilities: Sequence[Array],
) -> CandidateStatistics:
    """Return the statistics of a candidate that ``EvidenceModel`` weighs.

    Args:
        label: (n,) of held-out rows.
        network_probabilities: (n, L) probabilities of ordinary networks.
        attribute: (n,) that the candidate estimates; a row is flagged where it differs from the label.
        probe_probabilities: (n, L) probabilities of the probe on the candidate's views.
        other_view_probabilities: (n, L) of each other view; none where the candidate sees a single thing, and so not
            the object.
    """
    network_label = network_probabilities.argmax(1)
    flagged = attribute != label
    num_flagged = int(flagged.sum())
    is_error = network_label != label
    follows = network_label == attribute
    error = float(is_error[~flagged].mean()) if num_flagged < len(label) else 1.0
    shrunk_share = float((follows[flagged].sum() + SHRINKAGE_ROWS * error) / (num_flagged + SHRINKAGE_ROWS))
    explained = (follows & flagged & is_error).sum()
    typicalities = [
        compute_typicality(probabilities, label, flagged)
        for probabilities in other_view_probabilities
        if compute_information_share(probabilities, label) >= MIN_VIEW_INFORMATION
    ]
    return CandidateStatistics(
        flagged=num_flagged,
        error=error,
        excess=shrunk_share - error,
        explains=float(explained / (is_error.sum() + SHRINKAGE_ERRORS)),
        plain_information=compute_information_share(probe_probabilities, label),
        typical=min(typicalities, default=DEFAULT_TYPICALITY if other_view_probabilities else 0.5),
    )


class EvidenceModel:
    """Logistic model from statistics of a candidate to the probability that correcting by it helps.

    ``lab/results/evidence`` holds the data that it was fitted on, and how accurate it is.

    Attributes:
        ends: Statistic -> value at which it counts nothing, and value from which it counts in full.
        weights: Kind of data -> weight of each statistic, in the same order, and the intercept.
        verdicts: Verdict -> probability above which it is given; ``none found`` below all.
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
    def predict_probability(cls, statistics: CandidateStatistics, kind: str) -> float:
        """Return the probability that correcting by a candidate helps.

        Args:
            statistics: Of the candidate.
            kind: Of the data: ``images``, ``texts`` or ``tables``.
        """
        *weights, score = cls.weights[kind]
        for weight, (name, (none, full)) in zip(weights, cls.ends.items(), strict=True):
            score += weight * min(1.0, max(0.0, (getattr(statistics, name) - none) / (full - none)))
        return round(1 / (1 + math.exp(-score)), 4)

    @classmethod
    def classify(cls, probability: float) -> Verdict:
        """Return the verdict on a candidate of this probability."""
        return next((verdict for verdict, threshold in cls.verdicts.items() if probability > threshold), "none found")
