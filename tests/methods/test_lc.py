"""Logit correction against plainer programs that must come to the same weights."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.data.table import DataTable
from logit_correction.finding import Finding
from logit_correction.functional import group_mixup, ramp_up_mixing_strength
from logit_correction.losses import GroupPrior
from logit_correction.methods.lc import LC
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch

from ..conftest import copy_tensors, find_differing_tensors

#: Both networks are trained side by side from the first step to the last, as in the paper.
PLAIN: dict[str, Any] = {
    "attributes": {"name": "Online"},
    "prior": {"name": "Moving", "estimator": "cell", "momentum": 0.9, "floor": 1e-3},
    "mixing": {"name": "GroupMixUp"},
}


class AbstainingEstimator(AttributeEstimator):
    """Finds nothing to correct."""

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        self.finding = Finding("none found")
        return torch.full((self.info.num_rows,), -1)

    def describe(self) -> str:
        return "nowhere"


class UnknownEstimator(AbstainingEstimator):
    """Knows no row's attribute, but does not say that there is nothing to correct."""

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        return torch.full((self.info.num_rows,), -1)


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "Online", "strength": 0.0, "mixing": "NoMixing"},
        {"attributes": {"name": "Online", "head_start_epochs": 1}, "strength": 0.0, "mixing": "NoMixing", "stage": 1},
        {"attributes": AbstainingEstimator},
        {"attributes": UnknownEstimator, "mixing": "NoMixing"},
    ],
    ids=["no strength", "no strength after a head start", "abstained", "all unknown"],
)
def test_lc_without_a_correction_equals_erm(options, table, build, take_steps) -> None:
    if isinstance(options["attributes"], type):
        options = {**options, "attributes": options["attributes"]()}
    erm = build("ERM", table, seed=2)
    lc = build("LC", table, seed=2, **options)
    for algorithm in (erm, lc):
        take_steps(algorithm, table, epochs=4)
    assert find_differing_tensors(*(method.network.state_dict() for method in (erm, lc))) == []


def reference_biased_loss(logits: Tensor, label: Tensor) -> Tensor:
    """(1 - p^q) / q by its definition, with q = 0.7."""
    label_probability = logits.softmax(1).gather(1, label[:, None]).squeeze(1)
    return ((1 - label_probability**0.7) / 0.7).mean()


def train_reference(algorithm: LC, table: DataTable, batches, epochs: int, form: str) -> tuple[nn.Module, ...]:
    """Train copies of both networks with an optimiser each, step by step as the paper has it."""
    robust = copy.deepcopy(algorithm.network)
    biased = copy.deepcopy(algorithm.attributes.network)
    robust_optimizer = torch.optim.Adam(robust.parameters(), lr=1e-2)
    biased_optimizer = torch.optim.Adam(biased.parameters(), lr=1e-2)
    prior = GroupPrior(3, 3, estimator="cell", momentum=0.9)
    randomness = StepRandomness(algorithm.seed)
    for epoch in range(epochs):
        for number, batch in enumerate(batches(algorithm, table, epoch)):
            logits = biased(batch.inputs)
            biased_optimizer.zero_grad()
            reference_biased_loss(logits, batch.label).backward()
            biased_optimizer.step()

            probability = logits.detach().softmax(1)
            attribute = probability.argmax(1)
            prior.update(batch.label, probability)
            mixed = batch.inputs
            mixed_prior = prior.for_attribute(attribute)
            if form != "none":
                generator = randomness.next(torch.device("cpu"))
                ramp = ramp_up_mixing_strength(epoch + number / 3, 2)
                low, high = (1 - 2 * ramp, 1 - ramp) if form == "every-row" else (0.5, 1.0)
                weight = torch.empty(()).uniform_(low, high, generator=generator)
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
def test_lc_equals_reference_with_two_losses_and_two_optimizers(form: str, table, build, take_steps, batches) -> None:
    mixing = {"mixing": "NoMixing"} if form == "none" else {"mixing": {"name": "GroupMixUp", "rows": form}}
    algorithm = build("LC", table, **PLAIN | mixing)
    robust, biased, prior = train_reference(algorithm, table, batches, 3, form)
    take_steps(algorithm, table, epochs=3)
    pairs = [(algorithm.network, robust), (algorithm.attributes.network, biased), (algorithm.group_prior, prior)]
    for actual, expected in pairs:
        for key, value in copy_tensors(expected.state_dict()).items():
            torch.testing.assert_close(actual.state_dict()[key], value, rtol=1e-4, atol=2e-5)
    assert bool((prior.table > 0.02).any()) and bool(torch.isfinite(prior.table).all())


def test_lc_with_true_attributes_uses_the_counted_prior(table, build, batches) -> None:
    counted = {"name": "Counted", "smoothing": 0.5}
    algorithm = build("LC", table, attributes="TrueAttributes", prior=counted, mixing="NoMixing", strength=0.7)
    batch = next(batches(algorithm, table))
    counts = [[0.5] * 3 for _ in range(3)]
    rows = table.split["train"]
    for y, a in zip(table.label[rows].tolist(), table.attribute[rows].tolist(), strict=True):
        counts[y][a] += 1
    losses = []
    attribute = table.attribute[rows][batch.index]
    for i, logits in enumerate(algorithm.network(batch.inputs)):
        prior = torch.tensor([counts[y][int(attribute[i])] / (48 + 9 * 0.5) for y in range(3)])
        losses.append(cross_entropy(logits + 0.7 * prior.log(), batch.label[i]))
    torch.testing.assert_close(algorithm(batch, 0.0).loss, torch.stack(losses).mean())


def test_oversampling_draws_small_groups_more_often_and_weights_them_back(table, build) -> None:
    options = {"attributes": "TrueAttributes", "mixing": "NoMixing"}
    algorithm, plain = (build("LC", table, **options, oversampling=power) for power in (0.5, 0.0))
    plan = algorithm.begin_stage(0, None).sample_weight
    assert plain.begin_stage(0, None).sample_weight is None and plan is not None and plan.is_floating_point()
    rows = table.split["train"]
    expected = table.count_groups("train")[table.label[rows], table.attribute[rows]].double().rsqrt()
    torch.testing.assert_close(plan / plan.mean(), expected / expected.mean())
    assert float(plan.max() / plan.min()) > 2
    # The expected loss of a draw is the mean loss of all rows.
    expected_loss = torch.zeros((), dtype=torch.float64)
    for i in range(48):
        row_batch = Batch(table.inputs.fetch(rows[i : i + 1]), table.label[rows[i : i + 1]], torch.tensor([i]))
        expected_loss += plan[i] / plan.sum() * algorithm(row_batch, 0.0).loss.detach()
    mean_loss = plain(Batch(table.inputs.fetch(rows), table.label[rows], torch.arange(48)), 0.0).loss.detach()
    torch.testing.assert_close(expected_loss.float(), mean_loss)
