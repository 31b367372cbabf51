"""How good a run is by a selection rule: its score on the validation rows, all runs by the same estimated groups."""

from __future__ import annotations

from pathlib import Path

import torch

from logit_correction.config import RunConfig
from logit_correction.errors import InputError
from logit_correction.evaluation import Predictions
from logit_correction.runs.assemble import components_of, find_class
from logit_correction.runs.folder import VALIDATION
from logit_correction.training.rules import ValidationRows, rule_of


def usual_objective(config: RunConfig) -> str:
    """Return the rule that is taken where nobody names one; it reads no attribute."""
    estimates = "attributes" in components_of(find_class("method", config.method.name))
    return "valid_estimated_group_balanced" if estimates else "valid_worst_class"


class Objective:
    """Scores runs on the same data by a rule; higher is better.

    Args:
        rule: Its name. No rule reads the test split.
        reference: Folder of the run whose estimate of the validation rows serves all, since runs that each estimate
            for themselves would be judged on different groups.

    Raises:
        InputError: If the rule chooses nothing, or goes by estimated groups and the run has found none.
    """

    def __init__(self, rule: str, reference: Path) -> None:
        self.rule, self.estimate = rule_of(rule), Predictions.load(reference / VALIDATION).estimate
        if self.rule.needs_estimate and self.estimate is None:
            raise InputError(
                f"--objective {rule} goes by estimated groups, and the run with the options as given ({reference}) has "
                "found none: name a shortcut by --shortcut VIEW, or take --objective valid_worst_class"
            )

    def score(self, folder: Path) -> float:
        """Return the score of a finished run.

        Raises:
            InputError: If the rule has none for it.
        """
        rows = Predictions.load(folder / VALIDATION)
        prediction, label = torch.from_numpy(rows.prediction), torch.from_numpy(rows.label)
        groups = rows.judged_groups() if "attribute" in self.rule.reads else None
        known = ValidationRows(prediction, label, len(rows.label_names), groups, self.estimate)
        score = self.rule.score(known)
        if score is None:
            raise InputError(f"the objective has no score of {folder}: take another --objective")
        return score
