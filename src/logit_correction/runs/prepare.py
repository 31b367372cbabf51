"""From a config to data and a method that could be trained: whatever is wrong with them is told here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from logit_correction.config import RunConfig
from logit_correction.data.table import SPLITS, DataTable
from logit_correction.methods.base import Algorithm
from logit_correction.runs.assemble import build_algorithm, build_source, build_table, check_attributes
from logit_correction.runs.defaults import fitted
from logit_correction.runs.encode import encode_table
from logit_correction.runs.networks import check_fits
from logit_correction.runs.parts import complete_parts
from logit_correction.training.display import Display
from logit_correction.training.selection import check_estimates
from logit_correction.training.watch import check_watch
from logit_correction.types import TrainingRows


def prepare(
    config: RunConfig, display: Display | None, splits: Sequence[str] = SPLITS
) -> tuple[RunConfig, DataTable, Algorithm, list[str]]:
    """Read the data, fill in what the config leaves to them, and build the method; all that may be refused is.

    Args:
        config: Complete.
        display: Told of long work.
        splits: Those that must have rows.

    Returns:
        The config with nothing left open, the data, the method with its training rows, and what was chosen.

    Raises:
        InputError: Something given is wrong.
    """
    rules = [config.training.selection, *config.training.also_select]
    table = build_table(build_source(config), rules, splits)
    if config.encoder is not None:
        table = encode_table(table, config, display)
    config, chosen = fitted(config, table.info)
    config = complete_parts(config)
    if chosen:
        table = replace(table, metadata=table.metadata | {"chosen to fit the data": "; ".join(chosen)})
    algorithm = build_algorithm(config, table.info)
    check_fits(algorithm, table, config.network.name)
    check_attributes(config, algorithm, table)
    check_watch(config.training.watch, table)
    check_estimates(rules, algorithm, config.method.name)
    algorithm.setup(training_rows(table, algorithm, config.training.epochs or 0, display))
    return config, table, algorithm, chosen


def training_rows(table: DataTable, algorithm: Algorithm, epochs: int, display: Display | None) -> TrainingRows:
    """Return what a method may look at once; attributes only if it declares that it needs them."""
    train = _rows_of(table, "train")
    return replace(
        train,
        attribute=table.attribute[table.split["train"]] if algorithm.needs_attributes else None,
        epochs=epochs,
        held_out=_rows_of(table, "valid"),
        report=(display or Display()).say,
    )


def _rows_of(table: DataTable, split: str) -> TrainingRows:
    """Return the rows of a split without attributes."""
    rows, names = table.split[split], table.row_names
    return TrainingRows(
        label=table.label[rows],
        view_inputs=table.view_inputs(split),
        names=None if names is None else [names[row] for row in rows.tolist()],
        numbers=rows,
    )
