"""``train``: what it writes, refuses and leaves alone, and what it returns."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import (
    ComponentConfig,
    InputError,
    RunConfig,
    TrainingConfig,
    audit,
    from_arrays,
    from_table,
    load,
    train,
)
from logit_correction.data.table import DataTable
from logit_correction.runs.assemble import launch_processes
from logit_correction.runs.train import RANK_VARIABLES

from ..conftest import find_differing_tensors, load_trained_tensors

SHORT: dict[str, Any] = {"epochs": 1, "device": "cpu", "threads": 1}
DIGITS = {"name": "Digits", "minority_ratio": 0.05}


@pytest.fixture
def frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    label = np.arange(120) % 2
    values = generator.normal(size=120) + 3 * label
    return pd.DataFrame({"size": values, "kind": np.where(label, "dog", "cat"), "place": ["lawn", "sofa", None] * 40})


def test_run_without_a_folder_is_deleted_with_its_object() -> None:
    def train_and_forget() -> Path:
        run = train(DIGITS, method="ERM", **SHORT)
        run.predict(np.zeros((1, 3, 8, 8), np.uint8))
        assert (run.path / "report.json").is_file() and (run / "report.html").is_file()
        assert Path(run) == run.path and os.fspath(run) == str(run) == str(run.path)
        return run.path

    folder = train_and_forget()
    gc.collect()
    assert not folder.parent.exists()


def test_labelled_new_rows_are_evaluated_by_label_and_attribute(frame: pd.DataFrame) -> None:
    run = train(from_table(frame, label="kind", features=["size"]), method="ERM", **{**SHORT, "epochs": 20})
    right = run.predict(frame) == frame["kind"].to_numpy()
    by_label = run.evaluate(frame)
    assert by_label["average"] == pytest.approx(right.mean()) and by_label["worst_group"] is None
    by_group = run.evaluate(frame, attribute="place")
    accuracy_by_group = {(group["label"], group["attribute"]): group["accuracy"] for group in by_group["groups"]}
    for (kind, place), rows in frame.groupby(["kind", "place"]):
        assert accuracy_by_group[kind, place] == pytest.approx(right[rows.index].mean())
    assert by_group["count"] == 120 and by_group["worst_group"] == pytest.approx(min(accuracy_by_group.values()))
    # The same with lists instead of columns.
    lists = run.evaluate(frame[["size"]], list(frame["kind"]), list(frame["place"]))
    assert lists == by_group


@pytest.mark.parametrize(
    ("values", "kind"),
    [([2, 10], "i"), ([False, True], "b"), ([0.5, 3.0], "f"), (["2", "10"], "U"), (pd.Categorical([2, 10]), "i")],
)
def test_predictions_have_the_type_of_the_labels(frame: pd.DataFrame, values: Any, kind: str) -> None:
    label = pd.Series(np.arange(120) % 2).map(dict(enumerate(values)))
    label = label.astype(values.dtype) if isinstance(values, pd.Categorical) else label
    rows = frame[["size"]].assign(label=label)
    options: dict[str, Any] = {"method": "ERM", "epochs": 30, "threads": 1, "page": False}
    array = kind in "bU"  # the others as tables
    new = rows[["size"]].to_numpy() if array else rows
    run = train(new, label=label.to_list() if array else "label", **options)
    predictions = load(run.path).predict(new)
    assert predictions.dtype.kind == kind and (predictions == label.to_numpy()).mean() > 0.8
    assert run.evaluate(new, label.to_list())["average"] == (predictions == label.to_numpy()).mean()


@pytest.mark.parametrize("start", [train, audit])
def test_table_without_rows_is_refused(start: Callable[..., Any], frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="the table has no rows"):
        start(frame[:0], label="kind")


def build_config(method: str = "ERM", **options: object) -> RunConfig:
    training = TrainingConfig(epochs=2, batch_size=32, threads=1, **options)  # type: ignore[arg-type]
    method_options = {"attributes": "Online"} if method == "LC" else {}
    return RunConfig(
        ComponentConfig("my_parts.Points"),
        ComponentConfig(method, method_options),
        ComponentConfig("MLP"),
        training=training,
    )


def has_same_weights(first: Path, second: Path) -> bool:
    return find_differing_tensors(load_trained_tensors(first), load_trained_tensors(second)) == []


def test_weights_depend_on_the_seed_only(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = train(build_config("LC"), tmp_path / "one", page=False)
    torch.manual_seed(2)
    np.random.seed(2)
    assert has_same_weights(first, train(build_config("LC"), tmp_path / "same", resume=True, page=False))
    assert not has_same_weights(first, train(build_config("LC", seed=1), tmp_path / "other", page=False))


def test_test_split_does_not_affect_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import my_parts

    first = train(build_config(selection="valid_average"), tmp_path / "first", page=False)
    build = my_parts.Points.build

    def build_permuted(self: my_parts.Points) -> DataTable:
        table = build(self)
        rows = table.split["test"]
        table.label[rows] = table.label[rows].roll(1)
        return table

    monkeypatch.setattr(my_parts.Points, "build", build_permuted)
    second = train(build_config(selection="valid_average"), tmp_path / "second", page=False)
    assert has_same_weights(first, second)
    reports = [json.loads((run / "report.json").read_text()) for run in (first, second)]
    assert reports[0]["selection"] == reports[1]["selection"] and reports[0]["test"] != reports[1]["test"]


def test_training_in_inference_mode_is_refused(tmp_path: Path) -> None:
    with torch.inference_mode(), pytest.raises(InputError, match=r"train outside of .* inference_mode"):
        train(build_config(), tmp_path / "run")


def test_threads_are_at_most_those_of_the_machine() -> None:
    before = torch.get_num_threads()
    try:
        launch_processes(TrainingConfig(threads=100_000, device="cpu"))
        assert torch.get_num_threads() <= (os.cpu_count() or 1)
    finally:
        torch.set_num_threads(before)


def test_network_that_predicts_one_label_gives_a_warning(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(400, 3)).astype(np.float32)  # independent of the label
    data = from_arrays(values, np.where(draw.random(400) < 0.95, "usual", "rare"), folder=tmp_path / "data")
    train(RunConfig(data, ComponentConfig("ERM"), training=TrainingConfig(epochs=1, threads=1)), tmp_path / "run")
    assert "`usual`" in json.loads((tmp_path / "run" / "report.json").read_text())["warnings"][0]


def test_several_processes_need_a_folder_and_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="out is missing: several processes"):
        train("Digits", devices=2, device="cpu", epochs=1)
    monkeypatch.setattr("sys.argv", ["-c"])
    with pytest.raises(InputError, match="write it into a file"):
        train("Digits", tmp_path / "out", devices=2, device="cpu", epochs=1, batch_size=32)
    assert not (tmp_path / "out").exists()
