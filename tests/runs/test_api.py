"""``train`` for Python, and what it returns."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction import InputError, audit, from_table, load, train

SHORT: dict[str, Any] = {"epochs": 1, "device": "cpu", "threads": 1}
DIGITS = {"name": "Digits", "minority_ratio": 0.05}


@pytest.fixture
def frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    label = np.arange(120) % 2
    values = generator.normal(size=120) + 3 * label
    return pd.DataFrame({"size": values, "kind": np.where(label, "dog", "cat"), "place": ["lawn", "sofa", None] * 40})


def test_without_a_folder_the_run_lives_as_long_as_its_object() -> None:
    def folder_of_one() -> Path:
        run = train(DIGITS, method="ERM", **SHORT)
        run.predict(np.zeros((1, 3, 8, 8), np.uint8))
        assert (run.path / "report.json").is_file() and (run / "report.html").is_file()
        assert Path(run) == run.path and os.fspath(run) == str(run) == str(run.path)
        return run.path

    folder = folder_of_one()
    gc.collect()
    assert not folder.parent.exists()


def test_new_labelled_rows_are_judged_by_label_and_by_attribute(frame: pd.DataFrame) -> None:
    run = train(from_table(frame, label="kind", features=["size"]), method="ERM", **{**SHORT, "epochs": 20})
    right = run.predict(frame) == frame["kind"].to_numpy()
    by_label = run.evaluate(frame)
    assert by_label["average"] == pytest.approx(right.mean()) and by_label["worst_group"] is None
    by_group = run.evaluate(frame, attribute="place")
    shown = {(group["label"], group["attribute"]): group["accuracy"] for group in by_group["groups"]}
    for (kind, place), rows in frame.groupby(["kind", "place"]):
        assert shown[kind, place] == pytest.approx(right[rows.index].mean())
    assert by_group["count"] == 120 and by_group["worst_group"] == pytest.approx(min(shown.values()))
    # The same with lists instead of columns.
    lists = run.evaluate(frame[["size"]], list(frame["kind"]), list(frame["place"]))
    assert lists == by_group


@pytest.mark.parametrize(
    ("values", "kind"),
    [([2, 10], "i"), ([False, True], "b"), ([0.5, 3.0], "f"), (["2", "10"], "U"), (pd.Categorical([2, 10]), "i")],
)
def test_answers_are_of_the_kind_of_the_labels(frame: pd.DataFrame, values: Any, kind: str) -> None:
    label = pd.Series(np.arange(120) % 2).map(dict(enumerate(values)))
    label = label.astype(values.dtype) if isinstance(values, pd.Categorical) else label
    rows = frame[["size"]].assign(label=label)
    options: dict[str, Any] = {"method": "ERM", "epochs": 30, "threads": 1, "page": False}
    array = kind in "bU"  # the others as tables
    new = rows[["size"]].to_numpy() if array else rows
    run = train(new, label=label.to_list() if array else "label", **options)
    found = load(run.path).predict(new)
    assert found.dtype.kind == kind and (found == label.to_numpy()).mean() > 0.8
    assert run.evaluate(new, label.to_list())["average"] == (found == label.to_numpy()).mean()


@pytest.mark.parametrize("start", [train, audit])
def test_a_table_without_rows_is_called_the_table(start: Callable[..., Any], frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="the table has no rows"):
        start(frame[:0], label="kind")
