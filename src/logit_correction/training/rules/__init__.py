"""Rules that choose the epoch, or the run, whose weights are taken. One file each, and one line here.

None reads the test split. Those with ``group`` in their names read validation attributes but for the estimated ones.
"""

from __future__ import annotations

#: Name -> dotted path, and whose weights it takes. A dotted path of your own works wherever a name does.
RULES: dict[str, tuple[str, str]] = {
    "last": ("logit_correction.training.rules.last.Last", "those of the last epoch"),
    "valid_average": (
        "logit_correction.training.rules.average.Average",
        "those of the epoch with the best average accuracy on validation rows",
    ),
    "valid_worst_class": (
        "logit_correction.training.rules.worst_class.WorstClass",
        "those of the epoch with the best worst-class accuracy on validation rows",
    ),
    "valid_class_difference": (
        "logit_correction.training.rules.class_difference.ClassDifference",
        "those of the epoch with the least mean difference between two labels' accuracies on validation rows",
    ),
    "valid_estimated_worst_group": (
        "logit_correction.training.rules.estimated_worst_group.EstimatedWorstGroup",
        "those of the epoch with the best worst-group accuracy on validation rows, over estimated groups",
    ),
    "valid_estimated_group_balanced": (
        "logit_correction.training.rules.estimated_group_balanced.EstimatedGroupBalanced",
        "those of the epoch with the best group-balanced accuracy on validation rows, over estimated groups",
    ),
    "valid_estimated_within_error": (
        "logit_correction.training.rules.estimated_within_error.EstimatedWithinError",
        "those of the latest epoch whose group-balanced accuracy on validation rows, over estimated groups, is within "
        "one standard error of the best",
    ),
    "valid_view_agreement": (
        "logit_correction.training.rules.view_agreement.ViewAgreement",
        "those of the epoch that goes least with the estimated attribute where it conflicts with the label",
    ),
    "valid_group_balanced": (
        "logit_correction.training.rules.group_balanced.GroupBalanced",
        "those of the epoch with the best group-balanced accuracy on validation rows",
    ),
    "valid_worst_group": (
        "logit_correction.training.rules.worst_group.WorstGroup",
        "those of the epoch with the best worst-group accuracy on validation rows",
    ),
}
