"""What a finished training leaves in its folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from logit_correction.config import RunConfig
from logit_correction.evaluation.predictions import Predictions
from logit_correction.runs import folder as files
from logit_correction.runs import summary
from logit_correction.runs.minority import describe_minority, warn_of_minority
from logit_correction.runs.selections import (
    evaluate_selections,
    take_last_if_unanswered,
    unanswered,
    validation_predictions,
)
from logit_correction.training import checkpoint
from logit_correction.training.fit import Fit
from logit_correction.training.watch import labels_watched


def write_run(fit: Fit, config: RunConfig, out: Path) -> dict[str, Any]:
    """Evaluate what was trained and write the folder; the report comes last, so a finished run has it all.

    Returns:
        The content of ``report.json``.
    """
    started = time.monotonic()
    found, test_rows, validation = _evaluate(fit)
    files.write_text(out / files.CONFIG, config.to_yaml())
    fit.record.write(out / files.METRICS)
    test_rows.save(out / files.PREDICTIONS)
    validation.save(out / files.VALIDATION)
    checkpoint.write(out / files.CHECKPOINT, {"format": checkpoint.FORMAT, "algorithm": fit.algorithm.state_dict()})
    seconds = {"train": fit.progress.seconds, "evaluate": time.monotonic() - started}
    report = {**_describe(fit, config), **found, "seconds": seconds}
    files.write_json(out / files.REPORT, report)
    return report


def _evaluate(fit: Fit) -> tuple[dict[str, Any], Predictions, Predictions]:
    """Return the entries of the report that take predictions, and those of the test and the validation rows.

    The weights of the rule to report are the method's afterwards.
    """
    take_last_if_unanswered(fit)
    algorithm, table, rules = fit.algorithm, fit.table, fit.rules
    minority = describe_minority(fit.collect("train", algorithm.diagnose), table, algorithm)
    warnings = [
        *table.notes,
        *table.attribute_notes,
        *fit.progress.warnings,
        *warn_of_minority(minority, table.info.num_rows, algorithm.attributes),
        *unanswered(fit),
    ]
    prior = summary.describe_prior(algorithm, table)
    blocks, test_rows = evaluate_selections(fit)
    validation = validation_predictions(fit)
    entries = {
        **blocks[rules[0]],
        "other_selections": [blocks[rule]["selection"] | {"test": blocks[rule]["test"]} for rule in rules[1:]],
        "group_prior": prior,
        "estimated_minority": minority,
        "warnings": warnings,
    }
    return entries, test_rows, validation


def _describe(fit: Fit, config: RunConfig) -> dict[str, Any]:
    """Return the entries of the report that tell what was run, and on what."""
    algorithm, table, training = fit.algorithm, fit.table, config.training
    return {
        "method": config.method.name,
        "method_options": config.method.options,
        "data": summary.describe_data(config, table),
        "network": summary.describe_network(config, algorithm),
        "encoder": getattr(table.inputs, "description", None),
        "seed": training.seed,
        "epochs": fit.progress.epoch,
        "epochs_per_stage": fit.record.epochs_per_stage(),
        "steps": fit.progress.total_steps,
        "training": {k: v for k, v in vars(training).items() if k not in ("seed", "epochs")},
        "labels_read": summary.labels_read(algorithm, table, fit.rules),
        "watched_labels_read": labels_watched(training.watch, table),
        "attributes": None if algorithm.attributes is None else algorithm.attributes.describe(),
        "evidence": None if algorithm.attributes is None else algorithm.attributes.evidence,
        "diagnostics_labels_read": {"train": ["label", "attribute"] if table.has_attributes("train") else ["label"]},
        "environment": summary.environment(fit.fabric.device),
    }
