"""Published methods that select one of several classifiers with few labels, or retrain its last layer on them.

All are written from the descriptions in the papers, to be compared with the weighting of candidates by labels
(``compare_selection.py``). Each takes what the classifiers predict on a pool of unlabelled rows, asks for
the labels of some of them, one by one where the method is sequential, and returns the selected classifier.

- ``select_by_coda``: CODA, consensus-driven active model selection (Kay et al., ICCV 2025).
- ``select_by_model_selector``: Model Selector (Okanovic et al., AISTATS 2025).
- ``select_by_variance_minimization``: VMA (Matsuura and Hara, AISTATS 2023).
- ``select_by_random_rows``: the classifier that is right most often on rows drawn uniformly.
- ``retrain_last_layer``: DFR, deep feature reweighting (Kirichenko et al., ICLR 2023), on the labelled rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import betaln, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from logit_correction.types import Array

#: CODA's weight of the consensus in the prior, of a label, and what the prior is multiplied by: the authors' defaults.
CODA_CONSENSUS_WEIGHT = 0.1
CODA_LEARNING_RATE = 0.01
CODA_PRIOR_FACTOR = 2.0

#: Points at which CODA integrates over accuracies.
CODA_GRID_POINTS = 128

#: Model Selector's error probability of the best classifier: the authors' default.
MODEL_SELECTOR_EPSILON = 0.46

#: Inverse strengths of the penalty among which DFR selects.
DFR_INVERSE_PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)


def select_by_coda(logits: Array, label: Array, label_counts: Sequence[int], seed: int) -> list[int]:
    """Return the classifier that CODA selects after so many labels.

    Each classifier has a confusion matrix with a Dirichlet prior for each true label: a diagonal one plus a tenth of
    its confusion with the consensus, the mean of all probabilities. The next label is that of the row with the
    greatest expected reduction of the entropy of P(best), equation 17 of the paper.

    Args:
        logits: (C, M, L) of the classifiers on the pool.
        label: (M,) true labels of the pool, of which only those that are asked for are read.
        label_counts: Numbers of labels, rising.
        seed: Breaks ties between rows.

    Returns:
        For each of the counts the position of the selected classifier.
    """
    generator = np.random.default_rng(seed)
    num_classifiers, _, num_labels = logits.shape
    probability = softmax(logits.astype(np.float64), axis=2)
    prediction = probability.argmax(axis=2)
    alpha = _build_coda_prior(probability)
    majority = np.array([np.bincount(column, minlength=num_labels).argmax() for column in prediction.T])
    is_open = (prediction != majority).any(axis=0)
    if not is_open.any():
        is_open[:] = True
    selected = dict[int, int]()
    for number in range(max(label_counts) + 1):
        row_probability, label_share = _estimate_label_probabilities(alpha, probability)
        best_by_label = np.stack(
            [_compute_probability_best(*_get_beta_parameters_of_accuracy(alpha, y)) for y in range(num_labels)]
        )
        mixture = label_share @ best_by_label
        selected[number] = int(mixture.argmax())
        rows = np.flatnonzero(is_open)
        if not len(rows) or number == max(label_counts):
            break
        gain = np.full(len(rows), float(_compute_entropy(mixture)))
        for y in range(num_labels):
            patterns, inverse = np.unique(prediction[:, rows] == y, axis=1, return_inverse=True)
            right, wrong = _get_beta_parameters_of_accuracy(alpha, y)
            best = _compute_probability_best(right + patterns.T, wrong + ~patterns.T)
            entropy = _compute_entropy(mixture + label_share[y] * (best - best_by_label[y]))
            gain -= row_probability[rows, y] * entropy[inverse.ravel()]
        row = rows[generator.choice(np.flatnonzero(gain >= gain.max() - 1e-12))]
        is_open[row] = False
        alpha[np.arange(num_classifiers), label[row], prediction[:, row]] += CODA_LEARNING_RATE
    return [selected.get(count, selected[max(selected)]) for count in label_counts]


def _build_coda_prior(probability: Array) -> Array:
    """Return the parameters (C, L, L) of the Dirichlet priors of confusion matrices, true label by predicted label."""
    num_labels = probability.shape[2]
    consensus = np.eye(num_labels)[probability.mean(axis=0).argmax(axis=1)]
    confusion = np.einsum("my,cmp->cyp", consensus, probability)
    confusion /= confusion.sum(axis=2, keepdims=True).clip(1e-6)
    diagonal = np.full((num_labels, num_labels), 1 / (num_labels - 1))
    np.fill_diagonal(diagonal, 1.0)
    return np.asarray(CODA_PRIOR_FACTOR * (diagonal + CODA_CONSENSUS_WEIGHT * confusion))


def _estimate_label_probabilities(alpha: Array, probability: Array) -> tuple[Array, Array]:
    """Return the probability (M, L) of each label of each row, and their shares (L,) in the pool."""
    estimate = np.einsum("cyp,cmp->my", alpha, probability)
    estimate /= estimate.sum(axis=1, keepdims=True)
    return estimate, estimate.mean(axis=0)


def _get_beta_parameters_of_accuracy(alpha: Array, label: int) -> tuple[Array, Array]:
    """Return the beta parameters (C,) and (C,) of the classifiers' accuracy on rows of a true label."""
    right = alpha[:, label, label]
    return right, alpha[:, label].sum(axis=1) - right


def _compute_probability_best(right: Array, wrong: Array) -> Array:
    """Return the probability (..., C) of each classifier to be the most accurate, by beta parameters (..., C).

    It is the integral of ``f_k(x) prod_{l != k} F_l(x)`` over the accuracies x, on a grid (equation 5).
    """
    grid = np.linspace(1e-6, 1 - 1e-6, CODA_GRID_POINTS)
    log_density = (right[..., None] - 1) * np.log(grid) + (wrong[..., None] - 1) * np.log1p(-grid)
    log_density -= betaln(right, wrong)[..., None]
    density = np.exp(log_density)
    steps = (density[..., 1:] + density[..., :-1]) / 2 * np.diff(grid)
    cumulative = np.concatenate([np.zeros_like(density[..., :1]), np.cumsum(steps, axis=-1)], axis=-1)
    log_cumulative = np.log(cumulative.clip(1e-30))
    product = np.exp(log_cumulative.sum(axis=-2, keepdims=True) - log_cumulative)
    best = np.trapezoid(density * product, grid, axis=-1)
    return np.asarray(best / best.sum(axis=-1, keepdims=True).clip(1e-30))


def _compute_entropy(probability: Array) -> Array:
    clipped = probability.clip(1e-12)
    return np.asarray(-(clipped * np.log2(clipped)).sum(axis=-1))


def select_by_model_selector(prediction: Array, label: Array, label_counts: Sequence[int], seed: int) -> list[int]:
    """Return the classifier that Model Selector selects after so many labels.

    The posterior of "classifier k is the best" is multiplied by ``(1 - epsilon) / epsilon`` where k is right. The next
    label is that of the row with the smallest expected entropy of the posterior, all labels being equally likely.

    Args:
        prediction: (C, M) predicted labels of the classifiers on the pool.
        label: (M,) true labels of the pool, of which only those that are asked for are read.
        label_counts: Numbers of labels, rising.
        seed: Breaks ties between rows.

    Returns:
        For each of the counts the position of the selected classifier.
    """
    generator = np.random.default_rng(seed)
    ratio = (1 - MODEL_SELECTOR_EPSILON) / MODEL_SELECTOR_EPSILON
    num_classifiers, num_rows = prediction.shape
    posterior = np.full(num_classifiers, 1 / num_classifiers)
    is_open = np.ones(num_rows, dtype=bool)
    labels = np.arange(max(prediction.max(), label.max()) + 1)
    factor = np.where(prediction[:, :, None] == labels, ratio, 1.0)  # (C, M, L)
    selected = dict[int, int]()
    for number in range(max(label_counts) + 1):
        likeliest = np.flatnonzero(posterior >= posterior.max() * (1 - 1e-9))
        selected[number] = int(generator.choice(likeliest))
        rows = np.flatnonzero(is_open)
        if not len(rows) or number == max(label_counts):
            break
        updated = posterior[:, None, None] * factor[:, rows]
        updated /= updated.sum(axis=0)
        entropy = _compute_entropy(np.moveaxis(updated, 0, -1)).mean(axis=1)
        row = rows[generator.choice(np.flatnonzero(entropy <= entropy.min() + 1e-12))]
        is_open[row] = False
        posterior = posterior * factor[:, row, label[row]]
        posterior /= posterior.sum()
    return [selected.get(count, selected[max(selected)]) for count in label_counts]


def select_by_variance_minimization(logits: Array, label: Array, label_counts: Sequence[int], seed: int) -> list[int]:
    """Return the classifier that VMA selects after so many labels.

    Rows are drawn one by one, each with a probability in proportion to how far the losses of all pairs of classifiers
    are expected to differ on it, by the mean of all probabilities. The loss of each classifier is estimated by the
    LURE weights (Farquhar et al., ICLR 2021), which correct for the order in which rows were drawn.

    Args:
        logits: (C, M, L) of the classifiers on the pool.
        label: (M,) true labels of the pool, of which only those that are asked for are read.
        label_counts: Numbers of labels, rising.
        seed: Seed of the draws.

    Returns:
        For each of the counts the position of the selected classifier.
    """
    generator = np.random.default_rng(seed)
    probability = softmax(logits.astype(np.float64), axis=2)
    prediction = probability.argmax(axis=2)
    num_classifiers, num_rows = prediction.shape
    expected_loss = 1 - probability.mean(axis=0)[np.arange(num_rows), prediction]
    difference = np.zeros(num_rows)
    for number in range(num_classifiers):
        difference += np.abs(expected_loss[number] - expected_loss[number + 1 :]).sum(axis=0)
    rows = list[int]()
    probabilities = list[float]()
    is_open = np.ones(num_rows, dtype=bool)
    for _ in range(min(max(label_counts), num_rows)):
        size = np.where(is_open, difference, 0.0)
        if size.sum() < 1e-12:
            size = is_open.astype(np.float64)
        size /= size.sum()
        row = int(generator.choice(num_rows, p=size))
        rows.append(row)
        probabilities.append(float(size[row]))
        is_open[row] = False
    is_wrong = prediction[:, rows] != label[rows]
    selected = list[int]()
    for count in label_counts:
        drawn = min(count, len(rows))
        turn = np.arange(1, drawn + 1)
        scaled = 1 / ((num_rows - turn + 1) * np.array(probabilities[:drawn])) - 1
        weight = 1 + (num_rows - drawn) / np.maximum(num_rows - turn, 1) * scaled
        selected.append(int((is_wrong[:, :drawn] * weight).sum(axis=1).argmin()))
    return selected


def select_by_random_rows(prediction: Array, label: Array, label_counts: Sequence[int], seed: int) -> list[int]:
    """Return the classifier that is right most often on so many rows drawn uniformly, the first of several.

    Args:
        prediction: (C, M) predicted labels of the classifiers on the pool.
        label: (M,) true labels of the pool, of which only those that are asked for are read.
        label_counts: Numbers of labels, rising.
        seed: Seed of the draw.

    Returns:
        For each of the counts the position of the selected classifier.
    """
    order = np.random.default_rng(seed).permutation(len(label))
    is_right = prediction[:, order] == label[order]
    return [int(is_right[:, :count].sum(axis=1).argmax()) for count in label_counts]


def retrain_last_layer(
    features: Array, label: Array, labelled_positions: Array, num_labels: int, scale: Array
) -> Array | None:
    """Return logits (M, L) of a last layer that is trained anew on labelled rows of the target data alone.

    Args:
        features: (M, F) in front of the last layer of ERM.
        label: (M,) true labels, of which only those of ``labelled_positions`` are read.
        labelled_positions: Positions of the labelled rows.
        num_labels: L.
        scale: (F,) standard deviations over the training rows, by which features are divided.

    Returns:
        The logits; None where the rows have one label alone, so that nothing can be trained. The strength of the
        penalty is that with the best accuracy over folds of the rows.
    """
    kinds, count = np.unique(label[labelled_positions], return_counts=True)
    if len(kinds) < 2:
        return None
    scale = np.where(scale > 1e-6, scale, 1.0)
    scaled = features[labelled_positions] / scale
    mean = scaled.mean(axis=0)
    num_folds = int(min(5, count.min()))
    inverse_penalty = 0.1
    if num_folds >= 2:
        folds = StratifiedKFold(num_folds, shuffle=True, random_state=0)
        accuracy = [
            cross_val_score(
                LogisticRegression(C=c, max_iter=300),
                scaled - mean,
                label[labelled_positions],
                cv=folds,
            ).mean()
            for c in DFR_INVERSE_PENALTIES
        ]
        inverse_penalty = DFR_INVERSE_PENALTIES[int(np.argmax(accuracy))]
    model = LogisticRegression(C=inverse_penalty, max_iter=300).fit(scaled - mean, label[labelled_positions])
    logits = np.full((len(features), num_labels), -1e3)
    decision = features @ (model.coef_ / scale).T + model.intercept_ - model.coef_ @ mean
    logits[:, kinds] = np.hstack([-decision / 2, decision / 2]) if len(kinds) == 2 else decision
    return logits
