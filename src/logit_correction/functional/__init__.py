"""Pure functions on tensors: losses, group metrics, group priors and Group MixUp."""

from __future__ import annotations

from logit_correction.functional.losses import (
    generalize,
    generalized_cross_entropy,
    logit_corrected_cross_entropy,
    margin,
)
from logit_correction.functional.metrics import (
    group_accuracy,
    group_balanced_accuracy,
    group_count,
    group_margin,
    group_mean,
    group_membership,
    wilson_interval,
    worst_group_accuracy,
)
from logit_correction.functional.mixup import MixupForm, group_mixup, mix, mixup_partner, ramp_up
from logit_correction.functional.prior import cell_sums, count_prior

__all__ = [
    "MixupForm",
    "cell_sums",
    "count_prior",
    "generalize",
    "generalized_cross_entropy",
    "group_accuracy",
    "group_balanced_accuracy",
    "group_count",
    "group_margin",
    "group_mean",
    "group_membership",
    "group_mixup",
    "logit_corrected_cross_entropy",
    "margin",
    "mix",
    "mixup_partner",
    "ramp_up",
    "wilson_interval",
    "worst_group_accuracy",
]
