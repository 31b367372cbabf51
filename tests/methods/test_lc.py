"""Logit correction against plainer programs that must come to the same weights."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.online import Online
from logit_correction.config import load_preset
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.functional import draw_weight, group_mixup, ramp_up
from logit_correction.methods.lc import LC
from logit_correction.networks.small import MLP
from logit_correction.prior import GroupPrior
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch

#: Both networks are trained side by side from the first step to the last, as in the paper.
PLAIN: dict[str, Any] = {
    "attributes": {"name": "Online"},
    "prior": {"name": "Moving", "estimator": "cell", "momentum": 0.9, "floor": 1e-3},
    "mixing": {"name": "GroupMixUp"},
}


def but(**changes: dict[str, Any]) -> dict[str, Any]:
    """The plain options, with changes inside the components."""
    return PLAIN | {name: {**PLAIN[name], **options} for name, options in changes.items()}


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items() if isinstance(value, Tensor)}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert not [key for key in first if not torch.equal(first[key], second[key])]


class Abstains(AttributeEstimator):
    """Finds nothing to correct."""

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        self.abstained = True
        return torch.full((self.info.num_rows,), -1), None

    def describe(self) -> str:
        return "nowhere"


class Unknown(Abstains):
    """Knows no row's attribute, but does not say that there is nothing to correct."""

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return torch.full((self.info.num_rows,), -1), None


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "Online", "strength": 0.0, "mixing": "NoMixing"},
        {"attributes": {"name": "Online", "head_start_epochs": 1}, "strength": 0.0, "mixing": "NoMixing", "stage": 1},
        {"attributes": Abstains},
        {"attributes": Unknown, "mixing": "NoMixing"},
    ],
    ids=["no strength", "no strength after a head start", "abstained", "all unknown"],
)
def test_without_a_correction_it_is_erm_exactly(optimizer: type, options, table, build, take_steps) -> None:
    if isinstance(options["attributes"], type):
        options = {**options, "attributes": options["attributes"]()}
    erm, lc = build("ERM", table, seed=2), build("LC", table, seed=2, **options)
    for algorithm in (erm, lc):
        take_steps(algorithm, table, epochs=4, optimizer=optimizer(algorithm.parameter_groups(), lr=1e-2))
    assert_same(weights(erm.network), weights(lc.network))


def test_with_the_estimated_prior_it_is_not_erm(table, build, take_steps) -> None:
    erm, lc = build("ERM", table, seed=2), build("LC", table, seed=2, attributes="Online", mixing="NoMixing")
    for algorithm in (erm, lc):
        take_steps(algorithm, table)
    assert not torch.equal(erm.network.head.weight, lc.network.head.weight)


def biased_loss(logits: Tensor, label: Tensor) -> Tensor:
    """(1 - p^q) / q by its definition, with q = 0.7."""
    own = logits.softmax(1).gather(1, label[:, None]).squeeze(1)
    return ((1 - own**0.7) / 0.7).mean()


def reference(algorithm: LC, table: DataTable, batches, epochs: int, form: str) -> tuple[nn.Module, ...]:
    """Train copies of both networks with an optimiser each, step by step as the paper has it."""
    robust, biased = copy.deepcopy(algorithm.network), copy.deepcopy(algorithm.attributes.network)
    robust_optimizer = torch.optim.Adam(robust.parameters(), lr=1e-2)
    biased_optimizer = torch.optim.Adam(biased.parameters(), lr=1e-2)
    prior, randomness = GroupPrior(3, 3, estimator="cell", momentum=0.9), StepRandomness(algorithm.seed)
    for epoch in range(epochs):
        for number, batch in enumerate(batches(algorithm, table, epoch)):
            logits = biased(batch.inputs)
            biased_optimizer.zero_grad()
            biased_loss(logits, batch.label).backward()
            biased_optimizer.step()

            probability = logits.detach().softmax(1)
            attribute = probability.argmax(1)
            prior.update(batch.label, probability)
            mixed, mixed_prior = batch.inputs, prior.for_attribute(attribute)
            if form != "none":
                generator = randomness.next(torch.device("cpu"))
                ramp = ramp_up(epoch + number / 3, 2)
                low, high = (1 - 2 * ramp, 1 - ramp) if form == "every-row" else (0.5, 1.0)
                weight = draw_weight(low, high, generator, "cpu")
                mixed, mixed_prior = group_mixup(
                    batch.inputs,
                    mixed_prior,
                    batch.label,
                    batch.label != attribute,
                    weight=weight,
                    form=form,
                    generator=generator,
                )
            robust_optimizer.zero_grad()
            cross_entropy(robust(mixed) + (mixed_prior + 1e-3).log(), batch.label).backward()
            robust_optimizer.step()
        prior.end_epoch()
    return robust, biased, prior


@pytest.mark.parametrize("form", ["none", "every-row", "minority-rows"])
def test_one_loss_and_one_optimiser_equal_two_of_each(form: str, table, build, take_steps, batches) -> None:
    mixing = {"mixing": "NoMixing"} if form == "none" else {"mixing": {"name": "GroupMixUp", "rows": form}}
    algorithm = build("LC", table, **PLAIN | mixing)
    robust, biased, prior = reference(algorithm, table, batches, 3, form)
    take_steps(algorithm, table, epochs=3)
    pairs = [(algorithm.network, robust), (algorithm.attributes.network, biased), (algorithm.group_prior, prior)]
    for one, other in pairs:
        for key, value in weights(other).items():
            torch.testing.assert_close(weights(one)[key], value, rtol=1e-4, atol=2e-5)
    assert bool((prior.table > 0.02).any()) and bool(torch.isfinite(prior.table).all())


def test_the_preset_paper_is_the_papers_training(table, build, take_steps, batches) -> None:
    options = {key: value for key, value in load_preset("paper")["method"].items() if key != "name"}
    preset = build("LC", table, **options)
    plain = build("LC", table, **but(prior={"momentum": 0.5, "floor": 1e-4}))
    for algorithm in (preset, plain):
        take_steps(algorithm, table, epochs=3)
    assert_same(weights(preset), weights(plain))


def test_the_biased_network_learns_the_same_whatever_the_robust_one_does(table, build, take_steps) -> None:
    results = []
    for options in ({}, {"mixing": "NoMixing"}, {"strength": 0.3, "prior": "Moving"}):
        algorithm = build("LC", table, **PLAIN | options)
        take_steps(algorithm, table, epochs=2)
        results.append(weights(algorithm.attributes.network))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


class Fixed(nn.Module):
    """Answers with these logits, whatever it is shown."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits, self.scale = logits, nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.logits * self.scale


def test_the_correction_is_the_log_prior_of_the_estimated_attribute(table, build) -> None:
    prior = {"name": "Moving", "averaging": "batch", "floor": 0.01}
    algorithm = build("LC", table, **PLAIN | {"prior": prior, "mixing": "NoMixing", "strength": 0.8})
    rows = table.split["train"][:4]
    batch = Batch(table.inputs.fetch(rows), torch.tensor([0, 0, 1, 2]), rows)
    probability = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])
    algorithm.attributes.network = Fixed((probability + 1e-12).log())
    step = algorithm(batch, 0.0)
    # P(y, a): the posteriors of the rows with label y, over the number of rows.
    joint = torch.stack([probability[:2].sum(0), probability[2], probability[3]]) / 4
    attribute = [0, 1, 1, 2]
    correction = 0.8 * (joint[:, attribute].T + 0.01).log()
    expected = cross_entropy(algorithm.network(batch.inputs) + correction, batch.label)
    torch.testing.assert_close(step.logs["loss_robust"], expected.detach())
    own = probability[range(4), batch.label]
    torch.testing.assert_close(step.logs["loss_biased"], ((1 - own**0.7) / 0.7).mean())
    torch.testing.assert_close(step.loss, step.logs["loss_robust"] + step.logs["loss_biased"])


def test_a_known_table_makes_a_prior_of_its_values(make_table, build) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    prior = {"name": "Moving", "averaging": "batch"}
    algorithm = build("LC", table, attributes={"name": "Online", "correlation": "known"}, prior=prior)
    rows = table.split["train"][:3]
    batch = Batch(table.inputs.fetch(rows), torch.tensor([0, 1, 1]), rows)
    probability = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.5, 0.4], [0.2, 0.1, 0.7]])
    algorithm.attributes.network = Fixed(probability.log())
    algorithm(batch, 0.0)
    posterior = torch.stack([probability[:, :2].sum(1), probability[:, 2]], dim=1)
    expected = torch.stack([posterior[0], posterior[1:].sum(0), torch.zeros(2)]) / 3
    torch.testing.assert_close(algorithm.group_prior.table, expected)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_frozen_biased_network_stays_as_it_is(weight_decay: float, table, build, take_steps) -> None:
    algorithm = build("LC", table, **but(attributes={"epochs": 1.0}))
    optimizer = torch.optim.AdamW(algorithm.parameter_groups(), lr=1e-2, weight_decay=weight_decay)
    start = weights(algorithm.attributes.network)
    snapshots: list[dict[str, Tensor]] = []
    end_epoch = algorithm.end_epoch

    def watched() -> list[str]:
        snapshots.append(weights(algorithm.attributes.network) | {"robust": algorithm.network.head.weight.clone()})
        return end_epoch()

    algorithm.end_epoch = watched
    take_steps(algorithm, table, epochs=3, optimizer=optimizer)
    first, second, third = snapshots
    assert not torch.equal(first["head.weight"], start["head.weight"])
    assert not torch.equal(first.pop("robust"), second.pop("robust"))
    third.pop("robust")
    assert_same(first, second)
    assert_same(first, third)


def test_in_the_head_start_the_robust_network_and_the_prior_wait(table, build, take_steps, collected) -> None:
    algorithm = build("LC", table, **but(attributes={"head_start_epochs": 2}))
    assert algorithm.num_stages == 2 and algorithm.stage == 0
    start, prior = weights(algorithm.network), weights(algorithm.group_prior)
    optimizer = torch.optim.AdamW(algorithm.parameter_groups(), lr=1e-2, weight_decay=0.1)
    take_steps(algorithm, table, epochs=2, optimizer=optimizer)
    assert_same(start, weights(algorithm.network))
    assert_same(prior, weights(algorithm.group_prior))
    assert not bool(algorithm.group_prior.visited.any())
    algorithm.begin_stage(1, collected(algorithm, table))
    assert [group["name"] for group in algorithm.parameter_groups()] == ["network", "biased_network"]
    biased = weights(algorithm.attributes.network)
    take_steps(algorithm, table)
    assert not torch.equal(start["head.weight"], algorithm.network.head.weight)
    assert not torch.equal(biased["head.weight"], algorithm.attributes.network.head.weight)
    assert bool(algorithm.group_prior.visited.any())


def test_a_biased_network_of_another_kind(table) -> None:
    algorithm = LC(
        lambda: MLP(table.info, hidden=(8,)),
        table.info,
        attributes="Online",
        biased_network=lambda: MLP(table.info, hidden=(3, 3)),
    )
    assert algorithm.attributes.network.head.weight.shape == (3, 3)
    assert algorithm.network.head.weight.shape == (3, 8)


def test_an_estimator_may_be_given_as_such(table) -> None:
    estimator = Online(q=0.3)
    algorithm = LC(lambda: MLP(table.info), table.info, attributes=estimator)
    assert algorithm.attributes is estimator
    with pytest.raises(InputError, match=r"is no attribute estimator: .*derives from .*AttributeEstimator, or one of"):
        LC(lambda: MLP(table.info), table.info, attributes=nn.Identity())  # type: ignore[arg-type]


def test_the_biased_network_has_a_parameter_group_of_its_own(table, build) -> None:
    algorithm = build("LC", table, attributes={"name": "Online", "learning_rate_scale": 0.1, "schedule": "none"})
    robust, biased = algorithm.parameter_groups()
    assert [group["name"] for group in (robust, biased)] == ["network", "biased_network"]
    assert biased["learning_rate_scale"] == 0.1 and biased["schedule"] == "none"
    assert "schedule" not in robust and robust.get("learning_rate_scale", 1.0) == 1.0
    mine = {id(parameter) for parameter in algorithm.attributes.network.parameters()}
    assert {id(parameter) for parameter in biased["params"]} == mine


def test_it_predicts_without_correction(table, build, take_steps) -> None:
    algorithm = build("LC", table, attributes="Online")
    take_steps(algorithm, table)
    inputs = table.inputs.fetch(table.split["test"])
    before = algorithm.predict(inputs)
    algorithm.group_prior.set_table(torch.rand(3, 3))
    assert torch.equal(algorithm.predict(inputs), before)


def test_a_negative_strength_is_refused(table, build) -> None:
    with pytest.raises(InputError, match=r"strength is -1\.0"):
        build("LC", table, attributes="Online", strength=-1.0)


# Rows of small groups drawn oftener


def test_rows_of_small_groups_are_drawn_oftener_and_weighted_back(table, build) -> None:
    options = {"attributes": "TrueAttributes", "mixing": "NoMixing"}
    algorithm, plain = (build("LC", table, **options, oversampling=power) for power in (0.5, 0.0))
    plan = algorithm.begin_stage(0, None).sample_weight
    assert plain.begin_stage(0, None).sample_weight is None and plan is not None and plan.is_floating_point()
    rows = table.split["train"]
    expected = table.group_counts("train")[table.label[rows], table.attribute[rows]].double().rsqrt()
    torch.testing.assert_close(plan / plan.mean(), expected / expected.mean())
    assert float(plan.max() / plan.min()) > 2
    # The expected loss of a draw is the mean loss of all rows.
    drawn = torch.zeros((), dtype=torch.float64)
    for i in range(48):
        one = Batch(table.inputs.fetch(rows[i : i + 1]), table.label[rows[i : i + 1]], torch.tensor([i]))
        drawn += plan[i] / plan.sum() * algorithm(one, 0.0).loss.detach()
    whole = plain(Batch(table.inputs.fetch(rows), table.label[rows], torch.arange(48)), 0.0).loss.detach()
    torch.testing.assert_close(drawn.float(), whole)


def test_rows_of_unknown_attribute_are_drawn_as_often_as_others_on_the_average(table, build) -> None:
    algorithm = build("LC", table, attributes="TrueAttributes", oversampling=0.5)
    algorithm.attributes.estimate_rows = lambda outputs: (
        algorithm.attributes.rows.attribute.index_fill(0, torch.arange(0, 48, 3), -1),
        None,
    )
    plan = algorithm.begin_stage(0, None).sample_weight
    unknown = torch.arange(48) % 3 == 0
    assert len(plan[unknown].unique()) == 1
    assert float(plan[~unknown].min()) <= float(plan[unknown][0]) <= float(plan[~unknown].max())


def test_where_images_are_augmented_small_groups_are_drawn_oftener_by_default(table, build) -> None:
    info = replace(table.info, augmented=True)

    def lc(**options: Any) -> LC:
        return LC(lambda: MLP(info), info, **options)

    assert lc(attributes="TrueAttributes").oversampling == lc(attributes="CrossFitted").oversampling == 0.25
    assert lc(attributes="Online").oversampling == 0
    assert lc(attributes="TrueAttributes", oversampling=0.0).oversampling == 0
    assert build("LC", table, attributes="TrueAttributes").oversampling == 0
    assert build("LC", table, attributes=Abstains(), oversampling=0.5).begin_stage(0, None).sample_weight is None


@pytest.mark.parametrize("attributes", ["Online", {"name": "Online", "head_start_epochs": 1}, "Clusters"], ids=str)
@pytest.mark.parametrize("method", ["LC", "StagedLC"])
def test_drawing_oftener_needs_settled_estimates(method: str, attributes: Any, make_table, build) -> None:
    table = make_table(Correlation.from_table([[0, 1], [2], [3, 4]]))
    with pytest.raises(InputError, match="oversampling needs estimates that are settled"):
        build(method, table, attributes=attributes, oversampling=0.5)
    with pytest.raises(InputError, match=r"oversampling is 1\.5"):
        build(method, table, attributes="TrueAttributes", oversampling=1.5)


LOST = torch.tensor([[0.30, 0.02, 0.01], [0.20, 0.10, 0.04], [0.10, 0.05, 0.18]])


def test_it_warns_of_a_label_whose_rows_mostly_pass_for_bias_conflicting(table, build) -> None:
    algorithm = build("LC", table, **but(prior={"estimator": "joint"}))
    algorithm.group_prior.set_table(LOST)
    (warning,) = algorithm.end_epoch()
    assert "label 1" in warning and "label 0" not in warning and "label 2" not in warning
    algorithm.group_prior.set_table(torch.eye(3) / 3)
    assert algorithm.end_epoch() == []


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "Online", "prior": {"name": "Moving", "estimator": "cell"}},
        {"attributes": "Online", "prior": {"name": "Moving", "estimator": "algorithm-1"}},
        {"attributes": "TrueAttributes"},
    ],
    ids=["cell", "algorithm-1", "counted"],
)
def test_it_does_not_warn_where_no_biased_network_makes_a_joint_probability(options, table, build) -> None:
    algorithm = build("LC", table, **options)
    algorithm.group_prior.set_table(LOST)
    assert algorithm.end_epoch() == []


def test_with_a_known_table_all_of_a_labels_values_count_as_its_own(make_table, build) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    algorithm = build("LC", table, attributes={"name": "Online", "correlation": "known"})
    algorithm.group_prior.set_table(torch.tensor([[0.3, 0.0], [0.2, 0.1], [0.2, 0.2]]))
    assert algorithm.end_epoch() == []
    algorithm.group_prior.set_table(torch.tensor([[0.3, 0.0], [0.1, 0.2], [0.2, 0.2]]))
    assert ["label 1" in warning for warning in algorithm.end_epoch()] == [True]


def test_the_data_set_average_is_closed_before_it_is_judged(table, build) -> None:
    algorithm = build("LC", table, **but(prior={"estimator": "joint", "averaging": "dataset", "momentum": None}))
    label = torch.tensor([0, 1, 2])
    algorithm.group_prior.update(label, torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.0, 0.1]]))
    (warning,) = algorithm.end_epoch()
    assert "label 2" in warning
    torch.testing.assert_close(algorithm.group_prior.table[2], torch.tensor([0.3, 0.0, 0.1 / 3]))
