"""``train`` as a function: what it writes, refuses and leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from logit_correction import ComponentConfig, InputError, RunConfig, TrainingConfig, from_arrays
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


def test_it_is_said_what_torch_must_be_set_to(tmp_path: Path) -> None:
    with torch.inference_mode(), pytest.raises(InputError, match=r"train outside of .* inference_mode"):
        train(config(), tmp_path / "run")


def test_a_network_that_says_one_label_of_all_rows_is_told_of(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(400, 3)).astype(np.float32)  # which tell nothing
    data = from_arrays(values, np.where(draw.random(400) < 0.95, "usual", "rare"), folder=tmp_path / "data")
    train(RunConfig(data, ComponentConfig("ERM"), training=TrainingConfig(epochs=1, threads=1)), tmp_path / "run")
    assert "`usual`" in json.loads((tmp_path / "run" / "report.json").read_text())["warnings"][0]
