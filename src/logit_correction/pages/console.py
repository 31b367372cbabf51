"""Tables of runs as frames, and what the commands print; notebooks show the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from logit_correction import sentences
from logit_correction.errors import NBSP, format_first, format_percent, is_missing
from logit_correction.evaluation.report import AttributeFigures, headings
from logit_correction.pages.compare import FIGURES, MEANINGS, RunFolder, flat_figures, sides, with_estimates
from logit_correction.sentences import capitalize, describe_selection, format_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from logit_correction.config import RunConfig
    from logit_correction.data.table import DataTable

#: Columns of accuracies, fractions in the frame and per cent wherever it is shown.
ACCURACIES = [
    *("estimated_minority", "estimated_majority", "average", "group_balanced", "worst_group", "worst_class"),
    *("minority", "majority"),
    *(name for name in FIGURES if name not in MEANINGS),
]

#: Groups that a notebook shows; labels that are named; characters that an attribute's column takes; of more groups
#: those without rows are left out.
MOST_GROUPS, MOST_LABELS, NARROWEST, MOST_EMPTY = 20, 30, 6, 30

_UNNAMED = "The test rows name no attributes; plain accuracy favours models that rely on the shortcut, so none is bold."
_ESTIMATED = "Conflict, agree: rows whose estimated attribute does or does not conflict with their label."


# Tables of runs


def reports_of(folders: Sequence[Path | str]) -> list[dict[str, Any]]:
    """Return the reports of runs that are put side by side: judged by one estimate where nobody named attributes."""
    return [run.report for run in with_estimates([RunFolder.read(folder) for folder in folders])]


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
        own = {**(report.get("selection") or {}), "epoch": report["epochs"], "test": report["test"]}
        for chosen in (own, *(report["other_selections"] if other_selections else ())):
            row = {"method": report["method"], "epochs": chosen["epoch"], "seed": report["seed"]}
            rows.append(flat_figures(chosen["test"]) | row | {"selection": describe_selection(chosen)})
    table = pd.DataFrame(rows, columns=["method", "epochs", "seed", *ACCURACIES, "selection"])
    table = table.astype(dict.fromkeys(ACCURACIES, float))
    estimated, by_group = ["estimated_minority", "estimated_majority"], ["group_balanced", "worst_group"]
    if table.empty or table["worst_group"].notna().any():
        return table.drop(columns=["worst_class", *estimated])
    unknown = [] if table["estimated_minority"].notna().any() else estimated
    return table.drop(columns=[*by_group, "minority", "majority", *unknown])


def run_as_html(report: dict[str, Any]) -> str:
    """Return the figures of one run, what it found and its least accurate groups as HTML, all text escaped."""
    groups, evidence = pd.DataFrame(report["test"]["groups"]).sort_values("accuracy"), report.get("evidence")
    parts = [_as_html(comparison_table([report]))]
    if evidence:
        parts.append(f"<p>{escape(sentences.answer(evidence))}. {escape(str(evidence.get('sentence') or ''))}</p>")
    parts.append(_as_html(groups.head(MOST_GROUPS)[["label", "attribute", "count", "accuracy"]]))
    if len(groups) > MOST_GROUPS:
        parts.append(f"<p>the {MOST_GROUPS} least accurate of {len(groups)} groups; all are in <code>groups</code></p>")
    return "\n".join(parts)


def _as_html(frame: pd.DataFrame) -> str:
    """Return a frame as a table of HTML, accuracies in per cent, without columns that hold nothing."""
    shown = frame.dropna(axis="columns", how="all").rename(columns=format_name)
    return shown.to_html(index=False, border=0, float_format=lambda value: format_percent(value, 1), na_rep="–")


# The console


def console_of(stderr: bool = False) -> Console:
    """Return a console that prints names as they are, whatever brackets they hold."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def table_of(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table without rows for a console: columns of names, and columns of numbers, which stand to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", title_style="", box=None, pad_edge=False)
    for name in (*names, *numbers):
        # A heading breaks between its words, and nowhere else.
        width = max(map(len, name.split()), default=1)
        table.add_column(Text(name), justify="right" if name in numbers else "left", min_width=width, overflow="fold")
    return table


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line of text as it is, on as many lines as it needs."""
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def to_console(table: pd.DataFrame) -> Table:
    """Return a table of runs for a rich console of 80 columns, in per cent; what all runs share is in its title.

    The best of each column is in bold where the runs are judged by groups that somebody named, and nothing otherwise.
    """
    from rich import box
    from rich.text import Text

    named, several = "worst_class" not in table, len(table) > 1
    same = [name for name in ("epochs", "seed") if table[name].nunique(dropna=False) == 1]
    told = [{"epochs": "{} epochs", "seed": "seed {}"}[name].format(table[name].iloc[0]) for name in same]
    columns = [str(name) for name in table.columns if name not in same]
    texts = {name: FIGURES.get(name, capitalize(name)).replace("-", " ") for name in columns}
    numbers = [name for name in columns if name in (*ACCURACIES, "epochs", "seed")]
    shown = table_of(", ".join(["Accuracy on the test split, %", *told]), [], [texts[name] for name in columns])
    for name, column in zip(columns, shown.columns, strict=True):
        column.justify = "right" if name in numbers else "left"
    shown.box, shown.show_edge, shown.collapse_padding, shown.caption_justify = box.SIMPLE_HEAD, False, True, "left"
    captions = [_ESTIMATED] * ("estimated_minority" in table) + [_UNNAMED] * (several and not named)
    shown.caption = " ".join(captions) or None
    best = {name: table[name].max() for name in columns if name in ACCURACIES and several and named}
    for row in table.to_dict("records"):
        cells = [_cell(name, row[name]) for name in columns]
        styles = ["bold" if name in best and row[name] == best[name] else "" for name in columns]
        shown.add_row(*map(Text, cells, styles))
    return shown


def _cell(column: str, value: Any) -> str:
    if column in ACCURACIES:
        return format_percent(value, digits=1, unit="")
    if column == "selection":  # a narrow column
        return str(value).removeprefix("valid ").replace("estimated within", "within").replace("estimated", "est.")
    return "–" if is_missing(value) else str(value)


def announce(config: RunConfig, table: DataTable) -> None:
    """Show what will be trained on: rows per split and counts per group."""
    show_rows(table, config.data.name, config.method.name)


def show_rows(table: DataTable, name: str, method: str = "") -> None:
    """Show the rows of each split and the counts of each group of data of a name."""
    console = console_of(stderr=True)
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in table.split.items())
    of_method = f"{method} on " if method else ""
    say(console, f"{of_method}{name}: {sizes} rows")
    if table.inputs.place is not None:
        say(console, f"inputs {table.inputs.place}")
    for note in (*table.notes, *table.attribute_notes):
        say(console, f"note: {note}", "yellow")
    if table.scoring is not None:
        say(console, f"judged on {len(table.scoring.names)} groups of the data's own, not on those below")
    labels, attributes = list(map(str, table.label_names)), list(map(str, table.attribute_names))
    if not table.has_attributes("train"):
        counted = table.label[table.split["train"]].bincount(minlength=len(labels)).tolist()
        told = [f"{label} {count:,}" for label, count in zip(labels, counted, strict=True)]
        say(console, f"attributes unknown; rows per label: {format_first(told, MOST_LABELS)}")
        return
    counts = table.group_counts("train")
    if len(labels) > MOST_LABELS or len(attributes) * NARROWEST > console.width:
        empty = f"{int((counts == 0).sum()):,} of {counts.numel():,} groups have no training rows"
        groups = f"{len(labels):,} labels x {len(attributes):,} attribute values"
        say(console, f"{groups}: {empty}, the largest has {int(counts.max()):,}")
        return
    shown = table_of("training rows per group (label x attribute)", ["label"], attributes)
    for label, row in zip(labels, counts.tolist(), strict=True):
        shown.add_row(label, *(f"{count:,}" for count in row))
    console.print(shown)


def show_runs(folders: Sequence[Path], page: Path) -> None:
    """Print the figures of finished runs, of several seeds their mean and spread, and what was found."""
    reports, console = reports_of(folders), console_of()
    table = comparison_table(reports)
    console.print(to_console(table))
    if len(set(table["method"])) == 1:
        for report in reports:
            if evidence := report["evidence"]:
                seed = f"seed {report['seed']}: " if len(reports) > 1 else ""
                say(console, f"{seed}{sentences.answer(evidence)}. {evidence.get('sentence') or ''}")
                if told := sentences.advice(evidence):
                    say(console, told)
        for name in ("estimated_minority", "average", "group_balanced", "worst_group"):
            if len(table) > 1 and name in table and bool(table[name].notna().all()):
                mean, spread = 100 * table[name].mean(), 100 * table[name].std()
                seeds = f"in the mean of {len(table)} seeds, standard deviation {spread:.1f}"
                say(console, f"{FIGURES[name]}: {mean:.1f} % {seeds}")
    if len(reports) == 1:
        show_warnings(reports[0]["warnings"], console)
    say(console, f"page: {page}")


def show_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print what a user should know."""
    for warning in warnings:
        say(console, f"warning: {warning}", "yellow")


def show_evaluation(figures: Mapping[str, Any], title: str, estimated: Mapping[str, Any] | None) -> None:
    """Print the groups of an evaluation, the estimated ones first if there are any, and the figures over them."""
    console = console_of()
    if estimated is not None:
        groups = [side for side in sides(estimated["groups"]) if side["count"]]
        console.print(_groups(f"estimated groups: by {estimated['source']}", "estimated attribute", groups))
        conflicts, agrees = (format_percent(estimated[name], 1, "") for name in ("minority", "majority"))
        told = f"where it conflicts {conflicts}, where it agrees {agrees}; nobody named these attributes"
        say(console, f"accuracy %: {told}\n")
    groups = [one for one in figures["groups"] if one["count"] or len(figures["groups"]) <= MOST_EMPTY]
    console.print(_groups(title, "attribute", groups))
    if empty := len(figures["groups"]) - len(groups):
        say(console, f"{empty:,} groups without rows are left out")
    if figures["by_attribute"]:
        shown = {k: text for k, text in headings(AttributeFigures).items() if k not in ("attribute", "count")}
        numbers = ["Rows", *(f"{text} %" for text in shown.values())]
        table = table_of("by attribute, all labels together", ["Attribute"], numbers)
        for row in figures["by_attribute"]:
            cells = (format_percent(row[name], 1, "") for name in shown)
            table.add_row(row["attribute"], f"{row['count']:,}", *cells)
        console.print(table)
    known = [name for name in FIGURES if figures.get(name) is not None]
    told = ", ".join(f"{name.replace('_', '-')} {format_percent(figures[name], 1, '')}" for name in known)
    say(console, f"accuracy %: {told}")


def _groups(title: str, attribute: str, groups: Sequence[Mapping[str, Any]]) -> Table:
    table = table_of(title, ("label", attribute), ("rows", "accuracy %", "95 % interval"))
    for group in groups:
        accuracy, low, high = (format_percent(group[name], 1, "") for name in ("accuracy", "low", "high"))
        interval = "" if group["accuracy"] is None else f"{low} - {high}"
        table.add_row(group["label"], group["attribute"] or "unknown", f"{group['count']:,}", accuracy, interval)
    return table


def show_audit(found: Mapping[str, Any], page: Path, to_fill_in: str = "") -> None:
    """Print what an audit found, what it costs and where the page is.

    Args:
        found: Content of ``audit.json``.
        page: Where the page is.
        to_fill_in: What a person does with the sheet, if one was written.
    """
    console = console_of()
    say(console, f"{sentences.headline(found)} {found['evidence']['sentence']}")
    for line in sentences.label_lines(found["labels"]):
        say(console, f"  {line}")
    for entry in found["cost"].values():
        conflicting, agreeing = entry["conflicting"], entry["agreeing"]
        if conflicting["rows"]:
            low, high = (format_percent(conflicting[end], 1, "") for end in ("low", "high"))
            there, elsewhere = (format_percent(group["accuracy"], 1, " %") for group in (conflicting, agreeing))
            rows = f"{conflicting['rows']:,} conflicting rows ({low} to {high})"
            say(console, f"{capitalize(entry['name'])}: right in {there} of {rows}, {elsewhere} of the others")
    labelled = [found["labelled"]["sentence"]] if found["labelled"] else []
    asked = [found["question"]["text"]] if found["question"] else []
    for text in (sentences.price(found["cost"]), *labelled, *asked, found["would_change"]):
        if text:
            say(console, text.replace(NBSP, " "))
    show_warnings(found["data"]["warnings"], console)
    if to_fill_in:
        say(console, to_fill_in)
    say(console, f"page: {page}")
