"""What came out of a grid: the figures of its finished runs, and their tables as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from logit_correction.errors import format_list
from logit_correction.evaluation.report import Report
from logit_correction.methods import METHODS
from logit_correction.pages.plots import series_colors
from logit_correction.runs.folder import METRICS, is_finished
from logit_correction.training import RULES
from logit_correction_lab import drawing
from logit_correction_lab.follow import selections
from logit_correction_lab.grid import Benchmark, Cell, slug

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Columns of the results that tell of the machine and the time, not of what came out.
OF_THE_MACHINE = ("train_seconds", "version", "commit", "machine")


def finished(benchmark: Benchmark, out: Path) -> list[Cell]:
    """Return the finished runs of a grid in its folder."""
    return [cell for cell in benchmark.cells(out) if is_finished(cell.folder)]


def results(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and selection rule."""
    reports = [(cell, Report.read(cell.folder).to_dict()) for cell in finished(benchmark, out)]
    return pd.DataFrame([row for cell, report in reports for row in _rows(cell, report)])


def _rows(cell: Cell, report: dict[str, Any]) -> list[dict[str, Any]]:
    minority, evidence = report["estimated_minority"] or {}, report.get("evidence") or {}
    of_training = "attribute" in report["labels_read"]["train"]
    blocks = [{**report["selection"], "test": report["test"]}, *selections(cell.folder)]
    of_method = "attribute" in report["labels_read"]["valid"]
    if report["method"] in METHODS and "attribute" in report["selection"]["labels_read"]:
        # The rule has read them; of the package's methods only the last layer does so itself.
        of_method = not of_training and "TrueAttributes" in str(report["method_options"])
    given = ["given"] * any("given attribute" in read for read in report["labels_read"].values())
    rows = []
    for block in blocks:
        splits = given + ["train"] * of_training + ["valid"] * (of_method or "attribute" in block["labels_read"])
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
                **{name: report["environment"][name] for name in OF_THE_MACHINE[1:]},
            }
        )
    return rows


def history(benchmark: Benchmark, out: Path) -> pd.DataFrame:
    """Return one row per finished run and epoch with the figures that its follower recorded in ``metrics.csv``."""
    frames = []
    for cell in finished(benchmark, out):
        table = pd.read_csv(cell.folder / METRICS)
        watched = table.filter(regex="^(test|train)_").dropna(how="all").reset_index(drop=True)
        if len(watched):
            frames.append(watched.assign(row=cell.row, column=cell.column, seed=cell.seed, epoch=watched.index + 1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def tables(benchmark: Benchmark, frame: pd.DataFrame) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of a benchmark with caption and head; the best between stars.

    In the first each run counts by its own selection rule; one follows for each rule that tells more. Without
    finished runs there is one of the paper's figures, if there are any.
    """
    rows = list(dict.fromkeys([*benchmark.rows, *benchmark.paper]))
    if frame.empty:
        return [(f"{_measure(benchmark)} in the paper.", _table(benchmark, frame, rows))] if benchmark.paper else []
    found, own = [], _own(frame)
    others = [chosen for _, chosen in frame.groupby("selection", sort=False) if not chosen.index.isin(own.index).all()]
    for chosen in (own, *others):
        known = set(chosen["row"])
        asked = [name for name in rows if name in known or name not in set(frame["row"])]
        found.append((_caption(benchmark, chosen), _table(benchmark, chosen, asked)))
    return found


def markdown(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    """Return the tables of a benchmark as Markdown."""
    parts = [f"# {benchmark.title}", *([_outcome(benchmark, frame)] if frame.empty else [])]
    for caption, lines in tables(benchmark, frame):
        texts = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        parts += [caption, "\n".join([texts[0], "|" + "---|" * len(lines[0]), *texts[1:]])]
    return "\n\n".join([*parts, *_machine(frame)]) + "\n"


def write_results(benchmark: Benchmark, out: Path, seeds: int | None = None) -> None:
    """Write the tables, figures and the page of the finished runs, and show the first table."""
    from logit_correction.files import replacing, write_text
    from logit_correction.pages.console import console_of, say, table_of
    from logit_correction.pages.page import render, save_page
    from logit_correction.runs.folder import PAGE

    frame, console = results(benchmark, out), console_of()
    with replacing(out / "table.csv") as temporary:
        frame.to_csv(temporary, index=False)
    write_text(out / "table.md", markdown(benchmark, frame))
    changed = "" if seeds is None else f"# Run with --seeds {seeds}.\n"
    write_text(out / "benchmark.yaml", changed + benchmark.text)
    drawn = list(drawn_figures(benchmark, frame, history(benchmark, out)))
    for name, svg in drawn:
        write_text(out / f"{name}.svg", svg + "\n")
    shown, told = tables(benchmark, frame), _outcome(benchmark, frame)
    page = {"title": benchmark.title, "headline": told, "tables": shown, "machine": _machine(frame)}
    figured = [drawing.inline_svg(svg) for _, svg in drawn]
    save_page(render("grid.html.j2", **page, figures=figured, settings=changed + benchmark.text), out / PAGE)
    say(console, told, "bold")
    for caption, (head, *lines) in shown[:1]:  # the other selection rules are on the page
        say(console, caption)
        console.print(table_of(pd.DataFrame([[cell.strip("*") for cell in line] for line in lines], columns=head)))
    say(console, f"page: {out / PAGE} (tables and figures are in its folder)")


def _outcome(benchmark: Benchmark, frame: pd.DataFrame) -> str:
    """Return in how many columns which row is best, by the runs' own selection rule."""
    if frame.empty:
        return "No run is finished."
    mean = _scores(benchmark, _own(frame))["mean"].unstack("column")
    best = mean.eq(mean.max()).sum(axis=1)
    measure = benchmark.metric.replace("_", "-")
    if best.empty:
        return f"No run has a {measure} accuracy: write `metric: average` into the grid if its data hold no attributes."
    where = f"{best.max()} of {mean.shape[1]} columns{_by_own(frame)}"
    first = [row for row in benchmark.rows if best.get(row) == best.max()]
    return f"{format_list(first)} {'each have' if len(first) > 1 else 'has'} the highest {measure} accuracy in {where}."


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


def _table(benchmark: Benchmark, frame: pd.DataFrame, rows: Iterable[str]) -> list[list[str]]:
    """Return a line a row: the splits whose attributes it read, and for each column our figure and the paper's."""
    scores = _scores(benchmark, frame)
    lines, head = {name: [name, ""] for name in rows}, ["", "Attributes read"]
    if len(frame):  # the splits whose attributes any run of a row read
        read = frame["attributes_read"].fillna("").groupby(frame["row"]).agg(" ".join)
        for name in read.index.intersection(list(lines)):
            lines[name][1] = ", ".join(one for one in ("train", "valid") if one in read[name]) or "none"
    for column in benchmark.columns:
        head.append(column)
        own = scores[scores.index.get_level_values("column") == column].droplevel("column")
        for name, line in lines.items():
            shown = ""
            if name in own.index:
                mean, spread = own["mean"][name], own["std"][name]
                shown = f"{mean:.1f}" + (f" ({spread:.1f})" if spread == spread else "")
                shown = f"**{shown}**" if len(benchmark.rows) > 1 and mean == own["mean"].max() else shown
            line.append(shown)
        if any(column in cells for cells in benchmark.paper.values()):
            head.append(benchmark.paper_title)
            for name, line in lines.items():
                figure = benchmark.paper.get(name, {}).get(column)
                with_spread = "{0[0]:.2f} ({0[1]:.2f})" if isinstance(figure, list) else "{:.2f}"
                line.append("" if figure is None else with_spread.format(figure))
    return [head, *lines.values()]


def _scores(benchmark: Benchmark, frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard deviation and number of the figures in %, each column's by its own metric."""
    if frame.empty:
        frame = pd.DataFrame(columns=[*{"row", "column", benchmark.metric, *benchmark.column_metrics.values()}])
    score = 100 * pd.to_numeric(frame[benchmark.metric])
    for column, metric in benchmark.column_metrics.items():
        score = score.where(frame["column"] != column, 100 * pd.to_numeric(frame[metric]))
    return score.groupby([frame["row"], frame["column"]]).agg(["mean", "std", "count"]).dropna(subset=["mean"])


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


def drawn_figures(benchmark: Benchmark, frame: pd.DataFrame, history: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Draw the figures that the benchmark asks for: the name of each file without the ending, and the SVG.

    What there are no figures for is left out.
    """
    if frame.empty:
        return
    frame, by_own = _own(frame), _by_own(frame)
    columns, methods = list(benchmark.columns), dict(zip(frame["row"], frame["method"], strict=True))
    colors = series_colors({row: methods.get(row, "") for row in benchmark.rows})
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
            file, of_column = (f"{name}-{slug(column)}", f", {column}") if len(columns) > 1 else (name, "")
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
