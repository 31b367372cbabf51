"""Predictions of a split and what they say, group by group; nothing here needs a model."""

from __future__ import annotations

from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import GroupReport

__all__ = ["GroupReport", "Predictions"]
