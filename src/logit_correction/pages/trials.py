"""The page of a study: its trials, the best first, in the style of the report page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logit_correction.errors import format_percent
from logit_correction.pages.compare import flat_figures, names_attributes
from logit_correction.pages.console import heading
from logit_correction.pages.page import render, save_page
from logit_correction.sentences import format_name

#: Test figures that are shown, by what nothing was chosen; those that a run has.
_FIGURES = ("worst_group", "group_balanced", "estimated_minority", "worst_class", "average")


@dataclass(frozen=True)
class Trial:
    """One run of a study: its score by the objective, what was drawn, its folder, and why it failed, if it did."""

    name: str
    score: float | None
    options: Mapping[str, Any]
    folder: Path
    failed: str | None = None


def write_trials(
    out: Path, config: Path, trials: Sequence[Trial], best: Trial, rule: str, reports: Mapping[str, dict[str, Any]]
) -> None:
    """Write the page of a study: its runs, that with the options as given first, the best, and their reports."""
    given, report, by = trials[0], reports[best.name], format_name(rule)
    known, named = flat_figures(report["test"]), names_attributes(report["test"])
    figures = [one for one in _FIGURES if known.get(one) is not None and not (named and one.startswith("estimated"))]
    headline = f"No trial is better than the options as given, by {by}."
    if best is not given:
        gain = f"{format_percent(best.score, 1, '')} instead of {format_percent(given.score, 1)}"
        headline = f"The best of the trials is {best.name}: by {by} {gain} with the options as given."
    rows = []
    for one in sorted(trials, key=lambda one: -float("inf") if one.score is None else one.score, reverse=True):
        test = flat_figures(reports[one.name]["test"]) if one.name in reports else {}
        rows.append(
            {
                "name": one.name,
                "folder": one.folder.name,
                "best": one is best,
                "score": "failed" if one.score is None else format_percent(one.score, 1, ""),
                "options": {name: f"{value:.3g}" for name, value in one.options.items()},
                "figures": [format_percent(test.get(name), 1, "") for name in figures],
            }
        )
    page = render(
        "trials.html.j2",
        title=f"{report['method']} on {report['data']['name']}: {len(trials) - 1} trials",
        headline=headline,
        rule=by,
        names=list(dict.fromkeys(name for one in trials for name in one.options)),
        figures=[heading(name) for name in figures],
        rows=rows,
        failed=[one for one in trials if one.failed],
        command=f"logit-correction train --config {shlex.quote(str(config))} --seeds 3 --out runs/best",
    )
    save_page(page, out)
