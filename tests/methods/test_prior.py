"""How a method comes to the group prior: counted or moving, and which goes with which estimator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.methods.prior import Counted, Moving
from logit_correction.prior import GroupPrior

HEADS = {"name": "CrossFitted", "view": "inputs", "splits": 1, "rounds": 0}

#: Options of estimators, and whether their estimates are settled when a method's own stage begins.
ESTIMATORS: list[tuple[dict[str, Any], bool]] = [
    ({"name": "Online"}, False),
    ({"name": "Online", "head_start_epochs": 2}, False),
    ({"name": "Online", "head_start_epochs": 2, "epochs": 3}, False),
    ({"name": "Online", "head_start_epochs": 2, "epochs": 2}, True),
    ({"name": "CrossFitted"}, True),
    (HEADS, True),
    ({"name": "TrueAttributes"}, True),
    ({"name": "Clusters"}, False),
    ({"name": "Clusters", "attributes": {"name": "Online", "head_start_epochs": 2, "epochs": 2}}, True),
    ({"name": "Clusters", "attributes": HEADS}, True),
    ({"name": "Auto"}, True),
    ({"name": "Auto", "shortcut": ["inputs"]}, True),
]
IDS = [" ".join(map(str, options.values())) for options, _ in ESTIMATORS]


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


@pytest.mark.parametrize("method", ["LC", "StagedLC", "Reweighting"])
@pytest.mark.parametrize(("estimator", "settled"), ESTIMATORS, ids=IDS)
def test_the_prior_follows_the_estimates(method: str, estimator, settled: bool, table, build) -> None:
    algorithm = build(method, table, attributes=estimator)
    assert algorithm.attributes.settled is settled
    prior = algorithm.group_prior
    if settled:
        smoothing = 0.0 if method == "Reweighting" else 0.3
        assert isinstance(algorithm.prior_rule, Counted) and algorithm.prior_rule.smoothing == smoothing
        assert (prior.averaging, prior.floor) == ("fixed", 0.0)
    else:
        assert isinstance(algorithm.prior_rule, Moving)
        assert (prior.estimator, prior.averaging, prior.momentum, prior.floor) == ("joint", "moving", 0.99, 5e-5)
    other, words = ("Moving", "give prior=Counted") if settled else ("Counted", "give prior=Moving")
    with pytest.raises(InputError, match=f"prior={other} .*{estimator['name']}.*{words}"):
        build(method, table, attributes=estimator, prior=other)


@pytest.mark.parametrize(("estimator", "settled"), ESTIMATORS, ids=IDS)
def test_group_dro_takes_settled_estimates_alone(estimator, settled: bool, table, build) -> None:
    if settled:
        build("GroupDRO", table, attributes=estimator)
        return
    with pytest.raises(InputError, match=f"GroupDRO needs estimates that are settled, and {estimator['name']}'s"):
        build("GroupDRO", table, attributes=estimator)


@pytest.mark.parametrize("method", ["LC", "StagedLC"])
def test_the_oracle_is_corrected_by_the_counted_prior_of_the_true_group(method: str, table, build, batches) -> None:
    counted = {"name": "Counted", "smoothing": 0.5}
    algorithm = build(method, table, attributes="TrueAttributes", prior=counted, mixing="NoMixing", strength=0.7)
    batch = next(batches(algorithm, table))
    counts = [[0.5] * 3 for _ in range(3)]
    rows = table.split["train"]
    for y, a in zip(table.label[rows].tolist(), table.attribute[rows].tolist(), strict=True):
        counts[y][a] += 1
    losses = []
    for i, logits in enumerate(algorithm.network(batch.inputs)):
        prior = torch.tensor([counts[y][int(batch.attribute[i])] / (48 + 9 * 0.5) for y in range(3)])
        losses.append(cross_entropy(logits + 0.7 * prior.log(), batch.label[i]))
    torch.testing.assert_close(algorithm(batch, 0.0).loss, torch.stack(losses).mean())


def test_a_group_without_rows_counts_as_very_improbable_not_as_impossible(table, build, batches) -> None:
    algorithm = build("LC", table, attributes="TrueAttributes", prior={"name": "Counted", "smoothing": 0.0})
    assert bool((algorithm.group_prior.table == 0).any())
    algorithm.attributes.row_attribute.copy_((algorithm.attributes.rows.label + 1) % 3)  # no such rows were counted
    loss = algorithm(next(batches(algorithm, table)), 0.0).loss
    loss.backward()
    assert bool(loss.isfinite()) and bool(algorithm.network.head.weight.grad.isfinite().all())


class Told:
    """As much of an estimator as counting needs."""

    settled = True
    num_attributes = 3

    def __init__(self, counts: list[list[float]]) -> None:
        self.counts = torch.tensor(counts)

    def group_counts(self) -> torch.Tensor:
        return self.counts


def test_groups_are_counted_and_smoothed() -> None:
    estimator: Any = Told([[8.0, 0.0, 2.0], [0.0, 5.0, 5.0]])
    prior = GroupPrior(2, 3, averaging="fixed", floor=0.0)
    Counted(0.5).begin(prior, estimator)
    torch.testing.assert_close(prior.table, torch.tensor([[8.5, 0.5, 2.5], [0.5, 5.5, 5.5]]) / 23)


def test_where_no_attribute_is_known_the_prior_stays_uniform() -> None:
    estimator: Any = Told([[0.0] * 3, [0.0] * 3])
    prior = GroupPrior(2, 3, averaging="fixed", floor=0.0)
    Counted().begin(prior, estimator)
    torch.testing.assert_close(prior.table, torch.full((2, 3), 1 / 6))


def test_the_prior_takes_as_many_values_as_turn_out_to_be_there() -> None:
    estimator: Any = Told([[8.0, 0.0, 2.0], [0.0, 5.0, 5.0]])
    prior = GroupPrior(2, 1, averaging="fixed", floor=0.0)
    Counted(0.0).begin(prior, estimator)
    torch.testing.assert_close(prior.table, torch.tensor([[8.0, 0.0, 2.0], [0.0, 5.0, 5.0]]) / 20)


@pytest.mark.parametrize("estimator", ["joint", "cell", "algorithm-1"])
def test_a_moving_prior_is_fed_by_each_batch(estimator: str, table, build, batches) -> None:
    rule = {"name": "Moving", "estimator": estimator, "momentum": 0.6}
    algorithm = build("Reweighting", table, attributes="Online", prior=rule)
    expected = GroupPrior(3, 3, estimator=estimator, momentum=0.6)
    for batch in batches(algorithm, table):
        probability = algorithm.attributes.network(batch.inputs).softmax(1).detach()
        expected.update(batch.label, probability)
        algorithm(batch, 0.0)
    torch.testing.assert_close(algorithm.group_prior.table, expected.table)


@pytest.mark.parametrize(
    ("cls", "options", "words"),
    [
        (Counted, {"smoothing": -0.1}, r"smoothing is -0\.1"),
        (Moving, {"momentum": 1.0}, r"momentum is 1\.0"),
        (Moving, {"momentum": -0.5}, r"momentum is -0\.5"),
        (Moving, {"floor": -1e-3}, r"floor is -0\.001"),
        (Moving, {"averaging": "batch", "momentum": 0.5}, "momentum concerns averaging=moving, not batch"),
        (Moving, {"averaging": "dataset", "momentum": 0.5}, "momentum concerns averaging=moving, not dataset"),
        (Moving, {"averaging": "fixed"}, "averaging is fixed.*prior=Counted is fixed"),
    ],
)
def test_impossible_options_are_refused(cls: type, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        cls(**options)
