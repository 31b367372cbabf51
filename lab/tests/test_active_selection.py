"""Published methods of active model selection: they find the best classifier, and do what their papers say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import beta

from tests.conftest import import_lab_script

active_selection = import_lab_script("active_selection")

COUNTS = (0, 5, 20, 80)


def draw_classifiers(seed: int, accuracies: tuple[float, ...], num_rows: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Draw logits (C, M, 3) of classifiers of given accuracies, and the labels (M,)."""
    generator = np.random.default_rng(seed)
    label = generator.integers(3, size=num_rows)
    wrong = (label + generator.integers(1, 3, (len(accuracies), num_rows))) % 3
    is_right = generator.random(wrong.shape) < np.array(accuracies)[:, None]
    return 2 * np.eye(3)[np.where(is_right, label, wrong)], label


def by_predictions(select: Callable[..., list[int]]) -> Callable[..., list[int]]:
    return lambda logits, label, counts, seed: select(logits.argmax(axis=2), label, counts, seed)


METHODS: dict[str, Callable[..., list[int]]] = {
    "CODA": active_selection.select_by_coda,
    "Model Selector": by_predictions(active_selection.select_by_model_selector),
    "VMA": active_selection.select_by_variance_minimization,
    "random rows": by_predictions(active_selection.select_by_random_rows),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_finds_the_best_of_unlike_classifiers(name: str) -> None:
    found = list[int]()
    for seed in range(5):
        logits, label = draw_classifiers(seed, (0.5, 0.9, 0.6))
        selected = METHODS[name](logits, label, COUNTS, seed)
        assert len(selected) == len(COUNTS)
        assert set(selected) <= {0, 1, 2}
        assert selected == METHODS[name](logits, label, COUNTS, seed)
        found.append(selected[-1])
    assert found.count(1) >= 4


@pytest.mark.parametrize("name", METHODS)
def test_more_labels_than_rows_are_no_error(name: str) -> None:
    logits, label = draw_classifiers(0, (0.5, 0.9), num_rows=6)
    assert len(METHODS[name](logits, label, (5, 50), 0)) == 2


def test_coda_integrates_the_probability_of_being_the_most_accurate() -> None:
    right = np.array([4.0, 6.0, 3.0])
    wrong = np.array([3.0, 2.0, 5.0])
    draws = beta(right, wrong).rvs((200_000, 3), random_state=0)
    expected = np.bincount(draws.argmax(axis=1), minlength=3) / len(draws)
    np.testing.assert_allclose(active_selection._compute_probability_best(right, wrong), expected, atol=5e-3)


def test_model_selector_goes_by_the_labels_that_each_classifier_has_right() -> None:
    logits, label = draw_classifiers(1, (0.5, 0.7, 0.9))
    prediction = logits.argmax(axis=2)
    selected = active_selection.select_by_model_selector(prediction, label, (len(label),), 0)
    assert selected == [int((prediction == label).sum(axis=1).argmax())]


def test_a_last_layer_is_retrained_on_the_rows_alone() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 4))
    label = (features[:, 1] > 0).astype(int)
    rows = np.arange(40)
    logits: Any = active_selection.retrain_last_layer(features, label, rows, 2, np.ones(4))
    assert (logits.argmax(axis=1) == label).mean() > 0.85
    unseen = label.copy()
    unseen[40:] = 0
    np.testing.assert_array_equal(active_selection.retrain_last_layer(features, unseen, rows, 2, np.ones(4)), logits)
    assert softmax(logits, axis=1).shape == (200, 2)
    assert active_selection.retrain_last_layer(features, label, np.flatnonzero(label)[:5], 2, np.ones(4)) is None
