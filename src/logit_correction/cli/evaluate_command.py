"""``logit-correction evaluate RUN``: the group table of a finished run, on its own data or on new labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from logit_correction.cli.arguments import Parser, add_trust
from logit_correction.cli.show import plain_table, print_json
from logit_correction.errors import InputError, format_percent

if TYPE_CHECKING:
    from rich.console import Console

#: Among more groups those without rows are left out.
MOST_EMPTY = 30


def main(arguments: list[str]) -> int:
    """Evaluate a finished run again."""
    parser = Parser("evaluate", "The group table of a finished run, from its checkpoint.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder that `train` wrote")
    parser.add_argument("--split", choices=("test", "valid", "train"), help="rows to judge on; test by default")
    parser.add_argument(
        "--on",
        type=Path,
        metavar="FOLDER|CSV",
        help="new labelled rows: a folder of image folders, one a label; or a CSV or Parquet file, with the columns of "
        "training or with one of image files, such as path or image",
    )
    parser.add_argument("--label", metavar="COLUMN", help="column of labels in --on; by default that of training")
    parser.add_argument("--attribute", metavar="COLUMN", help="column of attributes in --on; groups are label by it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_trust(parser)
    options = parser.parse_args(arguments)
    from logit_correction.runs.api import load

    trusted = {"trust_code": options.trust_code}
    if options.on is None:
        for name in ("label", "attribute"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name} names a column of new rows: give --on FOLDER|CSV too")
        split = options.split or "test"
        figures, what = load(options.run, **trusted).evaluate(split), f"{split} split"
    elif options.split is not None:
        raise InputError("--split is of the run's own data, and --on of new rows: leave one of them out")
    else:
        figures = load(options.run, **trusted).evaluate(options.on, options.label, options.attribute)
        what = str(options.on)
    if options.json:
        print_json(figures)
    else:
        # Beside groups that the run's own data name, estimated ones would tell nothing new.
        named = options.on is None and any(group["attribute"] is not None for group in figures["groups"])
        _show(figures, f"{options.run}, {what}", None if named else figures["estimated"])
    return 0


def _show(figures: dict[str, Any], title: str, estimated: dict[str, Any] | None) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    if estimated is not None:
        _show_estimated(estimated, console)
    numbers = ("rows", "accuracy %", "95 % interval", "least margin", "mean margin")
    table = plain_table(title, ("label", "attribute"), numbers)
    groups = figures["groups"]
    shown_groups = [group for group in groups if group["count"] or len(groups) <= MOST_EMPTY]
    for group in shown_groups:
        margins = (_decimal(group[name]) for name in ("margin_min", "margin_mean"))
        attribute = "unknown" if group["attribute"] is None else str(group["attribute"])
        table.add_row(escape(str(group["label"])), escape(attribute), *_cells(group), *margins)
    console.print(table)
    if len(shown_groups) < len(groups):
        console.print(f"{len(groups) - len(shown_groups):,} groups without rows are left out", highlight=False)
    _show_attributes(figures["by_attribute"], console)
    names = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority", "adjusted_average")
    shown = ", ".join(
        f"{name.replace('_', '-')} {format_percent(figures[name], 1, '')}"
        for name in names
        if figures.get(name) is not None
    )
    console.print(f"accuracy %: {shown}", highlight=False, soft_wrap=True)


def _show_attributes(rows: list[dict[str, Any]], console: Console) -> None:
    """Print the figures of each attribute value, all labels together; nothing where none is known."""
    from rich.markup import escape

    if not rows:
        return
    numbers = ("rows", "accuracy %", "AUROC %", "macro F1 %", "calibration error %")
    table = plain_table("by attribute, all labels together", ["attribute"], numbers)
    for row in rows:
        shown = (format_percent(row[name], 1, "") for name in ("accuracy", "auroc", "f1", "ece"))
        table.add_row(escape(row["attribute"]), f"{row['count']:,}", *shown)
    console.print(table)


def _show_estimated(estimated: dict[str, Any], console: Console) -> None:
    """Print the accuracy where the estimated attribute goes with the label, and where it conflicts with it."""
    from rich.markup import escape

    from logit_correction.pages.estimated import sides

    title, numbers = f"estimated groups: by {estimated['source']}", ("rows", "accuracy %", "95 % interval")
    table = plain_table(title, ("label", "estimated attribute"), numbers)
    for side in sides(estimated["groups"]):
        if side["count"]:
            table.add_row(escape(side["label"]), side["attribute"], *_cells(side))
    console.print(table)
    words = {"minority": "conflicts", "majority": "agrees"}
    shown = ", ".join(f"where it {word} {format_percent(estimated[name], 1, '')}" for name, word in words.items())
    console.print(f"accuracy %: {shown}; nobody named these attributes\n", highlight=False, soft_wrap=True)


def _decimal(value: float | None) -> str:
    """Return a margin with two decimals, a 0 without a sign; nothing where there is none."""
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"


def _cells(group: dict[str, Any]) -> tuple[str, str, str]:
    """Return rows, accuracy and interval of a group as text."""
    accuracy, low, high = (format_percent(group[name], 1, "") for name in ("accuracy", "low", "high"))
    return f"{group['count']:,}", accuracy, "" if group["accuracy"] is None else f"{low} - {high}"
