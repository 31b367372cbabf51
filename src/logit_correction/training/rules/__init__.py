"""Rules that choose the epoch, or the run, whose weights are taken. One file each, and one line here.

None reads the test split. Those with ``group`` in their names read validation attributes but for the estimated ones.
"""

from __future__ import annotations

#: Name -> dotted path, and the epoch whose weights it takes. A dotted path of your own works wherever a name does.
RULES: dict[str, tuple[str, str]] = {
    "last": ("logit_correction.training.rules.last.Last", "the last epoch"),
    "valid_average": (
        "logit_correction.training.rules.average.Average",
        "the epoch with the best average accuracy on validation rows",
    ),
    "valid_worst_class": (
        "logit_correction.training.rules.worst_class.WorstClass",
        "the epoch with the best worst-class accuracy on validation rows",
    ),
    "valid_class_difference": (
        "logit_correction.training.rules.class_difference.ClassDifference",
        "the epoch with the least mean difference between two labels' accuracies on validation rows",
    ),
    "valid_estimated_worst_group": (
        "logit_correction.training.rules.estimated_worst_group.EstimatedWorstGroup",
        "the epoch with the best worst-group accuracy on validation rows, over estimated groups",
    ),
    "valid_estimated_group_balanced": (
        "logit_correction.training.rules.estimated_group_balanced.EstimatedGroupBalanced",
        "the epoch with the best group-balanced accuracy on validation rows, over estimated groups",
    ),
    "valid_estimated_within_error": (
        "logit_correction.training.rules.estimated_within_error.EstimatedWithinError",
        "the latest epoch whose group-balanced accuracy on validation rows, over estimated groups, is within "
        "one standard error of the best",
    ),
    "valid_view_agreement": (
        "logit_correction.training.rules.view_agreement.ViewAgreement",
        "the epoch that goes least with the estimated attribute where it conflicts with the label, on validation rows",
    ),
    "valid_group_balanced": (
        "logit_correction.training.rules.group_balanced.GroupBalanced",
        "the epoch with the best group-balanced accuracy on validation rows, whose attributes are read",
    ),
    "valid_worst_group": (
        "logit_correction.training.rules.worst_group.WorstGroup",
        "the epoch with the best worst-group accuracy on validation rows, whose attributes are read",
    ),
}
