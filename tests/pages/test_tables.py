from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from logit_correction.pages.tables import comparison_table, to_console


def report(method: str, seed: int, minority: float | None, **changes: Any) -> dict[str, Any]:
    test = {
        "average": 0.9,
        "group_balanced": 0.71,
        "worst_group": 0.2,
        "minority": minority,
        "majority": 0.999,
    }
    base = {"method": method, "seed": seed, "epochs": 30, "test": test}
    base["selection"] = {"rule": "last", "split": None, "labels_read": []}
    return base | changes


def test_one_row_per_run_with_fractions_and_nan() -> None:
    table = comparison_table([report("ERM", 0, 0.31), report("LC", 1000, None)])
    assert list(table.columns) == [
        "method", "epochs", "seed",
        "average", "group_balanced", "worst_group", "minority", "majority", "selection",
    ]  # fmt: skip
    assert table["method"].tolist() == ["ERM", "LC"]
    assert table["minority"].iloc[0] == 0.31
    assert np.isnan(table["minority"].iloc[1])
    assert table["minority"].dtype == float


def test_other_selections_follow_their_run() -> None:
    other = {
        "rule": "valid_worst_group", "epoch": 7, "split": "valid", "labels_read": ["label", "attribute"],
        "test": {"average": 0.8},
    }  # fmt: skip
    reports = [report("LC", 0, 0.7, other_selections=[other]), report("ERM", 0, 0.3)]
    assert len(comparison_table(reports)) == 2
    table = comparison_table(reports, other_selections=True)
    assert table["epochs"].tolist() == [30, 7, 30]
    assert table["selection"].tolist() == ["last", "valid worst group (reads attribute)", "last"]
    assert table["average"].tolist() == [0.9, 0.8, 0.9]


def test_no_runs_give_an_empty_table() -> None:
    assert len(comparison_table([])) == 0


def printed(table: Any, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(to_console(table))
    return stream.getvalue()


def test_console_shows_every_word_in_80_columns(colored: Callable[..., Path], tmp_path: Path) -> None:
    runs = [colored(tmp_path / name, name) for name in ("ERM", "LC")]
    text = printed(comparison_table([json.loads((run / "report.json").read_text()) for run in runs]), 80)
    for word in (
        "Method",
        "Epochs",
        "Seed",
        "Average",
        "balanced",
        "Worst",
        "Minority",
        "Majority",
        "Selection",
    ):
        assert word in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("method", ["[bold]x[/bold]", "[/]"])
def test_console_prints_names_as_they_are(method: str) -> None:
    assert method in printed(comparison_table([report(method, 0, 0.5)]), 120)


def test_console_marks_the_best_of_several_runs() -> None:
    shown = to_console(comparison_table([report("ERM", 0, 0.31), report("LC", 0, 0.74)]))
    column = next(column for column in shown.columns if str(column.header) == "Minority")
    assert [str(cell.style) for cell in column.cells] == ["", "bold"]  # type: ignore[union-attr]
