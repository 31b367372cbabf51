"""What the commands print of runs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from logit_correction.cli import main
from logit_correction.evaluation.report import DataSummary, EpochSelection, GroupReport, Report
from logit_correction.finding_text import describe_finding, finding_to_dict
from logit_correction.pages.compare import build_comparison_table, read_comparable_reports
from logit_correction.pages.console import build_runs_table, print_run_metrics

from .conftest import build_finding, build_view_evidence

RunWriter = Callable[..., Path]


def build_report(method: str, seed: int, minority: float | None, rule: str = "last") -> Report:
    figures = {"average": 0.9, "group_balanced": 0.71, "worst_group": 0.2, "minority": minority, "majority": 0.999}
    figures["adjusted_average"] = 0.97
    names = [{"label": "y", "attribute": "a"}]
    test = GroupReport(groups=pd.DataFrame(names), **figures)
    data = DataSummary(name="Table", rows={"train": 9}, label_names=["y"], attribute_names=["a"], input_shape=[3])
    return Report(method=method, seed=seed, epochs=30, data=data, test=test, selection=EpochSelection(rule=rule))


def print_table(table: Any, width: int = 80, with_attributes: bool = True) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(build_runs_table(table, with_attributes))
    return stream.getvalue()


def test_table_fits_80_columns_and_has_common_options_in_the_title() -> None:
    rule = "valid_estimated_within_error"
    runs = [build_report("ERM", 0, 0.31), build_report("Reweighting", 0, 0.74, rule)]
    text = print_table(build_comparison_table(runs))
    lines = text.splitlines()
    assert lines[0].strip() == "Accuracy on the test split, %, 30 epochs, seed 0"
    for word in ("Method", "Average", "balanced", "Worst", "Bias", "conflicting", "aligned", "Adjusted", "Selection"):
        assert word in text
    assert "…" not in text and max(map(len, lines)) <= 80
    assert sum("within error" in line for line in lines) == 1 and len(lines) <= 6
    seeds = print_table(
        build_comparison_table([build_report("Reweighting", 0, 0.31, rule), build_report("Reweighting", 1, 0.3, rule)])
    )
    assert "Seed" in seeds and "Selection" in seeds and max(map(len, seeds.splitlines())) <= 80


def test_long_names_lose_their_middle_in_tables_and_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of 44 characters breaks no table of a terminal of 80 columns; JSON has it whole."""
    monkeypatch.setenv("COLUMNS", "80")
    sites = ["department_of_radiology_in_the_northern_wing", "department_of_radiology_in_the_southern_wing"]
    rows = pd.DataFrame({"dose": range(60), "site": [sites[row // 2 % 2] for row in range(60)]})
    rows = rows.assign(outcome=[("well_after_the_treatment_of_the_whole_course", "ill")[row % 2] for row in range(60)])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    data = ["--data", str(tmp_path / "rows.csv"), "--data.label", "outcome", "--data.attribute", "site"]
    training = ["--method", "ERM", "--epochs", "1", "--threads", "1"]
    assert main(["train", *data, *training, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    evaluated = capsys.readouterr().out
    assert max(map(len, evaluated.splitlines())) <= 80
    for text in (printed.err, evaluated):
        assert re.search(r"^well_after_t…hole_course +", text, flags=re.MULTILINE)
        assert re.search(r" department_o…rthern_wing", text) and "department_of" not in text
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    whole = capsys.readouterr().out
    assert all(site in whole for site in sites)


def test_table_escapes_names_and_marks_the_best() -> None:
    table = build_comparison_table([build_report("[bold]x[/bold]", 0, 0.31), build_report("[/]", 0, 0.74)])
    assert "[bold]x[/bold]" in print_table(table, 120) and "[/]" in print_table(table, 120)
    column = next(
        column
        for column in build_runs_table(table, True).columns
        if str(column.header).split() == ["Bias", "conflicting"]
    )
    assert [str(cell.style) for cell in column.cells] == ["", "bold"]  # type: ignore[union-attr]


def test_table_marks_no_best_for_estimated_attributes(make_birds_run: RunWriter, tmp_path: Path) -> None:
    table = build_comparison_table(
        read_comparable_reports(
            [make_birds_run(tmp_path / name, name, attribute_names=None, estimated=True) for name in ("ERM", "LC")]
        )
    )
    assert list(table.columns)[3:6] == ["estimated_minority", "estimated_majority", "worst_class"]
    printed_table = build_runs_table(table, False)
    assert not any(str(cell.style) for column in printed_table.columns for cell in column.cells)  # type: ignore[union-attr]
    text = " ".join(print_table(table, with_attributes=False).split())
    assert "so none is bold" in text and "Estimated" in text


def test_print_runs_prints_the_finding_with_advice(
    make_birds_run: RunWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = build_finding("shortcut", ["colour"], build_view_evidence("colour"))
    print_run_metrics([make_birds_run(tmp_path / "run", "LC", evidence=finding_to_dict(finding))], Path("here"))
    finding_line, advice_line, page = capsys.readouterr().out.splitlines()[-3:]
    assert (finding_line, page) == (
        f"shortcut: cannot tell, corrected by colour. {describe_finding(finding)}.",
        "page: here",
    ) and "`--legitimate colour`" in advice_line
    assert "93" in finding_line and "76 rows" in finding_line
    user_named = finding_to_dict(build_finding("shortcut", ["column:[red]site"]))  # a person named it: nothing to say
    print_run_metrics([make_birds_run(tmp_path / "said", "LC", evidence=user_named)], Path("here"))
    expected_line = "shortcut: the column `[red]site`. You named this shortcut."
    assert capsys.readouterr().out.splitlines()[-2:] == [expected_line, "page: here"]


def test_print_runs_prints_mean_and_deviation_of_several_seeds(
    make_birds_run: RunWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [make_birds_run(tmp_path / str(seed), "LC", seed=seed) for seed in range(3)]
    print_run_metrics(folders, tmp_path / "report.html")
    values = [100 * report.test.average for report in read_comparable_reports(folders)]
    expected = (
        f"Average: {np.mean(values):.1f} % in the mean of 3 seeds, standard deviation {np.std(values, ddof=1):.1f}"
    )
    assert expected in capsys.readouterr().out
