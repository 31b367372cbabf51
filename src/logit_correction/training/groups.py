"""The groups that the rows of a split belong to, for those who may read attributes."""

from __future__ import annotations

from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.functional import group_membership


def label_by_attribute(table: DataTable, split: str) -> Tensor:
    """Return which group label x attribute each row of a split belongs to, (n, L K) bool, sparse."""
    rows, info = table.split[split], table.info
    label, attribute = table.label[rows], table.attribute[rows]
    return group_membership(label, attribute, info.num_labels, info.num_attributes, sparse=True)


def judged_groups(table: DataTable, split: str) -> Tensor | None:
    """Return the groups (n, G) bool that a split is judged on: the data's own, else label x attribute.

    None where there are none of the data's own and the attribute of a row is unknown.
    """
    if table.scoring is not None:
        return table.scoring.membership[table.split[split]]
    return label_by_attribute(table, split) if table.has_attributes(split) else None
