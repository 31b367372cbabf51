"""The rows that a person has labelled: what ERM and the advice predict of them, and which of the two is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from logit_correction.evaluation.answers import AnswerCounts
from logit_correction.shortcuts.averaging import predict_average
from logit_correction.shortcuts.new_rows_table import NewRows, format_new_row_name
from logit_correction.shortcuts.summaries import AnsweredRow, Selection
from logit_correction.types import Array


def list_answered_rows(rows: NewRows, selection: Selection, label_names: Sequence[str]) -> tuple[AnsweredRow, ...]:
    """Return the rows of sheets that were answered, those first on which ERM and the advice predict different labels.

    Where ERM is advised, it is compared with the average of the candidates by the answers, if there is one, so that a
    person sees why that is not advised.

    Args:
        rows: With all answers.
        selection: By these answers.
        label_names: L names.
    """
    compared = _predict_by_advice(rows, selection)
    answered = []
    for position in np.flatnonzero((rows.rounds >= 1) & (rows.label >= 0)).tolist():
        description = rows.descriptions.iloc[position]
        content = description.get("content")
        answered.append(
            AnsweredRow(
                row=int(description["row"]),
                name=format_new_row_name(description),
                label=label_names[rows.label[position]],
                erm_label=label_names[rows.predictions[0, position]],
                compared_label=None if compared is None else label_names[compared[position]],
                text=None if content is None or pd.isna(content) else str(content),
            )
        )
    return tuple(sorted(answered, key=lambda row: not row.is_disputed))


def _predict_by_advice(rows: NewRows, selection: Selection) -> Array | None:
    """Return the labels (M,) that the average or the advised candidate predicts; None where there is only ERM."""
    weight = np.array([candidate.weight or 0.0 for candidate in selection.candidates])
    return predict_average(rows.predictions, rows.logits, weight) if weight[1:].any() else None


def count_answers(selection: Selection) -> AnswerCounts | None:
    """Return on how many answered rows ERM and the advice are right; None where ERM is compared with nothing."""
    rows = selection.answered_rows
    if not rows or rows[0].compared_label is None:
        return None
    disputed = [row for row in rows if row.is_disputed]
    return AnswerCounts(
        num_answers=len(rows),
        num_disputed=len(disputed),
        erm_right=sum(row.erm_label == row.label for row in disputed),
        advice_right=sum(row.compared_label == row.label for row in disputed),
        both_right=sum(row.erm_label == row.label for row in rows if not row.is_disputed),
        is_advised=bool(selection.members),
    )
