"""What a grid follows of a training beside the run's own report; nothing that a run reports is chosen by it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from logit_correction.atomic_files import write_text_file
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.evaluation.predictions import build_predictions
from logit_correction.evaluation.report import EvaluatedRows
from logit_correction.functional import group_margin, group_mean, group_membership, margin
from logit_correction.runs.write import evaluate_split
from logit_correction.training.fit import Trainer
from logit_correction.training.rules import build_rule, check_rule_has_estimates, update_best_weights

#: File of a run folder for what other selection rules chose.
SELECTIONS = "selections.json"


@dataclass(frozen=True)
class TrainingMonitor:
    """``after_epoch`` of a run: follows splits in ``metrics.csv``, and what other selection rules would choose.

    Attributes:
        folder: The run's, where ``selections.json`` goes: a list of the rule, its epoch, the labels that it read, and
            the test figures of that epoch's weights, as in ``report.json``.
        watch: ``test`` and ``train_margins``; see ``watched``.
        also_select: Further selection rules.
    """

    folder: Path
    watch: Sequence[str] = ()
    also_select: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raise ``InputError`` unless all names are known."""
        for name in self.watch:
            if name not in ("test", "train_margins"):
                raise InputError(f"watch: {name!r} is unknown: take test or train_margins")
        for name in self.also_select:
            build_rule(name)

    def __call__(self, fit: Trainer) -> dict[str, float]:
        """Follow the training after an epoch, and return the figures for ``metrics.csv``."""
        if fit.progress.stage + 1 == fit.algorithm.num_stages:
            self._select(fit)
        return compute_monitored_metrics(self.watch, fit.table, fit.predict)

    def _select(self, fit: Trainer) -> None:
        """Evaluate the weights if a rule takes them; what it holds to be best stands in the run's checkpoint."""
        rules = {name: build_rule(name) for name in self.also_select if name != fit.rule.name}
        for rule in rules.values():
            check_rule_has_estimates(rule, fit.algorithm, type(fit.algorithm).__name__)
        held, epoch, table = fit.progress.best, fit.progress.epoch, fit.table
        rows = fit.predict_validation_rows(rules.values())
        if rows is not None:
            for rule in rules.values():
                update_best_weights(held, rule, rule.score(rows), rows, epoch, {})
        taken = [name for name in rules if (held[name].epoch if name in held else fit.epochs) == epoch]
        if not taken:
            return
        test = evaluate_split(
            build_predictions(table, "test", fit.predict("test"), fit.estimate("test")), table
        ).to_dict()
        chosen = {one["rule"]: one for one in read_selections(self.folder)}
        for name in taken:
            read = list(rules[name].labels_read)
            chosen[name] = {"rule": name, "epoch": epoch, "labels_read": read, "test": test}
        text = json.dumps([chosen[name] for name in rules if name in chosen], indent=1, allow_nan=False)
        write_text_file(self.folder / SELECTIONS, text)


def read_selections(folder: Path) -> list[dict[str, Any]]:
    """Return what other rules chose in a run; empty where none were asked."""
    file = folder / SELECTIONS
    return json.loads(file.read_text("utf-8")) if file.is_file() else []


def compute_monitored_metrics(
    watch: Sequence[str], table: DataTable, predict: Callable[[str], Tensor]
) -> dict[str, float]:
    """Return columns of ``metrics.csv`` that are followed in the course of a training; what is not finite is left out.

    ``test`` gives ``test_average`` and, where groups are known, ``test_group_balanced`` and ``test_worst_group``.
    ``train_margins`` gives ``train_majority_margin`` and ``train_minority_margin``, the mean over the groups of the
    least margin of a group's rows (Appendix C of the paper), their ratio where both are positive, and the same of the
    mean margin, which does not depend on how many rows a group has: ``train_majority_mean_margin`` and so on.
    ``predict`` returns the logits (n, L) of a split.
    """
    figures: dict[str, Tensor | float] = {}
    if "test" in watch:
        judged = EvaluatedRows.from_predictions(build_predictions(table, "test", predict("test")))
        for name in ("average", "group_balanced", "worst_group"):
            if (value := judged.compute_metric(name)) is not None:
                figures[f"test_{name}"] = value
    if "train_margins" in watch:
        if table.correlation is None or not table.has_attributes("train"):
            raise InputError("watch: train_margins needs the correlation and the attribute of every training row")
        train, info, minority = table.split["train"], table.info, table.correlation.minority_groups().flatten()
        groups = group_membership(table.label[train], table.attribute[train], info.num_labels, info.num_attributes)
        margins = margin(predict("train"), table.label[train])
        for kind, of_group in (("margin", group_margin), ("mean_margin", group_mean)):
            found = of_group(margins, groups)
            large, small = found[~minority].nanmean(), found[minority].nanmean()
            figures[f"train_majority_{kind}"], figures[f"train_minority_{kind}"] = large, small
            meant = (large > 0) & (small > 0)  # of margins of two signs a ratio says nothing
            figures[f"train_{kind}_ratio"] = (large / small).where(meant, torch.nan)
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}
