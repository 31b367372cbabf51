from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from logit_correction.pages.plots import (
    curve_points,
    curves,
    group_bars,
    group_heatmaps,
    label_shares,
    prior_heatmaps,
)

NASTY = "<script>alert('$x^2$')</script> & \"co\""


def groups(labels: list[str], attributes: list[str | None], seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    rows = []
    for y, label in enumerate(labels):
        for a, attribute in enumerate(attributes):
            share = draw.uniform(0.1, 0.9)
            minority = None if attribute is None else y != a
            rows.append((label, attribute, 50, share, share - 0.05, share + 0.05, minority))
    columns = ["label", "attribute", "count", "accuracy", "low", "high", "minority"]
    return pd.DataFrame(rows, columns=columns).astype({"minority": object, "attribute": object})


def texts(svg: str) -> list[str]:
    """What is written in a figure; also checks that it is sound XML."""
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")]


def test_bars_show_every_group_of_every_run_with_its_value() -> None:
    frames = {
        "ERM": groups(["land", "water"], ["l", "w"]),
        "LC": groups(["land", "water"], ["l", "w"], seed=1),
    }
    found = texts(group_bars(frames))
    for frame in frames.values():
        for value in frame["accuracy"]:
            assert f"{100 * value:.0f}" in found
    assert {"ERM", "LC", "land", "water", "w *"} <= set(found)  # the star marks a minority group


def test_heatmaps_come_one_per_run_with_a_number_in_every_cell() -> None:
    names = [str(i) for i in range(10)]
    frame = groups(names, [f"a{i}" for i in range(10)])
    frame.loc[37, "accuracy"] = np.nan
    figures = group_heatmaps({"ERM": frame, "LC": frame})
    assert list(figures) == ["ERM", "LC"]
    found = texts(figures["LC"])
    for value in frame["accuracy"].dropna():
        assert f"{100 * value:.0f}" in found
    assert found.count("–") == 1
    assert figures["LC"].count("stroke: #e08a00") == 10  # the majority groups are outlined


def test_a_heat_map_of_very_many_groups_is_still_drawn() -> None:
    names = [f"y{i}" for i in range(60)]
    figure = group_heatmaps({"LC": groups(names, list(names))})["LC"]
    assert len(texts(figure)) < 60
    assert len(figure) < 200_000


def test_priors_are_compared_as_shares_of_the_labels_within_an_attribute() -> None:
    true = np.array([[0.45, 0.05], [0.05, 0.45]])
    scaled = true * np.array([[7.0, 0.2]])  # another factor per attribute leaves the correction as it is
    np.testing.assert_allclose(label_shares(scaled), label_shares(true))
    figures = prior_heatmaps(scaled, true, ["cat", "dog"], ["in", "out"])
    assert list(figures) == ["estimated", "true"]
    assert texts(figures["estimated"])[:-1] == texts(figures["true"])[:-1]  # all but the title
    assert list(prior_heatmaps(scaled)) == ["estimated"]


def recorded(**columns: list[float]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"step": range(1, rows + 1), "epoch": range(rows), "stage": 0, **columns})


def test_curves_show_the_networks_apart_and_only_what_was_recorded() -> None:
    figures = curves(
        {"ERM": recorded(loss=[2, 1]), "LC": recorded(loss=[3, 2], loss_robust=[2, 1], loss_biased=[1, 1])}
    )
    assert list(figures) == ["loss"]
    assert {"ERM", "LC, robust network", "LC, biased network"} <= set(texts(figures["loss"]))
    assert "LC" not in texts(figures["loss"])
    assert list(curves({"LC": recorded(valid_average=[0.1, 0.9], loss=[1, 0])})) == ["loss", "accuracy"]
    assert curves({"LC": pd.DataFrame()}) == {}


@pytest.mark.parametrize("kind", ["bars", "heatmap", "prior", "curves"])
def test_figures_are_the_same_bytes_each_time_and_refer_to_nothing(kind: str) -> None:
    def draw() -> str:
        frame = groups([NASTY, "b"], [NASTY, "w"])
        return {
            "bars": lambda: group_bars({NASTY: frame}),
            "heatmap": lambda: group_heatmaps({NASTY: frame})[NASTY],
            "prior": lambda: prior_heatmaps(np.eye(2) + 0.1, None, [NASTY, "b"], [NASTY, "w"])["estimated"],
            "curves": lambda: curves({NASTY: recorded(loss=[2, 1, 0.5])})["loss"],
        }[kind]()

    svg = draw()
    assert svg == draw()
    assert svg.startswith("<svg")
    assert "<script" not in svg
    assert any("<script>" in text for text in texts(svg))  # shown, not run
    assert not re.search(r'(?:href|src)="(?!#)', svg)
    assert "<metadata" not in svg
    assert not re.search(r"\b20\d\d-\d\d-\d\d", svg)


def test_a_users_matplotlib_settings_leave_no_trace() -> None:
    import matplotlib

    frame = groups(["a", "b"], ["l", "w"])
    before = group_bars({"LC": frame})
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert group_bars({"LC": frame}) == before
        assert matplotlib.rcParams["font.size"] == 20


# Curves


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
def test_epochs_are_those_of_the_last_stage(restart: bool) -> None:
    table = run([2, 3], steps=4, restart=restart)
    assert curve_points(table, "valid_average")["epoch"].tolist() == [1, 2, 3]
    assert curve_points(table, "valid_average")["value"].tolist() == [0, 1, 2]
    assert curve_points(table, "loss")["epoch"].tolist() == [step / 4 for step in range(1, 13)]


def test_steps_lie_within_their_epoch() -> None:
    points = curve_points(run([3], steps=4), "loss")
    np.testing.assert_allclose(points["epoch"], np.arange(1, 13) / 4)


def test_many_rows_become_few_points_that_keep_the_mean() -> None:
    table = run([20], steps=500)
    points = curve_points(table, "loss", most=120)
    assert 100 <= len(points) <= 120
    assert points["epoch"].is_monotonic_increasing
    assert points["epoch"].iloc[-1] == 20
    assert points["value"].mean() == pytest.approx(table["loss"].mean(), rel=0.02)


def test_missing_columns_and_values_that_are_not_finite_give_no_points() -> None:
    table = run([1], steps=3)
    table["bad"] = [np.inf, np.nan, -np.inf, np.nan]
    assert curve_points(table, "bad").empty
    assert curve_points(table, "absent").empty
    assert curve_points(pd.DataFrame(), "loss").empty
