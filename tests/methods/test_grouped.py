"""Attributes of rows that several methods share: true, cross-fitted, or told apart by clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from logit_correction.config import TrainingConfig
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.functional import draw_weight, independent_partner, mix, mixup_partner, partner_prior
from logit_correction.methods.base import Algorithm, StepRandomness
from logit_correction.methods.lc import LC
from logit_correction.methods.reweighting import Reweighting
from logit_correction.methods.staged_lc import StagedLC
from logit_correction.networks.mlp import MLP
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import DataInfo, InputError

SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])

#: A method, options that hold for both, and whether its own stage asks for rows in some proportion.
METHODS: list[tuple[str, dict[str, Any], bool]] = [
    ("LC", {}, False),
    ("LC", {"mixup": "independent", "mixup_limit": 0.4}, False),
    ("LC", {"mixup_prior": "product", "smoothing": 0.1}, False),
    ("StagedLC", {}, False),
    ("Reweighting", {"smoothing": 1.0}, False),
    ("Reweighting", {}, False),
    ("GroupDRO", {"adjustment": 1.0}, True),
]


@pytest.fixture
def table(make_table) -> DataTable:
    return make_table()


def train_rows(table: DataTable) -> tuple[Tensor, Tensor]:
    rows = table.split["train"]
    return table.label[rows], table.attribute[rows]


def weights(module: nn.Module) -> list[Tensor]:
    return [value.clone() for value in module.state_dict().values()]


@pytest.mark.parametrize(("name", "options", "sampled"), METHODS)
def test_with_a_perfect_estimate_it_trains_as_with_true_groups(
    name: str, options: dict[str, Any], sampled: bool, table, build, take_steps
) -> None:
    label, attribute = train_rows(table)
    true = build(name, table, groups="true", **options)
    found = build(name, table, groups="cross-fitted", **options)
    assert true.needs_attributes and true.num_stages == 1
    assert not found.needs_attributes and found.num_stages == 2
    plan = found.begin_stage(1, torch.cat([one_hot(attribute, 3).float(), label.unsqueeze(1).float()], dim=1))
    if sampled:
        torch.testing.assert_close(plan.row_weight, true.begin_stage(0, None).row_weight)
    for algorithm in (true, found):
        take_steps(algorithm, table, epochs=4)
    assert all(map(torch.equal, weights(true.network), weights(found.network)))
    if true.group_prior is not None:
        assert torch.equal(true.group_prior.table, found.group_prior.table)


@pytest.mark.parametrize(("name", "options", "sampled"), METHODS)
def test_true_groups_are_read(name: str, options: dict[str, Any], sampled: bool, table, build, batches) -> None:
    algorithm = build(name, table, groups="true", **options)
    other = build(name, table, groups="true", **options)
    batch, changed = next(batches(algorithm, table)), next(batches(algorithm, table))
    changed.attribute = (changed.attribute + 1) % 3
    for one, its_batch in ((algorithm, batch), (other, changed)):
        one(its_batch, 5.0).loss.backward()
    assert not torch.equal(algorithm.network.head.weight.grad, other.network.head.weight.grad)


def test_every_method_cross_fits_alike(table, build, take_steps, predicted_rows) -> None:
    found = {}
    for name in ("LC", "Reweighting", "GroupDRO", "StagedLC"):
        algorithm = build(name, table, seed=5, groups="cross-fitted", num_splits=2)
        assert {group["name"] for group in algorithm.parameter_groups()} == {f"biased_network_{i}" for i in range(4)}
        take_steps(algorithm, table, epochs=3)
        algorithm.begin_stage(1, predicted_rows(algorithm, table))
        assert [group["name"] for group in algorithm.parameter_groups()] == ["network"]
        found[name] = algorithm.cross_fitted.attribute, algorithm.cross_fitted.label_probability
    assert len(set(found["LC"][0].tolist())) == 3
    for attribute, probability in found.values():
        assert torch.equal(attribute, found["LC"][0]) and torch.equal(probability, found["LC"][1])


@pytest.mark.parametrize("name", ["LC", "StagedLC"])
def test_the_oracle_is_corrected_by_the_counted_prior_of_the_true_group(name: str, table, build, batches) -> None:
    options = {"LC": {"mixup": "none"}, "StagedLC": {"mixup_limit": 0.0}}[name]
    algorithm = build(name, table, groups="true", smoothing=0.5, **options)
    batch = next(batches(algorithm, table))
    counts = [[0.5] * 3 for _ in range(3)]
    for y, a in zip(*(value.tolist() for value in train_rows(table)), strict=True):
        counts[y][a] += 1
    losses = []
    for i, logits in enumerate(algorithm.network(batch.inputs)):
        prior = torch.tensor([counts[y][int(batch.attribute[i])] / (48 + 9 * 0.5) for y in range(3)])
        losses.append(cross_entropy(logits + prior.log(), batch.label[i]))
    torch.testing.assert_close(algorithm(batch, 0.0).loss, torch.stack(losses).mean())


def test_with_true_groups_and_a_uniform_prior_nothing_is_corrected(table, build, batches) -> None:
    algorithm = build("LC", table, groups="true", prior="uniform", mixup="none")
    batch = next(batches(algorithm, table))
    expected = cross_entropy(algorithm.network(batch.inputs), batch.label)
    torch.testing.assert_close(algorithm(batch, 0.0).loss, expected, rtol=1e-6, atol=0)


def test_without_a_known_correlation_the_commonest_value_is_the_majority() -> None:
    info = DataInfo(num_labels=2, num_rows=9, input_shape=(4,), num_attributes=3)
    algorithm = LC(lambda: MLP(info, hidden=(4,)), info, groups="true")
    label, attribute = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [2, 2, 1, 2, 0, 0, 1, 0, 2]])
    algorithm.observe_rows(label, attribute)
    assert algorithm.correlation.to_table() == [[2], [0]]


def test_groups_that_were_not_counted_are_asked_for(table) -> None:
    for cls in (LC, StagedLC, Reweighting):
        with pytest.raises(InputError, match=f"{cls.__name__} must count.*observe_rows"):
            cls(lambda: MLP(table.info), table.info, groups="true").begin_stage(0, None)


# Soft posteriors


def soft_rows(table: DataTable, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    label, _ = train_rows(table)
    posterior = torch.randn((48, 3), generator=torch.Generator().manual_seed(seed)).softmax(1)
    return torch.cat([posterior, label.unsqueeze(1).float()], dim=1), posterior, label


def test_a_soft_posterior_corrects_by_the_expected_conditional(table, build, batches) -> None:
    algorithm = build("StagedLC", table, posterior="soft", mixup_limit=0.0, smoothing=2.0, strength=0.9)
    rows, posterior, label = soft_rows(table)
    algorithm.begin_stage(1, rows)
    counts = [[2.0] * 3 for _ in range(3)]
    for i, y in enumerate(label.tolist()):
        for a in range(3):
            counts[y][a] += float(posterior[i, a])
    column = [sum(counts[y][a] for y in range(3)) for a in range(3)]
    torch.testing.assert_close(algorithm.group_prior.table, torch.tensor(counts) / (48 + 18))
    batch = next(batches(algorithm, table))
    losses = []
    for i, logits in enumerate(algorithm.network(batch.inputs)):
        own = posterior[batch.index[i]]
        prior = torch.tensor([sum(float(own[a]) * counts[y][a] / column[a] for a in range(3)) for y in range(3)])
        losses.append(cross_entropy(logits + 0.9 * prior.log(), batch.label[i]))
    torch.testing.assert_close(algorithm(batch, 0.0).loss, torch.stack(losses).mean())


def test_a_sure_posterior_is_as_good_as_its_argmax(table, build, batches) -> None:
    label, attribute = train_rows(table)
    rows = torch.cat([one_hot(attribute, 3).float(), label.unsqueeze(1).float()], dim=1)
    losses = []
    for posterior in ("hard", "soft"):
        algorithm = build("StagedLC", table, posterior=posterior)
        algorithm.begin_stage(1, rows)
        losses.append(algorithm(next(batches(algorithm, table)), 0.0).loss)
    torch.testing.assert_close(*losses)


# Mixing in LC


def test_the_product_prior_is_that_of_the_row_times_that_of_its_partner(table, build, batches) -> None:
    for form in ("every-row", "minority-rows"):
        algorithm = build("LC", table, groups="true", mixup=form, mixup_prior="product", smoothing=1.0)
        batch = next(batches(algorithm, table))
        generator = StepRandomness(0).next(torch.device("cpu"))
        low, high = (0.8, 0.9) if form == "every-row" else (0.5, 1.0)  # t = 0.1 after the ramp-up
        weight = draw_weight(low, high, generator)
        partner = mixup_partner(batch.label, batch.label != batch.attribute, 3, generator, form)
        logits = algorithm.network(mix(batch.inputs, partner, weight))
        prior = algorithm.group_prior.table
        drawn = partner_prior(prior, ~torch.eye(3, dtype=torch.bool), 16, form)
        losses = []
        for i in range(16):
            a_j, a_i = int(batch.attribute[i]), int(batch.attribute[partner[i]])
            correction = prior[:, a_j].log() + drawn[:, a_j, a_i].log().clamp_min(-30)
            losses.append(cross_entropy(logits[i] + correction, batch.label[i]))
        torch.testing.assert_close(algorithm(batch, 9.0).loss, torch.stack(losses).mean())


def test_with_an_independent_partner_the_label_and_the_prior_are_the_rows_own(table, build, batches) -> None:
    algorithm = build("LC", table, groups="true", mixup="independent", mixup_limit=0.4)
    batch = next(batches(algorithm, table))
    partner, own = independent_partner(16, 0.4, StepRandomness(0).next(torch.device("cpu")))
    logits = algorithm.network(mix(batch.inputs, partner, own))
    correction = algorithm.group_prior.table.log()[:, batch.attribute].T
    torch.testing.assert_close(algorithm(batch, 9.0).loss, cross_entropy(logits + correction, batch.label))


@pytest.mark.parametrize("prior", ["cell", "algorithm-1", "uniform"])
def test_the_product_prior_needs_a_joint_probability(prior: str, table, build) -> None:
    with pytest.raises(InputError, match=r"mixup_prior=product.*prior=joint"):
        build("LC", table, mixup_prior="product", prior=prior)


# Labels that go with several attribute values


def clustered_fit(cls: type[Algorithm], table: DataTable, folder: Path, epochs: int, **options: Any) -> Fit:
    options = {"correlation": "known", "biased_input_dropout": 0.0, **options}
    algorithm = cls(lambda: MLP(table.info, hidden=(16,)), table.info, seed=1, **options)
    algorithm.check_epochs(epochs)
    config = TrainingConfig(epochs=epochs, batch_size=32, learning_rate=1e-2, seed=1)
    fit = Fit(algorithm, table, config, Fabric(accelerator="cpu"), folder / "resume.pt", Display())
    fit.run()
    return fit


@pytest.mark.parametrize("cls", [LC, Reweighting])
def test_clusters_tell_the_attribute_values_of_a_label_apart(cls: type[Algorithm], make_table, tmp_path) -> None:
    table = make_table(SEVERAL, train=600)
    fit = clustered_fit(cls, table, tmp_path, 6, head_start_epochs=2.5, biased_epochs=3.0)
    assert fit.record.epochs_per_stage() == [3, 3]  # the head start in whole epochs; six in all, as asked for
    label, attribute = train_rows(table)
    found = fit.collect("train", fit.algorithm.diagnose)["estimated_attribute"]
    # The values of one label may be exchanged.
    agreement = []
    for values in ([0, 1], [2], [3, 4]):
        swapped = {value: other for value, other in zip(values, reversed(values), strict=True)}
        aligned = torch.isin(attribute, torch.tensor(values)) & (label == {0: 0, 2: 1, 3: 2}[values[0]])
        right = (found == attribute)[aligned].double().mean()
        other = (found == torch.tensor([swapped.get(int(a), int(a)) for a in attribute]))[aligned].double().mean()
        agreement.append(float(max(right, other)))
    assert min(agreement) > 0.9
    clusters = fit.algorithm.biased.clusters
    assert bool(clusters.fitted) and bool(clusters.visited.any()) and fit.algorithm.group_prior.table.shape == (3, 5)
    # Both values of label 0 hold many rows: with the table alone, one of them would have none.
    assert float(fit.algorithm.group_prior.table[0, :2].min()) > 0.08


def test_in_the_head_start_only_the_biased_network_trains(make_table, build, take_steps, predicted_rows) -> None:
    table = make_table(SEVERAL, train=600)
    algorithm = build("LC", table, correlation="known", head_start_epochs=1.0, biased_epochs=1.0)
    assert algorithm.num_stages == 2 and algorithm.begin_stage(0, None).epochs == 1
    robust, prior = weights(algorithm.network), algorithm.group_prior.table.clone()
    take_steps(algorithm, table)
    assert all(map(torch.equal, robust, weights(algorithm.network)))
    assert torch.equal(prior, algorithm.group_prior.table)
    algorithm.begin_stage(1, predicted_rows(algorithm, table))
    biased = weights(algorithm.biased.network)
    assert [group["name"] for group in algorithm.parameter_groups()] == ["network"]
    take_steps(algorithm, table)
    assert all(map(torch.equal, biased, weights(algorithm.biased.network)))  # its epochs count on from the head start
    assert not torch.equal(robust[-1], weights(algorithm.network)[-1])


def test_a_head_start_is_asked_for(make_table, build) -> None:
    table = make_table(SEVERAL)
    with pytest.raises(InputError, match=r"head_start_epochs is 0.*several attribute values"):
        build("LC", table, correlation="known", head_start_epochs=0.0)
    algorithm = build("LC", table, correlation="known", head_start_epochs=1.5)
    algorithm.check_epochs(3)
    with pytest.raises(InputError, match="head start of 2 epochs"):
        algorithm.check_epochs(2)


def test_features_are_asked_for(make_table) -> None:
    table = make_table(SEVERAL)
    with pytest.raises(InputError, match="`features` and a linear `head`"):
        LC(lambda: nn.Linear(12, 3), table.info, correlation="known")


@pytest.mark.parametrize("name", ["LC", "Reweighting", "GroupDRO", "StagedLC"])
def test_cross_fitted_networks_cannot_tell_several_values_apart(name: str, make_table, build) -> None:
    with pytest.raises(InputError, match="not comparable; take correlation=one-to-one"):
        build(name, make_table(SEVERAL), groups="cross-fitted", correlation="known")
