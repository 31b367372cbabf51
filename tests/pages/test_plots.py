from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from logit_correction.pages.plots import curves, group_bars, per_epoch, series_colors

NASTY = "<script>alert('$x^2$')</script> & \"co\""
COLORS = {"ERM": "#111111", "LC": "#222222", NASTY: "#333333"}


def groups(labels: list[str], attributes: list[str | None], seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    rows = [
        {"label": label, "attribute": other, "accuracy": draw.uniform(0.1, 0.9), "minority": other and y != a}
        for y, label in enumerate(labels)
        for a, other in enumerate(attributes)
    ]
    frame = pd.DataFrame(rows).astype({"minority": object, "attribute": object})
    return frame.assign(low=frame["accuracy"] - 0.05, high=frame["accuracy"] + 0.05)


def texts(svg: str) -> list[str]:
    """What is written in a figure; also checks that it is sound XML."""
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")]


def recorded(**columns: list[float]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"step": range(1, rows + 1), "epoch": range(rows), "stage": 0, **columns})


def test_bars_show_every_group_of_every_run_with_its_value() -> None:
    frames = {
        "ERM": groups(["land", "water"], ["l", "w"]),
        "LC": groups(["land", "water"], ["l", "w"], seed=1),
    }
    frames["LC"].loc[3, ["accuracy", "low", "high"]] = np.nan
    found = texts(group_bars(frames, COLORS))
    for value in [*frames["ERM"]["accuracy"], *frames["LC"]["accuracy"][:3]]:
        assert f"{100 * value:.0f}" in found
    assert {"ERM", "LC", "land", "water", "w *", "–"} <= set(found)  # the star marks a minority group


def test_curves_show_only_what_was_recorded_and_of_two_networks_the_robust_one() -> None:
    lc = recorded(loss=[30, 20], loss_robust=[2, 1], loss_biased=[1, 1])
    (loss,) = curves({"ERM": recorded(loss=[2, 1]), "LC": lc}, COLORS)
    assert {"ERM", "LC", "2.0"} <= set(texts(loss)) and "30" not in texts(loss)
    assert len(curves({"LC": recorded(valid_average=[0.1, 0.9], loss=[1, 0])}, COLORS)) == 2
    assert curves({"LC": pd.DataFrame()}, COLORS) == []


@pytest.mark.parametrize("kind", ["bars", "curves"])
def test_figures_are_the_same_bytes_each_time_and_refer_to_nothing(kind: str) -> None:
    import matplotlib

    def draw() -> str:
        if kind == "bars":
            return group_bars({NASTY: groups([NASTY, "b"], [NASTY, "w"])}, COLORS)
        return curves({NASTY: recorded(loss=[2, 1, 0.5])}, COLORS)[0]

    svg = draw()
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert svg == draw()  # whatever a user has set
        assert matplotlib.rcParams["font.size"] == 20
    assert svg.startswith("<svg") and "<script" not in svg
    assert any("<script>" in text for text in texts(svg))  # shown, not run
    assert not re.search(r'(?:href|src)="(?!#)', svg)
    assert "<metadata" not in svg and not re.search(r"\b20\d\d-\d\d-\d\d", svg)


def test_epochs_are_those_of_the_last_stage() -> None:
    rows = []
    for stage, epochs in enumerate([2, 3]):
        for epoch in range(epochs):
            rows += [{"stage": stage, "epoch": epoch, "loss": 10.0 * stage + epoch + part} for part in (-0.5, 0.5)]
            rows.append({"stage": stage, "epoch": epoch + 1, "valid_average": float(epoch)})
    table = pd.DataFrame(rows)
    assert per_epoch(table, "valid_average").to_dict() == {1: 0, 2: 1, 3: 2}
    assert per_epoch(table, "loss").to_dict() == {1: 10, 2: 11, 3: 12}
    table["bad"] = np.inf
    assert per_epoch(table, "bad").empty and per_epoch(table, "absent").empty


def test_each_series_has_a_colour_of_its_own() -> None:
    methods = {"LC (q 0.7)": "LC", "LC": "LC", "ERM": "ERM", "mine": "user.Method"}
    colors = series_colors(methods)
    assert list(colors) == list(methods) and len(set(colors.values())) == 4
    assert colors["LC"] == "#0072b2" and colors["ERM"] == "#8b909a"
