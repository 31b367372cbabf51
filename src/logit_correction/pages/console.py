"""Tables of runs as frames, and what the commands print; notebooks show the same."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from logit_correction.evaluation.report import GroupRow, Report, get_metrics
from logit_correction.finding_text import advise_user, describe_finding, name_conclusion
from logit_correction.formatting import (
    format_decimal,
    format_first,
    format_name,
    format_percent,
    format_value,
    wrap_prose,
)
from logit_correction.pages.compare import FIGURES, build_comparison_table, find_best_value, read_reports, sides

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from logit_correction.data.table import DataTable

#: Characters of a line of a heading, of the columns after the first.
HEADING_WIDTH = 11

#: Labels that are named; characters that an attribute's column takes; of more groups those without rows are left out.
MOST_LABELS, NARROWEST, MOST_EMPTY = 30, 6, 30

_HEADINGS = {name: one.heading for name, one in (FIGURES | get_metrics(GroupRow)).items()}
_HEADINGS |= {"method": "Method", "epochs": "Epochs", "seed": "Seed", "selection": "Selection"}
_UNNAMED = "The test rows name no attributes; plain accuracy favours models that rely on the shortcut, so none is bold."


# Tables of runs


def render_run_html(report: Report) -> str:
    """Return the figures of one run and what it found as HTML, all text escaped; ``Run.groups`` has its groups."""
    shown = build_comparison_table([report]).dropna(axis="columns", how="all").rename(columns=format_name)
    table = shown.to_html(index=False, border=0, float_format=lambda value: format_percent(value, 1))
    found = _found(report)
    return f"{table}\n<p>{escape(found)}</p>"


def _found(report: Report) -> str:
    finding = report.finding
    return f"shortcut: {name_conclusion(finding)}. {describe_finding(finding)}" if finding else ""


# The console


def make_console(stderr: bool = False) -> Console:
    """Return a console that prints names as they are, whatever brackets they hold."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def build_console_table(frame: pd.DataFrame, best: Mapping[str, float | None] | None = None) -> Table:
    """Return a frame as a table for a console: numbers to the right, fractions in per cent, the best in bold."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.title_justify = table.caption_justify = "left"
    for name, kind in zip(map(str, frame.columns), frame.dtypes, strict=True):
        heading = _HEADINGS.get(name, name).replace("-", " ")
        if table.columns:
            heading = textwrap.fill(heading, HEADING_WIDTH, break_long_words=False)
        width = max(map(len, heading.split()), default=1)  # a heading breaks between its words, and nowhere else
        side: Any = "right" if pd.api.types.is_numeric_dtype(kind) else "left"
        table.add_column(Text(heading), justify=side, min_width=width, overflow="fold")
    marks = [(best or {}).get(str(name)) for name in frame.columns]
    for row in frame.itertuples(index=False, name=None):
        cells = [format_percent(one, 1, "") if isinstance(one, float) else format_value(one) for one in row]
        styles = ["bold" if mark is not None and one == mark else "" for one, mark in zip(row, marks, strict=True)]
        table.add_row(*map(Text, cells, styles))
    return table


def print_wrapped(console: Console, text: str, style: str = "") -> None:
    """Print text, which a terminal shows on as many lines as it needs."""
    print_verbatim(console, wrap_prose(text, console.file), style)


def print_verbatim(console: Console, text: str, style: str = "") -> None:
    """Print a line as it is, for what is to be copied, such as a command or a path."""
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def build_runs_table(table: pd.DataFrame, named: bool) -> Table:
    """Return a table of runs for a rich console of 80 columns, in per cent; what all runs share is in its title.

    The best of each column is in bold where the test rows have ``named`` attributes, and nothing otherwise.
    """
    rules = table["selection"].str.removeprefix("valid ").str.replace("estimated within", "within")
    texts = {name: table[name].map(str) for name in ("epochs", "seed")}
    table = table.assign(**texts, selection=rules.str.replace("estimated", "est."))
    same = [name for name in texts if table[name].nunique() == 1]
    told = [f"{table[name].iloc[0]} epochs" if name == "epochs" else f"seed {table[name].iloc[0]}" for name in same]
    best = {name: find_best_value(name, table[name]) for name in FIGURES if name in table and named}
    shown = build_console_table(table.drop(columns=same), best)
    for column in shown.columns:  # a word a line, so that there is room for names
        column.header = "\n".join(str(column.header).split())
    for column, name in ((shown.columns[0], "method"), (shown.columns[-1], "selection")):
        column.no_wrap = len(shown.columns) < 9 and bool((table[name].str.len() <= len("within error")).all())
    shown.padding = (0, 1 if len(shown.columns) < 8 else 0)
    shown.title, shown.title_style = ", ".join(["Accuracy on the test split, %", *told]), ""
    shown.min_width = len(str(shown.title))  # a title wraps at the width of its table
    shown.caption = _UNNAMED if len(table) > 1 and not named else None
    return shown


def print_data_summary(table: DataTable, name: str, method: str = "") -> None:
    """Show the rows of each split and the counts of each group of data of a name, and what will be trained on them."""
    console = make_console(stderr=True)
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in table.split.items())
    of_method = f"{method} on " if method else ""
    print_wrapped(console, f"{of_method}{name}: {sizes} rows")
    for note in (*table.notes, *table.attribute_notes):
        print_wrapped(console, f"note: {note}", "yellow")
    if table.scoring is not None:
        print_wrapped(console, f"judged on {len(table.scoring.names)} groups of the data's own, not on those below")
    labels, attributes = list(map(str, table.label_names)), list(map(str, table.attribute_names))
    if not table.has_attributes("train"):
        counted = table.label[table.split["train"]].bincount(minlength=len(labels)).tolist()
        told = [f"{label} {count:,}" for label, count in zip(labels, counted, strict=True)]
        print_wrapped(console, f"attributes unknown; rows per label: {format_first(told, MOST_LABELS)}")
        return
    counts = table.count_groups("train")
    if len(labels) > MOST_LABELS or len(attributes) * NARROWEST > console.width:
        empty = f"{int((counts == 0).sum()):,} of {counts.numel():,} groups have no training rows"
        groups = f"{len(labels):,} labels x {len(attributes):,} attribute values"
        print_wrapped(console, f"{groups}: {empty}, the largest has {int(counts.max()):,}")
        return
    shown = pd.DataFrame(counts.tolist(), columns=attributes)
    shown.insert(0, "label", labels, allow_duplicates=True)
    print_wrapped(console, "training rows per group (label x attribute)")
    console.print(build_console_table(shown))


def print_runs(folders: Sequence[Path], page: Path, told: Sequence[str] = ()) -> None:
    """Print figures of finished runs, of several seeds mean and spread, what was found, and warnings not ``told``."""
    reports, console = read_reports(folders), make_console()
    table = build_comparison_table(reports)
    console.print(build_runs_table(table, any(report.test.has_groups for report in reports)))
    if len({report.method for report in reports}) == 1:
        for report in reports:
            if report.finding:
                seed = f"seed {report.seed}: " if len(reports) > 1 else ""
                print_wrapped(console, f"{seed}{_found(report)}.")
                if advice := advise_user(report.finding):
                    print_wrapped(console, advice)
        for name in FIGURES:
            if len(table) > 1 and name in table and bool(table[name].notna().all()):
                mean, spread = 100 * table[name].mean(), 100 * table[name].std()
                seeds = f"in the mean of {len(table)} seeds, standard deviation {spread:.1f}"
                print_wrapped(console, f"{FIGURES[name].heading}: {mean:.1f} % {seeds}")
    if len(reports) == 1:
        print_warnings([one for one in reports[0].warnings if one not in told], console)
    print_verbatim(console, f"page: {page}")


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print what a user should know."""
    for warning in warnings:
        print_wrapped(console, f"warning: {warning}", "yellow")


def print_evaluation(evaluation: Mapping[str, Any], title: str, estimated: Mapping[str, Any] | None) -> None:
    """Print the groups of an evaluation, the estimated ones first if there are any, and the figures over them."""
    console, columns = make_console(), ["label", "attribute", "count", "accuracy", "low", "high"]

    def show(groups: Any, what: str) -> None:
        whole = pd.DataFrame(groups)
        frame = whole[columns].astype(dict.fromkeys(columns[3:], float))
        for name in whole.columns.difference(list(get_metrics(GroupRow)), sort=False):  # a metric need not be a share
            frame[name.replace("_", " ")] = list(map(format_decimal, whole[name]))
        frame = frame.drop(columns="attribute") if frame["attribute"].isna().all() else frame
        shown = frame if len(frame) <= MOST_EMPTY else frame[frame["count"] > 0]
        print_wrapped(console, f"{what}: accuracy in %, with its 90 % interval")
        console.print(build_console_table(shown))
        if empty := len(frame) - len(shown):
            print_wrapped(console, f"{empty:,} groups without rows are left out")

    if estimated is not None:
        show(sides(estimated["groups"]).query("count > 0"), f"groups by {estimated['source']}")
        conflicts, agrees = (format_percent(estimated[name], 1, "") for name in ("minority", "majority"))
        print_wrapped(
            console, f"accuracy in %: bias-conflicting {conflicts}, bias-aligned {agrees}, both by the estimate\n"
        )
    show(evaluation["groups"], title)
    known = [name for name in FIGURES if evaluation.get(name) is not None]
    told = ", ".join(f"{FIGURES[name].heading.lower()} {format_percent(evaluation[name], 1, '')}" for name in known)
    print_wrapped(console, f"accuracy in %: {told}")
