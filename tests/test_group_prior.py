"""The running group prior: lookup, state and what it refuses."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction import prior as group_prior
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


def test_cell_without_label_probability_takes_the_posterior_of_the_label() -> None:
    label, posterior, _ = random_batch(0, 20, 3, 3)
    implied, told = (GroupPrior(3, 3, estimator="cell") for _ in range(2))
    implied.update(label, posterior)
    told.update(label, posterior, posterior.gather(1, label[:, None]).squeeze(1))
    assert torch.equal(implied.table, told.table)
    with pytest.raises(ValueError, match="needs label_probability"):
        GroupPrior(3, 4, estimator="cell").update(*random_batch(0, 20, 3, 4)[:2])


def test_joint_prior_of_known_attributes_over_the_data_set_is_the_counted_prior() -> None:
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 3, (60,), generator=generator)
    attribute = torch.randint(0, 4, (60,), generator=generator)
    prior = GroupPrior(3, 4, estimator="joint", averaging="dataset")
    for rows in torch.arange(60).split(16):  # the last batch is smaller and must not weigh more
        prior.update(label[rows], torch.nn.functional.one_hot(attribute[rows], 4))
    prior.end_epoch()
    torch.testing.assert_close(prior.table, count_prior(label, attribute, 3, 4))


def test_data_set_averaging_shows_only_whole_epochs() -> None:
    prior = GroupPrior(2, 2, estimator="cell", averaging="dataset", start=0.125)
    prior.update(torch.tensor([0]), torch.tensor([[0.9, 0.1]]))
    assert torch.equal(prior.table, torch.full((2, 2), 0.125))
    prior.end_epoch()
    torch.testing.assert_close(prior.table, torch.tensor([[0.9, 0.125], [0.125, 0.125]]))
    prior.end_epoch()  # an epoch without rows changes nothing
    torch.testing.assert_close(prior.table, torch.tensor([[0.9, 0.125], [0.125, 0.125]]))


def test_algorithm_1_drives_rare_cells_up_where_the_cell_mean_keeps_them_low() -> None:
    label, posterior = torch.tensor([0, 0, 1]), torch.tensor([[0.96, 0.04], [0.98, 0.02], [0.96, 0.04]])
    literal, cell = GroupPrior(2, 2, estimator="algorithm-1"), GroupPrior(2, 2, estimator="cell")
    literal.update(label, posterior)
    cell.update(label, posterior)
    torch.testing.assert_close(literal.table[:, 0], torch.tensor([0.97, 0.96]))
    torch.testing.assert_close(cell.table[:, 0], torch.tensor([0.97, 0.04]))


def test_a_batch_without_rows_changes_nothing() -> None:
    for estimator, averaging in itertools.product(ESTIMATORS, AVERAGINGS):
        prior = GroupPrior(2, 2, estimator=estimator, averaging=averaging)
        prior.update(torch.zeros(0, dtype=torch.long), torch.zeros(0, 2))
        prior.end_epoch()
        assert torch.equal(prior.table, torch.full((2, 2), 0.25))
        assert not prior.visited.any()


def test_a_fixed_prior_is_set_and_never_updated() -> None:
    prior = GroupPrior(2, 2, averaging="fixed")
    table = torch.tensor([[0.4, 0.1], [0.2, 0.3]])
    prior.set_table(table)
    prior.end_epoch()
    assert torch.equal(prior.table, table)
    with pytest.raises(ValueError, match="fixed group prior is not updated"):
        prior.update(torch.tensor([0]), torch.tensor([[0.5, 0.5]]))


def test_a_moving_average_goes_on_from_a_table_that_was_set() -> None:
    prior = GroupPrior(2, 2, estimator="cell", momentum=0.5)
    prior.set_table(torch.full((2, 2), 0.2))
    prior.update(torch.tensor([0]), torch.tensor([[0.8, 0.2]]))
    torch.testing.assert_close(prior.table, torch.tensor([[0.5, 0.2], [0.2, 0.2]]))


def test_lookup_gives_one_column_of_the_table_for_each_row() -> None:
    table = torch.tensor([[0.1, 0.2, 0.3], [0.15, 0.05, 0.2]])
    prior = GroupPrior(2, 3, start=table)
    attribute = torch.tensor([2, 0, 2, 1])
    found = prior.for_attribute(attribute)
    assert found.tolist() == [table[:, a].tolist() for a in attribute]
    one_hot = torch.nn.functional.one_hot(attribute, 3).float()
    torch.testing.assert_close(prior.for_posterior(one_hot), found)
    soft = torch.tensor([[0.5, 0.25, 0.25]])
    torch.testing.assert_close(prior.for_posterior(soft), torch.tensor([[0.175, 0.1375]]))


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
    prior = GroupPrior(2, 3, start=torch.tensor([[0.1, 0.2, 0.3], [0.15, 0.05, 0.2]]), floor=0.0)
    found = prior.for_attribute(torch.tensor([-1, 2, -1]))
    torch.testing.assert_close(found, torch.tensor([[1 / 6, 1 / 6], [0.3, 0.2], [1 / 6, 1 / 6]]))
    logits = torch.randn(1, 2)
    torch.testing.assert_close((logits + prior.log(found[:1])).softmax(1), logits.softmax(1))
    assert "others" not in prior.state_dict()  # they are no state
    assert GroupPrior(2, 3).to("meta").for_attribute(torch.tensor([-1], device="meta")).shape == (1, 2)


def test_it_takes_another_number_of_values_as_they_become_known(tmp_path: Path) -> None:
    prior = GroupPrior(2, 1, estimator="joint", averaging="fixed", floor=0.0)
    prior.resize(3)
    prior.set_table(torch.full((2, 3), 1 / 6))
    assert prior.for_attribute(torch.tensor([2, -1])).shape == (2, 2)
    same = prior.table
    prior.resize(3)  # as many as there are: nothing is forgotten
    assert prior.table is same
    fresh = GroupPrior(2, 1, averaging="fixed", floor=0.0)
    fresh.load_state_dict(prior.state_dict())
    assert torch.equal(fresh.table, prior.table) and fresh.num_attributes == 3
    assert bool(fresh.visited.all()) and fresh.start.shape == (2, 3)


def test_the_logarithm_is_floored() -> None:
    prior = GroupPrior(2, 2, floor=0.01)
    torch.testing.assert_close(prior.log(torch.tensor([0.0, 0.99])), torch.tensor([0.01, 1.0]).log())


def test_the_lookup_does_not_change_with_later_updates() -> None:
    prior = GroupPrior(2, 2)
    found = prior.for_attribute(torch.tensor([0, 1]))
    before = found.clone()
    prior.update(torch.tensor([0, 1]), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    assert torch.equal(found, before)


def test_it_holds_no_parameters_and_passes_no_gradients() -> None:
    prior = GroupPrior(2, 2)
    logits = torch.zeros(3, 2, requires_grad=True)
    prior.update(torch.tensor([0, 1, 1]), logits.softmax(dim=1))
    assert not prior.table.requires_grad and not list(prior.parameters())
    assert not prior.for_attribute(torch.tensor([0])).requires_grad


def test_half_precision_posteriors_are_summed_in_single_precision() -> None:
    prior = GroupPrior(2, 2, estimator="joint")
    prior.update(torch.zeros(3000, dtype=torch.long), torch.full((3000, 2), 0.5, dtype=torch.bfloat16))
    torch.testing.assert_close(prior.table, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert prior.for_posterior(torch.tensor([[1.0, 0.0]])).dtype == torch.float32


@pytest.mark.parametrize("averaging", AVERAGINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_run_resumed_from_its_state_goes_on_alike(estimator: str, averaging: str, tmp_path: Path) -> None:
    options = {"estimator": estimator, "averaging": averaging}
    whole = GroupPrior(3, 4, start=0.3, **options)
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


def test_it_moves_to_another_device_as_a_whole() -> None:
    prior = GroupPrior(2, 2).to("meta")
    prior.update(torch.zeros(4, dtype=torch.long, device="meta"), torch.zeros(4, 2, device="meta"))
    assert {value.device.type for value in prior.state_dict().values()} == {"meta"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "other"}, "estimator must be one of cell, joint, algorithm-1"),
        ({"averaging": "other"}, "averaging must be one of moving, batch, dataset, fixed"),
        ({"momentum": 1.0}, "momentum must be"),
        ({"momentum": -0.1}, "momentum must be"),
        ({"floor": -1e-3}, "floor must be 0 or more"),
        ({"start": torch.zeros(3)}, "needs the shape"),
        ({"start": -1.0}, "finite and 0 or more"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupPrior(2, 2, **options)


@pytest.mark.parametrize("table", [torch.zeros(2, 3), torch.tensor(0.5), torch.full((2, 2), float("nan"))])
def test_wrong_tables_are_refused(table: Tensor) -> None:
    with pytest.raises(ValueError, match="group prior"):
        GroupPrior(2, 2).set_table(table)


def test_large_tables_are_looked_up_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    prior, (_, posterior, _) = GroupPrior(6, 4), random_batch(0, 9, 6, 4)
    prior.set_table(torch.rand(6, 4, generator=torch.Generator().manual_seed(0)))
    attribute = torch.tensor([3, -1, 0, 0, -1, 4, -2])  # the last two are out of range
    small = prior.for_attribute(attribute), prior.for_posterior(posterior.float())
    assert bool(small[0][5:].isnan().all())
    monkeypatch.setattr(group_prior, "LARGE", 0)
    torch.testing.assert_close(prior.for_attribute(attribute), small[0], rtol=0, atol=0, equal_nan=True)
    with torch.autocast("cpu", torch.bfloat16):  # rounds nothing
        torch.testing.assert_close(prior.for_posterior(posterior.float()), small[1])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_posterior_of_another_shape_is_refused(estimator: Any) -> None:
    prior = GroupPrior(2, 2, estimator=estimator)
    for size in ((4, 3), (3, 2)):
        with pytest.raises(ValueError, match=r"posterior needs the shape \(4, 2\)"):
            prior.update(torch.tensor([0, 1, 0, 1]), torch.full(size, 0.3))
