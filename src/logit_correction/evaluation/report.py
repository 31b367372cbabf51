"""``report.json``: what was trained, on what, and how well it does; each entry is a field of ``Report``.

A metric of the test rows is one field, made by ``metric_field``, which says how it is computed and shown. Tables, pages
and sentences read it from there.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.checksums import verify_checksum
from logit_correction.errors import InputError
from logit_correction.evaluation.answers import AnswerCounts
from logit_correction.evaluation.metrics import (
    MetricSpec,
    calibration_error,
    compute_group_metrics,
    macro_auroc,
    macro_f1,
    resolve_metrics,
)
from logit_correction.evaluation.predictions import Predictions
from logit_correction.finding import Finding
from logit_correction.formatting import format_list, format_name, format_option
from logit_correction.functional import (
    group_count,
    group_margin,
    group_mean,
    group_membership,
    list_membership_pairs,
    margin,
    wilson_interval,
)
from logit_correction.serialization import build_frame, from_json_values, read_json_file, to_json_values
from logit_correction.types import Array, Correlation
from logit_correction.view_names import format_training_name

REPORT = "report.json"  # name of the file


@dataclass(frozen=True)
class Metric:
    """How a metric of the test rows is computed and shown.

    Attributes:
        heading: Of its column; the console writes it one word a line.
        compute: ``EvaluatedRows`` -> value, None or NaN if it is not defined.
        meaning: In a few words.
        best: ``max`` or ``min``, the function that selects the best of several values.
        in_tables: Whether console, pages and sentences show it, in per cent; for those of ``GroupReport``.
        is_accuracy: Whether it is an accuracy, which the heading does not say.
    """

    heading: str
    compute: Callable[[Any], Any]
    meaning: str = ""
    best: Callable[..., float] = max
    in_tables: bool = False
    is_accuracy: bool = False


def metric_field(heading: str, compute: Callable[[Any], Any], meaning: str = "", **options: Any) -> Any:
    """Return a dataclass field with a ``Metric``; the arguments are its attributes.

    Args:
        heading: Of its column.
        compute: ``EvaluatedRows`` -> value.
        meaning: In a few words.
        options: ``best``, ``in_tables`` and ``is_accuracy``.
    """
    return field(default=None, metadata={"metric": Metric(heading, compute, meaning, **options)})


#: A field of an accuracy that tables show.
_accuracy_field = partial(metric_field, in_tables=True, is_accuracy=True)


def get_metrics(report_class: type) -> dict[str, Metric]:
    """Return the metrics of a dataclass by name, in order."""
    return {item.name: item.metadata["metric"] for item in fields(report_class) if item.metadata}


def _compute_metrics(report_class: type, rows: EvaluatedRows) -> dict[str, Any]:
    return {name: to_json_values(metric.compute(rows)) for name, metric in get_metrics(report_class).items()}


@dataclass(frozen=True)
class EvaluatedRows:
    """Predictions of N rows, and the G groups that a model is evaluated on.

    Attributes:
        predictions: The rows.
        membership: (N, G) bool, dense or sparse; groups may overlap, be empty and leave rows out.
        group_names: Frame of G rows with columns ``label`` and ``attribute``.
        minority: (G,) bool, the bias-conflicting groups; None if that is not known.
        train_counts: (G,) training rows of each group; None if they are not known.
    """

    predictions: Predictions
    membership: Tensor
    group_names: pd.DataFrame
    minority: Tensor | None = None
    train_counts: Array | None = None

    @classmethod
    def from_predictions(
        cls, rows: Predictions, correlation: Correlation | None = None, train_counts: Tensor | None = None
    ) -> EvaluatedRows:
        """Return rows with their own groups, else with those of label x attribute, else with their labels.

        Args:
            rows: The predictions.
            correlation: The attribute values of each label's majority; other groups are bias-conflicting.
            train_counts: (L, K) training rows of each group.

        Raises:
            ValueError: The correlation does not have the predictions' number of labels and attribute values.
        """
        labels = rows.label_names
        attributes = rows.attribute_names
        names: Sequence[tuple[str, str | None]] = rows.groups
        minority = counts = None
        if rows.membership is not None:
            membership = torch.from_numpy(rows.membership)
        elif rows.attribute is not None:
            names = [(label, attribute) for label in labels for attribute in attributes]
            shape = (len(labels), len(attributes))
            label = torch.from_numpy(rows.label)
            membership = group_membership(label, torch.from_numpy(rows.attribute), *shape, sparse=True)
            counts = None if train_counts is None else train_counts.flatten().double().numpy()
            if correlation is not None:
                correlation_shape = (correlation.num_labels, correlation.num_attributes)
                if correlation_shape != shape:
                    raise ValueError(f"the correlation has shape {correlation_shape}, not {shape}")
                minority = correlation.minority_groups().flatten()
        else:
            names = [(label, None) for label in labels]
            membership = rows.label_groups()
        frame = pd.DataFrame(list(names), columns=["label", "attribute"], dtype=object)
        return cls(rows, membership, frame, minority, counts)

    @property
    def has_groups(self) -> bool:
        """Whether groups are more than labels."""
        return self.predictions.membership is not None or self.predictions.attribute is not None

    def compute_metric(self, name: str) -> Any:
        """Return the metric of ``GroupReport`` of a name; None if it is not defined."""
        return to_json_values(get_metrics(GroupReport)[name].compute(self))

    def build_group_table(self, metrics: MetricSpec = (), probability: Array | None = None) -> pd.DataFrame:
        """Return the frame of ``GroupRow``, with a column for each further metric.

        Args:
            metrics: See ``resolve_metrics``.
            probability: See ``compute_group_metrics``.
        """
        functions = resolve_metrics(metrics, list(get_metrics(GroupRow)))
        columns = compute_group_metrics(self, functions, probability)
        return build_frame(GroupRow, _compute_metrics(GroupRow, self)).assign(**columns)

    @cached_property
    def right(self) -> Tensor:
        """(N,) bool, whether the prediction is the label."""
        return self.predictions.right

    @cached_property
    def margins(self) -> Tensor:
        """(N,), the margin of each row (Appendix C)."""
        return margin(torch.from_numpy(self.predictions.logits), torch.from_numpy(self.predictions.label))

    @cached_property
    def members(self) -> tuple[Tensor, Tensor]:
        """All pairs of a row (M,) and a group (M,) that it belongs to."""
        return list_membership_pairs(self.membership)

    @cached_property
    def group_counts(self) -> Tensor:
        """(G,) long, the rows of each group."""
        return group_count(self.membership)

    @cached_property
    def group_correct_counts(self) -> Tensor:
        """(G,) long, the rows of each group that are right."""
        row, group = self.members
        return group[self.right[row]].bincount(minlength=len(self.group_names))

    @cached_property
    def group_accuracy(self) -> Tensor:
        """(G,), NaN where a group is empty."""
        return group_mean(self.right, self.membership)

    @cached_property
    def min_margin(self) -> Tensor:
        """(G,) float64, NaN where a group is empty."""
        return group_margin(self.margins, self.membership).double()

    def compute_accuracy_bound(self, bound_index: int) -> Array:
        """Return an end of the 90 % interval of each group's accuracy, (G,): the lower one is 0, the upper one 1."""
        return np.where(
            self.group_counts == 0, np.nan, wilson_interval(self.group_correct_counts, self.group_counts)[bound_index]
        )

    def compute_metric_of_rows(self, metric: Callable[[Array, Array], float], row_indices: Any = slice(None)) -> float:
        """Return a metric of all rows, or of some; NaN without rows, or if a probability is not finite.

        Args:
            metric: Maps probabilities (n, L) and labels (n,) to a number.
            row_indices: (n,) long, the rows.
        """
        probability = self.predictions.probabilities[row_indices]
        label = self.predictions.label[row_indices]
        return metric(probability, label) if len(label) and np.isfinite(probability).all() else math.nan

    def compute_metric_by_group(self, metric: Callable[[Array, Array], float]) -> pd.Series[float]:
        """Return a metric of the rows of each group, (G,); see ``compute_metric_of_rows``."""
        row, group = (members.numpy() for members in self.members)
        values = pd.Series(row).groupby(group).agg(lambda rows: self.compute_metric_of_rows(metric, rows))
        return values.reindex(range(len(self.group_names)))

    def compute_side_accuracy(self, is_minority: bool) -> Any:
        """Return the accuracy of the rows in bias-conflicting groups (``is_minority``), or in bias-aligned ones."""
        if self.minority is None:
            return None
        row, group = self.members
        rows = row[self.minority[group] == is_minority].unique()
        return self.right[rows].double().mean()

    def compute_side_margin(self, is_minority: bool) -> Any:
        """Return the mean of the least margins of bias-conflicting groups (``is_minority``), or bias-aligned ones."""
        if self.minority is None:
            return None
        return pd.Series(self.min_margin[self.minority == is_minority].numpy()).mean()

    def adjusted_average(self) -> Any:
        """Return the groups' mean accuracy, weighted by training rows as on Waterbirds; None where unknown."""
        counts = self.train_counts
        if counts is None or not (counts > 0).any():
            return None
        return np.average(self.group_accuracy.numpy()[counts > 0], weights=counts[counts > 0])


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """A row of the table of groups; metrics are NaN where the group is empty.

    ``low`` and ``high`` are the ends of the accuracy's 90 % Wilson interval, ``margin_min`` the margin of Appendix C.
    """

    label: str = metric_field("Label", lambda rows: rows.group_names["label"])
    attribute: str | None = metric_field("Attribute", lambda rows: rows.group_names["attribute"])
    count: int = metric_field("Rows", lambda rows: rows.group_counts)
    correct: int = metric_field("Right", lambda rows: rows.group_correct_counts)
    accuracy: float | None = metric_field("Accuracy", lambda rows: rows.group_accuracy)
    low: float | None = metric_field("Low", lambda rows: rows.compute_accuracy_bound(0))
    high: float | None = metric_field("High", lambda rows: rows.compute_accuracy_bound(1))
    margin_min: float | None = metric_field("Least margin", lambda rows: rows.min_margin)
    margin_mean: float | None = metric_field("Mean margin", lambda rows: group_mean(rows.margins, rows.membership))
    ece: float | None = metric_field("Calibration error", lambda rows: rows.compute_metric_by_group(calibration_error))
    minority: bool | None = metric_field(
        "Bias-conflicting", lambda rows: [None] * len(rows.group_names) if rows.minority is None else rows.minority
    )


@dataclass(frozen=True, kw_only=True)
class GroupMetrics:
    """Metrics that depend on the groups: a report has them twice, by known and by estimated groups."""

    minority: float | None = _accuracy_field(
        "Bias-conflicting",
        lambda rows: rows.compute_side_accuracy(True),
        "rows that conflict with the shortcut",
    )
    majority: float | None = _accuracy_field(
        "Bias-aligned",
        lambda rows: rows.compute_side_accuracy(False),
        "rows that follow it",
    )
    group_balanced: float | None = _accuracy_field(
        "Group-balanced",
        lambda rows: rows.group_accuracy.nanmean() if rows.has_groups else None,
        "mean over groups",
    )
    worst_group: float | None = _accuracy_field(
        "Worst group",
        lambda rows: pd.Series(rows.group_accuracy.numpy()).min() if rows.has_groups else None,
        "the least accurate of them",
    )


@dataclass(frozen=True, kw_only=True)
class EstimatedGroupReport(GroupMetrics):
    """Metrics by the groups label x estimated attribute.

    Attributes:
        source: Where the estimates come from, in words.
        groups: Frame of ``GroupRow``.
    """

    source: str
    groups: Annotated[pd.DataFrame, GroupRow]


@dataclass(frozen=True, kw_only=True)
class GroupReport(GroupMetrics):
    """The metrics of the test rows, overall and by group: the ``test`` block of ``report.json``.

    Accuracies are fractions; groups without rows do not count. A metric that is not defined is None, as group metrics
    without known attributes, and minority and majority without a known correlation.

    Attributes:
        groups: Frame of ``GroupRow``.
        estimated: Metrics by estimated groups; None without an estimate.
    """

    worst_class: float | None = _accuracy_field(
        "Worst label",
        lambda rows: pd.Series(group_mean(rows.right, rows.predictions.label_groups()).numpy()).min(),
        "the least accurate label",
    )
    count: int = metric_field("Rows", lambda rows: len(rows.predictions))
    average: float | None = _accuracy_field("Average", lambda rows: rows.right.double().mean(), "all test rows")
    adjusted_average: float | None = _accuracy_field(
        "Adjusted average",
        lambda rows: rows.adjusted_average(),
        "groups weighted as in training",
    )
    minority_margin: float | None = metric_field(
        "Margin, bias-conflicting", lambda rows: rows.compute_side_margin(True)
    )
    majority_margin: float | None = metric_field("Margin, bias-aligned", lambda rows: rows.compute_side_margin(False))
    auroc: float | None = metric_field("AUROC", lambda rows: rows.compute_metric_of_rows(macro_auroc))
    f1: float | None = metric_field("Macro F1", lambda rows: rows.compute_metric_of_rows(macro_f1))
    ece: float | None = metric_field("Calibration error", lambda rows: rows.compute_metric_of_rows(calibration_error))
    groups: Annotated[pd.DataFrame, GroupRow]
    estimated: EstimatedGroupReport | None = None

    @classmethod
    def from_predictions(
        cls,
        predictions: Predictions,
        correlation: Correlation | None = None,
        train_counts: Tensor | None = None,
        metrics: MetricSpec = (),
    ) -> GroupReport:
        """Evaluate predictions by their own groups, else by label x attribute, else by label.

        Args:
            predictions: The rows.
            correlation: The attribute values of each label's majority; other groups are bias-conflicting.
            train_counts: (L, K) training rows per group, for the adjusted average.
            metrics: Further columns of ``groups``; see ``metrics.resolve_metrics``.

        Raises:
            ValueError: The correlation does not have the predictions' number of labels and attribute values.

        >>> from logit_correction import Correlation, GroupReport, Predictions
        >>> rows = Predictions(
        ...     index=range(4), label=[0, 0, 1, 1], logits=[[1.0, 0.0]] * 3 + [[0.0, 1.0]],
        ...     label_names=["cat", "dog"], attribute=[0, 1, 0, 1], attribute_names=["sofa", "lawn"],
        ... )
        >>> report = GroupReport.from_predictions(rows, Correlation.one_to_one(2))
        >>> report.average, report.worst_group, report.minority
        (0.75, 0.0, 0.5)
        """
        rows = EvaluatedRows.from_predictions(predictions, correlation, train_counts)
        groups = rows.build_group_table(metrics)
        estimated = evaluate_by_estimate(predictions, metrics)
        return cls(**_compute_metrics(cls, rows), groups=groups, estimated=estimated)

    @property
    def has_groups(self) -> bool:
        """Whether the rows have attributes, or groups of their own."""
        return bool(self.groups["attribute"].notna().any())

    def get_metric(self, name: str) -> float | None:
        """Return the metric of a name; ``estimated_NAME`` is that by estimated groups."""
        report = self.estimated if name.startswith("estimated_") else self
        return getattr(report, name.removeprefix("estimated_"), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``test`` block of ``report.json`` as strict JSON values; None if not defined."""
        return to_json_values(self)


def evaluate_by_estimate(predictions: Predictions, metrics: MetricSpec = ()) -> EstimatedGroupReport | None:
    """Return the metrics by estimated groups; None without an estimate.

    Args:
        predictions: The rows.
        metrics: Further columns of the table of groups.
    """
    grouped = predictions.group_by_estimate()
    estimate = predictions.estimate
    if grouped is None or estimate is None:
        return None
    rows = EvaluatedRows.from_predictions(grouped, estimate.correlation)
    groups = rows.build_group_table(metrics)
    return EstimatedGroupReport(**_compute_metrics(GroupMetrics, rows), source=estimate.source, groups=groups)


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """The data of a run; ``counts`` has the rows of each group by split, labels by attributes."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, list[list[int]]] = field(default_factory=dict)
    rows: dict[str, int]
    scoring: dict[str, Any] | None = None
    label_names: list[str]
    label_kind: str = "str"
    attribute_names: list[str]
    correlation: list[list[int]] | None = None
    input_shape: list[int]
    preparation: dict[str, Any] = field(default_factory=dict)
    tokens: bool = False
    fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class NetworkSummary:
    """The network that predicts."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    parameters: int | None = None


@dataclass(frozen=True, kw_only=True)
class EncoderSummary:
    """The frozen encoder in front of the network.

    ``weights`` is a digest of them; it maps inputs of ``input_shape`` to ``features`` numbers.
    """

    name: str
    options: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    weights: str
    input_shape: list[int]
    tokens: bool
    features: int | None = None


@dataclass(frozen=True, kw_only=True)
class EpochSelection:
    """The rule that chose the weights, the epoch that it chose, and the labels of the split that it read.

    Of an average ``rule`` lists the rules of its members, and ``epoch`` is None where they chose different epochs.
    """

    rule: str
    epoch: int | None = None
    split: str | None = None
    labels_read: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        read = [name for name in self.labels_read if name != "label"]
        return format_name(self.rule) + (f" (reads {format_list(read)})" if read else "")


@dataclass(frozen=True, kw_only=True)
class RefitSummary:
    """The training on all rows, after the one that the report is about: what it trained predicts new rows.

    Attributes:
        rows: That it was trained on.
        epochs: How long it was trained; of an average, each member.
        splits: Whose rows it was trained on too: their accuracy is that of the training before.
    """

    rows: int
    epochs: list[int]
    splits: list[str]

    def describe(self, num_rows: int) -> str:
        """Return what a reader of the accuracy of a run must know of its training on all rows, in a sentence.

        Args:
            num_rows: Training rows of the training before, which was evaluated.

        >>> RefitSummary(rows=330, epochs=[40], splits=["valid", "test"]).describe(231)
        'Trained again on all 330 rows; the accuracy on valid and test rows is that of the training before, on 231.'
        """
        return (
            f"Trained again on all {self.rows:,} rows; the accuracy on {format_list(self.splits)} rows is that of the "
            f"training before, on {num_rows:,}."
        )


@dataclass(frozen=True, kw_only=True)
class PriorSummary:
    """The estimated group prior (L, K), and the true one where it is known."""

    estimator: str | None = None
    averaging: str | None = None
    estimated: list[list[float]]
    true: list[list[float]] | None = None
    label_names: list[str]
    attribute_names: list[str]


@dataclass(frozen=True, kw_only=True)
class MinorityExample:
    """A row that was estimated to be bias-conflicting."""

    index: int
    name: str | None = None
    label: str
    estimated_attribute: str
    attribute: str | None = None
    picture: str | None = None


@dataclass(frozen=True, kw_only=True)
class MinoritySummary:
    """The training rows that a method estimated to be bias-conflicting: number, accuracy, examples."""

    count: int
    recall: float | None = None
    precision: float | None = None
    examples: list[MinorityExample] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of ``report.json``.

    ``labels_read`` says which labels were read of each split; ``diagnostics_labels_read`` those by which nothing was
    chosen; ``answers``, what the answers to an audit showed that advised the run.
    """

    REMEDY: ClassVar[str] = "put a copy of it back, or train again into a new folder"  # if the file is damaged

    method: str
    method_options: dict[str, Any] = field(default_factory=dict)
    data: DataSummary
    network: NetworkSummary | None = None
    encoder: EncoderSummary | None = None
    seed: int | None = None
    epochs: int | None = None
    epochs_per_stage: list[int] = field(default_factory=list)
    steps: int | None = None
    training: dict[str, Any] = field(default_factory=dict)
    labels_read: dict[str, list[str]] = field(default_factory=dict)
    diagnostics_labels_read: dict[str, list[str]] = field(default_factory=dict)
    attributes: str | None = None
    evidence: dict[str, Any] | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    selection: EpochSelection = EpochSelection(rule="last")
    refit: RefitSummary | None = None
    test: GroupReport
    group_prior: PriorSummary | None = None
    estimated_minority: MinoritySummary | None = None
    answers: AnswerCounts | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def finding(self) -> Finding | None:
        """The result of the search for a shortcut; None without a search."""
        return Finding.from_dict(self.evidence) if self.evidence else None

    @property
    def majority_label(self) -> tuple[str, float]:
        """The most frequent label of the test rows, and its share; 0 unless each row is in one group."""
        counts = self.test.groups.groupby(self.test.groups["label"].astype(str))["count"].sum()
        return str(counts.idxmax()), float(counts.max() / counts.sum()) if counts.sum() == self.test.count else 0.0

    @property
    def is_left_uncorrected(self) -> bool:
        """Whether the method searched for a shortcut, does not correct by what it found, and so trained as ERM does."""
        return self.finding is not None and not self.finding.corrects

    @property
    def member_names(self) -> list[str]:
        """The names of the members of an average; empty of other methods."""
        return [str(member.get("name", self.method)) for member in self.method_options.get("members") or []]

    @property
    def training_name(self) -> str:
        """The method's name, an average by its members, and the views that its networks do not get."""
        members = self.member_names
        method = self.method
        if len(members) == 1:
            method = f"{members[0]} with answers"
        elif members:
            others = members[1] if len(members) == 2 else f"{len(members) - 1} others"
            method = f"Average of {members[0]} and {others}"
        return format_training_name(method, self.training.get("leave_out") or ())

    @property
    def display_name(self) -> str:
        """``training_name``, with a note if the method did not correct."""
        return f"{self.training_name} (not corrected)" if self.is_left_uncorrected else self.training_name

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the file as strict JSON values."""
        return to_json_values(self)

    def __getitem__(self, name: str) -> Any:
        """Return an entry of ``to_dict``, as when ``Run.report`` was a dict; deprecated."""
        warnings.warn("Run.report is an object: read run.report.NAME or run.report.to_dict()", DeprecationWarning, 2)
        return self.to_dict()[name]

    @classmethod
    def read(cls, folder: Path | str) -> Report:
        """Read the ``report.json`` of a run; raise ``InputError`` if it is missing, damaged or of an old version."""
        file = Path(folder) / REPORT
        folder = file.parent
        if not file.is_file() and file.with_name("config.yaml").is_file():
            raise InputError(
                f"{folder} holds a run that is not finished: continue it by `train` with "
                f"{format_option('resume', True)} and {format_option('out', folder)}"
            )
        if not file.is_file():
            raise InputError(f"{folder} is not a run folder: give one that `train` has written")
        content = read_json_file(file, cls.REMEDY)
        try:
            report: Report = from_json_values(cls, content)
            _ = report.finding  # so that one of another version raises here
        except (ValueError, TypeError) as error:  # Python names the entries that are missing
            raise InputError(f"{file} cannot be read ({error}): {cls.REMEDY}") from error
        verify_checksum(file, cls.REMEDY)
        return report
