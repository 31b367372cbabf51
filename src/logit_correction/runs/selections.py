"""What came of each selection rule of a run: whose weights it took, and how these do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from logit_correction.data.table import UNKNOWN
from logit_correction.evaluation.predictions import Predictions
from logit_correction.runs import summary
from logit_correction.training.estimates import estimate_split
from logit_correction.training.fit import Fit
from logit_correction.training.selection import clone_state, rule_of


def take_last_if_unanswered(fit: Fit) -> None:
    """Report the last epoch where nobody has chosen a rule and the default one had no estimated groups to go by."""
    first, *others = fit.rules
    if fit.config.selection is None and first not in fit.progress.best:
        fit.rules = list(dict.fromkeys(["last", *others]))


def unanswered(fit: Fit) -> list[str]:
    """Tell of rules that had no estimated groups to go by."""
    return [
        f"selection rule {rule} had no estimated groups of the validation rows to go by, so the last epoch was taken"
        for rule in fit.rules
        if rule_of(rule).needs_estimate and rule not in fit.progress.best
    ]


def evaluate_selections(fit: Fit) -> tuple[dict[str, dict[str, Any]], Predictions]:
    """Evaluate the weights of every selection rule on the test split; those of the first rule stay in the method.

    Returns:
        Rule -> its ``selection`` and ``test`` blocks of the report; the first rule's predictions of the test rows.
    """
    final = clone_state(fit.algorithm.state_dict())
    settled = fit.algorithm.attributes is None or fit.algorithm.attributes.settled
    blocks: dict[str, dict[str, Any]] = {}
    estimate = None
    for rule in reversed(fit.rules):  # the rule to report comes last and its weights stay
        selected = fit.progress.best.get(rule)
        fit.algorithm.load_state_dict(final if selected is None else selected.state)
        logits = fit.predict("test")
        if estimate is None or not settled:  # else it is the same whatever the weights
            estimate = estimate_split(fit.algorithm, fit.table, "test")
        epoch = fit.progress.epoch if selected is None else selected.epoch
        blocks[rule] = {
            "selection": summary.selection_of(rule, epoch),
            "test": summary.evaluate(fit.table, "test", logits, estimate),
        }
    return blocks, summary.predictions_of(fit.table, "test", logits, estimate)


def validation_predictions(fit: Fit) -> Predictions:
    """Return what the reported weights predict of the validation rows; attributes only if a rule has read them."""
    table = fit.table
    if fit.valid_groups is None:
        table = replace(table, attribute=torch.full_like(table.attribute, UNKNOWN), scoring=None)
    return summary.predictions_of(table, "valid", fit.predict("valid"), fit.estimate_valid())
