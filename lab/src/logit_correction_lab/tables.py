"""What came out of a grid: the figures of its finished runs, and their tables as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from logit_correction.evaluation.report import Report
from logit_correction.formatting import format_list
from logit_correction.methods import METHODS
from logit_correction.pages.plots import assign_colors
from logit_correction.runs.folder import METRICS, PREDICTIONS, is_finished
from logit_correction.training import RULES
from logit_correction_lab import drawing
from logit_correction_lab.comparison import RUN, Comparison, collect_predictions, write_predictions
from logit_correction_lab.grid import Benchmark, Cell, make_folder_name
from logit_correction_lab.monitor import read_selections

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Columns of the results that tell of the machine and the time, not of what came out.
MACHINE_COLUMNS = ("train_seconds", "version", "commit", "machine")

#: Stands in the place of a selection rule for the epoch that was best on the test split. No run can be trained by it.
BEST_TEST = "best_test"


def list_finished_cells(benchmark: Benchmark, out: Path) -> list[Cell]:
    """Return the finished runs of a grid in its folder."""
    return [cell for cell in benchmark.make_cells(out) if is_finished(cell.folder)]


def build_results_table(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and selection rule, and one for the best epoch on test where that was watched."""
    reports = [(cell, Report.read(cell.folder).to_dict()) for cell in list_finished_cells(benchmark, out)]
    return pd.DataFrame([row for cell, report in reports for row in _rows(benchmark, cell, report)])


def _rows(benchmark: Benchmark, cell: Cell, report: dict[str, Any]) -> list[dict[str, Any]]:
    minority, evidence = report["estimated_minority"] or {}, report.get("evidence") or {}
    of_training = "attribute" in report["labels_read"]["train"]
    blocks = [{**report["selection"], "test": report["test"]}, *read_selections(cell.folder)]
    blocks += _find_best_test(cell, _metric_of(benchmark, cell.column), report["test"]["count"])
    of_method = "attribute" in report["labels_read"]["valid"]
    if report["method"] in METHODS and "attribute" in report["selection"]["labels_read"]:
        # The rule has read them; of the package's methods only the last layer does so itself.
        of_method = not of_training and "TrueAttributes" in str(report["method_options"])
    given = ["given"] * any("given attribute" in read for read in report["labels_read"].values())
    rows = []
    for block in blocks:
        by_attribute = "attribute" in block["labels_read"]
        by_test = block["rule"] == BEST_TEST
        splits = given + ["train"] * of_training + ["valid"] * (of_method or (by_attribute and not by_test))
        splits += ["test"] * (by_attribute and by_test)
        rows.append(
            {
                "row": cell.row,
                "column": cell.column,
                "seed": cell.seed,
                "selection": block["rule"],
                "selected_epoch": block["epoch"],
                "epochs": report["epochs"],
                "method": report["method"],
                "attributes_read": " ".join(splits),
                **{k: v for k, v in block["test"].items() if k != "estimated" and not isinstance(v, list | dict)},
                "minority_recall": minority.get("recall"),
                "minority_precision": minority.get("precision"),
                "verdict": evidence.get("verdict"),
                "view": evidence.get("view"),
                "train_seconds": report["seconds"]["train"],
                **{name: report["environment"][name] for name in MACHINE_COLUMNS[1:]},
            }
        )
    return rows


def _find_best_test(cell: Cell, metric: str, count: int) -> list[dict[str, Any]]:
    """Return the epoch of the last stage with the best test figure, of equal ones the latest; empty if not watched.

    This is what much published code reports. Nothing selects by it.
    """
    table = pd.read_csv(cell.folder / METRICS)
    watched = table[table["stage"] == table["stage"].max()].filter(regex="^(epoch$|test_)")
    if f"test_{metric}" not in watched or watched[f"test_{metric}"].isna().all():
        return []
    best = watched.loc[watched[f"test_{metric}"][::-1].idxmax()]
    figures = {name.removeprefix("test_"): float(best[name]) for name in watched if name != "epoch"}
    read = ["label"] if metric == "average" else ["label", "attribute"]
    return [{"rule": BEST_TEST, "epoch": int(best["epoch"]), "labels_read": read, "test": {"count": count, **figures}}]


def build_history_table(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and epoch with the figures that its follower recorded in ``metrics.csv``."""
    frames = []
    for cell in list_finished_cells(benchmark, out):
        table = pd.read_csv(cell.folder / METRICS)
        watched = table.filter(regex="^(test|train)_").dropna(how="all").reset_index(drop=True)
        if len(watched):
            frames.append(watched.assign(row=cell.row, column=cell.column, seed=cell.seed, epoch=watched.index + 1))
    if not frames:
        return pd.DataFrame()
    combined = pd.concat(frames, ignore_index=True)
    names = ["row", "column", "seed", "epoch"]
    return combined[[*names, *combined.columns.difference(names, sort=False)]]


@dataclass(frozen=True)
class Table:
    """A table of a benchmark.

    Attributes:
        caption: What it shows.
        lines: The head and the rows; the best between stars.
        section: Heading under which a page folds it away; empty for those that are open.
    """

    caption: str
    lines: list[list[str]]
    section: str = ""


def compare_rows(benchmark: Benchmark, frame: pd.DataFrame, predictions: pd.DataFrame | None = None) -> Comparison:
    """Return the paired differences between the rows of a benchmark, each run by its own selection rule.

    Args:
        benchmark: The grid.
        frame: Its ``results``.
        predictions: ``collect_predictions`` of its finished runs; without them intervals rest on seeds alone.
    """
    scores = _run_scores(benchmark, frame if frame.empty else _own(frame))
    metrics = {column: _metric_of(benchmark, column) for column in benchmark.columns}
    return Comparison.from_runs(scores, predictions, metrics)


def build_tables(benchmark: Benchmark, frame: pd.DataFrame, comparison: Comparison) -> list[Table]:
    """Return the tables of a benchmark.

    In the first each run counts by its own selection rule. Paired differences and the tuning of each row follow, then a
    table for each rule that tells more, and last the best epochs on test. Without finished runs there is one of the
    paper's figures, if there are any.
    """
    rows = list(dict.fromkeys([*benchmark.rows, *benchmark.paper]))
    if frame.empty:
        figures = _table(benchmark, frame, rows)
        return [Table(f"{_measure(benchmark)} in the paper.", figures)] if benchmark.paper else []
    own = _own(frame)
    others = [chosen for _, chosen in frame.groupby("selection", sort=False) if not chosen.index.isin(own.index).all()]
    others.sort(key=lambda chosen: chosen["selection"].iloc[0] == BEST_TEST)
    by_rule = []
    for chosen in (own, *others):
        known = set(chosen["row"])
        asked = [name for name in rows if name in known or name not in set(frame["row"])]
        on_test = chosen["selection"].iloc[0] == BEST_TEST
        section = "What published tables report: the best epoch on test" if on_test else "By other selection rules"
        figures = _table(benchmark, chosen, asked, mark_best=not on_test)
        by_rule.append(Table(_caption(benchmark, chosen), figures, "" if chosen is own else section))
    return [by_rule[0], *_difference_tables(benchmark, comparison), *_tuning_tables(benchmark), *by_rule[1:]]


def _difference_tables(benchmark: Benchmark, comparison: Comparison) -> list[Table]:
    """Return the table of paired differences; none where nothing can be compared."""
    columns = [column for column in benchmark.columns if column in comparison.means]
    lines = {row: [row, ""] for row in benchmark.rows if row in comparison.means.index}
    seeds: dict[str, list[int]] = {row: [] for row in lines}
    for column in columns:
        reference = benchmark.reference or str(comparison.means[column].idxmax())
        for row, line in lines.items():
            difference = comparison.estimate_difference(column, row, reference)
            if difference is None:
                line.append("")
                continue
            seeds[row].append(difference.seeds)
            line.append("reference" if row == reference else str(difference))
    if len(lines) < 2:
        return []
    for row, counts in seeds.items():
        lines[row][1] = " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else ""
    from_what = benchmark.reference or "the best row of each column"
    caption = (
        f"Difference from {from_what} in points, with a 90 % interval; if that leaves out zero, the difference is more "
        "than chance. Paired by seed, and test row by test row. The interval is Student's over the seeds, widened by "
        "the sampling of test rows; the fewer the seeds, the wider. With one seed it is of the test rows alone and "
        "says nothing of other seeds. Of ten intervals about one misses."
    )
    return [Table(caption, [["", "Seeds", *columns], *lines.values()])]


def _tuning_tables(benchmark: Benchmark) -> list[Table]:
    """Return the table of how the options of each row were chosen; none where the grid does not say it of any."""
    if not benchmark.tuning:
        return []
    lines = [[row, benchmark.tuning.get(row, "not recorded")] for row in benchmark.rows]
    return [Table("How the options of each row were chosen.", [["", "Tuning"], *lines])]


def format_markdown(benchmark: Benchmark, frame: pd.DataFrame, comparison: Comparison) -> str:
    """Return the tables of a benchmark as Markdown."""
    parts = [f"# {benchmark.title}", describe_outcome(benchmark, frame, comparison)]
    for table in build_tables(benchmark, frame, comparison):
        texts = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table.lines]
        parts += [table.caption, "\n".join([texts[0], "|" + "---|" * len(table.lines[0]), *texts[1:]])]
    return "\n\n".join([*parts, *_machine(frame)]) + "\n"


def write_results(benchmark: Benchmark, out: Path, seeds: int | None = None) -> None:
    """Write tables, predictions, figures and the page of the finished runs, and show the first table."""
    from logit_correction.atomic_files import replace_atomically, write_text_file
    from logit_correction.pages.console import build_console_table, make_console, print_wrapped
    from logit_correction.pages.page import render_template, save_page
    from logit_correction.runs.folder import PAGE

    frame, console = build_results_table(benchmark, out), make_console()
    predictions = collect_predictions(list_finished_cells(benchmark, out))
    comparison = compare_rows(benchmark, frame, predictions)
    with replace_atomically(out / "table.csv") as temporary:
        frame.to_csv(temporary, index=False)
    write_predictions(predictions, out / PREDICTIONS)
    write_text_file(out / "table.md", format_markdown(benchmark, frame, comparison))
    changed = "" if seeds is None else f"# Run with --seeds {seeds}.\n"
    write_text_file(out / "benchmark.yaml", changed + benchmark.text)
    followed = build_history_table(benchmark, out)
    if len(followed):
        with replace_atomically(out / "history.csv") as temporary:
            followed.to_csv(temporary, index=False, float_format="%.4f")
    drawn = list(draw_figures(benchmark, frame, followed))
    for name, svg in drawn:
        write_text_file(out / f"{name}.svg", svg + "\n")
    shown = build_tables(benchmark, frame, comparison)
    headline = describe_outcome(benchmark, frame, comparison)
    page = {"title": benchmark.title, "headline": headline, "tables": shown, "machine": _machine(frame)}
    figured = [drawing.inline_svg(svg) for _, svg in drawn]
    save_page(render_template("grid.html.j2", **page, figures=figured, settings=changed + benchmark.text), out / PAGE)
    print_wrapped(console, headline, "bold")
    for table in shown[:1]:  # the others are on the page
        print_wrapped(console, table.caption)
        head, *lines = table.lines
        console.print(
            build_console_table(pd.DataFrame([[cell.strip("*") for cell in line] for line in lines], columns=head))
        )
    print_wrapped(console, f"page: {out / PAGE} (tables and figures are in its folder)")


def describe_outcome(benchmark: Benchmark, frame: pd.DataFrame, comparison: Comparison) -> str:
    """Return in how many columns a row is ahead of all others by more than chance, by the runs' own selection rule."""
    if frame.empty:
        return "No run is finished."
    measure = benchmark.metric.replace("_", "-")
    if comparison.scores.empty:
        return f"No run has a {measure} accuracy: write `metric: average` into the grid if its data hold no attributes."
    means = comparison.means
    columns = [column for column in benchmark.columns if column in means and means[column].count() > 1]
    if not columns:
        return "No column has two finished rows, so there is nothing to compare."
    leaders = {column: comparison.find_leaders(column) for column in columns}
    ahead = Counter(rows[0] for rows in leaders.values() if len(rows) == 1)
    level = Counter(row for rows in leaders.values() for row in rows)
    counts = ahead or level
    most = max(counts.values())
    first = [row for row in benchmark.rows if counts[row] == most]
    where = f"{most} of {len(columns)} columns{_by_own(frame)}"
    if not ahead:
        verb = "is" if len(first) == 1 else "are"
        least = f"No row has a higher {measure} accuracy than all others by more than chance."
        return f"{least} {format_list(first)} {verb} best, or level with the best, in {where}."
    verb = "each have" if len(first) > 1 else "has"
    rest = "" if ahead.total() == len(columns) else " Elsewhere the best rows differ by no more than chance."
    return f"{format_list(first)} {verb} the highest {measure} accuracy in {where}.{rest}"


def _own(frame: pd.DataFrame) -> pd.DataFrame:
    """Return each run by its own selection rule, which stands first."""
    return frame[~frame.duplicated(["row", "column", "seed"])]


def _by_own(frame: pd.DataFrame) -> str:
    """Return words for runs that differ in their own selection rule."""
    return ", each run by its own selection rule" if _own(frame)["selection"].nunique() > 1 else ""


def _machine(frame: pd.DataFrame) -> list[str]:
    """Return where the runs come from; nothing without runs."""
    known = frame.fillna({"commit": "unknown"})
    values = [sorted(set(known[name].dropna().astype(str))) for name in ("machine", "commit", "version") if len(frame)]
    return ["Machine: {}; commit: {}; version {}.".format(*map(", ".join, values))] if values else []


def _table(benchmark: Benchmark, frame: pd.DataFrame, rows: Iterable[str], mark_best: bool = True) -> list[list[str]]:
    """Return a line a row: the splits whose attributes it read, and for each column our figure and the paper's."""
    scores = _scores(benchmark, frame)
    lines, head = {name: [name, ""] for name in rows}, ["", "Attributes read"]
    if len(frame):  # the splits whose attributes any run of a row read
        read = frame["attributes_read"].fillna("").groupby(frame["row"]).agg(" ".join)
        for name in read.index.intersection(list(lines)):
            lines[name][1] = ", ".join(one for one in ("train", "valid", "test") if one in read[name]) or "none"
    for column in benchmark.columns:
        head.append(column)
        own = scores[scores.index.get_level_values("column") == column].droplevel("column")
        for name, line in lines.items():
            shown = ""
            if name in own.index:
                mean, spread = own["mean"][name], own["std"][name]
                shown = f"{mean:.1f}" + (f" ({spread:.1f})" if spread == spread else "")
                is_best = mark_best and len(benchmark.rows) > 1 and mean == own["mean"].max()
                shown = f"**{shown}**" if is_best else shown
            line.append(shown)
        if any(column in cells for cells in benchmark.paper.values()):
            head.append(benchmark.paper_title)
            for name, line in lines.items():
                figure = benchmark.paper.get(name, {}).get(column)
                with_spread = "{0[0]:.2f} ({0[1]:.2f})" if isinstance(figure, list) else "{:.2f}"
                line.append("" if figure is None else with_spread.format(figure))
    return [head, *lines.values()]


def _metric_of(benchmark: Benchmark, column: str) -> str:
    """Return the accuracy by which a column is judged."""
    return benchmark.column_metrics.get(column, benchmark.metric)


def _run_scores(benchmark: Benchmark, frame: pd.DataFrame) -> pd.Series[float]:
    """Return the accuracy in % of each run by row, column and seed, each column's by its own metric."""
    if frame.empty:
        frame = pd.DataFrame(columns=[*{*RUN, benchmark.metric, *benchmark.column_metrics.values()}])
    score = 100 * pd.to_numeric(frame[benchmark.metric])
    for column, metric in benchmark.column_metrics.items():
        score = score.where(frame["column"] != column, 100 * pd.to_numeric(frame[metric]))
    return score.set_axis(pd.MultiIndex.from_frame(frame[RUN])).dropna()


def _scores(benchmark: Benchmark, frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard deviation and number of the accuracies of each row in each column."""
    return _run_scores(benchmark, frame).groupby(level=["row", "column"]).agg(["mean", "std", "count"])


def _measure(benchmark: Benchmark) -> str:
    others = [f"{column}: {name.replace('_', '-')}" for column, name in benchmark.column_metrics.items()]
    own = f" ({', '.join(others)})" if others else ""
    return f"{benchmark.metric.replace('_', '-').capitalize()} test accuracy{own} in %"


def _caption(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    count = frame.groupby(["row", "column"]).size()
    least, most = count.min(), count.max()
    seeds = f"{most}" if least == most else f"{least} to {most}"
    over = f"mean (standard deviation) of {seeds} seeds" if most > 1 else "one seed"
    rules = {str(rule): ", ".join(rows.unique()) for rule, rows in frame.groupby("selection", sort=False)["row"]}
    epoch = RULES.get(next(iter(rules)), ("", "the epoch that it chose"))[1]
    weights = f"Weights of {epoch} (selection rule: {next(iter(rules))})."
    if len(rules) > 1:
        told = "; ".join(f"{rule} for {rows}" for rule, rows in rules.items())
        weights = f"Weights of the epoch that each run's own selection rule chose: {told}."
    if BEST_TEST in rules:
        weights = (
            "Best epoch on test: this is what published tables report. The epoch was chosen with the labels of the "
            "test rows, so these figures are no estimate of accuracy, and no selection uses them."
        )
    caption = f"{_measure(benchmark)}, {over}. {weights}"
    if benchmark.column_title:
        caption += f" Columns: {benchmark.column_title}."
    caption += " Attributes read: the splits whose attributes training or selection used."
    return caption + (f" Columns named {benchmark.paper_title} hold its figures." if benchmark.paper else "")


# -- Figures

#: Width of the axes in inches, and their height where it does not depend on the number of bars.
_WIDTH, _HEIGHT = 3.6, 2.3

_DASHES = ("-", "--", ":", "-.")

#: Which margin of a group's rows -> the column of ``metrics.csv`` that holds its ratio.
_RATIOS = {"least": "train_margin_ratio", "mean": "train_mean_margin_ratio"}


def draw_figures(benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Draw the figures that the benchmark asks for: the name of each file without the ending, and the SVG.

    What there are no figures for is left out.
    """
    if frame.empty:
        return
    frame, by_own = _own(frame), _by_own(frame)
    columns, methods = list(benchmark.columns), dict(zip(frame["row"], frame["method"], strict=True))
    colors = assign_colors({row: methods.get(row, "") for row in benchmark.rows})
    places = pd.to_numeric(pd.Series(columns, index=columns).str.replace("%", ""), errors="coerce")

    usual = {"kind": "accuracy" if places.notna().all() and len(columns) > 1 else "bars"}
    for options in benchmark.figures or [usual]:
        kind, margin = options["kind"], options.get("margin", "least")
        of_ends, ratio = kind in ("accuracy", "bars"), kind == "margins"
        if of_ends:
            summary, height = _scores(benchmark, frame).fillna({"std": 0.0}), _HEIGHT
            if summary.empty:
                continue
            title = f"{_measure(benchmark)}{by_own}"
            paint = partial(
                _lines, summary.rename(index=places.to_dict(), level=1), colors, places, benchmark.column_title
            )
            if kind == "bars":
                height = max(0.6, len(columns) * (0.18 * len(benchmark.rows) + 0.22))
                paint = partial(_bars, benchmark, summary, colors)
            yield kind, _drawn(f"{title}: {benchmark.title}", title, height, paint)
            continue
        metric = options.get("metric", "group_balanced")
        value = _RATIOS[margin] if ratio else f"test_{metric}"
        if kind == "none" or value not in history or history[value].isna().all():
            continue
        title = f"{metric.replace('_', '-').capitalize()} test accuracy in %"
        title = f"Majority margin / minority margin ({margin} of a group)" if ratio else title
        name = "margins-mean" if ratio and margin == "mean" else kind
        values = np.log(history[value].where(history[value] > 0)) if ratio else 100 * history[value]
        curves = values.groupby([history[by] for by in ("column", "row", "epoch")]).agg(["mean", "std"])
        curves = curves.fillna({"std": 0.0}).dropna(subset=["mean"])
        for column in [one for one in columns if one in curves.index.get_level_values("column")]:
            paint = partial(_lines, curves.loc[(column,), :], colors, None, "epoch", is_ratio=ratio)
            file, of_column = (f"{name}-{make_folder_name(column)}", f", {column}") if len(columns) > 1 else (name, "")
            yield file, _drawn(f"{title}: {benchmark.title}{of_column}", title, _HEIGHT, paint)


def _drawn(description: str, title: str, height: float, paint: Callable[[Axes], None]) -> str:
    def titled(axes: Axes) -> None:
        paint(axes)
        axes.spines["left"].set_visible(False)
        axes.set_title(title)

    return drawing.draw(_WIDTH, height, description, titled)


def _lines(
    summary: pd.DataFrame,
    colors: Mapping[str, str],
    ticks: pd.Series[float] | None,
    title: str,
    axes: Axes,
    *,
    is_ratio: bool = False,
) -> None:
    """Paint a line a row over the second level, a band of one standard deviation about it; of ratios, by logarithms.

    ``ticks`` are names of places on the axis, whose ``title`` says what they are.
    """
    for order, row in enumerate([row for row in colors if row in summary.index.get_level_values("row")]):
        line = summary.loc[row].sort_index()
        x, mean, spread = line.index.to_numpy(float), line["mean"].to_numpy(float), line["std"].to_numpy(float)
        low, middle, high = (np.exp(v) if is_ratio else v for v in (mean - spread, mean, mean + spread))
        axes.fill_between(x, low, high, color=colors[row], alpha=0.16, linewidth=0)
        look: dict[str, Any] = {
            "marker": "" if ticks is None else "o",
            "markersize": 4,
            "linewidth": 1.6,
            "color": colors[row],
        }
        axes.plot(x, middle, _DASHES[order % len(_DASHES)], label=drawing.shorten(row, 34), **look)
    if is_ratio:
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))  # numbers as people write them
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
        axes.axhline(1.0, color=drawing.MUTED, linewidth=0.8, linestyle=":")
    if ticks is not None:
        if ticks.min() > 0 and ticks.max() >= 5 * ticks.min():
            axes.set_xscale("log")
        axes.set_xticks(ticks.tolist(), list(ticks.index))
        axes.minorticks_off()
    else:
        axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(title)
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), handlelength=2.2)


def _bars(benchmark: Benchmark, summary: pd.DataFrame, colors: Mapping[str, str], axes: Axes) -> None:
    """Paint a bar a row and column, the value in % beside it, the standard deviation as a line.

    A unit of the y axis is an inch.
    """
    columns, mean, spread = list(benchmark.columns), summary["mean"], summary["std"]
    ends = pd.DataFrame({"value": mean, "low": mean - spread, "high": mean + spread})
    rows = [row for row in benchmark.rows if row in ends.index.get_level_values("row")]
    series = {row: ends.loc[[row]].droplevel("row").reindex(columns) for row in rows}
    names, color, gap = columns, dict[str, Any](colors), 0.22
    if len(columns) == 1:  # then a series of all rows
        series, names, gap = {"": ends.droplevel("column").loc[rows]}, [drawing.shorten(row, 50) for row in rows], 0.04
        color = {"": [colors[row] for row in rows]}
    thickness, pitch = 0.16, 0.16 * len(series) + gap
    for order, (name, frame) in enumerate(series.items()):
        place = np.arange(len(names)) * pitch + order * thickness
        value, low, high = (frame[column].to_numpy(float) for column in ("value", "low", "high"))
        label = drawing.shorten(name, 34)
        axes.barh(place, np.nan_to_num(value), 0.86 * thickness, color=color[name], label=label)
        known = ~np.isnan(value)
        axes.hlines(place[known], low[known], high[known], color=drawing.INK, linewidth=0.9)
        for y, number, end in zip(place, value, np.nan_to_num(high), strict=True):
            text = "–" if np.isnan(number) else f"{number:.1f}"
            axes.text(end + 1.5, y, text, va="center", fontsize=7.5, color=drawing.MUTED)
    axes.set_yticks(np.arange(len(names)) * pitch + (len(series) - 1) * thickness / 2, names)
    axes.set_ylim(len(names) * pitch - gap / 2 - 0.05, -0.18)
    axes.set_xlim(0, 100)
    axes.grid(axis="x")
    axes.spines[["bottom", "left"]].set_visible(False)
    if len(columns) > 1:
        axes.set_ylabel(benchmark.column_title)
        axes.legend(loc="upper left", bbox_to_anchor=(1.06, 1.0), handlelength=0.9)
