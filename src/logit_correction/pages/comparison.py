"""Which runs belong together: on one task, and in one series where they differ only by their seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from logit_correction.errors import format_list
from logit_correction.pages.estimated import names_attributes, with_estimates
from logit_correction.pages.folder import RunFolder, Series
from logit_correction.pages.formatting import format_name, format_value
from logit_correction.pages.plots import METHOD_COLORS, method_color


@dataclass(frozen=True)
class Comparison:
    """Series on the same task, the ordinary classifier first."""

    title: str
    series: tuple[Series, ...]

    @property
    def named(self) -> bool:
        """Whether the test rows have attributes, so that the figures by group can be trusted."""
        return names_attributes(self.series[0].runs[0].test)

    @property
    def estimated(self) -> dict[str, Any] | None:
        """The estimated groups of the first run, where all series are judged by such; None otherwise."""
        if self.named or any(one.estimated_groups is None for one in self.series):
            return None
        block: dict[str, Any] = self.series[0].runs[0].test["estimated"]
        return block


def compare(runs: Sequence[RunFolder]) -> list[Comparison]:
    """Put runs on the same task together, and in them runs that differ only by their seed.

    Series of one method are told apart by the settings in which they differ.
    """
    tasks: dict[str, list[RunFolder]] = {}
    for run in runs:
        names = [(row["label"], row["attribute"]) for row in run.test["groups"]]
        tasks.setdefault(_key([run.report["data"]["name"], run.task(), names]), []).append(run)
    options = [members[0].task() for members in tasks.values()]
    comparisons = []
    for members in tasks.values():
        members, data = with_estimates(members), members[0]
        title = ", ".join([data.report["data"]["name"], *_differences(data.task(), options)])
        comparisons.append(Comparison(title, tuple(_series(members))))
    return comparisons


def _series(runs: Sequence[RunFolder]) -> list[Series]:
    known = list(METHOD_COLORS)
    members: dict[str, list[RunFolder]] = {}
    for run in runs:
        members.setdefault(_key([run.report["method"], run.settings()]), []).append(run)
    ordered = sorted(members.values(), key=lambda group: group[0].report["method"] != known[0])
    series: list[Series] = []
    for group in ordered:
        method = str(group[0].report["method"])
        rivals = _without_selection([one[0].settings() for one in ordered if one[0].report["method"] == method])
        differences = _differences(group[0].settings(), rivals)
        name = f"{method} ({', '.join(differences)})" if differences else method
        shade = sum(one.method == method for one in series)
        color = _lighter(method_color(method, len(series)), shade)
        series.append(Series(name, method, color, tuple(group)))
    return series


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _differences(own: dict[str, Any], rivals: Sequence[dict[str, Any]]) -> list[str]:
    """The entries of ``own`` that not all rivals share, such as ``minority ratio 0.01``."""
    names = dict.fromkeys(name for settings in rivals for name in settings)
    differing = [name for name in names if len({_key(settings.get(name)) for settings in rivals}) > 1]
    return [f"{format_name(name)} {_told(own.get(name), [one.get(name) for one in rivals])}" for name in differing]


def _told(value: Any, rivals: Sequence[Any]) -> str:
    """A value; of a part, such as an estimator, its name where not all have it, and the options in which it differs."""
    if not isinstance(value, dict) or "name" not in value:
        return format_value(value)
    alike = [rival for rival in rivals if isinstance(rival, dict) and rival.get("name") == value["name"]]
    options = _differences(value, alike)
    if options and len(alike) == len(rivals):
        return ", ".join(options)
    return f"{value['name']} with {format_list(options)}" if options else str(value["name"])


def _without_selection(rivals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings without the rule of the checkpoint where others tell them apart: it stands beside each figure."""
    brief = [{name: value for name, value in settings.items() if name != "selection"} for settings in rivals]
    return brief if len({_key(settings) for settings in brief}) == len(brief) else rivals


def _lighter(color: str, steps: int) -> str:
    """Return the colour, mixed with some more white at each step."""
    share = 0.65**steps
    mixed = (round(255 - share * (255 - int(color[i : i + 2], 16))) for i in (1, 3, 5))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def describe(comparisons: Sequence[Comparison]) -> str:
    """Return a title such as ``ERM and LC on Digits``."""
    methods = dict.fromkeys(series.method for comparison in comparisons for series in comparison.series)
    data = dict.fromkeys(run.report["data"]["name"] for part in comparisons for one in part.series for run in one.runs)
    return f"{format_list(list(methods))} on {format_list(list(data))}"
