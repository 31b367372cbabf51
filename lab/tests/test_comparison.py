"""The predictions of a grid in one small file, and paired differences between its rows, against brute force."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from logit_correction import InputError
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import EvaluatedRows, GroupReport
from logit_correction.types import Correlation
from logit_correction_lab.comparison import (
    Comparison,
    collect_benchmark_predictions,
    compute_influence,
    read_benchmark_predictions,
    write_benchmark_predictions,
)
from logit_correction_lab.grid import Benchmark
from logit_correction_lab.results import build_results_table
from logit_correction_lab.runner import train_grid
from logit_correction_lab.tables import compare_grid_rows, write_results

#: Groups of the made-up test rows: label, attribute, rows, and shares right of two rows of a grid.
GROUPS = [(0, 0, 60, 0.9, 0.95), (0, 1, 20, 0.3, 0.5), (1, 0, 30, 0.6, 0.8), (1, 1, 80, 0.8, 0.85)]


def make_predictions(seed: int = 0, groups: Any = GROUPS, names: tuple[str, str] = ("ERM", "LC")) -> pd.DataFrame:
    """Predictions of two rows of a grid on the same test rows, in the form of ``collect_benchmark_predictions``."""
    frames = []
    for name, share in zip(names, (3, 4), strict=True):
        draw = np.random.default_rng(seed)  # a row that is hard for one is hard for both
        parts = [
            pd.DataFrame(
                {
                    "label": label,
                    "attribute": attribute,
                    "minority": label != attribute,
                    "prediction": np.where(draw.random(rows) < shares[share - 3], label, 1 - label),
                }
            )
            for label, attribute, rows, *shares in groups
        ]
        frame = pd.concat(parts, ignore_index=True).assign(row=name, column="1", seed=seed, test_set=seed)
        frames.append(frame.astype({"minority": "boolean"}))
    return pd.concat(frames, ignore_index=True)


def score(rows: pd.DataFrame, metrics: Iterable[str]) -> dict[str, float]:
    """Accuracies in %, by the package."""
    logits = np.eye(2)[rows["prediction"]]
    attribute_arguments = (["0", "1"], rows["attribute"].to_numpy(), ["0", "1"])
    predictions = Predictions(np.arange(len(rows)), rows["label"].to_numpy(), logits, *attribute_arguments)
    evaluated = EvaluatedRows.from_predictions(predictions, Correlation.one_to_one(2))
    return {metric: 100 * float(evaluated.compute_metric(metric)) for metric in metrics}


#: Metric -> the columns whose groups keep their numbers of rows when test rows are drawn again.
STRATA = {
    "average": ("test_set",),
    "group_balanced": ("label", "attribute"),
    "worst_group": ("label", "attribute"),
    "worst_class": ("label",),
    "minority": ("minority",),
    "majority": ("minority",),
}


@cache
def resample_differences(strata: tuple[str, ...]) -> dict[str, list[float]]:
    """Return of each metric of these strata the difference of two rows of a grid on 150 draws of the test rows."""
    rows = make_predictions()
    first, second = (rows[rows["row"] == name].reset_index(drop=True) for name in ("LC", "ERM"))
    positions = first.groupby(list(strata)).indices.values()
    draw = np.random.default_rng(1)
    metrics = [metric for metric, columns in STRATA.items() if columns == strata]
    differences: dict[str, list[float]] = {metric: [] for metric in metrics}
    for _ in range(150):
        drawn = np.concatenate([draw.choice(places, len(places)) for places in positions])
        scores = [score(frame.iloc[drawn], metrics) for frame in (first, second)]
        for metric in metrics:
            differences[metric].append(scores[0][metric] - scores[1][metric])
    return differences


@pytest.mark.parametrize("metric", STRATA)
def test_influence_gives_the_error_of_resampled_test_rows(metric: str) -> None:
    rows = make_predictions()
    first_influence, second_influence = (
        compute_influence(rows[rows["row"] == name].reset_index(drop=True), metric) for name in ("LC", "ERM")
    )
    assert first_influence is not None and second_influence is not None
    deviation = 100 * math.sqrt(((first_influence.values - second_influence.values) ** 2).sum())
    assert np.std(resample_differences(STRATA[metric])[metric]) == pytest.approx(deviation, rel=0.15)
    assert 0 < 100**2 * first_influence.floor < deviation**2


def test_estimate_difference_is_a_paired_t_interval_widened_by_test_rows() -> None:
    predictions = pd.concat([make_predictions(seed) for seed in range(4)], ignore_index=True)
    scores = predictions.groupby(["row", "column", "seed"])[predictions.columns.tolist()].apply(
        lambda rows: score(rows, ["group_balanced"])["group_balanced"]
    )
    first, second = (scores[name].to_numpy() for name in ("LC", "ERM"))
    wanted = ttest_rel(first, second).confidence_interval(0.9)
    by_seeds = Comparison(scores, {}).estimate_difference("1", "LC", "ERM")
    assert by_seeds is not None and by_seeds.seeds == 4
    assert by_seeds.mean - by_seeds.margin == pytest.approx(wanted.low)
    difference = Comparison.from_runs(scores, predictions, {"1": "group_balanced"}).estimate_difference(
        "1", "LC", "ERM"
    )
    assert difference is not None and difference.mean == by_seeds.mean and by_seeds.margin < difference.margin
    shared = predictions.assign(test_set=0)  # then more seeds do not make the error of the test rows less
    wide = Comparison.from_runs(scores, shared, {"1": "group_balanced"}).estimate_difference("1", "LC", "ERM")
    assert wide is not None and difference.margin < wide.margin
    difference_of_one_seed = Comparison(scores.drop(labels=[1, 2, 3], level="seed"), {}).estimate_difference(
        "1", "LC", "ERM"
    )
    assert (
        difference_of_one_seed is not None
        and not difference_of_one_seed.has_interval
        and not difference_of_one_seed.interval_holds_zero
    )  # nothing is known of its error
    unpaired_scores = scores.drop(labels=[("LC", "1", 0), ("ERM", "1", 1), ("ERM", "1", 2), ("ERM", "1", 3)])
    assert Comparison(unpaired_scores, {}).estimate_difference("1", "LC", "ERM") is None


def test_estimate_difference_pairs_equal_test_rows_only_and_widens_small_groups() -> None:
    same = make_predictions()
    other = same.assign(test_set=same["test_set"].where(same["row"] == "LC", 9))
    scores = pd.Series({("LC", "1", 0): 80.0, ("ERM", "1", 0): 70.0}).rename_axis(["row", "column", "seed"])
    margins = [
        Comparison.from_runs(scores, rows, {"1": "group_balanced"}).estimate_difference("1", "LC", "ERM").margin  # type: ignore[union-attr]
        for rows in (same, same.assign(prediction=same["prediction"].where(same["row"] != "ERM", same["label"])), other)
    ]
    assert margins[0] < margins[2] and margins[1] > 0
    few = make_predictions(groups=[(0, 0, 3, 0.0, 1.0), (1, 1, 3, 0.0, 1.0)])
    scores = pd.Series({("LC", "1", 0): 100.0, ("ERM", "1", 0): 0.0}).rename_axis(["row", "column", "seed"])
    difference = Comparison.from_runs(scores, few, {"1": "worst_group"}).estimate_difference("1", "LC", "ERM")
    assert difference is not None and difference.margin > 40


def test_intervals_cover_the_true_difference_in_nine_of_ten_cases() -> None:
    """Runs whose skill varies with the seed, on test rows that all seeds share."""
    draw = np.random.default_rng(0)
    hits = []
    for _ in range(150):
        base = draw.random(200)  # how hard each test row is
        frames = []
        for seed in range(3):
            for name, skill in (("ERM", 0.6), ("LC", 0.7)):
                right = base < skill + draw.normal(0, 0.02)
                frames.append(pd.DataFrame({"row": name, "column": "1", "seed": seed, "test_set": 0, "label": 0,
                                            "attribute": 0, "minority": False, "prediction": 1 - right}))  # fmt: skip
        rows = pd.concat(frames, ignore_index=True)
        scores = 100 * (rows["prediction"] == 0).groupby([rows["row"], rows["column"], rows["seed"]]).mean()
        difference = Comparison.from_runs(scores, rows, {"1": "average"}).estimate_difference("1", "LC", "ERM")
        assert difference is not None
        hits.append(abs(difference.mean - 10) <= difference.margin)
    assert 0.87 <= np.mean(hits) <= 0.99


@dataclass
class FakeCell:
    """A cell of a grid, as far as predictions need it."""

    folder: Path
    row: str
    column: str
    seed: int


def test_read_predictions_reproduces_the_accuracies_of_a_grid(write_grid: Any, tmp_path: Path) -> None:
    from logit_correction_lab.grid import read_grid

    grid = read_grid(str(write_grid(data_seeds=True)))
    out = tmp_path / "out"
    assert train_grid(grid, out, print_line=lambda _: None) == []
    write_results(grid, out)
    rows = read_benchmark_predictions(out)
    assert len(rows) == 4 * 4000 and rows.attrs["label_names"]["5 %"][3] == "3"
    right = (rows["prediction"] == rows["label"]).astype(float)
    run_names = [rows["row"].astype(str), rows["seed"]]
    table = build_results_table(grid, out).query("selection == 'last'").set_index(["row", "seed"]).sort_index()
    groups = right.groupby([*run_names, rows["label"], rows["attribute"]]).mean().groupby(level=[0, 1])
    np.testing.assert_allclose(groups.mean(), table["group_balanced"])
    np.testing.assert_allclose(groups.min(), table["worst_group"])
    conflicting = right[rows["minority"]].groupby([name[rows["minority"]] for name in run_names]).mean()
    np.testing.assert_allclose(conflicting, table["minority"])
    one_set = rows.groupby("seed")["test_set"].nunique()  # both methods of a seed, and other rows with another seed
    assert one_set.eq(1).all() and rows["test_set"].nunique() == 2
    by_row = [run_rows.reset_index(drop=True) for _, run_rows in rows[rows["seed"] == 0].groupby("row", observed=True)]
    assert by_row[0][["label", "attribute"]].equals(by_row[1][["label", "attribute"]])
    (out / "predictions.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        read_benchmark_predictions(out)
    with pytest.raises(InputError, match="does not exist"):
        read_benchmark_predictions(tmp_path / "predictions.parquet")


def test_write_predictions_takes_four_kilobytes_for_ten_thousand_rows(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    cells = []
    report = GroupReport.from_predictions
    for number in range(2):
        label, attribute = draw.integers(0, 10, (2, 10_000))
        right = draw.random(10_000) < 0.8
        logits = np.eye(10, dtype=np.float32)[np.where(right, label, draw.integers(0, 10, 10_000))]
        rows = Predictions(np.arange(10_000), label, logits, list("0123456789"), attribute, list("abcdefghij"))
        folder = tmp_path / f"{number}"
        folder.mkdir()
        rows.save(folder / "predictions.parquet")
        write_report(folder, rows, report(rows).to_dict())
        cells += [FakeCell(folder, f"row {number}", f"{column}", 0) for column in range(4)]
    frame = collect_benchmark_predictions(cells)  # type: ignore[arg-type]
    assert frame["prediction"].dtype == np.uint8 and len(frame) == 8 * 10_000
    write_benchmark_predictions(frame, tmp_path / "all.parquet")
    assert (tmp_path / "all.parquet").stat().st_size < 8 * 4_000
    pd.testing.assert_frame_equal(read_benchmark_predictions(tmp_path / "all.parquet"), frame)


def write_report(folder: Path, rows: Predictions, test: dict[str, Any]) -> None:
    from logit_correction.runs.folder import write_json

    names = {"label_names": list(rows.label_names), "attribute_names": list(rows.attribute_names)}
    data = {"name": "Made", "rows": {"train": 9}, "input_shape": [1], **names}
    write_json(folder / "report.json", {"method": "ERM", "data": data, "test": test})


def test_collect_predictions_keeps_overlapping_groups_and_unknown_attributes(tmp_path: Path) -> None:
    groups = np.array([[1, 0], [1, 1], [0, 1]], bool)
    logits = np.eye(300, dtype=np.float32)[[299, 0, 1]]
    names = [str(number) for number in range(300)]
    rows = Predictions([0, 1, 2], [299, 0, 0], logits, names, membership=groups, groups=[("0", "a"), ("0", "b")])
    rows.save(tmp_path / "predictions.parquet")
    write_report(tmp_path, rows, GroupReport.from_predictions(rows).to_dict())
    frame = collect_benchmark_predictions([FakeCell(tmp_path, "a", "b", 0)])  # type: ignore[list-item]
    assert frame["label"].tolist() == [0, 0, 299] and frame["prediction"].tolist() == [1, 0, 299]
    assert frame["group_0"].tolist() == [False, True, True] and set(frame["attribute"]) == {-1}
    assert compute_influence(frame, "group_balanced") is None and frame["minority"].isna().all()
    assert compute_influence(frame, "average") is not None


def test_describe_outcome_names_a_winner_only_where_intervals_exclude_zero() -> None:
    from logit_correction_lab.tables import describe_outcome

    scores = {"ERM": [0.70, 0.75, 0.72], "LC": [0.80, 0.86, 0.83], "near": [0.84, 0.80, 0.83]}
    frame = pd.DataFrame(
        [
            {"row": row, "column": "1", "seed": seed, "selection": "last", "group_balanced": value}
            for row, values in scores.items()
            for seed, value in enumerate(values)
        ]
    )

    def describe(*rows: str) -> str:
        grid = Benchmark("mine", "A grid", {row: {} for row in rows}, {"1": {}})
        chosen = frame[frame["row"].isin(rows)]
        return describe_outcome(grid, chosen, compare_grid_rows(grid, chosen))

    assert describe("ERM", "LC") == "LC has the highest group-balanced accuracy in 1 of 1 columns."
    assert "the highest" not in describe("ERM", "LC", "near") and "LC and near are" in describe("ERM", "LC", "near")
    assert "nothing to compare" in describe("LC")


@pytest.mark.slow
def test_commands_of_the_page_compare_your_method_work(tmp_path: Path) -> None:
    """Its files and commands in an empty folder, on a smaller grid."""
    root = Path(__file__).parents[2]
    text = (root / "docs" / "compare-your-method.md").read_text()
    blocks = {kind: re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S) for kind in ("bash", "yaml", "python")}
    copy, train = blocks["bash"]
    commands = [copy.replace("CHECKOUT", str(root)), train.replace("benchmark digits", "benchmark smoke")]
    (tmp_path / "mine.yaml").write_text(blocks["yaml"][0])
    (tmp_path / "read.py").write_text(blocks["python"][0])
    python = sys.executable
    # The path may hold the command's name itself, so it is filled in last.
    commands[1] = commands[1].replace("logit-correction", f"{python} -m logit_correction")
    commands[1] = commands[1].replace("PYTHONPATH=.", f"PYTHONPATH=.:{os.environ.get('PYTHONPATH', '')}")
    for command in (*commands, f"{python} read.py"):
        process = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
    assert re.fullmatch(r"\d+ \d+\n", process.stdout)
    table_text = (tmp_path / "digits" / "table.md").read_text()
    assert "| mine | gamma of its paper, nothing tuned |" in table_text and "Difference from the best row" in table_text
