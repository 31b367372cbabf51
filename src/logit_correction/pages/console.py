"""Tables of runs as frames, and what the commands print; notebooks show the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from logit_correction import sentences
from logit_correction.errors import NBSP, format_percent, is_missing
from logit_correction.pages.compare import FIGURES, MEANINGS, RunFolder, flat_figures, sides, with_estimates
from logit_correction.pages.page import QUALITY
from logit_correction.sentences import capitalize, describe_selection, format_name, format_value

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

_COLUMNS = ("method", "epochs", "seed", *ACCURACIES, "selection")
_HEADINGS = {**FIGURES, "estimated_minority": "Conflict (est.)", "estimated_majority": "Agree (est.)"}
_UNNAMED = "The test rows name no attributes; plain accuracy favours models that rely on the shortcut, so none is bold."
_ESTIMATED = "Conflict, agree: rows whose estimated attribute does or does not conflict with their label."


# Tables of runs


def reports_of(folders: Sequence[Path | str]) -> list[dict[str, Any]]:
    """Return the reports of runs that are put side by side: judged by one estimate where nobody named attributes.

    Raises:
        InputError: If a folder holds no finished run.
    """
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
    table = pd.DataFrame(rows, columns=list(_COLUMNS)).astype(dict.fromkeys(ACCURACIES, float))
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
    shown = frame.dropna(axis="columns", how="all")
    for name in shown.columns.intersection([*ACCURACIES, "accuracy"]):
        shown = shown.assign(**{name: [format_percent(value, 1) for value in shown[name]]})
    return shown.rename(columns=format_name).to_html(index=False, escape=True, border=0)


def heading(column: str) -> str:
    """Return the heading of a column for a reader."""
    return _HEADINGS.get(column, format_name(column).capitalize())


# The console


def table_of(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table without rows for a console: columns of names, and columns of numbers, which stand to the right.

    Names are the user's: they are shown as they are, whatever brackets they hold.
    """
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

    named = "worst_class" not in table
    same = [name for name in ("epochs", "seed") if table[name].nunique(dropna=False) == 1]
    shared = [_cell(name, table[name].iloc[0]) for name in same]
    told = [f"{text} epochs" if name == "epochs" else f"seed {text}" for name, text in zip(same, shared, strict=True)]
    columns = [str(name) for name in table.columns if name not in same]
    texts = {name: heading(name).replace("-", " ") for name in columns}
    numbers = [name for name in columns if name in ACCURACIES or pd.api.types.is_numeric_dtype(table[name])]
    title = ", ".join(["Accuracy on the test split, %", *told])
    shown = table_of(title, [], [texts[name] for name in columns])
    for name, column in zip(columns, shown.columns, strict=True):
        column.justify = "right" if name in numbers else "left"
    shown.box, shown.show_edge, shown.collapse_padding, shown.caption_justify = box.SIMPLE_HEAD, False, True, "left"
    if not named:
        captions = [_ESTIMATED] if "estimated_minority" in table else []
        shown.caption = " ".join([*captions, _UNNAMED] if len(table) > 1 else captions) or None
    best = {name: table[name].max() for name in columns if name in ACCURACIES and len(table) > 1 and named}
    for row in table.to_dict("records"):
        styles = {name: "bold" for name, value in best.items() if row[name] == value}
        shown.add_row(*(Text(_cell(name, row[name]), style=styles.get(name, "")) for name in columns))
    return shown


def _cell(column: str, value: Any) -> str:
    if column in ACCURACIES:
        return format_percent(None if is_missing(value) else float(value), digits=1, unit="")
    if is_missing(value):
        return "–"
    if column == "selection":  # a narrow column
        return str(value).removeprefix("valid ").replace("estimated within", "within").replace("estimated", "est.")
    return str(value) if column == "seed" else format_value(value.item() if hasattr(value, "item") else value)


def announce(config: RunConfig, table: DataTable) -> None:
    """Show what will be trained on: rows per split and counts per group."""
    show_rows(table, config.data.name, config.method.name)


def show_rows(table: DataTable, name: str, method: str = "") -> None:
    """Show the rows of each split and the counts of each group of data of a name."""
    from rich.console import Console
    from rich.text import Text

    from logit_correction.data.stores import location_of

    console = Console(stderr=True)
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in table.split.items())
    what = Text.assemble((method, "bold"), " on " if method else "", (name, "bold"), f": {sizes} rows")
    console.print(what, soft_wrap=True)
    if (place := location_of(table.inputs)) is not None:
        say(console, f"inputs {place}")
    for note in (*table.notes, *table.attribute_notes):
        say(console, f"note: {note}", "yellow")
    if table.scoring is not None:
        say(console, f"judged on {len(table.scoring.names)} groups of the data's own, not on those below")
    if not table.has_attributes("train"):
        say(console, f"attributes unknown; rows per label: {_rows_per_label(table)}")
        return
    counts = table.group_counts("train")
    if len(table.label_names) > MOST_LABELS or len(table.attribute_names) * NARROWEST > console.width:
        what_groups = f"{len(table.label_names):,} labels x {len(table.attribute_names):,} attribute values"
        empty = f"{int((counts == 0).sum()):,} of {counts.numel():,} groups have no training rows"
        say(console, f"{what_groups}: {empty}, the largest has {int(counts.max()):,}")
        return
    shown = table_of(
        "training rows per group (label x attribute)", ["label"], [str(one) for one in table.attribute_names]
    )
    majority = None if table.correlation is None else table.correlation.weights > 0
    for y, counts_of_label in enumerate(counts.tolist()):
        bold = [majority is not None and bool(majority[y, a]) for a in range(len(counts_of_label))]
        cells = [Text(f"{n:,}", style="bold" if own else "") for n, own in zip(counts_of_label, bold, strict=True)]
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


def show_runs(folders: Sequence[Path], page: Path) -> None:
    """Print the figures of finished runs, of several seeds their mean and spread, and what was found."""
    from rich.console import Console

    reports, console = reports_of(folders), Console()
    table = comparison_table(reports)
    console.print(to_console(table))
    one_method = len(set(table["method"])) == 1
    for report in reports if one_method else ():
        show_evidence(report, console, f"seed {report['seed']}: " if len(reports) > 1 else "")
    for name in ("estimated_minority", "average", "group_balanced", "worst_group"):
        if one_method and len(table) > 1 and name in table and bool(table[name].notna().all()):
            mean, spread = 100 * table[name].mean(), 100 * table[name].std()
            say(
                console,
                f"{heading(name)}: {mean:.1f} % in the mean of {len(table)} seeds, standard deviation {spread:.1f}",
            )
    if len(reports) == 1:
        show_warnings(reports[0]["warnings"], console)
    say(console, f"page: {page}")


def show_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print what a user should know."""
    for warning in warnings:
        say(console, f"warning: {warning}", "yellow")


def show_evidence(report: Mapping[str, Any], console: Console, of_seed: str = "") -> None:
    """Print whether there is a shortcut, and what follows; nothing where nobody looked."""
    from rich.text import Text

    evidence = report.get("evidence")
    if evidence:
        answer = (sentences.answer(evidence), "bold")
        console.print(Text.assemble(of_seed, answer, f". {evidence.get('sentence') or ''}"), soft_wrap=True)
        if told := sentences.advice(evidence):
            say(console, told)


def show_evaluation(figures: Mapping[str, Any], title: str, estimated: Mapping[str, Any] | None) -> None:
    """Print the groups of an evaluation, the estimated ones first if there are any, and the figures over them."""
    from rich.console import Console

    console, of_group = Console(), ("rows", "accuracy %", "95 % interval")

    def show(title: str, names: Sequence[str], groups: Sequence[Mapping[str, Any]]) -> None:
        shown = [group for group in groups if group["count"] or len(groups) <= MOST_EMPTY]
        table = table_of(title, names, of_group)
        for group in shown:
            accuracy, low, high = (format_percent(group[name], 1, "") for name in ("accuracy", "low", "high"))
            attribute = "unknown" if group["attribute"] is None else str(group["attribute"])
            interval = "" if group["accuracy"] is None else f"{low} - {high}"
            table.add_row(*_plain(str(group["label"]), attribute), f"{group['count']:,}", accuracy, interval)
        console.print(table)
        if len(shown) < len(groups):
            say(console, f"{len(groups) - len(shown):,} groups without rows are left out")

    if estimated is not None:
        groups = [side for side in sides(estimated["groups"]) if side["count"]]
        show(f"estimated groups: by {estimated['source']}", ("label", "estimated attribute"), groups)
        conflicts, agrees = (format_percent(estimated[name], 1, "") for name in ("minority", "majority"))
        say(
            console,
            f"accuracy %: where it conflicts {conflicts}, where it agrees {agrees}; nobody named these attributes\n",
        )
    show(title, ("label", "attribute"), figures["groups"])
    if figures["by_attribute"]:
        numbers = [f"{text} %" for text in QUALITY.values()]
        table = table_of("by attribute, all labels together", ["Attribute"], ["Rows", *numbers])
        for row in figures["by_attribute"]:
            cells = (format_percent(row[name], 1, "") for name in QUALITY)
            table.add_row(*_plain(row["attribute"]), f"{row['count']:,}", *cells)
        console.print(table)
    known = [name for name in FIGURES if figures.get(name) is not None]
    shown = ", ".join(f"{name.replace('_', '-')} {format_percent(figures[name], 1, '')}" for name in known)
    say(console, f"accuracy %: {shown}")


def _plain(*names: str) -> list[Any]:
    from rich.text import Text

    return [Text(name) for name in names]


def show_audit(found: Mapping[str, Any], page: Path, to_fill_in: str = "") -> None:
    """Print what an audit found, what it costs and where the page is.

    Args:
        found: Content of ``audit.json``.
        page: Where the page is.
        to_fill_in: What a person does with the sheet, if one was written.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console()
    answer = (sentences.headline(found), "bold")
    console.print(Text.assemble(answer, f" {found['evidence']['sentence']}"), soft_wrap=True)
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
