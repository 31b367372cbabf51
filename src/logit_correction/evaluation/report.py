"""Accuracy and margins of a model, group by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.evaluation.group_frame import group_frame
from logit_correction.evaluation.quality import QUALITY, probabilities, quality, quality_by_attribute
from logit_correction.functional.groups import (
    group_balanced_accuracy,
    group_members,
    label_membership,
    worst_group_accuracy,
)
from logit_correction.functional.losses import margin
from logit_correction.types import as_array

if TYPE_CHECKING:
    from logit_correction.evaluation.predictions import Predictions

_FIGURES = ("accuracy", "low", "high", "margin_min", "margin_mean", "ece")


@dataclass(frozen=True)
class GroupReport:
    """How often a model is right, for every group and in sum.

    Accuracies are fractions; a group without rows takes no part in any of them, and what is not defined is
    None: group figures where no attribute is known, minority and majority where no correlation is known.

    Attributes:
        groups: One row per group with ``label`` and ``attribute`` (names; attribute None where unknown),
            ``count``, ``correct``, ``accuracy`` with the ends ``low`` and ``high`` of its 95 % Wilson
            interval, ``margin_min`` (the group's margin of Appendix C), ``margin_mean`` and ``ece``, all NaN where
            the group is empty, and ``minority`` (None where no correlation is known).
        count: N, the number of rows, those of unknown attribute included.
        average: Accuracy over all rows.
        group_balanced: Mean of the groups' accuracies (eq. 2).
        worst_group: Least accuracy of a group.
        worst_class: Least accuracy of a label.
        minority: Accuracy over the rows of all groups that conflict with the correlation.
        majority: Accuracy over the rows of all groups that follow it.
        minority_margin: Mean of the minority groups' margins (Appendix C).
        majority_margin: Mean of the majority groups' margins.
        adjusted_average: Mean of the groups' accuracies, each weighted by the group's share of the training rows,
            as the average accuracy on Waterbirds is reported; None where these shares are not given, where groups
            overlap, and where a group with training rows has none here.
        auroc: Area under the ROC curve over all rows, of each label against the others, mean over labels.
        f1: Mean F1 of the labels over all rows.
        ece: Expected calibration error over all rows, in 15 bins.
        by_attribute: One row per attribute value, all labels together, with ``attribute``, ``count``, ``accuracy``,
            ``auroc``, ``f1`` and ``ece``, NaN where not defined; no row where no attribute is known.

    >>> from logit_correction import Correlation, GroupReport, Predictions
    >>> said = Predictions(
    ...     index=[0, 1, 2],
    ...     label=[0, 0, 1],
    ...     attribute=[0, 1, 1],
    ...     logits=[[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]],
    ...     label_names=["cat", "dog"], attribute_names=["sofa", "park"],
    ... )
    >>> report = GroupReport.from_predictions(said, Correlation.one_to_one(2))
    >>> report.majority, report.minority  # right wherever the attribute agrees, wrong where it misleads
    (1.0, 0.0)
    """

    groups: pd.DataFrame
    count: int
    average: float | None
    group_balanced: float | None
    worst_group: float | None
    worst_class: float | None
    minority: float | None = None
    majority: float | None = None
    minority_margin: float | None = None
    majority_margin: float | None = None
    adjusted_average: float | None = None
    auroc: float | None = None
    f1: float | None = None
    ece: float | None = None
    by_attribute: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def from_predictions(
        cls,
        predictions: Predictions,
        correlation: Correlation | None = None,
        train_counts: Tensor | None = None,
    ) -> GroupReport:
        """Evaluate predictions on their own groups, else on label x attribute, else on the labels.

        Args:
            predictions: Rows that occur several times count once.
            correlation: Tells minority from majority groups.
            train_counts: (L, K) training rows per group, for the adjusted average.

        Raises:
            ValueError: The correlation does not have the predictions' number of labels and attribute values.

        >>> from logit_correction import Predictions
        >>> rows = Predictions(
        ...     index=range(4), label=[0, 0, 1, 1], logits=[[1.0, 0.0]] * 3 + [[0.0, 1.0]],
        ...     label_names=["cat", "dog"], attribute=[0, 1, 0, 1], attribute_names=["sofa", "lawn"],
        ... )
        >>> report = GroupReport.from_predictions(rows, Correlation.one_to_one(2))
        >>> report.average, report.worst_group, report.minority
        (0.75, 0.0, 0.5)
        """
        rows = predictions.unique()
        label = torch.from_numpy(rows.label)
        names, values = rows.label_names, rows.attribute_names
        logits = torch.from_numpy(rows.logits)
        groups: Sequence[tuple[str, str | None]] = rows.groups
        membership, minority = rows.judged_groups(), None
        known, by_attribute = membership is not None, membership is not None and rows.membership is None
        if membership is None:
            membership, groups = label_membership(label, len(names)), [(name, None) for name in names]
        elif by_attribute:
            groups = [(y, a) for y in names for a in values]
            minority = None if correlation is None else _minority_groups(correlation, len(names), len(values))
        frame = pd.DataFrame(list(groups), columns=["label", "attribute"], dtype=object)
        report = cls.from_membership(logits, label, membership, frame, minority, known)
        if not by_attribute or train_counts is None:
            return report
        return replace(report, adjusted_average=_adjusted_average(report.groups, train_counts))

    @classmethod
    def from_membership(
        cls,
        logits: Tensor,
        label: Tensor,
        membership: Tensor,
        groups: pd.DataFrame,
        minority: Tensor | None = None,
        attributes_known: bool = True,
    ) -> GroupReport:
        """Evaluate logits on any groups: they may overlap, be empty, and leave rows out.

        Args:
            logits: (N, L), uncorrected.
            label: (N,) long, 0..L-1.
            membership: (N, G) bool, dense or sparse.
            groups: Frame of G rows with the columns ``label`` and ``attribute``, the groups' names.
            minority: (G,) bool, the groups that conflict with the correlation.
            attributes_known: False leaves group-balanced and worst-group accuracy None.

        Raises:
            ValueError: ``groups`` has not one row per group.
        """
        if len(groups) != membership.shape[1]:
            raise ValueError(f"groups has {len(groups)} rows, but membership has {membership.shape[1]} columns")
        logits = torch.from_numpy(as_array(logits))
        prediction = logits.argmax(dim=1)
        right = prediction == label
        probability, codes = probabilities(logits.numpy()), label.numpy()
        row, group = group_members(membership)
        frame = group_frame(prediction, probability, label, margin(logits, label), membership, groups, minority)
        by_label = label_membership(label, logits.shape[1])
        balanced = group_balanced_accuracy(prediction, label, membership) if attributes_known else None
        worst = worst_group_accuracy(prediction, label, membership) if attributes_known else None
        sides: dict[str, float | None] = {}
        if minority is not None:
            for name, chosen in (("minority", minority), ("majority", ~minority)):
                own = row[chosen[group]].unique()
                sides[name] = _number(right[own].double().mean())
                sides[f"{name}_margin"] = _number(frame.loc[chosen.numpy(), "margin_min"].mean())
        overall = quality(probability, codes)
        return cls(
            groups=frame,
            by_attribute=quality_by_attribute(
                probability, codes, row.numpy(), group.numpy(), frame["attribute"].tolist()
            ),
            **{name: _number(overall[name]) for name in ("auroc", "f1", "ece")},
            count=len(label),
            average=_number(right.double().mean()),
            group_balanced=_number(balanced),
            worst_group=_number(worst),
            worst_class=_number(worst_group_accuracy(prediction, label, by_label)),
            **sides,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``test`` block of ``report.json``: strict JSON values, None for what is not defined."""
        frames = ("groups", "by_attribute")
        block = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in frames}
        block["by_attribute"] = [
            {"attribute": str(row["attribute"]), "count": int(row["count"])}
            | {name: _number(row[name]) for name in QUALITY}
            for row in self.by_attribute.to_dict("records")
        ]
        block["groups"] = [
            {
                "label": str(row["label"]),
                "attribute": None if row["attribute"] is None else str(row["attribute"]),
                "count": int(row["count"]),
                "correct": int(row["correct"]),
                **{name: _number(row[name]) for name in _FIGURES},
                "minority": None if row["minority"] is None else bool(row["minority"]),
            }
            for row in self.groups.to_dict("records")
        ]
        return block


def _adjusted_average(groups: pd.DataFrame, train_counts: Tensor) -> float | None:
    """Mean of the groups' accuracies, weighted by training rows; groups without any take no part."""
    weight = train_counts.flatten().double().numpy()
    if len(weight) != len(groups):
        raise ValueError(f"train_counts counts {len(weight)} groups, but there are {len(groups)}")
    there = weight > 0
    return _number(np.average(groups["accuracy"].to_numpy()[there], weights=weight[there])) if there.any() else None


def _minority_groups(correlation: Correlation, num_labels: int, num_attributes: int) -> Tensor:
    """(L * K,) bool: the groups that conflict with the correlation."""
    size = (correlation.num_labels, correlation.num_attributes)
    if size != (num_labels, num_attributes):
        raise ValueError(f"the correlation has shape {size}, but the data has {(num_labels, num_attributes)}")
    return correlation.minority_groups().flatten()


def _number(value: Any) -> float | None:
    """A finite float, or None."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None
