"""The classifier for scikit-learn: rows of every kind, what it keeps, and how it fits in with the rest."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from logit_correction import InputError, InputWarning, LogitCorrectionClassifier

QUICK = {"epochs": 3, "random_state": 0, "training": {"threads": 1}}


@pytest.fixture(scope="module")
def planted() -> tuple[pd.DataFrame, np.ndarray]:
    """600 rows of which the column ``site`` tells the label in nineteen of twenty, beside weak honest ones."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 600)
    site = np.where(np.where(rng.random(600) < 0.95, label, 1 - label) > 0, "north", "south")
    frame = pd.DataFrame({"blood": rng.normal(size=600) + label, "site": site, "age": rng.normal(size=600)})
    return frame, np.where(label > 0, "ill", "well")


@pytest.fixture(scope="module")
def fitted(planted: tuple[pd.DataFrame, np.ndarray]) -> LogitCorrectionClassifier:
    return LogitCorrectionClassifier(shortcut=["column:site"], **QUICK).fit(*planted)


def test_what_was_found_is_kept(planted: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = planted
    assert fitted.classes_.tolist() == ["ill", "well"] and fitted.feature_names_in_.tolist() == ["blood", "site", "age"]
    assert fitted.evidence_["verdict"] == "shortcut" and fitted.correction_ == "the training of LC"
    assert (np.where(fitted.attribute_ == 0, "north", "south") == frame["site"]).all()
    assert (fitted.attribute_posterior_.argmax(1) == fitted.attribute_).mean() > 0.95
    counts = np.array([[((y == label) & (fitted.attribute_ == a)).sum() for a in (0, 1)] for label in ("ill", "well")])
    np.testing.assert_allclose(fitted.group_prior_, (counts + 0.3) / (600 + 1.2), rtol=1e-5)
    assert fitted.predict_proba(frame).sum(axis=1) == pytest.approx(np.ones(600))
    assert fitted.config_["epochs"] == fitted.n_epochs_ == 3


def test_groups_by_estimate_and_by_name(planted: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = planted
    named = fitted.group_report(frame, y, attribute=frame["site"])
    assert list(named) == ["label", "attribute", "count", "correct", "accuracy", "low", "high", "minority"]
    right = (fitted.predict(frame) == y)[(y == "ill") & (frame["site"] == "south")].mean()
    row = named[(named["label"] == "ill") & (named["attribute"] == "south")].iloc[0]
    assert row["accuracy"] == pytest.approx(right) and named["count"].sum() == 600
    estimated = fitted.group_report(frame, y)
    assert estimated["accuracy"].tolist() == pytest.approx(named["accuracy"].tolist())
    assert estimated["minority"].tolist() == [False, True, True, False]
    with pytest.raises(InputError, match="row 2: the label 'dead' was not in fit"):
        fitted.group_report(frame.head(3), ["ill", "well", "dead"])


def test_a_name_that_fit_has_not_seen_is_told(planted: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, _ = planted
    new = frame.head(3).assign(site=["north", "east", "south"])
    with pytest.warns(InputWarning, match="column 'site' holds names .*, such as 'east', in 1 of 3 new rows"):
        fitted.predict(new)


def test_what_is_stored_is_plain(planted: tuple, fitted: LogitCorrectionClassifier, tmp_path: Path) -> None:
    frame, y = planted
    joblib.dump(fitted, tmp_path / "classifier")
    for again in (joblib.load(tmp_path / "classifier"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
        pd.testing.assert_frame_equal(again.group_report(frame, y), fitted.group_report(frame, y))
    content = pickletools.genops(pickle.dumps(fitted, protocol=0))
    named = {str(value).split()[0] for code, value, _ in content if code.name == "GLOBAL"}
    ours = {name for name in named if name.startswith(("logit_correction", "torch"))}
    assert ours == {"logit_correction.integrations.scikit_learn.classifier"}


def test_no_file_is_left(planted: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("work", "cache", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    frame, y = planted
    LogitCorrectionClassifier(**QUICK).fit(frame[:60], y[:60]).predict(frame)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["cache", "temporary", "work"]


def test_images_of_both_orders() -> None:
    rng, y = np.random.default_rng(0), np.arange(40) % 2
    images = (rng.integers(0, 100, (40, 3, 18, 20)) + 120 * y[:, None, None, None]).astype(np.uint8)
    classifier = LogitCorrectionClassifier(shortcut="colour", **QUICK)
    first = classifier.fit(images, y).predict_proba(images)
    last = classifier.fit(images.transpose(0, 2, 3, 1) / 255, y).predict_proba(images.transpose(0, 2, 3, 1) / 255)
    np.testing.assert_allclose(first, last, atol=1e-4)
    assert classifier.config_["network"]["name"] == "ConvNet" and not hasattr(classifier, "n_features_in_")
    with pytest.raises(InputError, match=r"images are of shape \(3, 20, 18\) \(channels first\), but were"):
        classifier.predict(images.swapaxes(2, 3) / 255)
    with pytest.raises(InputError, match="unsigned bytes or floats in"):
        classifier.fit(images.astype(np.float32), y)
    with pytest.raises(InputError, match='channels="first" or "last"'):
        classifier.fit(images[..., :3], y)


def test_texts_alone_and_beside_other_columns() -> None:
    words, y = np.random.default_rng(0).choice(["sun", "rain", "wind"], (80, 4)), np.array(["bad", "good"] * 40)
    texts = [f"{' '.join(row)} {'lovely' if label == 'good' else 'awful'}" for row, label in zip(words, y, strict=True)]
    classifier = LogitCorrectionClassifier(**QUICK).fit(texts, y)
    assert classifier.predict(["lovely sun", "awful rain"]).tolist() == ["good", "bad"]
    frame = pd.DataFrame({"review": texts, "stars": np.arange(80) % 5})
    mixed = LogitCorrectionClassifier(text="review", **QUICK).fit(frame, y)
    assert mixed.score(frame, y) > 0.9
    assert {sign["view"].partition(":")[0] for sign in mixed.evidence_["signs"]} >= {"column", "word"}
    with pytest.raises(InputError, match="fit was given texts, and these rows are numbers"):
        classifier.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"no column 'reviev'.*did you mean review"):
        LogitCorrectionClassifier(text="reviev").fit(frame, y)


def test_rows_of_another_kind_are_told() -> None:
    frame = pd.DataFrame({"s": ["u", "v"] * 10, "b": range(20)})
    classifier = LogitCorrectionClassifier(**QUICK).fit(frame, [0, 1] * 10)
    for rows in (frame.to_numpy(), frame.to_numpy().tolist()):
        with pytest.raises(InputError, match="fit was given a data frame, and these rows have no columns"):
            classifier.predict(rows)
    with pytest.raises(ValueError):
        LogitCorrectionClassifier(**QUICK).fit(["a", "b", "c", None], [0, 1, 0, 1])


def test_values_of_a_data_frame_may_be_missing(planted: tuple) -> None:
    frame, y = planted[0][["blood", "age"]].head(200), planted[1][:200]
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    found = LogitCorrectionClassifier(**QUICK).fit(holes, y)
    assert "missing" in {sign["view"] for sign in found.evidence_["signs"]}
    assert found.predict(frame).shape == found.predict(holes).shape == (200,)
    with pytest.raises(ValueError, match="NaN"):
        LogitCorrectionClassifier(**QUICK).fit(frame, y).predict(holes)
    with pytest.raises(ValueError, match="NaN"):
        LogitCorrectionClassifier(**QUICK).fit(holes.to_numpy(), y)


def test_a_column_that_never_changes_decides_nothing_in_new_rows(planted: tuple) -> None:
    frame, y = planted[0][["blood", "age"]].head(90).assign(flat=0.1), planted[1][:90]
    fitted = LogitCorrectionClassifier(**QUICK).fit(frame, y)
    probability = fitted.predict_proba(frame.assign(flat=0.2))
    assert probability.min() > 0 and np.abs(probability - fitted.predict_proba(frame)).max() < 0.3


def test_bad_cells_are_named(planted: tuple, fitted: LogitCorrectionClassifier) -> None:
    frame, y = planted
    bad = frame.head(20).copy()
    bad.loc[2, "age"] = np.inf
    with pytest.raises(InputError, match="row 2: column 'age' holds 'inf', which is no finite number"):
        LogitCorrectionClassifier(**QUICK).fit(bad, y[:20])
    with pytest.raises(InputError, match="row 1 has no label"):
        LogitCorrectionClassifier(**QUICK).fit(frame.head(3), ["ill", None, "well"])
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"age": "years"}))


def test_the_seed_decides(planted: tuple) -> None:
    frame, y = planted[0][:80], planted[1][:80]
    first, again, other, drawn = (
        LogitCorrectionClassifier(**{**QUICK, "random_state": seed}).fit(frame, y).predict_proba(frame)
        for seed in (1, 1, 2, np.random.RandomState(1))
    )
    assert (first == again).all() and (first != other).any() and (first != drawn).any()


def test_warm_start_goes_on(planted: tuple) -> None:
    X, y = planted[0][["blood", "age"]], planted[1]
    classifier = LogitCorrectionClassifier(warm_start=True, **QUICK).fit(X, y)
    before = classifier.predict_proba(X)
    classifier.set_params(epochs=1, learning_rate=1e-9).fit(X, y)
    np.testing.assert_allclose(classifier.predict_proba(X), before, atol=1e-4)
    with pytest.raises(InputError, match="y has others"):
        classifier.fit(X, np.where(y == "ill", "dead", y))
    with pytest.raises(InputError, match="the same network"):
        classifier.set_params(network={"name": "MLP", "hidden": [5]}).fit(X, y)


def test_known_attributes_and_other_methods(planted: tuple) -> None:
    frame, y = planted
    known = LogitCorrectionClassifier(attributes="TrueAttributes", **QUICK).fit(frame, y, attribute=frame["site"])
    assert known.attribute_names_ == ["north", "south"] and known.evidence_ is None
    worst = LogitCorrectionClassifier("GroupDRO", **QUICK).fit(frame, y, attribute=frame["site"])
    assert worst.config_["method"]["name"] == "GroupDRO" and worst.correction_ == "the training of GroupDRO"
    plain = LogitCorrectionClassifier("ERM", selection="valid_average", **QUICK).fit(frame, y)
    assert plain.evidence_ is None and plain.group_prior_ is None and (plain.attribute_ == -1).all()
    with pytest.raises(InputError, match="needs the attribute of every training row"):
        LogitCorrectionClassifier("GroupDRO", attributes="TrueAttributes", **QUICK).fit(frame, y)
    with pytest.raises(InputError, match="give attribute="):
        plain.group_report(frame, y)


def test_searches_pipelines_and_clones(planted: tuple) -> None:
    X, y = planted[0][["blood", "age"]][:90], planted[1][:90]
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), LogitCorrectionClassifier(**QUICK))
    search = GridSearchCV(pipeline, {"logitcorrectionclassifier__epochs": [1, 4]}, cv=2, scoring="balanced_accuracy")
    best = search.fit(X, y).best_estimator_[-1]
    assert best.feature_names_in_.tolist() == ["blood", "age"]
    assert cross_val_predict(clone(best), X, y, cv=2, method="predict_proba").shape == (90, 2)


def test_shown_with_its_verdict(fitted: LogitCorrectionClassifier) -> None:
    assert fitted._repr_html_().startswith("<p><strong>shortcut</strong>: A person said so")
    assert fitted._repr_mimebundle_()["text/html"].startswith("<p><strong>shortcut")
    assert not LogitCorrectionClassifier()._repr_html_().startswith("<p>")
