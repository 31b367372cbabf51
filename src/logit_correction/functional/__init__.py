"""Pure functions on tensors: losses, group metrics, group priors and Group MixUp."""

from __future__ import annotations

from logit_correction.functional.losses import (
    GceForm,
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
from logit_correction.functional.mixup import (
    MixupForm,
    choose_partner,
    draw_weight,
    group_mixup,
    independent_partner,
    mix,
    mixup_partner,
    ramp_up,
)
from logit_correction.functional.prior import cell_sums, count_prior, joint_prior, partner_prior, partner_prior_of

__all__ = [
    "GceForm",
    "MixupForm",
    "cell_sums",
    "choose_partner",
    "count_prior",
    "draw_weight",
    "generalize",
    "generalized_cross_entropy",
    "group_accuracy",
    "group_balanced_accuracy",
    "group_count",
    "group_margin",
    "group_mean",
    "group_membership",
    "group_mixup",
    "independent_partner",
    "joint_prior",
    "logit_corrected_cross_entropy",
    "margin",
    "mix",
    "mixup_partner",
    "partner_prior",
    "partner_prior_of",
    "ramp_up",
    "wilson_interval",
    "worst_group_accuracy",
]
