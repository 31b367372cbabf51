"""The rows that a method took for minority, for ``report.json``: how many, how rightly, and some to look at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from logit_correction.attributes.auto import Auto
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.online import Online
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.methods.base import Algorithm
from logit_correction.pages.images import png_uris
from logit_correction.training.estimates import attribute_names_of

#: So many rows are shown.
NUM_EXAMPLES = 24


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
    return result | {"examples": _examples(found, table, attribute_names_of(algorithm))}


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
    where = "" if estimator is None else f" (attributes: {estimator.describe()})"
    if count == 0:
        nothing = f"no training row is taken for bias-conflicting{where}, so nothing was corrected: "
        return [nothing + _what_to_do(estimator, too_many=False)]
    many = f"{count} of {num_rows} training rows are taken for bias-conflicting{where}: "
    return [many + _what_to_do(estimator, too_many=True)]


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
    images = table.inputs.images(rows) if len(rows) else None
    uris = png_uris(images) if images is not None else [None] * len(index)
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
