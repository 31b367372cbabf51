"""What the commands print."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from logit_correction.config import RunConfig
    from logit_correction.data.table import DataTable

#: Up to so many labels are named with their rows, and their groups where each attribute has so many characters.
MOST_LABELS, NARROWEST = 30, 6


def plain_table(title: str, names: Sequence[str | Text], numbers: Sequence[str | Text]) -> Table:
    """Return a table without rows for a console: columns of names, and columns of numbers, which stand to the right."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", title_style="", box=None, pad_edge=False)
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def announce(config: RunConfig, table: DataTable) -> None:
    """Show what will be trained on: rows per split and counts per group."""
    from rich.console import Console
    from rich.text import Text  # names are the user's: they are shown as they are, whatever brackets they hold

    from logit_correction.data.stores import location_of

    console = Console(stderr=True)
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in table.split.items())
    what = Text.assemble((config.method.name, "bold"), " on ", (config.data.name, "bold"), f": {sizes} rows")
    console.print(what, soft_wrap=True)
    if (place := location_of(table.inputs)) is not None:
        console.print(Text(f"inputs {place}"), soft_wrap=True)
    for note in (*table.notes, *table.attribute_notes):
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    if table.scoring is not None:
        own = f"judged on {len(table.scoring.names)} groups of the data's own, not on those below"
        console.print(own, highlight=False, soft_wrap=True)
    if not table.has_attributes("train"):
        console.print(Text(f"attributes unknown; rows per label: {_rows_per_label(table)}"), soft_wrap=True)
        return
    _show_groups(table, console)


def _show_groups(table: DataTable, console: Console) -> None:
    """Show the training rows of each group; of more groups than the console has room for, their number."""
    from rich.text import Text

    if len(table.label_names) > MOST_LABELS or len(table.attribute_names) * NARROWEST > console.width:
        counts_of_all = table.group_counts("train")
        what = f"{len(table.label_names):,} labels x {len(table.attribute_names):,} attribute values"
        empty = f"{int((counts_of_all == 0).sum()):,} of {counts_of_all.numel():,} groups have no training rows"
        console.print(f"{what}: {empty}, the largest has {int(counts_of_all.max()):,}", highlight=False, soft_wrap=True)
        return
    attributes = [Text(str(name)) for name in table.attribute_names]
    shown = plain_table("training rows per group (label x attribute)", ["label"], attributes)
    majority = None if table.correlation is None else table.correlation.weights > 0
    for y, counts_of_label in enumerate(table.group_counts("train").tolist()):
        cells = [
            Text(f"{count:,}", style="bold" if majority is not None and bool(majority[y, a]) else "")
            for a, count in enumerate(counts_of_label)
        ]
        shown.add_row(Text(str(table.label_names[y])), *cells)
    console.print(shown)


def _rows_per_label(table: DataTable) -> str:
    """Return the training rows of each label, or of many labels those of the fewest and of the most rows."""
    counts = table.label[table.split["train"]].bincount(minlength=len(table.label_names))
    told = [f"{name} {count:,}" for name, count in zip(table.label_names, counts.tolist(), strict=True)]
    if len(told) <= MOST_LABELS:
        return ", ".join(told)
    ordered = [told[y] for y in counts.argsort(stable=True).tolist()]
    return f"{len(told):,} labels, the fewest {', '.join(ordered[:5])}; the most {', '.join(ordered[-5:])}"


def show_run(folder: Path) -> None:
    """Print the figures of a finished run and where its files are."""
    from rich.console import Console

    from logit_correction.pages.tables import comparison_table, to_console
    from logit_correction.runs.folder import read_report

    report = read_report(folder)
    console = Console()
    console.print(to_console(comparison_table([report])))
    show_evidence(report, console)
    show_warnings(report["warnings"], console)
    console.print(f"page: {folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True)


def show_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print what a user should know."""
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def show_evidence(report: dict[str, Any], console: Console, of_seed: str = "") -> None:
    """Print whether there is a shortcut, and what follows; nothing where nobody looked."""
    from rich.text import Text  # names are the user's: they are shown as they are, whatever brackets they hold

    from logit_correction.pages.evidence import advice, answer, sentence_of

    evidence = report.get("evidence")
    if not evidence:
        return
    console.print(Text.assemble(of_seed, (answer(evidence), "bold"), f". {sentence_of(evidence)}"), soft_wrap=True)
    told = advice(evidence)
    if told is not None:
        more = f" (`{told.more}`)" if told.more else ""
        console.print(Text(f"{told.done}; {told.say}: {told.option}{more}"), soft_wrap=True)


def print_json(content: dict[str, Any]) -> None:
    """Print strict JSON."""
    json.dump(content, sys.stdout, indent=1, allow_nan=False, ensure_ascii=False)
    print()


def lines_of(names: Sequence[tuple[str, str]]) -> str:
    """Return names and their descriptions, a line each."""
    width = max((len(name) for name, _ in names), default=0) + 2
    return "\n".join(f"  {name:<{width}}{text}" for name, text in names)
