"""The running group prior: lookup, state and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction.functional import count_prior
from logit_correction.functional.prior import shifted
from logit_correction.prior import GroupPrior

ESTIMATORS = ("cell", "joint", "algorithm-1")
AVERAGINGS = ("moving", "batch", "dataset")
Rows = tuple[Tensor, Tensor, Tensor]


def random_batch(seed: int, rows: int, labels: int, attributes: int) -> Rows:
    """Labels, posteriors and label probabilities."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, labels, (rows,), generator=generator)
    posterior = torch.randn(rows, attributes, generator=generator, dtype=torch.float64).softmax(dim=1)
    return label, posterior, torch.rand(rows, generator=generator, dtype=torch.float64)


def test_joint_prior_of_known_attributes_over_the_data_set_is_the_counted_prior() -> None:
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 3, (60,), generator=generator)
    attribute = torch.randint(0, 4, (60,), generator=generator)
    prior = GroupPrior(3, 4, estimator="joint", averaging="dataset")
    for rows in torch.arange(60).split(16):  # the last batch is smaller and must not weigh more
        prior.update(label[rows], torch.nn.functional.one_hot(attribute[rows], 4))
    prior.end_epoch()
    torch.testing.assert_close(prior.table, count_prior(label, attribute, 3, 4))


def test_a_fixed_prior_is_set_and_never_updated() -> None:
    prior = GroupPrior(2, 2, averaging="fixed")
    table = torch.tensor([[0.4, 0.1], [0.2, 0.3]])
    prior.set_table(table)
    prior.end_epoch()
    assert torch.equal(prior.table, table)
    with pytest.raises(ValueError, match="fixed group prior is not updated"):
        prior.update(torch.tensor([0]), torch.tensor([[0.5, 0.5]]))


@pytest.mark.parametrize("averaging", ["fixed", "moving"])
def test_logarithms_follow_the_table(averaging: Any) -> None:
    def expected(prior: GroupPrior, attribute: Tensor) -> Tensor:
        return shifted(prior.log(prior.for_attribute(attribute)))

    attribute = torch.tensor([1, -1, 0, 1])
    prior, other = (GroupPrior(2, 2, averaging=averaging, floor=0.0) for _ in range(2))
    assert torch.equal(prior.log_for_attribute(attribute), torch.zeros(4, 2))
    prior.set_table(torch.tensor([[0.5, 0.0], [0.25, 0.25]]))
    found = prior.log_for_attribute(attribute)
    assert torch.equal(found, expected(prior, attribute)) and found[0].tolist() == [-30.0, 0.0]
    other.load_state_dict(prior.state_dict())
    assert torch.equal(other.log_for_attribute(attribute), found)
    prior.resize(3)
    assert torch.equal(prior.log_for_attribute(attribute + 1), expected(prior, attribute + 1))


def test_an_unknown_attribute_has_the_same_prior_for_every_label() -> None:
    prior = GroupPrior(2, 3, floor=0.0)
    prior.set_table(torch.tensor([[0.1, 0.2, 0.3], [0.15, 0.05, 0.2]]))
    found = prior.for_attribute(torch.tensor([-1, 2, -1]))
    torch.testing.assert_close(found, torch.tensor([[1 / 6, 1 / 6], [0.3, 0.2], [1 / 6, 1 / 6]]))
    assert "unknown" not in prior.state_dict()  # it is no state


@pytest.mark.parametrize("averaging", AVERAGINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_run_resumed_from_its_state_goes_on_alike(estimator: str, averaging: str, tmp_path: Path) -> None:
    options = {"estimator": estimator, "averaging": averaging}
    whole = GroupPrior(3, 4, **options)
    for step in range(3):
        whole.update(*random_batch(step, 6, 3, 4))
    torch.save(whole.state_dict(), tmp_path / "state.pt")
    resumed = GroupPrior(3, 4, **options)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for prior in (whole, resumed):
        prior.update(*random_batch(9, 6, 3, 4))
        prior.end_epoch()
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.mark.parametrize(
    "options",
    [
        {"floor": -1e-3}, {"floor": math.nan}, {"floor": math.inf}, {"momentum": 1.0}, {"estimator": "mean"},
        {"averaging": "all"}, {"num_labels": 0}, {"num_attributes": 0},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        GroupPrior(**({"num_labels": 2, "num_attributes": 2} | options))


@pytest.mark.parametrize("table", [torch.zeros(2, 2), torch.ones(2, 3), torch.tensor(1.0), -torch.eye(2)], ids=str)
def test_wrong_tables_are_refused(table: torch.Tensor) -> None:
    with pytest.raises(ValueError):
        GroupPrior(2, 2).set_table(table)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1])
def test_a_posterior_that_is_none_is_refused_and_changes_nothing(bad: float) -> None:
    prior, label = GroupPrior(2, 2), torch.tensor([0, 1])
    before = prior.table.clone()
    for posterior in (torch.tensor([[1.0, 0.0], [bad, 0.5]]), torch.ones(3, 2)):
        with pytest.raises(ValueError, match="posterior"):
            prior.update(label, posterior)
    assert torch.equal(prior.table, before)
