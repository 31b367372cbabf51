"""Predictions of a split and what they say, group by group; nothing here needs a model. Imports nothing heavy."""

from __future__ import annotations

import importlib
from typing import Any

_METRICS = "logit_correction.evaluation.metrics."

#: Name -> dotted path, and what it is, of a label against all others at an attribute. A dotted path of your own, or of
#: scikit-learn's, works wherever a name does.
METRICS: dict[str, tuple[str, str]] = {
    "recall": (_METRICS + "recall", "share of the label's rows that are right"),
    "precision": (_METRICS + "precision", "share of the rows said to be of the label that are"),
    "specificity": (_METRICS + "specificity", "share of the other labels' rows that are not said to be of the label"),
    "f1": (_METRICS + "f1", "harmonic mean of precision and recall"),
    "auroc": (_METRICS + "label_auroc", "area under the ROC curve of the label against the others"),
}

_MODULES = {"GroupReport": "report", "Predictions": "predictions"}


def __getattr__(name: str) -> Any:
    """Import a class when it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
