"""Compares finished runs from their folders, without a model.

A reader has several run folders and asks which training is better, and whether the difference is more than chance. Runs
on the same test rows form a task. Within a task, runs that differ only by their seed form a ``Series``, whose mean
accuracies are compared by 90 % intervals. ``describe_comparison`` puts the outcome into sentences.
"""

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
from logit_correction.errors import InputError, warn_user
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
from logit_correction.pages.plots import assign_series_colors
from logit_correction.paths import reject_special_file
from logit_correction.registry import import_component

#: Training options that change where and how fast a run trains, but not its result; and one that is compared apart.
_IGNORED_OPTIONS = ("threads", "log_every", "logger", "deterministic", "device", "devices", "nodes", "selection")

_TABLE_METRICS = {name: metric for name, metric in get_metrics(GroupReport).items() if metric.in_tables}


def _make_estimated_metric(name: str, rows: str) -> Metric:
    return replace(_TABLE_METRICS[name], heading=f"Estimated {rows}", meaning=f"rows estimated to be {rows}")


_ESTIMATED_METRICS = {
    "estimated_minority": _make_estimated_metric("minority", "bias-conflicting"),
    "estimated_majority": _make_estimated_metric("majority", "bias-aligned"),
}

#: Metrics that tables and pages show, by the names that ``GroupReport.get_metric`` takes.
SHOWN_METRICS = _ESTIMATED_METRICS | _TABLE_METRICS

#: Confidence of every interval on pages and in tables.
CONFIDENCE = 0.9

#: What to do with a network that is less accurate than the majority-class baseline.
COLLAPSE_REMEDY = "name fewer shortcuts, try `--method.mixing NoMixing`, or train with `--method ERM`"

#: Metrics that decide a comparison: the first of these that all runs have. Other metrics are the price of a gain.
_DECIDING_METRICS = ("minority", "worst_group", "estimated_minority", "worst_class")


def compute_t_interval_margin(values: Sequence[float]) -> float:
    """Return half the width of Student's interval of a mean, with confidence ``CONFIDENCE``.

    Use it for metrics of a few seeds. Their spread is itself uncertain, so fewer seeds give a wider interval.

    Args:
        values: Independent values, such as one for each seed.

    Returns:
        The margin in the unit of the values; infinity for fewer than two values, whose spread is unknown.

    >>> round(compute_t_interval_margin([1.0, 2.0, 3.0]), 2), compute_t_interval_margin([1.0])
    (1.69, inf)
    """
    from scipy.special import stdtrit

    count = len(values)
    if count < 2:
        return math.inf
    quantile = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(count)


def select_shown_metrics(tests: Sequence[GroupReport]) -> dict[str, Metric]:
    """Return the metrics that some report has; worst label and estimates only if no report has known groups."""
    hidden = ("worst_class", *_ESTIMATED_METRICS) if any(test.has_groups for test in tests) else ()
    return {
        name: metric
        for name, metric in SHOWN_METRICS.items()
        if name not in hidden and any(test.get_metric(name) is not None for test in tests)
    }


def find_best_value(metric_name: str, values: Iterable[float | None]) -> float | None:
    """Return the best value of a metric, or None if all known values are equal.

    Args:
        metric_name: A name of ``SHOWN_METRICS``, which says whether more or less is better.
        values: Values of several runs; None and NaN are ignored.
    """
    different = {value for value in values if not is_missing(value)}
    return SHOWN_METRICS[metric_name].best(different) if len(different) > 1 else None


def sum_groups_by_alignment(groups: Any) -> pd.DataFrame:
    """Return a frame with two groups for each label: its bias-aligned rows and its bias-conflicting rows.

    Args:
        groups: Frame of ``GroupRow`` whose ``minority`` is known.

    Returns:
        Frame with columns label, attribute (``agrees`` or ``conflicts``), minority, count, correct, accuracy, and the
        ends ``low`` and ``high`` of its 90 % interval; the last three are NaN for a group without rows.
    """
    frame = pd.DataFrame(groups)
    cells = pd.MultiIndex.from_product([frame["label"].unique(), (False, True)], names=["label", "minority"])
    sums = frame.groupby(["label", "minority"])[["count", "correct"]].sum().reindex(cells, fill_value=0).reset_index()
    low, high = wilson_interval(torch.tensor(sums["correct"]), torch.tensor(sums["count"]))
    accuracies: dict[str, Any] = {"low": low.numpy(), "high": high.numpy(), "accuracy": sums["correct"] / sums["count"]}
    sums = sums.assign(attribute=np.where(sums["minority"], "conflicts", "agrees"), **accuracies)
    sums.loc[sums["count"] == 0, list(accuracies)] = np.nan
    return sums


@dataclass(frozen=True)
class RunFolder:
    """A finished run: its path, its ``report.json`` and its ``metrics.csv`` (an empty frame if missing)."""

    path: Path
    report: Report
    metrics: pd.DataFrame

    @classmethod
    def read(cls, path: Path | str) -> RunFolder:
        """Read a run folder; raise ``InputError`` if it holds no finished run, or a file of it is damaged."""
        path = Path(path)
        report = Report.read(path)
        file = path / "metrics.csv"
        verify_checksum(file, Report.REMEDY)
        try:
            metrics = pd.read_csv(reject_special_file(file)).apply(pd.to_numeric) if file.exists() else pd.DataFrame()
        except (OSError, ValueError) as error:
            raise InputError(f"{file} cannot be read ({error}): {Report.REMEDY}, or remove it") from error
        return cls(path, report, metrics)

    def get_groups(self, estimated: bool = False) -> pd.DataFrame:
        """Return the groups of the test rows: known ones, or ``estimated`` ones if there is an estimate."""
        estimate = self.report.test.estimated
        return sum_groups_by_alignment(estimate.groups) if estimated and estimate else self.report.test.groups

    def read_predictions(self) -> Predictions:
        """Return the predictions of the test rows; ``InputError`` if the file is missing or damaged."""
        return Predictions.load(self.path / "predictions.parquet")

    def get_settings(self) -> dict[str, Any]:
        """Return all options but the seed in which runs on the same data may differ, as flat names with values."""
        report = self.report
        settings = dict(report.method_options)
        for name, network in (("network", report.network), ("encoder", report.encoder)):
            if network:
                settings[name] = {"name": network.name, **network.options}
        settings.update((name, value) for name, value in report.training.items() if name not in _IGNORED_OPTIONS)
        return _flatten_settings(settings | {"epochs": report.epochs, "selection": report.selection.rule})

    def get_task_options(self) -> dict[str, Any]:
        """Return the options of the data source that define the task, as flat names with values.

        They exclude the seed, and the path of a downloaded data set, but not that of a user's own data.
        """
        data = self.report.data
        ignored = ("seed",) if is_user_data(data) else ("seed", "root", "download")
        return _flatten_settings({name: value for name, value in data.options.items() if name not in ignored})


def share_attribute_estimates(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Return the runs with one estimate of attributes for the same test rows: that of the first run that has one.

    Without it each run would be evaluated on groups of its own, which cannot be compared. Runs whose test rows have
    attributes, and those whose predictions are missing, stay as they are.
    """
    evaluated = list(runs)
    members: dict[Any, list[tuple[int, Predictions]]] = {}  # runs with the same test rows
    for number, run in enumerate(runs):
        if not run.report.test.has_groups and (run.path / "predictions.parquet").is_file():
            predictions = run.read_predictions()
            members.setdefault(_identify_test_rows(run, predictions), []).append((number, predictions))
    for numbered in members.values():
        estimate = next((predictions.estimate for _, predictions in numbered if predictions.estimate), None)
        for number, predictions in numbered if estimate else ():
            report = runs[number].report
            groups = evaluate_by_estimate(replace(predictions, estimate=estimate))
            test = replace(report.test, estimated=groups)
            evaluated[number] = replace(runs[number], report=replace(report, test=test))
    return evaluated


def _identify_test_rows(run: RunFolder, predictions: Predictions) -> tuple[Any, ...]:
    rows = (predictions.index.tobytes(), predictions.label.tobytes())
    return _format_data_key(run), run.report.data.fingerprint, *rows


def read_comparable_reports(folders: Iterable[Path]) -> list[Report]:
    """Return the reports of several run folders, made comparable by ``share_attribute_estimates``."""
    return [run.report for run in share_attribute_estimates([RunFolder.read(folder) for folder in folders])]


def describe_refits(reports: Iterable[Report]) -> list[str]:
    """Return a sentence for each training on all rows that followed the one that was evaluated, like ones once."""
    sentences = [report.refit.describe(report.data.rows["train"]) for report in reports if report.refit is not None]
    return [*dict.fromkeys(sentences)]


def build_comparison_table(reports: Sequence[Report]) -> pd.DataFrame:
    """Return a frame with one row for each report; see ``runs.run.runs_table``."""
    metrics = select_shown_metrics([report.test for report in reports])
    rows = []
    for report in reports:
        values = map(report.test.get_metric, metrics)
        rows.append([report.display_name, report.epochs, report.seed, *values, str(report.selection)])
    columns = ["method", "epochs", "seed", *metrics, "selection"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(metrics, float))


@dataclass(frozen=True)
class Series:
    """Runs that differ only by their seed.

    Attributes:
        name: Method and the options in which it differs from other series, such as ``LC (q 0.7)``.
        color: CSS colour on pages.
        runs: At least one.
    """

    name: str
    color: str
    runs: tuple[RunFolder, ...]

    @property
    def method(self) -> str:
        """The method of all runs."""
        return self.runs[0].report.method

    @property
    def is_baseline(self) -> bool:
        """Whether this is ERM on all inputs, with which other series are compared."""
        return self.runs[0].report.training_name == BASELINE

    def get_values(self, metric: str) -> list[float]:
        """Return a metric of every run; empty if a run lacks it."""
        values = [run.report.test.get_metric(metric) for run in self.runs]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else []

    def compute_mean(self, metric: str) -> float | None:
        """Return the mean of a metric over the runs; None if a run lacks it."""
        values = self.get_values(metric)
        return sum(values) / len(values) if values else None

    def get_groups(self, estimated: bool = False) -> pd.DataFrame:
        """Return groups with the mean accuracy; of several runs ``low`` and ``high`` are the worst and the best run."""
        frames = [run.get_groups(estimated) for run in self.runs]
        if len(frames) == 1:
            return frames[0]
        accuracy = pd.concat([frame["accuracy"] for frame in frames], axis=1)
        return frames[0].assign(accuracy=accuracy.mean(axis=1), low=accuracy.min(axis=1), high=accuracy.max(axis=1))

    def compute_group_metrics(self, metrics: Mapping[str, MetricFunction]) -> pd.DataFrame:
        """Return a frame (G, M) of M metrics of G test groups, as means over the runs; reads the predictions."""
        runs = [
            compute_group_metrics(EvaluatedRows.from_predictions(run.read_predictions()), metrics) for run in self.runs
        ]
        return pd.DataFrame({name: np.mean([values[name] for values in runs], axis=0) for name in metrics})

    def differs_significantly(self, other: Series, metric: str) -> bool:
        """Return whether the difference of a metric is more than chance: whether its 90 % interval excludes 0.

        Runs with two or more seeds in common are compared seed by seed, by Student's interval of the mean difference.
        Several runs of other seeds are compared by the intervals of their two means. If one side has a single run, the
        interval is that of a difference of two proportions, from their Wilson intervals (Newcombe).

        Args:
            other: The series to compare with.
            metric: A name of ``SHOWN_METRICS`` that both series have.
        """
        values = self._get_values_by_seeds(metric)
        other_values = other._get_values_by_seeds(metric)
        if min(len(values), len(other_values)) > 1:
            differences = [values[seed] - other_values[seed] for seed in values if seed in other_values]
            if len(differences) > 1:
                return abs(float(np.mean(differences))) > compute_t_interval_margin(differences)
            samples = [list(values.values()), list(other_values.values())]
            margin = math.hypot(*map(compute_t_interval_margin, samples))
            return abs(float(np.mean(samples[0]) - np.mean(samples[1]))) > margin
        intervals = sorted((self._compute_interval(metric), other._compute_interval(metric)))
        (lower, _, lower_end), (higher, higher_start, _) = intervals
        return higher - lower > math.hypot(higher - higher_start, lower_end - lower)

    def is_significantly_greater(self, other: Series, metric: str) -> bool:
        """Return whether a metric is greater by more than chance; arguments as of ``differs_significantly``."""
        return (self.compute_mean(metric) or 0.0) > (other.compute_mean(metric) or 0.0) and self.differs_significantly(
            other, metric
        )

    def _get_values_by_seeds(self, metric: str) -> dict[Any, float]:
        """Return a metric of every run by the seeds of its training and its data; empty if a run lacks it."""
        reports = [run.report for run in self.runs]
        seeds = [(report.seed, report.data.options.get("seed")) for report in reports]
        return dict(zip(seeds, self.get_values(metric), strict=False))

    def _compute_interval(self, metric: str) -> tuple[float, float, float]:
        """Return a mean accuracy and the ends of its Wilson interval, by the number of test rows behind it."""
        accuracy = self.compute_mean(metric) or 0.0
        if metric == "average":
            rows = float(self.runs[0].report.test.count)
        else:
            groups = self.get_groups(metric.startswith("estimated"))
            if metric.endswith("minority"):
                rows = float(groups["count"][groups["minority"].eq(True)].sum())
            else:
                rows = float(groups["count"].to_numpy()[groups["accuracy"].argmin()])
        low, high = wilson_interval(accuracy * rows, rows)
        return accuracy, float(low), float(high)


def group_runs_by_task(runs: Sequence[RunFolder]) -> list[tuple[str, list[Series]]]:
    """Return each task with its title and its series, ERM first.

    Two runs have the same task if data source, options of the data and test groups are equal, and the data have not
    changed between them. Titles of tasks and names of series contain the options in which they differ.
    """
    versions: dict[str, set[str]] = {}
    for run in runs:
        if run.report.data.fingerprint is not None:
            versions.setdefault(_format_data_key(run), set()).add(run.report.data.fingerprint)
    changed = {key for key, fingerprints in versions.items() if len(fingerprints) > 1}
    if changed:
        paths = [str(run.path) for run in runs if _format_data_key(run) in changed]
        warn_user(
            "the data, or how they are read, have changed between these runs, which are compared apart: "
            f"{', '.join(paths)}"
        )

    def identify_task(run: RunFolder) -> list[Any]:
        groups = run.report.test.groups[["label", "attribute"]].to_numpy().tolist()
        version = run.report.data.fingerprint if _format_data_key(run) in changed else None
        return [run.get_task_options(), groups, version]

    tasks = _group_runs_by_name_and_key(
        runs, lambda run: run.report.data.name, identify_task, RunFolder.get_task_options
    )
    return [
        (", ".join([name, *options]), _build_series(share_attribute_estimates(members)))
        for name, options, members in tasks
    ]


def _format_data_key(run: RunFolder) -> str:
    """Return the same text for runs whose data are the same by their options, seeds included."""
    return _format_json_key([run.report.data.name, run.report.data.options])


def _build_series(runs: Sequence[RunFolder]) -> list[Series]:
    """Return the series of the runs of one task, ERM first."""
    baseline_first = sorted(runs, key=lambda run: run.report.training_name != BASELINE)
    settings = RunFolder.get_settings
    runs_by_name = {}
    for name, options, members in _group_runs_by_name_and_key(
        baseline_first, lambda run: run.report.training_name, settings, settings
    ):
        uncorrected = sum(run.report.is_left_uncorrected for run in members)
        if uncorrected:
            share = "" if uncorrected == len(members) else f"{uncorrected} of {len(members)} "
            options = [*options, f"{share}not corrected"]
        runs_by_name[f"{name} ({', '.join(options)})" if options else name] = members
    colors = assign_series_colors({name: members[0].report.training_name for name, members in runs_by_name.items()})
    return [Series(name, colors[name], tuple(members)) for name, members in runs_by_name.items()]


def _group_runs_by_name_and_key(
    runs: Iterable[RunFolder],
    get_name: Callable[[RunFolder], str],
    get_key: Callable[[RunFolder], Any],
    get_options: Callable[[RunFolder], dict[str, Any]],
) -> list[tuple[str, list[str], list[RunFolder]]]:
    """Return a group of runs for each name and key, the groups of a name together.

    Returns:
        The name, the options in which these runs differ from others of the name, such as ``q 0.7``, and the runs.
    """
    runs_by_name: dict[str, dict[str, list[RunFolder]]] = {}
    for run in runs:
        runs_by_name.setdefault(get_name(run), {}).setdefault(_format_json_key(get_key(run)), []).append(run)
    groups = []
    for name, runs_by_key in runs_by_name.items():
        options = [get_options(members[0]) for members in runs_by_key.values()]
        names = dict.fromkeys(option for values in options for option in values)
        differing = [
            option for option in names if len({_format_json_key(values.get(option)) for values in options}) > 1
        ]
        for values, members in zip(options, runs_by_key.values(), strict=True):
            texts = [
                f"{format_name(option)} {format_value(shorten_paths(values[option]))}"
                for option in differing
                if option in values
            ]
            groups.append((name, texts, members))
    return groups


def _format_json_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings that are not None; options of a part as ``part option``, the part's name as ``part``."""
    flat: dict[str, Any] = {}
    for name, value in sorted(settings.items(), key=lambda setting: isinstance(setting[1], Mapping)):  # parts last
        if isinstance(value, Mapping):
            flat.update(_flatten_settings(value, f"{prefix}{name} "))
        elif value is not None:
            flat[f"{prefix}{name}".removesuffix(" name")] = value
    return flat


def is_user_data(data: DataSummary) -> bool:
    """Return whether the data source reads a user's own folder or file."""
    return data.name in SOURCES and import_component("data source", data.name, SOURCES).users_own


def format_path(path: Path | str) -> str:
    """Return a path without the folders of this machine: relative to the working folder, or its last part alone.

    Pages are sent to others, whom absolute paths would neither help nor concern.
    """
    path = Path(path)
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return path.name if path.is_absolute() else str(path)


def shorten_paths(value: Any) -> Any:
    """Return nested plain values with absolute paths written by ``format_path``."""
    if isinstance(value, Mapping):
        return {name: shorten_paths(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shorten_paths(item) for item in value]
    return format_path(value) if isinstance(value, str) and Path(value).is_absolute() else value


def describe_comparison(
    series: Sequence[Series], metrics: Mapping[str, Metric], has_groups: bool
) -> tuple[str, list[str], list[str]]:
    """Return the outcome of a comparison on one task as sentences.

    Args:
        series: The series of the task, ERM first if it is among them.
        metrics: The metrics that are shown of the series; see ``select_shown_metrics``.
        has_groups: Whether the test rows have known attributes.

    Returns:
        A headline with the deciding metric and whether the difference is more than chance; the other metrics, which
        show the price of a gain; and what to do next.
    """
    common = [name for name in metrics if all(member.get_values(name) for member in series)]
    decisive = next(name for name in _DECIDING_METRICS if name in common)
    headline = _describe_metric_comparison(series, decisive, metrics[decisive])
    baseline = next((member for member in series if member.is_baseline), None)
    if len(series) > 1 and decisive != "worst_class":
        headline += f" {_describe_best(series, baseline, decisive)}."
    for member in series:
        is_price = decisive == "worst_class" or not (baseline and member.is_significantly_greater(baseline, decisive))
        if baseline and is_price and baseline.is_significantly_greater(member, "average"):
            headline += f" On all test rows {_describe_difference(member, baseline, 'average')}."
    details = [
        _describe_metric_comparison(series, name, metrics[name]) for name in common if name not in _DECIDING_METRICS
    ]
    advice = []
    if any(len(member.runs) > 1 for member in series):
        details.append("Figures are means over seeds.")
    else:
        advice.append("One seed only, spread unknown: try `--seeds 3`.")
    if not has_groups:
        remedy = "evaluate on rows where the shortcut does not hold, by `evaluate RUN --on FOLDER|CSV`"
        advice.append(f"The test rows name no attributes, so they cannot show whether a shortcut misleads: {remedy}.")
    if len(series) == 1 and series[0].method != BASELINE:
        advice.append(f"Train the same with `--method {BASELINE}`, then compare: `report RUN RUN`.")
    label, majority = series[0].runs[0].report.majority_label
    collapsed = [member for member in series if (member.compute_mean("average") or 0.0) < majority + 1e-9]
    if collapsed:  # the most important finding comes first
        shares = [f"{member.name} in {format_percent(member.compute_mean('average'), 1)}" for member in collapsed]
        always = f"Always saying `{label}` is right in {format_percent(majority, 1)} of the test rows"
        headline = f"{always}, {format_list(shares)}. {headline}"
        if any(member.method != BASELINE for member in collapsed):
            them = "them" if len(collapsed) > 1 else "it"
            advice.insert(0, f"If rows in use are like these, do not use {them}: {COLLAPSE_REMEDY}.")
    return headline, details, advice


def _describe_metric_comparison(series: Sequence[Series], name: str, metric: Metric) -> str:
    """Return a sentence with a metric of every series."""
    heading = f"{metric.heading} accuracy" if metric.is_accuracy else metric.heading
    values = [format_percent(member.compute_mean(name), 1) for member in series]
    if len(series) > 1:
        values = [f"{member.name} {value}" for member, value in zip(series, values, strict=True)]
    return f"{heading}: {format_list(values)}."


def _describe_best(series: Sequence[Series], baseline: Series | None, metric: str) -> str:
    """Return how much the best series gains against ERM, or against the second best if there is no ERM."""
    ranked = sorted(series, key=lambda member: member.compute_mean(metric) or 0.0, reverse=True)
    best = next(member for member in ranked if member is not baseline)
    other = baseline or ranked[1]
    if not best.differs_significantly(other, metric):
        return f"{best.name} and {other.name} do not differ by more than chance"
    return _describe_difference(best, other, metric)


def _describe_difference(series: Series, other: Series, metric: str) -> str:
    gain = 100 * (round(series.compute_mean(metric) or 0.0, 3) - round(other.compute_mean(metric) or 0.0, 3))
    return f"{series.name} {'gains' if gain > 0 else 'loses'} {abs(gain):.1f}{NBSP}points against {other.name}"
