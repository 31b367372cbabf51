"""Networks that cannot see what a view sees: in training, in prediction and in exports alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from logit_correction import InputError, export, from_arrays, from_table, load, runs_table, train
from logit_correction.pages.compare import RunFolder, group_runs_by_task
from logit_correction.registry import CompleteComponent
from logit_correction.runs.leave_out import build_view_removal, describe_trace, make_network_factory
from logit_correction.types import DataInfo
from logit_correction.views import images as image_views

OPTIONS: dict[str, Any] = {"method": "ERM", "network": "MLP", "epochs": 2, "threads": 1, "page": False}


# -- tables


def draw_people(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    ill = draw.integers(2, size=rows)
    frame = pd.DataFrame({"outcome": np.where(ill, "ill", "well"), "age": (50 + 9 * draw.normal(size=rows)).round(1)})
    frame["city"] = np.array(["Rome", "Oslo", "Paris"])[draw.integers(0, 3, rows)]
    frame["taken"] = np.datetime64("2024-01-01T00") + draw.integers(0, 9000, rows)
    frame["dose"] = draw.normal(ill, 1).round(2)
    frame["unit"] = np.array(["Unit A", "unit-a", "UNIT A ", "unit b"])[draw.integers(0, 4, rows)]
    frame.loc[draw.random(rows) < 0.2, "age"] = np.nan
    return frame


ROWS = draw_people(40, 1)


def change_dose(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(dose=-3 * frame["dose"] + 1)


#: View -> a change of what it alone sees.
TABLE_CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "column:dose": change_dose,
    "column:city": lambda frame: frame.assign(city=np.roll(frame["city"], 1)),
    "column:age": lambda frame: frame.assign(age=np.where(frame["age"].isna(), 70.0, np.nan)),
    "column:taken": lambda frame: frame.assign(taken=frame["taken"] + pd.Timedelta(days=90, hours=5)),
    "pair:dose & city": lambda frame: change_dose(frame).assign(city=np.roll(frame["city"], 1)),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return from_table(draw_people(240, 0), label="outcome", folder=tmp_path_factory.mktemp("table"))


@pytest.mark.parametrize("view", TABLE_CHANGES)
def test_left_out_table_view_changes_no_prediction(view: str, table: Any, tmp_path: Path) -> None:
    run = train(table, tmp_path / "run", leave_out=view, **OPTIONS)
    changed_rows = TABLE_CHANGES[view](ROWS)
    assert np.array_equal(run.predict_proba(ROWS), run.predict_proba(changed_rows))
    run_with_view = train(table, **OPTIONS)
    assert np.abs(run_with_view.predict_proba(ROWS) - run_with_view.predict_proba(changed_rows)).max() > 1e-3
    loaded = load(tmp_path / "run")  # a run that is read again leaves out the same
    assert np.array_equal(loaded.predict_proba(changed_rows), run.predict_proba(ROWS))
    assert loaded.config.training.leave_out == [view]
    assert loaded.evaluate("test")["average"] == run.report.test.average


def test_hour_of_a_date_can_be_left_out(table: Any) -> None:
    run, run_with_view = (train(table, leave_out=views, **OPTIONS) for views in (["column:taken hour"], []))
    day = ROWS["taken"].dt.floor("D")
    early, late = (ROWS.assign(taken=day + pd.Timedelta(hours=hour)) for hour in (1, 22))
    change_without_view, change_with_view = (
        np.abs(trained.predict_proba(early) - trained.predict_proba(late)).max() for trained in (run, run_with_view)
    )
    assert change_without_view < 0.02 < change_with_view  # what remains is that the date itself is later by a day
    assert runs_table([run, run_with_view])["method"].tolist() == ["ERM without the column taken hour", "ERM"]
    ((_, series),) = group_runs_by_task([RunFolder.read(run.path), RunFolder.read(run_with_view.path)])
    assert [trained.name for trained in series] == ["ERM", "ERM without the column taken hour"]


def test_leaving_out_missing_treats_a_missing_number_as_the_mean(table: Any) -> None:
    run, run_with_view = (train(table, leave_out=views, **OPTIONS) for views in (["missing"], []))
    columns = {column["name"]: column for column in run.report.data.preparation["columns"]}
    gaps = ROWS.assign(age=np.nan)
    mean = ROWS.assign(age=columns["age"]["mean"])
    np.testing.assert_allclose(run.predict_proba(gaps), run.predict_proba(mean), atol=1e-6)
    assert np.abs(run_with_view.predict_proba(gaps) - run_with_view.predict_proba(mean)).max() > 1e-3


def test_leaving_out_spelling_treats_spellings_of_a_name_alike(table: Any) -> None:
    run, run_with_view = (train(table, leave_out=views, **OPTIONS) for views in (["spelling"], []))
    first_spelling = ROWS.assign(unit="Unit A")
    second_spelling = ROWS.assign(unit="unit-a")
    assert np.array_equal(run.predict_proba(first_spelling), run.predict_proba(second_spelling))
    assert not np.array_equal(run.predict_proba(first_spelling), run.predict_proba(ROWS.assign(unit="unit b")))
    assert not np.array_equal(run_with_view.predict_proba(first_spelling), run_with_view.predict_proba(second_spelling))


def describe_table(*inputs: tuple[str, str]) -> DataInfo:
    return DataInfo(num_labels=2, num_rows=9, input_shape=(len(inputs),), input_names=inputs)


def test_left_out_pair_takes_hours_and_columns_whose_names_hold_its_sign() -> None:
    inputs = (("a & b", ""), ("c", ""), ("b", ""), ("taken", ""), ("taken", "(hour)"))
    for view, seen in {"pair:a & b & c": [0, 1], "pair:c & taken hour": [1, 4], "pair:taken & b": [2, 3, 4]}.items():
        removal = build_view_removal(view, describe_table(*inputs))
        assert removal is not None and (removal(torch.ones(1, 5))[0] == 0).nonzero().flatten().tolist() == seen


def test_views_that_a_removal_would_leave_a_trace_of_cannot_be_left_out() -> None:
    gaps = [("city", "Rome"), ("city", "Oslo"), ("city", "(missing)")]
    assert "all inputs of a column of names are 0" in describe_trace("missing", describe_table(*gaps))
    assert not describe_trace("missing", describe_table(("age", ""), ("age", "(missing)")))
    images = DataInfo(num_labels=2, num_rows=9, input_shape=(3, 32, 32))
    for view in ("border", "places:1,1"):
        assert "an augmentation moves" in describe_trace(view, replace(images, augmented=True))
        assert not describe_trace(view, images)
    texts = DataInfo(num_labels=2, num_rows=9, input_shape=(512,), words=True)
    assert "in pairs with its neighbours" in describe_trace("word:\u597d", texts)
    assert not describe_trace("word:good", texts)


def test_training_without_a_view_that_leaves_a_trace_is_refused(tmp_path: Path) -> None:
    frame = draw_people(60, 0)
    frame.loc[::4, "city"] = None
    with pytest.raises(InputError, match=r"leave_out='missing'.*of a column of names are 0: name it by `shortcut`"):
        train(from_table(frame, label="outcome", folder=tmp_path), leave_out="missing", **OPTIONS)


# -- texts


@pytest.mark.parametrize("views", [["word:shop"], ["word:north", "word:shop"]])
def test_left_out_word_changes_no_prediction(views: list[str], tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = np.array(["the", "shop", "north", "south", "late", "kind", "order", "tea"])
    ill = np.arange(120) % 2
    texts = [" ".join([("bad", "good")[y], *draw.choice(words, 4)]) for y in ill]
    data = from_table(pd.DataFrame({"y": ill, "text": texts}), label="y", text="text", folder=tmp_path)
    run, run_with_view = (train(data, leave_out=left_out, **OPTIONS) for left_out in (views, []))
    bare = [" ".join(word for word in text.split() if f"word:{word}" not in views) for text in texts]
    full = [f"{text} {' '.join(view[5:] for view in views)}, Shop" for text in bare]
    np.testing.assert_allclose(run.predict_proba(bare), run.predict_proba(full), atol=1e-6)
    assert np.abs(run_with_view.predict_proba(bare) - run_with_view.predict_proba(full)).max() > 1e-3
    assert np.isfinite(run.predict_proba(["shop", "north shop"])).all()  # nothing is left of them


# -- images


def draw_images(side: tuple[int, int], seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (6, 3, *side)).astype(np.float32)) / 255


def replace_border(images: Tensor) -> Tensor:
    """Another frame of an eighth of the shorter side."""
    height, width = images.shape[2:]
    border = max(1, round(min(height, width) / 8))
    with_other_border = torch.rand_like(images)
    with_other_border[:, :, border : height - border, border : width - border] = images[
        :, :, border : height - border, border : width - border
    ]
    return with_other_border


def add_coarse_pattern(images: Tensor) -> Tensor:
    points = torch.rand(len(images), 3, 4, 4, generator=torch.Generator().manual_seed(1))
    return images + interpolate(points, size=images.shape[2:], mode="bilinear", align_corners=False)


def add_stripes(images: Tensor) -> Tensor:
    """Stripes of the width of a pixel, light and dark, that leave the mean of each patch."""
    stripes = torch.ones(images.shape[3])
    stripes[1::2] = -1
    return images + 0.2 * stripes


def make_cell_change(row: int, column: int) -> Callable[[Tensor], Tensor]:
    """Another content of the pixels that the view of this cell looks at."""

    def change(images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        images = images.clone()
        down = slice((row - 1) * height // 4, row * height // 4)
        across = slice((column - 1) * width // 4, column * width // 4)
        images[:, :, down, across] = torch.rand_like(images[:, :, down, across])
        view = image_views.Places(row, column)
        assert (
            view.image_features((images * 255).byte())
            != view.image_features((draw_images((height, width)) * 255).byte())
        ).any()
        return images

    return change


#: View -> a change of what it sees.
IMAGE_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "colour": lambda images: 0.7 * images.roll(1, dims=1) + 0.2,
    "border": replace_border,
    "thumbnail": add_coarse_pattern,
    "light": add_coarse_pattern,
    "spectrum": add_stripes,
    "stripes": add_stripes,
    "texture": add_stripes,
    "places:1,1": make_cell_change(1, 1),
    "places:2,3": make_cell_change(2, 3),
    "places:4,4": make_cell_change(4, 4),
}


@pytest.mark.parametrize("view", IMAGE_CHANGES)
@pytest.mark.parametrize("side", [(64, 64), (38, 96), (64, 128)])
def test_left_out_image_view_changes_no_logits(view: str, side: tuple[int, int]) -> None:
    images = draw_images(side)
    info = DataInfo(num_labels=5, num_rows=9, input_shape=(3, *side))
    weight = torch.randn(images[0].numel(), 5, generator=torch.Generator().manual_seed(0)) / 30

    class LinearNetwork(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.flatten(1) @ weight

    linear_network = LinearNetwork()
    changed_images = IMAGE_CHANGES[view](images)
    choice = CompleteComponent("Sees", factory=lambda info: LinearNetwork())
    network = make_network_factory(choice, [view], info)()
    before = network(images)
    after = network(changed_images)
    scale = float((linear_network(images) - linear_network(changed_images)).abs().max())
    assert scale > 0.01 and float((before - after).abs().max()) < 1e-3 * scale
    assert float((before - network(draw_images(side, 1))).abs().max()) > 0.01  # it sees all else


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (60, 3, 20, 20)).astype(np.uint8)


@pytest.mark.parametrize("network", ["MLP", "ConvNet"])
def test_loaded_image_run_still_leaves_out_views(network: str, images: np.ndarray, tmp_path: Path) -> None:
    label = np.arange(60) % 2
    images = images.copy()
    images[:, :, :5, :5] = 255 * label[:, None, None, None]
    options = OPTIONS | {"network": network, "method": "LC", "shortcut": "colour"}
    run = train(from_arrays(images, label), tmp_path / "run", leave_out=["places:1,1", "border"], **options)
    changed_images = images.copy()
    changed_images[:, :, :5, :5] = 255 - changed_images[:, :, :5, :5]
    np.testing.assert_allclose(run.predict_proba(images), run.predict_proba(changed_images), atol=1e-6)
    assert np.array_equal(load(tmp_path / "run").predict_proba(images), run.predict_proba(images))


@pytest.mark.slow
@pytest.mark.parametrize("views", [["places:1,1", "colour"], ["thumbnail"], ["border", "stripes"]])
def test_export_leaves_out_views(views: list[str], images: np.ndarray, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run = train(from_arrays(images, np.arange(60) % 2), leave_out=views, **OPTIONS)
    folder = export(run, "onnx", tmp_path / "out")
    session = runtime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"images": images})
    np.testing.assert_allclose(torch.tensor(logits).softmax(1), run.predict_proba(images), atol=1e-5)


# -- what cannot be


@pytest.mark.parametrize(
    "view",
    ["column:sex", "column", "colour", "word:shop", "biased", "nonsense", "pair:sex & so on"],
)
def test_views_that_cannot_be_left_out_of_a_table_are_refused_before_training(
    view: str, table: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"`leave_out='{view}'`: .*name it by `shortcut`, or change the data"):
        train(table, tmp_path / "run", leave_out=["column:age", view], **OPTIONS)
    assert not (tmp_path / "run" / "report.json").exists() and not (tmp_path / "run" / "checkpoint.pt").exists()


@pytest.mark.parametrize("view", ["places:5,1", "places", "column:age", "spelling", "colour:red", "texture"])
def test_views_that_cannot_be_left_out_of_images_are_refused(view: str, tmp_path: Path) -> None:
    small_images = np.random.default_rng(0).integers(0, 256, (40, 1, 16, 16)).astype(np.uint8)  # without fine structure
    with pytest.raises(InputError, match=f"`leave_out='{view}'`: "):
        train(from_arrays(small_images, np.arange(40) % 2), tmp_path / "run", leave_out=view, **OPTIONS)
