"""The classifier for scikit-learn: rows of every kind, what it keeps, and other people's classifiers inside."""

from __future__ import annotations

import pickle
import pickletools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from logit_correction import InputError, InputWarning, LogitCorrectionClassifier

QUICK: dict[str, Any] = {"epochs": 3, "random_state": 0, "training": {"threads": 1}}
#: Without the search, which takes most of the time and of which scikit-learn asks nothing.
CHECKED = LogitCorrectionClassifier(attributes="Online", epochs=20, training={"threads": 1})


@pytest.fixture(scope="module")
def fitted(sites: tuple[pd.DataFrame, np.ndarray]) -> LogitCorrectionClassifier:
    return LogitCorrectionClassifier(shortcut=["column:site"], **QUICK).fit(*sites)


@pytest.mark.slow
@parametrize_with_checks([CHECKED])
def test_all_that_scikit_learn_checks(estimator: LogitCorrectionClassifier, check: Callable[..., None]) -> None:
    check(estimator)


def test_what_was_found_is_kept(sites: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = sites
    assert fitted.classes_.tolist() == ["ill", "well"] and fitted.feature_names_in_.tolist() == ["blood", "site", "age"]
    assert fitted.evidence_["verdict"] == "shortcut" and fitted.correction_ == "the training of LC"
    assert (np.where(fitted.attribute_ == 0, "north", "south") == frame["site"]).all()
    assert (fitted.attribute_posterior_.argmax(1) == fitted.attribute_).mean() > 0.95
    counts = np.array([[((y == label) & (fitted.attribute_ == a)).sum() for a in (0, 1)] for label in ("ill", "well")])
    np.testing.assert_allclose(fitted.group_prior_, (counts + 0.3) / (600 + 1.2), rtol=1e-5)
    assert fitted.predict_proba(frame).sum(axis=1) == pytest.approx(np.ones(600))
    assert fitted.config_["epochs"] == fitted.n_epochs_ == 3


@pytest.mark.parametrize("estimator", ["Online", "XRM"])
def test_groups_that_a_network_estimates_may_be_asked_after_predictions(sites: tuple, estimator: str) -> None:
    frame, y = sites
    classifier = LogitCorrectionClassifier(attributes=estimator, **QUICK).fit(frame, y)
    before = classifier.group_report(frame, y)
    classifier.predict_proba(frame.head(3))
    pd.testing.assert_frame_equal(classifier.group_report(frame, y), before)


def test_groups_by_estimate_and_by_name(sites: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = sites
    named = fitted.group_report(frame, y, attribute=frame["site"])
    right = (fitted.predict(frame) == y)[(y == "ill") & (frame["site"] == "south")].mean()
    row = named[(named["label"] == "ill") & (named["attribute"] == "south")].iloc[0]
    assert row["accuracy"] == pytest.approx(right) and named["count"].sum() == 600
    estimated = fitted.group_report(frame, y)
    assert estimated["accuracy"].tolist() == pytest.approx(named["accuracy"].tolist())
    assert estimated["minority"].tolist() == [False, True, True, False]
    with pytest.raises(InputError, match="row 2: the label 'dead' is not in the training data"):
        fitted.group_report(frame.head(3), ["ill", "well", "dead"])


def test_any_metric_by_group(sites: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = sites
    metrics = ["precision", "auroc", "sklearn.metrics.f1_score"]
    groups = fitted.group_report(frame, y, attribute=frame["site"], metrics=metrics)
    row = groups[(groups["label"] == "well") & (groups["attribute"] == "south")].iloc[0]
    there = (frame["site"] == "south").to_numpy()
    own = y[there] == "well"
    said = fitted.predict(frame)[there] == "well"
    probability = fitted.predict_proba(frame)[there, 1]
    assert row["precision"] == pytest.approx(precision_score(own, said))
    assert row["f1_score"] == pytest.approx(f1_score(own, said))
    assert row["auroc"] == pytest.approx(roc_auc_score(own, probability))
    alone = LogitCorrectionClassifier(estimator=LinearSVC(), **QUICK).fit(frame[["blood", "age"]], y)
    with pytest.raises(InputError, match="predict_proba"):
        alone.group_report(frame[["blood", "age"]], y, attribute=frame["site"], metrics="auroc")


def test_what_is_stored_is_plain_and_no_file_is_left(
    sites: tuple, fitted: LogitCorrectionClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, y = sites
    places = {name: tmp_path / name for name in ("work", "cache", "temporary")}
    joblib.dump(fitted, tmp_path / "classifier")
    for again in (joblib.load(tmp_path / "classifier"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
        pd.testing.assert_frame_equal(again.group_report(frame, y), fitted.group_report(frame, y))
    content = pickletools.genops(pickle.dumps(fitted, protocol=0))
    named = {str(value).split()[0] for code, value, _ in content if code.name == "GLOBAL"}
    assert {name for name in named if name.startswith(("logit_correction", "torch"))} == {
        "logit_correction.integrations.sklearn"
    }
    for place in places.values():
        place.mkdir()
    monkeypatch.chdir(places["work"])
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(places["cache"]))
    monkeypatch.setattr("tempfile.tempdir", str(places["temporary"]))
    LogitCorrectionClassifier(**QUICK).fit(frame[:60], y[:60]).predict(frame)
    assert not any(list(place.iterdir()) for place in places.values())


def test_images_of_both_orders() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    images = (rng.integers(0, 100, (40, 3, 18, 20)) + 120 * y[:, None, None, None]).astype(np.uint8)
    classifier = LogitCorrectionClassifier(shortcut="colour", **QUICK)
    first = classifier.fit(images, y).predict_proba(images)
    last = classifier.fit(images.transpose(0, 2, 3, 1) / 255, y).predict_proba(images.transpose(0, 2, 3, 1) / 255)
    np.testing.assert_allclose(first, last, atol=1e-4)
    with pytest.raises(InputError, match=r"inputs have shape \(3, 20, 18\), but must have \(3, 18, 20\)"):
        classifier.predict(images.swapaxes(2, 3) / 255)
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        classifier.fit(images.astype(np.float32), y)


def test_texts() -> None:
    words = np.random.default_rng(0).choice(["sun", "rain", "wind"], (80, 4))
    y = np.array(["bad", "good"] * 40)
    texts = [f"{' '.join(row)} {'lovely' if label == 'good' else 'awful'}" for row, label in zip(words, y, strict=True)]
    classifier = LogitCorrectionClassifier(**QUICK).fit(texts, y)
    assert classifier.predict(["lovely sun", "awful rain"]).tolist() == ["good", "bad"]
    with pytest.raises(InputError, match="this model takes texts: give a list of texts"):
        classifier.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"0 rows: give at least one$"):
        classifier.predict([])


def test_frames(sites: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = sites
    with pytest.warns(InputWarning, match="column 'site' holds names .*, such as 'east'"):
        fitted.predict(frame.head(3).assign(site=["north", "east", "south"]))
    with pytest.raises(InputError, match="fit was given a data frame, and these rows have no columns"):
        fitted.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(InputError, match="row 2: column 'age' holds 'inf'"):
        LogitCorrectionClassifier(**QUICK).fit(frame.head(20).assign(age=[0.0, 1.0, np.inf, *range(17)]), y[:20])
    with pytest.raises(InputError, match=r"0 rows: give at least one$"):
        fitted.predict(frame[:0])
    with pytest.raises(InputError, match="epochs is an argument of the classifier"):
        LogitCorrectionClassifier(epochs=3, training={"epochs": 3}).fit(frame, y)
    with pytest.raises(InputError, match="Row 1 has no label"):
        LogitCorrectionClassifier(**QUICK).fit(frame.head(3), ["ill", None, "well"])
    numbers = frame[["blood", "age"]].head(200)
    holes = numbers.mask(np.random.default_rng(0).random(numbers.shape) < 0.2)
    found = LogitCorrectionClassifier(**QUICK).fit(holes, y[:200])
    assert "missing" in {view for look in found.evidence_["looks"] for view in look["views"]}
    assert found.predict(numbers).shape == found.predict(holes).shape == (200,)


def test_known_attributes_and_other_methods(sites: tuple) -> None:
    frame, y = sites
    known = LogitCorrectionClassifier(attributes="TrueAttributes", **QUICK).fit(frame, y, attribute=frame["site"])
    assert known.attribute_names_ == ["north", "south"] and known.evidence_ is None
    plain = LogitCorrectionClassifier("ERM", random_state=0, training={"epochs": 3, "threads": 1}).fit(frame, y)
    assert plain.n_epochs_ == 3
    assert plain.evidence_ is None and plain.group_prior_ is None and (plain.attribute_ == -1).all()
    with pytest.raises(InputError, match="needs the attribute of every training row"):
        LogitCorrectionClassifier("GroupDRO", **QUICK).fit(frame, y)
    with pytest.raises(InputError, match="give attribute="):
        plain.group_report(frame, y)


def test_searches_and_names_behind_a_column_transformer(sites: tuple) -> None:
    frame = sites[0][:150]
    y = sites[1][:150]
    columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["site"]), (StandardScaler(), ["blood"]))
    options = {**QUICK, "shortcut": "column:onehotencoder__site_north"}
    pipeline = make_pipeline(columns.set_output(transform="pandas"), LogitCorrectionClassifier(**options))
    search = GridSearchCV(pipeline, {"logitcorrectionclassifier__epochs": [1, 4]}, cv=2, scoring="balanced_accuracy")
    best = search.fit(frame, y).best_estimator_[-1]
    assert best.evidence_["views"] == ["column:onehotencoder__site_north"]
    with pytest.warns(InputWarning, match="set_output"):
        LogitCorrectionClassifier(**{**QUICK, "shortcut": "column:0"}).fit(columns.fit_transform(frame).to_numpy(), y)


# -- other people's classifiers

#: Heads on the column estimate the attribute, without a search.
INSIDE: dict[str, Any] = {"shortcut": "column:site", **QUICK}


def rows(conflict: float, seed: int, n: int = 800) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A column ``site`` (-1, 1) that tells the label but for some rows, beside an honest column."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    site = np.where(rng.random(n) < conflict, 1 - label, label)
    return pd.DataFrame({"blood": rng.normal(size=n) + 1.5 * label, "site": 2.0 * site - 1}), label, site


def worst_group(classifier: Any) -> float:
    X, y, site = rows(0.5, 1, 4000)
    right = classifier.predict(X) == y
    return float(min(right[(y == label) & (site == other)].mean() for label in (0, 1) for other in (0, 1)))


class Booster(ClassifierMixin, BaseEstimator):
    """Logistic regression with an offset for each row; adds the log odds of ``base_score``, as XGBoost does."""

    def __init__(self, base_score: float | None = None) -> None:
        self.base_score = base_score

    def fit(self, X: Any, y: np.ndarray, base_margin: np.ndarray | None = None) -> Booster:
        self.classes_ = np.unique(y)
        values = np.c_[np.ones(len(X)), X]
        sign = 2.0 * y - 1
        self.margin_ = np.zeros(len(X)) if base_margin is None else base_margin

        def loss(weight: np.ndarray) -> float:
            return float(np.logaddexp(0, -sign * (values @ weight + self.margin_)).sum() + 1e-3 * weight @ weight)

        share = float(np.mean(y)) if self.base_score is None else self.base_score
        self.weight_ = minimize(loss, np.zeros(3)).x
        self.weight_[0] += np.log(share / (1 - share))
        return self

    def predict(self, X: Any) -> np.ndarray:
        return (np.c_[np.ones(len(X)), X] @ self.weight_ > 0).astype(int)


ENCODED = make_column_transformer((OneHotEncoder(), ["site"]), remainder="passthrough")


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (Booster(), "logit offsets (base_margin)"),
        (make_pipeline(ENCODED, LinearSVC()), "sample weights (linearsvc__sample_weight)"),
        (GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "sample weights (sample_weight)"),
    ],
    ids=["offsets", "pipeline", "search"],
)
def test_the_worst_group_gains(estimator: Any, said: str) -> None:
    X, y, _ = rows(0.05, 0)
    classifier = LogitCorrectionClassifier(estimator=estimator, **INSIDE).fit(X, y)
    assert classifier.correction_ == said
    assert worst_group(classifier) > worst_group(clone(estimator).fit(X, y)) + 0.15
    assert classifier.group_report(X, y)["count"].sum() == 800
    assert hasattr(classifier, "predict_proba") == hasattr(estimator, "predict_proba")


def test_where_nothing_is_found_the_estimator_is_fitted_as_it_is() -> None:
    X, y, _ = rows(0.5, 0, 60)
    classifier = LogitCorrectionClassifier(estimator=LogisticRegression(), **QUICK).fit(X, y)
    assert classifier.correction_.startswith("sample weights (sample_weight), which change nothing: ")
    np.testing.assert_array_equal(classifier.predict(X), LogisticRegression().fit(X, y).predict(X))


def test_boosters_take_the_log_odds_of_the_groups_and_add_no_share_of_the_labels() -> None:
    X, y, _ = rows(0.05, 0)
    kept = (y == 0) | (np.arange(len(y)) % 4 == 0)  # few are ill
    X = X[kept].reset_index(drop=True)
    y = y[kept]
    alone = LogitCorrectionClassifier(estimator=Booster(), **INSIDE).fit(X, y)
    log = np.log(alone.group_prior_)
    np.testing.assert_allclose(alone.estimator_.margin_, (log[1] - log[0])[alone.attribute_], rtol=1e-4)
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), Booster())
    other = LogitCorrectionClassifier(estimator=pipeline, **INSIDE).fit(X, y)
    np.testing.assert_array_equal(other.predict(X), alone.predict(X))
    assert alone.estimator_.base_score == other.estimator_[-1].base_score == 0.5


@pytest.mark.slow
def test_in_the_example_the_worst_group_gains_ten_points(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "scikit_learn_pipeline.py"
    worst = runpy.run_path(str(example))["main"]([0], epochs=5)["worst group"]
    assert "seed 0: shortcut: The column `form_version" in capsys.readouterr().out
    ours = worst.pop("LogitCorrectionClassifier")
    assert len(worst) == 2 and ours > worst.max() + 10


def test_labels_that_look_alike_are_refused_as_in_files() -> None:
    with pytest.raises(InputError, match="write them alike"):
        LogitCorrectionClassifier(method="ERM", epochs=1).fit(np.eye(6)[:, :2], ["\u00e9", "e\u0301", "a"] * 2)
