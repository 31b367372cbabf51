"""Finished runs as pages and tables read them: which belong to one task, which differ only by their seed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from logit_correction.checksums import verify_checksum
from logit_correction.data import SOURCES
from logit_correction.errors import InputError
from logit_correction.evaluation.metrics import MetricFunction, compute_group_metrics
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import (
    DataSummary,
    EvaluatedRows,
    GroupReport,
    Metric,
    Report,
    evaluate_by_estimate,
    get_metrics,
)
from logit_correction.finding import BASELINE
from logit_correction.formatting import NBSP, format_list, format_name, format_percent, format_value, is_missing
from logit_correction.functional import wilson_interval
from logit_correction.pages.plots import assign_colors
from logit_correction.paths import reject_special_file
from logit_correction.registry import import_component

#: Training options that change where and how fast a run goes, not what comes out of it.
_NOT_THE_METHOD = ("threads", "log_every", "logger", "deterministic", "device", "devices", "nodes", "selection")

_SHOWN = {name: one for name, one in get_metrics(GroupReport).items() if one.in_tables}
_ESTIMATED = {
    f"estimated_{name}": replace(_SHOWN[name], heading=f"Estimated {words}", meaning=f"rows estimated to be {words}")
    for name, words in (("minority", "bias-conflicting"), ("majority", "bias-aligned"))
}

#: Figures that tables and pages show, as ``GroupReport.value`` names them.
FIGURES = _ESTIMATED | _SHOWN

#: Confidence of every interval on pages and in tables.
CONFIDENCE = 0.9


def compute_student_margin(values: Sequence[float]) -> float:
    """Return half the width of Student's interval of a mean, with the confidence of all intervals here.

    For figures of a few seeds, whose spread is itself hardly known: the fewer, the wider.

    Args:
        values: Independent figures, such as one for each seed.

    Returns:
        The margin in the unit of the values; infinity for fewer than two, of whose spread nothing is known.

    >>> round(compute_student_margin([1.0, 2.0, 3.0]), 2), compute_student_margin([1.0])
    (1.69, inf)
    """
    from scipy.special import stdtrit

    count = len(values)
    if count < 2:
        return math.inf
    quantile = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(count)


def select_shown_metrics(tests: Sequence[GroupReport]) -> dict[str, Metric]:
    """Return the figures that runs have; the worst label and estimates only where no run names attributes."""
    named = any(test.has_groups for test in tests)
    return {
        name: one
        for name, one in FIGURES.items()
        if any(test.get_metric(name) is not None for test in tests)
        and not (named and name in ("worst_class", *_ESTIMATED))
    }


def find_best_value(name: str, values: Iterable[float | None]) -> float | None:
    """Return the best value of a figure; None unless one is better than another."""
    known = {value for value in values if not is_missing(value)}
    return FIGURES[name].best(known) if len(known) > 1 else None


def sides(groups: Any) -> pd.DataFrame:
    """Return two groups for each label: the rows whose attribute agrees with it, and those where it conflicts."""
    frame = pd.DataFrame(groups)[["label", "minority", "count", "correct"]]
    summed = frame.groupby(["label", "minority"], sort=False).sum()
    cells = pd.MultiIndex.from_product([dict.fromkeys(frame["label"]), (False, True)], names=["label", "minority"])
    found = summed.reindex(cells, fill_value=0).reset_index()
    correct, count = (torch.tensor(found[name].to_numpy()) for name in ("correct", "count"))
    low, high = wilson_interval(correct, count)
    ends: dict[str, Any] = {"low": low.numpy(), "high": high.numpy(), "accuracy": found["correct"] / found["count"]}
    found = found.assign(attribute=found["minority"].map({True: "conflicts", False: "agrees"}), **ends)
    found.loc[found["count"] == 0, list(ends)] = np.nan
    return found


@dataclass(frozen=True)
class RunFolder:
    """A finished run: its place, its ``report.json`` and its ``metrics.csv`` (an empty frame if missing)."""

    path: Path
    report: Report
    metrics: pd.DataFrame

    @classmethod
    def read(cls, path: Path | str) -> RunFolder:
        """Read a run folder; raise ``InputError`` where it holds no finished run, or a file of it is damaged."""
        path, file = Path(path), Path(path) / "metrics.csv"
        report = Report.read(path)
        verify_checksum(file, Report.REMEDY)
        try:
            metrics = pd.read_csv(reject_special_file(file)).apply(pd.to_numeric) if file.exists() else pd.DataFrame()
        except (OSError, ValueError) as error:
            raise InputError(f"{file} cannot be read ({error}): {Report.REMEDY}, or remove it") from error
        return cls(path, report, metrics)

    def groups(self, estimated: bool = False) -> pd.DataFrame:
        """Return the groups of the test split, or the two of each label by the estimate, if there is one."""
        block = self.report.test.estimated
        return sides(block.groups) if estimated and block else self.report.test.groups

    def predictions(self) -> Predictions:
        """Read the predictions of the test rows; raise ``InputError`` where the file is missing or damaged."""
        return Predictions.load(self.path / "predictions.parquet")

    def settings(self) -> dict[str, Any]:
        """Return everything but the seed in which runs on the same data may differ."""
        report = self.report
        parts = {"network": report.network, "encoder": report.encoder}
        network = {name: {"name": one.name, **one.options} for name, one in parts.items() if one}
        training = {name: value for name, value in report.training.items() if name not in _NOT_THE_METHOD}
        rest = {"epochs": report.epochs, "selection": report.selection.rule}
        return _flat({**report.method_options, **network, **training, **rest})

    def task(self) -> dict[str, Any]:
        """Return the options of the data source that make it another task; a person's own folders are such."""
        data = self.report.data
        left_out = (
            ("seed",) if is_user_data(data) else ("seed", "root", "download")
        )  # the last two: where its files are
        return _flat({name: value for name, value in data.options.items() if name not in left_out})


def share_estimates(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Judge all runs on the same test rows by the estimate of the first of them that has one.

    Runs whose test rows have attributes, and those of which only the report is there, stay as they are.
    """

    def rows_of(run: RunFolder) -> Predictions | None:
        there = (run.path / "predictions.parquet").is_file()
        return run.predictions() if there and not run.report.test.has_groups else None

    rows, judged = [rows_of(run) for run in runs], []
    tasks = [_key([run.report.data.name, run.report.data.options]) for run in runs]
    for run, own, task in zip(runs, rows, tasks, strict=True):
        for theirs, other in zip(rows, tasks, strict=True):
            if own is None or theirs is None or theirs.estimate is None or task != other:
                continue
            if np.array_equal(own.index, theirs.index) and np.array_equal(own.label, theirs.label):
                block = evaluate_by_estimate(replace(own, estimate=theirs.estimate))
                run = replace(run, report=replace(run.report, test=replace(run.report.test, estimated=block)))
                break
        judged.append(run)
    return judged


def read_reports(folders: Iterable[Path]) -> list[Report]:
    """Return the reports of runs that are put side by side: judged by one estimate where nobody named attributes."""
    return [run.report for run in share_estimates([RunFolder.read(folder) for folder in folders])]


def build_comparison_table(reports: Sequence[Report]) -> pd.DataFrame:
    """Return one row for each report; see ``runs.run.runs_table``."""
    shown = select_shown_metrics([report.test for report in reports])
    rows = [
        [one.display_name, one.epochs, one.seed, *map(one.test.get_metric, shown), str(one.selection)]
        for one in reports
    ]
    columns = ["method", "epochs", "seed", *shown, "selection"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(shown, float))


@dataclass(frozen=True)
class Series:
    """Runs that differ only by their seed."""

    name: str
    color: str
    runs: tuple[RunFolder, ...]

    @property
    def method(self) -> str:
        """The method of all its runs."""
        return self.runs[0].report.method

    @property
    def is_baseline(self) -> bool:
        """Whether it is ERM that sees all of the inputs, by which others are judged."""
        return self.runs[0].report.training_name == BASELINE

    def values(self, key: str) -> list[float]:
        """Return a figure of every run; none at all where a run lacks it."""
        values = [value for run in self.runs if (value := run.report.test.get_metric(key)) is not None]
        return values if len(values) == len(self.runs) else []

    def figure(self, key: str) -> float | None:
        """Return the mean of a figure over the runs; None where a run lacks it."""
        values = self.values(key)
        return sum(values) / len(values) if values else None

    def groups(self, estimated: bool = False) -> pd.DataFrame:
        """Return groups with the mean accuracy; of several runs ``low`` and ``high`` are the extremes."""
        frames = [run.groups(estimated) for run in self.runs]
        accuracy = pd.concat([frame["accuracy"] for frame in frames], axis=1)
        ends = {"accuracy": accuracy.mean(axis=1), "low": accuracy.min(axis=1), "high": accuracy.max(axis=1)}
        return frames[0] if len(frames) == 1 else frames[0].assign(**ends)

    def metrics(self, metrics: Mapping[str, MetricFunction]) -> pd.DataFrame:
        """Return metrics (G, M) of the groups of the test rows, of several runs their means; reads the predictions."""
        found = [compute_group_metrics(EvaluatedRows.from_predictions(run.predictions()), metrics) for run in self.runs]
        return pd.DataFrame({name: np.mean([values[name] for values in found], axis=0) for name in metrics})

    def differs(self, other: Series, key: str) -> bool:
        """Return whether the difference of a figure is more than chance: whether its 90 % interval leaves out 0.

        Runs on both sides with two or more seeds in common are compared seed by seed, by Student's interval of the mean
        difference; several runs of other seeds by the intervals of their two means. Where one side has a single run, it
        is the interval of the difference of two shares, from their Wilson intervals (Newcombe).
        """
        first = self._by_seed(key)
        second = other._by_seed(key)
        if min(len(first), len(second)) > 1:
            differences = [first[seed] - second[seed] for seed in first if seed in second]
            if len(differences) > 1:
                return abs(float(np.mean(differences))) > compute_student_margin(differences)
            means = [float(np.mean(list(values.values()))) for values in (first, second)]
            margins = [compute_student_margin(list(values.values())) for values in (first, second)]
            return abs(means[0] - means[1]) > math.hypot(*margins)
        (least, _, high), (most, low, _) = sorted((self._interval(key), other._interval(key)))
        return most - least > math.hypot(most - low, high - least)

    def _by_seed(self, key: str) -> dict[tuple[Any, Any], float]:
        """Return a figure of every run by the seeds of its training and of its data; empty where a run lacks it."""
        reports = [run.report for run in self.runs]
        values = self.values(key)
        seeds = [(report.seed, report.data.options.get("seed")) for report in reports]
        return dict(zip(seeds, values, strict=True)) if values else {}

    def beats(self, other: Series, key: str) -> bool:
        """Return whether a figure is greater, by more than chance."""
        return (self.figure(key) or 0.0) > (other.figure(key) or 0.0) and self.differs(other, key)

    def _interval(self, key: str) -> tuple[float, float, float]:
        """A share and its 90 % interval, by the test rows that it rests on."""
        frame, share = self.groups(key.startswith("estimated")), self.figure(key) or 0.0
        chosen = frame["minority"].eq(True) if key.endswith("minority") else frame.index == frame["accuracy"].idxmin()
        rows = float(self.runs[0].report.test.count if key == "average" else frame["count"][chosen].sum())
        low, high = wilson_interval(share * rows, rows)
        return share, float(low), float(high)


def group_runs_by_task(runs: Sequence[RunFolder]) -> list[tuple[str, list[Series]]]:
    """Return each task with its title and its series, ERM first; names tell in which settings they differ."""

    def task(run: RunFolder) -> list[Any]:
        return [run.task(), run.report.test.groups[["label", "attribute"]].to_numpy().tolist()]

    tasks = _apart(runs, lambda run: run.report.data.name, task, RunFolder.task)
    return [(", ".join([name, *told]), _series(share_estimates(members))) for name, told, members in tasks]


def _series(runs: Sequence[RunFolder]) -> list[Series]:
    ordered = sorted(runs, key=lambda run: run.report.training_name != BASELINE)
    apart = _apart(ordered, lambda run: run.report.training_name, RunFolder.settings, RunFolder.settings)
    found = {}
    for trained, told, own in apart:
        left = sum(not run.report.is_corrected for run in own)
        told = [*told, "not corrected" if left == len(own) else f"{left} of {len(own)} not corrected"] if left else told
        found[f"{trained} ({', '.join(told)})" if told else trained] = own
    colors = assign_colors({name: own[0].report.training_name for name, own in found.items()})
    return [Series(name, colors[name], tuple(own)) for name, own in found.items()]


def _apart(
    runs: Iterable[RunFolder],
    kind: Callable[[RunFolder], str],
    key: Callable[[RunFolder], Any],
    settings: Callable[[RunFolder], dict[str, Any]],
) -> list[tuple[str, list[str], list[RunFolder]]]:
    """Return the runs of each kind and key, with the settings in which they differ, such as ``q 0.7``."""
    kinds: dict[str, dict[str, list[RunFolder]]] = {}
    for run in runs:
        kinds.setdefault(kind(run), {}).setdefault(_key(key(run)), []).append(run)
    found = []
    for name, own in kinds.items():
        of_each = [settings(members[0]) for members in own.values()]
        options = dict.fromkeys(option for one in of_each for option in one)
        differ = [option for option in options if len({_key(one.get(option)) for one in of_each}) > 1]
        for one, members in zip(of_each, own.values(), strict=True):
            there = {option: format_value(shorten_paths(one[option])) for option in differ if option in one}
            found.append((name, [f"{format_name(option)} {value}" for option, value in there.items()], members))
    return found


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that are given; options of a part by the name of the part and their own."""
    flat = pd.json_normalize(dict(settings), sep=" ").to_dict("records")[0] if settings else {}
    return {str(name).removesuffix(" name"): value for name, value in flat.items() if value is not None}


def is_user_data(data: DataSummary) -> bool:
    """Return whether a source reads a person's own folder or file."""
    return data.name in SOURCES and import_component("data source", data.name, SOURCES).users_own


def format_path(path: Path | str) -> str:
    """Return a path as a page names it, which others will read: below the working folder, or its last part alone."""
    path = Path(path)
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return path.name if path.is_absolute() else str(path)


def shorten_paths(value: Any) -> Any:
    """Return plain values with absolute paths as a page names them."""
    if isinstance(value, Mapping):
        return {name: shorten_paths(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shorten_paths(one) for one in value]
    return format_path(value) if isinstance(value, str) and Path(value).is_absolute() else value


# What a comparison comes to

#: What to do about a network that is worse than no network.
COLLAPSE_REMEDY = "name fewer shortcuts, try `--method.mixing NoMixing`, or train with `--method ERM`"

#: Accuracies that a comparison goes by: the first of these that all runs have. The others are the price of a gain.
_JUDGED_BY = ("minority", "worst_group", "estimated_minority", "worst_class")


def conclude(series: Sequence[Series], figures: Mapping[str, Any], named: bool) -> tuple[str, list[str], list[str]]:
    """Return what a comparison of runs on one task comes to: a headline, its price, and what to do next.

    ``figures`` are those that are shown of the series, ``named`` is whether the test rows have attributes.
    """

    def shares(name: str) -> str:
        return format_list([f"{one.name} {format_percent(one.figure(name), 1)}" for one in series])

    base = next((one for one in series if one.is_baseline), None)
    known = [name for name in figures if all(one.values(name) for one in series)]
    key = next(name for name in _JUDGED_BY if name in known)
    headline, advice = f"{figures[key].heading} accuracy: {shares(key)}.", []
    if len(series) > 1 and key != "worst_class":
        headline = f"{headline} {_outcome(series, base, key)}."
    for one in series:
        if base and base.beats(one, "average") and (key == "worst_class" or not one.beats(base, key)):
            headline = f"{headline} On all test rows {_difference(one, base, 'average')}."
    details = [f"{figures[name].heading}: {shares(name)}." for name in known if name not in _JUDGED_BY]
    if any(len(one.runs) > 1 for one in series):
        details.append("Figures are means over seeds.")
    else:
        advice.append("One seed only, spread unknown: try `--seeds 3`.")
    if not named:
        on = "judge on rows where the shortcut does not hold, by `evaluate RUN --on FOLDER|CSV`"
        advice.append(f"The test rows name no attributes, so they cannot show whether a shortcut misleads: {on}.")
    if len(series) == 1 and series[0].method != BASELINE:
        advice.append(f"Train the same with `--method {BASELINE}`, then compare: `report RUN RUN`.")
    label, most = series[0].runs[0].report.majority_label
    below = [one for one in series if (one.figure("average") or 0.0) < most + 1e-9]
    if below:  # no other figure stands above that
        right = format_list([f"{one.name} in {format_percent(one.figure('average'), 1)}" for one in below])
        always = f"Always saying `{label}` is right in {format_percent(most, 1)} of the test rows, {right}."
        headline = f"{always} {headline}"
        if any(one.method != BASELINE for one in below):
            them = "them" if len(below) > 1 else "it"
            advice.insert(0, f"If rows in use are like these, do not use {them}: {COLLAPSE_REMEDY}.")
    return headline, details, advice


def _outcome(series: Sequence[Series], base: Series | None, key: str) -> str:
    """Who is ahead of whom by how much, or that nobody is: the best beside ERM, or else beside the second."""
    ranked = sorted(series, key=lambda one: one.figure(key) or 0.0, reverse=True)
    best = next(one for one in ranked if one is not base)
    other = base or ranked[1]
    if not best.differs(other, key):
        return f"{best.name} and {other.name} differ by no more than chance"
    return _difference(best, other, key)


def _difference(one: Series, other: Series, key: str) -> str:
    gain = 100 * (round(one.figure(key) or 0.0, 3) - round(other.figure(key) or 0.0, 3))
    return f"{one.name} {'gains' if gain > 0 else 'loses'} {abs(gain):.1f}{NBSP}points against {other.name}"
