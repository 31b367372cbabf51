"""Groups that an estimator found where nobody has named attributes: label by estimated attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.correlation import Correlation
from logit_correction.evaluation.report import GroupReport

if TYPE_CHECKING:
    from logit_correction.evaluation.predictions import Predictions

#: Figures of a test block that estimated groups give as well; minority is where attribute and label conflict.
FIGURES = ("minority", "majority", "group_balanced", "worst_group")


@dataclass(frozen=True)
class EstimatedAttributes:
    """What an estimator says of n rows. An estimate can be wrong, and no figure of it is one of named attributes.

    Attributes:
        attribute: (n,) int64, 0..K-1, -1 where unknown.
        names: K names.
        table: For each label the attribute values that go with it.
        source: Where the estimates come from, in words.
    """

    attribute: NDArray[np.int64]
    names: Sequence[str]
    table: Sequence[Sequence[int]]
    source: str

    @property
    def correlation(self) -> Correlation:
        """Which attribute values go with which label."""
        return Correlation.from_table(self.table, len(self.names))

    def metadata(self) -> dict[str, Any]:
        """Return all but the rows, as plain values."""
        return {"names": list(self.names), "table": [list(row) for row in self.table], "source": self.source}


def figures_of(
    rows: Predictions, correlation: Correlation | None, train_counts: Tensor | None = None
) -> dict[str, Any]:
    """Return the ``test`` block of ``report.json``: figures by group, those by estimated group under ``estimated``.

    Args:
        rows: Predictions, with the estimate if there is one.
        correlation: Tells minority from majority groups.
        train_counts: (L, K) training rows per group, for the adjusted average.
    """
    figures = GroupReport.from_predictions(rows, correlation, train_counts).to_dict()
    return figures | {"estimated": rows.estimate and evaluate_by_estimate(rows, rows.estimate)}


def evaluate_by_estimate(rows: Predictions, estimate: EstimatedAttributes) -> dict[str, Any] | None:
    """Return the ``estimated`` block of ``report.json``.

    Args:
        rows: Predictions; their own attributes and groups are not read.
        estimate: What is estimated of the same rows, in their order.

    Returns:
        Its source, the accuracies over all estimated groups, and the groups; None where no row is estimated.
    """
    if not (estimate.attribute >= 0).any():
        return None
    own = replace(
        rows, attribute=estimate.attribute, attribute_names=estimate.names, membership=None, groups=(), estimate=None
    )
    figures = GroupReport.from_predictions(own, estimate.correlation).to_dict()
    return {"source": estimate.source, **{name: figures[name] for name in FIGURES}, "groups": figures["groups"]}
