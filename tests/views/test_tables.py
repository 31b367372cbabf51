"""Columns of a table, each alone and two together; the pattern of what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from logit_correction.attributes.folds import draw_folds
from logit_correction.shortcuts.evidence import compute_information_share
from logit_correction.shortcuts.heads import fit_logistic_head, standardize
from logit_correction.types import ViewInputs
from logit_correction.views.base import find_views, restore_view, serialize_builtin_view
from logit_correction.views.tables import Missing, OneColumn, Pairs, find_viewed_columns


def build_inputs(**columns: Any) -> ViewInputs:
    arrays = {
        name: np.asarray(values, dtype=object if isinstance(values[0], str) else None)
        for name, values in columns.items()
    }
    rows = len(next(iter(arrays.values())))
    return ViewInputs(num_rows=rows, inputs=lambda selected: torch.zeros(len(selected), 1), columns=arrays)


def compute_column_features(values: Any, new: Any = None) -> torch.Tensor:
    """The features of new rows by a view that was fitted on others."""
    view = OneColumn("a")
    view.fit(build_inputs(a=values))
    features = view.features(build_inputs(a=values if new is None else new))
    assert features.dtype == torch.float32 and bool(torch.isfinite(features).all())
    return features


def test_one_column_views_are_those_of_varying_columns() -> None:
    inputs = build_inputs(
        age=[1.0, 2.0, 3.0],
        place=["sea", "town", ""],
        same=[5, 5, 5],
        gap=[5.0, np.nan, 5.0],
        void=[np.nan] * 3,
        nameless=["", "", ""],
        odd=[True, False, True],
    )
    views = OneColumn.list_views(inputs)
    assert [view.name for view in views] == ["column:age", "column:place", "column:gap", "column:odd"]
    assert views[0].breadth == 0 and views[0].max_per_label is None


def test_head_on_one_column_is_as_informative_as_scikit_learn() -> None:
    data = datasets.load_wine()
    label = torch.from_numpy(data.target).long()
    fold = draw_folds(len(label), 3, torch.Generator().manual_seed(0))
    num_labels = int(label.max()) + 1
    reference = make_pipeline(StandardScaler(), LogisticRegression())
    for column in data.data.T:
        split = PredefinedSplit(fold.numpy())
        expected = cross_val_predict(reference, column[:, None], data.target, cv=split, method="predict_proba")
        column_features = compute_column_features(column)
        features = standardize(column_features, *torch.std_mean(column_features, dim=0))
        predictions = torch.zeros(len(label), num_labels)
        for number in range(3):
            rows = fold == number
            predictions[rows] = fit_logistic_head(features[~rows], label[~rows], num_labels)(features[rows])
        assert (
            compute_information_share(predictions.numpy(), label.numpy())
            > compute_information_share(expected, label.numpy()) - 0.02
        )


def test_missing_numbers_become_the_median_with_a_flag() -> None:
    features = compute_column_features([1.0, 2.0, np.nan, 4.0, 9.0, np.inf, 3.0])
    assert features[:, 1].tolist() == [0, 0, 1, 0, 0, 1, 0]
    assert features[2].tolist() == features[5].tolist() and features[2, 0] == 0 and not features[2, 3:].any()
    assert features[6, 0] == 0 and features[6, 2] == features[2, 2]  # 3 is the median


def test_names_become_indicators_of_the_most_frequent_values(monkeypatch: pytest.MonkeyPatch) -> None:
    features = compute_column_features(["sea", "town", "sea", "", "naïve ☃"], ["town", "sea", "", "land"])
    # Missing, another, then the commonest: sea, naïve ☃, town.
    assert features.tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert compute_column_features(["", ""]).tolist() == [[1, 0], [1, 0]]
    monkeypatch.setattr("logit_correction.views.tables.MAX_CATEGORIES", 50)
    names = [f"n{i:02}" for i in range(60) for _ in range(2 + (i >= 55))]
    features = compute_column_features(names)  # the commonest have a flag, the others share one
    names_with_indicator = {names[i] for i in range(len(names)) if not features[i, 1]}
    assert features.shape == (len(names), 52) and names_with_indicator == {
        f"n{i:02}" for i in [*range(45), *range(55, 60)]
    }


def test_missing_view_flags_and_counts_missing_values() -> None:
    train = build_inputs(a=[1.0, np.nan, 2.0], b=["x", "", ""], c=[1, 2, 3])
    (view,) = Missing.list_views(train)
    view.fit(train)
    assert view.features(train).tolist() == [[0, 0, 0], [1, 1, 2], [0, 1, 1]]
    new = build_inputs(a=[np.nan, 0.0], b=["x", "x"], c=[np.nan, 1.0])  # nothing was missing in c before
    assert view.features(new).tolist() == [[1, 0, 2], [0, 0, 0]] and view.features(new).dtype == torch.float32
    assert Missing.list_views(build_inputs(a=[1.0, 2.0], b=["x", "y"])) == []


def test_pair_view_is_restored_from_its_state_and_compares_no_missing_value() -> None:
    draw = np.random.default_rng(0)
    inputs = build_inputs(
        left=draw.normal(size=90), noise=draw.normal(size=90), right=draw.normal(size=90), place=["a", "b", ""] * 30
    )
    assert (
        len(Pairs.list_views(inputs)) == 6
        and Pairs.list_views(build_inputs(**{f"c{n}": [0.0, 1.0] for n in range(41)})) == []
    )
    assert find_viewed_columns(["pair:left & right", "column:place"], inputs.columns) == ["left", "right", "place"]
    (pair,) = find_views(["pair:left & right", "pair:right & left"], inputs)
    pair.fit(inputs)
    state = serialize_builtin_view(pair)
    assert state is not None and torch.equal(restore_view(state).features(inputs), pair.features(inputs))
    features_with_gaps = pair.features(build_inputs(left=[np.nan, 9e30, 1.0], right=[1.0, -9e30, np.nan]))
    assert features_with_gaps.sum(1).tolist() == [
        1,
        3,
        1,
    ]  # at a gap there is a cell, and nothing less, greater or apart
