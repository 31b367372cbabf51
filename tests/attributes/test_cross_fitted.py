"""Cross-fitting: a row's attribute is estimated by learners that never saw the row."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.heads import relabeled
from logit_correction.attributes.view_heads import likely_attribute
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, Stage, TrainingRows
from logit_correction.views.base import ViewInputs

INFO = DataInfo(num_labels=3, num_rows=40, input_shape=(6,))
LABEL = torch.arange(40) % 3


def make(splits: int = 3, seed: int = 0, network: Any = None, **options: Any) -> CrossFitted:
    fitted = CrossFitted(splits=splits, **{"q_ramp_up": 0.0, **options})
    network = network or (lambda: MLP(INFO, hidden=(5,)))
    fitted.attach(ERM(network, INFO, seed=seed).build, network, INFO, seed)
    fitted.setup(TrainingRows(LABEL))
    fitted.begin_stage(0, None)
    return fitted


def rows(index: Tensor) -> Batch:
    inputs = torch.randn((40, 6), generator=torch.Generator().manual_seed(1))
    return Batch(inputs[index], LABEL[index], index)


def members(fitted: CrossFitted, number: int) -> Tensor:
    """The rows that a network is trained on."""
    return (fitted.side[number // 2] == bool(number % 2)).nonzero().flatten()


def train(fitted: CrossFitted, changed: int | None = None) -> None:
    """Two epochs; one row may have another input and another label."""
    if changed is not None:
        fitted.target[changed] = (fitted.target[changed] + 1) % 3
    optimizer = torch.optim.SGD(fitted.parameters(), lr=0.5)
    for epoch in range(2):
        order = torch.randperm(40, generator=torch.Generator().manual_seed(epoch))
        for index in order.split(10):
            batch = rows(index)
            if changed is not None:
                batch.inputs = torch.where((index == changed).unsqueeze(1), -batch.inputs, batch.inputs)
            optimizer.zero_grad()
            fitted.step(batch, float(epoch), StepRandomness(0)).loss.backward()
            optimizer.step()


# Networks


def test_each_split_halves_the_rows_in_its_own_way() -> None:
    fitted = make(splits=5)
    assert fitted.side.sum(dim=1).tolist() == [20] * 5
    assert len({tuple(one.tolist()) for one in fitted.side}) == 5
    assert torch.equal(fitted.side, make(splits=5).side) and not torch.equal(fitted.side, make(splits=5, seed=1).side)
    assert fitted.side.any(dim=0).double().mean() > 0.8  # the splits are not one and the same order


@pytest.mark.parametrize("row", [0, 17, 39])
def test_networks_that_predict_a_row_were_never_trained_on_it(row: int) -> None:
    plain, changed = make(), make()
    train(plain)
    train(changed, changed=row)
    one = torch.tensor([row])
    assert torch.equal(plain.collect(rows(one)), changed.collect(rows(one)))
    for number in range(6):
        touched = row in members(plain, number).tolist()
        same = torch.equal(plain.networks[number].head.weight, changed.networks[number].head.weight)
        assert same is not touched


def test_held_out_softmaxes_are_averaged() -> None:
    fitted = make()
    found = fitted.collect(rows(torch.arange(40)))
    for row in range(40):
        batch = rows(torch.tensor([row]))
        others = [number for number in range(6) if row not in members(fitted, number).tolist()]
        assert [number // 2 for number in others] == [0, 1, 2]
        expected = sum(fitted.networks[number](batch.inputs).softmax(1) for number in others) / 3
        torch.testing.assert_close(found[row], expected[0])
    torch.testing.assert_close(found.sum(1), torch.ones(40))


def test_new_rows_are_predicted_by_all_networks() -> None:
    fitted = make()
    inputs = rows(torch.arange(4)).inputs
    expected = torch.stack([network(inputs).softmax(1) for network in fitted.networks]).mean(0)
    torch.testing.assert_close(fitted.predict(inputs).exp(), expected)


@pytest.mark.parametrize("size", [1, 7, 24, 40])
def test_the_loss_is_the_mean_over_each_networks_own_rows(size: int) -> None:
    fitted = make(q=0.6, q_ramp_up=2 / 3)  # of three epochs
    index = torch.randperm(40, generator=torch.Generator().manual_seed(2))[:size]
    step = fitted.step(rows(index), 1.0, StepRandomness(0))  # half the ramp: q is 0.3
    expected = torch.zeros(())
    for number, network in enumerate(fitted.networks):
        own = [int(i) for i in index if int(i) in members(fitted, number).tolist()]
        if own:
            batch = rows(torch.tensor(own))
            p = network(batch.inputs).softmax(1).gather(1, batch.label[:, None])
            expected = expected + ((1 - p**0.3) / 0.3).mean()
    torch.testing.assert_close(step.loss, expected)
    torch.testing.assert_close(step.logs["loss_biased"], expected.detach() / 6)


def test_q_rises_over_a_share_of_the_epochs() -> None:
    batch = rows(torch.arange(40))
    for epochs, epoch in ((3, 1.0), (6, 2.0), (30, 10.0)):
        long = make(q=0.6, q_ramp_up=2 / 3, epochs=epochs).step(batch, epoch, StepRandomness(0)).loss
        torch.testing.assert_close(long, make(q=0.3).step(batch, 0.0, StepRandomness(0)).loss)


def test_pixels_are_hidden_while_training_and_never_when_predicting() -> None:
    fitted = make(input_dropout=0.5)
    shown: list[Tensor] = []
    for network in fitted.networks:
        network.register_forward_pre_hook(lambda module, args: shown.append(args[0]))
    batch = rows(torch.arange(40))
    fitted.step(batch, 0.0, StepRandomness(0))
    assert len(shown) == 6 and all(0.3 < float((one == 0).double().mean()) < 0.7 for one in shown)
    shown.clear()
    fitted.collect(batch)
    assert len(shown) == 6 and not any(bool((one == 0).any()) for one in shown)


def test_the_stage_has_its_own_length_and_learning_rate_which_stays() -> None:
    assert make().begin_stage(0, None) == Stage(epochs=3)
    fitted = make(splits=2, epochs=5, learning_rate=0.3)
    assert fitted.begin_stage(0, None) == Stage(epochs=5, learning_rate=0.3)
    groups = fitted.parameter_groups()
    assert [group["name"] for group in groups] == [f"biased_network_{number}" for number in range(4)]
    assert {group["schedule"] for group in groups} == {"none"}
    assert fitted.trains_network and fitted.settled and fitted.num_stages == 1


def test_the_estimates_are_the_argmax_of_the_held_out_posteriors(table, prepared, all_rows) -> None:
    estimator = prepared(CrossFitted(), table)
    probability = estimator.collect(all_rows(table))
    assert torch.equal(estimator.row_attribute, probability.argmax(1)) and len(estimator.row_attribute.unique()) == 3
    own = probability.gather(1, all_rows(table).label[:, None]).squeeze(1)
    torch.testing.assert_close(estimator.row_label_probability, own.detach())
    assert "whole input" in estimator.describe()


def test_a_known_correlation_gathers_the_labels_that_share_a_value(make_table, prepared, all_rows) -> None:
    table = make_table(Correlation.from_table([[0], [0], [1]]))
    estimator = prepared(CrossFitted(correlation="known", splits=1), table)
    probability = estimator.collect(all_rows(table)).detach()
    posterior = torch.stack([probability[:, :2].sum(1), probability[:, 2]], dim=1)
    assert torch.equal(estimator.row_attribute, posterior.argmax(1)) and estimator.num_attributes == 2


def test_the_splits_come_from_the_seed_so_that_a_state_goes_with_them() -> None:
    fitted, other = make(seed=5), make(seed=5)
    train(fitted)
    other.load_state_dict(copy.deepcopy(fitted.state_dict()))
    batch = rows(torch.arange(40))
    assert torch.equal(fitted.collect(batch), other.collect(batch))


def test_running_statistics_are_of_whole_inputs() -> None:
    fitted = make(splits=1, input_dropout=0.9, network=lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)))
    batch = rows(torch.arange(40))
    fitted.step(batch, 0.0, StepRandomness(0))
    for number, network in enumerate(fitted.networks):
        expected = 0.1 * batch.inputs[members(fitted, number)].mean(0)  # one update with momentum 0.1, from 0
        # Places left over in the batch repeat rows, so it is the mean but for these.
        assert (network[0].running_mean - expected).abs().max() < 0.03
        assert network[0].running_var.max() < 1.5  # hiding nine tenths would multiply the variance


# Rounds


def test_a_round_relabels_the_rows_and_draws_the_weights_anew() -> None:
    fitted = make(rounds=2, relabel_odds=3.0)
    assert fitted.num_stages == 3
    first = copy.deepcopy(fitted.networks.state_dict())
    train(fitted)
    outputs = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)).softmax(1) ** 4
    outputs = outputs / outputs.sum(1, keepdim=True)
    assert fitted.begin_stage(1, outputs) == Stage(epochs=3)
    assert torch.equal(fitted.target, relabeled(outputs, LABEL, 3.0))
    assert 0 < int((fitted.target != LABEL).sum()) < 40
    second = copy.deepcopy(fitted.networks.state_dict())
    weights = [key for key in first if "weight" in key]
    assert weights and not any(torch.equal(first[key], second[key]) for key in weights)
    batch = rows(torch.arange(40))
    loss = fitted.step(batch, 0.0, StepRandomness(0)).loss
    fitted.target.copy_(LABEL)
    assert not torch.equal(fitted.step(batch, 0.0, StepRandomness(0)).loss, loss)  # the targets are what is learned
    again = make(rounds=2, relabel_odds=3.0)
    again.begin_stage(1, outputs)
    assert all(map(torch.equal, second.values(), again.networks.state_dict().values()))


# Views


def test_heads_on_a_view_tell_the_planted_attribute(make_table, prepared, all_rows) -> None:
    table = make_table(train=600)
    estimator = prepared(CrossFitted(view="my_parts.Tail"), table)
    assert not estimator.trains_network and estimator.settled and estimator.num_stages == 0
    assert not list(estimator.parameters()) and estimator.parameter_groups() == []
    attribute = table.attribute[table.split["train"]]
    conflicting = attribute != all_rows(table).label
    right = (estimator.row_attribute == attribute).double()
    assert float(right.mean()) > 0.97 and float(right[conflicting].mean()) > 0.9 and int(conflicting.sum()) > 20
    assert estimator.held_out.shape == (600, 3)
    torch.testing.assert_close(
        estimator.row_label_probability, estimator.held_out.gather(1, all_rows(table).label[:, None]).squeeze(1)
    )
    assert estimator.describe() == "heads on my_parts.Tail, cross-fitted"


def test_a_view_sees_neither_labels_nor_attributes_and_several_stand_side_by_side(make_table, attached) -> None:
    table = make_table(images=True, train=60)
    one, both = (attached(CrossFitted(view=view, rounds=0), table) for view in ("colour", ["colour", "border"]))
    one.finish(None)
    both.finish(None)
    width = one.row_features.shape[1]
    assert torch.equal(both.row_features[:, :width], one.row_features) and both.row_features.shape[1] > width
    other = attached(CrossFitted(view="colour", rounds=0), replace(table, attribute=table.attribute.flip(0)))
    other.finish(None)
    assert torch.equal(one.row_features, other.row_features) and torch.equal(one.held_out, other.held_out)


def test_rounds_on_a_view_forget_what_is_known_of_the_label() -> None:
    # One number tells the attribute well, four tell the label a little.
    label = torch.arange(800) % 2
    generator = torch.Generator().manual_seed(0)
    attribute = torch.where(torch.rand(800, generator=generator) < 0.15, 1 - label, label)
    values = torch.randn(800, 5, generator=generator) + 0.7 * label[:, None]
    values[:, 0] += 5 * attribute - 0.7 * label
    info = DataInfo(num_labels=2, num_rows=800, input_shape=(5,))
    recall = []
    for rounds in (0, 3):
        odds = 2.0 if rounds else None
        estimator = CrossFitted(view="inputs", head="linear", rounds=rounds, relabel_odds=odds, odds=1.0)
        estimator.attach(ERM(lambda: MLP(info), info).build, lambda: MLP(info), info, 0)
        estimator.setup(TrainingRows(label, view_inputs=ViewInputs(800, lambda rows: values[rows])))
        estimator.finish(None)
        found = (estimator.row_attribute == attribute)[attribute != label]
        recall.append(float(found.double().mean()))
    assert recall[1] > recall[0] + 0.05 > 0.6


def test_every_round_is_reported(make_table) -> None:
    table, told = make_table(train=60), []
    estimator = CrossFitted(view="inputs", rounds=1)
    estimator.attach(ERM(lambda: MLP(table.info), table.info).build, lambda: MLP(table.info), table.info, 0)
    rows = table.split["train"]
    estimator.setup(TrainingRows(table.label[rows], view_inputs=table.view_inputs("train"), report=told.append))
    assert told == []  # long work is done later
    estimator.finish(None)
    assert [what.split(",")[0] for what in told][-2:] == ["estimating the attribute"] * 2
    assert any("inputs" in what for what in told)


def test_views_are_found_before_any_work(table, attached) -> None:
    with pytest.raises(InputError, match=r"view 'colour' does not apply to these inputs.*it needs images"):
        attached(CrossFitted(view="colour"), table)
    with pytest.raises(InputError, match=r"view 'inputz' is unknown \(did you mean inputs\?\)"):
        attached(CrossFitted(view="inputz"), table)
    estimator = CrossFitted(view="inputs")
    estimator.attach(ERM(lambda: MLP(table.info), table.info).build, lambda: MLP(table.info), table.info, 0)
    with pytest.raises(InputError, match=r"views need the inputs of all training rows: give TrainingRows\.view_inputs"):
        estimator.setup(TrainingRows(table.label[table.split["train"]]))


def test_a_row_is_minority_from_the_odds_on() -> None:
    posterior = torch.tensor([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0], [0.1, 0.9, 0.0], [0.2, 0.2, 0.6]])
    label = torch.tensor([0, 0, 0, 2])
    one_to_one = Correlation.one_to_one(3)
    assert likely_attribute(posterior, label, one_to_one).tolist() == [0, 1, 1, 2]
    assert likely_attribute(posterior, label, one_to_one, odds=2.0).tolist() == [0, 0, 1, 2]
    assert likely_attribute(posterior, label, one_to_one, odds=9.5).tolist() == [0, 0, 0, 2]
    several = Correlation.from_table([[0, 1], [2], [2]])
    # Label 0 goes with values 0 and 1, so neither needs odds.
    assert likely_attribute(posterior, label, several, odds=100.0).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"splits": 0}, "splits is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"rounds": -1}, "rounds is -1"),
        ({"relabel_odds": 0.5, "rounds": 1}, r"relabel_odds is 0\.5"),
        ({"relabel_odds": 3.0}, "relabel_odds concerns rounds of relabelling"),
        ({"relabel_odds": 3.0, "rounds": 0, "view": "colour"}, "relabel_odds concerns rounds of relabelling"),
        ({"odds": 0.5}, r"odds is 0\.5"),
        ({"learning_rate": -1.0}, r"learning_rate is -1\.0"),
        ({"q": 2.0}, r"q is 2\.0"),
        ({"q_ramp_up": 1.5}, r"q_ramp_up is 1\.5"),
        ({"input_dropout": 1.0}, r"input_dropout is 1\.0"),
        ({"view": "colour", "gce_form": "weighted"}, "gce_form concerns networks: leave it out beside view"),
        ({"head": "linear"}, "head concerns views: give a view, or leave it out"),
        ({"view": "colour", "head": "linear", "epochs": 3}, "epochs does not apply to linear heads"),
        ({"view": "colour", "head": "linear", "input_dropout": 0.1}, "input_dropout does not apply to linear heads"),
        ({"view": "colour", "head": "linear", "q": 0.0}, "q does not apply to linear heads"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CrossFitted(**options)


def test_few_features_have_linear_heads_unless_told_otherwise(make_table, attached) -> None:
    table = make_table(train=60)
    usual, linear, hidden = (
        attached(CrossFitted(view="inputs", splits=1, head=head), table) for head in (None, "linear", "hidden layer")
    )
    for estimator in (usual, linear, hidden):
        estimator.finish(None)
    assert torch.equal(usual.held_out, linear.held_out) and not torch.equal(linear.held_out, hidden.held_out)
    with pytest.raises(InputError, match="epochs does not apply to linear heads, which this view has"):
        attached(CrossFitted(view="inputs", splits=1, epochs=3), table).finish(None)


def test_what_does_not_fit_the_data_is_refused() -> None:
    texts = DataInfo(num_labels=2, num_rows=4, input_shape=(7,), tokens=True)
    with pytest.raises(InputError, match=r"tokens cannot be hidden.*input_dropout=0"):
        CrossFitted(input_dropout=0.5).attach(lambda network, role: network(), nn.Identity, texts, 0)
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        CrossFitted(correlation="known").attach(lambda network, role: network(), nn.Identity, INFO, 0)


def test_features_of_networks_are_not_comparable_but_those_of_views_are(make_table, attached) -> None:
    with pytest.raises(InputError, match="features of cross-fitted networks are not comparable"):
        CrossFitted().keep_features()
    estimator = attached(CrossFitted(view="inputs", rounds=0), make_table(train=60))
    estimator.keep_features()
    estimator.finish(None)
    probability, features, odds = estimator.rows_to_cluster(None)
    assert probability is estimator.held_out and features.shape == (60, 12) and odds == 4
    assert math.isclose(float(features.mean()), 0, abs_tol=1e-5)


def test_a_view_of_few_rows_is_asked_for_all_of_them() -> None:
    # A view looks at rows by their number in the training split, whatever their number in the whole data set.
    asked: list[Tensor] = []

    def inputs(chosen: Tensor) -> Tensor:
        asked.append(chosen)
        return torch.randn((40, 6), generator=torch.Generator().manual_seed(1))[chosen]

    fitted = CrossFitted(view="inputs", rounds=0)
    fitted.attach(ERM(lambda: MLP(INFO), INFO).build, lambda: MLP(INFO), INFO, 0)
    fitted.setup(TrainingRows(LABEL, view_inputs=ViewInputs(40, inputs), numbers=torch.arange(100, 140)))
    fitted.finish(None)
    assert torch.cat(asked).unique().tolist() == list(range(40))
