"""A search over scikit-learn pipelines on a table with a shortcut: a column that predicts the label in training only.

    python examples/scikit_learn_pipeline.py --seeds 0 1 2

Compares ``LogitCorrectionClassifier`` with two classifiers of scikit-learn, by group-balanced and worst-group accuracy.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from logit_correction import LogitCorrectionClassifier
from logit_correction_lab.sources.planted import Planted


def load_people(seed: int, split: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return people in twelve columns and ``form_version``, their income, and which form they filled in."""
    table = Planted("column", seed=seed).build()
    split_rows = table.split[split].numpy()
    frame = pd.DataFrame({name: values[split_rows] for name, values in table.columns.items()})
    return frame, np.asarray(table.label_names)[table.label[split_rows]], table.attribute[split_rows].numpy()


def make_search(classifier: ClassifierMixin, grid: dict[str, list]) -> GridSearchCV:
    """Return a search over the options of a classifier; its score uses labels only."""
    preparation = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(preparation, classifier)
    options = {f"{pipeline.steps[-1][0]}__{name}": values for name, values in grid.items()}
    return GridSearchCV(pipeline, options, cv=3, scoring="balanced_accuracy")


def compute_group_accuracies(right: np.ndarray, y: np.ndarray, attribute: np.ndarray) -> list[float]:
    """Return the accuracy of every group, label by attribute."""
    pairs = [(label, a) for label in np.unique(y) for a in np.unique(attribute)]
    return [float(right[(y == label) & (attribute == a)].mean()) for label, a in pairs]


def main(seeds: list[int], epochs: int | None) -> pd.DataFrame:
    results = []
    for seed in seeds:
        X, y, _ = load_people(seed, "train")  # attributes of training rows are not used
        test, test_y, test_attribute = load_people(seed, "test")
        corrected = LogitCorrectionClassifier(epochs=epochs, random_state=seed, training={"threads": 1})
        trees = HistGradientBoostingClassifier(random_state=seed)
        searches = {
            "LogisticRegression": make_search(LogisticRegression(max_iter=1000), {"C": [0.01, 1.0]}),
            "HistGradientBoosting": make_search(trees, {"max_depth": [3, None]}),
            "LogitCorrectionClassifier": make_search(corrected, {"learning_rate": [5e-4, 2e-3]}),
        }
        for name, search in searches.items():
            right = search.fit(X, y).predict(test) == test_y
            accuracies = compute_group_accuracies(right, test_y, test_attribute)
            results.append((name, seed, np.mean(accuracies), min(accuracies)))
        evidence = searches["LogitCorrectionClassifier"].best_estimator_[-1].evidence_
        print(f"seed {seed}: {evidence['verdict']}: {evidence['sentence']}", flush=True)
    table = pd.DataFrame(results, columns=["classifier", "seed", "group-balanced", "worst group"])
    return table.drop(columns="seed").groupby("classifier").mean().mul(100).round(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, help="chosen by the number of rows by default")
    arguments = parser.parse_args()
    print(main(arguments.seeds, arguments.epochs).to_string())
