"""The figures of a benchmark: what is drawn from which figures, in which colours, and always the same bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction_lab.figures import draw_figures
from logit_correction_lab.grid import Benchmark

ROWS = {"ERM": "ERM", "ERM, mixed": "LC", "LC": "LC"}


def make_benchmark(figure: Any = None, columns: tuple[str, ...] = ("0.5 %", "5 %"), **changes: Any) -> Benchmark:
    content: dict[str, Any] = {"rows": {key: {} for key in ROWS}, "columns": {key: {} for key in columns}, "paper": {}}
    plain = {"name": "mine", "title": "A <grid> & more", "common": {}, "seeds": 2, "data_seeds": False}
    return Benchmark(**plain, **content | changes, metric="group_balanced", figure=figure)


def make_results(columns: tuple[str, ...] = ("0.5 %", "5 %")) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"row": row, "column": column, "seed": seed, "selection": rule, "method": method, "average": 0.1 * seed,
             "group_balanced": 0.5 + 0.1 * number + 0.02 * seed if rule == "last" else 0.0}
            for number, (row, method) in enumerate(ROWS.items())
            for column in columns for seed in range(2) for rule in ("last", "valid_average")
        ]
    )  # fmt: skip


def make_history(columns: tuple[str, ...] = ("0.5 %", "5 %")) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"row": row, "column": column, "seed": seed, "epoch": epoch, "test_group_balanced": (5 * epoch + seed) / 50,
             "train_margin_ratio": 2.0 - number if epoch > 1 else np.nan, "train_mean_margin_ratio": 3.0}
            for number, row in enumerate(ROWS) for column in columns for seed in range(2) for epoch in range(1, 4)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("figure", "columns", "expected"),
    [
        (None, ("0.5 %", "5 %"), ["accuracy"]),
        (None, ("here", "there"), ["bars"]),
        ("none", ("1", "2"), []),
        ("curves", ("1", "2 %"), ["curves-1", "curves-2"]),
        (["margins", {"kind": "margins", "margin": "mean"}], ("1",), ["margins", "margins-mean"]),
        ({"kind": "curves", "metric": "worst_group"}, ("1",), []),  # not monitored
    ],
)
def test_draw_figures_returns_the_figures_that_the_grid_asks_for(
    figure: Any, columns: tuple[str, ...], expected: list[str]
) -> None:
    benchmark = make_benchmark(figure, columns)
    assert list(draw_figures(benchmark, make_results(columns), make_history(columns))) == expected
    assert draw_figures(benchmark, pd.DataFrame(), pd.DataFrame()) == {}


def test_a_line_ends_at_a_column_that_was_not_measured() -> None:
    columns = ("1", "2", "5")
    results = make_results(columns)
    for table, num_parts in ((results, 1), (results[(results["row"] != "LC") | (results["column"] != "2")], 2)):
        figure = draw_figures(make_benchmark(None, columns), table, pd.DataFrame())["accuracy"]
        *_, last_line = re.findall(r'<path d="([^"]*)" clip-path[^>]*stroke-width: 1.6"', figure)
        assert last_line.count("M") == num_parts
