"""Train the members of an average, and learn its correction from the labelled new rows.

The fix of an audit with answers is a run of the method ``Average``. Its members are trained one after another, each
with a checkpoint of its own, so an interrupted run continues within the member that it was at.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.evaluation.answers import AnswerCounts
from logit_correction.methods.average import Average
from logit_correction.registry import refuse_untrusted_path
from logit_correction.runs.assemble import PreparedRun, build_training_rows
from logit_correction.runs.folder import RESUME
from logit_correction.runs.model import build_algorithm, build_member_config
from logit_correction.runs.options import RunConfig
from logit_correction.runs.teaching import compute_feature_scale, fit_guarded_logit_correction
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.types import Inputs, Stage

#: Rows whose features are computed at a time.
BATCH_SIZE = 256


@dataclass(frozen=True)
class LabelledRows:
    """Labelled new rows, as the networks take them.

    Attributes:
        inputs: Inputs of n rows.
        label: (n,) labels, 0..L - 1.
        weight: (n,) number of new rows for which each stands.
        counts: On how many of them ERM and the advice are right; None in files of older versions.
    """

    inputs: Inputs
    label: np.ndarray[Any, Any]
    weight: np.ndarray[Any, Any]
    counts: AnswerCounts | None = None


def write_labelled_rows(path: Path, rows: LabelledRows) -> None:
    """Write labelled new rows as a NumPy archive, which holds no code."""
    inputs = rows.inputs if isinstance(rows.inputs, dict) else {"": rows.inputs}
    arrays = {f"inputs{name and ':' + name}": value.numpy() for name, value in inputs.items()}
    if rows.counts is not None:
        arrays["counts"] = np.array(astuple(rows.counts)[:-1])  # what is learned from is advised
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays, label=rows.label, weight=rows.weight)  # type: ignore[arg-type]


def read_labelled_rows(path: Path) -> LabelledRows:
    """Read what ``write_labelled_rows`` wrote.

    Raises:
        InputError: The file is missing, damaged, or named by an untrusted folder.
    """
    refuse_untrusted_path("labelled rows", str(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        label = arrays.pop("label")
        weight = arrays.pop("weight")
        numbers = arrays.pop("counts", None)
        counts = None if numbers is None else AnswerCounts(*numbers.tolist())
        inputs = {name.partition(":")[2]: torch.from_numpy(array) for name, array in arrays.items()}
        if not inputs or any(len(values) != len(label) for values in (weight, *inputs.values())):
            raise ValueError("its arrays have different lengths")
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing, the labelled new rows: answer the sheet of the audit again") from error
    except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
        raise InputError(f"{path} does not hold labelled new rows ({error}): answer the audit's sheet again") from error
    return LabelledRows(inputs.get("", inputs) if set(inputs) == {""} else inputs, label, weight, counts)


def train_member(
    config: RunConfig, table: DataTable, display: Display, device: torch.device, checkpoint: Path | None, **options: Any
) -> Trainer:
    """Train a complete config on a table, from its checkpoint if there is one, and take the weights to keep."""
    algorithm = build_algorithm(config, table.info)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0))
    trainer = Trainer(algorithm, table, config.training, device, checkpoint, display, **options)
    trainer.run(resume=checkpoint is not None and checkpoint.is_file())
    best = trainer.progress.best.get(trainer.rule.name)
    if best is not None:
        algorithm.load_state_dict(best.state)
    return trainer


@dataclass
class AverageTrainer(Trainer):
    """The training of an average: its members one after another, then its correction.

    Attributes:
        run_config: The complete config of the run.
    """

    run_config: RunConfig | None = None

    def can_resume(self) -> bool:
        """Return whether members may have checkpoints; those that have none begin anew."""
        return self.checkpoint_path is not None

    def run(self, resume: bool = False, estimator_only: bool = False) -> None:
        """Train all members, from their checkpoints if there are any, and learn the correction."""
        assert self.run_config is not None
        algorithm: Average = self.algorithm  # type: ignore[assignment]
        averaged = algorithm.averaged_network.cpu()
        num_members = len(algorithm.members)
        for number, member in enumerate(algorithm.members):
            config = build_member_config(self.run_config, member)
            checkpoint = self.checkpoint_path and self.checkpoint_path.with_name(f"member-{number}-{RESUME}")
            if checkpoint is not None and not resume:
                checkpoint.unlink(missing_ok=True)  # a new training begins
            self.display.show_message(f"member {number + 1} of {num_members}: {member.get('name', config.method.name)}")
            trainer = train_member(
                config, self.table, self.display, self.device, checkpoint, after_epoch=self.after_epoch
            )
            network = trainer.algorithm.network.cpu()
            averaged.members[number].load_state_dict(network.state_dict())
            for row in trainer.record.rows:
                stage = {"step": row["step"] + self.progress.total_steps, "stage": row["stage"] + self.progress.stage}
                self.record.append({**row, **stage})
            self.progress.stage += trainer.algorithm.num_stages
            self.progress.total_steps += trainer.progress.total_steps
            self.progress.epoch = trainer.progress.epoch
            self.progress.seconds += trainer.progress.seconds
            self.progress.warnings += [
                warning for warning in trainer.progress.warnings if warning not in self.progress.warnings
            ]
        self.progress.plan = Stage()
        averaged.eval()
        if algorithm.answers is not None:
            labelled_rows = read_labelled_rows(Path(algorithm.answers))
            algorithm.answer_counts = labelled_rows.counts
            self._fit_correction_to_labelled_rows(labelled_rows)
        algorithm.finish()
        algorithm.to(self.device)

    @torch.no_grad()
    def _fit_correction_to_labelled_rows(self, rows: LabelledRows) -> None:
        """Learn the correction of the average's logits from labelled new rows."""
        algorithm: Average = self.algorithm  # type: ignore[assignment]
        averaged = algorithm.averaged_network
        if averaged.correction is None:
            self.display.show_message("the network has no features in front of a linear head: no correction is learned")
            return
        count = 0
        total = torch.zeros(averaged.correction.in_features, dtype=torch.float64)
        for batch in BatchLoader(self.table, "train").epoch():
            batch_features = averaged.compute_features(batch.inputs).double()
            total += batch_features.sum(dim=0)
            count += len(batch_features)
        mean = (total / max(count, 1)).numpy()
        features = _compute_in_batches(averaged.compute_features, rows.inputs)
        offset = _compute_in_batches(averaged.average_logits, rows.inputs)
        # The labelled rows stand for all new rows by their weights.
        scale = compute_feature_scale(features, mean, rows.weight)
        correction = fit_guarded_logit_correction(features, offset, rows.label, mean, scale, weight=rows.weight)
        coefficients = torch.from_numpy(correction.coefficients / correction.scale)
        averaged.correction.weight.copy_(coefficients.T)
        averaged.correction.bias.copy_(-torch.from_numpy(mean) @ coefficients)
        learned = "none is better" if correction.strength is None else f"strength {correction.strength}"
        self.display.show_message(f"correction by {len(rows.label)} labelled new rows: {learned}")


def _compute_in_batches(function: Any, inputs: Inputs) -> np.ndarray[Any, Any]:
    """Return what a function of inputs gives for all rows, float64."""
    size = len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)
    parts = list[Tensor]()
    for rows in torch.arange(size).split(BATCH_SIZE):
        batch: Inputs = (
            {name: value[rows] for name, value in inputs.items()} if isinstance(inputs, dict) else inputs[rows]
        )
        parts.append(function(batch))
    return torch.cat(parts).double().numpy()


def build_trainer(
    prepared_run: PreparedRun, display: Display, device: torch.device, checkpoint: Path, **options: Any
) -> Trainer:
    """Return the loop of a prepared run: that of an average where the method is one."""
    if not isinstance(prepared_run.algorithm, Average):
        return prepared_run.make_trainer(display, device, checkpoint, **options)
    training = prepared_run.config.training
    return AverageTrainer(
        prepared_run.algorithm,
        prepared_run.table,
        training,
        device,
        checkpoint,
        display,
        run_config=prepared_run.config,
        **options,
    )


def remove_member_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of members from the folder of a finished run."""
    for path in folder.glob(f"member-*-{RESUME}"):
        path.unlink(missing_ok=True)
