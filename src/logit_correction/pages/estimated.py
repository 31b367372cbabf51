"""Groups that an estimator found, where nobody named attributes: one run's estimate of the test rows serves all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from logit_correction.config import PLACE_OF_DATA
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.record import to_plain
from logit_correction.evaluation.report import EstimatedReport, estimated_report
from logit_correction.functional.groups import wilson_interval

if TYPE_CHECKING:
    from logit_correction.pages.folder import RunFolder

#: Figures that are given by estimated group as well.
FIGURES = tuple(one.name for one in fields(EstimatedReport) if one.name not in ("source", "groups"))

#: What stands for the attribute of the two groups of a label.
AGREES, CONFLICTS = "agrees", "conflicts"


def names_attributes(test: Mapping[str, Any]) -> bool:
    """Return whether the rows that a test block is of have attributes, or groups of their own."""
    return any(group["attribute"] is not None for group in test["groups"])


def flat_figures(test: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test block with the figures by estimated group beside the others, ``estimated_minority`` and so on."""
    block = test.get("estimated") or {}
    return {**test, **{f"estimated_{name}": block.get(name) for name in FIGURES}}


def sides(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put the estimated groups of each label together: where the attribute agrees with it, and where it conflicts.

    Args:
        groups: As an ``estimated`` block has them.

    Returns:
        Two groups for each label, in the form of the ``groups`` of a test block.
    """
    found = []
    for label in dict.fromkeys(str(group["label"]) for group in groups):
        for minority in (False, True):
            own = [one for one in groups if str(one["label"]) == label and one["minority"] is minority]
            count, correct = sum(one["count"] for one in own), sum(one["correct"] for one in own)
            low, high = (float(end) for end in wilson_interval(torch.tensor(correct), torch.tensor(count)))
            figures = {"accuracy": correct / count, "low": low, "high": high} if count else {}
            found.append(
                {"label": label, "attribute": CONFLICTS if minority else AGREES, "count": count, "correct": correct}
                | {"accuracy": None, "low": None, "high": None, "minority": minority}
                | figures
            )
    return found


def with_estimates(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Evaluate all runs on the same test rows by the estimate of one of them, so that they can be compared.

    The first run that has an estimate serves all whose test rows have the same labels. Runs whose test rows have
    attributes, and those to whose rows no estimate belongs, stay as they are.
    """
    if all(names_attributes(run.test) for run in runs):
        return list(runs)
    rows = [None if names_attributes(run.test) else _predictions(run) for run in runs]
    known = [(run, one) for run, one in zip(runs, rows, strict=True) if one is not None and one.estimate is not None]
    return [run if own is None else _judged(run, own, known) for run, own in zip(runs, rows, strict=True)]


def _predictions(run: RunFolder) -> Predictions | None:
    """Return the predictions of a run's test rows; None of a folder that has only its report."""
    path = run.path / "predictions.parquet"
    return Predictions.load(path) if path.is_file() else None


def _judged(run: RunFolder, own: Predictions, known: Sequence[tuple[RunFolder, Predictions]]) -> RunFolder:
    same = [(other, rows) for other, rows in known if _data(other) == _data(run) and _same(own, rows)]
    if not same or same[0][1].estimate is None:
        return run
    other, estimate = same[0][0].report, same[0][1].estimate
    block = to_plain(estimated_report(replace(own, estimate=estimate)))
    if block is None:
        return run
    block["by"] = {"method": other["method"], "seed": other.get("seed")}
    return replace(run, report={**run.report, "test": {**run.report["test"], "estimated": block}})


def _data(run: RunFolder) -> tuple[str, dict[str, Any]]:
    data = run.report["data"]
    options = data.get("options") or {}
    return data["name"], {name: value for name, value in options.items() if name not in PLACE_OF_DATA}


def _same(one: Predictions, other: Predictions) -> bool:
    return np.array_equal(one.index, other.index) and np.array_equal(one.label, other.label)
