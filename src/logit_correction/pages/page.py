"""The pages: one HTML file each that holds everything and loads nothing; plain values for the templates beside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import yaml

from logit_correction.atomic_files import DiskFullError, write_text_file
from logit_correction.errors import InputError
from logit_correction.evaluation.metrics import MetricFunction, MetricSpec, find_metrics
from logit_correction.finding import Finding
from logit_correction.finding_text import advise_user, describe_finding, name_conclusion
from logit_correction.formatting import NBSP, format_list, format_percent, is_missing
from logit_correction.pages import plots
from logit_correction.pages.compare import (
    RunFolder,
    Series,
    conclude,
    find_best_value,
    format_path,
    group_runs_by_task,
    is_user_data,
    select_shown_metrics,
    shorten_paths,
)
from logit_correction.pages.plots import is_image_uri
from logit_correction.view_names import EVERYTHING, ViewName, name_views
from logit_correction.views import VIEWS

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

#: So many groups are shown at once, and views listed.
_MOST_GROUPS, _MOST_VIEWS = 12, 12

#: Pairs of figures whose distance tells of a shortcut.
_GAPS = (("minority", "majority"), ("worst_group", "average"), ("estimated_minority", "estimated_majority"))


def write_report_page(run_folders: Sequence[Path | str], out: Path | str, metrics: MetricSpec = ()) -> None:
    """Write one self-contained page that compares finished runs; those that differ only by their seed are averaged."""
    save_page(render_report_page(run_folders, out, metrics), out)


def render_report_page(
    run_folders: Sequence[Path | str], out: Path | str = "report.html", metrics: MetricSpec = ()
) -> str:
    """Return the page as text.

    Args:
        run_folders: Folders of finished runs.
        out: Is only named in the commands that make the page again.
        metrics: Further figures of each group; see ``Run.evaluate``.
    """
    functions = find_metrics(metrics)
    folders = {Path(folder).resolve(): Path(folder) for folder in run_folders}.values()
    runs = [RunFolder.read(folder) for folder in folders]
    comparisons = group_runs_by_task(runs)
    methods = dict.fromkeys(run.report.display_name for run in runs)
    sources = [run.report.data for run in runs]
    data = dict.fromkeys(
        str((is_user_data(one) and one.facts.get("source")) or one.name) for one in sources
    )  # by its place
    places = [format_path(folder) for folder in folders]
    train = [("train", "--config", f"{place}/config.yaml", "--out", f"{place}-again") for place in places]
    given = [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    options = [word for metric in given if isinstance(metric, str) for word in ("--metric", metric)]
    lines = [("report", *places, *options, "--out", format_path(out)), *train]
    return render_template(
        "page.html.j2",
        title=f"{format_list(list(methods))} on {format_list(list(data))}",
        parts=[_part(title if len(comparisons) > 1 else None, series, functions) for title, series in comparisons],
        commands="\n".join(shlex.join(["logit-correction", *words]) for words in lines),
    )


def render_template(name: str, **values: Any) -> str:
    """Return a page made from a template of this folder; what it is given is escaped, and what misses is an error."""
    return _template(name).render(**values)


@cache  # reading one takes longer than filling it in
def _template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def prose(text: str) -> Markup:
        """A sentence, what stands in back quotes as code."""
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)).replace(" %", f"{NBSP}%")))

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        percent=format_percent,
        decimal=lambda value: "–" if is_missing(value) else f"{value:.2f}",
        count="{:,.0f}".format,
        prose=prose,
    )
    environment.tests |= {"picture": is_image_uri, "missing": is_missing}
    return environment.get_template(name)


def save_page(page: str, out: Path | str) -> None:
    """Write a page, complete or not at all: where something fails, an older one stays as it was."""
    try:
        write_text_file(out, page)
    except DiskFullError:
        raise
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}): choose another place by --out") from error


def _part(title: str | None, series: Sequence[Series], metrics: Mapping[str, MetricFunction]) -> dict[str, Any]:
    """Everything about one task, which is named where the page holds others too."""
    tests = [run.report.test for one in series for run in one.runs]
    named, columns = tests[0].has_groups, select_shown_metrics(tests)
    estimates = [test.estimated for test in tests if test.estimated and not named]
    source = estimates[0].source if len(estimates) == len(tests) else None
    headline, details, advice = conclude(series, columns, named)
    seeds, alone = "reach from the worst to the best run", "are 90 % intervals (Wilson)"
    warned: dict[str, list[str]] = {}  # text -> the series with a run that has it
    for one in series:
        for text in dict.fromkeys(text for run in one.runs for text in run.report.warnings):
            warned.setdefault(text, []).append(one.name)
    many, colors = [len(one.runs) > 1 for one in series], {one.name: one.color for one in series}
    return {
        "title": title,
        "headline": headline,
        "details": details,
        "advice": advice,
        "warnings": warned,
        "gap": next((pair for pair in _GAPS if all(one.values(key) for one in series for key in pair)), None),
        "series": series,
        "columns": columns,
        # The best is marked where attributes are named: plain accuracy favours models that rely on the shortcut.
        "best": {key: find_best_value(key, [one.figure(key) for one in series]) if named else None for key in columns},
        "found": [
            {"name": one.name, "seed": run.report.seed, **build_evidence_context(finding)}
            for one in series
            for run in one.runs
            if (finding := run.report.finding)
        ],
        # Where nobody named groups, the estimated ones come first.
        "groupings": [_groups(series, by) for by in ([source] if source else []) + [None]],
        "metrics": _metrics(series, metrics),
        "curve": plots.build_accuracy_curve({one.name: one.runs[0].metrics for one in series}, colors),
        "several_seeds": any(many),
        "ends": seeds if all(many) else f"{seeds}; of one run they {alone}" if any(many) else alone,
        "minorities": [entry for one in series if (entry := _conflicting(one))],
        "provenance": {one.name: _provenance(one) for one in series},
    }


def _groups(series: Sequence[Series], estimated: str | None) -> dict[str, Any]:
    """The groups of the test rows, named or estimated, of many first the least accurate."""
    frames = [one.groups(estimated is not None) for one in series]
    first, data = frames[0], series[0].runs[0].report.data
    scoring = data.scoring or {"counts": data.counts, "overlapping": False}
    counted = np.ravel(scoring["counts"].get("train") or []).tolist()
    train = counted if len(counted) == len(first) and not estimated else [None] * len(first)
    rows = [
        {**group, "train": count, "results": [frame.iloc[number] for frame in frames]}
        for number, (group, count) in enumerate(zip(first.to_dict("records"), train, strict=True))
    ]
    mean = pd.concat([frame["accuracy"] for frame in frames], axis=1).mean(axis=1)
    few = len(first) <= _MOST_GROUPS
    return {
        "by_label": bool(first["attribute"].isna().all()),
        "estimated": estimated,
        "shown": rows if few else [rows[number] for number in sorted(mean.nsmallest(_MOST_GROUPS).index)],
        # Of many labels and attribute values most never meet.
        "all": [] if few else [row for row in rows if row["count"] or row["train"]],
        "starred": bool(first["minority"].eq(True).any()),
        "overlapping": scoring["overlapping"],
        "count": len(first),
    }


def _metrics(series: Sequence[Series], metrics: Mapping[str, MetricFunction]) -> dict[str, Any]:
    """Return metrics of each group: a row for each group with rows, and a figure for each metric of each series."""
    found = [one.metrics(metrics) for one in series] if metrics else []
    groups = series[0].groups()
    rows = [
        {**group, "values": [[frame[name].iloc[number] for frame in found] for name in metrics]}
        for number, group in enumerate(groups.to_dict("records"))
        if group["count"]
    ]
    return {"names": list(metrics), "rows": rows if metrics else []}


def build_evidence_context(finding: Finding) -> dict[str, Any]:
    """Return what a page shows of what was found."""
    looks = sorted(
        finding.evidence, key=lambda one: (one.breadth == EVERYTHING, -(one.ratio or 0))
    )  # that is no evidence
    return {
        "answer": name_conclusion(finding),
        "sentence": describe_finding(finding),
        "advice": advise_user(finding),
        "rows": [
            {
                **vars(one),
                "name": name_views(one.views),
                "chosen": {*one.views} == {*finding.views},
                "everything": one.breadth == EVERYTHING,
                "sees": VIEWS.get(ViewName.of(one.views[0]).family, ("", ""))[1] if len(one.views) == 1 else "",
            }
            for one in looks[:_MOST_VIEWS]
        ],
    }


def _conflicting(series: Series) -> dict[str, Any] | None:
    """The rows that a run takes for bias-conflicting; None where it takes none, as ERM does."""
    report = series.runs[0].report
    found, data = report.estimated_minority, report.data
    if not found or not report.is_corrected:
        return None
    return {
        **vars(found),
        "name": series.name,
        "small": len(data.input_shape) == 3 and max(data.input_shape) < 100,  # enlarged pixel by pixel
        "total": data.rows["train"],
        "named": {one.estimated_attribute for one in found.examples} <= set(data.attribute_names),
        "source": report.attributes,
        "texts": any(one.name and not one.picture for one in found.examples),
    }


def _provenance(series: Series) -> str:
    """What was run as YAML, of several seeds by the first."""
    report = series.runs[0].report.to_dict()
    data = {name: report["data"][name] for name in ("name", "options", "facts", "rows")}
    rest = ("network", "encoder", "seed", "epochs_per_stage", "training", "selection", "environment", "seconds")
    read = {name: report[name] for name in ("labels_read", "diagnostics_labels_read")}
    method = {"name": report["method"], **report["method_options"]}
    run = {"method": method, "data": data, **read, **{name: report[name] for name in rest}}
    return yaml.safe_dump(shorten_paths(run), sort_keys=False, allow_unicode=True)
