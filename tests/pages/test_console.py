"""What the commands print of runs."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from logit_correction.evaluation.report import DataSummary, EpochSelection, GroupReport, Report
from logit_correction.finding_text import describe_finding, finding_to_dict
from logit_correction.pages.compare import build_comparison_table, read_reports
from logit_correction.pages.console import build_runs_table, print_runs

from .conftest import found, look

Make = Callable[..., Path]


def report(method: str, seed: int, minority: float | None, rule: str = "last") -> Report:
    figures = {"average": 0.9, "group_balanced": 0.71, "worst_group": 0.2, "minority": minority, "majority": 0.999}
    figures["adjusted_average"] = 0.97
    names = [{"label": "y", "attribute": "a"}]
    test = GroupReport(groups=pd.DataFrame(names), **figures)
    data = DataSummary(name="Table", rows={"train": 9}, label_names=["y"], attribute_names=["a"], input_shape=[3])
    return Report(method=method, seed=seed, epochs=30, data=data, test=test, selection=EpochSelection(rule=rule))


def printed(table: Any, width: int = 80, named: bool = True) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(build_runs_table(table, named))
    return stream.getvalue()


def test_console_shows_every_word_in_80_columns_and_what_all_runs_share_in_the_title() -> None:
    rule = "valid_estimated_within_error"
    runs = [report("ERM", 0, 0.31), report("Reweighting", 0, 0.74, rule)]
    text = printed(build_comparison_table(runs))
    lines = text.splitlines()
    assert lines[0].strip() == "Accuracy on the test split, %, 30 epochs, seed 0"
    for word in ("Method", "Average", "balanced", "Worst", "Bias", "conflicting", "aligned", "Adjusted", "Selection"):
        assert word in text
    assert "…" not in text and max(map(len, lines)) <= 80
    assert sum("within error" in line for line in lines) == 1 and len(lines) <= 6
    seeds = printed(build_comparison_table([report("Reweighting", 0, 0.31, rule), report("Reweighting", 1, 0.3, rule)]))
    assert "Seed" in seeds and "Selection" in seeds and max(map(len, seeds.splitlines())) <= 80


def test_console_prints_names_as_they_are_and_marks_the_best() -> None:
    table = build_comparison_table([report("[bold]x[/bold]", 0, 0.31), report("[/]", 0, 0.74)])
    assert "[bold]x[/bold]" in printed(table, 120) and "[/]" in printed(table, 120)
    column = next(
        column
        for column in build_runs_table(table, True).columns
        if str(column.header).split() == ["Bias", "conflicting"]
    )
    assert [str(cell.style) for cell in column.cells] == ["", "bold"]  # type: ignore[union-attr]


def test_the_console_bolds_nobody_where_attributes_are_estimated(birds: Make, tmp_path: Path) -> None:
    table = build_comparison_table(
        read_reports([birds(tmp_path / name, name, attribute_names=None, estimated=True) for name in ("ERM", "LC")])
    )
    assert list(table.columns)[3:6] == ["estimated_minority", "estimated_majority", "worst_class"]
    shown = build_runs_table(table, False)
    assert not any(str(cell.style) for column in shown.columns for cell in column.cells)  # type: ignore[union-attr]
    text = " ".join(printed(table, named=False).split())
    assert "so none is bold" in text and "Estimated" in text


def test_what_was_found_is_printed_with_what_to_say(
    birds: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = found("shortcut", ["colour"], look("colour"))
    print_runs([birds(tmp_path / "run", "LC", evidence=finding_to_dict(finding))], Path("here"))
    told, what, page = capsys.readouterr().out.splitlines()[-3:]
    assert (told, page) == (
        f"shortcut: colour. {describe_finding(finding)}.",
        "page: here",
    ) and "`--legitimate colour`" in what
    assert "93" in told and "76 rows" in told
    named = finding_to_dict(found("shortcut", ["column:[red]site"]))  # a person named it: nothing to say
    print_runs([birds(tmp_path / "said", "LC", evidence=named)], Path("here"))
    said = "shortcut: the column `[red]site`. You named this shortcut."
    assert capsys.readouterr().out.splitlines()[-2:] == [said, "page: here"]


def test_of_several_seeds_the_mean_and_the_spread_are_printed(
    birds: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [birds(tmp_path / str(seed), "LC", seed=seed) for seed in range(3)]
    print_runs(folders, tmp_path / "report.html")
    values = [100 * report.test.average for report in read_reports(folders)]
    told = f"Average: {np.mean(values):.1f} % in the mean of 3 seeds, standard deviation {np.std(values, ddof=1):.1f}"
    assert told in capsys.readouterr().out
