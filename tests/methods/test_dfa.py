"""Disentangled feature augmentation: who learns from what, and what is swapped."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from logit_correction.errors import InputError
from logit_correction.methods.dfa import DFA
from logit_correction.seeds import StepRandomness
from logit_correction.types import TrainingRows

OPTIONS = {"lambda_dis": 3.0, "lambda_swap_b": 5.0, "lambda_swap": 0.5, "swap_from_epoch": 2.0, "q": 0.7}


def reference_gce(loss: torch.Tensor) -> torch.Tensor:
    return ((1 - torch.exp(-loss) ** 0.7) / 0.7).mean()


def has_gradient(module: nn.Module) -> bool:
    return any(p.grad is not None and bool(p.grad.any()) for p in module.parameters())


@pytest.mark.parametrize("epoch", [0.0, 9.0])
def test_each_loss_trains_its_own_encoder_only(epoch: float, table, build, batches) -> None:
    only_debiased = build("DFA", table, **OPTIONS | {"lambda_dis": 0.0, "lambda_swap_b": 0.0})
    network = only_debiased.network
    only_debiased(next(batches(only_debiased, table)), epoch).loss.backward()
    assert has_gradient(network.intrinsic) and has_gradient(network.intrinsic_head)
    assert not has_gradient(network.biased) and not has_gradient(network.biased_head)

    only_biased = build("DFA", table, **OPTIONS)
    network = only_biased.network
    only_biased.difficulty.forward = lambda index, *_: torch.zeros(len(index))
    only_biased(next(batches(only_biased, table)), epoch).loss.backward()
    assert has_gradient(network.biased) and has_gradient(network.biased_head)
    assert not has_gradient(network.intrinsic) and not has_gradient(network.intrinsic_head)


def test_swapped_features_keep_the_label_of_the_intrinsic_half(table, build, batches) -> None:
    algorithm = build("DFA", table, **OPTIONS)
    twin = build("DFA", table, **OPTIONS)
    batch = next(batches(algorithm, table))
    step = algorithm(batch, 2.0)

    network = twin.network
    inner = network.intrinsic(batch.inputs)
    outer = network.biased(batch.inputs)
    order = torch.rand(16, generator=StepRandomness(0).next(torch.device("cpu"))).argsort().tolist()
    assert sorted(order) == list(range(16)) and order != list(range(16))
    rows = [torch.cat([inner[i], outer[i]]) for i in range(16)]
    swapped = [torch.cat([inner[i], outer[order[i]]]) for i in range(16)]

    def compute_losses(head: nn.Module, features: list[torch.Tensor], labels: list[int]) -> torch.Tensor:
        return cross_entropy(head(torch.stack(features)), torch.tensor(labels), reduction="none")

    label = batch.label.tolist()
    plain = compute_losses(network.intrinsic_head, rows, label)
    biased = compute_losses(network.biased_head, rows, label)
    weight = twin.difficulty(batch.index, batch.label, biased, plain)
    intrinsic_losses = compute_losses(network.intrinsic_head, swapped, label)
    biased_losses = compute_losses(network.biased_head, swapped, [label[i] for i in order])
    expected = (weight * plain).mean() + 3.0 * reference_gce(biased)
    expected = expected + 0.5 * ((weight * intrinsic_losses).mean() + 5.0 * reference_gce(biased_losses))
    torch.testing.assert_close(step.loss, expected)
    torch.testing.assert_close(step.logs["loss_debiased_swapped"], (weight * intrinsic_losses).mean().detach())
    torch.testing.assert_close(step.logs["loss_biased_swapped"], reference_gce(biased_losses).detach())


def test_swapping_starts_after_a_fifth_of_the_training_by_default(table, build) -> None:
    def get_swap_epoch(algorithm: DFA, epochs: int) -> float:
        algorithm.setup(TrainingRows(table.label[table.split["train"]], epochs=epochs))
        return algorithm.swap_from_epoch

    algorithm = build("DFA", table)
    with_option = build("DFA", table, swap_from_epoch=2.0)
    assert get_swap_epoch(algorithm, 0) == 3  # a loop of one's own may not tell
    assert get_swap_epoch(algorithm, 100) == 20
    assert get_swap_epoch(with_option, 0) == get_swap_epoch(with_option, 100) == 2
    with pytest.raises(InputError, match=r"never.*swap_from_epoch"):
        get_swap_epoch(with_option, 2)
