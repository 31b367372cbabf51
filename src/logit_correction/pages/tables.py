"""One row per run: as a frame, as Markdown and on the console."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from logit_correction.errors import format_list, format_percent, is_missing
from logit_correction.pages.estimated import flat_figures, with_estimates
from logit_correction.pages.evidence import answer, sentence_of
from logit_correction.pages.folder import RunFolder
from logit_correction.pages.formatting import format_name, format_value

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of accuracies, fractions in the frame and per cent wherever it is shown.
ACCURACIES = (
    "estimated_minority", "estimated_majority", "average", "group_balanced", "worst_group", "worst_class", "minority",
    "majority",
)  # fmt: skip

#: Groups that a notebook shows.
MOST_GROUPS = 20

_COLUMNS = ("method", "epochs", "seed", *ACCURACIES, "selection")
_HEADINGS = {
    "group_balanced": "Group-balanced",
    "worst_group": "Worst group",
    "worst_class": "Worst label",
    "estimated_minority": "Conflict (est.)",
    "estimated_majority": "Agree (est.)",
}

#: What a reader of a table without attributes is told.
_UNNAMED = "The test rows name no attributes; by plain accuracy a model wins that leans on a shortcut, so none is bold."
_ESTIMATED = "Conflict, agree: rows whose attribute, as it was estimated, does or does not go with their label."


def comparison_table(reports: Sequence[dict[str, Any]], other_selections: bool = False) -> pd.DataFrame:
    """Return one row per run: method, epochs, seed, accuracies on the test split as fractions, and selection.

    Args:
        reports: Contents of ``report.json`` files.
        other_selections: Add a row for every other checkpoint that a run has kept, after the run's own row.

    Returns:
        Frame with NaN for an accuracy that is not defined. Where no run is judged by groups, their columns give way to
        the accuracy where the estimated attribute conflicts with the label, and where it agrees, if that is known, and
        on the worst label.
    """
    rows = []
    for report in reports:
        rows.append(_row(report, report.get("selection") or {}, report["test"], report.get("epochs")))
        for other in (report.get("other_selections") or []) if other_selections else []:
            rows.append(_row(report, other, other["test"], other.get("epoch", report.get("epochs"))))
    by_group = not rows or any(row["worst_group"] is not None for row in rows)
    estimated = ("estimated_minority", "estimated_majority")
    if by_group:
        left_out: tuple[str, ...] = ("worst_class", *estimated)
    else:
        left_out = ("group_balanced", "worst_group", "minority", "majority")
        left_out += () if any(row["estimated_minority"] is not None for row in rows) else estimated
    table = pd.DataFrame(rows, columns=[name for name in _COLUMNS if name not in left_out])
    return table.astype({name: float for name in ACCURACIES if name not in left_out})


def _row(report: dict[str, Any], selection: dict[str, Any], test: dict[str, Any], epochs: Any) -> dict[str, Any]:
    row = {"method": report["method"], "epochs": epochs, "seed": report.get("seed")}
    figures = flat_figures(test)
    row |= {name: figures.get(name) for name in ACCURACIES}
    return row | {"selection": describe_selection(selection)}


def reports_of(folders: Sequence[Path | str]) -> list[dict[str, Any]]:
    """Return the reports of runs that are put side by side: judged by one estimate where nobody named attributes.

    Raises:
        InputError: If a folder holds no finished run.
    """
    return [run.report for run in with_estimates([RunFolder.read(folder) for folder in folders])]


def named(table: pd.DataFrame) -> bool:
    """Return whether the runs of a table are judged by groups that somebody named."""
    return "worst_class" not in table


def groups_table(report: dict[str, Any]) -> pd.DataFrame:
    """Return one row for each group of the test split, as ``GroupReport.groups`` has them.

    Args:
        report: Content of a ``report.json``.
    """
    return pd.DataFrame(report["test"]["groups"])


def run_as_html(report: dict[str, Any]) -> str:
    """Return the figures of one run, what it found and its least accurate groups as HTML, all text escaped.

    Args:
        report: Content of a ``report.json``.
    """
    groups = groups_table(report).sort_values("accuracy")
    parts = [_as_html(comparison_table([report]))]
    evidence = report.get("evidence")
    if evidence:
        parts.append(f"<p>{escape(answer(evidence))}. {escape(sentence_of(evidence))}</p>")
    parts.append(_as_html(groups.head(MOST_GROUPS)[["label", "attribute", "count", "accuracy"]]))
    if len(groups) > MOST_GROUPS:
        parts.append(f"<p>the {MOST_GROUPS} least accurate of {len(groups)} groups; all are in <code>groups</code></p>")
    return "\n".join(parts)


def _as_html(frame: pd.DataFrame) -> str:
    """Return a frame as a table of HTML, accuracies in per cent, without columns that hold nothing."""
    shown = frame.dropna(axis="columns", how="all")
    for name in shown.columns.intersection([*ACCURACIES, "accuracy"]):
        shown = shown.assign(**{name: [format_percent(value, 1) for value in shown[name]]})
    return shown.rename(columns=format_name).to_html(index=False, escape=True, border=0)


def describe_selection(selection: dict[str, Any]) -> str:
    """Return how a checkpoint was chosen, and what it took beyond the labels of the validation rows.

    >>> describe_selection({"rule": "valid_worst_group", "labels_read": ["label", "attribute"]})
    'valid worst group (reads attribute)'
    """
    text = format_name(selection.get("rule", "last"))
    read = [name for name in selection.get("labels_read") or [] if name != "label"]
    return f"{text} (reads {format_list(read)})" if read else text


def heading(column: str) -> str:
    """Return the heading of a column for a reader."""
    return _HEADINGS.get(column, format_name(column).capitalize())


def _cell(column: str, value: Any) -> str:
    if column in ACCURACIES:
        return format_percent(None if is_missing(value) else float(value), digits=1, unit="")
    if column == "seed" and not is_missing(value):
        return str(value)
    return "–" if is_missing(value) else format_value(value.item() if hasattr(value, "item") else value)


def _cells(table: pd.DataFrame) -> list[list[str]]:
    return [[_cell(str(name), row[name]) for name in table.columns] for row in table.to_dict("records")]


def _is_number(table: pd.DataFrame, column: Any) -> bool:
    return column in ACCURACIES or pd.api.types.is_numeric_dtype(table[column])


def _caption(table: pd.DataFrame) -> str | None:
    """Return what is to be said below a table of runs whose test rows name no attributes."""
    told = [_ESTIMATED] if "estimated_minority" in table else []
    return " ".join([*told, _UNNAMED] if len(table) > 1 else told) or None


def to_console(table: pd.DataFrame) -> Table:
    """Return a table for a rich console of 80 columns, in per cent.

    The best of each column is in bold where the runs are judged by groups that somebody named, and nothing otherwise.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title="Accuracy on the test split, %",
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
        caption=None if named(table) else _caption(table),
        caption_justify="left",
    )
    for name in table.columns:
        text = heading(str(name)).replace("-", " ")  # so that it breaks between its words, and nowhere else
        right = _is_number(table, name)
        longest = max(map(len, text.split()))
        shown.add_column(text, justify="right" if right else "left", min_width=longest, overflow="fold")
    judged = [name for name in table.columns if name in ACCURACIES and len(table) > 1 and named(table)]
    best = {name: table[name].max() for name in judged}
    for row, texts in zip(table.to_dict("records"), _cells(table), strict=True):
        cells = zip(table.columns, texts, strict=True)
        styles = {name: "bold" for name in best if row[name] == best[name]}
        shown.add_row(*(Text(text, style=styles.get(name, "")) for name, text in cells))
    return shown
