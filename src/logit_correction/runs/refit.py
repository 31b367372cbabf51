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
from logit_correction.runs.assemble import PreparedRun, build_checked_algorithm, build_training_rows
from logit_correction.runs.average import build_trainer
from logit_correction.training.fit import Trainer


@dataclass(frozen=True)
class Refit:
    """A training on all rows.

    Attributes:
        trainer: At its end; rows of splits that were given are predicted by it.
        summary: For the report.
    """

    trainer: Trainer
    summary: RefitSummary


def extend_training_split(table: DataTable) -> DataTable:
    """Return the table with the rows of drawn splits among the training rows; these splits are empty then."""
    train = torch.cat([table.split["train"], *(table.split[name] for name in table.drawn)]).sort().values
    emptied = {name: train[:0] for name in table.drawn}
    return replace(table, split={**table.split, **emptied, "train": train})


def prepare_refit(prepared_run: PreparedRun) -> PreparedRun | None:
    """Return the training on all rows that follows that of a prepared run; None where it has all rows already.

    Call it before the first training, so that what cannot be trained on all rows is refused before it. Epochs are
    scaled by the share of rows that the first training has, so that the learning rate falls over as many steps. Equal
    epochs would be more steps, which take longer and win no more (``lab/results/refit``).

    Raises:
        InputError: The method cannot be trained on all rows.
    """
    table = extend_training_split(prepared_run.table)
    if len(table.split["train"]) == len(prepared_run.table.split["train"]):
        return None
    training = prepared_run.config.training
    epochs = _scale_epochs(training.epochs or 1, prepared_run.table, table)
    config = replace(prepared_run.config, training=replace(training, selection="last", epochs=epochs))
    try:
        algorithm = build_checked_algorithm(config, table)
        algorithm.setup(build_training_rows(table, algorithm, epochs))
    except InputError as error:
        raise InputError(f"{error}; or leave {format_option('refit')} out, which trains on these rows too") from error
    return PreparedRun(config, table, algorithm)


def train_on_all_rows(prepared_refit: PreparedRun, trainer: Trainer, checkpoint: Path | None, resume: bool) -> Refit:
    """Train the method of a run anew on all rows, for as many steps as were selected. What a search found is kept.

    Args:
        prepared_refit: From ``prepare_refit``.
        trainer: The first training, at its end.
        checkpoint: The file to resume from; None writes none.
        resume: Continue from it, if it is there.
    """
    table = prepared_refit.table
    num_rows = len(table.split["train"])
    trainer.display.show_message(f"training again on all {num_rows:,} rows")
    epochs = [_scale_epochs(epoch, trainer.table, table) for _, epoch in trainer.get_selections()]
    trained = trainer.algorithm.attributes
    if trained is not None and trained.finding is not None:
        prepared_refit.algorithm.adopt_finding(trained.finding)
    last = build_trainer(
        prepared_refit, trainer.display, device=trainer.device, checkpoint_path=checkpoint, last_epochs=epochs
    )
    last.run(resume)
    summary = RefitSummary(rows=num_rows, epochs=epochs, splits=list(table.drawn))
    return Refit(last, summary)


def _scale_epochs(count: int, table: DataTable, extended_table: DataTable) -> int:
    """Return the epochs on more training rows that take as many steps."""
    share = len(table.split["train"]) / len(extended_table.split["train"])
    return max(1, round(share * count))
