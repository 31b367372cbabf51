"""A method in evaluation mode: what it says of a split, and what the selection rules may look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from logit_correction.config import TrainingConfig
from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable, fingerprint
from logit_correction.evaluation.predictions import EstimatedAttributes, collect, evaluating
from logit_correction.methods.base import Algorithm
from logit_correction.training.estimates import estimate_split
from logit_correction.training.loaders import evaluation_loader
from logit_correction.training.rules import ValidationRows, rules_of, scored, validation_groups
from logit_correction.types import Batch

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class Evaluation:
    """A method, as it stands, that is asked about the rows of its data.

    Attributes:
        algorithm: The method.
        table: The data.
        config: Options of the loop.
        fabric: Devices, precision and processes.
    """

    algorithm: Algorithm
    table: DataTable
    config: TrainingConfig
    fabric: Fabric

    def __post_init__(self) -> None:
        """Find the selection rules, and the groups that they need."""
        self.rules = rules_of(self.config, self.algorithm)
        self.scored, self.valid_groups = scored(self.rules), validation_groups(self.table, self.rules)
        self.valid = self.loader("valid")
        self._valid_estimate: tuple[EstimatedAttributes | None] | None = None  # None: nobody has asked yet

    @cached_property
    def fingerprint(self) -> str:
        """Which data these are; see ``data.fingerprint``."""
        return fingerprint(self.table)

    def loader(self, split: str) -> BatchLoader:
        """Return a loader of all rows of ``split`` in order, for evaluation: without attributes."""
        return evaluation_loader(self.table, split, self.config, self.fabric.device)

    def validation_rows(self) -> ValidationRows:
        """Return what the rules may look at of the validation rows, as the method stands."""
        estimate = self.estimate_valid() if any(rule.needs_estimate for rule in self.scored.values()) else None
        label, num_labels = self.table.label[self.table.split["valid"]], self.table.info.num_labels
        return ValidationRows(self.predict("valid").argmax(1), label, num_labels, self.valid_groups, estimate)

    def estimate_valid(self) -> EstimatedAttributes | None:
        """Return the estimated attributes of the validation rows; settled ones are found once."""
        if self._valid_estimate is not None:
            return self._valid_estimate[0]
        estimate, estimator = estimate_split(self.algorithm, self.table, "valid"), self.algorithm.attributes
        # That there is none is found once as well, since to look takes every form of the rows.
        if estimator is not None and estimator.settled and not self.algorithm.in_pretraining:
            self._valid_estimate = (estimate,)
        return estimate

    def predict(self, split: str, predict: Callable[[Batch], Tensor] | None = None) -> Tensor:
        """Return the logits (n, L) of all rows of ``split`` in evaluation mode, on the CPU."""
        predict = predict or (lambda batch: self.algorithm.predict(batch.inputs))
        return self.collect(split, lambda batch: {"logits": predict(batch).float()})["logits"]

    def collect(self, split: str, function: Callable[[Batch], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Apply ``function`` to every batch of ``split`` in evaluation mode."""
        loader = self.valid if split == "valid" else self.loader(split)
        with evaluating(self.algorithm), self.fabric.autocast():
            return collect(function, loader.epoch())
