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
from logit_correction.errors import InputError, format_list, format_percent, is_missing
from logit_correction.evaluation.report import AttributeFigures, headings
from logit_correction.files import NoRoom, write_text
from logit_correction.pages import plots
from logit_correction.pages.compare import FIGURES, MEANINGS, Comparison, RunFolder, Series, compare, flat_figures
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
    *((name, heading, MEANINGS.get(name, "")) for name, heading in FIGURES.items()),
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

#: Entries of a sign of the evidence that are shown.
_SIGN = ("share", "rows", "accuracy", "network_accuracy", "ratio", "ratio_low", "ratio_high", "information")

#: Figures by attribute value: entry of ``by_attribute``, heading.
QUALITY = {k: text for k, text in headings(AttributeFigures).items() if k not in ("attribute", "count")}


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
    runs = [RunFolder.read(folder) for folder in unique.values()]
    comparisons = compare(runs)
    methods = dict.fromkeys(series.method for comparison in comparisons for series in comparison.series)
    data = dict.fromkeys(run.report["data"]["name"] for run in runs)
    places = [shown_path(folder) for folder in unique.values()]
    train = [["train", "--config", f"{place}/config.yaml", "--out", f"{place}-again"] for place in places]
    return render(
        "page.html.j2",
        title=f"{format_list(list(methods))} on {format_list(list(data))}",
        parts=[_part(comparison, several=len(comparisons) > 1) for comparison in comparisons],
        commands={
            "This page, from the run folders": _command("report", *places, "--out", shown_path(out)),
            "The runs": "\n".join(_command(*words) for words in train),
        },
        accuracy_colors=plots.ACCURACY_COLORS,
        share_colors=plots.SHARE_COLORS,
        quality=QUALITY,
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
        "decimal": lambda value: "–" if is_missing(value) else f"{value:.2f}",
        "count": "{:,.0f}".format,
        "words": format_name,
        "selection": describe_selection,
        "figures": flat_figures,
        "svg": inline_svg,
        "prose": prose,
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
    reports = [run.report for one in series for run in one.runs]
    headline, details = comparison.conclusion()
    many, seeds = [len(one.runs) > 1 for one in series], "reach from the worst to the best run"
    alone = "are 95 % intervals (Wilson)"
    columns = [column for column in _COLUMNS if _is_shown(comparison, column[0])]
    gap = next((pair for pair in _GAPS if all(one.values(key) for one in series for key in pair[:2])), None)
    colors = {one.name: one.color for one in series}
    return {
        "title": comparison.title if several else None,
        "headline": headline,
        "details": details,
        "gap": gap,
        "series": series,
        "warnings": [(one.name, text) for one in series for run in one.runs for text in run.report["warnings"]],
        "columns": columns,
        "best": _best(comparison, [key for key, *_ in columns]),
        # Where nobody named groups, the estimated ones come first.
        "groupings": [_groups(series, source) for source in ([block["source"]] if block else []) + [None]],
        "quality": _quality(series),
        "curves": plots.curves({one.name: one.runs[0].metrics for one in series}, colors),
        "several_seeds": any(many),
        "ends": seeds if all(many) else f"{seeds}; of one run they {alone}" if any(many) else alone,
        "evidence": [
            {"name": f"{one.name}, seed {run.report['seed']}" if len(one.runs) > 1 else one.name, **found}
            for one in series
            for run in one.runs
            if (found := evidence_block(run.report["evidence"], run.report["method_options"])) is not None
        ],
        "priors": [entry for one in series if (entry := _prior(one))],
        "minorities": [entry for one in series if (entry := _conflicting(one))],
        "settings": _shared(series, _settings),
        "names": [one.name for one in series],
        "labels_read": _shared(
            series, lambda run: {k: ", ".join(v) or "none" for k, v in run.report["labels_read"].items()}
        ),
        "watched": sorted({split for report in reports for split in report["watched_labels_read"]}),
        "diagnostics": sorted(
            {k for report in reports for k, names in report["diagnostics_labels_read"].items() if "attribute" in names}
        ),
        "selections": sorted({describe_selection(report["selection"] or {}) for report in reports}),
        "environment": _shared(series, lambda run: run.report["environment"] or {}),
    }


def _is_shown(comparison: Comparison, key: str) -> bool:
    """Whether a column of the comparison has something to tell."""
    series = comparison.series
    if key.startswith("estimated_") and comparison.named:
        return False
    if key == "adjusted_average":
        pairs = [(one.figure(key), one.figure("average")) for one in series]
        return any(one is not None and other is not None and abs(one - other) >= 5e-4 for one, other in pairs)
    known = any(one.values(key) for one in series)
    return known and (key != "worst_class" or not any(one.values("worst_group") for one in series))


def _best(comparison: Comparison, keys: Sequence[str]) -> dict[str, float | None]:
    """The figure of each column that is marked.

    None is where attributes are not named: plain accuracy favours models that rely on the shortcut, and what is
    estimated decides nothing.
    """
    best: dict[str, float | None] = {}
    for key in keys:
        values = [value for one in comparison.series if (value := one.figure(key)) is not None]
        best[key] = max(values) if comparison.named and len(set(values)) > 1 else None
    return best


def _groups(series: Sequence[Series], estimated: str | None) -> dict[str, Any]:
    """The groups of the test rows, named or estimated: a figure, and a table."""
    known = {one.name: one.groups(estimated is not None) for one in series}
    frames = {name: frame for name, frame in known.items() if frame is not None}
    first, run = frames[series[0].name], series[0].runs[0]
    by_label = bool(first["attribute"].isna().all())
    bars = len(first) <= _MOST_BARS or by_label
    train = _train_counts(run, len(first)) or [None] * len(first)
    if estimated:
        train = [None] * len(first)
    table = [
        {**group, "train": count, "results": [frame.iloc[number] for frame in frames.values()]}
        for number, (group, count) in enumerate(zip(first.to_dict("records"), train, strict=True))
        if bars or group["count"] or count  # of many labels and attribute values most never meet
    ]
    return {
        "by_label": by_label,
        "estimated": estimated,
        "bars": plots.group_bars(frames, {one.name: one.color for one in series}) if bars else None,
        "heatmaps": {} if bars else plots.group_heatmaps(frames),
        "outlined": bool(first["minority"].eq(False).any()),
        "starred": bool(first["minority"].eq(True).any()),
        "empty": bool((first["count"] == 0).any()),
        "overlapping": bool((run.report["data"]["scoring"] or {}).get("overlapping")),
        "count": len(first),
        "table": table,
    }


def _train_counts(run: RunFolder, num_groups: int) -> list[int | None] | None:
    """The training rows per group, if they are counted for these very groups."""
    data = run.report["data"]
    flat = np.ravel(((data["scoring"] or data)["counts"] or {}).get("train") or []).tolist()
    return flat if len(flat) == num_groups else None


def _quality(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Figures of every attribute value and series, means over the runs; none where series have other values."""
    rows: list[Any] = []
    for one in series:
        frames = [pd.DataFrame(run.report["test"]["by_attribute"]) for run in one.runs]
        if frames[0].empty or any(list(frame["attribute"]) != list(frames[0]["attribute"]) for frame in frames):
            return []
        figures: Any = sum(frame[list(QUALITY)].astype(float) for frame in frames) / len(frames)
        rows += frames[0][["attribute", "count"]].join(figures).assign(name=one.name).to_dict("records")
    names = [[row["attribute"] for row in rows if row["name"] == one.name] for one in series]
    return sorted(rows, key=lambda row: names[0].index(row["attribute"])) if all(n == names[0] for n in names) else []


def evidence_block(
    evidence: Mapping[str, Any] | None, method_options: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return what a page shows of the ``evidence`` of a report; None where nobody looked."""
    if not evidence:
        return None

    def rank(one: Mapping[str, Any]) -> tuple[bool, float]:  # narrow views by their ratio; then what sees everything
        return one["everything"], -float(one["ratio"] or 0.0)

    chosen, signs = set(sentences.views_of(evidence)), []
    for sign in evidence.get("signs") or []:
        names, text = sentences.views_in(str(sign.get("view"))), str(sign.get("sentence") or "")
        if 2 < len(names) == len(text.split(" and ")):  # of several members of a family the first is described
            text = f"{text.split(' and ')[0]} and {len(names) - 1} more"
        own = {
            "names": names,
            "chosen": set(names) == chosen,
            "everything": int(sign.get("breadth") or 0) >= _EVERYTHING,
        }
        signs.append(
            {
                **dict.fromkeys((*_SIGN, "follows_view", "follows_label")),
                **sign,
                **own,
                "sentence": plots.shorten(text, 150),
            }
        )
    attributes = (method_options or {}).get("attributes")
    legitimate = attributes.get("legitimate") if isinstance(attributes, dict) else None
    return {
        "answer": sentences.answer(evidence).removeprefix("shortcut: "),
        "found": sentences.found_shortcut(evidence),
        "sentence": evidence.get("sentence") or "",
        "advice": sentences.advice(evidence),
        "rows": sorted(signs, key=rank)[:_MOST_VIEWS],
        "more": max(0, len(signs) - _MOST_VIEWS),
        "legitimate": format_list([str(one) for one in legitimate]) if isinstance(legitimate, list) else "",
        "pairs": sentences.describe_conflicts(evidence.get("conflicts") or []),
        "noise": sentences.describe_noise(evidence),
    }


def _prior(series: Series) -> dict[str, Any] | None:
    """The group prior that a run estimated, beside the true one; None of an estimator that abstained."""
    report = series.runs[0].report
    prior = report["group_prior"]
    if not prior or not prior["estimated"] or sentences.found_shortcut(report["evidence"]) is False:
        return None
    factor, names = None, (prior["label_names"], prior["attribute_names"])
    if prior["true"]:
        estimated, true = plots.label_shares(prior["estimated"]), plots.label_shares(prior["true"])
        rare = (true > 0) & (true < 50) & (estimated > 0)
        factor = float(np.exp(np.median(np.log(estimated[rare] / true[rare])))) if rare.any() else None
    figures = plots.prior_heatmaps(prior["estimated"], prior["true"], *names, of=series.name)
    return {**prior, "name": series.name, "figures": figures, "factor": factor}


def _conflicting(series: Series) -> dict[str, Any] | None:
    """The rows that a run takes for bias-conflicting; None where nobody looked."""
    report = series.runs[0].report
    found, evidence, data = report["estimated_minority"], report["evidence"], report["data"]
    if not found:
        return None
    examples = [{**one, "picture": checked_uri(one["picture"])} for one in found["examples"][:_MOST_EXAMPLES]]
    for one in examples:
        one["small"] = one["picture"] is not None and image_width(one["picture"]) < 100
    estimates, values = {one["estimated_attribute"] for one in examples}, data["attribute_names"]
    known = bool(values) and estimates <= set(values) and any(one["attribute"] is not None for one in examples)
    return {
        **found,
        "name": series.name,
        "examples": examples,
        "total": data["rows"]["train"],
        "known": known,
        "like_label": estimates <= {f"that of {name}" for name in data["label_names"]},
        "abstained": sentences.found_shortcut(evidence) is False,
        "unsure": evidence is not None and evidence.get("verdict") == "cannot tell",
        "source": report["attributes"],
        "views": sentences.name_views(sentences.views_of(evidence)) if sentences.found_shortcut(evidence) else None,
        "attributed": bool(values),
        "texts": any(one["name"] and not one["picture"] for one in examples),
    }


def _settings(run: RunFolder) -> dict[str, Any]:
    """Settings of one run by readable names, what matters most first; None for what a run has not got."""
    report, data, network = run.report, run.report["data"], run.report["network"] or {"name": "–"}
    training, groups = report["training"], run.groups()
    assert groups is not None
    built = {**network.get("options", {}), **network.get("facts", {})}  # these say what ``auto`` stood for
    train, minority = _train_counts(run, len(groups)), groups["minority"].eq(True).to_numpy()
    rare = int(np.sum(np.asarray(train)[minority])) if train and minority.any() and any(train) else None
    share = f"{rare:,} ({format_percent(rare / sum(n or 0 for n in train or ()), 2)})" if rare is not None else None
    settings = {
        "data": data["name"],
        **(data["facts"] or data["options"]),
        "rows": format_list([f"{count:,} {split}" for split, count in data["rows"].items()]),
        "training rows that conflict with the shortcut": share,
        "network": ", ".join([network["name"], *(f"{format_name(k)} {format_value(v)}" for k, v in built.items())]),
        "parameters": network.get("parameters"),
        "epochs": " + ".join(map(str, report["epochs_per_stage"])) or report["epochs"],
        **{name: training.get(name) for name in ("batch_size", "optimizer", "learning_rate", "schedule")},
        **{name: training[name] for name in ("weight_decay", "gradient_clip") if training.get(name)},
        "checkpoint": describe_selection(report["selection"] or {}),
        **report["method_options"],
        **{f"seconds, {k}": None if v is None else round(v, 1) for k, v in (report["seconds"] or {}).items()},
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
