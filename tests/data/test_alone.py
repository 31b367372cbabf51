"""What else ran in the process changes nothing: no source, and no training, learns for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from logit_correction import LogitCorrectionClassifier, estimate_attributes, train
from logit_correction.data.build import build_table
from logit_correction.data.features import ColumnReader
from logit_correction.data.images import ImageReader
from logit_correction.data.reader import NumericReader
from logit_correction.data.rows import Rows
from logit_correction.data.source import DataSource
from logit_correction.data.splits import Splitting
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader

SHORT: dict[str, Any] = {"method": "ERM", "epochs": 2, "device": "cpu", "threads": 1, "page": False}
NEW = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 3.0]], dtype=np.float32)


class ShiftedSource(DataSource):
    """Rows of two numbers, far from others' by a shift, with the reader that sources have by default."""

    def __init__(self, shift: float = 0.0, **splitting: Any) -> None:
        """Choose where the rows lie.

        Args:
            shift: What is added to all numbers.
            **splitting: Those of ``Splitting``.
        """
        self.shift = shift
        self.splitting = Splitting(**splitting)

    def build(self) -> DataTable:
        draw = np.random.default_rng(0)
        label = draw.integers(2, size=200)
        values = np.stack([label + draw.normal(0, 0.3, 200), draw.normal(size=200)], axis=1) + self.shift
        rows = Rows("drawn", range(200), values=values, label=[*map(str, label)])
        return build_table(rows, self.reader, self.splitting, source="drawn")


class ShiftedColumnSource(ShiftedSource):
    """A source of another reader."""

    def make_reader(self) -> ColumnReader:
        return ColumnReader(["a"])


def train_on_shifted_rows(shift: float, **more: Any) -> Any:
    return train({"name": "test_alone.ShiftedSource", "shift": shift}, **(SHORT | {"epochs": 10} | more))


@pytest.fixture(autouse=True)
def add_source_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "extensions"))


def test_training_does_not_change_the_predictions_of_finished_runs() -> None:
    points = train("points.Points", **SHORT)
    digits = train("Digits", **SHORT)
    photos = np.zeros((2, 3, 8, 8), dtype=np.uint8)
    before = points.predict_proba(NEW), digits.predict_proba(photos)
    near = train_on_shifted_rows(0)
    draw = np.random.default_rng(0)
    rows = draw.normal(50, 1, (120, 2))
    label = np.arange(120) % 2
    for estimator in (None, LogisticRegression()):
        LogitCorrectionClassifier(estimator=estimator, epochs=2, random_state=0).fit(rows, label)
    LogitCorrectionClassifier(epochs=2, random_state=0).fit(rows, label, new_rows=rows[:50] + 1)
    estimate_attributes(rows, label, threads=1, device="cpu")
    far = train_on_shifted_rows(100)
    for run, rows_to_predict, expected in ((points, NEW, before[0]), (digits, photos, before[1])):
        np.testing.assert_array_equal(run.predict_proba(rows_to_predict), expected)
    assert near.report.data.preparation["mean"][0] < 1 < 99 < far.report.data.preparation["mean"][0]
    np.testing.assert_allclose(near.predict_proba(NEW), far.predict_proba(NEW + 100), atol=0.02)
    assert near.evaluate()["average"] > 0.9 and far.evaluate()["average"] > 0.9
    assert far.report.test.average > 0.9


def test_each_source_has_its_own_reader_and_builds_the_same_twice() -> None:
    for first_source, second_source in (
        (ShiftedSource(), ShiftedSource()),
        (ShiftedColumnSource(), ShiftedColumnSource()),
        (ShiftedSource(), ShiftedColumnSource()),
    ):
        assert first_source.reader is not second_source.reader and first_source.reader is first_source.reader
    assert isinstance(ShiftedSource().reader, NumericReader) and isinstance(ShiftedColumnSource().reader, ColumnReader)
    with pytest.raises(TypeError, match="make_reader"):
        type("Shared", (ShiftedSource,), {"reader": NumericReader()})
    source = ShiftedSource(0)
    first = source.build()
    source.shift = 100
    moved = source.build()
    np.testing.assert_allclose(
        first.inputs.fetch(first.split["train"]), moved.inputs.fetch(moved.split["train"]), atol=1e-4
    )


@pytest.mark.parametrize("reader", [NumericReader, ColumnReader, TextReader, lambda: ImageReader(None)])
def test_reader_with_loaded_state_does_not_fit_again(reader: Any) -> None:
    loaded = reader()
    assert not loaded.has_loaded_state
    loaded.load_state({"mean": [0.0], "std": [1.0], "columns": [], "weights": {}, "size": 4})
    assert loaded.has_loaded_state
