"""What stands in each section of the report page, as plain values for the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from logit_correction.errors import format_percent, is_missing
from logit_correction.pages.comparison import Comparison
from logit_correction.pages.conclusion import conclude
from logit_correction.pages.conflicting import conflicting_rows
from logit_correction.pages.estimated import flat_figures
from logit_correction.pages.evidence import block, found_shortcut
from logit_correction.pages.folder import Series
from logit_correction.pages.formatting import format_name
from logit_correction.pages.plots import curves, group_bars, group_heatmaps, label_shares, prior_heatmaps
from logit_correction.pages.quality import quality
from logit_correction.pages.settings import environment, labels_read, run_settings, train_counts
from logit_correction.pages.tables import describe_selection

#: Up to so many groups are drawn as bars, more as a heat map.
_MOST_BARS = 12

#: Pairs of entries of the test block whose distance tells of a shortcut, and what each of them means.
_GAPS = (
    ("minority", "majority", "right where the shortcut misleads", "right where the shortcut helps"),
    ("worst_group", "average", "right in the worst group", "right over all test rows"),
    (
        "estimated_minority",
        "estimated_majority",
        "right where the estimated attribute conflicts with the label",
        "right where it agrees",
    ),
)

#: Columns of the comparison: entry of the test block, heading, what it means.
_COLUMNS = (
    ("estimated_minority", "Conflicting", "rows whose estimated attribute conflicts with the label"),
    ("estimated_majority", "Agreeing", "rows where it agrees"),
    ("minority", "Minority", "groups that conflict with the shortcut"),
    ("majority", "Majority", "groups that follow it"),
    ("group_balanced", "Group-balanced", "mean over all groups"),
    ("worst_group", "Worst group", "the least of them"),
    ("worst_class", "Worst label", "least accuracy of a label"),
    ("average", "Average", "over all test rows"),
    ("adjusted_average", "Adjusted average", "groups weighted as in training"),
)


def part(comparison: Comparison, several: bool) -> dict[str, Any]:
    """Return everything about one task; ``several``: the page holds other tasks too, so this one is named."""
    series = comparison.series
    return {
        "title": comparison.title if several else None,
        "conclusion": conclude(comparison),
        "gaps": _gaps(series),
        "warnings": [
            (one.name, text) for one in series for run in one.runs for text in run.report.get("warnings") or []
        ],
        "columns": [column for column in _COLUMNS if _is_shown(comparison, column[0])],
        "named": comparison.named,
        "rows": _rows(series, comparison.named),
        "groupings": _groupings(comparison),
        "quality": quality(series),
        "curves": curves({one.name: one.runs[0].metrics for one in series}, {one.name: one.color for one in series}),
        "several_seeds": any(len(one.runs) > 1 for one in series),
        "ends": _ends(series),
        "evidence": _evidence(series),
        "priors": [entry for one in series if (entry := _prior(one))],
        "minorities": [entry for one in series if (entry := conflicting_rows(one))],
        "settings": run_settings(series),
        "names": [one.name for one in series],
        "labels_read": labels_read(series),
        "environment": environment(series),
    }


def _is_shown(comparison: Comparison, key: str) -> bool:
    series = comparison.series
    if key.startswith("estimated_") and comparison.named:
        return False
    known = any(one.figure(key) is not None for one in series)
    if key == "adjusted_average":
        return any(_differ(one.figure(key), one.figure("average")) for one in series)
    return known and (key != "worst_class" or all(one.figure("worst_group") is None for one in series))


def _differ(one: float | None, other: float | None) -> bool:
    """Whether two figures differ by what a reader would see."""
    return one is not None and other is not None and abs(one - other) >= 5e-4


def _gaps(series: Sequence[Series]) -> dict[str, Any] | None:
    """For each series where it is right least and most; None where no such pair is known."""
    for low, high, low_name, high_name in _GAPS:
        values = [(one, one.figure(low), one.figure(high)) for one in series]
        if all(a is not None and b is not None for _, a, b in values):
            rows = [{"name": one.name, "color": one.color, "low": a, "high": b} for one, a, b in values]
            return {"low_name": low_name, "high_name": high_name, "rows": rows}
    return None


def _rows(series: Sequence[Series], named: bool) -> list[dict[str, Any]]:
    """Rows of the comparison: for each series its mean if it has several runs, and each run's checkpoints.

    The best of a column is marked only where attributes are named: by plain accuracy a model wins that leans on the
    shortcut, and what is estimated decides nothing.
    """
    best = {}
    for key, _, _ in _COLUMNS:
        values = [value for one in series if (value := one.figure(key)) is not None]
        best[key] = max(values) if named and len(set(values)) > 1 else None
    rows = []
    for one in series:
        mean = len(one.runs) > 1
        if mean:
            cells = {key: _cell(one.figure(key), best[key]) for key in best}
            rows.append(_row(one, "mean", f"mean of {len(one.runs)} runs", cells))
        for run in one.runs:
            report = run.report
            note = f"seed {report.get('seed', '–')}, {report.get('epochs', '–')} epochs"
            chosen = describe_selection(report.get("selection") or {})
            cells = {key: _cell(run.test.get(key), None if mean else best[key]) for key in best}
            rows.append(_row(one, "seed" if mean else "run", f"{note}, {chosen}", cells))
            for other in report.get("other_selections") or []:
                note = f"{describe_selection(other)}, epoch {other.get('epoch', '–')}"
                cells = {key: _cell(flat_figures(other["test"]).get(key), None) for key in best}
                rows.append(_row(one, "other", note, cells))
    return rows


def _row(series: Series, kind: str, note: str, cells: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "name": series.name, "note": note, "color": series.color, "cells": cells}


def _cell(value: float | None, best: float | None) -> dict[str, Any]:
    return {"value": value, "text": format_percent(value, 1, ""), "best": value is not None and value == best}


def _groupings(comparison: Comparison) -> list[dict[str, Any]]:
    """The groups of the test rows; where nobody named them the estimated ones, and the labels after them."""
    series, block = comparison.series, comparison.estimated
    found = [_groups(series, {one.name: one.groups for one in series})]
    if block is None:
        return found
    frames = {one.name: frame for one in series if (frame := one.estimated_groups) is not None}
    return [_groups(series, frames, block["source"]), *found]


def _ends(series: Sequence[Series]) -> str:
    """Say what the ends of an accuracy are."""
    several, alone = "reach from the worst to the best run", "are 95 % intervals (Wilson)"
    counts = [len(one.runs) > 1 for one in series]
    return several if all(counts) else f"{several}; of one run they {alone}" if any(counts) else alone


def _groups(series: Sequence[Series], frames: dict[str, pd.DataFrame], estimated: str | None = None) -> dict[str, Any]:
    first = frames[series[0].name]
    by_label = bool(first["attribute"].isna().all())
    bars = len(first) <= _MOST_BARS or by_label
    table = _group_table(series, frames, None if estimated else train_counts(series[0].runs[0], len(first)))
    if not bars:  # of many labels and attribute values most never meet
        table = [row for row in table if row["count"] or row["train"] not in (None, "0")]
    return {
        "by_label": by_label,
        "estimated": estimated,
        "bars": group_bars(frames, {one.name: one.color for one in series}) if bars else None,
        "heatmaps": {} if bars else group_heatmaps(frames),
        "outlined": bool((first["minority"] == False).any()),  # noqa: E712  (None is neither)
        "starred": bool((first["minority"] == True).any()),  # noqa: E712
        "empty": bool((first["count"] == 0).any()),
        "overlapping": bool((series[0].runs[0].report["data"].get("scoring") or {}).get("overlapping")),
        "count": len(first),
        "table": table,
    }


def _group_table(
    series: Sequence[Series], frames: dict[str, pd.DataFrame], train: list[int] | None
) -> list[dict[str, Any]]:
    rows = []
    for number, group in enumerate(frames[series[0].name].to_dict("records")):
        results = []
        for frame in frames.values():
            entry = frame.iloc[number]
            low, high = (format_percent(entry[end], unit="") for end in ("low", "high"))
            ends = "" if is_missing(entry["low"]) else f"{low}–{high}"
            results.append({"text": format_percent(entry["accuracy"], 1, ""), "ends": ends})
        rows.append(
            {
                **{str(k): v for k, v in group.items()},
                "train": None if train is None else f"{train[number]:,}",
                "results": results,
            }
        )
    return rows


def _evidence(series: Sequence[Series]) -> list[dict[str, Any]]:
    """A block for each run that looked for a shortcut."""
    runs = [
        (f"{one.name}, seed {run.report.get('seed', '–')}" if len(one.runs) > 1 else one.name, run)
        for one in series
        for run in one.runs
    ]
    return [found for name, run in runs if (found := block(name, run.report)) is not None]


def _prior(series: Series) -> dict[str, Any] | None:
    prior = series.runs[0].report.get("group_prior")
    abstained = found_shortcut(series.runs[0].report.get("evidence")) is False
    if not prior or not prior.get("estimated") or abstained:  # a prior of no estimate at all says nothing
        return None
    names = prior.get("label_names"), prior.get("attribute_names")
    true = prior.get("true")
    true = true if true and np.shape(true) == np.shape(prior["estimated"]) else None
    parts = (("estimator", "estimator"), ("averaging", "average"))
    how = ", ".join(f"{format_name(prior[name])} {what}" for name, what in parts if prior.get(name))
    factor = None
    if true:
        estimated_share, true_share = label_shares(prior["estimated"]), label_shares(true)
        rare = (true_share > 0) & (true_share < 50) & (estimated_share > 0)
        if rare.any():
            factor = float(np.exp(np.median(np.log(estimated_share[rare] / true_share[rare]))))
    figures = prior_heatmaps(prior["estimated"], true, *names, of=series.name)
    return {"name": series.name, "how": how, "figures": figures, "factor": factor}
