"""What was run, on what, and which labels were read: the settings that the report page lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from logit_correction.errors import format_list, format_percent
from logit_correction.pages.folder import RunFolder, Series
from logit_correction.pages.formatting import format_name, format_value
from logit_correction.pages.tables import describe_selection


def run_settings(series: Sequence[Series]) -> dict[str, Any]:
    """Return the table of what was run, a row per setting."""
    return _shared_rows(series, _settings)


def environment(series: Sequence[Series]) -> dict[str, Any]:
    """Return the table of the software and the device."""
    return _shared_rows(series, lambda run: run.report.get("environment") or {})


def train_counts(run: RunFolder, num_groups: int) -> list[int] | None:
    """Return the training rows per group, if they are counted for these very groups."""
    data = run.report["data"]
    counts = ((data.get("scoring") or data).get("counts") or {}).get("train")
    flat = np.ravel(counts).tolist() if counts else []
    return [int(count) for count in flat] if len(flat) == num_groups else None


def _settings(run: RunFolder) -> dict[str, Any]:
    """Settings of one run by readable names, what matters most first; None for what a run has not got."""
    report, data, network = run.report, run.report["data"], run.report.get("network") or {}
    training = report.get("training") or {}
    built = (network.get("options") or {}) | (network.get("facts") or {})  # these say what ``auto`` stood for
    shape = [f"{format_name(name)} {format_value(value)}" for name, value in built.items()]
    seconds = {name: value for name, value in (report.get("seconds") or {}).items() if value is not None}
    settings = {
        "data": data["name"],
        **(data.get("facts") or data.get("options") or {}),
        **_counted(run),
        "network": ", ".join([str(network.get("name", "–")), *shape]),
        "parameters": network.get("parameters"),
        "epochs": " + ".join(map(str, report.get("epochs_per_stage") or [])) or report.get("epochs"),
        **{name: training.get(name) for name in ("batch_size", "optimizer", "learning_rate", "schedule")},
        **{name: training[name] for name in ("weight_decay", "gradient_clip") if training.get(name)},
        "checkpoint": describe_selection(report.get("selection") or {}),
        **(report.get("method_options") or {}),
        "device": report.get("device"),
        **{f"seconds, {name}": round(value, 1) for name, value in seconds.items()},
    }
    return {format_name(name): value for name, value in settings.items()}


def _counted(run: RunFolder) -> dict[str, str]:
    """Rows of each split, and how many training rows the shortcut misleads."""
    data = run.report["data"]
    settings: dict[str, str] = {}
    counts = data.get("rows") or {split: int(np.sum(table)) for split, table in (data.get("counts") or {}).items()}
    if counts:
        settings["rows"] = format_list([f"{count:,} {split}" for split, count in counts.items()])
    train = train_counts(run, len(run.groups))
    minority = (run.groups["minority"] == True).to_numpy()  # noqa: E712  (None is neither)
    if train is not None and minority.any() and np.any(train):
        rare, total = int(np.sum(np.asarray(train)[minority])), int(np.sum(train))
        settings["training rows that conflict with the shortcut"] = f"{rare:,} ({format_percent(rare / total, 2)})"
    return settings


def _shared_rows(series: Sequence[Series], settings: Callable[[RunFolder], dict[str, Any]]) -> dict[str, Any]:
    """One row per name: a single cell where all series agree, else one for each."""
    tables = [settings(one.runs[0]) for one in series]
    rows = []
    for name in dict.fromkeys(name for table in tables for name in table):
        cells = [format_value(table.get(name)) for table in tables]
        if set(cells) != {"–"}:
            rows.append({"name": name, "cells": cells[:1] if len(set(cells)) == 1 else cells})
    return {"rows": rows, "split": any(len(row["cells"]) > 1 for row in rows)}


def labels_read(series: Sequence[Series]) -> dict[str, Any]:
    """Return which labels were read of which split, and for what."""

    def of_run(run: RunFolder) -> dict[str, Any]:
        read = run.report.get("labels_read") or {}
        return {split: ", ".join(names) or "none" for split, names in read.items()}

    diagnostics = [run.report.get("diagnostics_labels_read") or {} for one in series for run in one.runs]
    watched = [run.report.get("watched_labels_read") or {} for one in series for run in one.runs]
    return {
        "table": _shared_rows(series, of_run),
        "watched": sorted({split for read in watched for split in read}),
        "diagnostics": sorted({split for read in diagnostics for split in read if "attribute" in read[split]}),
        "selections": sorted(
            {describe_selection(run.report.get("selection") or {}) for one in series for run in one.runs}
        ),
    }
