"""Tables of a grid, as Markdown and on its page, and the sentence that says which row is best.

A table of mean accuracies does not show whether a difference is more than chance, how the options of each row were
chosen, or which labels a row has read. So each of these stands in the tables, next to the figures of the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from logit_correction.formatting import format_list
from logit_correction.runs.folder import PREDICTIONS
from logit_correction.training import RULES
from logit_correction_lab.comparison import Comparison, collect_benchmark_predictions, write_benchmark_predictions
from logit_correction_lab.figures import draw_figures, inline_svg
from logit_correction_lab.grid import Benchmark
from logit_correction_lab.results import (
    BEST_TEST,
    aggregate_scores_over_seeds,
    build_history_table,
    build_results_table,
    compute_scores,
    describe_differing_rules,
    describe_grid_metric,
    list_finished_cells,
    select_rows_by_own_rule,
)


@dataclass(frozen=True)
class Table:
    """A table of a grid.

    Attributes:
        caption: What it shows.
        lines: The head and the rows; the best between stars.
        section: Heading under which a page folds it away; empty for those that are open.
    """

    caption: str
    lines: list[list[str]]
    section: str = ""


def compare_grid_rows(
    benchmark: Benchmark, results_table: pd.DataFrame, predictions: pd.DataFrame | None = None
) -> Comparison:
    """Return the paired differences between the rows of a grid, each run by its own selection rule.

    Args:
        benchmark: The grid.
        results_table: Its ``build_results_table``.
        predictions: ``collect_benchmark_predictions`` of its finished runs; without them intervals rest on seeds alone.
    """
    scores = compute_scores(benchmark, results_table if results_table.empty else select_rows_by_own_rule(results_table))
    metrics = {column: benchmark.get_column_metric(column) for column in benchmark.columns}
    return Comparison.from_runs(scores, predictions, metrics)


def build_tables(benchmark: Benchmark, results_table: pd.DataFrame, comparison: Comparison) -> list[Table]:
    """Return the tables of a grid.

    In the first each run counts by its own selection rule. Paired differences and the tuning of each row follow, then a
    table for each rule that adds runs, and last the best epochs on test. Without finished runs there is one of the
    paper's figures, if there are any.

    Args:
        benchmark: The grid.
        results_table: Its ``build_results_table``.
        comparison: Its ``compare_grid_rows``.
    """
    rows = list(dict.fromkeys([*benchmark.rows, *benchmark.paper]))
    if results_table.empty:
        lines = _build_accuracy_lines(benchmark, results_table, rows)
        return [Table(f"{describe_grid_metric(benchmark)} in the paper.", lines)] if benchmark.paper else []
    own = select_rows_by_own_rule(results_table)
    by_rule = [own]
    by_rule += [
        chosen for _, chosen in results_table.groupby("selection", sort=False) if not chosen.index.isin(own.index).all()
    ]
    by_rule.sort(key=_is_selected_by_best_test)
    tables = []
    for chosen in by_rule:
        on_test = _is_selected_by_best_test(chosen)
        section = "What published tables report: the best epoch on test" if on_test else "By other selection rules"
        finished = set(chosen["row"])
        shown = [row for row in rows if row in finished or row not in set(results_table["row"])]
        lines = _build_accuracy_lines(benchmark, chosen, shown, mark_best=not on_test)
        tables.append(Table(_describe_runs(benchmark, chosen), lines, "" if chosen is own else section))
    tables[1:1] = [*_build_difference_tables(benchmark, comparison), *_build_tuning_procedure_tables(benchmark)]
    return tables


def _is_selected_by_best_test(results_table: pd.DataFrame) -> bool:
    return results_table["selection"].iloc[0] == BEST_TEST


def _build_accuracy_lines(
    benchmark: Benchmark, results_table: pd.DataFrame, rows: Iterable[str], mark_best: bool = True
) -> list[list[str]]:
    """Return for each row the splits whose attributes it read, and for each column its accuracy and the paper's."""
    summary = aggregate_scores_over_seeds(benchmark, results_table)
    best = summary["mean"].groupby("column").max()
    has_paper = {column for columns in benchmark.paper.values() for column in columns}
    head = ["", "Attributes read"]
    for column in benchmark.columns:
        head += [column, benchmark.paper_title] if column in has_paper else [column]
    lines = [head]
    for row in rows:
        line = [row, _list_splits_read(results_table, row)]
        for column in benchmark.columns:
            text = ""
            if (row, column) in summary.index:
                mean = summary["mean"][row, column]
                text = _format_mean_and_deviation(mean, summary["std"][row, column], digits=1)
                if mark_best and len(benchmark.rows) > 1 and mean == best[column]:
                    text = f"**{text}**"
            line.append(text)
            if column in has_paper:
                figure = benchmark.paper.get(row, {}).get(column, [])
                numbers = figure if isinstance(figure, list) else [figure]
                line.append(_format_mean_and_deviation(*numbers, digits=2) if numbers else "")
        lines.append(line)
    return lines


def _format_mean_and_deviation(mean: float, deviation: float | None = None, *, digits: int) -> str:
    return f"{mean:.{digits}f}" if pd.isna(deviation) else f"{mean:.{digits}f} ({deviation:.{digits}f})"


def _list_splits_read(results_table: pd.DataFrame, row: str) -> str:
    """Return the splits whose attributes any run of a row read; empty without runs."""
    if results_table.empty or row not in set(results_table["row"]):
        return ""
    read = " ".join(results_table["attributes_read"][results_table["row"] == row].fillna(""))
    return ", ".join(split for split in ("train", "valid", "test") if split in read) or "none"


def _build_difference_tables(benchmark: Benchmark, comparison: Comparison) -> list[Table]:
    """Return the table of paired differences; none where nothing can be compared."""
    means = comparison.means
    rows = [row for row in benchmark.rows if row in means.index]
    if len(rows) < 2:
        return []
    references = {
        column: benchmark.reference or str(means[column].idxmax()) for column in benchmark.columns if column in means
    }
    lines = [["", "Seeds", *references]]
    for row in rows:
        cells = []
        seeds = set()
        for column, reference in references.items():
            difference = comparison.estimate_difference(column, row, reference)
            if difference is not None:
                seeds.add(difference.seeds)
            cells.append("reference" if difference and row == reference else str(difference or ""))
        lines.append([row, _format_number_range(seeds), *cells])
    caption = (
        f"Difference from {benchmark.reference or 'the best row of each column'} in points, with a 90 % interval; if "
        "that leaves out zero, the difference is more than chance. Paired by seed, and test row by test row. The "
        "interval is Student's over the seeds, widened by the sampling of test rows; the fewer the seeds, the wider. "
        "With one seed it is of the test rows alone and says nothing of other seeds. Of ten intervals about one misses."
    )
    return [Table(caption, lines)]


def _format_number_range(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return " to ".join(str(number) for number in ordered[:1] + ordered[1:][-1:])


def _build_tuning_procedure_tables(benchmark: Benchmark) -> list[Table]:
    """Return the table of how the options of each row were chosen; none where the grid records it of no row."""
    if not benchmark.tuning:
        return []
    lines = [[row, benchmark.tuning.get(row, "not recorded")] for row in benchmark.rows]
    return [Table("How the options of each row were chosen.", [["", "Tuning"], *lines])]


def _describe_runs(benchmark: Benchmark, results_table: pd.DataFrame) -> str:
    """Return the caption of a table of accuracies."""
    seeds = results_table.groupby(["row", "column"]).size()
    over = f"mean (standard deviation) of {_format_number_range(set(seeds))} seeds" if seeds.max() > 1 else "one seed"
    rules = results_table.groupby("selection", sort=False)["row"].unique()
    first = rules.index[0]
    if BEST_TEST in rules:
        weights = (
            "Best epoch on test: this is what published tables report. The epoch was chosen with the labels of the "
            "test rows, so these figures do not estimate the accuracy, and no selection uses them."
        )
    elif len(rules) > 1:
        rows_by_rule = "; ".join(f"{rule} for {', '.join(rows)}" for rule, rows in rules.items())
        weights = f"Weights of the epoch that each run's own selection rule chose: {rows_by_rule}."
    else:
        epoch = RULES[first][1] if first in RULES else "the epoch that it chose"
        weights = f"Weights of {epoch} (selection rule: {first})."
    caption = f"{describe_grid_metric(benchmark)}, {over}. {weights}"
    if benchmark.column_title:
        caption += f" Columns: {benchmark.column_title}."
    caption += " Attributes read: the splits whose attributes training or selection used."
    if benchmark.paper:
        caption += f" Columns named {benchmark.paper_title} hold its figures."
    return caption


def describe_outcome(benchmark: Benchmark, results_table: pd.DataFrame, comparison: Comparison) -> str:
    """Return in how many columns a row is better than all others by more than chance.

    Args:
        benchmark: The grid.
        results_table: Its ``build_results_table``.
        comparison: Its ``compare_grid_rows``.
    """
    if results_table.empty:
        return "No run is finished."
    metric = benchmark.metric.replace("_", "-")
    if comparison.scores.empty:
        return f"No run has a {metric} accuracy: write `metric: average` into the grid if its data hold no attributes."
    means = comparison.means
    columns = [column for column in benchmark.columns if column in means and means[column].count() > 1]
    if not columns:
        return "No column has two finished rows, so there is nothing to compare."
    num_unjudged = {column: comparison.count_unjudged_rows(column) for column in columns}
    judged = [column for column in columns if num_unjudged[column] < means[column].count() - 1]
    caveat = " Differences of one seed without predictions are not judged." if any(num_unjudged.values()) else ""
    if not judged:
        return f"No column has two rows of which more than one seed, or predictions, are known.{caveat}"
    leaders = [comparison.find_best_rows(column) for column in judged]
    num_first = Counter(rows[0] for rows in leaders if len(rows) == 1)
    counts = num_first or Counter(row for rows in leaders for row in rows)
    top = max(counts.values())
    best = [row for row in benchmark.rows if counts[row] == top]
    place = f"{top} of {len(columns)} columns{describe_differing_rules(results_table)}"
    if not num_first:
        verb = "is" if len(best) == 1 else "are"
        return (
            f"No row has a higher {metric} accuracy than all others by more than chance. {format_list(best)} {verb} "
            f"best, or level with the best, in {place}.{caveat}"
        )
    verb = "has" if len(best) == 1 else "each have"
    outcome = f"{format_list(best)} {verb} the highest {metric} accuracy in {place}."
    if num_first.total() < len(judged):
        outcome += " In the other columns the differences between the best rows may be chance."
    return outcome + caveat


def _describe_environments(results_table: pd.DataFrame) -> list[str]:
    """Return on which machine, by which commit and version runs were made; empty without runs."""
    if results_table.empty:
        return []
    values = {name: sorted(set(results_table[name].dropna().astype(str))) for name in ("machine", "version")}
    commits = sorted(set(results_table["commit"].fillna("unknown").astype(str)))
    return [
        f"Machine: {', '.join(values['machine'])}; commit: {', '.join(commits)}; "
        f"version {', '.join(values['version'])}."
    ]


def format_markdown(benchmark: Benchmark, results_table: pd.DataFrame, comparison: Comparison) -> str:
    """Return the tables of a grid as Markdown.

    Args:
        benchmark: The grid.
        results_table: Its ``build_results_table``.
        comparison: Its ``compare_grid_rows``.
    """
    parts = [f"# {benchmark.title}", describe_outcome(benchmark, results_table, comparison)]
    for table in build_tables(benchmark, results_table, comparison):
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table.lines]
        lines.insert(1, "|" + "---|" * len(table.lines[0]))
        parts += [table.caption, "\n".join(lines)]
    return "\n\n".join([*parts, *_describe_environments(results_table)]) + "\n"


def write_results(benchmark: Benchmark, out_dir: Path, num_seeds_override: int | None = None) -> None:
    """Write tables, predictions, figures and the page of the finished runs, and print the first table.

    Args:
        benchmark: The grid.
        out_dir: Its folder.
        num_seeds_override: Number of seeds that the command was given in place of the grid's own; ``benchmark.yaml``
            notes it.
    """
    from logit_correction.atomic_files import replace_atomically, write_text_file
    from logit_correction.pages.console import build_console_table, make_console, print_wrapped
    from logit_correction.pages.page import render_template, save_page
    from logit_correction.runs.folder import PAGE

    results_table = build_results_table(benchmark, out_dir)
    predictions = collect_benchmark_predictions(list_finished_cells(benchmark, out_dir))
    comparison = compare_grid_rows(benchmark, results_table, predictions)
    with replace_atomically(out_dir / "table.csv") as temporary:
        results_table.to_csv(temporary, index=False)
    write_benchmark_predictions(predictions, out_dir / PREDICTIONS)
    write_text_file(out_dir / "table.md", format_markdown(benchmark, results_table, comparison))
    settings = (
        benchmark.text if num_seeds_override is None else f"# Run with --seeds {num_seeds_override}.\n{benchmark.text}"
    )
    write_text_file(out_dir / "benchmark.yaml", settings)
    history = build_history_table(benchmark, out_dir)
    if len(history):
        with replace_atomically(out_dir / "history.csv") as temporary:
            history.to_csv(temporary, index=False, float_format="%.4f")
    figures = draw_figures(benchmark, results_table, history)
    for name, svg in figures.items():
        write_text_file(out_dir / f"{name}.svg", svg + "\n")
    tables = build_tables(benchmark, results_table, comparison)
    headline = describe_outcome(benchmark, results_table, comparison)
    page = render_template(
        "grid.html.j2",
        title=benchmark.title,
        headline=headline,
        tables=tables,
        machine=_describe_environments(results_table),
        figures=[inline_svg(svg) for svg in figures.values()],
        settings=settings,
    )
    save_page(page, out_dir / PAGE)
    console = make_console()
    print_wrapped(console, headline, "bold")
    if tables:  # the others are on the page
        print_wrapped(console, tables[0].caption)
        head, *lines = tables[0].lines
        console.print(
            build_console_table(pd.DataFrame([[cell.strip("*") for cell in line] for line in lines], columns=head))
        )
    print_wrapped(console, f"page: {out_dir / PAGE} (tables and figures are in its folder)")
