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

from ..conftest import differing, trained_tensors


def config(method: str = "ERM", **options: object) -> RunConfig:
    training = TrainingConfig(epochs=2, batch_size=32, threads=1, **options)  # type: ignore[arg-type]
    own = {"attributes": "Online"} if method == "LC" else {}
    return RunConfig(
        ComponentConfig("my_parts.Points"), ComponentConfig(method, own), ComponentConfig("MLP"), training=training
    )


def same(one: Path, other: Path) -> bool:
    return differing(trained_tensors(one), trained_tensors(other)) == []


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
