"""A finished run predicts and is judged again; its network serves others; selection reads what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image

from logit_correction import (
    ComponentConfig,
    InputError,
    Predictions,
    Run,
    RunConfig,
    TrainingConfig,
    audit,
    load,
    train,
)
from logit_correction.data.digits import Digits
from logit_correction.data.table import DataTable
from logit_correction.runs.model import build_algorithm, build_data_info
from logit_correction.runs.options import complete_config
from logit_correction.training.record import read_checkpoint, write_checkpoint
from logit_correction_lab.sources.planted import Planted

SHORT: dict[str, Any] = {"epochs": 8, "seed": 0, "threads": 1, "page": False}


@pytest.fixture(scope="module")
def model(digits_run: Path) -> Run:
    return load(digits_run)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    table = Digits().build()
    test_images = table.inputs.images(table.split["test"][::99])
    assert test_images is not None
    return test_images.numpy()


def draw_people(rows: int, seed: int) -> pd.DataFrame:
    """A form's version that agrees with the answer in nine of ten rows, and an age weakly correlated with it."""
    draw = np.random.default_rng(seed)
    answer = draw.integers(0, 2, rows)
    version = np.where(draw.random(rows) < 0.1, 1 - answer, answer)
    form = np.array(["old", "new"])[version]
    age = 30 + 10 * answer + draw.normal(0, 8, rows)
    return pd.DataFrame({"answer": np.array(["no", "yes"])[answer], "form": form, "age": age})


def train_run(out: Path, data: ComponentConfig, method: str = "LC", view: str = "column:form", **training: Any) -> Run:
    options = {"attributes": {"name": "Auto", "shortcut": [view]}} if method == "LC" else {}
    network = ComponentConfig("MLP", {"hidden": [16]})
    training_config = TrainingConfig(**{"epochs": 3, "batch_size": 64, "threads": 1, "device": "cpu", **training})
    return load(
        train(RunConfig(data, ComponentConfig(method, options), network, training=training_config), out, page=False)
    )


def build_table_config(file: Path) -> ComponentConfig:
    return ComponentConfig("Table", {"file": str(file), "label": "answer", "features": "*"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("people")
    draw_people(600, 0).to_csv(folder / "people.csv", index=False)
    return train_run(folder / "run", build_table_config(folder / "people.csv"))


def count_by_minority(block: dict[str, Any]) -> list[int]:
    return [sum(group["count"] for group in block["groups"] if group["minority"] is side) for side in (False, True)]


def test_arrays_tensors_and_files_are_predicted_alike(model: Run, images: np.ndarray, tmp_path: Path) -> None:
    probability = model.predict_proba(images)
    assert probability.shape == (len(images), 10) and probability.dtype == np.float32
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-5)
    frozen = images.copy()
    frozen.setflags(write=False)
    flipped = images[..., ::-1].copy()[..., ::-1]
    for equal_images in (
        torch.from_numpy(images),
        torch.from_numpy(images).float() / 255,
        images / 255.0,
        frozen,
        flipped,
    ):
        np.testing.assert_allclose(model.predict_proba(equal_images), probability, atol=1e-5)
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for path, image in zip(paths, images, strict=False):
        Image.fromarray(image.transpose(1, 2, 0)).save(path)
    for files in (paths, [str(path) for path in paths], np.array(paths), pd.Series([str(path) for path in paths])):
        np.testing.assert_allclose(model.predict_proba(files), probability[:4], atol=1e-6)
    with pytest.raises(InputError, match=r"no\.png"):
        model.predict([*paths, tmp_path / "no.png"])
    many_images = np.resize(images, (2345, 3, 8, 8))
    np.testing.assert_allclose(model.predict_proba(many_images)[-7:], model.predict_proba(many_images[-7:]), atol=1e-6)
    for no_rows in (np.zeros((0, 3, 8, 8), np.uint8), []):
        assert model.predict_proba(no_rows).shape == (0, 10) and model.predict(no_rows).shape == (0,)
    assert model.predict(images).tolist() == np.asarray(model.label_names)[probability.argmax(1)].tolist()


def test_former_names_of_the_report_warn_and_work(run: Run) -> None:
    with pytest.warns(DeprecationWarning, match=r"Run\.report"):
        assert run.results is run.report
    with pytest.warns(DeprecationWarning, match="to_dict"):
        assert run.report["test"] == run.report.to_dict()["test"]


def test_new_rows_are_evaluated_by_estimated_groups(run: Run, tmp_path: Path) -> None:
    block = run.report.to_dict()["test"]["estimated"]
    rows = Predictions.load(run / "predictions.parquet")
    assert rows.estimate is not None and block["source"] == "a classifier of the column `form` alone, cross-fitted"
    conflicting = rows.estimate.attribute != rows.label
    assert block["minority"] == pytest.approx((rows.prediction == rows.label)[conflicting].mean())
    assert run.evaluate("test")["estimated"]["minority"] == pytest.approx(block["minority"])
    frame = draw_people(200, 1)
    agrees = int(((frame["answer"] == "yes") == (frame["form"] == "new")).sum())
    assert count_by_minority(run.evaluate(frame)["estimated"]) == [agrees, 200 - agrees]
    frame.to_csv(tmp_path / "new.csv", index=False)
    named_groups = run.evaluate(tmp_path / "new.csv", attribute="form")
    assert {group["attribute"] for group in named_groups["groups"]} == {"old", "new"}
    assert named_groups["estimated"] == run.evaluate(tmp_path / "new.csv")["estimated"]


def replace_value(frame: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    frame = frame.copy()
    frame.loc[7, column] = value
    return frame


DATA_CHANGES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "a value": (lambda frame: replace_value(frame, "age", 3.0), "are not those that"),
    "a name": (
        lambda frame: replace_value(frame, "form", "old" if frame["form"][7] == "new" else "new"),
        "are not those",
    ),
    "negated": (lambda frame: frame.assign(age=-frame["age"]), "are not those that"),
    "emptied": (lambda frame: replace_value(frame, "age", None), "column 'age' is empty"),
    "a column less": (lambda frame: frame.drop(columns="age"), "has no column 'age'"),
    "another kind": (lambda frame: frame.assign(age=frame["form"]), "'age' holds"),
}


def test_run_reads_its_data_as_in_training(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    frame = draw_people(300, 0)
    frame.to_csv(file, index=False)
    run = train(file, tmp_path / "run", label="answer", method="ERM", **SHORT)
    network = ComponentConfig("FromRun", {"run": str(run.path)})
    same_options: dict[str, Any] = {
        "label": "answer",
        "method": "ERM",
        "network": network,
        "learning_rate": 1e-12,
        **SHORT,
    }
    figures = run.report.to_dict()["test"]["groups"]
    first_audit = audit(file, tmp_path / "audit", run=run, label="answer", epochs=1, threads=1)
    frame.assign(new=1.5)[["new", "age", "form", "answer"]].to_csv(file, index=False)
    assert load(run.path).evaluate()["groups"] == figures
    second_audit = audit(file, run=run, label="answer", epochs=1, threads=1)
    columns = [name for name in first_audit.rows if name.startswith("p_")]
    pd.testing.assert_frame_equal(second_audit.rows[columns], first_audit.rows[columns])
    retrained = train(file, tmp_path / "again", **same_options)
    assert retrained.report.to_dict()["test"]["groups"] == figures == load(retrained.path).evaluate()["groups"]
    for change, message in DATA_CHANGES.values():
        change(frame).to_csv(file, index=False)
        for split in ("test", "train"):
            with pytest.raises(InputError, match=message):
                load(run.path).evaluate(split)
        with pytest.raises(InputError, match=message):
            audit(file, run=run, label="answer", epochs=1, threads=1)
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match=r"was trained on the columns 'age', 'form': name these by `features`"):
        train(file, **same_options, features="age")


def test_network_of_a_run_is_used_by_another(digits_run: Path, model: Run, images: np.ndarray, tmp_path: Path) -> None:
    config_from_run = RunConfig(
        ComponentConfig("Digits"), ComponentConfig("ERM"), ComponentConfig("FromRun", {"run": "x"})
    )
    config_from_run.network.options["run"] = str(digits_run)
    info = Digits().build().info
    old = model.model.algorithm.network
    inputs = torch.from_numpy(images) / 255
    assert torch.equal(build_algorithm(complete_config(config_from_run), info).network.eval()(inputs), old(inputs))
    with pytest.raises(InputError, match=r"takes inputs of shape \(3, 8, 8\), but"):
        build_algorithm(complete_config(config_from_run), replace(info, input_shape=(3, 9, 9)))
    circular_run = shutil.copytree(digits_run, tmp_path / "circle")
    config = yaml.safe_load((circular_run / "config.yaml").read_text())
    (circular_run / "config.yaml").write_text(
        yaml.safe_dump({**config, "network": {"name": "FromRun", "run": str(circular_run)}})
    )
    with pytest.raises(InputError, match="took a network from elsewhere itself"):
        load(circular_run)


def test_run_with_encoder_is_audited_on_its_features(tmp_path: Path) -> None:
    encoder = ComponentConfig("ConvNet", {"channels": [4]})
    training_config = TrainingConfig(epochs=1, threads=1, device="cpu")
    config = RunConfig(ComponentConfig("Digits"), ComponentConfig("ERM"), encoder=encoder, training=training_config)
    run = train(config, tmp_path / "run", page=False)
    audited = audit(config, tmp_path / "audit", run=run, shortcut="colour", try_fix=False)
    assert audited.summary["evidence"]["verdict"] in ("shortcut", "none found", "cannot tell")


def train_planted_run(out: Path, method: str = "LC", rule: str = "valid_estimated_group_balanced") -> Run:
    data = ComponentConfig("Planted", {"set": "column", "rows": 800, "minority_ratio": 0.1})
    return train_run(out, data, method, "column:form_version", epochs=4, selection=rule)


def test_estimated_selection_rules_read_no_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train_planted_run(tmp_path / "run")
    selection = run.report.to_dict()["selection"]
    scores = pd.read_csv(run / "metrics.csv")[selection["rule"]].dropna().tolist()
    assert selection["epoch"] == len(scores) - scores[::-1].index(max(scores))
    assert (selection["split"], selection["labels_read"]) == ("valid", ["label"])
    assert Predictions.load(run / "validation.parquet").attribute is None
    build = Planted.build

    def build_permuted(self: Planted) -> DataTable:
        table = build(self)
        return replace(table, attribute=table.attribute.roll(1))

    monkeypatch.setattr(Planted, "build", build_permuted)
    second_run = train_planted_run(tmp_path / "again")
    assert (second_run / "metrics.csv").read_bytes() == (run / "metrics.csv").read_bytes()
    assert second_run.report.to_dict()["selection"] == run.report.to_dict()["selection"]
    with pytest.raises(InputError, match="valid_estimated_worst_group goes by estimated attributes, and ERM"):
        train_planted_run(tmp_path / "ERM", "ERM", "valid_estimated_worst_group")


def test_damaged_files_and_dead_links_are_listed_together(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for label, grey in (("dark", 10), ("light", 240)):
        (photos / label).mkdir(parents=True)
        for number in range(12):
            pixels = np.full((8, 8, 3), grey + number, np.uint8)
            Image.fromarray(pixels).save(photos / label / f"{number}.png")
    run = train(photos, tmp_path / "run", method="ERM", network="MLP", epochs=1, threads=1, page=False)
    assert run.evaluate(photos)["count"] == 24
    (photos / "dark" / "0.png").write_bytes(b"no picture")
    (photos / "light" / "1.png").write_bytes((photos / "light" / "1.png").read_bytes()[:50])
    with pytest.raises(InputError, match=r"2 rows are bad: .*dark/0\.png.*light/1\.png"):
        run.evaluate(photos)
    (photos / "dark" / "lost.png").symlink_to("nowhere.png")
    with pytest.raises(InputError, match="3 rows are bad") as error:
        run.evaluate(photos)
    assert all(name in str(error.value) for name in ("dark/0.png", "light/1.png", "dark/lost.png"))


def test_run_without_stored_data_info_loads(run: Run, tmp_path: Path) -> None:
    rows = draw_people(40, 2)
    state = read_checkpoint(run / "checkpoint.pt")
    assert build_data_info(state["info"]) == run.model.info and run.model.info.input_names
    old = shutil.copytree(run, tmp_path / "old")
    write_checkpoint(old / "checkpoint.pt", algorithm=state["algorithm"])
    assert replace(load(old).model.info, augmented=run.model.info.augmented) == run.model.info
    np.testing.assert_array_equal(load(old).predict_proba(rows), load(run).predict_proba(rows))
    for change in ({"num_attributes": 10**12}, {"input_shape": (2**40,)}, {"correlation": 3}):
        write_checkpoint(old / "checkpoint.pt", algorithm=state["algorithm"], info=state["info"] | change)
        with pytest.raises(InputError, match=r"checkpoint\.pt: the sizes of the data do not fit"):
            load(old)


def test_forged_report_entries_are_named(digits_run: Path, run: Run, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    report = json.loads((copy / "report.json").read_text())
    for entry, value, message in (
        ("preparation", {"columns": 3}, r"data\.preparation|preparation"),
        ("label_names", None, "data.label_names is None"),
    ):
        (copy / ".checksums").unlink(missing_ok=True)
        (copy / "report.json").write_text(json.dumps(report | {"data": {**report["data"], entry: value}}))
        with pytest.raises(InputError, match=message):
            load(copy).predict(draw_people(3, 0))


def test_run_trained_in_half_precision_predicts_what_its_report_evaluates(tmp_path: Path) -> None:
    data = {"name": "Digits", "minority_ratio": 0.1}
    run = train(data, tmp_path / "run", method="ERM", precision="bf16-mixed", epochs=2, threads=1, page=False)
    table = run.source.build()
    reported = Predictions.load(run.path / "predictions.parquet")
    probability = run.predict_proba(table.inputs.images(table.split["test"]))
    np.testing.assert_allclose(probability, reported.probabilities, atol=6e-3)  # stored in half precision
