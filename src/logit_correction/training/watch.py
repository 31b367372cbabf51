"""Figures that are followed over training out of curiosity. Nothing is ever chosen by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from logit_correction.config import Watch
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.functional import group_balanced_accuracy, group_margin, group_mean, margin, worst_group_accuracy
from logit_correction.training.rules import judged_groups, label_by_attribute


def check_watch(watch: Sequence[Watch], table: DataTable) -> None:
    """Raise ``InputError`` unless it is known which training rows are majority, where their margins are wanted."""
    if "train_margins" in watch and (table.correlation is None or not table.has_attributes("train")):
        raise InputError(
            "--watch train_margins needs the attribute of every training row and the correlation, but the data source "
            "does not know them: leave it out"
        )


def labels_watched(watch: Sequence[Watch], table: DataTable) -> dict[str, list[str]]:
    """Return which labels of which split are read only to follow the training."""
    read = {}
    if "test" in watch:
        read["test"] = ["label", "attribute"] if table.has_attributes("test") else ["label"]
    if "train_margins" in watch:
        read["train"] = ["label", "attribute"]
    return read


def watched(watch: Sequence[Watch], table: DataTable, predict: Callable[[str], Tensor]) -> dict[str, float]:
    """Return columns of ``metrics.csv`` that are followed in the course of a training; what is not finite is left out.

    ``test`` gives ``test_average`` and, where groups are known, ``test_group_balanced`` and ``test_worst_group``.
    ``train_margins`` gives ``train_majority_margin`` and ``train_minority_margin``, the mean over the groups of the
    least margin of a group's rows (Appendix C of the paper), their ratio where both are positive, and the same of the
    mean margin, which does not depend on how many rows a group has: ``train_majority_mean_margin`` and so on.
    ``predict`` returns the logits (n, L) of a split.
    """
    figures: dict[str, Tensor] = {}
    if "test" in watch:
        label, prediction = table.label[table.split["test"]], predict("test").argmax(1)
        figures["test_average"] = (prediction == label).double().mean()
        if (groups := judged_groups(table, "test")) is not None:
            figures["test_group_balanced"] = group_balanced_accuracy(prediction, label, groups)
            figures["test_worst_group"] = worst_group_accuracy(prediction, label, groups)
    if "train_margins" in watch:
        assert table.correlation is not None
        groups, minority = label_by_attribute(table, "train"), table.correlation.minority_groups().flatten()
        margins = margin(predict("train"), table.label[table.split["train"]])
        for kind, of_group in (("margin", group_margin), ("mean_margin", group_mean)):
            found = of_group(margins, groups)
            large, small = found[~minority].nanmean(), found[minority].nanmean()
            figures[f"train_majority_{kind}"], figures[f"train_minority_{kind}"] = large, small
            meant = (large > 0) & (small > 0)  # of margins of two signs a ratio says nothing
            figures[f"train_{kind}_ratio"] = (large / small).where(meant, torch.nan)
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}
