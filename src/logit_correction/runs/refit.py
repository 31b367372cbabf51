"""Train the method of a run again on all rows, after a training that left rows out to measure and to select by.

Rows that were drawn for validation and test have served their purpose once the epoch is selected and the accuracy is
measured. In the end they are trained on too, as scikit-learn's searches do with ``refit``: of a table of 330 rows, 99
would otherwise never be learned from, which costs about a point (``lab/results/refit``). The accuracy on them is that
of the first training; nothing is selected by rows that were trained on. Splits that a user gave stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.evaluation.report import RefitSummary
from logit_correction.formatting import format_option
from logit_correction.methods.base import Algorithm
from logit_correction.runs.assemble import PreparedRun, build_checked_algorithm, build_training_rows
from logit_correction.runs.average import build_trainer
from logit_correction.runs.model import FittedModel
from logit_correction.runs.options import RunConfig
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer


@dataclass(frozen=True)
class Refit:
    """A training on all rows.

    Attributes:
        trainer: At its end; rows of splits that were given are predicted by it.
        model: What it trained.
        summary: For the report.
    """

    trainer: Trainer
    model: FittedModel
    summary: RefitSummary


def extend_training_split(table: DataTable) -> DataTable:
    """Return the table with the rows of drawn splits among the training rows; these splits are empty then."""
    train = torch.cat([table.split["train"], *(table.split[name] for name in table.drawn)]).sort().values
    emptied = {name: train[:0] for name in table.drawn}
    return replace(table, split={**table.split, **emptied, "train": train})


def check_refit(prepared_run: PreparedRun) -> None:
    """Raise ``InputError`` if the method of a prepared run cannot be trained on all rows."""
    table = extend_training_split(prepared_run.table)
    try:
        _build_algorithm(prepared_run.config, table)
    except InputError as error:
        raise InputError(f"{error}; or leave {format_option('refit')} out, which trains on these rows too") from error


def train_on_all_rows(
    prepared_run: PreparedRun, trainer: Trainer, display: Display, device: torch.device, checkpoint: Path, resume: bool
) -> Refit | None:
    """Train the method of a run anew on all rows, for as many steps as were selected.

    All epochs and the selected ones are scaled by the share of rows that the first training had, so that the learning
    rate falls over as many steps as it did. Equal epochs would be more steps, which take longer and win no more
    (``lab/results/refit``). What a search has found is kept.

    Args:
        prepared_run: Of the first training.
        trainer: The first training, at its end.
        display: Shows the progress.
        device: Where it trains.
        checkpoint: The file to resume from.
        resume: Continue from it, if it is there.

    Returns:
        The training; None where no split was drawn, so that there is nothing to add.
    """
    table = extend_training_split(prepared_run.table)
    num_rows = len(table.split["train"])
    share = len(prepared_run.table.split["train"]) / num_rows
    if share == 1:
        return None
    display.show_message(f"training again on all {num_rows:,} rows")
    training = prepared_run.config.training
    epoch_counts = [training.epochs or 1, *trainer.get_selected_epochs()]
    total_epochs, *epochs = [max(1, round(share * count)) for count in epoch_counts]
    config = replace(prepared_run.config, training=replace(training, selection="last", epochs=total_epochs))
    algorithm = _build_algorithm(config, table, prepared_run.algorithm)
    last = build_trainer(PreparedRun(config, table, algorithm), display, device, checkpoint, last_epochs=epochs)
    last.run(resume=resume and last.can_resume())
    model = PreparedRun(prepared_run.config, table, algorithm).build_model()
    return Refit(last, model, RefitSummary(rows=num_rows, epochs=epochs, splits=list(table.drawn)))


def _build_algorithm(config: RunConfig, table: DataTable, trained: Algorithm | None = None) -> Algorithm:
    """Return the method of a config for another table, with what the search of a trained method has found."""
    algorithm = build_checked_algorithm(config, table)
    finding = trained.attributes.finding if trained is not None and trained.attributes is not None else None
    if finding is not None and algorithm.attributes is not None:
        algorithm.attributes.adopt_finding(finding)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0))
    return algorithm
