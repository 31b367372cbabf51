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
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from logit_correction import InputError, InputWarning, LogitCorrectionClassifier, train

from ..shortcuts.conftest import use_online_candidates_only

QUICK: dict[str, Any] = {"epochs": 3, "random_state": 0, "training": {"threads": 1}}
#: Without the search, which takes most of the time and is not part of scikit-learn's checks.
CHECKED = LogitCorrectionClassifier(attributes="Online", epochs=20, training={"threads": 1})


@pytest.fixture(scope="module")
def fitted_classifier(sites: tuple[pd.DataFrame, np.ndarray]) -> LogitCorrectionClassifier:
    return LogitCorrectionClassifier(shortcut=["column:site"], **QUICK).fit(*sites)


@pytest.mark.slow
@parametrize_with_checks([CHECKED])
def test_estimator_passes_scikit_learn_checks(estimator: LogitCorrectionClassifier, check: Callable[..., None]) -> None:
    check(estimator)


def test_fitted_attributes_hold_finding_estimates_and_prior(
    sites: tuple, fitted_classifier: LogitCorrectionClassifier
) -> None:
    frame, y = sites
    assert fitted_classifier.classes_.tolist() == ["ill", "well"] and fitted_classifier.feature_names_in_.tolist() == [
        "blood",
        "site",
        "age",
    ]
    assert (
        fitted_classifier.evidence_["verdict"] == "shortcut" and fitted_classifier.correction_ == "the training of LC"
    )
    assert (np.where(fitted_classifier.attribute_ == 0, "north", "south") == frame["site"]).all()
    assert (fitted_classifier.attribute_posterior_.argmax(1) == fitted_classifier.attribute_).mean() > 0.95
    counts = np.array(
        [[((y == label) & (fitted_classifier.attribute_ == a)).sum() for a in (0, 1)] for label in ("ill", "well")]
    )
    np.testing.assert_allclose(fitted_classifier.group_prior_, (counts + 0.3) / (600 + 1.2), rtol=1e-5)
    assert fitted_classifier.predict_proba(frame).sum(axis=1) == pytest.approx(np.ones(600))
    assert fitted_classifier.config_["epochs"] == fitted_classifier.n_epochs_ == 3


@pytest.mark.parametrize("estimator", ["Online", "XRM"])
def test_group_report_does_not_change_after_predictions(sites: tuple, estimator: str) -> None:
    frame, y = sites
    classifier = LogitCorrectionClassifier(attributes=estimator, **QUICK).fit(frame, y)
    before = classifier.group_report(frame, y)
    classifier.predict_proba(frame.head(3))
    pd.testing.assert_frame_equal(classifier.group_report(frame, y), before)


def test_group_report_by_estimated_and_by_given_attribute(
    sites: tuple, fitted_classifier: LogitCorrectionClassifier
) -> None:
    frame, y = sites
    by_site = fitted_classifier.group_report(frame, y, attribute=frame["site"])
    right = (fitted_classifier.predict(frame) == y)[(y == "ill") & (frame["site"] == "south")].mean()
    row = by_site[(by_site["label"] == "ill") & (by_site["attribute"] == "south")].iloc[0]
    assert row["accuracy"] == pytest.approx(right) and by_site["count"].sum() == 600
    estimated = fitted_classifier.group_report(frame, y)
    assert estimated["accuracy"].tolist() == pytest.approx(by_site["accuracy"].tolist())
    assert estimated["minority"].tolist() == [False, True, True, False]
    with pytest.raises(InputError, match="row 2: the label 'dead' is not in the training data"):
        fitted_classifier.group_report(frame.head(3), ["ill", "well", "dead"])


def test_group_report_computes_any_metric(sites: tuple, fitted_classifier: LogitCorrectionClassifier) -> None:
    frame, y = sites
    metrics = ["precision", "auroc", "sklearn.metrics.f1_score"]
    groups = fitted_classifier.group_report(frame, y, attribute=frame["site"], metrics=metrics)
    row = groups[(groups["label"] == "well") & (groups["attribute"] == "south")].iloc[0]
    is_south = (frame["site"] == "south").to_numpy()
    has_label = y[is_south] == "well"
    predicted_label = fitted_classifier.predict(frame)[is_south] == "well"
    probability = fitted_classifier.predict_proba(frame)[is_south, 1]
    assert row["precision"] == pytest.approx(precision_score(has_label, predicted_label))
    assert row["f1_score"] == pytest.approx(f1_score(has_label, predicted_label))
    assert row["auroc"] == pytest.approx(roc_auc_score(has_label, probability))
    classifier_without_probability = LogitCorrectionClassifier(estimator=LinearSVC(), **QUICK).fit(
        frame[["blood", "age"]], y
    )
    with pytest.raises(InputError, match="predict_proba"):
        classifier_without_probability.group_report(
            frame[["blood", "age"]], y, attribute=frame["site"], metrics="auroc"
        )


def test_pickled_classifier_holds_plain_values_and_leaves_no_files(
    sites: tuple, fitted_classifier: LogitCorrectionClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, y = sites
    places = {name: tmp_path / name for name in ("work", "cache", "temporary")}
    joblib.dump(fitted_classifier, tmp_path / "classifier")
    for unpickled in (joblib.load(tmp_path / "classifier"), pickle.loads(pickle.dumps(fitted_classifier))):
        np.testing.assert_array_equal(unpickled.predict_proba(frame), fitted_classifier.predict_proba(frame))
        pd.testing.assert_frame_equal(unpickled.group_report(frame, y), fitted_classifier.group_report(frame, y))
    content = pickletools.genops(pickle.dumps(fitted_classifier, protocol=0))
    global_names = {str(value).split()[0] for code, value, _ in content if code.name == "GLOBAL"}
    assert {name for name in global_names if name.startswith(("logit_correction", "torch"))} == {
        "logit_correction.integrations.sklearn"
    }
    for place in places.values():
        place.mkdir()
    monkeypatch.chdir(places["work"])
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(places["cache"]))
    monkeypatch.setattr("tempfile.tempdir", str(places["temporary"]))
    LogitCorrectionClassifier(**QUICK).fit(frame[:60], y[:60]).predict(frame)
    assert not any(list(place.iterdir()) for place in places.values())


def test_images_with_channels_first_or_last_are_predicted_alike() -> None:
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


def test_texts_are_fitted_and_predicted() -> None:
    words = np.random.default_rng(0).choice(["sun", "rain", "wind"], (80, 4))
    y = np.array(["bad", "good"] * 40)
    texts = [f"{' '.join(row)} {'lovely' if label == 'good' else 'awful'}" for row, label in zip(words, y, strict=True)]
    classifier = LogitCorrectionClassifier(**QUICK).fit(texts, y)
    assert classifier.predict(["lovely sun", "awful rain"]).tolist() == ["good", "bad"]
    with pytest.raises(InputError, match="this model takes texts: give a list of texts"):
        classifier.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"0 rows: give at least one$"):
        classifier.predict([])
    with pytest.raises(InputError, match="is one text: give a list"):
        classifier.predict("lovely sun")
    with pytest.raises(InputError, match="row 0: has no text"):
        classifier.predict([None, "lovely sun"])


def test_frames_are_checked_for_columns_names_and_missing_values(
    sites: tuple, fitted_classifier: LogitCorrectionClassifier
) -> None:
    frame, y = sites
    with pytest.warns(InputWarning, match="column 'site' holds names .*, such as 'east'"):
        fitted_classifier.predict(frame.head(3).assign(site=["north", "east", "south"]))
    with pytest.raises(InputError, match="fit was given a data frame, and these rows have no columns"):
        fitted_classifier.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="feature names"):
        fitted_classifier.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(InputError, match="row 2: column 'age' holds 'inf'"):
        LogitCorrectionClassifier(**QUICK).fit(frame.head(20).assign(age=[0.0, 1.0, np.inf, *range(17)]), y[:20])
    with pytest.raises(InputError, match=r"0 rows: give at least one$"):
        fitted_classifier.predict(frame[:0])
    with pytest.raises(InputError, match="epochs is an argument of the classifier"):
        LogitCorrectionClassifier(epochs=3, training={"epochs": 3}).fit(frame, y)
    with pytest.raises(InputError, match="Row 1 has no label"):
        LogitCorrectionClassifier(**QUICK).fit(frame.head(3), ["ill", None, "well"])
    numbers = frame[["blood", "age"]].head(200)
    holes = numbers.mask(np.random.default_rng(0).random(numbers.shape) < 0.2)
    classifier_with_gaps = LogitCorrectionClassifier(**QUICK).fit(holes, y[:200])
    assert "missing" in {view for look in classifier_with_gaps.evidence_["looks"] for view in look["views"]}
    assert classifier_with_gaps.predict(numbers).shape == classifier_with_gaps.predict(holes).shape == (200,)


def test_identifiers_and_rare_names_are_left_out_as_in_other_doors(sites: tuple, tmp_path: Path) -> None:
    frame, y = sites
    named = frame.assign(number=np.arange(len(frame)) + 7000, patient=[f"{row:x} Smith" for row in range(len(frame))])
    with pytest.warns(InputWarning, match="'number'") as warnings:
        classifier = LogitCorrectionClassifier("ERM", **QUICK).fit(named, y)
    run = train(
        named.assign(outcome=y), tmp_path / "run", label="outcome", method="ERM", page=False, epochs=1, threads=1
    )
    columns = [column["name"] for column in run.report.data.preparation["columns"]]
    assert [column["name"] for column in classifier.model_["preparation"]["columns"]] == columns == sorted(frame)
    notes = [str(warning.message) for warning in warnings]
    assert any("'patient'" in note for note in notes) and {*notes} <= {*run.report.warnings}
    others = named.assign(number=1.5, patient="somebody")
    assert (classifier.predict_proba(others) == classifier.predict_proba(named)).all()


def test_kinds_of_columns_can_be_given(sites: tuple) -> None:
    frame, y = sites
    visits = frame.assign(
        visits=[*map(str, range(7000, 7000 + len(frame) - 1)), "many"], ward=np.arange(len(frame)) % 3
    )
    kinds = {"numbers": "visits", "categorical": ["ward"]}
    classifier = LogitCorrectionClassifier("ERM", **kinds, **QUICK).fit(visits, y)
    columns = {column["name"]: column["kind"] for column in classifier.model_["preparation"]["columns"]}
    assert columns["visits"] == "numbers" and columns["ward"] == "names"
    again = pickle.loads(pickle.dumps(classifier))
    assert (again.predict_proba(visits) == classifier.predict_proba(visits)).all()  # "many" is missing for both
    with pytest.raises(InputError, match="numbers names columns: give a data frame"):
        LogitCorrectionClassifier("ERM", numbers="visits", **QUICK).fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_other_methods_and_true_attributes_are_fitted(sites: tuple) -> None:
    frame, y = sites
    with_attributes = LogitCorrectionClassifier(attributes="TrueAttributes", **QUICK).fit(
        frame, y, attribute=frame["site"]
    )
    assert with_attributes.attribute_names_ == ["north", "south"] and with_attributes.evidence_ is None
    erm = LogitCorrectionClassifier("ERM", random_state=0, training={"epochs": 3, "threads": 1}).fit(frame, y)
    assert erm.n_epochs_ == 3
    assert erm.evidence_ is None and erm.group_prior_ is None and (erm.attribute_ == -1).all()
    with pytest.raises(InputError, match="needs the attribute of every training row"):
        LogitCorrectionClassifier("GroupDRO", **QUICK).fit(frame, y)
    with pytest.raises(InputError, match="give attribute="):
        erm.group_report(frame, y)


def test_grid_search_and_column_names_behind_a_column_transformer(sites: tuple) -> None:
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


def draw_site_rows(conflict: float, seed: int, n: int = 800) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A column ``site`` (-1, 1) that equals the label except in some rows, and an honest column."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    site = np.where(rng.random(n) < conflict, 1 - label, label)
    return pd.DataFrame({"blood": rng.normal(size=n) + 1.5 * label, "site": 2.0 * site - 1}), label, site


def compute_worst_group_accuracy(classifier: Any) -> float:
    X, y, site = draw_site_rows(0.5, 1, 4000)
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
    ("estimator", "correction"),
    [
        (Booster(), "logit offsets (base_margin)"),
        (make_pipeline(ENCODED, LinearSVC()), "sample weights (linearsvc__sample_weight)"),
        (GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "sample weights (sample_weight)"),
    ],
    ids=["offsets", "pipeline", "search"],
)
def test_inner_estimator_gains_worst_group_accuracy(estimator: Any, correction: str) -> None:
    X, y, _ = draw_site_rows(0.05, 0)
    classifier = LogitCorrectionClassifier(estimator=estimator, **INSIDE).fit(X, y)
    assert classifier.correction_ == correction
    assert compute_worst_group_accuracy(classifier) > compute_worst_group_accuracy(clone(estimator).fit(X, y)) + 0.15
    assert classifier.group_report(X, y)["count"].sum() == 800
    assert hasattr(classifier, "predict_proba") == hasattr(estimator, "predict_proba")


def test_inner_estimator_without_a_finding_is_fitted_unweighted() -> None:
    X, y, _ = draw_site_rows(0.5, 0, 60)
    classifier = LogitCorrectionClassifier(estimator=LogisticRegression(), **QUICK).fit(X, y)
    assert classifier.correction_.startswith("sample weights (sample_weight), which change nothing: ")
    np.testing.assert_array_equal(classifier.predict(X), LogisticRegression().fit(X, y).predict(X))


def test_booster_gets_group_log_odds_as_base_margin() -> None:
    X, y, _ = draw_site_rows(0.05, 0)
    is_selected = (y == 0) | (np.arange(len(y)) % 4 == 0)  # few are ill
    X = X[is_selected].reset_index(drop=True)
    y = y[is_selected]
    booster = LogitCorrectionClassifier(estimator=Booster(), **INSIDE).fit(X, y)
    log = np.log(booster.group_prior_)
    np.testing.assert_allclose(booster.estimator_.margin_, (log[1] - log[0])[booster.attribute_], rtol=1e-4)
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), Booster())
    booster_in_pipeline = LogitCorrectionClassifier(estimator=pipeline, **INSIDE).fit(X, y)
    np.testing.assert_array_equal(booster_in_pipeline.predict(X), booster.predict(X))
    assert booster.estimator_.base_score == booster_in_pipeline.estimator_[-1].base_score == 0.5


@pytest.mark.slow
def test_pipeline_example_gains_ten_points_of_worst_group_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "scikit_learn_pipeline.py"
    worst = runpy.run_path(str(example))["main"]([0], epochs=5)["worst group"]
    assert "seed 0: cannot tell: The column `form_version" in capsys.readouterr().out
    ours = worst.pop("LogitCorrectionClassifier")
    assert len(worst) == 2 and ours > worst.max() + 10


def test_labels_that_look_alike_are_refused() -> None:
    with pytest.raises(InputError, match="write them alike"):
        LogitCorrectionClassifier(method="ERM", epochs=1).fit(np.eye(6)[:, :2], ["\u00e9", "e\u0301", "a"] * 2)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "string", "category", "int64[pyarrow]"])
def test_gap_among_nullable_labels_is_refused(dtype: str) -> None:
    values = ["a", "b"] if dtype in ("string", "category") else [True, False]
    inputs = np.random.default_rng(0).normal(size=(40, 2))
    classifier = LogitCorrectionClassifier(method="ERM", epochs=1, training={"threads": 1})
    labels = pd.Series(pd.array(values * 20, dtype=dtype))
    assert len(classifier.fit(inputs, labels).classes_) == 2
    labels[39] = None
    with pytest.raises(ValueError, match="Row 39 has no label"):
        classifier.fit(inputs, labels)


# -- new rows


def draw_patients(num_rows: int, seed: int, bias: float) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw rows whose scanner agrees with the label with the probability ``bias``."""
    generator = np.random.default_rng(seed)
    is_ill = generator.integers(2, size=num_rows)
    scanner = np.where(generator.random(num_rows) < bias, is_ill, 1 - is_ill)
    frame = pd.DataFrame({"blood": generator.normal(2.2 * is_ill, 1), "scanner": np.array(["new", "old"])[scanner]})
    return frame, np.where(is_ill, "ill", "well")


def draw_new_rows(num_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw rows of which a third is of a kind that was never trained on: much blood, and well all the same."""
    frame, y = draw_patients(num_rows, seed, 0.1)
    is_other = np.arange(num_rows) % 3 == 0
    return frame.assign(blood=np.where(is_other, 8.0 + frame["blood"], frame["blood"])), np.where(is_other, "well", y)


@pytest.fixture(scope="module")
def taught_classifier() -> LogitCorrectionClassifier:
    new_rows, new_y = draw_new_rows(300, 1)
    labels = np.where(np.arange(300) < 90, new_y, None)  # the others are unknown
    classifier = LogitCorrectionClassifier(epochs=5, random_state=0, training={"threads": 1})
    with use_online_candidates_only():
        return classifier.fit(*draw_patients(600, 0, 0.94), new_rows=new_rows, new_y=labels)


def test_labelled_new_rows_weigh_candidates_and_teach(taught_classifier: LogitCorrectionClassifier) -> None:
    assert taught_classifier.new_rows_["average"] is not None and taught_classifier.new_rows_["answers"] == 90
    method = taught_classifier.config_["method"]
    weights = {one["name"]: one["weight"] for one in taught_classifier.new_rows_["candidates"] if one["weight"]}
    assert method["name"] == "Average" and method["answers"] is None  # no file is left
    assert {member["name"]: member["weight"] for member in method["members"]} == pytest.approx(weights, abs=1e-3)
    assert taught_classifier.correction_.startswith("an average of ")
    new_rows, new_y = draw_new_rows(300, 2)
    is_other = np.arange(300) % 3 == 0
    untaught = clone(taught_classifier).set_params(single=True)
    known_rows, known_y = draw_new_rows(300, 1)
    with use_online_candidates_only():
        untaught.fit(*draw_patients(600, 0, 0.94), new_rows=known_rows[:90], new_y=known_y[:90])
    assert untaught.new_rows_["single"] and untaught.config_["method"]["name"] in ("ERM", "LC")
    right, right_untaught = (one.predict(new_rows) == new_y for one in (taught_classifier, untaught))
    assert right[is_other].mean() > 0.9 and right_untaught[is_other].mean() < 0.1
    assert right[~is_other].mean() > 0.75


def test_taught_average_is_pickled_as_any_classifier(taught_classifier: LogitCorrectionClassifier) -> None:
    new_rows, new_y = draw_new_rows(100, 3)
    copied = pickle.loads(pickle.dumps(taught_classifier))
    np.testing.assert_allclose(copied.predict_proba(new_rows), taught_classifier.predict_proba(new_rows))
    assert copied.group_report(new_rows, new_y, attribute=new_rows["scanner"])["count"].sum() == 100


def test_refit_trains_what_new_rows_selected_on_all_rows() -> None:
    X, y = draw_patients(600, 0, 0.94)
    new_rows, new_y = draw_patients(100, 1, 0.5)
    classifier = LogitCorrectionClassifier(epochs=2, random_state=0, training={"threads": 1})
    for refit, num_rows in ((True, 600), (False, 480)):
        with use_online_candidates_only():
            classifier.set_params(refit=refit).fit(X, y, new_rows=new_rows, new_y=new_y)
        assert classifier._get_model().info.num_rows == num_rows and len(classifier.attribute_) == 600
    with pytest.raises(InputError, match="refit is an argument of the classifier"):
        LogitCorrectionClassifier(training={"refit": True}).fit(X, y)
    with pytest.raises(InputError, match="single chooses among candidates by new rows"):
        LogitCorrectionClassifier(single=True).fit(X, y)


def test_fit_that_fails_leaves_no_model_that_answers_with_other_labels(sites: tuple) -> None:
    X, y = sites[:2]
    classifier = LogitCorrectionClassifier(**QUICK).fit(X, y)
    with pytest.raises(InputError):
        classifier.set_params(network="NoSuchNetwork").fit(X, np.where(y == y[0], "z", "a"))
    with pytest.raises(NotFittedError):
        classifier.predict(X)
