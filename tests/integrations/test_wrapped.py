"""Other people's classifiers, fitted with the correction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from logit_correction import InputError, LogitCorrectionClassifier
from logit_correction.integrations.scikit_learn.wrapped import way_of

OPTIONS = {"shortcut": ["column:site"], "random_state": 0, "training": {"threads": 1}}


def rows(conflict: float, seed: int, n: int = 800) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A column ``site`` (-1, 1) that goes with the label but for some rows, beside an honest column."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    site = np.where(rng.random(n) < conflict, 1 - label, label)
    return pd.DataFrame({"blood": rng.normal(size=n) + 1.5 * label, "site": 2.0 * site - 1}), label, site


def worst(classifier: Any, seed: int = 1) -> float:
    X, y, site = rows(0.5, seed, 4000)
    right = classifier.predict(X) == np.where(y > 0, "ill", "well")
    return float(min(right[(y == label) & (site == other)].mean() for label in (0, 1) for other in (0, 1)))


@pytest.fixture(scope="module")
def planted() -> tuple[pd.DataFrame, np.ndarray]:
    X, y, _ = rows(0.05, 0)
    return X, np.where(y > 0, "ill", "well")


class WithMargin(ClassifierMixin, BaseEstimator):
    """Logistic regression that takes an offset for each row, as boosters do."""

    def fit(self, X: pd.DataFrame, y: np.ndarray, base_margin: np.ndarray | None = None) -> WithMargin:
        self.classes_, values = np.unique(y), np.c_[np.ones(len(X)), X]
        offset = np.zeros(len(X)) if base_margin is None else base_margin
        sign = 2.0 * y - 1

        def loss(weight: np.ndarray) -> float:
            return float(np.logaddexp(0, -sign * (values @ weight + offset)).sum() + 1e-3 * weight @ weight)

        self.weight_ = minimize(loss, np.zeros(3)).x
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return (np.c_[np.ones(len(X)), X] @ self.weight_ > 0).astype(int)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (LogisticRegression(), "sample weights (sample_weight)"),
        (WithMargin(), "logit offsets (base_margin)"),
        (
            make_pipeline(make_column_transformer((OneHotEncoder(), ["site"]), remainder="passthrough"), LinearSVC()),
            "sample weights (linearsvc__sample_weight)",
        ),
        (GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "sample weights (sample_weight)"),
    ],
    ids=["weights", "offsets", "pipeline", "search"],
)
def test_the_worst_group_gains(estimator: Any, said: str, planted: tuple) -> None:
    X, y = planted
    classifier = LogitCorrectionClassifier(estimator=estimator, **OPTIONS).fit(X, y)
    none = {**OPTIONS, "shortcut": [], "legitimate": ["column:site"], "epochs": 1}
    plain = LogitCorrectionClassifier(estimator=estimator, **none).fit(X, y)
    assert classifier.correction_ == said and plain.correction_.startswith(f"{said}, which change nothing: ")
    assert worst(classifier) > worst(plain) + 0.15
    assert classifier.group_report(X, y)["count"].sum() == 800
    assert hasattr(classifier, "predict_proba") == hasattr(estimator, "predict_proba")


def test_offsets_are_the_log_odds_of_the_groups(planted: tuple) -> None:
    seen = {}

    class Watched(WithMargin):
        def fit(self, X: Any, y: Any, base_margin: Any = None) -> Watched:
            seen["margin"] = base_margin
            return super().fit(X, y, base_margin)  # type: ignore[return-value]

    X, y = planted
    classifier = LogitCorrectionClassifier(estimator=Watched(), **OPTIONS).fit(X, y)
    log = np.log(classifier.group_prior_)
    np.testing.assert_allclose(seen["margin"], (log[1] - log[0])[classifier.attribute_], rtol=1e-4)


@pytest.mark.parametrize(
    ("library", "name", "options", "argument"),
    [
        ("xgboost", "XGBClassifier", {"n_jobs": 1}, "base_margin"),
        ("lightgbm", "LGBMClassifier", {"n_jobs": 1, "verbose": -1}, "init_score"),
        ("catboost", "CatBoostClassifier", {"silent": True, "allow_writing_files": False}, "baseline"),
    ],
)
def test_boosters_take_offsets(library: str, name: str, options: dict, argument: str, planted: tuple) -> None:
    booster = getattr(pytest.importorskip(library), name)(n_estimators=60, max_depth=2, **options)
    classifier = LogitCorrectionClassifier(estimator=booster, **OPTIONS).fit(*planted)
    assert classifier.correction_ == f"logit offsets ({argument})"
    assert worst(classifier) > 0.6
    assert classifier.predict_proba(planted[0]).mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.05)


class Booster(WithMargin):
    """Predicts as XGBoost does: adds the log odds of ``base_score``, by default the share of the labels."""

    def __init__(self, base_score: float | None = None) -> None:
        self.base_score = base_score

    def fit(self, X: Any, y: np.ndarray, base_margin: np.ndarray | None = None) -> Booster:
        super().fit(np.asarray(X), y, base_margin)
        share = float(np.mean(y)) if self.base_score is None else self.base_score
        self.weight_[0] += np.log(share / (1 - share))
        return self


@pytest.mark.parametrize("base_score", [None, 0.3])
def test_boosters_add_no_share_of_the_labels_in_pipelines_and_searches(base_score: float | None) -> None:
    X, y, _ = rows(0.05, 0)
    kept = (y == 0) | (np.arange(len(y)) % 4 == 0)  # few are ill
    X, y = X[kept].reset_index(drop=True), np.where(y[kept] > 0, "ill", "well")
    booster = Booster(base_score)
    pipeline = make_pipeline(make_column_transformer(("passthrough", ["blood", "site"])), booster)
    search = GridSearchCV(make_pipeline(booster), {"verbose": [False]}, cv=2)
    alone, *others = (
        LogitCorrectionClassifier(estimator=one, **OPTIONS).fit(X, y) for one in (booster, pipeline, search)
    )
    for other in others:
        np.testing.assert_array_equal(other.predict(X), alone.predict(X))
    inside = others[1].estimator_.best_estimator_[-1]
    assert [one.base_score for one in (alone.estimator_, others[0].estimator_[-1], inside)] == [base_score or 0.5] * 3


@pytest.mark.parametrize("criterion", [torch.nn.CrossEntropyLoss, torch.nn.NLLLoss, torch.nn.MultiMarginLoss])
def test_a_net_of_skorch(criterion: type, planted: tuple) -> None:
    skorch = pytest.importorskip("skorch")
    on_probabilities = [torch.nn.Softmax(dim=1)] if criterion is torch.nn.NLLLoss else []
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), *on_probabilities)
    net = skorch.NeuralNetClassifier(
        module, criterion=criterion, optimizer=torch.optim.Adam, lr=0.05, max_epochs=15, batch_size=100, verbose=0
    )
    X, y = planted[0].to_numpy(np.float32), planted[1]
    options = {**OPTIONS, "shortcut": ["column:1"]}
    if criterion is torch.nn.MultiMarginLoss:
        with pytest.raises(InputError, match="criterion is MultiMarginLoss"):
            LogitCorrectionClassifier(estimator=net, **options).fit(X, y)
        return
    classifier = LogitCorrectionClassifier(estimator=net, **options).fit(X, y)
    assert classifier.correction_ == "logit offsets (criterion)" and "get_loss" not in vars(classifier.estimator_)
    new, label, site = rows(0.5, 1, 4000)
    right = classifier.predict(new.to_numpy(np.float32)) == np.where(label > 0, "ill", "well")
    accuracies = [right[(label == one) & (site == other)].mean() for one in (0, 1) for other in (0, 1)]
    net.fit(X, (y == "well").astype(np.int64))
    plain = net.predict(new.to_numpy(np.float32)) == (label == 0)
    plain_accuracies = [plain[(label == one) & (site == other)].mean() for one in (0, 1) for other in (0, 1)]
    assert min(accuracies) > min(plain_accuracies) + 0.15
    assert classifier.predict_proba(X).shape == (800, 2)


def test_a_net_that_smooths_labels_evenly_is_refused() -> None:
    skorch = pytest.importorskip("skorch")
    criterion = torch.nn.CrossEntropyLoss
    net = skorch.NeuralNetClassifier(torch.nn.Linear(2, 2), criterion=criterion, criterion__label_smoothing=0.2)
    with pytest.raises(InputError, match=r"CrossEntropyLoss has label_smoothing=0\.2"):
        way_of(net)


def test_an_estimator_that_cannot_be_corrected(planted: tuple) -> None:
    with pytest.raises(InputError, match="KNeighborsClassifier takes neither offsets"):
        LogitCorrectionClassifier(estimator=KNeighborsClassifier(), **OPTIONS).fit(*planted)
    with pytest.raises(InputError, match="not yet fitted"):
        LogitCorrectionClassifier(estimator=LogisticRegression, **OPTIONS).fit(*planted)
