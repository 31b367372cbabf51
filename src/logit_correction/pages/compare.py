"""Which runs belong together: on one task, and in one series where they differ only by their seed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from logit_correction.errors import format_list
from logit_correction.functional.groups import wilson_interval
from logit_correction.pages.estimated import names_attributes, with_estimates
from logit_correction.pages.folder import RunFolder
from logit_correction.pages.plots import method_color
from logit_correction.sentences import BASELINE, conclude, format_name, format_value


@dataclass(frozen=True)
class Series:
    """Runs that differ only by their seed."""

    name: str
    method: str
    color: str
    runs: tuple[RunFolder, ...]

    def values(self, key: str) -> list[float]:
        """Return an entry of the test block for every run; none at all where a run lacks it."""
        values = [run.test.get(key) for run in self.runs]
        present = [float(value) for value in values if value is not None]
        return present if len(present) == len(values) else []

    def figure(self, key: str) -> float | None:
        """Return the mean over the runs of an entry of the test block; None where a run lacks it."""
        values = self.values(key)
        return sum(values) / len(values) if values else None

    def differs(self, other: Series, key: str) -> bool:
        """Return whether the difference of a figure is more than chance.

        With several runs on both sides: no run of one side reaches into the other side's range. Else the 95 %
        interval of the difference of two shares, from their Wilson intervals (Newcombe), has to leave out 0.
        """
        own, others = self.values(key), other.values(key)
        if min(len(own), len(others)) > 1:
            return min(own) > max(others) or min(others) > max(own)
        (share, low, high), (other_share, other_low, other_high) = self._interval(key), other._interval(key)
        if share < other_share:
            return other_share - share > math.hypot(other_share - other_low, high - share)
        return share - other_share > math.hypot(share - low, other_high - other_share)

    def _interval(self, key: str) -> tuple[float, float, float]:
        """A share and its 95 % interval, by the test rows that it rests on."""
        share, frame = self.figure(key) or 0.0, self.estimated_groups
        frame = self.groups if frame is None or key != "estimated_minority" else frame
        if key.endswith("minority"):
            rows = float(frame["count"][frame["minority"].eq(True)].sum())
        else:
            rows = float(frame["count"].to_numpy()[int(frame["accuracy"].argmin())])
        low, high = wilson_interval(share * rows, rows)
        return share, float(low), float(high)

    @property
    def groups(self) -> pd.DataFrame:
        """Groups with the mean accuracy over the runs; of several, ``low`` and ``high`` are the extremes."""
        return _mean([run.groups for run in self.runs])

    @property
    def estimated_groups(self) -> pd.DataFrame | None:
        """The same of the estimated groups; None where a run has none."""
        frames = [frame for run in self.runs if (frame := run.estimated_groups) is not None]
        return _mean(frames) if len(frames) == len(self.runs) else None


def _mean(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return groups with their mean accuracy; of several, ``low`` and ``high`` are the extremes."""
    if len(frames) == 1:
        return frames[0]
    accuracy = pd.concat([frame["accuracy"] for frame in frames], axis=1)
    return frames[0].assign(accuracy=accuracy.mean(axis=1), low=accuracy.min(axis=1), high=accuracy.max(axis=1))


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

    def conclusion(self) -> tuple[str, list[str]]:
        """Return what the comparison comes to, and what a careful reader asks for next."""
        block, source = self.estimated, ""
        if block is not None:
            rows = sum(group["count"] for group in block["groups"] if group["minority"])
            by = block.get("by") if len(self.series) > 1 else None
            run = f" in the run of {by['method']}" if by else ""
            source = (
                f"The test data names no attributes: these {rows:,} rows were found by {block['source']}{run}. Nobody "
                "has checked them, so no run is marked as the best."
            )
        return conclude(self.series, self.named, source)


def compare(runs: Sequence[RunFolder]) -> list[Comparison]:
    """Put runs on the same task together, and in them runs that differ only by their seed.

    Series of one method are told apart by the settings in which they differ.
    """
    tasks: dict[str, list[RunFolder]] = {}
    for run in runs:
        names = [(row["label"], row["attribute"]) for row in run.test["groups"]]
        tasks.setdefault(_key([run.report["data"]["name"], run.task(), names]), []).append(run)
    options = [members[0].task() for members in tasks.values()]
    return [
        Comparison(
            ", ".join([members[0].report["data"]["name"], *_differences(members[0].task(), options)]),
            tuple(_series(with_estimates(members))),
        )
        for members in tasks.values()
    ]


def _series(runs: Sequence[RunFolder]) -> list[Series]:
    members: dict[str, list[RunFolder]] = {}
    for run in runs:
        members.setdefault(_key([run.report["method"], run.settings()]), []).append(run)
    series: list[Series] = []
    ordered = sorted(members.values(), key=lambda group: group[0].report["method"] != BASELINE)
    for group in ordered:
        method = str(group[0].report["method"])
        rivals = [one[0].settings() for one in ordered if one[0].report["method"] == method]
        # The rule of the checkpoint stands beside each figure: it tells runs apart only where nothing else does.
        brief = [{name: value for name, value in one.items() if name != "selection"} for one in rivals]
        differences = _differences(group[0].settings(), brief if len(set(map(_key, brief))) == len(brief) else rivals)
        name = f"{method} ({', '.join(differences)})" if differences else method
        share = 0.65 ** sum(one.method == method for one in series)  # some more white each time
        color = method_color(method, len(series))
        mixed = (round(255 - share * (255 - int(color[i : i + 2], 16))) for i in (1, 3, 5))
        series.append(Series(name, method, "#" + "".join(f"{one:02x}" for one in mixed), tuple(group)))
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


def describe(comparisons: Sequence[Comparison]) -> str:
    """Return a title such as ``ERM and LC on Digits``."""
    methods = dict.fromkeys(series.method for comparison in comparisons for series in comparison.series)
    data = dict.fromkeys(run.report["data"]["name"] for part in comparisons for one in part.series for run in one.runs)
    return f"{format_list(list(methods))} on {format_list(list(data))}"
