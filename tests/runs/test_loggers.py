"""Loggers: figures while training goes on, the groups at the end, and what is refused before."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from logit_correction import InputError, RunConfig, TrainedRun, TrainingConfig, train
from logit_correction.training.loggers import LOGGERS
from logit_correction.training.loggers.base import RunLogger


def trained(out: Path, *loggers: str, **options: Any) -> TrainedRun:
    data = {"name": "Digits", "minority_ratio": 0.05}
    options = {"epochs": 2, "batch_size": 256, "log_every": 2, "threads": 1, "device": "cpu"} | options
    return train(
        data, out, method="ERM", network={"name": "MLP", "hidden": [8]}, logger=list(loggers), page=False, **options
    )


class Kept(RunLogger):
    """Remembers what it was given; falls over where it is told to."""

    given: ClassVar[list[tuple[str, Any]]] = []
    fails_at = -1

    def __init__(self, folder: Path, kept: str | None) -> None:
        self.given.append(("begin", kept))

    @property
    def identity(self) -> str:
        return "number 7"

    def log_metrics(self, metrics: Any, step: int) -> None:
        if step == self.fails_at:
            raise ConnectionError("the server is away")
        self.given.append(("metrics", step))

    def log_options(self, options: Any) -> None:
        self.given.append(("options", options["method.name"]))

    def log_groups(self, groups: pd.DataFrame, report: Any, step: int) -> None:
        self.given.append(("groups", len(groups)))

    def finish(self, done: bool) -> None:
        self.given.append(("finish", done))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> type[Kept]:
    """The logger above under a name, empty."""
    module = type(sys)("kept_logger")
    module.Kept = Kept  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kept_logger", module)
    monkeypatch.setattr(Kept, "given", [])
    return Kept


def test_a_logger_of_ones_own_gets_all_in_order(kept: type[Kept], tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "kept_logger.Kept", "csv")
    names = [name for name, _ in kept.given]
    assert names[:2] == ["begin", "options"] and names[-2:] == ["groups", "finish"]
    assert kept.given[0] == ("begin", None) and kept.given[-1] == ("finish", True)
    assert kept.given[-2] == ("groups", 100)
    assert {step for name, step in kept.given if name == "metrics"} >= {2, run.report["steps"]}
    assert json.loads((run / "loggers.json").read_text()) == {"kept_logger.Kept": "number 7"}
    (version,) = (run / "csv").iterdir()
    rows = list(csv.DictReader((version / "metrics.csv").open()))
    assert any(row.get("loss") for row in rows) and any(row.get("test/worst_group") for row in rows)
    assert pd.read_csv(version / "groups.csv")["count"].sum() == run.report["data"]["rows"]["test"]


def test_a_logger_that_fails_ends_no_training(
    kept: type[Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "fails_at", 4)
    run = trained(tmp_path / "run", "kept_logger.Kept")
    assert run.report["epochs"] == 2
    assert [step for name, step in kept.given if name == "metrics"] == [2] and ("finish", True) not in kept.given


def test_a_stopped_run_goes_on_with_the_same_identity(
    kept: type[Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logit_correction.training.fit import Fit

    def failing(self: Fit) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="stopped"):
        patch.setattr(Fit, "_validate", failing)
        trained(tmp_path / "run", "kept_logger.Kept")
    assert kept.given[-1] == ("finish", False)
    trained(tmp_path / "run", "kept_logger.Kept", resume=True)
    assert ("begin", "number 7") in kept.given and kept.given[-1] == ("finish", True)


def test_names_are_checked_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, message in (
        ("wandbb", r"logger 'wandbb' is unknown \(did you mean wandb\?\): take one of csv, tensorboard"),
        ("pandas.DataFrame", r"'pandas.DataFrame' is no logger: its class must derive from"),
    ):
        with pytest.raises(InputError, match=message):
            trained(tmp_path / "run", name)
    for name in ("wandb", "mlflow", "tensorboard"):
        with (
            monkeypatch.context() as patch,
            pytest.raises(InputError, match=rf"`pip install 'logit-correction\[{name}\]'`"),
        ):
            patch.setitem(sys.modules, name, None)
            trained(tmp_path / "run", name)
    assert not (tmp_path / "run").exists()
    assert list(LOGGERS) == ["csv", "tensorboard", "wandb", "mlflow"]


def test_one_name_and_several_in_a_text_are_lists() -> None:
    for given, names in (("csv", ["csv"]), ("[csv, wandb]", ["csv", "wandb"]), (["csv"], ["csv"])):
        assert TrainingConfig(logger=given).logger == names  # type: ignore[arg-type]
    flat = {"data": "Digits", "method": "ERM", "logger": ["csv", "[mlflow]"]}
    config = RunConfig.from_dict(flat)
    assert config.training.logger == ["csv", "mlflow"]
    assert RunConfig.from_dict(config.to_dict()).training == config.training


def test_tensorboard_has_figures_and_groups(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trained(tmp_path / "run", "tensorboard")
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    assert {"loss", "test/worst_group", "valid_average"} <= set(events.Tags()["scalars"])
    (text,) = events.Tensors("groups/text_summary")
    assert b"label|attribute|count" in text.tensor_proto.string_val[0]
    assert len(text.tensor_proto.string_val[0].splitlines()) == 102


@pytest.mark.slow
def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("lightning")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = trained(tmp_path / "run", "wandb")
    identity = json.loads((run / "loggers.json").read_text())["wandb"]
    (kept,) = (run / "wandb").glob("offline-run-*")
    assert kept.name.endswith(identity) and list(kept.glob("*.wandb"))
    (table,) = kept.rglob("*.table.json")
    shown = json.loads(table.read_text())
    assert shown["columns"][:3] == ["label", "attribute", "count"] and len(shown["data"]) == 100


@pytest.mark.slow
@pytest.mark.parametrize("store", ["file", "sqlite"])
def test_mlflow_without_a_server(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("lightning")
    if store == "sqlite":
        pytest.importorskip("sqlalchemy")
    place = f"sqlite:///{tmp_path / 'mlflow.db'}" if store == "sqlite" else (tmp_path / "mlruns").as_uri()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run = trained(tmp_path / "run", "mlflow")
    client = mlflow.tracking.MlflowClient(place)
    (found,) = client.search_runs([client.get_experiment_by_name("logit-correction").experiment_id])
    assert found.info.run_id == json.loads((run / "loggers.json").read_text())["mlflow"]
    assert found.info.run_name == "run" and found.info.status == "FINISHED"
    assert found.data.params["method.name"] == "ERM" and "test/worst_group" in found.data.metrics
    assert {one.path for one in client.list_artifacts(found.info.run_id)} == {"groups.csv", "report.json"}
