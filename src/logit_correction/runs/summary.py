"""``report.json``: what was run, how well it does, and which labels were read."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.attributes.auto import Auto
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.online import Online
from logit_correction.config import RunConfig
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import GroupReport
from logit_correction.methods.base import Algorithm
from logit_correction.render.pictures import png_uris
from logit_correction.training.selection import LABELS_READ, reads_attributes

NUM_EXAMPLES = 24


def predictions_of(table: DataTable, split: str, logits: Tensor) -> Predictions:
    """Put logits (n, L) beside what is known of the rows of ``split``."""
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
    )


def judge(table: DataTable, split: str, logits: Tensor) -> dict[str, Any]:
    """Return the block of figures of one split."""
    train_counts = table.group_counts("train") if table.has_attributes("train") else None
    return GroupReport.from_predictions(predictions_of(table, split, logits), table.correlation, train_counts).to_dict()


def labels_read(algorithm: Algorithm, table: DataTable, rules: list[Any]) -> dict[str, list[str]]:
    """Return which labels of which split training, selection and the test read."""
    both = ["label", "attribute"]
    test_known = table.scoring is not None or bool((table.attribute[table.split["test"]] != UNKNOWN).any())
    return {
        "train": both if algorithm.needs_attributes else ["label"],
        "valid": both if reads_attributes(rules) else ["label"],
        "test": both if test_known else ["label"],
    }


def describe_data(config: RunConfig, table: DataTable) -> dict[str, Any]:
    """Return the data's name, options, facts and counts per group."""
    return {
        "name": config.data.name,
        "options": config.data.options,
        "facts": table.facts,
        "counts": {split: table.group_counts(split).tolist() for split in table.split},
        "rows": {split: len(rows) for split, rows in table.split.items()},
        "scoring": _describe_scoring(table),
        "label_names": list(table.label_names),
        "attribute_names": list(table.attribute_names),
        "correlation": None if table.correlation is None else table.correlation.to_table(),
        "input_shape": list(table.inputs.input_shape),
        "preparation": table.preparation,
        "tokens": table.info.tokens,
    }


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
    facts = getattr(algorithm.network, "facts", {})
    return {
        "name": config.network.name,
        "options": config.network.options,
        "facts": facts,
        "parameters": parameters,
    }


def describe_prior(algorithm: Algorithm, table: DataTable) -> dict[str, Any] | None:
    """Return the estimated group prior beside the true one, where there are such."""
    prior = algorithm.group_prior
    if prior is None:
        return None
    counts = table.group_counts("train")
    names = _attribute_names(algorithm, table)
    comparable = table.has_attributes("train") and names == list(table.attribute_names)
    return {
        "estimator": prior.estimator,
        "averaging": prior.averaging,
        "estimated": prior.table.tolist(),
        "true": (counts / counts.sum()).tolist() if comparable else None,
        "label_names": list(table.label_names),
        "attribute_names": names,
    }


def _attribute_names(algorithm: Algorithm, table: DataTable) -> list[str]:
    """Return what to call a method's attribute values.

    They are those of the data where the method reads them, or it is known what goes together. Otherwise value j is
    whatever goes with label j, and nobody knows which of the data's values that is.
    """
    estimator = algorithm.attributes
    names = None if estimator is None else estimator.attribute_names
    if names is not None:
        return names
    count = 0 if estimator is None else estimator.num_attributes
    if table.correlation is not None and count == len(table.attribute_names):
        return list(table.attribute_names)
    return [f"that of {name}" for name in table.label_names]


def describe_minority(found: dict[str, Tensor], table: DataTable, algorithm: Algorithm) -> dict[str, Any] | None:
    """Return how many training rows the method takes for minority, how well, and some of them."""
    if "minority" not in found:
        return None
    rows, minority = table.split["train"], found["minority"]
    result: dict[str, Any] = {"count": int(minority.sum()), "recall": None, "precision": None}
    if table.correlation is not None and table.has_attributes("train"):
        truth = table.correlation.is_minority(table.label[rows], table.attribute[rows])
        hits = int((truth & minority).sum())
        result["recall"] = hits / int(truth.sum()) if bool(truth.any()) else None
        result["precision"] = hits / int(minority.sum()) if bool(minority.any()) else None
    return result | {"examples": _examples(found, table, _attribute_names(algorithm, table))}


def warn_of_minority(
    described: dict[str, Any] | None, num_rows: int, estimator: AttributeEstimator | None = None
) -> list[str]:
    """Return what to tell a user whose method takes no row for minority, or most of them.

    Args:
        described: What ``describe_minority`` returned.
        num_rows: Training rows.
        estimator: The method's attribute estimator; one that abstained did so for a reason, and is not warned of.
    """
    if described is None or (estimator is not None and estimator.abstained):
        return []
    count = described["count"]
    if 0 < count <= num_rows / 2:
        return []
    where = "" if estimator is None else f" (attributes: {_source(estimator)})"
    if count == 0:
        nothing = f"no training row is taken for bias-conflicting{where}, so nothing was corrected: "
        return [nothing + _what_to_do(estimator, too_many=False)]
    many = f"{count} of {num_rows} training rows are taken for bias-conflicting{where}: "
    return [many + _what_to_do(estimator, too_many=True)]


def _source(estimator: AttributeEstimator) -> str:
    """Return where the attributes come from, without the evidence, which is told elsewhere."""
    sentence = (estimator.evidence or {}).get("sentence")
    return estimator.describe().removesuffix(f": {sentence}")


def _what_to_do(estimator: AttributeEstimator | None, too_many: bool) -> str:
    """Return why an estimator may take no row, or most of them, for minority, and by which option to change it."""
    option, inner = "--method.attributes", getattr(estimator, "inner", None)
    while inner is not None:  # one estimator on top of another
        option, estimator, inner = f"{option}.attributes", inner, getattr(inner, "inner", None)
    if isinstance(estimator, Auto) or (isinstance(estimator, CrossFitted) and estimator.views):
        name = "--shortcut" if option == "--method.attributes" and isinstance(estimator, Auto) else f"{option}.view"
        does = "hardly tells the labels apart" if too_many else "agrees with every label"
        return f"what was looked at {does}; name another view by {name} VIEW (`logit-correction list views`)"
    if isinstance(estimator, (Online, CrossFitted)):
        if too_many:
            return (
                "the biased network has not learned the labels of the majority; give it a longer "
                f"{option}.epochs, or a lower {option}.input_dropout"
            )
        return (
            "there is no shortcut that the biased network sees, or it has learned every row by heart; compare a "
            f"shorter {option}.epochs, or {option}.input_dropout 0.5 or 0.9"
        )
    if too_many:
        return "the attribute hardly goes with the label, so there is little to correct"
    return "every row has the attribute that goes with its label; take another attribute"


def _examples(found: dict[str, Tensor], table: DataTable, names: list[str]) -> list[dict[str, Any]]:
    """Return rows taken for minority: those that fit their label least, the labels taking turns."""
    chosen = found["minority"].nonzero().flatten()
    label = table.label[table.split["train"]]
    order = chosen[found["label_probability"][chosen].argsort()]
    turn = torch.zeros(len(order), dtype=torch.long)
    for value in range(len(table.label_names)):
        own = label[order] == value
        turn[own] = torch.arange(int(own.sum()))
    index = order[turn.argsort(stable=True)][:NUM_EXAMPLES]
    rows = table.split["train"][index]
    pictures = table.inputs.images(rows) if len(rows) else None
    uris = png_uris(pictures) if pictures is not None else [None] * len(index)
    return [
        {
            "index": int(i),
            "name": None if table.row_names is None else str(table.row_names[int(row)]),
            "label": str(table.label_names[int(label[i])]),
            "estimated_attribute": str(names[int(found["estimated_attribute"][i])]),
            "attribute": str(table.attribute_names[int(a)]) if int(a) != UNKNOWN else None,
            "picture": uri,
        }
        for i, row, a, uri in zip(index, rows, table.attribute[rows], uris, strict=True)
    ]


def selection_of(rule: Any, epoch: int) -> dict[str, Any]:
    """Describe a selection rule."""
    read = LABELS_READ[rule]
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
