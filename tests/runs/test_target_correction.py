"""The correction learned from labels: against other solvers, invariances, and what it must leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from logit_correction.runs import target_correction


def draw_rows(seed: int, num_rows: int = 24, num_features: int = 6, num_labels: int = 3) -> tuple[np.ndarray, ...]:
    """Draw features, logits of a classifier, and labels that depend on both."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(num_rows, num_features))
    offset = generator.normal(size=(num_rows, num_labels))
    logits = offset + features @ generator.normal(size=(num_features, num_labels))
    noise = generator.gumbel(size=logits.shape)
    return features, offset, (logits + noise).argmax(axis=1)


# -- the estimate


@pytest.mark.parametrize("strength", [0.1, 1.0, 3.0])
def test_logit_correction_without_offset_equals_scikit_learn(strength: float) -> None:
    features, offset, label = draw_rows(0, 60)
    coefficients = target_correction.fit_logit_correction(features, np.zeros_like(offset), label, strength)
    oracle = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-8, max_iter=2000).fit(features, label)
    np.testing.assert_allclose(coefficients.T, oracle.coef_, atol=1e-3)


@pytest.mark.parametrize("num_features", [4, 80])
def test_logit_correction_has_zero_gradient(num_features: int) -> None:
    features, offset, label = draw_rows(1, 20, num_features)
    weight = np.random.default_rng(1).uniform(0.5, 2, 20)
    coefficients = target_correction.fit_logit_correction(features, offset, label, 0.3, weight)
    logits = offset + features @ coefficients
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    gradient = features.T @ (weight[:, None] * (probability - np.eye(3)[label])) + 0.3 * coefficients
    np.testing.assert_allclose(gradient, 0, atol=1e-3)
    np.testing.assert_allclose(coefficients.sum(axis=1), 0, atol=1e-4)  # a constant on all logits changes nothing


def test_logit_correction_equals_the_kernel_form() -> None:
    features, offset, label = draw_rows(2, 15, 40)
    kernel = features @ features.T
    target = np.eye(3)[label]

    def compute_loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        dual = flat.reshape(15, 3)
        logits = offset + kernel @ dual
        log_probability = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        loss = -(log_probability * target).sum() + 0.5 * np.sum(dual * (kernel @ dual))
        return loss, (kernel @ (np.exp(log_probability) - target + dual)).ravel()

    solution = minimize(compute_loss, np.zeros(45), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    coefficients = target_correction.fit_logit_correction(features, offset, label, 1.0)
    np.testing.assert_allclose(features @ coefficients, kernel @ solution.x.reshape(15, 3), atol=2e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_logit_correction_ignores_row_order_rotation_and_label_names(seed: int) -> None:
    features, offset, label = draw_rows(seed)
    generator = np.random.default_rng(seed)
    expected = features @ target_correction.fit_logit_correction(features, offset, label, 0.5)
    order = generator.permutation(len(label))
    rotation = np.linalg.qr(generator.normal(size=(6, 6)))[0]
    names = generator.permutation(3)
    position = np.argsort(names)
    coefficients = target_correction.fit_logit_correction(
        (features @ rotation)[order], offset[order][:, position], names[label][order], 0.5
    )
    np.testing.assert_allclose((features @ rotation) @ coefficients[:, names], expected, atol=2e-3)


def test_rows_of_weight_two_count_as_duplicates() -> None:
    features, offset, label = draw_rows(3)
    weight = np.ones(len(label))
    weight[:5] = 2
    twice = np.r_[np.arange(len(label)), :5]
    coefficients = target_correction.fit_logit_correction(features, offset, label, 0.5, weight)
    expected = target_correction.fit_logit_correction(features[twice], offset[twice], label[twice], 0.5)
    np.testing.assert_allclose(coefficients, expected, atol=1e-3)


def test_stronger_prior_gives_a_smaller_correction() -> None:
    features, offset, label = draw_rows(4)
    sizes = [
        np.linalg.norm(target_correction.fit_logit_correction(features, offset, label, strength))
        for strength in (0.01, 0.1, 1, 10, 1000)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.05


# -- choice of the strength


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40))
def test_folds_are_balanced_and_ignore_the_order_of_rows(seed: int, num_rows: int) -> None:
    _, offset, label = draw_rows(seed, num_rows)
    fold = target_correction.assign_folds(offset, label)
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 1
    order = np.random.default_rng(seed).permutation(num_rows)
    np.testing.assert_array_equal(target_correction.assign_folds(offset[order], label[order]), fold[order])
    for value in np.unique(label):
        of_label = np.bincount(fold[label == value], minlength=len(sizes))
        assert of_label.max() - of_label.min() <= 1


def test_guarded_correction_ignores_the_order_of_rows() -> None:
    features, offset, label = draw_rows(5, 40)
    mean = np.zeros(6)
    order = np.random.default_rng(0).permutation(40)
    first = target_correction.fit_guarded_logit_correction(features, offset, label, mean, 2.0)
    second = target_correction.fit_guarded_logit_correction(features[order], offset[order], label[order], mean, 2.0)
    assert first.strength == second.strength is not None
    np.testing.assert_allclose(first.coefficients, second.coefficients, atol=1e-3)


def test_guarded_correction_learns_new_rows_from_few_labels() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(400, 20))
    is_new = features[:, 0] > 0.8
    features[is_new, 0] += 3
    label = np.where(is_new, 0, (features[:, 1] > 0).astype(int))
    offset = np.stack([-3 * features[:, 1], 3 * features[:, 1]], axis=1)  # wrong on half of the new kind
    rows = generator.permutation(400)[:30]
    scale = target_correction.compute_feature_scale(features, np.zeros(20))
    correction = target_correction.fit_guarded_logit_correction(
        features[rows], offset[rows], label[rows], np.zeros(20), scale
    )
    assert correction.strength is not None
    before = (offset.argmax(axis=1) == label).mean()
    after = ((offset + correction(features)).argmax(axis=1) == label).mean()
    assert after > before + 0.02


def test_guarded_correction_leaves_a_good_classifier_unchanged() -> None:
    generator = np.random.default_rng(0)
    changed = 0
    for _ in range(40):
        features = generator.normal(size=(20, 30))
        offset = np.stack([-2 * features[:, 0], 2 * features[:, 0]], axis=1)
        label = (generator.random(20) < 1 / (1 + np.exp(-4 * features[:, 0]))).astype(int)  # offset is the truth
        correction = target_correction.fit_guarded_logit_correction(features, offset, label, np.zeros(30), 5.0)
        changed += correction.strength is not None
    assert changed <= 6


def test_guarded_correction_of_very_few_labels_is_zero() -> None:
    features, offset, label = draw_rows(6, 9)
    correction = target_correction.fit_guarded_logit_correction(features, offset, label, np.zeros(6), 1.0)
    assert correction.strength is None
    assert not correction(features).any()


def test_guarded_correction_accepts_a_single_label() -> None:
    features, offset, _ = draw_rows(7, 12)
    correction = target_correction.fit_guarded_logit_correction(features, offset, np.zeros(12, int), np.zeros(6), 1.0)
    assert np.isfinite(correction(features)).all()


def test_guarded_correction_accepts_constant_features() -> None:
    _, offset, label = draw_rows(8, 12)
    correction = target_correction.fit_guarded_logit_correction(np.ones((12, 6)), offset, label, np.ones(6), 1.0)
    assert not correction(np.ones((3, 6))).any()
