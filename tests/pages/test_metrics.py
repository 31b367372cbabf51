from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from logit_correction.pages.plots import curve_points, stage_ends


def run(stages: list[int], steps: int, every: int = 1, restart: bool = False) -> pd.DataFrame:
    """The rows that the loop writes: step rows with the epochs done before them, then a validation row."""
    rows, step = [], 0
    for stage, epochs in enumerate(stages):
        step = 0 if restart else step
        for epoch in range(epochs):
            for _ in range(steps):
                step += 1
                if step % every == 0:
                    rows.append({"step": step, "stage": stage, "epoch": epoch, "loss": 10.0 * stage + epoch})
            rows.append({"step": step, "stage": stage, "epoch": epoch + 1, "valid_average": float(epoch)})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("restart", [False, True])
def test_epochs_are_counted_through_all_stages(restart: bool) -> None:
    table = run([2, 3], steps=4, restart=restart)
    assert curve_points(table, "valid_average")["epoch"].tolist() == [1, 2, 3, 4, 5]
    assert curve_points(table, "valid_average")["value"].tolist() == [0, 1, 0, 1, 2]
    assert stage_ends(table) == [2]
    assert curve_points(table, "loss")["epoch"].iloc[-1] == 5


def test_steps_lie_within_their_epoch() -> None:
    points = curve_points(run([3], steps=4), "loss")
    np.testing.assert_allclose(points["epoch"], np.arange(1, 13) / 4)


def test_rare_rows_do_not_move_the_epochs() -> None:
    points = curve_points(run([10], steps=7, every=5), "loss")
    np.testing.assert_allclose(points["epoch"], np.arange(5, 71, 5) / 7)


def test_without_validation_the_epochs_of_the_rows_count() -> None:
    table = run([3], steps=4).dropna(subset="loss").drop(columns="valid_average")
    assert curve_points(table, "loss")["epoch"].iloc[-1] == 3


def test_many_rows_become_few_points_that_keep_the_mean() -> None:
    table = run([20], steps=500)
    points = curve_points(table, "loss", most=120)
    assert 100 <= len(points) <= 120
    assert points["epoch"].is_monotonic_increasing
    assert points["epoch"].iloc[-1] == 20
    assert points["value"].mean() == pytest.approx(table["loss"].mean(), rel=0.02)


def test_few_rows_stay_as_they_are() -> None:
    points = curve_points(run([3], steps=1), "loss")
    assert points["value"].tolist() == [0, 1, 2]


def test_missing_columns_and_values_that_are_not_finite_give_no_points() -> None:
    table = run([1], steps=3)
    table["bad"] = [np.inf, np.nan, -np.inf, np.nan]
    assert curve_points(table, "bad").empty
    assert curve_points(table, "absent").empty
    assert curve_points(pd.DataFrame(), "loss").empty
    assert stage_ends(pd.DataFrame()) == []
