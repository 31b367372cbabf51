"""The pages: one HTML file each that holds everything and loads nothing; plain values for the templates beside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from logit_correction import sentences
from logit_correction.errors import NBSP, InputError, format_list, format_percent, is_missing
from logit_correction.files import NoRoom, write_text
from logit_correction.pages import plots
from logit_correction.pages.compare import Comparison, Series, compare, describe
from logit_correction.pages.estimated import flat_figures
from logit_correction.pages.folder import RunFolder
from logit_correction.pages.images import checked_uri, image_width
from logit_correction.sentences import describe_selection, format_name, format_value

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

#: Up to so many groups are drawn as bars, more as a heat map; so many views, and examples of rows, are listed.
_MOST_BARS, _MOST_VIEWS, _MOST_EXAMPLES = 12, 12, 24

#: Breadth of a view that sees everything, which is no evidence.
_EVERYTHING = 3

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

#: Figures by attribute value: entry of ``by_attribute``, heading.
_QUALITY = {"accuracy": "Accuracy %", "auroc": "AUROC %", "f1": "Macro F1 %", "ece": "Calibration error %"}


def write_page(run_folders: Sequence[Path | str], out: Path | str) -> None:
    """Write one self-contained page that compares runs.

    Only files of the run folders are read. The page is complete or absent: where something fails, an older
    page at ``out`` stays as it was.

    Args:
        run_folders: Folders of finished runs; runs that differ only by their seed are averaged.
        out: The HTML file to write.

    Raises:
        InputError: A folder holds no finished run, or ``out`` cannot be written.
        NoRoom: The disk is full.
    """
    save_page(render_page(run_folders, out), out)


def render_page(run_folders: Sequence[Path | str], out: Path | str = "report.html") -> str:
    """Return the page as text; ``out`` is only named in the commands that make the page again.

    Raises:
        InputError: No folder is given, or one holds no finished run.
    """
    if not run_folders:
        raise InputError("there is nothing to report: name at least one run folder")
    unique: dict[Path, Path] = {}
    for folder in map(Path, run_folders):
        unique.setdefault(folder.resolve(), folder)
    comparisons = compare([RunFolder.read(folder) for folder in unique.values()])
    places = [shown_path(folder) for folder in unique.values()]
    train = [["train", "--config", f"{place}/config.yaml", "--out", f"{place}-again"] for place in places]
    return render(
        "page.html.j2",
        title=describe(comparisons),
        parts=[_part(comparison, several=len(comparisons) > 1) for comparison in comparisons],
        commands={
            "This page, from the run folders": _command("report", *places, "--out", shown_path(out)),
            "The runs": "\n".join(_command(*words) for words in train),
        },
        accuracy_colors=plots.ACCURACY_COLORS,
        share_colors=plots.SHARE_COLORS,
    )


def render(name: str, **values: Any) -> str:
    """Return a page made from a template of this folder; what it is given is escaped, and what misses is an error."""
    return _template(name).render(**values)


@cache  # reading one takes as long as drawing a figure
def _template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def prose(text: str) -> Markup:
        """A sentence, what stands in back quotes as code."""
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "percent": format_percent,
        "svg": inline_svg,
        "prose": prose,
        "capital": sentences.capitalize,
        "count": "{:,.0f}".format,
    }
    return environment.get_template(name)


def save_page(page: str, out: Path | str) -> None:
    """Write a page, complete or not at all: where something fails, an older one stays as it was.

    Raises:
        InputError: ``out`` cannot be written.
        NoRoom: The disk is full.
    """
    try:
        write_text(out, page)
    except NoRoom:
        raise
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}): choose another place by --out") from error


def inline_svg(svg: str) -> Markup:
    """Return a figure of ours as part of an HTML page: in the page's colours, as wide as its place allows."""
    from markupsafe import Markup

    for name in ("INK", "MUTED", "RULE", "PAPER", "EMPTY"):
        svg = svg.replace(getattr(plots, name), f"var(--{name.lower()})")
    opening, rest = svg.split(">", 1)
    width = re.search(r' width="([\d.]+)pt"', opening)
    opening = re.sub(r' (?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", opening)
    # The text within was escaped when the figure was drawn.
    return Markup(f'{opening} style="--width: {float(width[1]) if width else 300:.0f}">{rest}')


def shown_path(path: Path | str) -> str:
    """Return a path as a page names it, which others will read: below the working folder, or its last part alone."""
    path = Path(path)
    if not path.is_absolute():
        return str(path)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name


def _command(*words: str) -> str:
    return shlex.join(["logit-correction", *words])


# The page of runs: what stands in each section


def _part(comparison: Comparison, several: bool) -> dict[str, Any]:
    """Everything about one task; ``several``: the page holds other tasks too, so this one is named."""
    series, block = comparison.series, comparison.estimated
    groupings = [_groups(series, {one.name: one.groups for one in series})]
    if block is not None:  # where nobody named groups, the estimated ones come first
        frames = {one.name: frame for one in series if (frame := one.estimated_groups) is not None}
        groupings.insert(0, _groups(series, frames, block["source"]))
    headline, details = comparison.conclusion()
    return {
        "title": comparison.title if several else None,
        "headline": headline,
        "details": details,
        "gaps": _gaps(series),
        "warnings": [
            (one.name, text) for one in series for run in one.runs for text in run.report.get("warnings") or []
        ],
        "columns": [column for column in _COLUMNS if _is_shown(comparison, column[0])],
        "rows": _rows(series, comparison.named),
        "groupings": groupings,
        "quality": _quality(series),
        "curves": plots.curves(
            {one.name: one.runs[0].metrics for one in series}, {one.name: one.color for one in series}
        ),
        "several_seeds": any(len(one.runs) > 1 for one in series),
        "ends": _ends(series),
        "evidence": [
            {"name": f"{one.name}, seed {run.report.get('seed', '–')}" if len(one.runs) > 1 else one.name, **found}
            for one in series
            for run in one.runs
            if (found := evidence_block(run.report)) is not None
        ],
        "priors": [entry for one in series if (entry := _prior(one))],
        "minorities": [entry for one in series if (entry := _conflicting(one))],
        "settings": _shared(series, _settings),
        "names": [one.name for one in series],
        "labels_read": _labels_read(series),
        "environment": _shared(series, lambda run: run.report.get("environment") or {}),
    }


def _is_shown(comparison: Comparison, key: str) -> bool:
    """Whether a column of the comparison has something to tell."""
    series = comparison.series
    if key.startswith("estimated_") and comparison.named:
        return False
    if key == "adjusted_average":
        pairs = [(one.figure(key), one.figure("average")) for one in series]
        return any(one is not None and other is not None and abs(one - other) >= 5e-4 for one, other in pairs)
    known = any(one.figure(key) is not None for one in series)
    return known and (key != "worst_class" or all(one.figure("worst_group") is None for one in series))


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

    The best of a column is marked only where attributes are named: plain accuracy favours models that rely on the
    shortcut, and what is estimated decides nothing.
    """
    best, rows = {}, []
    for key, _, _ in _COLUMNS:
        values = [value for one in series if (value := one.figure(key)) is not None]
        best[key] = max(values) if named and len(set(values)) > 1 else None

    def add(one: Series, kind: str, note: str, figure: Callable[[str], float | None]) -> None:
        cells = {}
        for key, marked in best.items():
            value, main = figure(key), kind in ("mean", "run")
            is_best = main and value is not None and value == marked
            cells[key] = {"value": value, "text": format_percent(value, 1, ""), "best": is_best}
        rows.append({"kind": kind, "name": one.name, "note": note, "color": one.color, "cells": cells})

    for one in series:
        if len(one.runs) > 1:
            add(one, "mean", f"mean of {len(one.runs)} runs", one.figure)
        for run in one.runs:
            report = run.report
            note = f"seed {report.get('seed', '–')}, {report.get('epochs', '–')} epochs"
            note += f", {describe_selection(report.get('selection') or {})}"
            add(one, "seed" if len(one.runs) > 1 else "run", note, run.test.get)
            for other in report.get("other_selections") or []:
                note = f"{describe_selection(other)}, epoch {other.get('epoch', '–')}"
                add(one, "other", note, flat_figures(other["test"]).get)
    return rows


def _ends(series: Sequence[Series]) -> str:
    """Say what the ends of an accuracy are."""
    several, alone = "reach from the worst to the best run", "are 95 % intervals (Wilson)"
    counts = [len(one.runs) > 1 for one in series]
    return several if all(counts) else f"{several}; of one run they {alone}" if any(counts) else alone


def _groups(series: Sequence[Series], frames: dict[str, pd.DataFrame], estimated: str | None = None) -> dict[str, Any]:
    """The groups of the test rows, named or estimated: a figure, and a table."""
    first, run = frames[series[0].name], series[0].runs[0]
    by_label = bool(first["attribute"].isna().all())
    bars = len(first) <= _MOST_BARS or by_label
    train, table = None if estimated else _train_counts(run, len(first)), []
    for number, group in enumerate(first.to_dict("records")):
        count = None if train is None else train[number]
        if not bars and not group["count"] and not count:
            continue  # of many labels and attribute values most never meet
        results = []
        for frame in frames.values():
            accuracy, low, high = (frame[name].iloc[number] for name in ("accuracy", "low", "high"))
            ends = "" if is_missing(low) else f"{format_percent(low, unit='')}–{format_percent(high, unit='')}"
            results.append({"text": format_percent(accuracy, 1, ""), "ends": ends})
        table.append({**{str(k): v for k, v in group.items()}, "train": count, "results": results})
    return {
        "by_label": by_label,
        "estimated": estimated,
        "bars": plots.group_bars(frames, {one.name: one.color for one in series}) if bars else None,
        "heatmaps": {} if bars else plots.group_heatmaps(frames),
        "outlined": bool(first["minority"].eq(False).any()),
        "starred": bool(first["minority"].eq(True).any()),
        "empty": bool((first["count"] == 0).any()),
        "overlapping": bool((run.report["data"].get("scoring") or {}).get("overlapping")),
        "count": len(first),
        "table": table,
    }


def _train_counts(run: RunFolder, num_groups: int) -> list[int] | None:
    """The training rows per group, if they are counted for these very groups."""
    data = run.report["data"]
    counts = ((data.get("scoring") or data).get("counts") or {}).get("train")
    flat = np.ravel(counts).tolist() if counts else []
    return [int(count) for count in flat] if len(flat) == num_groups else None


def _quality(series: Sequence[Series]) -> dict[str, Any] | None:
    """Figures of every attribute value and series, means over the runs; None where no value is known to all."""
    frames = [[pd.DataFrame(run.test["by_attribute"]) for run in one.runs] for one in series]
    names = [list(frame.get("attribute", [])) for own in frames for frame in own]
    if not names[0] or any(found != names[0] for found in names):
        return None
    rows = []
    for place, name in enumerate(names[0]):
        for one, own in zip(series, frames, strict=True):
            known = [pd.to_numeric(frame.iloc[place].reindex(list(_QUALITY))) for frame in own]
            means = pd.concat(known, axis=1).mean(axis=1, skipna=False)
            cells = [format_percent(means[key], 1, "") for key in _QUALITY]
            rows.append({"attribute": name, "name": one.name, "count": own[0]["count"][place], "cells": cells})
    return {"headings": list(_QUALITY.values()), "rows": rows}


def evidence_block(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a page shows of the evidence of a ``report.json``; None where nobody looked."""
    evidence = report.get("evidence")
    if not evidence:
        return None
    signs = sorted(evidence.get("signs") or [], key=_rank)
    options = (report.get("method_options") or {}).get("attributes")
    legitimate = options.get("legitimate") if isinstance(options, dict) else None
    return {
        "answer": sentences.answer(evidence).removeprefix("shortcut: "),
        "found": sentences.found_shortcut(evidence),
        "sentence": str(evidence.get("sentence") or ""),
        "advice": sentences.advice(evidence),
        "rows": [_sign(one, set(sentences.views_of(evidence))) for one in signs[:_MOST_VIEWS]],
        "more": max(0, len(signs) - _MOST_VIEWS),
        "legitimate": format_list([str(one) for one in legitimate]) if isinstance(legitimate, list) else "",
        "pairs": sentences.describe_conflicts(evidence.get("conflicts") or []),
        "noise": sentences.describe_noise(evidence),
    }


def _rank(one: Mapping[str, Any]) -> tuple[bool, float]:
    """Narrow views by their ratio, the greatest first; then what sees everything."""
    return int(one.get("breadth") or 0) >= _EVERYTHING, -float(one.get("ratio") or 0.0)


def _sign(one: Mapping[str, Any], chosen: set[str]) -> dict[str, Any]:
    """One view, every figure as text; of several members of a family the first is described."""
    names, rows = sentences.views_in(str(one.get("view"))), int(one.get("rows") or 0)
    looks_at = str(one.get("sentence") or "")
    if 2 < len(names) == len(looks_at.split(" and ")):
        looks_at = f"{looks_at.split(' and ')[0]} and {len(names) - 1} more"
    share = "" if one.get("share") is None else f" ({format_percent(one['share'])})"
    decimal = {name: "–" if is_missing(one.get(name)) else f"{one[name]:.2f}" for name in _DECIMALS}
    percent = {name: format_percent(one.get(name), unit="") for name in _PERCENTS}
    return {
        "names": names,
        "sentence": plots.shorten(looks_at, 150),
        "chosen": set(names) == chosen,
        "everything": _rank(one)[0],
        "accuracy": percent["accuracy"],
        "network": percent["network_accuracy"],
        "ratio": decimal["ratio"],
        "ends": "" if "–" in decimal.values() else f"{decimal['ratio_low']}–{decimal['ratio_high']}",
        "information": decimal["information"],
        "follows": f"{percent['follows_view']} / {percent['follows_label']}" if rows else "–",
        "rows": f"of {sentences.format_rows(rows)}{share}".replace(" row", f"{NBSP}row") if rows else "no such row",
    }


_DECIMALS = ("ratio", "ratio_low", "ratio_high", "information")
_PERCENTS = ("accuracy", "network_accuracy", "follows_view", "follows_label")


def _prior(series: Series) -> dict[str, Any] | None:
    """The group prior that a run estimated, beside the true one; None of an estimator that abstained."""
    report = series.runs[0].report
    prior = report.get("group_prior")
    if not prior or not prior.get("estimated") or sentences.found_shortcut(report.get("evidence")) is False:
        return None
    true = prior.get("true")
    true = true if true and np.shape(true) == np.shape(prior["estimated"]) else None
    parts = (("estimator", "estimator"), ("averaging", "average"))
    factor = None
    if true:
        estimated_share, true_share = plots.label_shares(prior["estimated"]), plots.label_shares(true)
        rare = (true_share > 0) & (true_share < 50) & (estimated_share > 0)
        if rare.any():
            factor = float(np.exp(np.median(np.log(estimated_share[rare] / true_share[rare]))))
    names = prior.get("label_names"), prior.get("attribute_names")
    return {
        "name": series.name,
        "how": ", ".join(f"{format_name(prior[name])} {what}" for name, what in parts if prior.get(name)),
        "figures": plots.prior_heatmaps(prior["estimated"], true, *names, of=series.name),
        "factor": factor,
    }


def _conflicting(series: Series) -> dict[str, Any] | None:
    """The rows that a run takes for bias-conflicting; None where nobody looked."""
    report = series.runs[0].report
    found, evidence, data = report.get("estimated_minority"), report.get("evidence"), report["data"]
    if not found:
        return None
    examples = []
    for example in (found.get("examples") or [])[:_MOST_EXAMPLES]:
        uri = checked_uri(example.get("picture"))
        examples.append({"name": None, **example, "picture": uri, "small": uri is not None and image_width(uri) < 100})
    values = data.get("attribute_names") or ()
    known = bool(values) and all(example["estimated_attribute"] in values for example in examples)
    like_labels = {f"that of {name}" for name in data.get("label_names") or ()}
    shortcut = sentences.found_shortcut(evidence)
    return {
        "name": series.name,
        **found,
        "examples": examples,
        "total": (data.get("rows") or {}).get("train") or int(np.sum((data.get("counts") or {}).get("train") or 0)),
        "known": known and any(example.get("attribute") is not None for example in examples),
        "like_label": all(example["estimated_attribute"] in like_labels for example in examples),
        "abstained": shortcut is False,
        "unsure": evidence is not None and evidence.get("verdict") == "cannot tell",
        "source": report.get("attributes"),
        "views": sentences.name_views(sentences.views_of(evidence)) if evidence and shortcut else None,
        "attributed": bool(values),
        "texts": any(example.get("name") and not example["picture"] for example in examples),
    }


def _settings(run: RunFolder) -> dict[str, Any]:
    """Settings of one run by readable names, what matters most first; None for what a run has not got."""
    report, data, network = run.report, run.report["data"], run.report.get("network") or {}
    training = report.get("training") or {}
    built = (network.get("options") or {}) | (network.get("facts") or {})  # these say what ``auto`` stood for
    shape = [f"{format_name(name)} {format_value(value)}" for name, value in built.items()]
    seconds = {name: value for name, value in (report.get("seconds") or {}).items() if value is not None}
    counts = data.get("rows") or {split: int(np.sum(table)) for split, table in (data.get("counts") or {}).items()}
    groups = run.groups
    train, minority = _train_counts(run, len(groups)), groups["minority"].eq(True).to_numpy()
    rare = int(np.sum(np.asarray(train)[minority])) if train is not None and minority.any() and np.any(train) else None
    settings = {
        "data": data["name"],
        **(data.get("facts") or data.get("options") or {}),
        "rows": format_list([f"{count:,} {split}" for split, count in counts.items()]) if counts else None,
        "training rows that conflict with the shortcut": None
        if rare is None
        else f"{rare:,} ({format_percent(rare / np.sum(train or 0), 2)})",
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


def _shared(series: Sequence[Series], settings: Callable[[RunFolder], dict[str, Any]]) -> dict[str, Any]:
    """One row per name: a single cell where all series agree, else one for each."""
    tables = [settings(one.runs[0]) for one in series]
    rows = []
    for name in dict.fromkeys(name for table in tables for name in table):
        cells = [format_value(table.get(name)) for table in tables]
        if set(cells) != {"–"}:
            rows.append({"name": name, "cells": cells[:1] if len(set(cells)) == 1 else cells})
    return {"rows": rows, "split": any(len(row["cells"]) > 1 for row in rows)}


def _labels_read(series: Sequence[Series]) -> dict[str, Any]:
    """Which labels were read of which split, and for what."""
    reports = [run.report for one in series for run in one.runs]
    diagnostics = [(report.get("diagnostics_labels_read") or {}).items() for report in reports]
    return {
        "table": _shared(
            series, lambda run: {k: ", ".join(v) or "none" for k, v in (run.report.get("labels_read") or {}).items()}
        ),
        "watched": sorted({split for report in reports for split in report.get("watched_labels_read") or {}}),
        "diagnostics": sorted({split for read in diagnostics for split, names in read if "attribute" in names}),
        "selections": sorted({describe_selection(report.get("selection") or {}) for report in reports}),
    }
