"""Tuning: options of a run chosen by what it says of validation rows, on Optuna (extra ``tune``)."""

from __future__ import annotations

from logit_correction.tuning.study import tune

__all__ = ["tune"]
