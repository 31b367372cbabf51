from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from logit_correction.pages.plots import average_metric_by_epoch, build_accuracy_curve

COLORS = {"ERM": "#111111", "LC": "#222222"}


def build_metrics(**columns: list[float]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"step": range(1, rows + 1), "epoch": range(rows), "stage": 0, **columns})


def test_accuracy_curve_shows_the_recorded_metrics() -> None:
    curve = build_accuracy_curve(
        {"LC": build_metrics(valid_average=[0.1, 0.5, 0.9]), "ERM": build_metrics(loss=[2, 1])}, COLORS
    )
    assert curve is not None and curve["ticks"] == {0: 0, 1: 50, 2: 100}
    (line,) = curve["lines"]
    assert (line["name"], line["color"]) == ("LC", "#222222")
    assert line["points"] == [pytest.approx(point) for point in ((0, 90), (50, 50), (100, 10))]
    assert build_accuracy_curve({"LC": pd.DataFrame()}, COLORS) is None
    (single_line,) = build_accuracy_curve({"LC": build_metrics(valid_average=[0.5])}, COLORS)["lines"]  # type: ignore[index]
    assert single_line["points"] == [(0, 50)]


def test_metric_by_epoch_counts_epochs_of_the_last_stage() -> None:
    rows = []
    for stage, epochs in enumerate([2, 3]):
        for epoch in range(epochs):
            rows.append({"stage": stage, "epoch": epoch, "loss": 1.0})
            rows.append({"stage": stage, "epoch": epoch + 1, "valid_average": float(epoch)})
    table = pd.DataFrame(rows)
    assert average_metric_by_epoch(table, "valid_average").to_dict() == {1: 0, 2: 1, 3: 2}
    table["bad"] = np.inf
    assert average_metric_by_epoch(table, "bad").empty and average_metric_by_epoch(table, "absent").empty
