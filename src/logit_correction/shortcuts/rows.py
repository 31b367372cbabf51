"""The rows of an audit: the table behind ``rows.csv``, and the figures that are computed from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.atomic_files import replace_atomically
from logit_correction.data.table import DataTable
from logit_correction.finding import BASELINE
from logit_correction.functional import wilson_interval
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.evidence import predict_and_flag_conflicts
from logit_correction.shortcuts.heads import ShortcutPrediction
from logit_correction.shortcuts.search import EstimatedCandidate
from logit_correction.shortcuts.summaries import Accuracy, ClassifierAccuracy, EstimatedGroup, Interval, ShownRow
from logit_correction.spreadsheets import write_spreadsheet_csv
from logit_correction.types import Array
from logit_correction.views.tables import find_viewed_columns

#: Files of the rows: for spreadsheets, and with types.
CSV = "rows.csv"
PARQUET = "rows.parquet"

#: Column of ``rows.parquet`` alone: the content of a row in words.
CONTENT = "content"

#: Training rows that a page lists at most, those of the highest score first.
MAX_SHOWN_ROWS = 60

#: Classifiers, as the columns of their predictions begin: the examined one, and LC.
CLASSIFIERS = ("network", "fixed")


def build_rows_frame(
    table: DataTable, estimator: Auto, views: Sequence[str], candidate: EstimatedCandidate | None = None
) -> pd.DataFrame:
    """Return one row for each training row, and for each validation row that was examined.

    ``docs/audit.md`` describes the columns.

    Args:
        table: The data.
        estimator: After its search, and after its estimate if there are ``views``.
        views: Of the shortcut that is corrected by.
        candidate: Without ``views``, a doubtful candidate: the examined rows have its estimates, for people to judge.
    """
    search = estimator.search
    assert search is not None
    names = np.asarray(table.label_names, dtype=object)
    rows = table.split["train"]
    examined = search.held_out.rows  # positions in ``rows``
    estimates = estimator.estimates
    if search.held_out.split == "valid":
        valid_rows = table.split["valid"][examined]
        if views:
            inputs = table.view_inputs("valid").take(examined)
            valid_estimates = estimator.predict_shortcuts(table.label[valid_rows], inputs)
            estimates = [
                ShortcutPrediction(*map(torch.cat, zip(on_train, on_valid, strict=True)))
                for on_train, on_valid in zip(estimates, valid_estimates, strict=True)
            ]
        examined = len(rows) + torch.arange(len(examined))
        rows = torch.cat([rows, valid_rows])
    positions = torch.arange(len(rows))  # of the rows with an estimate
    if candidate is not None:
        views = candidate.views
        estimates = [ShortcutPrediction(candidate.attribute, candidate.probabilities)]
        positions = examined
    label = table.label[rows]
    frame = _describe_rows(table, rows, views).assign(
        split=np.where(np.arange(len(rows)) < len(table.split["train"]), "train", "valid"),
        label=names[label.numpy()],
        attribute=None,
        conflicting=None,
        score=np.nan,
        view_label=None,
        sure=None,
    )
    frame = pd.concat([frame, pd.DataFrame(np.nan, frame.index, [f"p_{name}" for name in names])], axis=1)
    if views:
        _fill_in_estimates(frame, positions, label[positions], estimates, names)
        evaluated = candidate or search.get_candidate(views)
        assert evaluated is not None
        predicted, is_sure = predict_and_flag_conflicts(search.predictions[evaluated.views], label[examined])
        frame.loc[examined.numpy(), "view_label"] = names[predicted.numpy()]
        frame.loc[examined.numpy(), "sure"] = is_sure.numpy()
    return add_predictions(frame, "network", examined, search.held_out.network, table)


def add_drawn_rows(frame: pd.DataFrame, table: DataTable, estimator: Auto, views: Sequence[str]) -> pd.DataFrame:
    """Add the rows that were drawn for validation and test, with their estimates: a fix trains on them in the end.

    Args:
        frame: Of ``build_rows_frame``.
        table: The data.
        estimator: After its estimate.
        views: Of the shortcut that is corrected by.
    """
    names = np.asarray(table.label_names, dtype=object)
    parts = [frame]
    for split in table.drawn:
        is_missing = torch.from_numpy(~np.isin(table.split[split], frame["row"]))
        rows = table.split[split][is_missing]
        label = table.label[rows]
        part = _describe_rows(table, rows, views).assign(split=split, label=names[label.numpy()])
        part = part.reindex(columns=frame.columns).astype({name: object for name in ("attribute", "conflicting")})
        estimates = estimator.predict_shortcuts(label, table.view_inputs(split).take(is_missing.nonzero().flatten()))
        _fill_in_estimates(part, torch.arange(len(rows)), label, estimates, names)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _fill_in_estimates(
    frame: pd.DataFrame,
    positions: Tensor,
    label: Tensor,
    predictions: Sequence[ShortcutPrediction],
    names: Array,
) -> None:
    """Fill in attributes, conflicts, scores and probabilities of the rows at some positions, in place."""
    attribute, probabilities = _select_conflicting_shortcut(predictions, label)
    rows = positions.numpy()
    frame.loc[rows, "attribute"] = names[attribute.numpy()]
    frame.loc[rows, "conflicting"] = (attribute != label).numpy()
    frame.loc[rows, "score"] = _score_conflicts(probabilities, label).numpy().round(4)
    frame.loc[rows, [f"p_{name}" for name in names]] = probabilities.numpy().round(4)


def _describe_rows(table: DataTable, rows: Tensor, views: Sequence[str]) -> pd.DataFrame:
    """Return number, line, path or name, and content of rows."""
    frame = pd.DataFrame({"row": rows.numpy()})
    if table.lines is not None:
        frame["line"] = table.lines[rows].numpy()
    if table.row_names is not None and not table.columns:  # rows of columns are only numbered
        frame["path" if table.files is not None else "name"] = [str(table.row_names[row]) for row in rows.tolist()]
    content = table.describe_rows(rows, find_viewed_columns(views, table.columns))
    if content is not None:
        frame[CONTENT] = content
    return frame


def _select_conflicting_shortcut(predictions: Sequence[ShortcutPrediction], label: Tensor) -> ShortcutPrediction:
    """Return of each row the prediction of the first shortcut that it conflicts with, or of the first."""
    attributes = torch.stack([prediction.attribute for prediction in predictions])
    probabilities = torch.stack([prediction.probabilities for prediction in predictions])
    first = (attributes != label).int().argmax(dim=0)
    rows = torch.arange(len(label))
    selected = probabilities[first, rows]
    normalized = (selected / selected.sum(dim=1, keepdim=True)).double()
    return ShortcutPrediction(attributes[first, rows], normalized)


def _score_conflicts(probabilities: Tensor, label: Tensor) -> Tensor:
    """Return the probability (n,) of the likeliest other label, relative to it and the row's label."""
    index = label.unsqueeze(1)
    other = probabilities.scatter(1, index, -1).amax(dim=1)
    return other / (other + probabilities.gather(1, index).squeeze(1) + 1e-12)


def add_predictions(
    frame: pd.DataFrame, classifier: str, positions: Tensor, probabilities: Tensor, table: DataTable
) -> pd.DataFrame:
    """Add a classifier's predictions: ``NAME_label``, and ``NAME_p``, the probability of the row's label.

    Args:
        frame: Of ``build_rows_frame``.
        classifier: One of ``CLASSIFIERS``.
        positions: (m,) of the predicted rows in the frame.
        probabilities: (m, L) of these rows.
        table: The data.
    """
    names = np.asarray(table.label_names, dtype=object)
    rows = positions.numpy()
    label = table.label[torch.tensor(frame["row"].to_numpy())[positions]]
    of_label = probabilities.double().gather(1, label.unsqueeze(1)).squeeze(1)
    frame = frame.assign(**{f"{classifier}_label": None, f"{classifier}_p": np.nan})
    frame.loc[rows, f"{classifier}_label"] = names[probabilities.argmax(dim=1).numpy()]
    frame.loc[rows, f"{classifier}_p"] = of_label.numpy().round(4)
    return frame


def summarize_groups(frame: pd.DataFrame, label_names: Sequence[str]) -> tuple[EstimatedGroup, ...]:
    """Return all groups, label by what a row looks like; none without estimates.

    Args:
        frame: Of ``build_rows_frame``.
        label_names: L names.
    """
    train = frame[(frame["split"] == "train") & frame["attribute"].notna()]
    if train.empty:
        return ()
    members = dict(list(frame.groupby(["label", "attribute"])))
    names = list(label_names)
    counts = pd.crosstab(train["label"], train["attribute"]).reindex(index=names, columns=names, fill_value=0)
    groups = []
    for label, row in counts.iterrows():
        total = int(row.sum())
        lows, highs = wilson_interval(torch.tensor(row.to_numpy()), total)
        for (attribute, count), low, high in zip(row.items(), lows.tolist(), highs.tolist(), strict=True):
            rows = members.get((label, attribute), frame.iloc[:0])
            groups.append(
                EstimatedGroup(
                    label=str(label),
                    attribute=str(attribute),
                    rows=int(count),
                    share=float(count / max(1, total)),
                    share_low=low,
                    share_high=high,
                    network=compute_classifier_accuracy(rows, "network"),
                    fixed=compute_classifier_accuracy(rows, "fixed") if "fixed_label" in frame else None,
                )
            )
    return tuple(groups)


def compute_classifier_accuracy(rows: pd.DataFrame, classifier: str) -> Accuracy:
    """Return the accuracy of a classifier on those of some rows that it has predicted.

    Args:
        rows: Some rows of ``build_rows_frame``.
        classifier: One of ``CLASSIFIERS``.
    """
    predicted = rows[rows[f"{classifier}_label"].notna()]
    num_right = int((predicted[f"{classifier}_label"] == predicted["label"]).sum())
    low, high = wilson_interval(num_right, len(predicted))
    accuracy = num_right / len(predicted) if len(predicted) else None
    return Accuracy(accuracy, float(low), float(high), len(predicted))


def compute_classifier_accuracies(
    frame: pd.DataFrame, classifier: str = BASELINE, num_shortcuts: int = 1
) -> dict[str, ClassifierAccuracy]:
    """Return the accuracies of each classifier, as columns are named, by kinds of rows.

    Which rows conflict is estimated; the intervals only cover the number of rows.

    Args:
        frame: Of ``build_rows_frame``, with predictions.
        classifier: The name of the examined classifier.
        num_shortcuts: Shortcuts that are corrected by; bias-aligned rows agree with all of them.
    """
    estimated = frame[frame["conflicting"].notna()]
    num_combinations = frame["label"].nunique() ** max(1, num_shortcuts)
    cost = {}
    for name in CLASSIFIERS:
        if f"{name}_label" not in estimated or not estimated[f"{name}_label"].notna().any():
            continue
        conflicting = compute_classifier_accuracy(estimated[estimated["conflicting"].eq(True)], name)
        agreeing = compute_classifier_accuracy(estimated[estimated["conflicting"].eq(False)], name)
        cost[name] = ClassifierAccuracy(
            name=classifier if name == "network" else "LC",
            conflicting=conflicting,
            agreeing=agreeing,
            balanced=compute_balanced_accuracy(conflicting, agreeing, num_combinations),
            like_training=compute_classifier_accuracy(estimated, name),
        )
    return cost


def compute_balanced_accuracy(conflicting: Accuracy, agreeing: Accuracy, num_combinations: int) -> Interval:
    """Return the accuracy if one row in ``num_combinations`` were bias-aligned, as with independent attributes."""
    if conflicting.accuracy is None or agreeing.accuracy is None:
        return Interval(None, 0.0, 1.0)
    share = 1 / num_combinations
    accuracy = share * agreeing.accuracy + (1 - share) * conflicting.accuracy
    low = math.hypot(share * (agreeing.low - agreeing.accuracy), (1 - share) * (conflicting.low - conflicting.accuracy))
    high = math.hypot(
        share * (agreeing.high - agreeing.accuracy), (1 - share) * (conflicting.high - conflicting.accuracy)
    )
    return Interval(accuracy, max(0.0, accuracy - low), min(1.0, accuracy + high))


def select_shown_rows(frame: pd.DataFrame) -> tuple[ShownRow, ...]:
    """Return the bias-conflicting training rows of the highest score."""
    train = frame[(frame["split"] == "train") & frame["conflicting"].eq(True)]
    rows = train.sort_values("score", ascending=False, kind="stable")[:MAX_SHOWN_ROWS].rename(columns={CONTENT: "text"})
    names = [field.name for field in fields(ShownRow) if field.name in rows]
    values = rows[names].astype(object)
    records: list[Any] = values.where(values.notna(), None).to_dict("records")
    return tuple(ShownRow(**record) for record in records)


def write_rows(frame: pd.DataFrame, out_dir: Path) -> None:
    """Write ``rows.csv`` and ``rows.parquet`` into a folder."""
    write_spreadsheet_csv(frame.drop(columns=CONTENT, errors="ignore"), out_dir / CSV)
    typed = frame.astype({name: "boolean" for name in frame if name in ("conflicting", "sure")})
    with replace_atomically(out_dir / PARQUET) as temporary:
        typed.to_parquet(temporary, index=False)
