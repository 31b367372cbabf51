"""Values of new rows outside of the range of the training rows, on which a network extrapolates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.rows import RowErrors
from logit_correction.formatting import format_value

#: Probability of as many new values outside of the range by chance, below which users are warned.
CHANCE_LEVEL = 0.001


def compute_range(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return least and greatest of the values that are finite, and their number, as plain values; empty without any."""
    present = values[np.isfinite(values)]
    if not len(present):
        return {}
    return {"range": [float(present.min()), float(present.max())], "rows": len(present)}


def remark_on_values_out_of_range(
    column: dict[str, Any],
    values: NDArray[np.float64],
    errors: RowErrors,
    format_cell: Callable[[float], str] = format_value,
) -> None:
    """Note new values beyond one end of the training range, unless so few and so near ones are expected by chance.

    Of N training rows and n new rows of one distribution, the k greatest are all new with the probability
    prod_{i<k} (n - i) / (n + N - i). A value farther off than a standard deviation is noted in any case.

    Args:
        column: ``name``, ``std``, and what ``compute_range`` returned; one of an older version has no range.
        values: (n,) of the new rows; NaN where missing.
        errors: Of these rows.
        format_cell: Writes a value for people.
    """
    if "range" not in column:
        return
    low, high = column["range"]
    num_new = int(np.isfinite(values).sum())
    is_date = column.get("kind") == "dates"
    sides = {"before" if is_date else "below": low - values, "after" if is_date else "above": values - high}
    for side, distance in sides.items():
        is_outside = distance > 0
        count = int(is_outside.sum())
        ranks = np.arange(count)
        chance = np.prod((num_new - ranks) / (num_new + column["rows"] - ranks))
        if not count or (chance > CHANCE_LEVEL and distance[is_outside].max() <= column["std"]):
            continue
        fact = f"column {column['name']!r} is {side} all of training's ({format_cell(low)} to {format_cell(high)})"
        example = format_cell(float(values[is_outside][0]))
        errors.add_remark(fact, "the model was not trained on such values", count, example)
