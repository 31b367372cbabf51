"""The page of a study: its trials, the best first, in the style of the report page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logit_correction.errors import format_percent
from logit_correction.pages.estimated import flat_figures, names_attributes
from logit_correction.pages.formatting import format_name
from logit_correction.pages.html import save_page, template
from logit_correction.pages.tables import heading

_TEMPLATE = "trials.html.j2"

#: Test figures that are shown, by what nothing was chosen; the first few that a run has.
_FIGURES = ("worst_group", "group_balanced", "estimated_minority", "worst_class", "average")


@dataclass(frozen=True)
class Trial:
    """One run of a study.

    Attributes:
        name: What it is called.
        score: By the objective; None of one that failed.
        options: What was drawn; empty of the options as given.
        folder: Of its run.
        failed: Why it failed, or None.
    """

    name: str
    score: float | None
    options: Mapping[str, Any]
    folder: Path
    failed: str | None = None


def write_trials(
    out: Path, config: Path, trials: Sequence[Trial], best: Trial, rule: str, reports: Mapping[str, dict[str, Any]]
) -> None:
    """Write the page.

    Args:
        out: The HTML file.
        config: The best run's options, for the command that trains with them.
        trials: The run with the options as given first.
        best: The one with the greatest score.
        rule: The objective.
        reports: Name of a finished trial -> content of its ``report.json``.

    Raises:
        InputError: ``out`` cannot be written.
        NoRoom: The disk is full.
    """
    given, report = trials[0], reports[best.name]
    figures = _figures(report["test"])
    ordered = sorted(trials, key=lambda one: -float("inf") if one.score is None else one.score, reverse=True)
    page = template(_TEMPLATE).render(
        title=f"{report['method']} on {report['data']['name']}: {len(trials) - 1} trials",
        headline=_headline(given, best, rule),
        rule=format_name(rule),
        names=list(dict.fromkeys(name for one in trials for name in one.options)),
        figures=[heading(name) for name in figures],
        rows=[_row(one, best, reports.get(one.name), figures) for one in ordered],
        failed=[one for one in trials if one.failed],
        command=f"logit-correction train --config {shlex.quote(str(config))} --seeds 3 --out runs/best",
    )
    save_page(page, out)


def _figures(test: Mapping[str, Any]) -> list[str]:
    known = flat_figures(test)
    named = names_attributes(test)
    return [name for name in _FIGURES if known.get(name) is not None and not (named and name.startswith("estimated"))]


def _headline(given: Trial, best: Trial, rule: str) -> str:
    if best is given or best.score is None or given.score is None:
        return f"No trial is better than the options as given, by {format_name(rule)}."
    gain = f"{format_percent(best.score, 1, '')} instead of {format_percent(given.score, 1)}"
    return f"The best of the trials is {best.name}: by {format_name(rule)} {gain} with the options as given."


def _row(one: Trial, best: Trial, report: dict[str, Any] | None, figures: Sequence[str]) -> dict[str, Any]:
    test = {} if report is None else flat_figures(report["test"])
    return {
        "name": one.name,
        "folder": one.folder.name,
        "best": one is best,
        "score": "failed" if one.score is None else format_percent(one.score, 1, ""),
        "options": {name: f"{value:.3g}" for name, value in one.options.items()},
        "figures": [format_percent(test.get(name), 1, "") for name in figures],
    }
