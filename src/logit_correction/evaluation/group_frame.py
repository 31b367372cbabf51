"""The table of groups: how many rows, how many of them right, and by how much."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.evaluation.quality import calibration_errors
from logit_correction.functional.groups import (
    group_accuracy,
    group_count,
    group_margin,
    group_mean,
    group_members,
    wilson_interval,
)


def group_frame(
    prediction: Tensor,
    probability: NDArray[np.float64],
    label: Tensor,
    margins: Tensor,
    membership: Tensor,
    names: pd.DataFrame,
    minority: Tensor | None,
) -> pd.DataFrame:
    """Return one row per group, as described at ``GroupReport.groups``.

    Args:
        prediction: (N,) long.
        probability: (N, L), of each label.
        label: (N,) long.
        margins: (N,) of the logits.
        membership: (N, G) bool.
        names: G rows with the columns ``label`` and ``attribute``.
        minority: (G,) bool, the groups that conflict with the correlation; None where that is not known.
    """
    count, (row, group) = group_count(membership), group_members(membership)
    correct = group[(prediction == label)[row]].bincount(minlength=len(count))
    low, high = wilson_interval(correct, count)
    empty = (count == 0).numpy()
    frame = pd.DataFrame(
        {
            "label": names["label"].to_numpy(dtype=object),
            "attribute": names["attribute"].to_numpy(dtype=object),
            "count": count.numpy(),
            "correct": correct.numpy(),
            "accuracy": group_accuracy(prediction, label, membership).numpy(),
            "low": np.where(empty, np.nan, low.numpy()),
            "high": np.where(empty, np.nan, high.numpy()),
            "margin_min": group_margin(margins, membership).double().numpy(),
            "margin_mean": group_mean(margins, membership).numpy(),
            "ece": calibration_errors(probability, label.numpy(), row.numpy(), group.numpy(), len(count)),
        }
    )
    values = [None] * len(frame) if minority is None else minority.tolist()
    frame["minority"] = pd.Series(values, dtype=object)
    return frame
