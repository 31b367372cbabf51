"""AUROC, F1 and calibration error by attribute, as the page shows them under the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logit_correction.errors import format_percent
from logit_correction.pages.folder import Series

#: Entry of ``by_attribute`` -> heading.
COLUMNS = {"accuracy": "Accuracy %", "auroc": "AUROC %", "f1": "Macro F1 %", "ece": "Calibration error %"}


def quality(series: Sequence[Series]) -> dict[str, Any] | None:
    """Return a table of every attribute value and series, figures as means over the runs.

    Returns:
        None where no attribute is known, and where series have other values than the first.
    """
    blocks = [[run.test["by_attribute"] for run in one.runs] for one in series]
    names = [row["attribute"] for row in blocks[0][0]]
    if not names or any([row["attribute"] for row in found] != names for block in blocks for found in block):
        return None
    rows = []
    for place, name in enumerate(names):
        for one, block in zip(series, blocks, strict=True):
            runs = [found[place] for found in block]
            cells = [format_percent(_mean([run.get(key) for run in runs]), 1, "") for key in COLUMNS]
            rows.append({"attribute": name, "name": one.name, "count": runs[0]["count"], "cells": cells})
    return {"headings": list(COLUMNS.values()), "rows": rows}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
