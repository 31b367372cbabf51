"""``train`` as a function: what it writes, refuses and leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from logit_correction import ComponentConfig, RunConfig, TrainingConfig
from logit_correction.data.table import DataTable
from logit_correction.runs.train import train


def config(method: str = "ERM", **options: object) -> RunConfig:
    training = TrainingConfig(epochs=2, batch_size=32, threads=1, **options)  # type: ignore[arg-type]
    own = {"attributes": "Online"} if method == "LC" else {}
    return RunConfig(
        ComponentConfig("my_parts.Points"), ComponentConfig(method, own), ComponentConfig("MLP"), training=training
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    state = torch.load(run / "checkpoint.pt", weights_only=True)["algorithm"]
    return {name: value for name, value in state.items() if torch.is_tensor(value)}


def same(one: Path, other: Path) -> bool:
    return all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())


def test_what_it_writes_and_when(tmp_path: Path) -> None:
    told: list[tuple[RunConfig, DataTable]] = []

    def announce(complete: RunConfig, table: DataTable) -> None:
        assert not (tmp_path / "a" / "run" / "checkpoint.pt").exists()
        told.append((complete, table))

    run = train(config(), str(tmp_path / "a" / "run"), announce=announce, page=False)
    files = {"config.yaml", "metrics.csv", "report.json", "predictions.parquet", "validation.parquet", "checkpoint.pt"}
    assert {path.name for path in run.iterdir()} == files | {".checksums"}
    assert told[0][0].network.options == {"hidden": [100, 100, 100]} and len(told[0][1].split["train"]) == 90


def test_the_seed_alone_decides(tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = train(config("LC"), tmp_path / "one", page=False)
    torch.manual_seed(2)
    np.random.seed(2)
    assert same(one, train(config("LC"), tmp_path / "same", resume=True, page=False))
    assert not same(one, train(config("LC", seed=1), tmp_path / "other", page=False))


def test_the_test_split_selects_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import my_parts

    first = train(config(selection="valid_average"), tmp_path / "first", page=False)
    build = my_parts.Points.build

    def permuted(self: my_parts.Points) -> DataTable:
        table = build(self)
        rows = table.split["test"]
        table.label[rows] = table.label[rows].roll(1)
        return table

    monkeypatch.setattr(my_parts.Points, "build", permuted)
    second = train(config(selection="valid_average"), tmp_path / "second", page=False)
    assert same(first, second)
    reports = [json.loads((run / "report.json").read_text()) for run in (first, second)]
    assert reports[0]["selection"] == reports[1]["selection"] and reports[0]["test"] != reports[1]["test"]
