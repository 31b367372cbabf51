"""``report.json``: what was run, how well it does, and which labels were read."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.config import RunConfig
from logit_correction.correlation import Correlation
from logit_correction.data.table import UNKNOWN, DataTable, fingerprint
from logit_correction.evaluation.estimated import EstimatedAttributes, figures_of
from logit_correction.evaluation.predictions import Predictions
from logit_correction.methods.base import Algorithm
from logit_correction.training.estimates import attribute_names_of
from logit_correction.training.selection import reads_attributes, rule_of
from logit_correction.types import DataInfo


def predictions_of(
    table: DataTable, split: str, logits: Tensor, estimate: EstimatedAttributes | None = None
) -> Predictions:
    """Put logits (n, L) beside what is known, and what is estimated, of the rows of ``split``."""
    rows, scoring = table.split[split], table.scoring
    return Predictions(
        index=np.arange(len(rows)),
        label=table.label[rows].numpy(),
        logits=logits.numpy(),
        label_names=table.label_names,
        attribute=table.attribute[rows].numpy(),
        attribute_names=table.attribute_names,
        split=split,
        membership=None if scoring is None else scoring.membership[rows].numpy(),
        groups=() if scoring is None else scoring.names,
        estimate=estimate,
    )


def evaluate(
    table: DataTable, split: str, logits: Tensor, estimate: EstimatedAttributes | None = None
) -> dict[str, Any]:
    """Return the block of figures of one split, those by estimated group under ``estimated``."""
    train_counts = table.group_counts("train") if table.has_attributes("train") else None
    return figures_of(predictions_of(table, split, logits, estimate), table.correlation, train_counts)


def labels_read(algorithm: Algorithm, table: DataTable, rules: Sequence[str]) -> dict[str, list[str]]:
    """Return which labels of which split training, selection and the test read."""
    both = ["label", "attribute"]
    test_known = table.scoring is not None or bool((table.attribute[table.split["test"]] != UNKNOWN).any())
    return {
        "train": both if algorithm.needs_attributes else ["label"],
        "valid": both if reads_attributes(rules) else ["label"],
        "test": both if test_known else ["label"],
    }


def describe_data(config: RunConfig, table: DataTable) -> dict[str, Any]:
    """Return the data's name, options, metadata and counts per group."""
    return {
        "name": config.data.name,
        "options": config.data.options,
        "facts": table.metadata,
        "counts": {split: table.group_counts(split).tolist() for split in table.split},
        "rows": {split: len(rows) for split, rows in table.split.items()},
        "scoring": _describe_scoring(table),
        "label_names": list(table.label_names),
        "attribute_names": list(table.attribute_names),
        "correlation": None if table.correlation is None else table.correlation.to_table(),
        "input_shape": list(table.inputs.input_shape),
        "preparation": table.preparation,
        "tokens": table.info.tokens,
        "fingerprint": fingerprint(table),
    }


#: Entries of a report without which the networks of its run cannot be made again.
NEEDED = ("data.label_names", "data.attribute_names", "data.rows.train", "data.input_shape")


def info_of(report: dict[str, Any]) -> DataInfo:
    """Return what the networks of a run were told of its data."""
    data = report["data"]
    table = data.get("correlation")
    return DataInfo(
        num_labels=len(data["label_names"]),
        num_rows=data["rows"]["train"],
        input_shape=tuple(data["input_shape"]),
        num_attributes=len(data["attribute_names"]),
        label_names=tuple(data["label_names"]),
        attribute_names=tuple(data["attribute_names"]),
        correlation=None if table is None else Correlation.from_table(table, len(data["attribute_names"]) or None),
        tokens=data.get("tokens", False),
    )


def _describe_scoring(table: DataTable) -> dict[str, Any] | None:
    """Return the counts of the groups that are judged on, where they are not label x attribute."""
    scoring = table.scoring
    if scoring is None:
        return None
    return {
        "counts": {split: scoring.membership[rows].sum(0).tolist() for split, rows in table.split.items()},
        "overlapping": bool((scoring.membership.sum(1) > 1).any()),
    }


def describe_network(config: RunConfig, algorithm: Algorithm) -> dict[str, Any]:
    """Return the network's name, options and size."""
    parameters = sum(p.numel() for p in algorithm.network.parameters())
    metadata = getattr(algorithm.network, "metadata", {})
    return {
        "name": config.network.name,
        "options": config.network.options,
        "facts": metadata,
        "parameters": parameters,
    }


def describe_prior(algorithm: Algorithm, table: DataTable) -> dict[str, Any] | None:
    """Return the estimated group prior beside the true one, where there are such."""
    prior = algorithm.group_prior
    if prior is None:
        return None
    counts = table.group_counts("train")
    names = attribute_names_of(algorithm)
    comparable = table.has_attributes("train") and names == list(table.attribute_names)
    return {
        "estimator": prior.estimator,
        "averaging": prior.averaging,
        "estimated": prior.table.tolist(),
        "true": (counts / counts.sum()).tolist() if comparable else None,
        "label_names": list(table.label_names),
        "attribute_names": names,
    }


def selection_of(rule: str, epoch: int) -> dict[str, Any]:
    """Describe a selection rule."""
    read = list(rule_of(rule).reads)
    return {"rule": rule, "epoch": epoch, "split": "valid" if read else None, "labels_read": read}


def environment(device: torch.device) -> dict[str, Any]:
    """Return versions and machine."""
    from logit_correction import __version__

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "version": __version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": str(device.type),
        "machine": name,
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this package runs from, marked if it was changed since."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        if git("ls-files", "--error-unmatch", __file__):
            return git("rev-parse", "--short=12", "HEAD") + (
                "-dirty" if git("status", "--porcelain", "--", "src") else ""
            )
    except (OSError, subprocess.SubprocessError):
        pass
    return None
