from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logit_correction.evaluation.predictions import Predictions


def build_predictions(rows: int = 6, dtype: Any = np.float32, **changes: Any) -> Predictions:
    draw = np.random.default_rng(0)
    values: dict[str, Any] = {
        "index": np.arange(rows) * 3,
        "label": draw.integers(0, 3, rows),
        "attribute": draw.integers(-1, 2, rows),
        "logits": draw.normal(size=(rows, 3)).astype(dtype),
        "label_names": ["cat", "dog", 'Ünïcode, | "quoted"'],
        "attribute_names": ["in", "out"],
        "split": "valid",
    }
    return Predictions(**(values | changes))


def assert_equal_predictions(first: Predictions, second: Predictions) -> None:
    for name in ("index", "label", "logits", "attribute", "membership"):
        first_value = getattr(first, name)
        second_value = getattr(second, name)
        np.testing.assert_array_equal(first_value, second_value)
        assert first_value is None or first_value.dtype == second_value.dtype
    for name in ("label_names", "attribute_names", "split", "groups"):
        assert getattr(first, name) == getattr(second, name)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": np.float64},
        {"attribute": None, "attribute_names": ()},
        {"membership": np.eye(6, 4), "groups": [("cat", "in"), ("cat", "out"), ("dog", "in"), ("dog", 'a, "b"')]},
    ],
)
def test_predictions_are_read_from_parquet_as_saved(tmp_path: Path, changes: dict[str, Any]) -> None:
    predictions = build_predictions(**changes)
    predictions.save(tmp_path / "predictions.parquet")
    assert_equal_predictions(predictions, Predictions.load(tmp_path / "predictions.parquet"))
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.parquet"]
