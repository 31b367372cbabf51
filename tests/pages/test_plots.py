from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from logit_correction.pages.plots import accuracy_curve, per_epoch

NASTY = "<script>alert('$x^2$')</script> & \"co\""
COLORS = {"ERM": "#111111", "LC": "#222222", NASTY: "#333333"}


def texts(svg: str) -> list[str]:
    """What is written in a figure; also checks that it is sound XML."""
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")]


def recorded(**columns: list[float]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"step": range(1, rows + 1), "epoch": range(rows), "stage": 0, **columns})


def test_a_curve_shows_what_was_recorded_as_the_same_bytes_and_refers_to_nothing() -> None:
    import matplotlib

    def draw() -> str | None:
        return accuracy_curve({NASTY: recorded(valid_average=[0.1, 0.9]), "LC": recorded(loss=[2, 1])}, COLORS)

    svg = draw()
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert svg == draw()  # whatever a user has set
        assert matplotlib.rcParams["font.size"] == 20
    assert svg is not None and svg.startswith("<svg") and "<script" not in svg
    assert any("<script>" in text for text in texts(svg)) and "LC" not in texts(svg)  # shown, not run
    assert not re.search(r'(?:href|src)="(?!#)', svg)
    assert "<metadata" not in svg and not re.search(r"\b20\d\d-\d\d-\d\d", svg)
    assert accuracy_curve({"LC": pd.DataFrame()}, COLORS) is None


def test_epochs_are_those_of_the_last_stage() -> None:
    rows = []
    for stage, epochs in enumerate([2, 3]):
        for epoch in range(epochs):
            rows.append({"stage": stage, "epoch": epoch, "loss": 1.0})
            rows.append({"stage": stage, "epoch": epoch + 1, "valid_average": float(epoch)})
    table = pd.DataFrame(rows)
    assert per_epoch(table, "valid_average").to_dict() == {1: 0, 2: 1, 3: 2}
    table["bad"] = np.inf
    assert per_epoch(table, "bad").empty and per_epoch(table, "absent").empty
