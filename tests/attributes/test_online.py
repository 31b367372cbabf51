"""The paper's estimator: a biased network beside the robust one, ahead of it, or both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from logit_correction import Online
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Stage

from .conftest import all_rows, attached, prepared


def some(table: DataTable, count: int = 16) -> Batch:
    rows = table.split["train"][:count]
    return Batch(table.inputs.fetch(rows), table.label[rows], rows)


def watched(estimator: Online) -> list[tuple[Tensor, bool]]:
    """What the biased network is shown from now on, and whether it learns from it."""
    shown: list[tuple[Tensor, bool]] = []
    estimator.network.register_forward_pre_hook(lambda module, args: shown.append((args[0], torch.is_grad_enabled())))
    return shown


class Fixed(nn.Module):
    """Answers with these logits, whatever it is shown."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits, self.scale = logits, nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.logits * self.scale


def test_side_by_side_it_has_no_stage_of_its_own_and_trains_to_the_end(table) -> None:
    estimator = attached(Online(), table)
    assert estimator.num_stages == 0 and not estimator.settled and estimator.trains_network
    estimator.finish(None)
    for epoch in (0.0, 50.0):
        estimator.zero_grad()
        estimator(some(table), epoch, StepRandomness(0)).loss.backward()
        assert all(parameter.grad is not None for parameter in estimator.network.parameters())


def test_the_estimate_is_that_of_the_class_probabilities(table) -> None:
    probability = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])
    estimator = attached(Online(), table, network=lambda: Fixed((probability + 1e-12).log()))
    batch = Batch(torch.zeros(4, 12), torch.tensor([0, 0, 1, 2]), torch.arange(4))
    found = estimator(batch, 0.0, StepRandomness(0))
    torch.testing.assert_close(found.posterior, probability)
    torch.testing.assert_close(found.probability, probability)
    assert found.attribute.tolist() == [0, 1, 1, 2]
    own = torch.tensor([0.7, 0.1, 0.5, 0.9])
    torch.testing.assert_close(found.label_probability, own)
    torch.testing.assert_close(found.loss, ((1 - own**0.7) / 0.7).mean())  # eq. 3
    assert found.features is None
    for value in (found.posterior, found.label_probability, found.probability):
        assert not value.requires_grad
    seen = estimator.diagnose(batch)
    assert seen["estimated_attribute"].tolist() == [0, 1, 1, 2]
    assert seen["minority"].tolist() == [False, True, False, False]
    torch.testing.assert_close(seen["label_probability"], own)


def test_the_weighted_form_has_the_gradient_of_the_papers(table) -> None:
    gradients = []
    for form in ("paper", "weighted"):
        estimator = attached(Online(gce_form=form), table)
        estimator(some(table), 0.0, StepRandomness(0)).loss.backward()
        gradients.append(estimator.network.head.weight.grad)
    torch.testing.assert_close(
        0.7 * gradients[0], gradients[1]
    )  # d (1 - p^q) / q is p^q d CE, and q p^q CE has q p^q d CE


def test_a_known_table_tells_attributes_and_minority(make_table) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    probability = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.5, 0.4], [0.2, 0.1, 0.7]])
    estimator = attached(Online(correlation="known"), table, network=lambda: Fixed(probability.log()))
    assert estimator.num_attributes == 2
    batch = Batch(torch.zeros(3, 12), torch.tensor([0, 1, 1]), torch.arange(3))
    found = estimator(batch, 0.0, StepRandomness(0))
    torch.testing.assert_close(found.posterior, torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.3, 0.7]]))
    seen = estimator.diagnose(batch)
    assert seen["estimated_attribute"].tolist() == [0, 0, 1]
    assert seen["minority"].tolist() == [False, False, True]
    torch.testing.assert_close(seen["label_probability"], torch.tensor([0.3, 0.5, 0.1]))


def test_without_the_table_an_attribute_value_is_taken_for_each_label(make_table) -> None:
    for correlation in (Correlation.from_table([[0], [0], [1]]), Correlation.from_table([[0, 1], [2], [3]])):
        assert attached(Online(), make_table(correlation)).num_attributes == 3


def test_a_temperature_sharpens_the_posterior_and_not_the_loss(table) -> None:
    plain, sharp = attached(Online(), table), attached(Online(temperature=0.1), table)
    found = [one(some(table), 0.0, StepRandomness(0)) for one in (plain, sharp)]
    assert torch.equal(found[0].loss, found[1].loss)
    logits = plain.network(some(table).inputs)
    torch.testing.assert_close(found[1].posterior, (logits.detach() / 0.1).softmax(1))
    torch.testing.assert_close(found[0].posterior, logits.detach().softmax(1))


def test_q_rises_to_its_value_from_the_head_start_on(table) -> None:
    for ahead in (0, 1):
        estimator = attached(Online(q=0.8, q_ramp_up_epochs=2.0, head_start_epochs=ahead), table)
        batch = some(table)
        own = estimator.network(batch.inputs).softmax(1).gather(1, batch.label[:, None]).squeeze(1)
        estimator.finish(None)
        for epoch, q in ((0.0, 0.0), (0.5, 0.2), (2.0, 0.8), (9.0, 0.8)):
            expected = ((1 - own**q) / q if q else -own.log()).mean().detach()
            if epoch >= ahead:
                found = estimator(batch, epoch - ahead, StepRandomness(0)).loss.detach()
                torch.testing.assert_close(found, expected)
            estimator.begin_stage(0, None)
            torch.testing.assert_close(estimator.step(batch, epoch, StepRandomness(0)).loss.detach(), expected)
            estimator.finish(None)


def test_the_epoch_fraction_counts_for_freezing_and_so_does_the_head_start(table) -> None:
    for ahead in (0, 1):
        estimator = attached(Online(head_start_epochs=ahead, epochs=1.5), table)
        estimator.finish(None)
        for epoch, trained in ((1.4, True), (1.5, False)):
            estimator.zero_grad()
            found = estimator(some(table), epoch - ahead, StepRandomness(0))
            assert found.loss.requires_grad is trained


@pytest.mark.parametrize("images", [True, False], ids=["images", "features"])
def test_what_is_hidden_from_the_biased_network_while_it_trains(images: bool, make_table) -> None:
    table = make_table(images=images, train=480)
    estimator = attached(Online(input_dropout=0.75), table)
    shown = watched(estimator)
    batch = some(table, 480)
    batch.inputs = batch.inputs + 1  # no value is 0 by itself
    found = estimator(batch, 0.0, StepRandomness(0))
    (trained_on,), (estimated_from,) = ([one for one, learns in shown if learns is flag] for flag in (True, False))
    kept = trained_on != 0
    torch.testing.assert_close(trained_on, torch.where(kept, batch.inputs * 4, 0))
    places = kept[:, :1] if images else kept
    assert torch.equal(places.expand_as(kept), kept)  # a pixel is hidden in all channels or in none
    spread = (0.25 * 0.75 / places.numel()) ** 0.5
    assert abs(float(places.double().mean()) - 0.25) < 5 * spread
    assert torch.equal(estimated_from, batch.inputs)
    attribute = estimator.network(batch.inputs).argmax(1)
    assert torch.equal(found.attribute, attribute)
    assert torch.equal(estimator.diagnose(batch)["estimated_attribute"], attribute)


def test_nothing_is_hidden_any_more_from_a_biased_network_that_has_learned(table) -> None:
    estimator = attached(Online(input_dropout=0.5, epochs=1.0), table)
    shown = watched(estimator)
    estimator(some(table), 1.0, StepRandomness(0))
    ((inputs, _),) = shown
    assert torch.equal(inputs, some(table).inputs)


def test_pooling_hides_what_is_fine(make_table) -> None:
    table = make_table(images=True)
    estimator = attached(Online(pooling=1), table)
    shown = watched(estimator)
    estimator(some(table), 0.0, StepRandomness(0))
    means = some(table).inputs.mean(dim=(2, 3), keepdim=True).expand(-1, -1, 4, 4)
    torch.testing.assert_close(shown[0][0], means)


def test_running_statistics_are_of_whole_inputs_and_stay_when_the_network_does(table) -> None:
    estimator = attached(
        Online(input_dropout=0.9, epochs=1.0),
        table,
        network=lambda: nn.Sequential(nn.BatchNorm1d(12), nn.Linear(12, 3)),
    )
    batch = some(table, 48)
    estimator(batch, 0.0, StepRandomness(0))
    expected = 0.1 * batch.inputs.mean(0)  # one update with momentum 0.1, from 0
    torch.testing.assert_close(estimator.network[0].running_mean, expected)
    estimator(batch, 1.0, StepRandomness(0))
    torch.testing.assert_close(estimator.network[0].running_mean, expected)


def test_the_estimate_is_made_in_full_precision_whatever_the_networks_compute_in(table) -> None:
    estimator = attached(Online(q=0.0), table, network=lambda: nn.Linear(12, 3))
    batch = some(table)
    with torch.autocast("cpu", torch.bfloat16):
        logits = estimator.network(batch.inputs)
        found = estimator(batch, 0.0, StepRandomness(0))
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(found.probability, logits.detach().float().softmax(1))
    torch.testing.assert_close(found.posterior.sum(1), torch.ones(16))
    torch.testing.assert_close(found.loss, nn.functional.cross_entropy(logits.float(), batch.label))


# The head start


def test_the_head_start_is_a_stage_in_which_the_biased_network_trains_alone(table) -> None:
    estimator = attached(Online(head_start_epochs=2, learning_rate_scale=0.5, schedule="none"), table)
    assert estimator.num_stages == 1 and not estimator.settled
    assert estimator.begin_stage(0, None) == Stage(epochs=2)
    (group,) = estimator.parameter_groups()
    assert (group["name"], group["learning_rate_scale"], group["schedule"]) == ("biased_network", 0.5, "none")
    step = estimator.step(some(table), 0.0, StepRandomness(0))
    assert step.logs.keys() == {"loss_biased"} and torch.equal(step.loss.detach(), step.logs["loss_biased"])
    step.loss.backward()
    assert estimator.network.head.weight.grad is not None
    torch.testing.assert_close(estimator.collect(some(table)), estimator.predict(some(table).inputs).exp())
    assert "schedule" not in attached(Online(), table).parameter_groups()[0]


def test_after_a_head_start_alone_every_row_is_settled(table) -> None:
    estimator = prepared(Online(head_start_epochs=2, epochs=2), table)
    assert estimator.settled and estimator.parameter_groups() == []
    probability = estimator.network(all_rows(table).inputs).softmax(1).detach()
    assert torch.equal(estimator.row_attribute, probability.argmax(1)) and len(estimator.row_attribute.unique()) == 3
    own = probability.gather(1, all_rows(table).label[:, None]).squeeze(1)
    torch.testing.assert_close(estimator.row_label_probability, own)
    shown, randomness = watched(estimator), StepRandomness(0)
    found = estimator(all_rows(table), 5.0, randomness)
    assert torch.equal(found.attribute, estimator.row_attribute)
    assert found.posterior is None and found.loss is None
    assert not shown and randomness.count == 0  # a look-up costs no look at the network
    seen = estimator.diagnose(all_rows(table))
    assert torch.equal(seen["estimated_attribute"], estimator.row_attribute) and not shown
    assert torch.equal(seen["minority"], estimator.row_attribute != all_rows(table).label)


def test_settled_estimates_are_those_that_the_network_would_give(table) -> None:
    settled = prepared(Online(head_start_epochs=2, epochs=2, input_dropout=0.5), table)
    beside = prepared(Online(head_start_epochs=2, epochs=2.5, input_dropout=0.5), table)
    found = beside(all_rows(table), 0.5, StepRandomness(0))
    assert torch.equal(found.attribute, settled(all_rows(table), 0.5, StepRandomness(0)).attribute)
    torch.testing.assert_close(found.label_probability, settled.row_label_probability)


def test_beside_the_robust_network_it_goes_on_training(table) -> None:
    estimator = prepared(Online(head_start_epochs=2), table)
    assert [group["name"] for group in estimator.parameter_groups()] == ["biased_network"]
    assert not bool((estimator.row_attribute >= 0).any())
    assert estimator(some(table), 7.0, StepRandomness(0)).loss.requires_grad


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"q": -0.1}, r"q is -0\.1"),
        ({"q": 1.1}, r"q is 1\.1"),
        ({"temperature": 0.0}, r"temperature is 0\.0"),
        ({"learning_rate_scale": -1.0}, r"learning_rate_scale is -1\.0"),
        ({"q_ramp_up_epochs": -1.0}, r"q_ramp_up_epochs is -1\.0"),
        ({"head_start_epochs": -1}, "head_start_epochs is -1"),
        ({"head_start_epochs": 2, "epochs": 1.5}, r"epochs is 1\.5, but the head start takes 2 epochs"),
        ({"epochs": 0}, "epochs is 0.*more than 0"),
        ({"input_dropout": 1.0}, r"input_dropout is 1\.0"),
        ({"input_dropout": -0.1}, r"input_dropout is -0\.1"),
        ({"input_dropout": float("nan")}, "input_dropout is nan"),
        ({"pooling": -1}, "pooling is -1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Online(**options)


def test_what_does_not_fit_the_data_is_refused(table) -> None:
    with pytest.raises(InputError, match=r"pooling needs images, but inputs have shape \(12,\)"):
        attached(Online(pooling=2), table)
    texts = DataInfo(num_labels=2, num_rows=4, input_shape=(7,), tokens=True)
    with pytest.raises(InputError, match=r"tokens cannot be hidden.*input_dropout=0"):
        Online(input_dropout=0.5).attach(lambda network, role: network(), nn.Identity, texts, 0)
    unknown = DataInfo(num_labels=2, num_rows=4, input_shape=(7,))
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        Online(correlation="known").attach(lambda network, role: network(), nn.Identity, unknown, 0)
