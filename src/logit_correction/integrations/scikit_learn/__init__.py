"""scikit-learn: a classifier that looks for a shortcut and corrects by it."""

from __future__ import annotations

from logit_correction.integrations.scikit_learn.classifier import LogitCorrectionClassifier

__all__ = ["LogitCorrectionClassifier"]
