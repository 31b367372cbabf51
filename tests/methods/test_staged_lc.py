"""Staged logit correction: counted prior, independent mixing, two stages in the real loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.config import TrainingConfig
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.methods.erm import ERM
from logit_correction.methods.staged_lc import StagedLC
from logit_correction.networks.mlp import MLP
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import Batch, DataInfo, InputError


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


def make_fit(table: DataTable, folder: Path, **options: Any) -> Fit:
    algorithm = StagedLC(lambda: MLP(table.info, hidden=(8,)), table.info, seed=4, **{"num_splits": 2, **options})
    config = TrainingConfig(epochs=2, batch_size=16, learning_rate=1e-2, seed=4, log_every=1)
    return Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display())


def test_the_prior_is_counted_from_the_held_out_predictions(table, tmp_path, predicted_rows) -> None:
    fit = make_fit(table, tmp_path, smoothing=1.5)
    fit.run()
    algorithm, rows = fit.algorithm, table.split["train"]
    batch = Batch(table.inputs.fetch(rows), table.label[rows], rows)
    probability = algorithm.cross_fitted.held_out(batch)
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


def test_each_stage_trains_its_own_networks_at_its_own_rate(table, tmp_path) -> None:
    fit = make_fit(table, tmp_path, biased_epochs=3, biased_learning_rate=5e-3)
    fit.run()
    rows = [row for row in fit.record.rows if "learning_rate" in row]
    first, second = ([row for row in rows if row["stage"] == stage] for stage in (0, 1))
    assert len(first) == 9 and len(second) == 6
    assert {row["learning_rate"] for row in first} == {5e-3}  # constant, whatever the run's schedule
    assert second[0]["learning_rate"] == 1e-2 > second[-1]["learning_rate"]
    assert all("loss_biased" in row and "loss_robust" not in row for row in first)
    names = [group["name"] for group in make_fit(table, tmp_path).algorithm.parameter_groups()]
    assert names == [f"biased_network_{number}" for number in range(4)]
    assert [group["name"] for group in fit.algorithm.parameter_groups()] == ["network"]


def test_the_first_stage_leaves_the_robust_network_fresh_and_the_second_the_biased_ones(
    table, build, take_steps, predicted_rows
) -> None:
    algorithm = build("StagedLC", table, seed=4)
    take_steps(algorithm, table, epochs=2)
    fresh = ERM(lambda: MLP(table.info, hidden=(16, 16)), table.info, seed=4).network.state_dict()
    assert all(torch.equal(value, fresh[key]) for key, value in algorithm.network.state_dict().items())
    algorithm.begin_stage(1, predicted_rows(algorithm, table))
    biased = {key: value.clone() for key, value in algorithm.cross_fitted.state_dict().items()}
    prior = algorithm.group_prior.table.clone()
    take_steps(algorithm, table, epochs=2)
    assert all(torch.equal(value, biased[key]) for key, value in algorithm.cross_fitted.state_dict().items())
    assert torch.equal(prior, algorithm.group_prior.table)
    assert not torch.equal(algorithm.network.head.weight, fresh["head.weight"])


def test_without_mixing_it_is_the_corrected_loss(table, build, batches) -> None:
    algorithm = build("StagedLC", table, stage=1, mixup_limit=0.0, strength=0.7)
    algorithm.cross_fitted.attribute.copy_(torch.arange(48) % 2)
    algorithm.group_prior.set_table(torch.tensor([[0.2, 0.1, 0.1], [0.05, 0.15, 0.1], [0.1, 0.1, 0.1]]))
    batch = next(batches(algorithm, table))
    losses = []
    for i in range(16):
        logits = algorithm.network(batch.inputs[i : i + 1])[0]
        column = algorithm.group_prior.table[:, int(batch.index[i]) % 2]
        losses.append(cross_entropy(logits + 0.7 * column.log(), batch.label[i]))
    torch.testing.assert_close(algorithm(batch, 0.0).loss, torch.stack(losses).mean())


class Recorder(nn.Module):
    """Keeps what it is shown."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.head = nn.Linear(size, 2)
        self.shown: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.shown.append(inputs.detach())
        return self.head(inputs)


def test_partners_are_drawn_whatever_their_label() -> None:
    size, steps = 60, 150
    info = DataInfo(num_labels=2, num_rows=size, input_shape=(size,))
    algorithm = StagedLC(lambda: Recorder(size), info, num_splits=1, mixup_limit=0.3)
    # 45 rows of label 0; row i is the i-th unit vector, so a mixed input tells who was mixed and how.
    label = (torch.arange(size) >= 45).long()
    algorithm.begin_stage(0, None)
    algorithm.begin_stage(1, torch.cat([torch.full((size, 2), 0.5), label.unsqueeze(1).float()], dim=1))
    batch = Batch(torch.eye(size), label, torch.arange(size))
    for _ in range(steps):
        algorithm(batch, 0.0)
    mixed = torch.stack(algorithm.network.shown)  # (steps, size, size)
    own = mixed.diagonal(dim1=1, dim2=2)
    assert float(own.min()) >= 0.7 - 1e-6
    partner = (mixed - torch.diag_embed(own)).argmax(dim=2)
    share = 1 - own
    apart = share > 1e-4  # a row may meet itself
    assert float(share[apart].max()) > 0.29 and float(share[apart].mean()) == pytest.approx(0.15, abs=0.01)
    torch.testing.assert_close(mixed.sum(dim=2), torch.ones(steps, size))
    for y in (0, 1):
        mine = (label == y).expand(steps, size) & apart
        # Among the other 59 rows, 15 have label 1 (14, if the row itself is one of them).
        rate = label[partner[mine]].double().mean()
        assert float(rate) == pytest.approx((15 - y) / 59, abs=0.03)
    visits = torch.bincount(partner[apart], minlength=size).double()
    assert float(((visits / visits.mean() - 1) ** 2).sum() * visits.mean()) < 110  # chi-square, 59 degrees, 0.01 %


def test_the_label_and_the_correction_are_those_of_the_greater_part() -> None:
    size = 20
    info = DataInfo(num_labels=2, num_rows=size, input_shape=(size,))
    algorithm = StagedLC(lambda: Recorder(size), info, num_splits=1, mixup_limit=0.4)
    label = torch.arange(size) % 2
    posterior = torch.rand((size, 2), generator=torch.Generator().manual_seed(0)).softmax(1)
    algorithm.begin_stage(0, None)
    algorithm.begin_stage(1, torch.cat([posterior, label.unsqueeze(1).float()], dim=1))
    step = algorithm(Batch(torch.eye(size), label, torch.arange(size)), 0.0)
    correction = algorithm.group_prior.table.log()[:, posterior.argmax(1)].T
    logits = algorithm.network.head(algorithm.network.shown[-1]) + correction
    torch.testing.assert_close(step.loss, cross_entropy(logits, label))


def test_a_known_correlation_counts_in_its_own_table(make_table, tmp_path) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    fit = make_fit(table, tmp_path, correlation="known")
    fit.run()
    assert fit.algorithm.group_prior.table.shape == (3, 2)
    assert int(fit.algorithm.cross_fitted.attribute.max()) <= 1


@pytest.mark.parametrize(
    "options",
    [
        {"num_splits": 0},
        {"biased_epochs": 0},
        {"smoothing": 0.0},
        {"strength": -1.0},
        {"mixup_limit": 1.5},
        {"q": 2.0},
        {"biased_input_dropout": 1.0},
    ],
)
def test_impossible_options_are_refused(options, table, build) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        build("StagedLC", table, **options)
