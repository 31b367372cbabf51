"""Renders pages: single HTML files that hold everything and load nothing.

A page must open on a computer without this package and without a network, so styles, figures and images are part of it.
The templates next to this module hold the text; the functions here reduce runs to the plain values that templates show.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import yaml

from logit_correction.atomic_files import DiskFullError, write_text_file
from logit_correction.errors import InputError
from logit_correction.evaluation.metrics import MetricFunction, MetricSpec, resolve_metrics
from logit_correction.finding import Finding
from logit_correction.finding_text import advise_user, describe_conclusion, describe_finding
from logit_correction.formatting import NBSP, format_list, format_option, format_percent, is_missing
from logit_correction.pages import plots
from logit_correction.pages.compare import (
    RunFolder,
    Series,
    describe_comparison,
    describe_refits,
    find_best_value,
    format_path,
    group_runs_by_task,
    is_user_data,
    select_shown_metrics,
    shorten_paths,
)
from logit_correction.pages.plots import is_image_uri
from logit_correction.view_names import EVERYTHING, ViewName, format_view_names
from logit_correction.views import VIEWS

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

#: Largest number of groups that a page shows unfolded; of more, the least accurate ones.
MAX_GROUPS = 12

#: Largest number of views that a page lists.
MAX_VIEWS = 12

#: Inputs with a longer side in pixels are shown as they are, smaller ones enlarged pixel by pixel.
SMALL_SIDE = 100

#: Pairs of metrics whose distance shows how much a run relies on a shortcut; a page draws the first that all runs have.
_GAPS = (("minority", "majority"), ("worst_group", "average"), ("estimated_minority", "estimated_majority"))


def write_report_page(run_folders: Sequence[Path | str], out: Path | str, metrics: MetricSpec = ()) -> None:
    """Write one page that compares finished runs; runs that differ only by their seed are averaged.

    Args:
        run_folders: Folders of finished runs.
        out: The HTML file.
        metrics: Further metrics of each group; see ``Run.evaluate``.

    Raises:
        InputError: A folder holds no finished run, or the file cannot be written.
    """
    save_page(render_report_page(run_folders, out, metrics), out)


def render_report_page(
    run_folders: Sequence[Path | str], out: Path | str = "report.html", metrics: MetricSpec = ()
) -> str:
    """Return the page of ``write_report_page`` as HTML.

    Args:
        run_folders: Folders of finished runs.
        out: The file that the page's commands name, to make it again.
        metrics: Further metrics of each group; see ``Run.evaluate``.
    """
    functions = resolve_metrics(metrics)
    folders = list({Path(folder).resolve(): Path(folder) for folder in run_folders}.values())
    runs = [RunFolder.read(folder) for folder in folders]
    tasks = group_runs_by_task(runs)
    methods = dict.fromkeys(run.report.display_name for run in runs)
    sources = dict.fromkeys(_get_data_name(run) for run in runs)
    metric_list = [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    metric_words = [word for metric in metric_list if isinstance(metric, str) for word in ("--metric", metric)]
    places = [format_path(folder) for folder in folders]
    commands = [["report", *places, *metric_words, "--out", format_path(out)]]
    commands += [["train", "--config", f"{place}/config.yaml", "--out", f"{place}-again"] for place in places]
    return render_template(
        "page.html.j2",
        title=f"{format_list(list(methods))} on {format_list(list(sources))}",
        parts=[
            _build_task_context(title if len(tasks) > 1 else None, series, functions, Path(out))
            for title, series in tasks
        ],
        commands="\n".join(shlex.join(["logit-correction", *words]) for words in commands),
    )


def _get_data_name(run: RunFolder) -> str:
    """Return the name of a run's data source; of a user's own data the name of the file or folder."""
    data = run.report.data
    return str((is_user_data(data) and data.facts.get("source")) or data.name)


def render_template(name: str, **values: Any) -> str:
    """Return the HTML of a template; text in values is escaped, and a missing value is an error.

    Args:
        name: File name of a template next to this module.
        values: The values that the template shows.
    """
    return _load_template(name).render(**values)


@cache  # loading a template takes longer than rendering it
def _load_template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=lambda fraction, digits=0, unit=f"{NBSP}%": format_percent(fraction, digits, unit),
        decimal=lambda value: "–" if is_missing(value) else f"{value:.2f}",
        count="{:,.0f}".format,
        prose=_render_prose,
        view_names=format_view_names,
    )
    environment.tests.update(picture=is_image_uri, missing=is_missing)
    return environment.get_template(name)


def _render_prose(text: str) -> Markup:
    """Return a sentence as HTML, with text between back quotes as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)).replace(" %", f"{NBSP}%")))


def save_page(page: str, out: Path | str) -> None:
    """Write a page completely or not at all, so that a failure leaves an older page as it was.

    Args:
        page: HTML.
        out: The file; it is replaced if it exists.

    Raises:
        InputError: The file cannot be written.
        DiskFullError: The disk is full.
    """
    try:
        write_text_file(out, page)
    except DiskFullError:
        raise
    except OSError as error:
        remedy = f"choose another place by {format_option('out')}"
        raise InputError(f"{out} cannot be written ({error.strerror}): {remedy}") from error


def _build_task_context(
    title: str | None, series: Sequence[Series], metrics: Mapping[str, MetricFunction], out: Path
) -> dict[str, Any]:
    """Return what the template shows of one task; a page with one task gives it no title.

    Args:
        title: Of the task.
        series: Its runs.
        metrics: Further metrics.
        out: The file of the page, from which its link leads.
    """
    runs = [(member, run.report) for member in series for run in member.runs]
    tests = [report.test for _, report in runs]
    has_groups = tests[0].has_groups
    columns = select_shown_metrics(tests)
    headline, details, advice = describe_comparison(series, columns, has_groups)
    series_by_warning: dict[str, dict[str, None]] = {}
    for member, report in runs:
        for text in report.warnings:
            series_by_warning.setdefault(text, {})[member.name] = None
    groupings = [_build_groups_context(series, None)]
    estimates = [test.estimated for test in tests if test.estimated and not has_groups]
    if len(estimates) == len(tests):  # estimated groups say more than labels, so they come first
        groupings.insert(0, _build_groups_context(series, estimates[0].source))
    answers = [report.answers.describe() for _, report in runs if report.answers is not None]
    if answers and len(runs) == 1:  # the test split may be as biased as the training data, so it comes second
        details.insert(0, f"On the test split: {headline}")
        headline = f"{answers[0]}."
        place = format_path(series[0].runs[0].path)
        advice = [f"To label new rows: `logit-correction predict {shlex.quote(place)} NEW-ROWS --out answers.csv`."]
    details += describe_refits([report for _, report in runs])
    has_seeds = [len(member.runs) > 1 for member in series]
    return {
        "title": title,
        "headline": headline,
        "details": details,
        "advice": advice,
        "audit_page": _find_audit_page(series[0].runs[0], out) if len(runs) == 1 else None,
        "warnings": {text: list(names) for text, names in series_by_warning.items()},
        "gap": next((gap for gap in _GAPS if all(member.get_values(end) for member in series for end in gap)), None),
        "series": series,
        "columns": columns,
        # The best is marked only if attributes are known: plain accuracy favours models that rely on the shortcut.
        "best": {
            name: find_best_value(name, [member.compute_mean(name) for member in series]) if has_groups else None
            for name in columns
        },
        "found": [
            {"name": member.name, "seed": report.seed, **build_evidence_context(report.finding)}
            for member, report in runs
            if report.finding
        ],
        "groupings": groupings,
        "metrics": _build_metrics_context(series, metrics),
        "curve": plots.build_accuracy_curve(
            # Several members of an average have learning curves, and it has none of its own.
            {member.name: member.runs[0].metrics for member in series if len(member.runs[0].report.member_names) < 2},
            {member.name: member.color for member in series},
        ),
        "several_seeds": any(has_seeds),
        "ends": _describe_interval_bounds(has_seeds),
        "minorities": [context for member in series if (context := _build_minority_context(member))],
        "provenance": {member.name: _format_provenance(member) for member in series},
    }


def _find_audit_page(run: RunFolder, out: Path) -> str | None:
    """Return the link from a page to that of the audit whose answers a run was trained by; None without one."""
    answers = run.report.method_options.get("answers")
    page = Path(answers).parent / "report.html" if run.report.answers and isinstance(answers, str) else None
    if page is None or not page.is_file():
        return None
    return quote(os.path.relpath(page.resolve(), out.resolve().parent).replace(os.sep, "/"))


def _describe_interval_bounds(has_seeds: Sequence[bool]) -> str:
    """Return what the ends of bands mean, by whether each series has several seeds."""
    seeds = "reach from the worst to the best run"
    single = "are 90 % intervals (Wilson)"
    if all(has_seeds):
        return seeds
    return f"{seeds}; of one run they {single}" if any(has_seeds) else single


def _build_groups_context(series: Sequence[Series], estimator: str | None) -> dict[str, Any]:
    """Return the table of test groups; of estimated ones if the name of an estimator is given."""
    frames = [member.get_groups(estimator is not None) for member in series]
    groups = frames[0]
    data = series[0].runs[0].report.data
    scoring = data.scoring or {"counts": data.counts, "overlapping": False}
    train_counts = np.ravel(scoring["counts"].get("train") or []).tolist()
    if estimator or len(train_counts) != len(groups):
        train_counts = [None] * len(groups)
    rows = [
        {**group, "train": train_counts[number], "results": [frame.iloc[number] for frame in frames]}
        for number, group in enumerate(groups.to_dict("records"))
    ]
    is_short = len(groups) <= MAX_GROUPS
    mean = pd.concat([frame["accuracy"] for frame in frames], axis=1).mean(axis=1)
    return {
        "by_label": bool(groups["attribute"].isna().all()),
        "estimated": estimator,
        "shown": rows if is_short else [rows[number] for number in sorted(mean.nsmallest(MAX_GROUPS).index)],
        # Most combinations of many labels and attribute values have no rows.
        "all": [] if is_short else [row for row in rows if row["count"] or row["train"]],
        "starred": bool(groups["minority"].eq(True).any()),
        "overlapping": scoring["overlapping"],
        "count": len(groups),
    }


def _build_metrics_context(series: Sequence[Series], metrics: Mapping[str, MetricFunction]) -> dict[str, Any]:
    """Return the table of further metrics: a row for each group that is not empty, values by metric and series."""
    if not metrics:
        return {"names": [], "rows": []}
    frames = [member.compute_group_metrics(metrics) for member in series]
    rows = [
        {**group, "values": [[frame[name].iloc[number] for frame in frames] for name in metrics]}
        for number, group in enumerate(series[0].get_groups().to_dict("records"))
        if group["count"]
    ]
    return {"names": list(metrics), "rows": rows}


def build_evidence_context(finding: Finding) -> dict[str, Any]:
    """Return what a page shows of a finding: sentences, and a row for each view, the most suspicious ones first."""
    # Accuracy from the whole input does not show a shortcut, so this view comes last.
    views = sorted(finding.evidence, key=lambda view: (view.breadth == EVERYTHING, -(view.ratio or 0)))
    rows = []
    for view in views[:MAX_VIEWS]:
        family = ViewName.parse(view.views[0]).family if len(view.views) == 1 else ""
        rows.append(
            {
                **vars(view),
                "name": format_view_names(view.views),
                "chosen": set(view.views) == set(finding.views),
                "everything": view.breadth == EVERYTHING,
                "sees": VIEWS.get(family, ("", ""))[1],
            }
        )
    return {
        "answer": describe_conclusion(finding),
        "sentence": describe_finding(finding),
        "advice": advise_user(finding),
        "rows": rows,
    }


def _build_minority_context(series: Series) -> dict[str, Any] | None:
    """Return the training rows that a method estimates to be bias-conflicting; None for methods without an estimate."""
    report = series.runs[0].report
    data = report.data
    minority = report.estimated_minority
    if not minority or report.is_left_uncorrected:
        return None
    examples = minority.examples
    return {
        **vars(minority),
        "name": series.name,
        "small": len(data.input_shape) == 3 and max(data.input_shape) < SMALL_SIDE,
        "total": data.rows["train"],
        "named": {example.estimated_attribute for example in examples} <= set(data.attribute_names),
        "source": report.attributes,
        "texts": any(example.name and not example.picture for example in examples),
    }


def _format_provenance(series: Series) -> str:
    """Return what was run as YAML; of several seeds that of the first."""
    report = series.runs[0].report.to_dict()
    names = ["labels_read", "diagnostics_labels_read", "network", "encoder", "seed", "epochs_per_stage", "training"]
    names += ["selection", "environment", "seconds"]
    run = {
        "method": {"name": report["method"], **report["method_options"]},
        "data": {name: report["data"][name] for name in ("name", "options", "facts", "rows")},
        **{name: report[name] for name in names},
    }
    return yaml.safe_dump(shorten_paths(run), sort_keys=False, allow_unicode=True)
