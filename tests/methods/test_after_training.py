"""Methods that begin where ERM has ended, and what tells them the groups."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction import InputError, Run, load, train
from logit_correction.attributes.mst import select_second_environment
from logit_correction.networks.base import DropoutLinear
from logit_correction.networks.small import MLP
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.options import complete_config
from logit_correction.seeds import make_generator
from logit_correction.training.display import Display

ERM_CONFIG: dict[str, Any] = {
    "data": {"name": "Digits"},
    "method": {"name": "ERM"},
    "epochs": 2,
    "threads": 1,
    "selection": "last",
}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(**ERM_CONFIG, out=tmp_path_factory.mktemp("runs") / "erm", page=False)


@pytest.mark.parametrize(
    ("method", "labels_read"),
    [
        ({"name": "LastLayer"}, {"train": ["label"], "valid": ["label"]}),
        (
            {"name": "LastLayer", "attributes": "TrueAttributes"},
            {"train": ["label"], "valid": ["label", "attribute"]},
        ),
        (
            {"name": "PostHoc", "attributes": "TrueAttributes"},
            {"train": ["label", "attribute"], "valid": ["label"]},
        ),
    ],
)
def test_retraining_keeps_the_features_and_reports_the_labels_read(
    finished_run: Path, tmp_path: Path, method: dict[str, str], labels_read: dict[str, list[str]]
) -> None:
    network = {"name": "FromRun", "run": str(finished_run)}
    run = load(
        train(**{**ERM_CONFIG, "method": method, "network": network, "epochs": 2}, out=tmp_path / "run", page=False)
    )
    before, after = (retrained.model.algorithm.network for retrained in (load(finished_run), run))
    assert all(map(torch.equal, before.features.parameters(), after.features.parameters()))
    assert {split: run.report.labels_read[split] for split in labels_read} == labels_read
    assert len(run.report.epochs_per_stage) == 1
    inputs = torch.rand(20, 3, 8, 8)
    assert not torch.equal(before(inputs), after(inputs))


def test_estimator_does_not_begin_with_weights_that_have_learned_its_rows(finished_run: Run) -> None:
    """A copy of the finished network would be "held out" of rows that it was trained on."""
    config = {**ERM_CONFIG, "network": {"name": "FromRun", "run": str(finished_run.path)}}
    prepared = prepare_run(
        complete_config({**config, "method": {"name": "PostHoc", "attributes": "CrossFitted"}}), Display()
    )
    trained = [weight for weight in prepared.algorithm.network.parameters() if weight.dim() > 1]
    assert all(
        any(map(partial(torch.equal, weight), finished_run.model.algorithm.parameters())) for weight in trained[:-1]
    )
    fresh = [weight for weight in prepared.algorithm.attributes.parameters() if weight.dim() > 1]
    assert {tuple(weight.shape) for weight in trained[:-1]} <= {tuple(weight.shape) for weight in fresh}
    assert not any(torch.equal(one, other) for one in trained for other in fresh if one.shape == other.shape)


def test_post_hoc_leaves_a_finished_network_with_batch_normalisation_as_it_is(tmp_path: Path) -> None:
    erm = train(**ERM_CONFIG | {"epochs": 1}, network="ConvNet", out=tmp_path / "erm", page=False)
    network = {"name": "FromRun", "run": str(erm.path)}
    options = ERM_CONFIG | {"method": {"name": "PostHoc", "attributes": "TrueAttributes"}, "epochs": 1}
    corrected = train(**options, network=network, out=tmp_path / "run", page=False)
    inputs = torch.rand(20, 3, 8, 8)
    before, after = (run.model.algorithm.network.eval() for run in (erm, corrected))
    assert torch.equal(before(inputs), after.head.head(after.features(inputs)))
    again = train(**options, network=network, out=tmp_path / "run", page=False, resume=True)
    assert again.report.to_dict() == corrected.report.to_dict()


def test_last_layer_refuses_a_selection_by_the_rows_that_it_learns(tmp_path: Path) -> None:
    config = ERM_CONFIG | {"method": {"name": "LastLayer"}, "selection": "valid_average"}
    with pytest.raises(InputError, match="LastLayer learns from these rows: take last"):
        train(**config, out=tmp_path / "run")


def test_last_layer_weighs_every_validation_group_equally(build, make_table) -> None:
    table = make_table(valid=100)
    rows = table.split["valid"]
    method = build("LastLayer", table, attributes="TrueAttributes", stage=1)
    group = table.label[rows] * 3 + table.attribute[rows]
    assert len(group.bincount().unique()) > 1
    torch.testing.assert_close(torch.zeros(9).index_add_(0, group, method.weight), torch.full((9,), 1 / 9))


def test_last_layer_gives_errors_of_erm_at_most_half_of_the_weight(build, make_table) -> None:
    method = build("LastLayer", make_table(valid=99), stage=1)
    method.erm_head.weight.data *= 1000  # it is sure of all its answers
    erm_prediction = method.erm_head(method.features).argmax(1)
    for wrong, least in ((torch.arange(99) < 1, 0.2), (torch.arange(99) < 31, 0.48)):
        method.label = erm_prediction.where(~wrong, (erm_prediction + 1) % 3)
        method.group = torch.zeros(99).long()
        method._store_features_and_weights()
        assert least < float(method.weight[wrong].sum()) <= 0.5
    assert float(method.weight[wrong].min() / method.weight[~wrong].max()) > 1  # and yet each weighs more


def test_last_layer_is_retrained_without_dropout(build, batches, make_table) -> None:
    def network() -> MLP:
        mlp = MLP(table.info, hidden=(16,))
        mlp.head = DropoutLinear(16, 3)
        return mlp

    table = make_table(valid=99)
    method = build("LastLayer", table, stage=1, network=network).train()
    weight = method.weight.clone()
    method._store_features_and_weights()
    assert torch.equal(method.weight, weight)
    batch = next(batches(method, table))
    head = method.network.head
    logits = method.features @ head.weight.T + head.bias
    expected = torch.nn.functional.cross_entropy(logits, method.label, reduction="none") @ weight
    torch.testing.assert_close(method(batch, 0.0).loss, expected)


def test_select_second_environment_maximizes_the_invariance_penalty() -> None:
    logits = torch.randn(12, 3, generator=make_generator(0, "logits"))
    label = torch.arange(12) % 3
    gradient = (logits.softmax(1) * logits).sum(1) - logits.gather(1, label[:, None])[:, 0]
    every = (torch.arange(2**12)[:, None] >> torch.arange(12)) & 1
    penalty = (every.float() @ gradient[:, None]).square() + ((1 - every).float() @ gradient[:, None]).square()
    membership = select_second_environment(logits, label).float()
    actual_penalty = (membership @ gradient).square() + ((1 - membership) @ gradient).square()
    assert actual_penalty >= penalty.max() - 1e-4


@pytest.mark.parametrize("estimator", ["XRM", pytest.param("MST", marks=pytest.mark.slow)])
def test_early_network_estimators_predict_the_attribute_of_training_and_new_rows(
    estimator: str, tmp_path: Path
) -> None:
    data = {"name": "Digits", "minority_ratio": 0.1}
    config = {**ERM_CONFIG, "data": data, "method": {"name": "LC", "attributes": estimator}, "learning_rate": 3e-3}
    run = load(train(**config, out=tmp_path / "run", page=False))
    assert run.report.estimated_minority.recall > 0.5
    assert run.report.to_dict()["test"]["estimated"]["groups"]
