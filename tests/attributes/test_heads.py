"""Small heads on features: a row is predicted by heads that never saw it, and forget what they knew of its label."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from logit_correction.attributes.heads import HeadTraining, cross_fit, relabeled, train_head
from logit_correction.attributes.kept_heads import standardized

TRAINING = HeadTraining(epochs=4, learning_rate=1e-2)


def planted(rows: int = 400, rate: float = 0.1, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Features that tell the attribute well and the label a little; labels; attributes."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(rows) % 2
    attribute = torch.where(torch.rand(rows, generator=generator) < rate, 1 - label, label)
    features = torch.randn(rows, 4, generator=generator)
    features[:, 0] += 4 * attribute
    return standardized(features), label, attribute


def test_features_are_brought_to_one_scale_and_kept_within_bounds() -> None:
    features = torch.cat([torch.randn(500, 2) * torch.tensor([100.0, 1e-3]), torch.full((500, 1), 7.0)], dim=1)
    features[0, 0] = 1e9
    found = standardized(features)
    assert float(found.abs().max()) <= 8 and bool(found.isfinite().all())
    torch.testing.assert_close(found[:, 1].std(), torch.tensor(1.0))
    assert bool((found[:, 2] == 0).all())


@pytest.mark.parametrize("row", [0, 57, 99])
def test_a_row_is_predicted_by_heads_that_never_saw_it(row: int) -> None:
    features, label, _ = planted(100)
    plain = cross_fit(features, label, 2, TRAINING, splits=2, seed=3)
    changed = label.clone()
    changed[row] = 1 - label[row]
    again = cross_fit(features, changed, 2, TRAINING, splits=2, seed=3)
    assert torch.equal(plain[row], again[row])
    assert not torch.equal(plain, again)  # other rows are predicted by heads that did


def test_probabilities_of_splits_are_averaged_and_the_seed_decides() -> None:
    features, label, _ = planted(100)
    state = torch.get_rng_state()
    one, again, other = (cross_fit(features, label, 2, TRAINING, splits=3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(one.sum(1), torch.ones(100))


def test_heads_know_the_attribute_where_it_conflicts_with_the_label() -> None:
    features, label, attribute = planted()
    found = cross_fit(features, label, 2, HeadTraining(), splits=1).argmax(1)
    conflicting = attribute != label
    assert float((found == attribute)[conflicting].double().mean()) > 0.8
    assert float((found == attribute).double().mean()) > 0.93


def test_a_head_sees_its_own_rows_alone() -> None:
    features, label, _ = planted(60)
    rows = torch.arange(30)
    heads = []
    for others in (label, 1 - label):
        target = label.clone()
        target[30:] = others[30:]
        heads.append(train_head(features, target, rows, 2, TRAINING, seed=0))
    assert all(map(torch.equal, heads[0].state_dict().values(), heads[1].state_dict().values()))
    assert not heads[0].training


def test_few_rows_train_for_at_least_150_steps() -> None:
    assert HeadTraining(epochs=7).length(10) == 7
    for rows, size in ((10, 64), (300, 64), (20_000, 256)):
        length = HeadTraining().length(rows)
        assert HeadTraining().batch_size(rows) == size
        assert length >= 3 and length * -(-rows // size) >= 150
    assert HeadTraining().length(20_000) == 3


def test_a_row_gets_another_target_only_from_the_odds_on() -> None:
    probability = torch.tensor([[0.9, 0.05, 0.05], [0.2, 0.7, 0.1], [0.05, 0.9, 0.05], [0.01, 0.0, 0.99]])
    label = torch.tensor([1, 0, 1, 0])
    assert relabeled(probability, label, odds=10).tolist() == [0, 0, 1, 2]
    assert relabeled(probability, label, odds=1).tolist() == [0, 1, 1, 2]
