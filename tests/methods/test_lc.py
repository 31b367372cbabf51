"""Logit correction against plainer programs that must come to the same weights."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.functional import draw_weight, group_mixup, ramp_up
from logit_correction.group_prior import GroupPrior
from logit_correction.methods.base import StepRandomness
from logit_correction.methods.lc import LC
from logit_correction.networks.mlp import MLP
from logit_correction.types import Batch, DataInfo, InputError

#: Both networks are trained side by side from the first step to the last, as in the paper.
PLAIN: dict[str, Any] = {
    "q": 0.7,
    "q_ramp_up_epochs": 0.0,
    "gce_form": "paper",
    "head_start_epochs": 0.0,
    "biased_epochs": None,
    "biased_input_dropout": 0.0,
    "prior": "cell",
    "averaging": "moving",
    "momentum": 0.9,
    "floor": 1e-3,
    "mixup_limit": 0.5,
    "ramp_up_epochs": 2.0,
    "strength": 1.0,
    "biased_temperature": 1.0,
    "biased_pooling": 0,
    "mixup": "every-row",
    "mixup_on": "inputs",
}


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert not [key for key in first if not torch.equal(first[key], second[key])]


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_with_a_uniform_prior_and_no_mixing_it_is_erm_exactly(optimizer: type, table, build, take_steps) -> None:
    erm, lc = (
        build("ERM", table, seed=2),
        build("LC", table, seed=2, prior="uniform", mixup="none", head_start_epochs=0),
    )
    for algorithm in (erm, lc):
        take_steps(algorithm, table, epochs=4, optimizer=optimizer(algorithm.parameter_groups(), lr=1e-2))
    assert_same(weights(erm.network), weights(lc.network))
    assert torch.equal(lc.group_prior.table, torch.full((3, 3), 1 / 9))


def test_with_the_estimated_prior_it_is_not_erm(table, build, take_steps) -> None:
    erm, lc = build("ERM", table, seed=2), build("LC", table, seed=2, mixup="none", head_start_epochs=0)
    for algorithm in (erm, lc):
        take_steps(algorithm, table)
    assert not torch.equal(erm.network.head.weight, lc.network.head.weight)


def biased_loss(logits: Tensor, label: Tensor) -> Tensor:
    """(1 - p^q) / q by its definition, with q = 0.7."""
    own = logits.softmax(1).gather(1, label[:, None]).squeeze(1)
    return ((1 - own**0.7) / 0.7).mean()


def reference(algorithm: LC, table: DataTable, batches, epochs: int, options: dict[str, Any]) -> tuple[nn.Module, ...]:
    """Train copies of both networks with an optimiser each, step by step as the paper has it."""
    robust, biased = copy.deepcopy(algorithm.network), copy.deepcopy(algorithm.biased.network)
    robust_optimizer = torch.optim.Adam(robust.parameters(), lr=1e-2)
    biased_optimizer = torch.optim.Adam(biased.parameters(), lr=1e-2)
    prior, randomness = GroupPrior(3, 3), StepRandomness(algorithm.seed)
    form = options.get("mixup", "every-row")
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


@pytest.mark.parametrize("mixup", ["none", "every-row", "minority-rows"])
def test_one_loss_and_one_optimiser_equal_two_of_each(mixup: str, table, build, take_steps, batches) -> None:
    algorithm = build("LC", table, **PLAIN | {"mixup": mixup})
    robust, biased, prior = reference(algorithm, table, batches, 3, {"mixup": mixup})
    take_steps(algorithm, table, epochs=3)
    pairs = [(algorithm.network, robust), (algorithm.biased.network, biased), (algorithm.group_prior, prior)]
    for one, other in pairs:
        for key, value in weights(other).items():
            torch.testing.assert_close(weights(one)[key], value, rtol=1e-4, atol=2e-5)
    assert bool((prior.table > 0.02).any()) and bool(torch.isfinite(prior.table).all())


def test_the_biased_network_learns_the_same_whatever_the_robust_one_does(table, build, take_steps) -> None:
    results = []
    for options in ({}, {"mixup": "none"}, {"strength": 0.3, "head_start_epochs": 1.0}):
        algorithm = build("LC", table, **PLAIN | options)
        take_steps(algorithm, table, epochs=2)
        results.append(weights(algorithm.biased.network))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def fixed_biased(algorithm: LC, logits: Tensor) -> None:
    """Let the biased network answer with these logits, whatever it is shown."""
    scale = nn.Parameter(torch.ones(()))

    class Fixed(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return logits * scale

    algorithm.biased.network = Fixed()


def test_the_correction_is_the_log_prior_of_the_estimated_attribute(table, build) -> None:
    algorithm = build(
        "LC",
        table,
        **PLAIN | {"mixup": "none", "prior": "joint", "averaging": "batch", "strength": 0.8, "floor": 0.01},
    )
    rows = table.split["train"][:4]
    batch = Batch(table.inputs.fetch(rows), torch.tensor([0, 0, 1, 2]), rows)
    probability = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])
    fixed_biased(algorithm, (probability + 1e-12).log())
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
    assert float(step.logs["estimated_minority"]) == 0.25


def test_a_known_table_tells_attributes_and_minority(make_table, build) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    algorithm = build("LC", table, **PLAIN | {"correlation": "known", "prior": "joint", "averaging": "batch"})
    assert algorithm.group_prior.table.shape == (3, 2)
    rows = table.split["train"][:3]
    batch = Batch(table.inputs.fetch(rows), torch.tensor([0, 1, 1]), rows)
    probability = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.5, 0.4], [0.2, 0.1, 0.7]])
    fixed_biased(algorithm, probability.log())
    algorithm(batch, 0.0)
    posterior = torch.stack([probability[:, :2].sum(1), probability[:, 2]], dim=1)
    expected = torch.stack([posterior[0], posterior[1:].sum(0), torch.zeros(2)]) / 3
    torch.testing.assert_close(algorithm.group_prior.table, expected)
    found = algorithm.diagnose(batch)
    assert found["estimated_attribute"].tolist() == [0, 0, 1]
    assert found["minority"].tolist() == [False, False, True]
    torch.testing.assert_close(found["label_probability"], torch.tensor([0.3, 0.5, 0.1]))


def test_without_the_table_an_attribute_value_is_taken_for_each_label(make_table, build) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    assert build("LC", table).group_prior.table.shape == (3, 3)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_frozen_biased_network_stays_as_it_is(weight_decay: float, table, build, take_steps) -> None:
    algorithm = build("LC", table, **PLAIN | {"biased_epochs": 1.0})
    optimizer = torch.optim.AdamW(algorithm.parameter_groups(), lr=1e-2, weight_decay=weight_decay)
    start = weights(algorithm.biased.network)
    snapshots: list[dict[str, Tensor]] = []
    end_epoch = algorithm.end_epoch

    def watched() -> list[str]:
        snapshots.append(weights(algorithm.biased.network) | {"robust": algorithm.network.head.weight.clone()})
        return end_epoch()

    algorithm.end_epoch = watched
    take_steps(algorithm, table, epochs=3, optimizer=optimizer)
    first, second, third = snapshots
    assert not torch.equal(first["head.weight"], start["head.weight"])
    assert not torch.equal(first.pop("robust"), second.pop("robust"))
    third.pop("robust")
    assert_same(first, second)
    assert_same(first, third)


def test_the_epoch_fraction_counts_for_freezing(table, build, batches) -> None:
    algorithm = build("LC", table, **PLAIN | {"biased_epochs": 1.5})
    batch = next(batches(algorithm, table))
    for epoch, trained in ((1.4, True), (1.5, False)):
        algorithm.zero_grad()
        algorithm(batch, epoch).loss.backward()
        assert (algorithm.biased.network.head.weight.grad is not None) is trained
        assert algorithm.network.head.weight.grad is not None


def test_mixing_features_mixes_what_the_head_is_given(table, build, batches) -> None:
    algorithm = build("LC", table, **PLAIN | {"mixup_on": "features", "mixup_limit": 0.4})
    twin = build("LC", table, **PLAIN | {"mixup_on": "features", "mixup_limit": 0.4})
    batch = next(batches(algorithm, table))
    step = algorithm(batch, 3.0)

    probability = twin.biased.network(batch.inputs).softmax(1)
    attribute = probability.argmax(1)
    twin.group_prior.update(batch.label, probability)
    generator = StepRandomness(0).next(torch.device("cpu"))
    ramp = 2 * 0.4 * 0.5  # after the ramp-up
    weight = draw_weight(1 - 2 * ramp, 1 - ramp, generator, "cpu")
    features, prior = group_mixup(
        twin.network.features(batch.inputs),
        twin.group_prior.for_attribute(attribute),
        batch.label,
        batch.label != attribute,
        weight=weight,
        form="every-row",
        generator=generator,
    )
    expected = cross_entropy(twin.network.head(features) + (prior + 1e-3).log(), batch.label)
    torch.testing.assert_close(step.logs["loss_robust"], expected.detach())
    on_inputs = build("LC", table, **PLAIN | {"mixup_limit": 0.4})(batch, 3.0)
    assert not torch.allclose(on_inputs.logs["loss_robust"], expected)


def test_no_mixing_before_the_ramp_up_has_begun_to_rise(table, build, batches) -> None:
    mixed, plain = (build("LC", table, **PLAIN | one) for one in ({"ramp_up_epochs": 1e6}, {"mixup": "none"}))
    batch = next(batches(mixed, table))
    # t(0) = 0.5 exp(-5): a row keeps at least 1 - exp(-5) of itself.
    gap = (mixed(batch, 0.0).logs["loss_robust"] - plain(batch, 0.0).logs["loss_robust"]).abs()
    assert 0 < float(gap) < 0.02


def test_a_biased_network_of_another_kind(table) -> None:
    algorithm = LC(
        lambda: MLP(table.info, hidden=(8,)),
        table.info,
        biased_network=lambda: MLP(table.info, hidden=(3, 3)),
    )
    assert algorithm.biased.network.head.weight.shape == (3, 3)
    assert algorithm.network.head.weight.shape == (3, 8)


def test_the_biased_network_has_a_parameter_group_of_its_own(table, build) -> None:
    algorithm = build("LC", table, biased_learning_rate_scale=0.1, biased_schedule="none")
    robust, biased = algorithm.parameter_groups()
    assert [group["name"] for group in (robust, biased)] == ["network", "biased_network"]
    assert biased["learning_rate_scale"] == 0.1 and biased["schedule"] == "none"
    assert "schedule" not in robust and robust.get("learning_rate_scale", 1.0) == 1.0
    assert "schedule" not in build("LC", table, biased_schedule="same").parameter_groups()[1]
    mine = {id(parameter) for parameter in algorithm.biased.network.parameters()}
    assert {id(parameter) for parameter in biased["params"]} == mine


def test_pooling_hides_what_is_fine_from_the_biased_network(make_table, build, batches) -> None:
    table = make_table(pictures=True)
    algorithm = build("LC", table, **PLAIN | {"biased_pooling": 1})
    shown: list[Tensor] = []
    algorithm.biased.network.register_forward_pre_hook(lambda module, args: shown.append(args[0]))
    batch = next(batches(algorithm, table))
    algorithm(batch, 0.0)
    means = batch.inputs.mean(dim=(2, 3), keepdim=True).expand_as(batch.inputs)
    torch.testing.assert_close(shown[0], means)


def test_it_predicts_without_correction(table, build, take_steps) -> None:
    algorithm = build("LC", table)
    take_steps(algorithm, table)
    inputs = table.inputs.fetch(table.split["test"])
    before = algorithm.predict(inputs)
    algorithm.group_prior.set_table(torch.rand(3, 3))
    assert torch.equal(algorithm.predict(inputs), before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"q": -0.1}, r"q is -0\.1"),
        ({"q": 1.1}, r"q is 1\.1"),
        ({"momentum": 1.0}, r"momentum is 1\.0"),
        ({"momentum": -0.5}, r"momentum is -0\.5"),
        ({"floor": -1e-3}, r"floor is -0\.001"),
        ({"biased_temperature": 0.0}, r"biased_temperature is 0\.0"),
        ({"strength": -1.0}, r"strength is -1\.0"),
        ({"biased_learning_rate_scale": -1.0}, r"biased_learning_rate_scale is -1\.0"),
        ({"q_ramp_up_epochs": -1.0}, r"q_ramp_up_epochs is -1\.0"),
        ({"ramp_up_epochs": -1.0}, r"ramp_up_epochs is -1\.0"),
        ({"head_start_epochs": -1.0}, r"head_start_epochs is -1\.0"),
        ({"head_start_epochs": float("nan")}, "head_start_epochs is nan"),
        ({"head_start_epochs": 2.0, "biased_epochs": 1.5}, r"biased_epochs is 1\.5.* head start takes 2"),
        ({"mixup_limit": 0.6}, r"mixup_limit is 0\.6"),
        ({"biased_input_dropout": 1.0}, r"biased_input_dropout is 1\.0"),
        ({"biased_input_dropout": -0.1}, r"biased_input_dropout is -0\.1"),
        ({"biased_pooling": 2}, "biased_pooling needs pictures"),
        ({"biased_pooling": -1}, "biased_pooling is -1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], words: str, table, build) -> None:
    with pytest.raises(InputError, match=words):
        build("LC", table, **options)


def test_a_correlation_that_is_not_known_cannot_be_used() -> None:
    info = DataInfo(num_labels=3, num_rows=5, input_shape=(12,))
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        LC(lambda: MLP(info), info, correlation="known")


def test_the_one_to_one_assumption_stays_available_where_a_label_goes_with_several_values(make_table, build) -> None:
    table = make_table(Correlation.from_table([[0, 1], [2], [3]]))
    algorithm = build("LC", table)
    assert algorithm.group_prior.table.shape == (3, 3) and algorithm.num_stages == 1


def test_features_can_only_be_mixed_where_there_are_any(table) -> None:
    with pytest.raises(InputError, match="`features` and `head`"):
        LC(lambda: nn.Linear(12, 3), table.info, mixup_on="features")
    LC(lambda: nn.Linear(12, 3), table.info)


def test_in_the_head_start_the_biased_network_trains_alone(table, build, batches) -> None:
    algorithm = build("LC", table, **PLAIN | {"head_start_epochs": 1.5})
    batch = next(batches(algorithm, table))
    for epoch, joined in ((0.0, False), (1.49, False), (1.5, True)):
        algorithm.zero_grad()
        step = algorithm(batch, epoch)
        step.loss.backward()
        assert algorithm.biased.network.head.weight.grad is not None
        assert (algorithm.network.head.weight.grad is not None) is joined
        assert ("loss_robust" in step.logs) is joined
        parts = [step.logs[name] for name in ("loss_robust", "loss_biased") if name in step.logs]
        torch.testing.assert_close(step.loss.detach(), sum(parts))
    assert bool(algorithm.group_prior.visited.any())


def test_a_robust_network_that_waits_starts_from_its_first_weights(table, build, take_steps) -> None:
    waiting = build("LC", table, **PLAIN | {"head_start_epochs": 2.0})
    start = weights(waiting.network)
    optimizer = torch.optim.AdamW(waiting.parameter_groups(), lr=1e-2, weight_decay=0.1)
    take_steps(waiting, table, epochs=2, optimizer=optimizer)
    assert_same(start, weights(waiting.network))


@pytest.mark.parametrize("pictures", [True, False])
def test_what_is_hidden_from_the_biased_network_while_it_trains(pictures: bool, make_table, build, batches) -> None:
    table = make_table(pictures=pictures, train=480)
    algorithm = build("LC", table, **PLAIN | {"biased_input_dropout": 0.75, "mixup": "none"})
    shown: list[tuple[Tensor, bool]] = []

    def watch(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        shown.append((args[0], torch.is_grad_enabled()))

    algorithm.biased.network.register_forward_pre_hook(watch)
    rows = table.split["train"]
    batch = Batch(table.inputs.fetch(rows) + 1, table.label[rows], rows)  # no value is 0 by itself
    step = algorithm(batch, 0.0)
    trained_on = [inputs for inputs, with_gradient in shown if with_gradient]
    estimated_from = [inputs for inputs, with_gradient in shown if not with_gradient]
    assert len(trained_on) == 1 and len(estimated_from) == 1
    kept = trained_on[0] != 0
    torch.testing.assert_close(trained_on[0], torch.where(kept, batch.inputs * 4, 0))
    places = kept[:, :1] if pictures else kept
    assert torch.equal(places.expand_as(kept), kept)  # a pixel is hidden in all channels or in none
    spread = (0.25 * 0.75 / places.numel()) ** 0.5
    assert abs(float(places.double().mean()) - 0.25) < 5 * spread
    assert torch.equal(estimated_from[0], batch.inputs)
    attribute = algorithm.biased.network(batch.inputs).argmax(1)
    assert torch.equal(algorithm.diagnose(batch)["estimated_attribute"], attribute)
    assert float(step.logs["estimated_minority"]) == pytest.approx(float((attribute != batch.label).double().mean()))


def test_nothing_is_hidden_any_more_from_a_biased_network_that_has_learned(table, build, batches) -> None:
    algorithm = build("LC", table, **PLAIN | {"biased_input_dropout": 0.5, "biased_epochs": 1.0})
    shown: list[Tensor] = []
    algorithm.biased.network.register_forward_pre_hook(lambda module, args: shown.append(args[0]))
    batch = next(batches(algorithm, table))
    algorithm(batch, 1.0)
    assert len(shown) == 1 and torch.equal(shown[0], batch.inputs)


def test_q_rises_to_its_value(table, build, batches) -> None:
    algorithm = build("LC", table, **PLAIN | {"q": 0.8, "q_ramp_up_epochs": 2.0})
    batch = next(batches(algorithm, table))
    own = algorithm.biased.network(batch.inputs).softmax(1).gather(1, batch.label[:, None]).squeeze(1)
    for epoch, q in ((0.0, 0.0), (0.5, 0.2), (2.0, 0.8), (9.0, 0.8)):
        expected = (1 - own**q) / q if q else -own.log()
        torch.testing.assert_close(algorithm(batch, epoch).logs["loss_biased"], expected.mean().detach())


LOST = torch.tensor([[0.30, 0.02, 0.01], [0.20, 0.10, 0.04], [0.10, 0.05, 0.18]])


def test_it_warns_of_a_label_whose_rows_mostly_pass_for_bias_conflicting(table, build) -> None:
    algorithm = build("LC", table, **PLAIN | {"prior": "joint"})
    algorithm.group_prior.set_table(LOST)
    (warning,) = algorithm.end_epoch()
    assert "label 1" in warning and "label 0" not in warning and "label 2" not in warning
    algorithm.group_prior.set_table(torch.eye(3) / 3)
    assert algorithm.end_epoch() == []


@pytest.mark.parametrize("options", [{"prior": "cell"}, {"prior": "algorithm-1"}, {"prior": "uniform"}])
def test_it_does_not_warn_where_the_table_holds_no_joint_probability(options: dict[str, str], table, build) -> None:
    algorithm = build("LC", table, **PLAIN | options)
    algorithm.group_prior.set_table(LOST)
    assert algorithm.end_epoch() == []


def test_with_a_known_table_all_of_a_labels_values_count_as_its_own(make_table, build) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    algorithm = build("LC", table, **PLAIN | {"prior": "joint", "correlation": "known"})
    algorithm.group_prior.set_table(torch.tensor([[0.3, 0.0], [0.2, 0.1], [0.2, 0.2]]))
    assert algorithm.end_epoch() == []
    algorithm.group_prior.set_table(torch.tensor([[0.3, 0.0], [0.1, 0.2], [0.2, 0.2]]))
    assert ["label 1" in warning for warning in algorithm.end_epoch()] == [True]


def test_the_data_set_average_is_closed_before_it_is_judged(table, build) -> None:
    algorithm = build("LC", table, **PLAIN | {"prior": "joint", "averaging": "dataset"})
    label = torch.tensor([0, 1, 2])
    algorithm.group_prior.update(label, torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.0, 0.1]]))
    (warning,) = algorithm.end_epoch()
    assert "label 2" in warning
    torch.testing.assert_close(algorithm.group_prior.table[2], torch.tensor([0.3, 0.0, 0.1 / 3]))
