"""What a grid records of a training in addition to the run's own report; nothing that a run reports depends on it.

To compare selection rules, one training should show what each of them would have chosen; to plot how a method learns,
test accuracy and margins are needed after every epoch. A ``TrainingMonitor`` records both while the run trains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, check_choice
from logit_correction.evaluation.predictions import build_predictions
from logit_correction.evaluation.report import EvaluatedRows
from logit_correction.functional import group_mean
from logit_correction.runs.folder import write_json
from logit_correction.runs.write import evaluate_split
from logit_correction.training.fit import Trainer
from logit_correction.training.rules import build_rule, check_rule_has_estimates, update_best_weights

#: File of a run folder for what other selection rules chose.
SELECTIONS = "selections.json"


@dataclass(frozen=True)
class TrainingMonitor:
    """``after_epoch`` of a run: records accuracy and margins, and what other selection rules would choose.

    Attributes:
        folder: Folder of the run. ``selections.json`` in it lists for each rule its name, its epoch, the labels that it
            read, and the test figures of that epoch's weights, as in ``report.json``.
        watch: What to record after each epoch, ``test`` or ``train_margins``; see ``compute_monitored_metrics``.
        also_select: Further selection rules.
    """

    folder: Path
    watch: Sequence[str] = ()
    also_select: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raise ``InputError`` unless all names are known."""
        for name in self.watch:
            check_choice("watch", name, ("test", "train_margins"))
        for name in self.also_select:
            build_rule(name)

    def __call__(self, fit: Trainer) -> dict[str, float]:
        """Record an epoch, and return the columns that ``metrics.csv`` gets for it."""
        if fit.progress.stage + 1 == fit.algorithm.num_stages:
            self._record_selected_weights(fit)
        return compute_monitored_metrics(self.watch, fit.table, fit.predict)

    def _record_selected_weights(self, fit: Trainer) -> None:
        """Evaluate the weights if a rule selects them. The best score of each rule is part of the run's checkpoint."""
        rules = {name: build_rule(name) for name in self.also_select if name != fit.rule.name}
        for rule in rules.values():
            check_rule_has_estimates(rule, fit.algorithm, type(fit.algorithm).__name__)
        best = fit.progress.best
        epoch = fit.progress.epoch
        rows = fit.predict_validation_rows(rules.values())
        if rows is not None:
            for rule in rules.values():
                update_best_weights(best, rule, rule.score(rows), rows, epoch, {})
        selecting = [name for name in rules if (best[name].epoch if name in best else fit.stage_epochs) == epoch]
        if not selecting:
            return
        test = evaluate_split(fit.predict_split("test"), fit.table).to_dict()
        selections = {selection["rule"]: selection for selection in read_selections(self.folder)}
        for name in selecting:
            selections[name] = {
                "rule": name,
                "epoch": epoch,
                "labels_read": list(rules[name].labels_read),
                "test": test,
            }
        write_json(self.folder / SELECTIONS, [selections[name] for name in rules if name in selections])


def read_selections(run_dir: Path) -> list[dict[str, Any]]:
    """Return what other rules chose in a run, as ``selections.json`` lists it; empty without that file."""
    file = run_dir / SELECTIONS
    return json.loads(file.read_text("utf-8")) if file.is_file() else []


def compute_monitored_metrics(
    metric_names: Sequence[str], table: DataTable, predict: Callable[[str], Tensor]
) -> dict[str, float]:
    """Return columns of ``metrics.csv`` that show the course of a training; values that are not finite are left out.

    Args:
        metric_names: ``test`` gives ``test_average`` and, where groups are known, ``test_group_balanced`` and
            ``test_worst_group``. ``train_margins`` gives ``train_majority_margin`` and ``train_minority_margin``, the
            mean over groups of the least margin of a group's rows (Appendix C of the paper), and
            ``train_margin_ratio``, their ratio where both are positive; the same of the mean margin of a group's
            rows, which does not depend on how many rows the group has: ``train_majority_mean_margin`` and so on.
        table: The data.
        predict: Called with the name of a split, returns its logits (n, L).

    Raises:
        InputError: For ``train_margins``, the correlation or the attribute of a training row is unknown.
    """
    metrics: dict[str, Tensor | float | None] = {}
    if "test" in metric_names:
        rows = EvaluatedRows.from_predictions(build_predictions(table, "test", predict("test")))
        for name in ("average", "group_balanced", "worst_group"):
            metrics[f"test_{name}"] = rows.compute_metric(name)
    if "train_margins" in metric_names:
        if table.correlation is None or not table.has_attributes("train"):
            raise InputError("watch: train_margins needs the correlation and the attribute of every training row")
        rows = EvaluatedRows.from_predictions(build_predictions(table, "train", predict("train")))
        is_minority = table.correlation.minority_groups().flatten()
        mean_margins = group_mean(rows.margins, rows.membership)
        for name, group_margins in (("margin", rows.min_margin), ("mean_margin", mean_margins)):
            majority = group_margins[~is_minority].nanmean()
            minority = group_margins[is_minority].nanmean()
            metrics[f"train_majority_{name}"] = majority
            metrics[f"train_minority_{name}"] = minority
            if majority > 0 and minority > 0:  # a ratio of two signs has no meaning
                metrics[f"train_{name}_ratio"] = majority / minority
    return {name: float(value) for name, value in metrics.items() if value is not None and math.isfinite(value)}
