"""Small data without a planted shortcut: the classifier beside logistic regression, by 5-fold cross-validation.

python lab/scripts/scikit_learn_small.py --seeds 0 1
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from logit_correction import LogitCorrectionClassifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    seeds = parser.parse_args().seeds
    for load in (load_iris, load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        linear, ours, verdicts = [], [], Counter[str]()
        for seed in seeds:
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            beside = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            linear.append(cross_validate(beside, X, y, cv=folds)["test_score"])
            classifier = LogitCorrectionClassifier(random_state=seed, training={"threads": 1})
            found = cross_validate(classifier, X, y, cv=folds, return_estimator=True)
            ours.append(found["test_score"])
            verdicts.update(one.evidence_["verdict"] for one in found["estimator"])
        difference = np.concatenate(ours) - np.concatenate(linear)
        print(
            f"{load.__name__}: logistic regression {np.mean(linear):.3f}, ours {np.mean(ours):.3f}, difference "
            f"{difference.mean():+.3f} +- {difference.std(ddof=1) / len(difference) ** 0.5:.3f}, {dict(verdicts)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
