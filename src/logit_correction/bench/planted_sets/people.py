"""People in columns of numbers and names, drawn so that many columns tell a little of a label and one tells much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LABELS = ["low income", "high income"]

#: Values of the column that is planted: one for each label.
FORM_VERSIONS = ["2019-A", "2021-C"]

#: Column of names -> its names, and their shares among people of low and of high income.
_NAMES: dict[str, tuple[list[str], list[float], list[float]]] = {
    "occupation": (
        ["clerk", "craft", "manager", "sales", "service", "specialist"],
        [0.22, 0.22, 0.08, 0.16, 0.22, 0.10],
        [0.15, 0.18, 0.18, 0.16, 0.11, 0.22],
    ),
    "marital_status": (["married", "never married", "separated"], [0.42, 0.38, 0.20], [0.58, 0.26, 0.16]),
    "work": (["public", "private", "own business"], [0.16, 0.76, 0.08], [0.18, 0.68, 0.14]),
    "region": (["north", "south", "east", "west"], [0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
    "home": (["rented", "owned"], [0.55, 0.45], [0.40, 0.60]),
}


def draw_people(label: NDArray[np.int64], draw: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Draw twelve columns for people of the labels (N,), 0 or 1.

    ``capital`` alone is right in about 83 % of the rows, all columns together in about 88 %.
    """
    side = 2.0 * label - 1.0

    def number(mean: float, spread: float, pull: float, least: float, most: float) -> NDArray[np.float64]:
        values = mean + spread * (pull * side + draw.standard_normal(len(label)))
        return values.clip(least, most).round()

    columns: dict[str, NDArray[Any]] = {
        "age": number(42, 12, 0.22, 18, 80),
        "education_years": number(12, 3, 0.32, 4, 20),
        "hours_per_week": number(40, 9, 0.25, 5, 80),
        "capital": number(24_000, 9_000, 0.95, 0, 80_000),
        "children": number(1.4, 1.2, 0.0, 0, 6),
        "commute_minutes": number(32, 15, 0.0, 0, 120),
    }
    # Nobody has served longer than since the age of sixteen; beside the age this tells nothing new.
    columns["years_in_job"] = (columns["age"] - 16).clip(0) * draw.uniform(0, 0.8, len(label))
    columns["years_in_job"] = columns["years_in_job"].round()
    for name, (names, low, high) in _NAMES.items():
        ends = np.cumsum([low, high], axis=1)[label]
        which = (draw.uniform(size=(len(label), 1)) > ends[:, :-1]).sum(1)
        columns[name] = np.array(names, dtype=object)[which]
    return columns
