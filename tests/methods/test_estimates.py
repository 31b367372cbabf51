"""What methods do with the attribute of every row, wherever it comes from: the same with each estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes import ESTIMATORS
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.methods import METHODS as KNOWN
from logit_correction.methods.base import Algorithm
from logit_correction.networks.small import MLP
from logit_correction.registry import resolve
from logit_correction.types import DataInfo, TrainingRows

SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])

#: A method, and options that hold with any settled estimator.
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("LC", {}),
    ("LC", {"mixing": {"name": "IndependentMixUp", "limit": 0.4}}),
    ("LC", {"mixing": {"name": "GroupMixUp", "prior": "product"}, "prior": {"name": "Counted", "smoothing": 0.1}}),
    ("StagedLC", {}),
    ("Reweighting", {"prior": {"name": "Counted", "smoothing": 1.0}}),
    ("Reweighting", {}),
    ("GroupDRO", {"adjustment": 1.0}),
]
ATTRIBUTED = [name for name in KNOWN if "attributes" in resolve("method", name, KNOWN).components]


@pytest.fixture(autouse=True)
def user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the module ``my_parts`` on the path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "user_code"))


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


def train_rows(table: DataTable) -> tuple[Tensor, Tensor]:
    rows = table.split["train"]
    return table.label[rows], table.attribute[rows]


class Told(AttributeEstimator):
    """Says what it was told."""

    def __init__(self, attribute: Tensor) -> None:
        super().__init__()
        self.attribute = attribute

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self.attribute, None

    def describe(self) -> str:
        return "what it was told"


def weights(module: nn.Module) -> list[Tensor]:
    return [value.clone() for value in module.state_dict().values()]


def test_the_methods_with_an_estimator() -> None:
    assert ATTRIBUTED == ["LC", "GroupDRO", "Reweighting", "StagedLC"]


@pytest.mark.parametrize(("name", "options"), METHODS)
def test_with_a_perfect_estimate_it_trains_as_with_true_attributes(
    name: str, options: dict[str, Any], table, build, take_steps
) -> None:
    true = build(name, table, attributes="TrueAttributes", **options)
    found = build(name, table, attributes=Told(train_rows(table)[1]), **options)
    assert true.needs_attributes and not found.needs_attributes
    assert true.num_stages == found.num_stages == 1
    plans = [algorithm.begin_stage(0, None).sample_weight for algorithm in (true, found)]
    assert (plans[0] is None and plans[1] is None) or torch.equal(*plans)
    assert (plans[0] is not None) is (name == "GroupDRO")
    for algorithm in (true, found):
        take_steps(algorithm, table, epochs=4)
    assert all(map(torch.equal, weights(true.network), weights(found.network)))
    if true.group_prior is not None:
        assert torch.equal(true.group_prior.table, found.group_prior.table)


@pytest.mark.parametrize(("name", "options"), METHODS)
def test_true_attributes_are_read(name: str, options: dict[str, Any], table, build, batches) -> None:
    label, attribute = train_rows(table)
    algorithm, other = (build(name, table, attributes="TrueAttributes", **options) for _ in range(2))
    other.setup(TrainingRows(label, attribute.roll(1)))
    other.begin_stage(0, None)
    for one in (algorithm, other):
        one(next(batches(algorithm, table)), 5.0).loss.backward()
    assert not torch.equal(algorithm.network.head.weight.grad, other.network.head.weight.grad)


@pytest.mark.parametrize("name", ["LC", "StagedLC", "Reweighting"])
def test_the_loss_of_an_unknown_row_is_plain_cross_entropy(name: str, table, build, batches) -> None:
    mixing = {} if name == "Reweighting" else {"mixing": "NoMixing"}
    attribute = torch.where(torch.arange(48) % 3 == 1, -1, train_rows(table)[1])
    algorithm = build(name, table, attributes=Told(attribute), **mixing)
    for batch in batches(algorithm, table):
        batch = type(batch)(batch.inputs[:1], batch.label[:1], batch.index[:1])
        plain = cross_entropy(algorithm.network(batch.inputs), batch.label)
        unknown = int(attribute[batch.index]) == -1
        found = algorithm(batch, 0.0).loss
        assert torch.equal(found, plain) if unknown else not torch.allclose(found, plain)
    # They are in no group either.
    known = attribute >= 0
    counts = torch.zeros(3, 3).index_put_((train_rows(table)[0][known], attribute[known]), torch.ones(()), True)
    smoothing = 0.0 if name == "Reweighting" else 0.3
    expected = (counts + smoothing) / (counts + smoothing).sum()
    torch.testing.assert_close(algorithm.group_prior.table, expected)


def test_group_dro_adds_unknown_rows_with_their_share_of_the_batch(table, build, batches) -> None:
    attribute = train_rows(table)[1]
    some = torch.where(torch.arange(48) % 3 == 1, -1, attribute)
    algorithm = build("GroupDRO", table, attributes=Told(some), step_size=0.0)
    batch = next(batches(algorithm, table))
    losses = cross_entropy(algorithm.network(batch.inputs), batch.label, reduction="none")
    found = algorithm(batch, 0.0).loss
    unknown = some[batch.index] == -1
    groups = batch.label * 3 + some[batch.index]
    present = groups[~unknown].unique()
    robust = sum(algorithm.q[group] * losses[~unknown][groups[~unknown] == group].mean() for group in present)
    torch.testing.assert_close(found, robust + losses[unknown].sum() / 16)
    # Rows are drawn so that groups are alike; unknown rows as often as others on the average.
    weight = algorithm.begin_stage(0, None).sample_weight
    assert bool((weight[some == -1] == weight[some >= 0].mean()).all())
    nothing = build("GroupDRO", table, attributes=Told(torch.full((48,), -1)))
    assert nothing.begin_stage(0, None).sample_weight is None
    torch.testing.assert_close(nothing(batch, 0.0).loss, cross_entropy(nothing.network(batch.inputs), batch.label))


def test_every_method_cross_fits_alike(table, build, take_steps, collected) -> None:
    found = {}
    for name in ATTRIBUTED:
        algorithm = build(name, table, seed=5, attributes={"name": "CrossFitted", "splits": 2})
        assert {group["name"] for group in algorithm.parameter_groups()} == {f"biased_network_{i}" for i in range(4)}
        take_steps(algorithm, table, epochs=3)
        algorithm.begin_stage(1, collected(algorithm, table))
        assert [group["name"] for group in algorithm.parameter_groups()] == ["network"]
        found[name] = algorithm.attributes.row_attribute, algorithm.attributes.row_label_probability
    assert len(set(found["LC"][0].tolist())) == 3
    for attribute, probability in found.values():
        assert torch.equal(attribute, found["LC"][0]) and torch.equal(probability, found["LC"][1])


def test_a_network_beside_is_that_of_lc_in_reweighting_too(table, build, take_steps) -> None:
    mine, lc = build("Reweighting", table, seed=3, attributes="Online"), build("LC", table, seed=3, attributes="Online")
    for algorithm in (mine, lc):
        take_steps(algorithm, table, epochs=4)
    assert all(map(torch.equal, weights(lc.attributes.network), weights(mine.attributes.network)))
    assert torch.equal(lc.group_prior.table, mine.group_prior.table)


@pytest.mark.parametrize("name", ATTRIBUTED)
def test_the_estimators_stages_leave_the_robust_network_fresh_and_its_own_the_estimator(
    name: str, table, build, take_steps, collected
) -> None:
    algorithm = build(name, table, seed=4, attributes={"name": "CrossFitted", "splits": 1})
    fresh = build("ERM", table, seed=4).network.state_dict()
    take_steps(algorithm, table, epochs=2)
    assert all(torch.equal(value, fresh[key]) for key, value in algorithm.network.state_dict().items())
    algorithm.begin_stage(1, collected(algorithm, table))
    before = [value for value in algorithm.attributes.state_dict().values() if isinstance(value, Tensor)]
    before = [value.clone() for value in before]
    prior = None if algorithm.group_prior is None else algorithm.group_prior.table.clone()
    take_steps(algorithm, table, epochs=2)
    after = [value for value in algorithm.attributes.state_dict().values() if isinstance(value, Tensor)]
    assert all(map(torch.equal, before, after))
    assert prior is None or torch.equal(prior, algorithm.group_prior.table)
    assert not torch.equal(algorithm.network.head.weight, fresh["head.weight"])


@pytest.mark.parametrize("name", ["LC", "Reweighting"])
def test_losses_reach_the_clusters(name: str, make_table, build, take_steps, collected) -> None:
    table = make_table(SEVERAL)
    options = {"mixing": "NoMixing"} if name == "LC" else {}
    algorithm = build(name, table, attributes="Clusters", **options)
    take_steps(algorithm, table, epochs=2)
    algorithm.begin_stage(1, collected(algorithm, table))
    assert not bool(algorithm.attributes.clusters.visited.any())
    take_steps(algorithm, table)
    assert bool(algorithm.attributes.clusters.visited.any()) and algorithm.group_prior.table.shape == (3, 5)


def test_without_a_known_correlation_the_commonest_value_is_the_majority() -> None:
    info = DataInfo(num_labels=2, num_rows=9, input_shape=(4,), num_attributes=3)
    label, attribute = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [2, 2, 1, 2, 0, 0, 1, 0, 2]])
    for name in ATTRIBUTED:
        cls: Callable[..., Algorithm] = resolve("method", name, KNOWN)
        algorithm = cls(lambda: MLP(info, hidden=(4,)), info, attributes="TrueAttributes")
        algorithm.setup(TrainingRows(label, attribute))
        assert algorithm.attributes is not None and algorithm.attributes.correlation.to_table() == [[2], [0]]


@pytest.mark.parametrize("name", ATTRIBUTED)
def test_attributes_that_were_not_given_are_asked_for(name: str, table) -> None:
    algorithm = resolve("method", name, KNOWN)(lambda: MLP(table.info), table.info, attributes="TrueAttributes")
    with pytest.raises(InputError, match="TrueAttributes needs the attribute of every training row"):
        algorithm.setup(TrainingRows(train_rows(table)[0]))


@pytest.mark.parametrize("name", ATTRIBUTED)
def test_inputs_that_were_not_given_are_asked_for(name: str, table) -> None:
    for attributes in ({"name": "CrossFitted", "view": "inputs"}, {"name": "Auto"}):
        own = dict(attributes)
        estimator = resolve("estimator", own.pop("name"), ESTIMATORS)(**own)
        algorithm = resolve("method", name, KNOWN)(lambda: MLP(table.info), table.info, attributes=estimator)
        with pytest.raises(InputError, match=r"give TrainingRows\.view_inputs"):
            algorithm.setup(TrainingRows(train_rows(table)[0]))


# Parts of the user's own


def test_an_estimator_of_the_users_own_is_one_class(table, build, take_steps) -> None:
    own = build("LC", table, attributes={"name": "my_parts.Greatest", "first": 3})
    assert torch.equal(own.attributes.row_attribute, train_rows(table)[1])  # the attribute is written strongly
    true = build("LC", table, attributes=Told(train_rows(table)[1]))
    for algorithm in (own, true):
        take_steps(algorithm, table, epochs=3)
    assert all(map(torch.equal, weights(own.network), weights(true.network)))
    for name in ATTRIBUTED:
        build(name, table, attributes="my_parts.Greatest")
    unsure = build("LC", table, attributes={"name": "my_parts.Greatest", "unsure": 2.0})
    assert 0 < int((unsure.attributes.row_attribute == -1).sum()) < 48


def test_a_view_of_the_users_own_is_one_class(make_table, build) -> None:
    table = make_table(train=300)
    algorithm = build("LC", table, attributes={"name": "CrossFitted", "view": ["my_parts.Tail"], "splits": 1})
    right = algorithm.attributes.row_attribute == train_rows(table)[1]
    assert float(right.double().mean()) > 0.95


def test_what_is_no_estimator_is_refused(table, build) -> None:
    with pytest.raises(InputError, match=r"attribute estimator 'Onlin' is unknown \(did you mean Online\?\)"):
        build("LC", table, attributes="Onlin")
    with pytest.raises(InputError, match="is no attribute estimator: give an object of a class that derives from"):
        build("LC", table, attributes="my_parts.NotAMethod")
