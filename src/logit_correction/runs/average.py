"""Train the members of an average, and learn its correction from the labelled new rows.

The fix of an audit with answers is a run of the method ``Average``. Its members are trained one after another, each
with a checkpoint of its own, so an interrupted run continues within the member that it was at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.loading import BatchLoader
from logit_correction.evaluation.answers import AnswerCounts
from logit_correction.methods.average import Average
from logit_correction.registry import refuse_untrusted_path
from logit_correction.runs.assemble import PreparedRun, train_from_config
from logit_correction.runs.model import build_member_config
from logit_correction.runs.options import RunConfig
from logit_correction.runs.row_inputs import read_row_archive
from logit_correction.runs.target_correction import compute_feature_scale, fit_guarded_logit_correction
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.training.rules import SelectionRule
from logit_correction.types import Inputs, select_input_rows

#: Rows whose features are computed at a time.
BATCH_SIZE = 256


@dataclass
class AverageTrainer(Trainer):
    """The training of an average: its members one after another, then its correction.

    Attributes:
        run_config: The complete config of the run.
        selections: The rule and the epoch of each member that was trained.
    """

    run_config: RunConfig = field(kw_only=True)
    selections: list[tuple[SelectionRule, int]] = field(default_factory=list)

    def get_selections(self) -> list[tuple[SelectionRule, int]]:
        return self.selections

    def run(self, resume: bool = False, estimator_only: bool = False) -> None:
        """Train all members, from their checkpoints if there are any, and learn the correction."""
        algorithm: Average = self.algorithm  # type: ignore[assignment]
        averaged = algorithm.averaged_network.cpu()
        progress = self.progress
        num_members = len(algorithm.members)
        for number, member in enumerate(algorithm.members):
            config = build_member_config(self.run_config, member)
            checkpoint = self.checkpoint_path and self.checkpoint_path.with_name(
                f"member-{number}-{self.checkpoint_path.name}"
            )
            if checkpoint is not None and not resume:
                checkpoint.unlink(missing_ok=True)  # a new training begins
            self.display.show_message(f"member {number + 1} of {num_members}: {member.get('name', config.method.name)}")
            trainer = train_from_config(
                config,
                self.table,
                self.display,
                device=self.device,
                checkpoint_path=checkpoint,
                after_epoch=self.after_epoch,
                last_epochs=self.last_epochs[number : number + 1],
            )
            self.selections += trainer.get_selections()
            network = trainer.algorithm.network.cpu()
            averaged.members[number].load_state_dict(network.state_dict())
            for row in trainer.record.rows:
                stage = {"step": row["step"] + progress.total_steps, "stage": row["stage"] + progress.stage}
                self.record.append({**row, **stage})
            progress.stage += trainer.algorithm.num_stages
            progress.total_steps += trainer.progress.total_steps
            progress.epoch = trainer.progress.epoch
            progress.seconds += trainer.progress.seconds
            progress.warnings += [warning for warning in trainer.progress.warnings if warning not in progress.warnings]
        averaged.eval()
        if algorithm.answers is not None:
            self._fit_correction_to_labelled_rows(algorithm.answers)
        algorithm.finish()
        algorithm.to(self.device)

    @torch.no_grad()
    def _fit_correction_to_labelled_rows(self, path: str) -> None:
        """Learn the correction of the average's logits from the labelled new rows of an archive."""
        refuse_untrusted_path("labelled rows", path)
        inputs, arrays = read_row_archive(Path(path), {"label": 0, "weight": 0}, "answer the sheet of the audit again")
        algorithm: Average = self.algorithm  # type: ignore[assignment]
        if "counts" in arrays:
            algorithm.answer_counts = AnswerCounts(*arrays["counts"].tolist())
        averaged = algorithm.averaged_network
        if averaged.correction is None or inputs is None:
            self.display.show_message("the network has no features in front of a linear head: no correction is learned")
            return
        label = arrays["label"]
        weight = arrays["weight"]  # number of new rows for which each labelled row stands
        total = torch.zeros(averaged.correction.in_features, dtype=torch.float64)
        for batch in BatchLoader(self.table, "train").epoch():
            total += averaged.compute_features(batch.inputs).double().sum(dim=0)
        mean = (total / len(self.table.split["train"])).numpy()
        features = _compute_in_batches(averaged.compute_features, inputs, len(label))
        offset = _compute_in_batches(averaged.average_logits, inputs, len(label))
        scale = compute_feature_scale(features, mean, weight)
        correction = fit_guarded_logit_correction(features, offset, label, mean, scale, weight=weight)
        coefficients = torch.from_numpy(correction.coefficients / correction.scale)
        averaged.correction.weight.copy_(coefficients.T)
        averaged.correction.bias.copy_(-torch.from_numpy(mean) @ coefficients)
        learned = "none is better" if correction.strength is None else f"strength {correction.strength}"
        self.display.show_message(f"correction by {len(label)} labelled new rows: {learned}")


def _compute_in_batches(function: Callable[[Inputs], Tensor], inputs: Inputs, num_rows: int) -> np.ndarray[Any, Any]:
    """Return what a function of inputs gives for all rows, float64."""
    parts = [function(select_input_rows(inputs, rows)) for rows in torch.arange(num_rows).split(BATCH_SIZE)]
    return torch.cat(parts).double().numpy()


def build_trainer(prepared_run: PreparedRun, display: Display, **options: Any) -> Trainer:
    """Return the loop of a prepared run: that of an average where the method is one.

    Args:
        prepared_run: The run.
        display: Shows the progress.
        **options: As of ``PreparedRun.make_trainer``.
    """
    if isinstance(prepared_run.algorithm, Average):
        options |= {"loop": AverageTrainer, "run_config": prepared_run.config}
    return prepared_run.make_trainer(display, **options)
