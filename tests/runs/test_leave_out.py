"""Networks that cannot see what a view sees: in training, in prediction and in exports alike."""

from __future__ import annotations

from collections.abc import Callable
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
from logit_correction.runs.leave_out import make_network_factory
from logit_correction.types import DataInfo
from logit_correction.views import images as looks

OPTIONS: dict[str, Any] = {"method": "ERM", "network": "MLP", "epochs": 2, "threads": 1, "page": False}


# -- tables


def people(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    ill = draw.integers(2, size=rows)
    frame = pd.DataFrame({"outcome": np.where(ill, "ill", "well"), "age": (50 + 9 * draw.normal(size=rows)).round(1)})
    frame["city"] = np.array(["Rome", "Oslo", "Paris"])[draw.integers(0, 3, rows)]
    frame["taken"] = np.datetime64("2024-01-01T00") + draw.integers(0, 9000, rows)
    frame["dose"] = draw.normal(ill, 1).round(2)
    frame["unit"] = np.array(["Unit A", "unit-a", "UNIT A ", "unit b"])[draw.integers(0, 4, rows)]
    frame.loc[draw.random(rows) < 0.2, "age"] = np.nan
    return frame


ROWS = people(40, 1)


def with_dose(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(dose=-3 * frame["dose"] + 1)


#: View -> a change of what it alone sees.
OF_TABLES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "column:dose": with_dose,
    "column:city": lambda frame: frame.assign(city=np.roll(frame["city"], 1)),
    "column:age": lambda frame: frame.assign(age=np.where(frame["age"].isna(), 70.0, np.nan)),
    "column:taken": lambda frame: frame.assign(taken=frame["taken"] + pd.Timedelta(days=90, hours=5)),
    "pair:dose & city": lambda frame: with_dose(frame).assign(city=np.roll(frame["city"], 1)),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return from_table(people(240, 0), label="outcome", folder=tmp_path_factory.mktemp("table"))


@pytest.mark.parametrize("view", OF_TABLES)
def test_what_is_left_out_of_a_table_changes_no_answer(view: str, table: Any, tmp_path: Path) -> None:
    run = train(table, tmp_path / "run", leave_out=view, **OPTIONS)
    other = OF_TABLES[view](ROWS)
    assert np.array_equal(run.predict_proba(ROWS), run.predict_proba(other))
    sees = train(table, **OPTIONS)
    assert np.abs(sees.predict_proba(ROWS) - sees.predict_proba(other)).max() > 1e-3
    again = load(tmp_path / "run")  # a run that is read again leaves out the same
    assert np.array_equal(again.predict_proba(other), run.predict_proba(ROWS))
    assert again.config.training.leave_out == [view]
    assert again.evaluate("test")["average"] == run.report.test.average


def test_an_hour_of_a_date_can_be_left_out_alone(table: Any) -> None:
    run, sees = (train(table, leave_out=views, **OPTIONS) for views in (["column:taken hour"], []))
    day = ROWS["taken"].dt.floor("D")
    early, late = (ROWS.assign(taken=day + pd.Timedelta(hours=hour)) for hour in (1, 22))
    moved, seen = (np.abs(one.predict_proba(early) - one.predict_proba(late)).max() for one in (run, sees))
    assert moved < 0.02 < seen  # what remains is that the date itself is later by a day
    assert runs_table([run, sees])["method"].tolist() == ["ERM without the column taken hour", "ERM"]
    ((_, series),) = group_runs_by_task([RunFolder.read(run.path), RunFolder.read(sees.path)])
    assert [one.name for one in series] == ["ERM", "ERM without the column taken hour"]


def test_a_missing_number_is_the_mean_and_no_more(table: Any) -> None:
    run, sees = (train(table, leave_out=views, **OPTIONS) for views in (["missing"], []))
    columns = {one["name"]: one for one in run.report.data.preparation["columns"]}
    gaps = ROWS.assign(age=np.nan)
    mean = ROWS.assign(age=columns["age"]["mean"])
    np.testing.assert_allclose(run.predict_proba(gaps), run.predict_proba(mean), atol=1e-6)
    assert np.abs(sees.predict_proba(gaps) - sees.predict_proba(mean)).max() > 1e-3


def test_names_that_are_spelled_otherwise_are_one(table: Any) -> None:
    run, sees = (train(table, leave_out=views, **OPTIONS) for views in (["spelling"], []))
    one = ROWS.assign(unit="Unit A")
    other = ROWS.assign(unit="unit-a")
    assert np.array_equal(run.predict_proba(one), run.predict_proba(other))
    assert not np.array_equal(run.predict_proba(one), run.predict_proba(ROWS.assign(unit="unit b")))
    assert not np.array_equal(sees.predict_proba(one), sees.predict_proba(other))


# -- texts


@pytest.mark.parametrize("views", [["word:shop"], ["word:north", "word:shop"]])
def test_a_word_that_is_left_out_may_be_there_or_not(views: list[str], tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = np.array(["the", "shop", "north", "south", "late", "kind", "order", "tea"])
    ill = np.arange(120) % 2
    texts = [" ".join([("bad", "good")[y], *draw.choice(words, 4)]) for y in ill]
    data = from_table(pd.DataFrame({"y": ill, "text": texts}), label="y", text="text", folder=tmp_path)
    run, sees = (train(data, leave_out=of, **OPTIONS) for of in (views, []))
    bare = [" ".join(word for word in text.split() if f"word:{word}" not in views) for text in texts]
    full = [f"{text} {' '.join(view[5:] for view in views)}, Shop" for text in bare]
    np.testing.assert_allclose(run.predict_proba(bare), run.predict_proba(full), atol=1e-6)
    assert np.abs(sees.predict_proba(bare) - sees.predict_proba(full)).max() > 1e-3
    assert np.isfinite(run.predict_proba(["shop", "north shop"])).all()  # of which nothing is left


# -- images


def painted(side: tuple[int, int], seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (6, 3, *side)).astype(np.float32)) / 255


def framed(images: Tensor) -> Tensor:
    """Another frame of an eighth of the shorter side."""
    height, width = images.shape[2:]
    deep = max(1, round(min(height, width) / 8))
    changed = torch.rand_like(images)
    changed[:, :, deep : height - deep, deep : width - deep] = images[:, :, deep : height - deep, deep : width - deep]
    return changed


def coarse(images: Tensor) -> Tensor:
    points = torch.rand(len(images), 3, 4, 4, generator=torch.Generator().manual_seed(1))
    return images + interpolate(points, size=images.shape[2:], mode="bilinear", align_corners=False)


def fine(images: Tensor) -> Tensor:
    """Stripes of the width of a pixel, light and dark, that leave the mean of each patch."""
    stripes = torch.ones(images.shape[3])
    stripes[1::2] = -1
    return images + 0.2 * stripes


def in_cell(row: int, column: int) -> Callable[[Tensor], Tensor]:
    """Another content of the pixels that the view of this cell looks at."""

    def change(images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        images = images.clone()
        down = slice((row - 1) * height // 4, row * height // 4)
        across = slice((column - 1) * width // 4, column * width // 4)
        images[:, :, down, across] = torch.rand_like(images[:, :, down, across])
        view = looks.Places(row, column)
        assert (
            view.image_features((images * 255).byte()) != view.image_features((painted((height, width)) * 255).byte())
        ).any()
        return images

    return change


#: View -> a change of what it sees.
OF_IMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "colour": lambda images: 0.7 * images.roll(1, dims=1) + 0.2,
    "border": framed,
    "thumbnail": coarse,
    "light": coarse,
    "spectrum": fine,
    "stripes": fine,
    "texture": fine,
    "places:1,1": in_cell(1, 1),
    "places:2,3": in_cell(2, 3),
    "places:4,4": in_cell(4, 4),
}


@pytest.mark.parametrize("view", OF_IMAGES)
@pytest.mark.parametrize("side", [(64, 64), (38, 96), (64, 128)])
def test_what_is_left_out_of_images_changes_no_answer(view: str, side: tuple[int, int]) -> None:
    images = painted(side)
    info = DataInfo(num_labels=5, num_rows=9, input_shape=(3, *side))
    weight = torch.randn(images[0].numel(), 5, generator=torch.Generator().manual_seed(0)) / 30

    class Sees(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.flatten(1) @ weight

    sees = Sees()
    other = OF_IMAGES[view](images)
    choice = CompleteComponent("Sees", factory=lambda info: Sees())
    network = make_network_factory(choice, [view], info)()
    before = network(images)
    after = network(other)
    scale = float((sees(images) - sees(other)).abs().max())
    assert scale > 0.01 and float((before - after).abs().max()) < 1e-3 * scale
    assert float((before - network(painted(side, 1))).abs().max()) > 0.01  # it sees all else


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (60, 3, 20, 20)).astype(np.uint8)


@pytest.mark.parametrize("network", ["MLP", "ConvNet"])
def test_a_run_on_images_is_read_again_as_blind(network: str, images: np.ndarray, tmp_path: Path) -> None:
    label = np.arange(60) % 2
    images = images.copy()
    images[:, :, :5, :5] = 255 * label[:, None, None, None]
    options = OPTIONS | {"network": network, "method": "LC", "shortcut": "colour"}
    run = train(from_arrays(images, label), tmp_path / "run", leave_out=["places:1,1", "border"], **options)
    other = images.copy()
    other[:, :, :5, :5] = 255 - other[:, :, :5, :5]
    np.testing.assert_allclose(run.predict_proba(images), run.predict_proba(other), atol=1e-6)
    assert np.array_equal(load(tmp_path / "run").predict_proba(images), run.predict_proba(images))


@pytest.mark.slow
@pytest.mark.parametrize("views", [["places:1,1", "colour"], ["thumbnail"], ["border", "stripes"]])
def test_an_export_is_blind_as_well(views: list[str], images: np.ndarray, tmp_path: Path) -> None:
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
def test_what_cannot_be_left_out_of_a_table_is_refused_before_training(view: str, table: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"`leave_out='{view}'`: .*name it by `shortcut`, or change the data"):
        train(table, tmp_path / "run", leave_out=["column:age", view], **OPTIONS)
    assert not (tmp_path / "run" / "report.json").exists() and not (tmp_path / "run" / "checkpoint.pt").exists()


@pytest.mark.parametrize("view", ["places:5,1", "places", "column:age", "spelling", "colour:red", "texture"])
def test_what_cannot_be_left_out_of_images_is_refused(view: str, tmp_path: Path) -> None:
    small = np.random.default_rng(0).integers(0, 256, (40, 1, 16, 16)).astype(np.uint8)  # without fine structure
    with pytest.raises(InputError, match=f"`leave_out='{view}'`: "):
        train(from_arrays(small, np.arange(40) % 2), tmp_path / "run", leave_out=view, **OPTIONS)
