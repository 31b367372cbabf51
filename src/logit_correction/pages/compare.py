"""Finished runs as pages and tables read them: which belong to one task, which differ only by their seed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from logit_correction.config import PLACE_OF_DATA, PLACE_OF_TRAINING
from logit_correction.errors import InputError, format_list
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.record import to_plain
from logit_correction.evaluation.report import FIX, EstimatedReport, GroupReport, Report, estimated_report, headings
from logit_correction.files import check_seal, plain
from logit_correction.functional.metrics import wilson_interval
from logit_correction.pages.plots import method_color
from logit_correction.sentences import BASELINE, conclude, format_name, format_value

#: Training options that change where and how fast a run goes, not what comes out of it.
_NOT_THE_METHOD = {
    *PLACE_OF_TRAINING,
    "also_select",
    "deterministic",
    "device",
    "devices",
    "nodes",
    "selection",
    "watch",
}

#: Figures of the test rows that tables show, the most telling first, and what they mean. A figure of ``GroupReport``
#: that is not named here is shown too, but for those that are told elsewhere.
MEANINGS = {
    "minority": "groups that conflict with the shortcut",
    "majority": "groups that follow it",
    "group_balanced": "mean over all groups",
    "worst_group": "the least of them",
    "worst_class": "least accuracy of a label",
    "average": "over all test rows",
    "adjusted_average": "groups weighted as in training",
}
_ELSEWHERE = {"count", "minority_margin", "majority_margin", "auroc", "f1", "ece"}

#: Figure -> its heading.
FIGURES = {name: headings(GroupReport)[name] for name in MEANINGS}
FIGURES |= {name: text for name, text in headings(GroupReport).items() if name not in {*MEANINGS, *_ELSEWHERE}}

#: Figures that are given by estimated group as well.
_ESTIMATED = [one.name for one in fields(EstimatedReport) if one.name not in ("source", "groups")]


def names_attributes(test: Mapping[str, Any]) -> bool:
    """Return whether the rows that a test block is of have attributes, or groups of their own."""
    return any(group["attribute"] is not None for group in test["groups"])


def flat_figures(test: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test block with the figures by estimated group beside the others, ``estimated_minority`` and so on."""
    block = test.get("estimated") or {}
    return {**test, **{f"estimated_{name}": block.get(name) for name in _ESTIMATED}}


def sides(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return two groups for each label: rows whose estimated attribute agrees with it, and rows where it conflicts."""
    frame = pd.DataFrame(groups)[["label", "minority", "count", "correct"]]
    summed = frame.groupby(["label", "minority"], sort=False).sum()
    cells = pd.MultiIndex.from_product([dict.fromkeys(frame["label"]), (False, True)], names=["label", "minority"])
    found = summed.reindex(cells, fill_value=0).reset_index()
    count, correct = (torch.tensor(found[name].to_numpy()) for name in ("count", "correct"))
    low, high = wilson_interval(correct, count)
    empty = found["count"].eq(0)
    share = found["correct"] / found["count"]
    ends: dict[str, Any] = {"accuracy": share, "low": low.numpy(), "high": high.numpy()}
    found = found.assign(attribute=found["minority"].map({True: "conflicts", False: "agrees"}), **ends).astype(object)
    found.loc[empty, list(ends)] = None
    return [{str(name): value for name, value in row.items()} for row in found.to_dict("records")]


@dataclass(frozen=True)
class RunFolder:
    """A finished run: its place, its ``report.json`` and its ``metrics.csv`` (an empty frame if missing)."""

    path: Path
    report: dict[str, Any]
    metrics: pd.DataFrame

    @classmethod
    def read(cls, path: Path | str) -> RunFolder:
        """Read a run folder.

        Raises:
            InputError: The folder holds no finished run, or a file of it is damaged.
        """
        path, file = Path(path), Path(path) / "metrics.csv"
        report = Report.read(path).to_dict()
        check_seal(file, FIX)
        try:
            metrics = pd.read_csv(plain(file)) if file.exists() else pd.DataFrame({"step": [], "epoch": []})
            if not metrics[["step", "epoch"]].apply(pd.to_numeric).stack().between(0, 2**53).all():
                raise ValueError("column step or epoch holds what is no count")
            return cls(path, report, metrics.apply(pd.to_numeric))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{file} cannot be read ({error}): {FIX}, or remove it") from error

    @property
    def test(self) -> dict[str, Any]:
        """Figures on the test split; those by estimated group as ``estimated_minority`` and so on."""
        return flat_figures(self.report["test"])

    def groups(self, estimated: bool = False) -> pd.DataFrame | None:
        """Return the groups of the test split, or the two of each label by the estimate; None without one."""
        block = self.report["test"]["estimated"]
        if estimated and block is None:
            return None
        frame = pd.DataFrame(sides(block["groups"]) if estimated else self.report["test"]["groups"])
        return frame.astype(dict.fromkeys(("accuracy", "low", "high"), float))

    def settings(self) -> dict[str, Any]:
        """Return everything but the seed that tells this run from another one on the same data."""
        report, network, encoder = self.report, self.report["network"] or {}, self.report["encoder"] or {}
        return {
            **report["method_options"],
            "network": network.get("name"),
            **network.get("options", {}),
            **({"encoder": encoder["name"]} if encoder else {}),
            **{f"encoder {name}": value for name, value in encoder.get("options", {}).items()},
            **{name: value for name, value in report["training"].items() if name not in _NOT_THE_METHOD},
            "epochs": report["epochs"],
            "selection": format_name((report["selection"] or {"rule": "last"})["rule"]),
        }

    def task(self) -> dict[str, Any]:
        """Return the options of the data source that make it another task."""
        options = self.report["data"]["options"]
        return {name: value for name, value in options.items() if name not in ("seed", *PLACE_OF_DATA)}


def with_estimates(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Evaluate all runs on the same test rows by the estimate of one of them, so that they can be compared.

    The first run that has an estimate serves all whose test rows are the same. Runs whose test rows have attributes,
    those of which only the report is there, and those to whose rows no estimate belongs, stay as they are.
    """
    files = [run.path / "predictions.parquet" for run in runs]
    unnamed = [not names_attributes(run.test) and file.is_file() for run, file in zip(runs, files, strict=True)]
    rows = [Predictions.load(file) if wanted else None for file, wanted in zip(files, unnamed, strict=True)]
    judged = []
    for run, own in zip(runs, rows, strict=True):
        for other, theirs in zip(runs, rows, strict=True):
            if own is None or theirs is None or theirs.estimate is None or _data(other) != _data(run):
                continue
            if np.array_equal(own.index, theirs.index) and np.array_equal(own.label, theirs.label):
                block = to_plain(estimated_report(replace(own, estimate=theirs.estimate))) or {}
                by = {"by": {"method": other.report["method"], "seed": other.report["seed"]}} if block else {}
                test = {**run.report["test"], "estimated": block | by or None}
                run = replace(run, report={**run.report, "test": test})
                break
        judged.append(run)
    return judged


def _data(run: RunFolder) -> list[Any]:
    options = run.report["data"]["options"]
    return [run.report["data"]["name"], {name: options[name] for name in options if name not in PLACE_OF_DATA}]


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
        return [] if any(value is None for value in values) else [float(value) for value in values if value is not None]

    def figure(self, key: str) -> float | None:
        """Return the mean over the runs of an entry of the test block; None where a run lacks it."""
        values = self.values(key)
        return sum(values) / len(values) if values else None

    def groups(self, estimated: bool = False) -> pd.DataFrame | None:
        """Return groups with the mean accuracy; of several runs ``low`` and ``high`` are the extremes."""
        frames = [frame for run in self.runs if (frame := run.groups(estimated)) is not None]
        if len(frames) < len(self.runs):
            return None
        accuracy = pd.concat([frame["accuracy"] for frame in frames], axis=1)
        ends = {"accuracy": accuracy.mean(axis=1), "low": accuracy.min(axis=1), "high": accuracy.max(axis=1)}
        return frames[0] if len(frames) == 1 else frames[0].assign(**ends)

    def differs(self, other: Series, key: str) -> bool:
        """Return whether the difference of a figure is more than chance.

        With several runs on both sides: no run of one side reaches into the other side's range. Else the 95 %
        interval of the difference of two shares, from their Wilson intervals (Newcombe), has to leave out 0.
        """
        own, others = self.values(key), other.values(key)
        if min(len(own), len(others)) > 1:
            return min(own) > max(others) or min(others) > max(own)
        (least, _, high), (most, low, _) = sorted((self._interval(key), other._interval(key)))
        return most - least > math.hypot(most - low, high - least)

    def _interval(self, key: str) -> tuple[float, float, float]:
        """A share and its 95 % interval, by the test rows that it rests on."""
        frame = self.groups(key.startswith("estimated"))
        assert frame is not None
        chosen = frame["minority"].eq(True) if key.endswith("minority") else frame.index == frame["accuracy"].idxmin()
        share, rows = self.figure(key) or 0.0, float(frame["count"][chosen].sum())
        low, high = wilson_interval(share * rows, rows)
        return share, float(low), float(high)


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
        if self.named or any(one.groups(estimated=True) is None for one in self.series):
            return None
        block: dict[str, Any] = self.series[0].runs[0].test["estimated"]
        return block

    def conclusion(self) -> tuple[str, list[str]]:
        """Return what the comparison comes to, and what a careful reader asks for next."""
        return conclude(self.series, self.named, self.estimated)


def compare(runs: Sequence[RunFolder]) -> list[Comparison]:
    """Put runs on the same task together, and in them runs that differ only by their seed.

    Series of one method are told apart by the settings in which they differ.
    """
    tasks: dict[str, list[RunFolder]] = {}
    for run in runs:
        names = [(row["label"], row["attribute"]) for row in run.test["groups"]]
        tasks.setdefault(_key([run.report["data"]["name"], run.task(), names]), []).append(run)
    options = [members[0].task() for members in tasks.values()]
    found = []
    for members in tasks.values():
        title = ", ".join([members[0].report["data"]["name"], *_differences(members[0].task(), options)])
        found.append(Comparison(title, tuple(_series(with_estimates(members)))))
    return found


def _series(runs: Sequence[RunFolder]) -> list[Series]:
    members: dict[str, list[RunFolder]] = {}
    for run in sorted(runs, key=lambda run: run.report["method"] != BASELINE):
        members.setdefault(_key([run.report["method"], run.settings()]), []).append(run)
    series: list[Series] = []
    for group in members.values():
        method = str(group[0].report["method"])
        rivals = [one[0].settings() for one in members.values() if one[0].report["method"] == method]
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
