from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from logit_correction.errors import InputError
from logit_correction.evaluation import Predictions


def made(rows: int = 6, dtype: Any = np.float32, **changes: Any) -> Predictions:
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


def same(one: Predictions, other: Predictions) -> None:
    for name in ("index", "label", "logits", "attribute"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype
    for name in ("label_names", "attribute_names", "split"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("known", [True, False])
def test_parquet_round_trip(tmp_path: Path, dtype: Any, known: bool) -> None:
    predictions = made(dtype=dtype, **({} if known else {"attribute": None, "attribute_names": ()}))
    predictions.save(tmp_path / "predictions.parquet")
    same(predictions, Predictions.load(tmp_path / "predictions.parquet"))
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.parquet"]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3), st.integers(0, 2))
def test_any_finite_or_infinite_logits_survive_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, row: list[float], label: int
) -> None:
    path = tmp_path_factory.mktemp("round") / "p.parquet"
    predictions = made(1, logits=np.array([row], dtype=np.float32), label=[label])
    predictions.save(path)
    same(predictions, Predictions.load(path))


def test_a_failing_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.parquet"
    made().save(path)
    before = path.read_bytes()

    def broken(table: object, where: Path, **options: object) -> None:
        Path(where).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("pyarrow.parquet.write_table", broken)
    with pytest.raises(OSError, match="disk full"):
        made(4).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_loading_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no predictions at"):
        Predictions.load(tmp_path / "missing.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match=r"damaged\.parquet cannot be read"):
        Predictions.load(tmp_path / "damaged.parquet")
    import pandas as pd

    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"other\.parquet cannot be read"):
        Predictions.load(tmp_path / "other.parquet")


def test_one_flipped_bit_of_a_logit_is_seen(tmp_path: Path) -> None:
    logits = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    label = np.arange(64) % 2
    made(64, logits=logits, label=label, index=np.arange(64), attribute=None).save(tmp_path / "run.parquet")
    whole = (tmp_path / "run.parquet").read_bytes()
    place = whole.index(logits[5:8, 1].tobytes())
    for offset in range(12):
        damaged = bytearray(whole)
        damaged[place + offset] ^= 0x10
        (tmp_path / "run.parquet").write_bytes(damaged)
        with pytest.raises(InputError, match=r"run\.parquet cannot be read"):
            Predictions.load(tmp_path / "run.parquet")


def test_probabilities_are_the_softmax_also_of_great_logits() -> None:
    logits = np.array([[1000.0, 999.0, -1000.0], [-1e30, 0.0, 1.0]])
    predictions = made(2, logits=logits, label=[0, 0], index=[0, 1], attribute=None)
    np.testing.assert_allclose(predictions.probabilities, softmax(logits, axis=1), rtol=1e-12)
    assert predictions.probabilities.dtype == np.float64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": np.zeros((6, 2))}, "logits must have shape"),
        ({"label": np.zeros(5)}, "label must have shape"),
        ({"label": np.full(6, 3)}, r"label must lie in 0\.\.2"),
        ({"label": np.full(6, -1)}, r"label must lie in 0\.\.2"),
        ({"attribute": np.full(6, 2)}, r"attribute must lie in -1\.\.1"),
        ({"attribute": np.array([0, 0, 0, 0, 0, -2])}, r"attribute must lie in -1\.\.1"),
    ],
)
def test_wrong_shapes_and_ranges_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**changes)


def overlapping(rows: int = 6) -> Predictions:
    membership = np.random.default_rng(1).random((rows, 4)) < 0.5
    return made(rows, membership=membership, groups=[("cat", "in"), ("cat", "out"), ("dog", "in"), ("dog", 'a, "b"')])


def test_groups_of_their_own_survive_the_round_trip(tmp_path: Path) -> None:
    predictions = overlapping()
    predictions.save(tmp_path / "p.parquet")
    read = Predictions.load(tmp_path / "p.parquet")
    same(predictions, read)
    assert read.membership is not None and read.membership.dtype == bool
    np.testing.assert_array_equal(predictions.membership, read.membership)
    assert read.groups == predictions.groups
    columns = pq.read_table(tmp_path / "p.parquet").to_pandas()
    np.testing.assert_array_equal(columns["group_2"], predictions.membership[:, 2])


def test_repeated_rows_keep_their_groups_once() -> None:
    predictions = overlapping()
    order = [3, 1, 3, 0, 1]
    repeated = overlapping_rows(predictions, order).unique()
    assert repeated.index.tolist() == [0, 3, 9]
    np.testing.assert_array_equal(repeated.membership, predictions.membership[[0, 1, 3]])


def overlapping_rows(predictions: Predictions, order: list[int]) -> Predictions:
    names = ("index", "label", "logits", "attribute", "membership")
    return replace(predictions, **{name: getattr(predictions, name)[order] for name in names})


@pytest.mark.parametrize("shape", [(6, 3), (5, 4), (6,)])
def test_membership_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"membership must have shape \(6, 4\)"):
        made(membership=np.zeros(shape, bool), groups=[("cat", str(i)) for i in range(4)])


@pytest.mark.parametrize("name", ["index", "label", "attribute"])
def test_numbers_that_are_not_whole_are_refused(name: str) -> None:
    given: dict[str, Any] = {"index": [0.0, 1.0], "label": [0.0, 1.0], "attribute": [1.0, 0.0]}
    names = {"label_names": ["a", "b"], "attribute_names": ["x", "y"]}
    assert Predictions(logits=np.zeros((2, 2)), **given, **names).label.tolist() == [0, 1]
    with pytest.raises(ValueError, match=f"{name} must be whole numbers.*0.9"):
        Predictions(logits=np.zeros((2, 2)), **{**given, name: [0.9, 1.0]}, **names)
