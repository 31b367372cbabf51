"""Configs, run folders, audits, exported networks and other files beside the data: spoiled, each is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction import ComponentConfig, RunConfig, TrainingConfig, audit, export, load, train
from logit_correction.auditing.api import Audit
from logit_correction.bench.grid import read as read_benchmark
from logit_correction.evaluation.predictions import Predictions
from logit_correction.files import read_yaml
from logit_correction.pages.compare import RunFolder
from logit_correction.runs.options import complete
from logit_correction.training.checkpoint import load as load_checkpoint

#: A file, and how it is read.
Kind = tuple[Path, Callable[[], Any]]

ROWS = pd.DataFrame({"label": ["a", "b"] * 40, "x": np.arange(80) / 7, "y": np.arange(80) % 2})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run, an audit and an exported network."""
    folder = tmp_path_factory.mktemp("made")
    ROWS.to_csv(folder / "rows.csv", index=False)
    data = ComponentConfig("Table", {"file": str(folder / "rows.csv"), "label": "label", "features": ["x", "y"]})
    method = ComponentConfig("LC", {"attributes": "Online"})
    config = RunConfig(data, method, training=TrainingConfig(epochs=1, threads=1))
    train(config, folder / "run", page=False)
    audit(data, folder / "audit", try_fix=False, epochs=1, threads=1)
    export(folder / "run", "safetensors", folder / "exported")
    return {name: folder / name for name in ("run", "audit", "exported")}


def copied(what: str, name: str, read: Callable[[Path], Any]) -> Callable[[Path, dict[str, Path]], Kind]:
    def make(folder: Path, made: dict[str, Path]) -> Kind:
        copy = shutil.copytree(made[what], folder / what)
        return copy / name, lambda: read(copy)

    return make


def options(read: Callable[[Path], Any], text: str) -> Callable[[Path, dict[str, Path]], Kind]:
    def make(folder: Path, made: dict[str, Path]) -> Kind:
        folder.mkdir()
        (folder / "file.yaml").write_text(text)
        return folder / "file.yaml", lambda: read(folder / "file.yaml")

    return make


def grid(file: Path) -> None:
    for cell in read_benchmark(str(file)).cells(Path("out")):
        cell.config()


def rows_of(run: Path) -> Any:
    return load(run).predict_proba(ROWS)


OPTIONS = "data: Digits\nmethod: {name: LC, attributes: Online}\nepochs: 2\n"
GRID = "title: a\nrows: {ERM: {method: ERM}}\ncolumns: {digits: {data: Digits}}\nseeds: 1\n"
KINDS: dict[str, Callable[[Path, dict[str, Path]], Kind]] = {
    "config": options(lambda file: complete(RunConfig.from_dict(read_yaml(file))), OPTIONS),
    "benchmark": options(grid, GRID),
    "config of a run": copied("run", "config.yaml", lambda run: load(run).config),
    "report of a run": copied("run", "report.json", lambda run: RunFolder.read(run).groups()),
    "metrics of a run": copied("run", "metrics.csv", lambda run: RunFolder.read(run).metrics),
    "predictions of a run": copied("run", "predictions.parquet", lambda r: Predictions.load(r / "predictions.parquet")),
    "weights of a run": copied("run", "checkpoint.pt", rows_of),
    "unfinished run": copied("run", "checkpoint.pt", lambda run: load_checkpoint(run / "checkpoint.pt")),
    "config of an exported network": copied("exported", "config.json", rows_of),
    "weights of an exported network": copied("exported", "model.safetensors", rows_of),
    "summary of an audit": copied("audit", "audit.json", lambda folder: Audit(folder).verdict),
    "rows of an audit": copied("audit", "rows.parquet", lambda folder: len(Audit(folder).rows)),
}


@pytest.mark.parametrize("name", KINDS)
def test_spoiled_files(
    name: str, tmp_path: Path, made: dict[str, Path], endures: Callable[[Path, Callable[[], Any]], int]
) -> None:
    assert endures(*KINDS[name](tmp_path / "folder", made))
