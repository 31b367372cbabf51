"""Learn a small correction of a classifier's logits from a few labelled target rows.

Averaging candidates helps where a spurious correlation has changed. Where the inputs themselves have changed, such as
mails of a kind that was never trained on, no candidate is right and only the labels can help. With 10 to 50 labels a
new classifier cannot be trained, but the given one can be corrected: a linear function of the network's features is
added to its logits,

    z(x) = offset(x) + ((phi(x) - mean) / scale) B,     B ~ N(0, I / strength),

with ``offset`` the logits of the average, ``phi`` the features in front of the network's linear head, and ``B`` the
maximum a posteriori estimate from the labels. This is logistic regression with an offset, as few-shot adaptation by a
linear probe on frozen features, shrunk to the given classifier instead of to zero. Retraining the last layer on
target rows (DFR, Kirichenko et al., ICLR 2023) starts from nothing and needs many more labels.

The strength is chosen by cross-validation over the labelled rows, "no correction" included, and a correction has to
be better than none with a confidence of 90 %: where nothing is to be won, nothing is changed. It is judged by the Brier
score, which is bounded. By cross-entropy a row of which the given classifier is wrongly certain outweighs all others,
and a correction that only makes predictions less certain seems to be better.

- ``LogitCorrection``: the correction; call it with features.
- ``fit_logit_correction``: the estimate for one strength.
- ``cross_validate_strengths``, ``select_strength``: the choice of the strength.
- ``fit_guarded_logit_correction``: both; what the fix of an audit does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import t as student_t

from logit_correction.types import Array

#: Strengths of the prior that are tried, from little to much correction. Features have mean squared length 1.
STRENGTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)

#: Folds of the cross-validation over the labelled rows.
NUM_FOLDS = 5

#: Confidence with which a correction must be better than none in the cross-validation (one-sided t interval): the least
#: of .8, .85, .9, .93 by which no planted set or control lost more than half a point by 10, 20 or 50 labels.
GUARD_CONFIDENCE = 0.9

#: Power of the inverse inclusion probabilities by which labelled rows count: 1 would be unbiased for all target rows, 0
#: has the least variance, but overrates rows that were asked about since the candidates contradict ERM there.
WEIGHT_POWER = 0.5

#: Fewest labelled rows from which anything is learned: with 5, a fold of one row each, sets lost up to 1.6 points.
MIN_LABELLED_ROWS = 10

#: Iterations of the optimizer; the problem is convex and has at most as many unknowns per label as labelled rows.
MAX_ITERATIONS = 200

#: Singular values below this share of the greatest are rounding errors.
RELATIVE_RANK_TOLERANCE = 1e-7


@dataclass(frozen=True)
class LogitCorrection:
    """A linear function of a network's features that is added to its logits.

    Attributes:
        coefficients: (F, L) for the scaled features; zeros where nothing was learned.
        mean: (F,) mean of the features over the training rows.
        scale: Root mean squared length of the centred features of the target rows.
        strength: Strength of the prior that cross-validation chose; None where no correction is better.
    """

    coefficients: Array
    mean: Array
    scale: float
    strength: float | None

    def __call__(self, features: Array) -> Array:
        """Return what to add to the logits (n, L) for features (n, F)."""
        return np.asarray((features - self.mean) / self.scale @ self.coefficients)


def fit_logit_correction(
    features: Array, offset: Array, label: Array, strength: float, weight: Array | None = None
) -> Array:
    """Return the coefficients of the correction that are most probable after the labels.

    They minimise ``sum_i w_i CE(offset_i + x_i B, y_i) + strength / 2 ||B||^2``, which is convex. The solution lies in
    the span of the rows (representer theorem), so the problem is solved in the coordinates of the rows' singular value
    decomposition: at most ``n L`` unknowns, however many features there are.

    Args:
        features: (n, F) of the labelled rows, centred and scaled.
        offset: (n, L) logits of the classifier to correct.
        label: (n,) labels, 0..L - 1.
        strength: Strength of the Gaussian prior, above 0. The smaller, the more is corrected.
        weight: (n,) weights of the rows; None weights them equally.

    Returns:
        (F, L) coefficients. They sum to 0 over the labels.

    >>> features = np.array([[1.0], [-1.0]])
    >>> coefficients = fit_logit_correction(features, np.zeros((2, 2)), np.array([1, 0]), strength=1.0)
    >>> coefficients.round(2)
    array([[-0.52,  0.52]])
    """
    weight = np.ones(len(label)) if weight is None else weight
    left, singular, basis = np.linalg.svd(features, full_matrices=False)
    rank = int((singular > RELATIVE_RANK_TOLERANCE * max(singular[0], 1e-300)).sum())
    if rank == 0:  # features that are all 0 teach nothing
        return np.zeros((features.shape[1], offset.shape[1]))
    basis = basis[:rank]
    coordinates = left[:, :rank] * singular[:rank]
    target = np.eye(offset.shape[1])[label]

    def compute_loss(flat: Array) -> tuple[float, Array]:
        coefficients = flat.reshape(rank, -1)
        logits = offset + coordinates @ coefficients
        log_probability = log_softmax(logits, axis=1)
        loss = -(weight * (log_probability * target).sum(axis=1)).sum() + strength / 2 * np.square(flat).sum()
        residual = weight[:, None] * (np.exp(log_probability) - target)
        return loss, (coordinates.T @ residual + strength * coefficients).ravel()

    start = np.zeros(rank * offset.shape[1])
    options = {"maxiter": MAX_ITERATIONS, "ftol": 1e-12, "gtol": 1e-7}
    solution = minimize(compute_loss, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(basis.T @ solution.x.reshape(rank, -1))


def compute_brier_score(logits: Array, label: Array) -> Array:
    """Return the Brier score (n,) of logits (n, L) for labels (n,): ``sum_y (p_y - [y is the label])^2``, from 0 to 2.

    >>> compute_brier_score(np.array([[0.0, 0.0]]), np.array([1]))
    array([0.5])
    """
    probability = np.exp(log_softmax(logits, axis=1))
    return np.asarray(np.square(probability - np.eye(logits.shape[1])[label]).sum(axis=1))


def assign_folds(offset: Array, label: Array) -> Array:
    """Return the fold of each labelled row, the same in any order of the rows.

    Rows are dealt out in the order of label and Brier score, so each fold has its share of every label and of rows
    that the given classifier gets wrong.

    Args:
        offset: (n, L) logits of the classifier to correct.
        label: (n,) labels.

    Returns:
        (n,) numbers from 0.

    >>> assign_folds(np.zeros((10, 2)), np.arange(10) % 2)
    array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    """
    order = np.lexsort((compute_brier_score(offset, label), label))
    fold = np.empty(len(label), dtype=np.int64)
    fold[order] = np.arange(len(label)) % min(NUM_FOLDS, len(label))
    return fold


def cross_validate_strengths(features: Array, offset: Array, label: Array, weight: Array) -> Array:
    """Return how much each of ``STRENGTHS`` adds to the Brier score of the given classifier on held-out rows.

    Args:
        features: (n, F) of the labelled rows, centred and scaled.
        offset: (n, L) logits of the classifier to correct.
        label: (n,) labels.
        weight: (n,) weights of the rows, in training and in the mean.

    Returns:
        (S, n) differences of Brier scores on held-out rows times the weights, negative where the correction helps.
    """
    features = features @ np.linalg.svd(features, full_matrices=False)[2].T  # the rows span few of the F dimensions
    fold = assign_folds(offset, label)
    loss_without = compute_brier_score(offset, label)
    excess = np.empty((len(STRENGTHS), len(label)))
    for number, strength in enumerate(STRENGTHS):
        logits = np.array(offset, dtype=np.float64)
        for held_out in (fold == value for value in range(fold.max() + 1)):
            seen = ~held_out
            coefficients = fit_logit_correction(features[seen], offset[seen], label[seen], strength, weight[seen])
            logits[held_out] += features[held_out] @ coefficients
        excess[number] = weight * (compute_brier_score(logits, label) - loss_without)
    return excess


def select_strength(excess_losses: Array) -> int | None:
    """Return the position of the strength that cross-validation prefers, or None where no correction is better.

    A strength is better than none if the upper end of the one-sided t interval of its mean difference is below 0.

    Args:
        excess_losses: (S, n) differences of Brier scores, as ``cross_validate_strengths`` returns them.

    Returns:
        The position of the lowest upper end if it is below 0, else None.

    >>> excess = np.array([[-0.1, -0.2, -0.1, -0.2], [-2.0, 0.5, -1.0, 0.5]])
    >>> select_strength(excess)
    0
    >>> select_strength(excess[1:]) is None
    True
    """
    num_rows = excess_losses.shape[1]
    standard_error = excess_losses.std(axis=1, ddof=1) / np.sqrt(num_rows)
    upper_end = excess_losses.mean(axis=1) + student_t(num_rows - 1).ppf(GUARD_CONFIDENCE) * standard_error
    best = int(upper_end.argmin())
    return best if upper_end[best] < 0 else None


def fit_guarded_logit_correction(
    features: Array,
    offset: Array,
    label: Array,
    mean: Array,
    scale: float,
    weight: Array | None = None,
) -> LogitCorrection:
    """Learn a correction of a classifier's logits from labelled target rows, or none where it would not help.

    Use it after the candidates were averaged: ``offset + correction(features)`` are the logits to predict with.

    Args:
        features: (n, F) features of the labelled rows in front of the network's head.
        offset: (n, L) logits of the classifier on these rows.
        label: (n,) labels, 0..L - 1.
        mean: (F,) mean of the features over the training rows.
        scale: Root mean squared length of the centred features of all target rows; see ``compute_feature_scale``.
        weight: (n,) number of target rows for which each labelled row stands, of any scale, such as the inverse of its
            inclusion probability; its square root counts. None weights all equally.

    Returns:
        The correction. Its coefficients are 0 and its ``strength`` None where none is better.

    >>> generator = np.random.default_rng(0)
    >>> features = generator.standard_normal((40, 3))
    >>> label = (features[:, 0] > 0).astype(int)
    >>> correction = fit_guarded_logit_correction(features, np.zeros((40, 2)), label, np.zeros(3), 1.0)
    >>> bool((correction(features).argmax(axis=1) == label).mean() > 0.9)
    True
    """
    coefficients = np.zeros((features.shape[1], offset.shape[1]))
    if len(label) < MIN_LABELLED_ROWS:
        return LogitCorrection(coefficients, mean, scale, None)
    scaled = (features - mean) / scale
    weight = np.ones(len(label)) if weight is None else weight**WEIGHT_POWER
    weight = weight / weight.mean()  # so that the strengths mean the same
    position = select_strength(cross_validate_strengths(scaled, offset, label, weight))
    if position is None:
        return LogitCorrection(coefficients, mean, scale, None)
    coefficients = fit_logit_correction(scaled, offset, label, STRENGTHS[position], weight)
    return LogitCorrection(coefficients, mean, scale, STRENGTHS[position])


def compute_feature_scale(features: Array, mean: Array, weight: Array | None = None) -> float:
    """Return the root mean squared length of centred features: what ``LogitCorrection`` divides by.

    Args:
        features: (n, F) features of all target rows, or of labelled ones that stand for them.
        mean: (F,) mean over the training rows.
        weight: (n,) number of target rows for which each row stands; None weights them equally.

    >>> compute_feature_scale(np.array([[3.0, 4.0], [0.0, 5.0]]), np.zeros(2))
    5.0
    """
    squared_length = np.square(features - mean).sum(axis=1)
    return float(max(np.sqrt(np.average(squared_length, weights=weight)), 1e-12))
