from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from logit_correction.pages.plots import build_accuracy_curve, select_metric_by_epoch

COLORS = {"ERM": "#111111", "LC": "#222222"}


def recorded(**columns: list[float]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"step": range(1, rows + 1), "epoch": range(rows), "stage": 0, **columns})


def test_a_curve_shows_what_was_recorded() -> None:
    drawn = build_accuracy_curve({"LC": recorded(valid_average=[0.1, 0.5, 0.9]), "ERM": recorded(loss=[2, 1])}, COLORS)
    assert drawn is not None and drawn["ticks"] == {0: 0, 1: 50, 2: 100}
    (line,) = drawn["lines"]
    assert (line["name"], line["color"]) == ("LC", "#222222")
    assert line["points"] == [pytest.approx(point) for point in ((0, 90), (50, 50), (100, 10))]
    assert build_accuracy_curve({"LC": pd.DataFrame()}, COLORS) is None
    (one,) = build_accuracy_curve({"LC": recorded(valid_average=[0.5])}, COLORS)["lines"]  # type: ignore[index]
    assert one["points"] == [(0, 50)]


def test_epochs_are_those_of_the_last_stage() -> None:
    rows = []
    for stage, epochs in enumerate([2, 3]):
        for epoch in range(epochs):
            rows.append({"stage": stage, "epoch": epoch, "loss": 1.0})
            rows.append({"stage": stage, "epoch": epoch + 1, "valid_average": float(epoch)})
    table = pd.DataFrame(rows)
    assert select_metric_by_epoch(table, "valid_average").to_dict() == {1: 0, 2: 1, 3: 2}
    table["bad"] = np.inf
    assert select_metric_by_epoch(table, "bad").empty and select_metric_by_epoch(table, "absent").empty
