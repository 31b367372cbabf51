"""Staged logit correction: LC after cross-fitted biased networks, two stages in the real loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric

from logit_correction.config import TrainingConfig, load_preset
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.methods.lc import LC
from logit_correction.methods.staged_lc import StagedLC
from logit_correction.networks.small import MLP
from logit_correction.runs.train import training_rows
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import Batch


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


def make_fit(table: DataTable, folder: Path, made: Any, cls: type[LC] = StagedLC, **options: Any) -> Fit:
    algorithm = cls(lambda: MLP(table.info, hidden=(8,)), table.info, seed=4, **made(cls, options))
    algorithm.setup(training_rows(table, algorithm, 2, None))
    config = TrainingConfig(epochs=2, batch_size=16, learning_rate=1e-2, seed=4, log_every=1)
    return Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display())


def test_it_is_lc_with_the_preset_staged(table, made, tmp_path) -> None:
    (tmp_path / "preset").mkdir()
    options = {key: value for key, value in load_preset("staged")["method"].items() if key != "name"}
    fits = [make_fit(table, tmp_path, made), make_fit(table, tmp_path / "preset", made, LC, **options)]
    for fit in fits:
        fit.run()
    states = [fit.algorithm.state_dict() for fit in fits]
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]) if isinstance(value, torch.Tensor) else value == states[1][key]
    assert fits[0].record.rows == fits[1].record.rows


def test_the_prior_is_counted_from_the_held_out_predictions(table, tmp_path, made) -> None:
    fit = make_fit(table, tmp_path, made, prior={"name": "Counted", "smoothing": 1.5})
    fit.run()
    algorithm, rows = fit.algorithm, table.split["train"]
    batch = Batch(table.inputs.fetch(rows), table.label[rows], rows)
    probability = algorithm.attributes.collect(batch)
    attribute = probability.argmax(1).tolist()
    assert len(set(attribute)) == 3
    counts = [[1.5] * 3 for _ in range(3)]
    for y, a in zip(table.label[rows].tolist(), attribute, strict=True):
        counts[y][a] += 1
    expected = torch.tensor(counts, dtype=torch.float64) / (48 + 9 * 1.5)
    torch.testing.assert_close(algorithm.group_prior.table.double(), expected, rtol=1e-6, atol=1e-7)
    found = algorithm.diagnose(batch)
    assert found["estimated_attribute"].tolist() == attribute
    assert torch.equal(found["minority"], torch.tensor(attribute) != batch.label)
    torch.testing.assert_close(found["label_probability"], probability.gather(1, batch.label[:, None]).squeeze(1))


def test_each_stage_trains_its_own_networks_at_its_own_rate(table, tmp_path, made) -> None:
    fit = make_fit(table, tmp_path, made, attributes={"name": "CrossFitted", "epochs": 3, "learning_rate": 5e-3})
    fit.run()
    rows = [row for row in fit.record.rows if "learning_rate" in row]
    first, second = ([row for row in rows if row["stage"] == stage] for stage in (0, 1))
    assert len(first) == 9 and len(second) == 6
    assert {row["learning_rate"] for row in first} == {5e-3}  # constant, whatever the run's schedule
    assert second[0]["learning_rate"] == 1e-2 > second[-1]["learning_rate"]
    assert all("loss_biased" in row and "loss_robust" not in row for row in first)


def test_a_known_correlation_counts_in_its_own_table(make_table, tmp_path, made) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    fit = make_fit(table, tmp_path, made, attributes={"name": "CrossFitted", "correlation": "known"})
    fit.run()
    assert fit.algorithm.group_prior.table.shape == (3, 2)
    assert int(fit.algorithm.attributes.row_attribute.max()) <= 1
