"""The tables of a benchmark: means and deviations by hand, the best in bold, and the paper's figures."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logit_correction.cli import main
from logit_correction_lab.figures import draw_figures
from logit_correction_lab.grid import Benchmark
from logit_correction_lab.tables import compare_grid_rows, describe_outcome, format_markdown

FIGURES = {
    ("ERM", "1"): [0.30, 0.40, 0.35],
    ("ERM", "2"): [0.50, 0.60, 0.55],
    ("LC", "1"): [0.70, 0.80, 0.76],
    ("LC", "2"): [0.85],
}


def make_benchmark(rows: tuple[str, ...] = ("ERM", "LC", "JTT"), **changes: Any) -> Benchmark:
    options: dict[str, Any] = {
        "name": "mine",
        "title": "A grid",
        "rows": {row: {} for row in rows},
        "columns": {"1": {}, "2": {}, "5": {}},
        "common": {},
        "seeds": 3,
        "paper": {"LC": {"1": 82.25, "5": [91.16, 0.97]}, "DFA": {"5": 89.66}},
    }
    return Benchmark(**options | changes)


def make_results(rules: tuple[str, ...] = ("last",)) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": row,
            "column": column,
            "seed": seed,
            "selection": rule,
            "method": row,
            "attributes_read": {"ERM": "", "LC": "train valid"}[row] if rule == "valid_worst_group" else "",
            "group_balanced": value + 0.01 * number,
            "average": 0.5,
            "version": "0.1.0",
            "commit": "abc" if seed else None,
            "machine": "a machine",
        }
        for (row, column), values in FIGURES.items()
        for seed, value in enumerate(values)
        for number, rule in enumerate(rules)
    )


def format_grid(grid: Benchmark, table: pd.DataFrame) -> str:
    return format_markdown(grid, table, compare_grid_rows(grid, table))


def describe(grid: Benchmark, table: pd.DataFrame) -> str:
    return describe_outcome(grid, table, compare_grid_rows(grid, table))


def read_cells(text: str, row: str) -> list[str]:
    """The cells of a row: attributes read, then ours and the paper's of 1, ours of 2, both of 5."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_format_markdown_has_means_and_deviations_over_the_seeds() -> None:
    text = format_grid(make_benchmark(), make_results())
    assert text.startswith("# A grid\n")
    for (row, column), values in FIGURES.items():
        cell = read_cells(text, row)[{"1": 1, "2": 3}[column]].strip("*")
        mean = f"{100 * statistics.mean(values):.1f}"
        spread = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
        assert cell == mean + spread
    assert "of 1 to 3 seeds" in text


def test_figures_and_outcome_use_the_metric_of_each_column_and_name_equal_rows() -> None:
    benchmark = make_benchmark(figure="bars", column_metrics={"2": "average"}, columns={"1": {}, "2": {}})
    (drawn,) = draw_figures(benchmark, make_results(), pd.DataFrame()).values()
    assert "2: average" in drawn and ">50.0<" in drawn and ">85.0<" not in drawn and ">75.3<" in drawn
    assert describe(benchmark, make_results()).startswith(
        "LC has the highest group-balanced accuracy in 1 of 2 columns."
    )
    even = replace(benchmark, column_metrics={"1": "average", "2": "average"})
    assert "ERM and LC are best, or level with the best, in 1 of 2 columns" in describe(even, make_results())


def test_describe_outcome_does_not_judge_a_row_of_one_seed_without_predictions() -> None:
    """Neither as level with the best nor as worse; a column where nothing is judged has no winner."""
    results = make_results()
    weak = results[(results["row"] == "ERM") & (results["seed"] == 0)].assign(row="JTT", method="JTT")
    outcome = describe(make_benchmark(), pd.concat([results, weak]))
    assert outcome.startswith("LC has the highest group-balanced accuracy in 1 of 2 columns.")
    assert outcome.endswith("not judged.")
    one_seed = describe(make_benchmark(), results[results["seed"] == 0])
    assert one_seed.endswith("not judged.") and "highest" not in one_seed


def test_format_markdown_has_differences_and_tuning_after_the_first_table() -> None:
    benchmark = make_benchmark(tuning={"LC": "two learning rates"}, reference="ERM")
    first, differences, tuning = format_grid(benchmark, make_results()).split("\n| ---")[0].split("\n\n|  |")[1:4]
    assert "| LC | none |" in first
    gaps = [0.40, 0.40, 0.41]  # of the seeds; the second column has but one of LC, and no predictions
    margin = 2.92 * 100 * statistics.stdev(gaps) / 3**0.5
    mean = 100 * statistics.mean(gaps)
    expected_cell = f"{mean:+.1f} ({mean - margin:+.1f} to {mean + margin:+.1f})"
    assert (
        f"| LC | 1 to 3 | {expected_cell} | +35.0 |" in differences
        and "| ERM | 3 | reference | reference |" in differences
    )
    assert "| ERM | not recorded |" in tuning and "| LC | two learning rates |" in tuning
    assert "Tuning" not in format_grid(make_benchmark(), make_results())


def test_every_selection_rule_has_a_table_with_the_attributes_read() -> None:
    text = format_grid(make_benchmark(), make_results(("last", "valid_worst_group")))
    first, second = text.split("Weights of the epoch with")
    assert "Weights of the last epoch (selection rule: last)." in first and "rule: valid_worst_group)" in second
    assert read_cells(first, "ERM")[1].startswith("35.0") and read_cells(second, "ERM")[1].startswith("36.0")
    assert [read_cells(part, "LC")[0] for part in (first, second)] == ["none", "train, valid"]
    assert read_cells(second, "ERM")[0] == "none"


def test_the_first_table_uses_the_own_rule_of_each_row() -> None:
    """The second figure of each run is by valid_average, which is the own rule of ERM's runs."""
    results = make_results(("valid_worst_group", "valid_average"))
    mixed = results[(results["row"] == "LC") | (results["selection"] == "valid_average")]
    first, second = format_grid(make_benchmark(), mixed).split("Group-balanced test accuracy")[1:]
    assert "valid_average for ERM; valid_worst_group for LC" in first and "(selection rule: valid_average)" in second
    assert [read_cells(first, row)[1][:4] for row in ("ERM", "LC")] == ["36.0", "**75"]
    assert [read_cells(second, row)[1][:4] for row in ("ERM", "LC")] == ["36.0", "**76"]
    assert (read_cells(first, "LC")[0], read_cells(second, "LC")[0]) == ("train, valid", "none")
    one_column = make_benchmark(figure="bars", columns={"1": {}})
    (drawn,) = draw_figures(one_column, mixed[mixed["column"] == "1"], pd.DataFrame()).values()
    assert "75.3" in drawn and "36.0" in drawn and "76.3" not in drawn


def test_a_grid_of_two_rules_names_a_winner_among_all_rows(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "mine.yaml").write_text(
        "title: Two rules\ncommon: {data: {name: Digits}, epochs: 1, threads: 1}\ncolumns: {'1': {}}\nseeds: 1\nrows:\n"
        "  ERM: {method: ERM}\n  worst: {method: GroupDRO, selection: valid_worst_group}\n"
        "  last layer: {method: {name: LastLayer, attributes: TrueAttributes}}\n"
    )
    assert main(["benchmark", str(tmp_path / "mine.yaml"), "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert all(f"\n{row} " in output for row in ("ERM", "worst", "last layer")) and "by its own" in output
    read = pd.read_csv(tmp_path / "out" / "table.csv").set_index(["row", "selection"])["attributes_read"].fillna("")
    assert read["worst"].to_dict() == {"valid_worst_group": "train valid", "valid_average": "train"}
    assert set(read["last layer"]) == {"valid"} and set(read["ERM"]) == {""}
