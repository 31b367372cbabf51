"""The training loop, and the rules that select an epoch. Imports nothing heavy."""

from __future__ import annotations

_RULES = "logit_correction.training.rules."

#: Name -> dotted path, and the epoch whose weights it takes. A dotted path of your own works wherever a name does.
#: Those with ``group`` in their names read validation attributes, except for the estimated ones.
RULES: dict[str, tuple[str, str]] = {
    "last": (_RULES + "Last", "the last epoch"),
    "valid_average": (_RULES + "SelectionRule", "the epoch with the best average accuracy on validation rows"),
    "valid_worst_class": (_RULES + "SelectionRule", "the epoch with the best worst-class accuracy on validation rows"),
    "valid_estimated_worst_group": (
        _RULES + "SelectionRule",
        "the epoch with the best worst-group accuracy on validation rows, over estimated groups",
    ),
    "valid_estimated_group_balanced": (
        _RULES + "SelectionRule",
        "the epoch with the best group-balanced accuracy on validation rows, over estimated groups",
    ),
    "valid_estimated_within_error": (
        _RULES + "EstimatedWithinError",
        "the latest epoch whose group-balanced accuracy on validation rows, over estimated groups, is within "
        "one standard error of the best",
    ),
    "valid_group_balanced": (
        _RULES + "SelectionRule",
        "the epoch with the best group-balanced accuracy on validation rows, whose attributes are read",
    ),
    "valid_worst_group": (
        _RULES + "SelectionRule",
        "the epoch with the best worst-group accuracy on validation rows, whose attributes are read",
    ),
}
