"""How labels differ as the views of a shortcut see them: words, values of columns, and images, with their counts.

People cannot judge a view by its name alone. These tables and images show them what it has found in their data.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.data.table import DataTable
from logit_correction.shortcuts.conflicts import ValueFormatter, build_image_contrast
from logit_correction.shortcuts.heads import select_features_by_correlation, standardize
from logit_correction.shortcuts.summaries import Contrast, ContrastRow
from logit_correction.shortcuts.terms import format_term_rows, select_distinct_terms
from logit_correction.types import Array, ViewInputs
from logit_correction.view_names import ViewName
from logit_correction.views.base import View, available_views, find_views
from logit_correction.views.tables import (
    Pairs,
    assign_bins,
    compare_column_values,
    compute_edges_by_label,
    describe_bins,
    find_missing_values,
    find_most_frequent_categories,
    is_numeric,
)
from logit_correction.views.texts import Form, TermView

#: Terms of each label: of the views of a shortcut, and of those that are always shown.
MAX_TERMS = 4
MAX_TYPICAL_TERMS = 8

#: Terms of the greatest correlation among which each of these is chosen: many of them may be in the same rows.
CANDIDATES_PER_TERM = 8

#: Values of a column, bins of its numbers, and parts of each of two columns.
MAX_VALUES = 12
MAX_BINS = 6
MAX_PAIR_PARTS = 4

#: Name of the part of rows without a value.
MISSING = "(missing)"


class ColumnParts(NamedTuple):
    """The part of a column that each row is in (N,), and all parts in order."""

    part: Array
    order: list[str]


def build_contrasts(table: DataTable, frame: pd.DataFrame, views: Sequence[str]) -> tuple[Contrast, ...]:
    """Return how labels differ by the views of a shortcut; images of all views together.

    Args:
        table: The data.
        frame: The rows of the audit, with their estimates.
        views: Names of the views.
    """
    if not views:
        return ()
    inputs = table.view_inputs("train")
    contrasts = []
    for view in find_views(views, inputs):
        contrasts += _build_view_contrast(table, view, inputs)
    images = build_image_contrast(table, frame[frame["split"] == "train"], views)
    return tuple([*contrasts, images] if images else contrasts)


def _build_view_contrast(
    table: DataTable, view: View, inputs: ViewInputs, max_terms: int = MAX_TERMS
) -> list[Contrast]:
    """Return how labels differ by a view; an empty list for a view whose features have no names."""
    label = table.label[table.split["train"]]
    label_names = np.asarray(table.label_names, dtype=object)[label.numpy()]
    family, member = ViewName.parse(view.name)
    if isinstance(view, TermView):
        view.fit(inputs)
        features = view.features(inputs)
        rows = _build_term_contrast_rows(
            view.terms, features, label, table.label_names, max_terms, view.name == "characters"
        )
        return [Contrast("terms", view.name, format_term_rows(view, rows, inputs.texts or []))]
    if view.name == "missing":
        gaps = {column: find_missing_values(values) for column, values in inputs.columns.items()}
        gaps = {column: is_missing for column, is_missing in gaps.items() if is_missing.any()}
        features = torch.from_numpy(np.stack([*gaps.values()], axis=1)).float()
        return [Contrast("terms", view.name, _build_term_contrast_rows([*gaps], features, label, table.label_names))]
    if family == "column" and member in inputs.columns:
        format_values = partial(table.format_column_values, member)
        parts = assign_column_parts(np.asarray(inputs.columns[member]), label_names, format_values)
    elif isinstance(view, Pairs):
        parts = _assign_column_pair_parts(table, view, inputs, label_names)
    else:
        return []
    return [Contrast("values", view.name, _build_value_contrast_rows(parts, label_names))]


def describe_texts(table: DataTable) -> tuple[Contrast, ...]:
    """Return the typical words of each label, and the form of its texts, independent of the search."""
    inputs = table.view_inputs("train")
    if inputs.texts is None:
        return ()
    label = table.label[table.split["train"]]
    contrasts = []
    for view in available_views(inputs, ("word", "opening", "closing")):
        contrasts += _build_view_contrast(table, view, inputs, MAX_TYPICAL_TERMS)
    form = _build_text_form_contrast_rows(Form().features(inputs), label, table.label_names)
    return (*contrasts, Contrast("numbers", Form.name, form))


def _build_text_form_contrast_rows(
    features: Tensor, label: Tensor, label_names: Sequence[str]
) -> tuple[ContrastRow, ...]:
    """Return what the texts of a label have more of than all others, in standard deviations."""
    values = standardize(features, *torch.std_mean(features, dim=0))
    rows = []
    for index, name in enumerate(label_names):
        difference = values[label == index].mean(dim=0) - values[label != index].mean(dim=0)
        for column in difference.topk(MAX_TERMS).indices.tolist():
            term = Form.names[column]
            if difference[column] > 0:  # what a label has less of, another has more of
                quoted = f"“{term}”" if len(term) == 1 else term
                rows.append(ContrastRow(str(name), term=quoted, deviations=float(difference[column])))
    return tuple(rows)


def _build_term_contrast_rows(
    terms: Sequence[str],
    features: Tensor,
    label: Tensor,
    label_names: Sequence[str],
    max_terms: int = MAX_TERMS,
    are_parts: bool = False,
) -> tuple[ContrastRow, ...]:
    """Return the terms that correlate most with each label, and the rows of this and of other labels with them."""
    sizes = torch.bincount(label, minlength=len(label_names)).clamp_min(1)
    strongest = select_features_by_correlation(features, label, len(label_names), max_terms * CANDIDATES_PER_TERM)
    rows: dict[int, ContrastRow] = {}
    for column in strongest.tolist():
        counts = torch.bincount(label[features[:, column] > 0], minlength=len(label_names))
        if not counts.any():  # a view that learnt no term has one empty feature
            continue
        best = int((counts / sizes).argmax())
        count = int(counts[best])
        other_count = int(counts.sum()) - count
        rows[column] = ContrastRow(
            str(label_names[best]),
            term=terms[column],
            rows=count,
            other_rows=other_count,
            share=count / int(sizes[best]),
            other_share=other_count / max(1, int((label != best).sum())),
        )
    by_difference = sorted(rows, key=lambda column: (rows[column].other_share or 0) - (rows[column].share or 0))
    shown: list[int] = []
    has_term = features.numpy() > 0
    for name in map(str, label_names):
        of_label = [column for column in by_difference if rows[column].label == name]
        shown += select_distinct_terms(of_label, has_term, max_terms, are_parts)
    return tuple(rows[column] for column in by_difference if column in shown)


def assign_column_parts(
    values: Array,
    label: Array,
    format_values: ValueFormatter,
    max_values: int = MAX_VALUES,
    prefix: str = "",
) -> ColumnParts:
    """Divide a column into its values, or into the commonest names, or into bins of numbers.

    Bins end where the label changes: bins of equally many rows would hide where that is.

    Args:
        values: (N,) numbers or names.
        label: (N,) labels, or other sides of which each has other values.
        format_values: Writes numbers for people.
        max_values: Values with a part of their own; a column with more distinct numbers is cut into bins.
        prefix: What stands before the name of each part.
    """
    if is_numeric(values):
        unique = np.unique(values[np.isfinite(values)])
        cuts = unique[1:].tolist()
        if len(unique) > max_values:
            cuts = compute_edges_by_label(values, label, min(max_values, MAX_BINS))
        names = describe_bins(values, cuts, format_values)
    else:
        cuts = find_most_frequent_categories(values[values != ""], max_values)
        names = [*cuts, "(others)"]
    order = [prefix + name for name in (*names, MISSING)]
    return ColumnParts(np.asarray(order, dtype=object)[assign_bins(values, cuts)], order)


def _format_shortest(values: Array) -> list[str]:
    """Return numbers with four digits, or with enough to distinguish them; beyond twelve digits there is noise."""
    for digits in range(4, 13):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values.tolist())):
            break
    return texts


def _assign_column_pair_parts(table: DataTable, pair: Pairs, inputs: ViewInputs, label: Array) -> ColumnParts:
    """Divide two columns together in the way that predicts the label best.

    Ways are: which of two numbers is larger, bins of their difference or ratio, and a part of each column.
    """
    name, other_name = pair.columns
    first, second = (np.asarray(inputs.columns[column]) for column in pair.columns)
    divisions = []
    if is_numeric(first) and is_numeric(second):
        order = [f"{name} < {other_name}", f"{name} = {other_name}", f"{name} > {other_name}", MISSING]
        divisions.append(ColumnParts(np.asarray(order, dtype=object)[compare_column_values(first, second)], order))
        x = first.astype(np.float64)
        y = second.astype(np.float64)
        divisions.append(assign_column_parts(x - y, label, _format_shortest, prefix=f"{name} − {other_name} "))
        if (y != 0).all():
            divisions.append(assign_column_parts(x / y, label, _format_shortest, prefix=f"{name} / {other_name} "))
    parts, others = (
        assign_column_parts(values, label, partial(table.format_column_values, column), MAX_PAIR_PARTS, f"{column} ")
        for column, values in zip(pair.columns, (first, second), strict=True)
    )
    order = [f"{part}, {other}" for part in parts.order for other in others.order]
    divisions.append(ColumnParts(parts.part + ", " + others.part, order))

    def count_right(division: ColumnParts) -> int:
        counts = pd.crosstab(division.part, label)
        return int(counts.max(axis=1).sum()) - len(counts)  # a part has to be worth a row

    return max(divisions, key=count_right)


def _build_value_contrast_rows(parts: ColumnParts, label: Array) -> tuple[ContrastRow, ...]:
    """Return the commonest label of each part that has rows, and how many rows have it and others."""
    counts = pd.crosstab(parts.part, label)
    return tuple(
        ContrastRow(str(row.idxmax()), value=str(part), rows=int(row.max()), other_rows=int(row.sum() - row.max()))
        for part, row in counts.reindex([*dict.fromkeys(parts.order)]).dropna().iterrows()
    )
