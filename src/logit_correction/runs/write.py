"""Write the files of a finished training: figures, predictions, weights and, last, ``report.json``.

The report is written last, so a folder that has one has everything.
"""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.atomic_files import write_text_file
from logit_correction.attributes.given import Given
from logit_correction.checksums import write_checksums
from logit_correction.data.table import DataTable
from logit_correction.evaluation.metrics import MetricSpec
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import (
    DataSummary,
    GroupReport,
    MinorityExample,
    MinoritySummary,
    NetworkSummary,
    PriorSummary,
    Report,
)
from logit_correction.finding_text import finding_to_dict
from logit_correction.formatting import format_option, format_percent
from logit_correction.methods.average import Average
from logit_correction.methods.base import Algorithm
from logit_correction.pages.compare import COLLAPSE_REMEDY
from logit_correction.pages.plots import encode_picture
from logit_correction.runs import folder as run_folder
from logit_correction.runs.encode import EncodedStore
from logit_correction.runs.model import FittedModel
from logit_correction.runs.options import RunConfig
from logit_correction.runs.refit import Refit
from logit_correction.serialization import to_json_values
from logit_correction.training.fit import Trainer, get_attribute_names
from logit_correction.training.record import write_checkpoint
from logit_correction.training.rules import summarize_selections
from logit_correction.types import UNKNOWN_ATTRIBUTE
from logit_correction.view_names import format_view_names

#: Rows that a report shows of those estimated to be bias-conflicting.
MAX_EXAMPLES = 24

#: Characters that it shows of a text.
MAX_EXAMPLE_LENGTH = 300


def write_run(fit: Trainer, model: FittedModel, out: Path, refit: Refit | None) -> Report:
    """Evaluate a trained method and write the files of its run; afterwards it has the selected weights.

    Args:
        fit: The training loop, at its end.
        model: The method that it trained, as a model.
        out: Folder of the run.
        refit: The training on all rows that followed, if any, whose weights are kept; rows that it was trained on are
            evaluated by the one before.

    Returns:
        The report.
    """
    started = time.monotonic()
    algorithm = fit.algorithm
    table = fit.table
    config = model.config
    training = fit.config
    selection = summarize_selections(fit.get_selections())
    estimated = None if algorithm.needs_attributes else fit.estimate_training_attributes()
    minority = summarize_minority(estimated, table, algorithm)
    estimator = algorithm.attributes
    corrects = estimator is not None and not estimator.has_abstained
    warnings = [*table.notes, *table.attribute_notes, *fit.progress.warnings]
    if minority is not None and corrects:
        warnings += describe_unlikely_minority(minority.count, table.info.num_rows, getattr(estimator, "shortcut", ()))
    if training.selection is not None and fit.rule.needs_estimate and fit.selected_weights is None:
        warnings.append(
            f"rule {fit.rule.name} had no estimated groups of validation rows to go by: took the last epoch"
        )
    prior = summarize_group_prior(algorithm, table)  # before weights of another epoch come with another prior
    fit.load_selected_weights()
    reads_attributes = "attribute" in selection.labels_read
    trainers = dict.fromkeys(("test", "valid"), fit)
    if refit is not None:
        trainers |= {split: refit.trainer for split in trainers if split not in refit.summary.splits}
        warnings += refit.trainer.progress.warnings
    test = trainers["test"].predict_split("test")
    validation = trainers["valid"].predict_split("valid", with_groups=reads_attributes)
    remedy = COLLAPSE_REMEDY if corrects else f"train longer, or lower {format_option('learning_rate')}"
    if isinstance(algorithm, Average):  # it is made for other rows
        remedy = f"for rows like these, train with {format_option('method', 'ERM')}"
    warnings += describe_collapse_to_majority(validation, remedy)
    write_text_file(out / run_folder.CONFIG, config.to_yaml())
    fit.record.write(out / run_folder.METRICS)
    test.save(out / run_folder.PREDICTIONS)
    validation.save(out / run_folder.VALIDATION)
    if refit is not None:
        model = replace(model, algorithm=refit.trainer.algorithm)
    write_checkpoint(out / run_folder.CHECKPOINT, **model.state())
    report = Report(
        method=config.method.name,
        method_options=config.method.options,
        data=summarize_data(config, table, fit.fingerprint),
        network=NetworkSummary(
            name=config.network.name,
            options=config.network.options,
            facts=getattr(algorithm.network, "metadata", {}),
            parameters=sum(weight.numel() for weight in algorithm.network.parameters()),
        ),
        encoder=table.inputs.encoder_summary if isinstance(table.inputs, EncodedStore) else None,
        seed=training.seed,
        epochs=fit.progress.epoch,
        epochs_per_stage=fit.record.epochs_per_stage(),
        steps=fit.progress.total_steps,
        training={name: value for name, value in vars(training).items() if name not in ("seed", "epochs")},
        labels_read=list_labels_read(algorithm, table, reads_attributes),
        diagnostics_labels_read={"train": ["label", "attribute"] if table.has_attributes("train") else ["label"]},
        attributes=None if estimator is None else estimator.describe(),
        evidence=None if estimator is None else finding_to_dict(estimator.finding),
        environment=describe_environment(fit.device),
        selection=selection,
        refit=None if refit is None else refit.summary,
        test=evaluate_split(test, table),
        group_prior=prior,
        estimated_minority=minority,
        answers=getattr(algorithm, "answer_counts", None),
        warnings=warnings,
        seconds={
            "train": fit.progress.seconds + (0.0 if refit is None else refit.trainer.progress.seconds),
            "evaluate": time.monotonic() - started,
        },
    )
    run_folder.write_json(out / run_folder.REPORT, report.to_dict())
    write_checksums(out, run_folder.SEALED)
    return report


def list_labels_read(algorithm: Algorithm, table: DataTable, rule_reads_attributes: bool) -> dict[str, list[str]]:
    """Return which labels the training, the selection of an epoch and the evaluation read of each split.

    Args:
        algorithm: The trained method.
        table: The data.
        rule_reads_attributes: Whether the selection rule reads the attributes of the validation rows.
    """
    attributes_read = {
        "train": algorithm.needs_attributes,
        "valid": rule_reads_attributes or algorithm.needs_valid_attributes,
        "test": table.evaluation_groups is not None or bool(table.count_groups("test").any()),
    }
    estimators = {"train": [algorithm.attributes], "valid": algorithm.valid_estimators, "test": []}
    labels_read = {}
    for split, reads_attributes in attributes_read.items():
        labels_read[split] = ["label", *["attribute"] * reads_attributes]
        if any(isinstance(estimator, Given) for estimator in estimators[split]):
            labels_read[split].append("given attribute")
    return labels_read


def describe_collapse_to_majority(valid_predictions: Predictions, remedy: str) -> list[str]:
    """Return a warning if the network is no better than the majority-class baseline, else nothing.

    Args:
        valid_predictions: Predictions of the validation rows.
        remedy: What to do.
    """
    counts = np.bincount(valid_predictions.label, minlength=len(valid_predictions.label_names))
    accuracy = float((valid_predictions.prediction == valid_predictions.label).mean())
    baseline = float(counts.max() / counts.sum())
    if not accuracy <= baseline < 1:
        return []
    name = valid_predictions.label_names[int(counts.argmax())]
    return [
        f"the network is right in {format_percent(accuracy)} of the validation rows, always saying "
        f"`{name}` in {format_percent(baseline)}: {remedy}"
    ]


def describe_unlikely_minority(count: int, num_rows: int, shortcut: Sequence[str]) -> list[str]:
    """Return a warning if a method estimates none of the training rows, or most of them, to be bias-conflicting.

    Args:
        count: The number of rows that it estimates to be.
        num_rows: N, the number of training rows.
        shortcut: The views that the user named as a shortcut.

    >>> describe_unlikely_minority(0, 294, ["word:reef"])
    ['0 of 294 training rows are taken for bias-conflicting by the word `reef`, so nothing is corrected']
    """
    if 0 < count <= num_rows / 2:
        return []
    estimate = f"{count:,} of {num_rows:,} training rows are taken for bias-conflicting"
    if shortcut:
        return [f"{estimate} by {format_view_names(shortcut)}{'' if count else ', so nothing is corrected'}"]
    return [f"{estimate}: name the shortcut by {format_option('shortcut')}, or try other options of the method"]


def evaluate_split(predictions: Predictions, table: DataTable, metrics: MetricSpec = ()) -> GroupReport:
    """Evaluate predictions of a split of the data.

    Args:
        predictions: The predictions.
        table: The data, which know correlation and group sizes.
        metrics: Further figures of each group; see ``Run.evaluate``.
    """
    train_counts = table.count_groups("train") if table.has_attributes("train") else None
    return GroupReport.from_predictions(predictions, table.correlation, train_counts, metrics)


def summarize_data(config: RunConfig, table: DataTable, fingerprint: str) -> DataSummary:
    """Return the entry ``data`` of the report.

    Args:
        config: A complete config.
        table: The data.
        fingerprint: Digest of all inputs, labels and splits.
    """
    scoring = None
    if table.evaluation_groups is not None:
        membership = table.evaluation_groups.membership
        scoring = {
            "counts": {split: membership[rows].sum(0).tolist() for split, rows in table.split.items()},
            "overlapping": bool((membership.sum(1) > 1).any()),
        }
    return DataSummary(
        name=config.data.name,
        options=config.data.options,
        facts=table.metadata,
        counts={split: table.count_groups(split).tolist() for split in table.split},
        rows={split: len(rows) for split, rows in table.split.items()},
        scoring=scoring,
        label_names=list(table.label_names),
        label_kind=table.label_kind,
        attribute_names=list(table.attribute_names),
        correlation=None if table.correlation is None else table.correlation.to_table(),
        input_shape=list(table.inputs.input_shape),
        preparation=table.preparation,
        tokens=table.info.tokens,
        fingerprint=fingerprint,
    )


def summarize_group_prior(algorithm: Algorithm, table: DataTable) -> PriorSummary | None:
    """Return the estimated group prior, and the true one if its groups are the same; None without an estimate."""
    prior = algorithm.group_prior
    if prior is None:
        return None
    counts = table.count_groups("train")
    names = get_attribute_names(algorithm)
    is_comparable = table.has_attributes("train") and names == table.attribute_names
    return PriorSummary(
        estimator=prior.estimator,
        averaging=prior.averaging,
        estimated=prior.table.tolist(),
        true=(counts / counts.sum()).tolist() if is_comparable else None,
        label_names=list(table.label_names),
        attribute_names=names,
    )


def summarize_minority(estimated: Tensor | None, table: DataTable, algorithm: Algorithm) -> MinoritySummary | None:
    """Return how many training rows are estimated to be bias-conflicting, how rightly, and some of them.

    Args:
        estimated: (N,) the estimated attributes of the training rows; None without an estimate.
        table: The data.
        algorithm: The method that estimated them.
    """
    if estimated is None or algorithm.attributes is None:
        return None
    rows = table.split["train"]
    is_minority = algorithm.attributes.correlation.is_minority(table.label[rows], estimated)
    recall = None
    precision = None
    if table.correlation is not None and table.has_attributes("train"):
        truth = table.correlation.is_minority(table.label[rows], table.attribute[rows])
        recall = to_json_values(is_minority[truth].double().mean())
        precision = to_json_values(truth[is_minority].double().mean())
    return MinoritySummary(
        count=int(is_minority.sum()),
        recall=recall,
        precision=precision,
        examples=_build_examples(estimated, is_minority, table, get_attribute_names(algorithm)),
    )


def _build_examples(
    estimated: Tensor, is_minority: Tensor, table: DataTable, attribute_names: Sequence[str]
) -> list[MinorityExample]:
    """Return the first rows estimated to be bias-conflicting, one of each label in turn."""
    import pandas as pd

    candidates = is_minority.nonzero().flatten()
    label = pd.Series(table.label[table.split["train"]][candidates])
    turn = label.groupby(label).cumcount().to_numpy()
    chosen = candidates[turn.argsort(kind="stable")][:MAX_EXAMPLES]
    rows = table.split["train"][chosen]
    images = table.inputs.images(rows) if len(rows) else None
    names: Sequence[Any] | None = table.describe_rows(rows)
    if names is None and table.row_names is not None:
        names = [table.row_names[row] for row in rows.tolist()]
    examples = []
    for place, (index, row) in enumerate(zip(chosen.tolist(), rows.tolist(), strict=True)):
        attribute = int(table.attribute[row])
        examples.append(
            MinorityExample(
                index=index,
                name=None if names is None else str(names[place])[:MAX_EXAMPLE_LENGTH],
                label=table.label_names[int(table.label[row])],
                estimated_attribute=attribute_names[int(estimated[index])],
                attribute=None if attribute == UNKNOWN_ATTRIBUTE else table.attribute_names[attribute],
                picture=None if images is None else encode_picture(images[place].cpu().numpy()),
            )
        )
    return examples


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return the versions and the machine that a run was trained with."""
    from logit_correction import __version__

    machine = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        machine = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return {
        "version": __version__,
        "commit": _find_commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device.type,
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else machine,
        "threads": torch.get_num_threads(),
    }


@cache
def _find_commit() -> str | None:
    """Return the commit of the checkout that this package runs from, marked if it was changed since."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None
