"""What a finished training leaves in its folder: figures, predictions, weights and, last, ``report.json``."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
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
from logit_correction.evaluation.predictions import Predictions, build_predictions
from logit_correction.evaluation.report import (
    DataSummary,
    EpochSelection,
    GroupReport,
    MinorityExample,
    MinoritySummary,
    NetworkSummary,
    PriorSummary,
    Report,
)
from logit_correction.finding_text import finding_to_dict
from logit_correction.formatting import format_option, format_percent
from logit_correction.methods.base import Algorithm
from logit_correction.pages.compare import COLLAPSE_REMEDY
from logit_correction.pages.plots import encode_png_uris
from logit_correction.runs import folder as run_folder
from logit_correction.runs.model import FittedModel
from logit_correction.runs.options import RunConfig
from logit_correction.training.fit import Trainer, get_attribute_names
from logit_correction.training.record import write_checkpoint
from logit_correction.training.rules import build_rule
from logit_correction.types import UNKNOWN_ATTRIBUTE
from logit_correction.view_names import name_views


def write_run(fit: Trainer, model: FittedModel, out: Path) -> Report:
    """Evaluate what was trained and write the folder; the report comes last, so a finished run has it all.

    The weights of the rule to report are the method's afterwards.
    """
    started, both = time.monotonic(), ["label", "attribute"]
    algorithm, table, config, training = fit.algorithm, fit.table, model.config, fit.config
    if training.selection is None and fit.rule.name not in fit.progress.best:  # the default had nothing to go by
        fit.rule = build_rule("last")
    rule, best = fit.rule, fit.progress.best.get(fit.rule.name)
    found = None if algorithm.needs_attributes else fit.estimate_training_attributes()
    minority = _estimated_minority(found, table, algorithm)
    estimator = algorithm.attributes
    source = None if estimator is None else estimator.describe()
    warnings = [*table.notes, *table.attribute_notes, *fit.progress.warnings]
    if minority is not None and estimator is not None and not estimator.has_abstained:
        warnings += _of_minority(minority.count, table.info.num_rows, getattr(estimator, "shortcut", ()))
    if rule.needs_estimate and best is None:
        warnings.append(f"rule {rule.name} had no estimated groups of validation rows to go by: took the last epoch")
    prior = _group_prior(algorithm, table)  # before weights of another epoch come with another one
    if best is not None:
        algorithm.load_state_dict(best.state)
    test = build_predictions(table, "test", fit.predict("test"), fit.predict_attributes("test"))
    by_group = "attribute" in rule.labels_read  # attributes only if the rule has read them
    validation = build_predictions(table, "valid", fit.predict("valid"), fit.predict_attributes("valid"), by_group)
    counts = np.bincount(validation.label, minlength=len(table.label_names))
    right, most = float((validation.prediction == validation.label).mean()), float(counts.max() / counts.sum())
    if right <= most < 1:
        corrects = estimator is not None and not estimator.has_abstained
        remedy = COLLAPSE_REMEDY if corrects else f"train longer, or lower {format_option('learning_rate')}"
        label = counts.argmax()
        always = f"always saying `{table.label_names[int(label)]}` in {format_percent(most, unit=' %')}"
        told = f"the network is right in {format_percent(right, unit=' %')} of the validation rows"
        warnings.append(f"{told}, {always}: {remedy}")
    read_by = {
        "train": algorithm.needs_attributes,
        "valid": by_group or algorithm.needs_valid_attributes,
        "test": table.scoring is not None or bool((table.attribute[table.split["test"]] != UNKNOWN_ATTRIBUTE).any()),
    }
    given = {"train": [estimator], "valid": algorithm.valid_estimators}
    more = {split: ["given attribute"] * any(isinstance(one, Given) for one in ones) for split, ones in given.items()}
    write_text_file(out / run_folder.CONFIG, config.to_yaml())
    fit.record.write(out / run_folder.METRICS)
    test.save(out / run_folder.PREDICTIONS)
    validation.save(out / run_folder.VALIDATION)
    write_checkpoint(out / run_folder.CHECKPOINT, **model.state())
    report = Report(
        method=config.method.name,
        method_options=config.method.options,
        data=_data(config, table, fit.fingerprint),
        network=NetworkSummary(
            name=config.network.name,
            options=config.network.options,
            facts=getattr(algorithm.network, "metadata", {}),
            parameters=sum(one.numel() for one in algorithm.network.parameters()),
        ),
        encoder=getattr(table.inputs, "description", None),
        seed=training.seed,
        epochs=fit.progress.epoch,
        epochs_per_stage=fit.record.epochs_per_stage(),
        steps=fit.progress.total_steps,
        training={name: value for name, value in vars(training).items() if name not in ("seed", "epochs")},
        labels_read={split: both[: 1 + attribute] + more.get(split, []) for split, attribute in read_by.items()},
        diagnostics_labels_read={"train": both if table.has_attributes("train") else both[:1]},
        attributes=source,
        evidence=None if estimator is None or estimator.finding is None else finding_to_dict(estimator.finding),
        environment=describe_environment(fit.device),
        selection=EpochSelection(
            rule=rule.name,
            epoch=fit.progress.epoch if best is None else best.epoch,
            split="valid" if rule.labels_read else None,
            labels_read=list(rule.labels_read),
        ),
        test=evaluate_split(test, table),
        group_prior=prior,
        estimated_minority=minority,
        warnings=warnings,
        seconds={"train": fit.progress.seconds, "evaluate": time.monotonic() - started},
    )
    run_folder.write_json(out / run_folder.REPORT, report.to_dict())
    write_checksums(out, run_folder.SEALED)
    return report


def _of_minority(count: int, rows: int, named: Sequence[str]) -> list[str]:
    """Return what to tell where a method takes none of the training rows, or most of them, for bias-conflicting.

    ``named`` are views that a person calls a shortcut.

    >>> _of_minority(0, 294, ["word:reef"])
    ['0 of 294 training rows are taken for bias-conflicting by the word `reef`, so nothing is corrected']
    """
    taken = f"{count:,} of {rows:,} training rows are taken for bias-conflicting"
    if named:
        told = f"{taken} by {name_views(named)}{'' if count else ', so nothing is corrected'}"
    else:
        told = f"{taken}: name the shortcut by {format_option('shortcut')}, or try other options of the method"
    return [] if 0 < count <= rows / 2 else [told]


def evaluate_split(rows: Predictions, table: DataTable, metrics: MetricSpec = ()) -> GroupReport:
    """Return the figures of predictions of a split of the data."""
    train_counts = table.count_groups("train") if table.has_attributes("train") else None
    return GroupReport.from_predictions(rows, table.correlation, train_counts, metrics)


def _data(config: RunConfig, table: DataTable, fingerprint: str) -> DataSummary:
    scoring = table.scoring
    if scoring is not None:
        counts = {split: scoring.membership[rows].sum(0).tolist() for split, rows in table.split.items()}
        overlapping = bool((scoring.membership.sum(1) > 1).any())
    return DataSummary(
        name=config.data.name,
        options=config.data.options,
        facts=table.metadata,
        counts={split: table.count_groups(split).tolist() for split in table.split},
        rows={split: len(rows) for split, rows in table.split.items()},
        scoring=None if scoring is None else {"counts": counts, "overlapping": overlapping},
        label_names=list(map(str, table.label_names)),
        label_kind=table.label_kind,
        attribute_names=list(map(str, table.attribute_names)),
        correlation=None if table.correlation is None else table.correlation.to_table(),
        input_shape=list(table.inputs.input_shape),
        preparation=table.preparation,
        tokens=table.info.tokens,
        fingerprint=fingerprint,
    )


def _group_prior(algorithm: Algorithm, table: DataTable) -> PriorSummary | None:
    """Return the estimated group prior beside the true one, where there are such."""
    prior = algorithm.group_prior
    if prior is None:
        return None
    counts, names = table.count_groups("train"), get_attribute_names(algorithm)
    comparable = table.has_attributes("train") and names == list(table.attribute_names)
    return PriorSummary(
        estimator=prior.estimator,
        averaging=prior.averaging,
        estimated=prior.table.tolist(),
        true=(counts / counts.sum()).tolist() if comparable else None,
        label_names=list(map(str, table.label_names)),
        attribute_names=list(map(str, names)),
    )


def _estimated_minority(found: Tensor | None, table: DataTable, algorithm: Algorithm) -> MinoritySummary | None:
    """Return how many training rows the method takes for minority, how rightly, and some of them."""
    if found is None or algorithm.attributes is None:
        return None
    rows = table.split["train"]
    minority = algorithm.attributes.correlation.is_minority(table.label[rows], found)
    recall = precision = None
    if table.correlation is not None and table.has_attributes("train"):
        truth = table.correlation.is_minority(table.label[rows], table.attribute[rows])
        hits = int((truth & minority).sum())
        recall = hits / int(truth.sum()) if bool(truth.any()) else None
        precision = hits / int(minority.sum()) if bool(minority.any()) else None
    return MinoritySummary(
        count=int(minority.sum()),
        recall=recall,
        precision=precision,
        examples=_examples(found, minority, table, get_attribute_names(algorithm)),
    )


def _examples(estimated: Tensor, minority: Tensor, table: DataTable, names: Sequence[str]) -> list[MinorityExample]:
    """Return the first 24 rows taken for minority, the labels taking turns, with at most 300 characters of a text."""
    order, label = minority.nonzero().flatten(), table.label[table.split["train"]]
    turn = torch.zeros(len(order), dtype=torch.long)
    for value in range(len(table.label_names)):
        own = label[order] == value
        turn[own] = torch.arange(int(own.sum()))
    index = order[turn.argsort(stable=True)][:24]
    rows = table.split["train"][index]
    images = table.inputs.images(rows) if len(rows) else None
    pictures = encode_png_uris(images) if images is not None else [None] * len(index)
    told: Sequence[str | None] = table.describe_rows(rows) or [None] * len(rows)
    if table.row_names is not None and not table.columns and table.texts is None:
        told = [str(table.row_names[row]) for row in rows.tolist()]
    return [
        MinorityExample(
            index=int(i),
            name=name and name[:300],
            label=str(table.label_names[int(label[i])]),
            estimated_attribute=str(names[int(estimated[i])]),
            attribute=str(table.attribute_names[int(attribute)]) if int(attribute) != UNKNOWN_ATTRIBUTE else None,
            picture=picture,
        )
        for i, name, attribute, picture in zip(index, told, table.attribute[rows], pictures, strict=True)
    ]


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return versions and machine."""
    from logit_correction import __version__

    machine = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        machine = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return {
        "version": __version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device.type,
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else machine,
        "threads": torch.get_num_threads(),
    }


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this package runs from, marked if it was changed since."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    words = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None
