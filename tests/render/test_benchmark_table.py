"""The table of a benchmark: means and deviations by hand, the best in bold, the paper's figures beside."""

from __future__ import annotations

import statistics

import pandas as pd

from logit_correction.benchmark import Benchmark
from logit_correction.render.benchmark_table import markdown

FIGURES = {
    ("ERM", "1"): [0.30, 0.40, 0.35],
    ("ERM", "2"): [0.50, 0.60, 0.55],
    ("LC", "1"): [0.70, 0.80, 0.76],
    ("LC", "2"): [0.85],
}


def benchmark(rows: tuple[str, ...] = ("ERM", "LC", "JTT"), metric: str = "group_balanced") -> Benchmark:
    return Benchmark(
        name="mine",
        title="A grid",
        rows={row: {} for row in rows},
        columns={"1": {}, "2": {}, "5": {}},
        common={},
        seeds=3,
        data_seeds=False,
        metric=metric,
        paper={"LC": {"1": 82.25, "5": 91.16}},
    )


def frame(rules: tuple[str, ...] = ("last",)) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": row,
            "column": column,
            "seed": seed,
            "selection": rule,
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


def cells(text: str, row: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_means_and_deviations_over_the_seeds() -> None:
    text = markdown(benchmark(), frame())
    assert text.startswith("# A grid\n")
    for (row, column), values in FIGURES.items():
        shown = cells(text, row)[["1", "2", "5"].index(column)].strip("*")
        mean = f"{100 * statistics.mean(values):.1f}"
        spread = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
        assert shown == mean + spread
    assert "over 1 to 3 seeds" in text


def test_the_best_of_a_column_is_bold_and_what_is_missing_is_empty() -> None:
    text = markdown(benchmark(), frame())
    assert [cell.startswith("**") for cell in cells(text, "LC")] == [True, True, False]
    assert not any("**" in cell for cell in cells(text, "ERM"))
    assert cells(text, "JTT") == ["", "", ""] and cells(text, "LC")[2] == ""


def test_the_papers_figures_stand_below() -> None:
    assert cells(markdown(benchmark(), frame()), "the paper's LC") == ["82.25", "", "91.16"]


def test_every_rule_has_a_table_of_its_own() -> None:
    text = markdown(benchmark(), frame(("last", "valid_average")))
    first, second = text.split("weights: valid_average")
    assert "weights: last" in first and cells(first, "ERM")[0].startswith("35.0")
    assert cells(second, "ERM")[0].startswith("36.0")


def test_a_single_row_is_not_praised() -> None:
    alone = frame()
    assert "**" not in markdown(benchmark(("ERM",)), alone[alone["row"] == "ERM"])


def test_machine_commit_and_version_close_the_table() -> None:
    assert "Machine: a machine; commit: abc, unknown; version 0.1.0." in markdown(benchmark(), frame())


def test_another_metric_names_itself() -> None:
    text = markdown(benchmark(metric="average"), frame())
    assert "Average test accuracy in %" in text and cells(text, "ERM")[0].strip("*") == "50.0 (0.0)"


def test_no_finished_run() -> None:
    assert markdown(benchmark(), pd.DataFrame()) == "# A grid\n\nNo run is finished.\n"
