"""Prints tables of runs, data and evaluations for the commands; notebooks show the same tables.

Every function that prints takes plain results, so that commands need no code for layout.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from logit_correction.evaluation.report import GroupRow, Report, get_metrics
from logit_correction.finding_text import advise_user, describe_conclusion, describe_finding
from logit_correction.formatting import (
    NBSP,
    format_decimal,
    format_first,
    format_name,
    format_percent,
    format_value,
    shorten_words,
    wrap_prose,
)
from logit_correction.pages.compare import (
    SHOWN_METRICS,
    build_comparison_table,
    describe_refits,
    find_best_value,
    read_comparable_reports,
    sum_groups_by_alignment,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from logit_correction.data.table import DataTable

#: Characters of a line of a heading, in all columns but the first.
HEADING_WIDTH = 11

#: Characters of a word in a table beyond which its middle is left out, and in a table of many columns; pages and JSON
#: have it whole.
MAX_WORD_LENGTH = 24
MAX_WORD_LENGTH_OF_MANY = 14

#: Largest number of labels that are listed one by one.
MAX_LABELS = 30

#: Characters of a line in which any table has room.
MAX_TABLE_WIDTH = 10**6

#: If there are more groups than this, those without rows are left out.
MAX_GROUPS = 30

_HEADINGS = {name: metric.heading for name, metric in (SHOWN_METRICS | get_metrics(GroupRow)).items()}
_HEADINGS |= {"method": "Method", "epochs": "Epochs", "seed": "Seed", "selection": "Selection"}
_NO_GROUPS = "The test rows name no attributes; plain accuracy favours models that use the shortcut, so none is bold."


def render_run_html(report: Report) -> str:
    """Return the metrics and the finding of one run as HTML for notebooks, with all text escaped."""
    frame = build_comparison_table([report]).dropna(axis="columns", how="all").rename(columns=format_name)
    table = frame.to_html(index=False, border=0, float_format=lambda value: format_percent(value, 1, f"{NBSP}%"))
    return f"{table}\n<p>{escape(_describe_shortcut(report))}</p>"


def _describe_shortcut(report: Report) -> str:
    """Return what the search of a run concluded; empty if the run made no search."""
    finding = report.finding
    return f"shortcut: {describe_conclusion(finding)}. {describe_finding(finding)}" if finding else ""


def make_console(stderr: bool = False) -> Console:
    """Return a console that prints names unchanged: brackets in them are not markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def build_console_table(
    frame: pd.DataFrame,
    best: Mapping[str, float | None] | None = None,
    max_word_length: int = MAX_WORD_LENGTH,
) -> Table:
    """Return a frame as a table for a console, with numbers to the right and fractions in per cent.

    Args:
        frame: Floats are fractions; other values are printed by ``format_value``.
        best: Column -> value that is printed in bold.
        max_word_length: Characters of a word beyond which its middle is left out.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.title_justify = "left"
    table.caption_justify = "left"
    best_values = [(best or {}).get(str(name)) for name in frame.columns]
    for name, dtype in frame.dtypes.items():
        heading = shorten_words(_HEADINGS.get(str(name), str(name)).replace("-", " "), max_word_length)
        if table.columns:
            heading = textwrap.fill(heading, HEADING_WIDTH, break_long_words=False)
        justify: Any = "right" if pd.api.types.is_numeric_dtype(dtype) else "left"
        longest_word = max(map(len, heading.split()), default=1)  # a heading breaks only between its words
        table.add_column(Text(heading), justify=justify, min_width=longest_word, overflow="fold")
    for row in frame.itertuples(index=False, name=None):
        cells = []
        for value, best_value in zip(row, best_values, strict=True):
            text = format_percent(value, 1, "") if isinstance(value, float) else format_value(value)
            text = shorten_words(text, max_word_length)
            cells.append(Text(text, "bold" if best_value is not None and value == best_value else ""))
        table.add_row(*cells)
    return table


def print_wrapped(console: Console, text: str, style: str = "") -> None:
    """Print prose; a terminal breaks it between words, a file or pipe gets it as one line.

    Args:
        console: Where to print.
        text: The text.
        style: Style of rich, such as ``bold`` or ``yellow``.
    """
    print_verbatim(console, wrap_prose(text, console.file), style)


def print_verbatim(console: Console, text: str, style: str = "") -> None:
    """Print text unbroken, so that a user can copy it: a command or a path.

    Args:
        console: Where to print.
        text: The text.
        style: Style of rich, such as ``bold`` or ``yellow``.
    """
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def build_runs_table(table: pd.DataFrame, has_groups: bool) -> Table:
    """Return a comparison table for a console of 80 columns, with what all runs share in its title.

    Args:
        table: What ``build_comparison_table`` returns.
        has_groups: Whether the test rows have known attributes. Only then the best of each column is in bold, as plain
            accuracy favours models that rely on the shortcut.
    """
    rules = table["selection"].str.replace("valid ", "").str.replace("estimated within", "within")
    table = table.assign(
        epochs=table["epochs"].map(str),
        seed=table["seed"].map(str),
        selection=rules.str.replace("estimated", "est."),
    )
    best = {name: find_best_value(name, table[name]) for name in SHOWN_METRICS if name in table and has_groups}
    shared = [name for name in ("epochs", "seed") if table[name].nunique() == 1]
    title = "Accuracy on the test split, %"
    for name in shared:
        value = table[name].iloc[0]
        title += f", {value} epochs" if name == "epochs" else f", seed {value}"
    console_table = build_console_table(table.drop(columns=shared), best, MAX_WORD_LENGTH_OF_MANY)
    columns = console_table.columns
    for column in columns:
        column.header = "\n".join(str(column.header).split())  # one word a line leaves room for names
    for column, name in ((columns[0], "method"), (columns[-1], "selection")):
        column.no_wrap = len(columns) < 9 and bool((table[name].str.len() <= len("within error")).all())
    console_table.padding = (0, 1 if len(columns) < 8 else 0)
    console_table.title = title
    console_table.title_style = ""
    console_table.min_width = len(title)  # a title wraps at the width of its table
    console_table.caption = _NO_GROUPS if len(table) > 1 and not has_groups else None
    return console_table


def print_data_summary(table: DataTable, name: str, method: str = "") -> None:
    """Print the size of each split, notes on the data, and the training rows of each group, to standard error.

    Args:
        table: The data.
        name: Name of the data source.
        method: Name of the method that will be trained, if any.
    """
    console = make_console(stderr=True)
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in table.split.items())
    print_wrapped(console, f"{f'{method} on ' if method else ''}{name}: {sizes} rows")
    for note in (*table.notes, *table.attribute_notes):
        print_wrapped(console, f"note: {note}", "yellow")
    if table.evaluation_groups is not None:
        print_wrapped(
            console,
            f"evaluated on {len(table.evaluation_groups.group_names)} groups of the data's own, not on those below",
        )
    labels = table.label_names
    if not table.has_attributes("train"):
        label_counts = table.label[table.split["train"]].bincount(minlength=len(labels)).tolist()
        texts = [f"{label} {count:,}" for label, count in zip(labels, label_counts, strict=True)]
        print_wrapped(console, f"attributes unknown; rows per label: {format_first(texts, MAX_LABELS)}")
        return
    attributes = list(table.attribute_names)
    counts = table.count_groups("train")
    frame = pd.DataFrame(counts.tolist(), columns=attributes)
    frame.insert(0, "label", labels, allow_duplicates=True)
    group_table = build_console_table(frame)
    width = console.measure(group_table, options=console.options.update(width=MAX_TABLE_WIDTH)).maximum
    if len(labels) > MAX_LABELS or width > console.width:
        empty = f"{int((counts == 0).sum()):,} of {counts.numel():,} groups have no training rows"
        groups = f"{len(labels):,} labels x {len(attributes):,} attribute values"
        print_wrapped(console, f"{groups}: {empty}, the largest has {int(counts.max()):,}")
        return
    print_wrapped(console, "training rows per group (label x attribute)")
    console.print(group_table)


def print_run_metrics(run_dirs: Sequence[Path], page_path: Path, printed_notes: Sequence[str] = ()) -> None:
    """Print the metrics of finished runs; if all have one method, also their findings, mean and spread.

    Args:
        run_dirs: Folders of the runs.
        page_path: The report page, whose path is printed last.
        printed_notes: Warnings that the user has seen already, which are not repeated.
    """
    reports = read_comparable_reports(run_dirs)
    console = make_console()
    table = build_comparison_table(reports)
    console.print(build_runs_table(table, any(report.test.has_groups for report in reports)))
    if len({report.method for report in reports}) == 1:
        for report in reports:
            if report.finding:
                seed = f"seed {report.seed}: " if len(reports) > 1 else ""
                print_wrapped(console, f"{seed}{_describe_shortcut(report)}.")
                advice = advise_user(report.finding)
                if advice:
                    print_wrapped(console, advice)
        if len(reports) > 1:
            for name, values in (100 * table[table.columns.intersection(list(SHOWN_METRICS))]).items():
                if values.notna().all():
                    spread = f"in the mean of {len(table)} seeds, standard deviation {values.std():.1f}"
                    print_wrapped(console, f"{_HEADINGS[str(name)]}: {values.mean():.1f} % {spread}")
    if len(reports) == 1 and reports[0].answers is not None:
        print_wrapped(console, f"{reports[0].answers.describe()}.")
    for note in describe_refits(reports):
        print_wrapped(console, note)
    if len(reports) == 1:
        print_warnings([warning for warning in reports[0].warnings if warning not in printed_notes], console)
    print_verbatim(console, f"page: {page_path}")


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print each warning on a line of its own, in yellow.

    Args:
        warnings: The texts.
        console: Where to print.
    """
    for warning in warnings:
        print_wrapped(console, f"warning: {warning}", "yellow")


def print_evaluation(evaluation: Mapping[str, Any], title: str, estimated: Mapping[str, Any] | None) -> None:
    """Print the accuracy of each group with its 90 % interval, then the metrics over all groups.

    Args:
        evaluation: What ``Run.evaluate`` returns.
        title: What was evaluated.
        estimated: The block ``estimated`` of the evaluation, which is printed first; None to leave it out.
    """
    console = make_console()
    if estimated is not None:
        groups = sum_groups_by_alignment(estimated["groups"]).query("count > 0")
        _print_groups(console, groups, f"groups by {estimated['source']}")
        conflicting = f"bias-conflicting {format_percent(estimated['minority'], 1, '')}"
        aligned = f"bias-aligned {format_percent(estimated['majority'], 1, '')}"
        print_wrapped(console, f"accuracy in %: {conflicting}, {aligned}, both by the estimate\n")
    _print_groups(console, pd.DataFrame(evaluation["groups"]), title)
    metrics = [
        f"{metric.heading.lower()} {format_percent(evaluation[name], 1, '')}"
        for name, metric in SHOWN_METRICS.items()
        if evaluation.get(name) is not None
    ]
    print_wrapped(console, f"accuracy in %: {', '.join(metrics)}")


def _print_groups(console: Console, groups: pd.DataFrame, title: str) -> None:
    """Print a table of groups, with further metrics as they are: they need not be shares."""
    percent_columns = ["accuracy", "low", "high"]
    frame = groups[["label", "attribute", "count", *percent_columns]].astype(dict.fromkeys(percent_columns, float))
    for name in groups.columns.difference(list(get_metrics(GroupRow)), sort=False):
        frame[name.replace("_", " ")] = list(map(format_decimal, groups[name]))
    if frame["attribute"].isna().all():
        frame = frame.drop(columns="attribute")
    num_groups = len(frame)
    if num_groups > MAX_GROUPS:
        frame = frame[frame["count"] > 0]
    print_wrapped(console, f"{title}: accuracy in %, with its 90 % interval")
    console.print(build_console_table(frame))
    if len(frame) < num_groups:
        print_wrapped(console, f"{num_groups - len(frame):,} groups without rows are left out")
