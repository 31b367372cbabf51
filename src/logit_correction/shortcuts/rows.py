"""The rows of an audit: the table behind ``rows.csv``, and the figures that are computed from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.atomic_files import replace_atomically
from logit_correction.data.table import DataTable
from logit_correction.functional import wilson_interval
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.evidence import predict_and_flag_conflicts
from logit_correction.shortcuts.heads import ShortcutPrediction
from logit_correction.shortcuts.search import EstimatedCandidate
from logit_correction.shortcuts.summaries import Accuracy, ClassifierAccuracy, EstimatedGroup, Interval, ShownRow
from logit_correction.spreadsheets import write_spreadsheet_csv
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
    table: DataTable, estimator: Auto, views: Sequence[str], candidate: EstimatedCandidate | None
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
    shown_views = candidate.views if candidate else views
    train = torch.arange(len(table.split["train"]))
    frame = _build_part(table, "train", train, shown_views, estimator.estimates if views else ())
    examined = search.held_out.rows
    if search.held_out.split == "valid":
        estimates = _predict_estimates(table, "valid", examined, estimator) if views else ()
        part = _build_part(table, "valid", examined, shown_views, estimates)
        examined = len(frame) + torch.arange(len(part))
        frame = pd.concat([frame, part], ignore_index=True)
    if candidate is not None:
        _fill_in_estimates(frame, examined, [candidate.held_out], table)
    if shown_views:
        evaluated = candidate or search.get_candidate(views)
        assert evaluated is not None
        predicted, is_sure = predict_and_flag_conflicts(search.predictions[evaluated.views], search.label)
        frame.loc[examined.numpy(), "view_label"] = np.asarray(table.label_names, dtype=object)[predicted.numpy()]
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
    parts = [frame]
    for split in table.drawn:
        missing = torch.from_numpy(~np.isin(table.split[split], frame["row"])).nonzero().flatten()
        estimates = _predict_estimates(table, split, missing, estimator)
        parts.append(_build_part(table, split, missing, views, estimates))
    return pd.concat(parts, ignore_index=True)


def _predict_estimates(table: DataTable, split: str, positions: Tensor, estimator: Auto) -> list[ShortcutPrediction]:
    """Return what each shortcut predicts of the rows at some positions of a split."""
    label = table.label[table.split[split][positions]]
    return estimator.predict_shortcuts(label, table.view_inputs(split).take(positions))


def _build_part(
    table: DataTable, split: str, positions: Tensor, views: Sequence[str], estimates: Sequence[ShortcutPrediction]
) -> pd.DataFrame:
    """Return the rows at some positions of a split; columns of estimates are empty where there are none."""
    rows = table.split[split][positions]
    frame = _describe_rows(table, rows, views).assign(
        split=split,
        label=np.asarray(table.label_names, dtype=object)[table.label[rows].numpy()],
        attribute=None,
        conflicting=None,
        score=np.nan,
        view_label=None,
        sure=None,
    )
    frame = frame.assign(**{f"p_{name}": np.nan for name in table.label_names})
    if estimates:
        _fill_in_estimates(frame, torch.arange(len(rows)), estimates, table)
    return frame


def _fill_in_estimates(
    frame: pd.DataFrame, positions: Tensor, predictions: Sequence[ShortcutPrediction], table: DataTable
) -> None:
    """Fill in attributes, conflicts, scores and probabilities of the rows at some positions, in place."""
    label = _get_labels(frame, positions, table)
    attribute, probabilities = _select_conflicting_shortcut(predictions, label)
    rows = positions.numpy()
    frame.loc[rows, "attribute"] = np.asarray(table.label_names, dtype=object)[attribute.numpy()]
    frame.loc[rows, "conflicting"] = (attribute != label).numpy()
    frame.loc[rows, "score"] = _score_conflicts(probabilities, label).numpy().round(4)
    frame.loc[rows, [f"p_{name}" for name in table.label_names]] = probabilities.numpy().round(4)


def _get_labels(frame: pd.DataFrame, positions: Tensor, table: DataTable) -> Tensor:
    """Return the labels (n,) of the rows at some positions of a frame."""
    return table.label[torch.tensor(frame["row"].to_numpy())[positions]]


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
    label = _get_labels(frame, positions, table)
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
    totals = train["label"].value_counts()
    groups = []
    for label, attribute in product(label_names, repeat=2):
        rows = members.get((label, attribute), frame.iloc[:0])
        count = int(rows["split"].eq("train").sum())
        total = int(totals.get(label, 0))
        low, high = wilson_interval(count, total)
        groups.append(
            EstimatedGroup(
                label=label,
                attribute=attribute,
                rows=count,
                share=count / max(1, total),
                share_low=float(low),
                share_high=float(high),
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
    frame: pd.DataFrame, examined_name: str, num_shortcuts: int
) -> dict[str, ClassifierAccuracy]:
    """Return the accuracies of each classifier, as columns are named, by kinds of rows.

    Which rows conflict is estimated; the intervals only cover the number of rows.

    Args:
        frame: Of ``build_rows_frame``, with predictions.
        examined_name: What texts call the examined classifier.
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
            name=examined_name if name == "network" else "LC",
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
