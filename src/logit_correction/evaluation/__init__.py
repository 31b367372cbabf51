"""Predictions of a split, and the metrics of a classifier overall and by group. Nothing here needs a model.

Imports nothing heavy.
"""

from __future__ import annotations

_METRICS = "logit_correction.evaluation.metrics."
_SKLEARN = "sklearn.metrics."

#: Name -> dotted path, and the metric of a label against all others at an attribute in words. A dotted path of your
#: own, or of scikit-learn's, works wherever a name does.
METRICS: dict[str, tuple[str, str]] = {
    "recall": (_SKLEARN + "recall_score", "share of the label's rows that are right"),
    "precision": (_METRICS + "precision", "share of the rows said to be of the label that are"),
    "specificity": (_METRICS + "specificity", "share of the other labels' rows that are not said to be of the label"),
    "f1": (_SKLEARN + "f1_score", "harmonic mean of precision and recall"),
    "auroc": (_SKLEARN + "roc_auc_score", "area under the ROC curve of the label against the others"),
}
