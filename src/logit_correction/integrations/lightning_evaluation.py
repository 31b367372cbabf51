"""The half of a LightningModule that evaluates a method of this package: on its validation rows and on its test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable
from logit_correction.integrations.lightning_package import lightning
from logit_correction.integrations.lightning_parts import Batches
from logit_correction.methods.base import Algorithm
from logit_correction.runs.write import figures_of, predictions_of
from logit_correction.training.checkpoint import Progress
from logit_correction.training.estimates import estimate_split
from logit_correction.training.rules import SelectionRule, ValidationRows, scored, update_best, validation_groups
from logit_correction.types import Batch, Inputs

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule
else:
    LightningModule = lightning().LightningModule

#: Figures of the test split that are logged.
_TEST = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority", "auroc", "f1", "ece")


class EvaluatedModule(LightningModule):
    """Predicts by a method, and evaluates it.

    Attributes:
        algorithm: The method.
        table: The data.
        config: Options of the training.
        progress: Where the training stands.
        figures: The test block of ``report.json`` after ``trainer.test``.
    """

    algorithm: Algorithm
    table: DataTable
    config: TrainingConfig
    progress: Progress

    def choose_rules(self, rules: Sequence[str]) -> None:
        """Choose the selection rules whose scores are logged, beside those that always are."""
        self.scored = scored(list(rules))
        self.valid_groups = validation_groups(self.table, list(rules))
        self.figures: dict[str, Any] = {}
        self._predicted: list[Tensor] = []
        self._logits: list[Tensor] = []

    def forward(self, inputs: Inputs) -> Tensor:
        """Return logits (B, L), uncorrected: the ones to predict with."""
        return self.algorithm.predict(inputs)

    def loader(self, split: str) -> BatchLoader:
        """Return a loader of all rows of a split in order, for evaluation: without attributes."""
        return BatchLoader(self.table, split, device=self.device, workers=self.config.workers)

    def val_dataloader(self) -> Batches:
        """Return the validation rows in order."""
        return Batches(self.loader("valid"))

    def test_dataloader(self) -> Batches:
        """Return the test rows in order."""
        return Batches(self.loader("test"))

    def on_validation_epoch_start(self) -> None:
        """Forget the predictions of the epoch before."""
        self._predicted = []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Predict a batch."""
        self._predicted.append(self.algorithm.predict(batch.inputs).argmax(1).cpu())

    def on_validation_epoch_end(self) -> None:
        """Log the scores of the rules, NaN before the last stage."""
        if self.trainer.sanity_checking or not self._predicted:
            return
        if self.algorithm.stage + 1 < self.algorithm.num_stages:
            self.log_dict(dict.fromkeys(self.scored, float("nan")))
            return
        rows = self._validation_rows(torch.cat(self._predicted))
        self.log_dict({name: self._offer(name, rule, rows) for name, rule in self.scored.items()})

    def _offer(self, name: str, rule: SelectionRule, rows: ValidationRows) -> float:
        """Return what is logged for a rule: its score, NaN where it has none.

        A rule may take a later epoch that is only level with the best. What is logged then is the least number above
        the best, so that whoever takes the greatest takes what the rule takes.
        """
        score, best = rule.score(rows), self.progress.best
        if score is None:
            return float("nan")
        if type(rule).is_level is SelectionRule.is_level or self.trainer.state.fn != "fit":
            return score
        held = best.get(name)
        update_best(best, {name: rule}, {name: score}, rows, self.progress.epoch + 1, {})
        if held is None or best[name] is held:
            return score
        above = torch.tensor(held.score).nextafter(torch.tensor(torch.inf))  # in the precision that is logged
        best[name].score = max(best[name].score, float(above))
        return best[name].score

    def _validation_rows(self, prediction: Tensor) -> ValidationRows:
        """Return what rules may look at of the validation rows, the first ones if the trainer takes no more."""
        count, info = len(prediction), self.table.info
        estimate = None
        if any(rule.needs_estimate for rule in self.scored.values()):
            estimate = estimate_split(self.algorithm, self.table, "valid")
            estimate = estimate and replace(estimate, attribute=estimate.attribute[:count])
        groups = self.valid_groups
        if groups is not None and count < len(groups):  # sparse ones cannot be sliced
            groups = groups.index_select(0, torch.arange(count))
        label = self.table.label[self.table.split["valid"]][:count]
        return ValidationRows(prediction, label, info.num_labels, groups, estimate)

    def on_test_epoch_start(self) -> None:
        """Forget the logits of the test before."""
        self._logits = []

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Predict a batch."""
        self._logits.append(self.algorithm.predict(batch.inputs).float().cpu())

    def on_test_epoch_end(self) -> None:
        """Evaluate the test rows by group."""
        logits = torch.cat(self._logits)
        if len(logits) < len(self.table.split["test"]):  # as Trainer(limit_test_batches=...) and fast_dev_run have it
            return
        estimate = estimate_split(self.algorithm, self.table, "test")
        self.figures = figures_of(predictions_of(self.table, "test", logits, estimate), self.table).to_dict()
        known = {name: self.figures[name] for name in _TEST if self.figures[name] is not None}
        self.log_dict({f"test_{name}": value for name, value in known.items()})
