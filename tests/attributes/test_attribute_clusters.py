"""Pseudo-attributes by clustering, against what was planted and against loops over rows."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from logit_correction.attributes.attribute_clusters import AttributeClusters, Weights
from logit_correction.attributes.clusters import Clusters
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError

ONE_TO_MANY = Correlation.from_table([[0, 1], [2], [3]])
MANY_TO_MANY = Correlation.from_table([[0, 2], [1], [0, 2], [3]])


def planted(
    counts: dict[tuple[int, int], int], size: int = 12, noise: float = 0.1, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows whose direction tells attribute and label, and whose length tells nothing; counts by (label, attribute)."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.tensor([y for (y, _), count in counts.items() for _ in range(count)])
    attribute = torch.tensor([a for (_, a), count in counts.items() for _ in range(count)])
    order = torch.randperm(len(label), generator=generator)
    label, attribute = label[order], attribute[order]
    axes = torch.eye(size)
    points = axes[attribute] + 0.8 * axes[6 + label] + noise * torch.randn(len(label), size, generator=generator)
    return points * (0.5 + 4 * torch.rand(len(label), 1, generator=generator)), label, attribute


def same_up_to_names(found: Tensor, true: Tensor, values: list[int]) -> bool:
    renamed = [torch.tensor(new)[found] for new in _renamings(values, int(max(found.max(), true.max())) + 1)]
    return any(torch.equal(one, true) for one in renamed)


def _renamings(values: list[int], number: int) -> list[list[int]]:
    result = []
    for order in itertools.permutations(values):
        names = list(range(number))
        for old, new in zip(values, order, strict=True):
            names[old] = new
        result.append(names)
    return result


def test_a_colour_twenty_times_rarer_is_found_without_a_miss() -> None:
    features, label, attribute = planted({(0, 0): 800, (0, 1): 40, (1, 2): 300, (2, 3): 300})
    clusters = AttributeClusters(ONE_TO_MANY, 12)
    clusters.fit(features, label)
    share = clusters.within(features)[:, 0]
    assert torch.equal(share.argmax(1)[label == 0], attribute[label == 0])  # the larger one comes first
    assert float(share.gather(1, attribute[:, None])[label == 0].min()) > 0.99
    assert clusters.size.tolist() == [[800, 40, 0, 0], [0, 0, 300, 0], [0, 0, 0, 300]]


def test_rows_of_other_labels_are_told_by_their_colour_too() -> None:
    train, label, _ = planted({(0, 0): 300, (0, 1): 300, (1, 2): 300, (2, 3): 300})
    conflicting, _, attribute = planted({(1, 0): 20, (2, 0): 20, (1, 1): 20, (2, 1): 20}, seed=1)
    clusters = AttributeClusters(ONE_TO_MANY, 12)
    clusters.fit(train, label)
    assert same_up_to_names(clusters.within(conflicting)[:, 0].argmax(1), attribute, [0, 1])


@pytest.mark.parametrize("rare", [300, 15], ids=["even", "opposite proportions"])
def test_labels_with_the_same_values_share_their_clusters(rare: int) -> None:
    # The labels differ more than the attribute values do, so clusters of all rows would be the labels.
    features, label, attribute = planted({(0, 0): 300, (0, 2): rare, (2, 0): rare, (2, 2): 300, (1, 1): 99, (3, 3): 99})
    features = features + 6 * torch.eye(12)[6 + label] * features.norm(dim=1, keepdim=True) / 3
    clusters = AttributeClusters(MANY_TO_MANY, 12)
    clusters.fit(features, label)
    both = (label == 0) | (label == 2)
    share = clusters.within(features[both])
    torch.testing.assert_close(share[:, 0], share[:, 2], atol=0.02, rtol=0)
    assert same_up_to_names(share[:, 0].argmax(1), attribute[both], [0, 2])


@pytest.mark.parametrize("weights", ["seo", "size", "none"])
def test_the_shares_are_those_of_a_loop_over_rows(weights: Weights) -> None:
    features, label, _ = planted({(0, 0): 60, (0, 1): 20, (1, 2): 30, (2, 3): 30}, noise=0.5)
    clusters = AttributeClusters(ONE_TO_MANY, 12, weights=weights)
    clusters.fit(features, label)
    clusters.update(features, label, torch.linspace(0.1, 3.0, len(label)))
    w, center, variance = clusters.cluster_weights()[0].tolist(), clusters.center, clusters.variance.tolist()
    expected = torch.zeros(len(label), 3, 4)
    expected[:, 1, 2] = expected[:, 2, 3] = 1
    for row, z in enumerate(normalize(features, dim=1)):
        fits = [w[a] * math.exp(-float((z - center[a]).square().sum()) / (2 * variance[a])) for a in (0, 1)]
        expected[row, 0, :2] = torch.tensor(fits) / sum(fits)
    torch.testing.assert_close(clusters.within(features), expected, atol=1e-5, rtol=1e-4)


def test_the_variance_is_the_one_between_the_centres() -> None:
    # Much noise in one direction that tells nothing must not blur the border.
    features, label, _ = planted({(0, 0): 500, (0, 1): 500, (1, 2): 5, (2, 3): 5}, noise=0.05)
    clusters = AttributeClusters(ONE_TO_MANY, 12)
    clusters.fit(features, label)
    points = normalize(features, dim=1)[label == 0]
    first, second = clusters.center[:2]
    line = (first - second) / (first - second).norm()
    nearest = torch.stack([first, second])[(points @ line < (first + second) @ line / 2).long()]
    expected = ((points - nearest) @ line).square().mean()
    torch.testing.assert_close(clusters.variance[:2], expected.expand(2), rtol=1e-3, atol=0)


def test_the_weights_are_the_mean_losses_over_the_sizes_averaged_over_steps() -> None:
    features, label, attribute = planted({(0, 0): 60, (0, 1): 20, (1, 2): 10, (2, 3): 10})
    clusters = AttributeClusters(ONE_TO_MANY, 12, momentum=0.3)
    clusters.fit(features, label)
    assert clusters.cluster_weights()[0].tolist() == pytest.approx([1 / 60, 1 / 20, 0, 0])
    common, rare = ((label == 0) & (attribute == a) for a in (0, 1))
    rows = torch.cat([common.nonzero().flatten()[:4], rare.nonzero().flatten()[:2]])
    loss = torch.tensor([1.0, 2.0, 3.0, 4.0, 0.5, 1.5])
    # One cluster first: the other takes the label's mean loss, 2.5, until it has been seen.
    clusters.update(features[rows[:4]], label[rows[:4]], loss[:4])
    assert clusters.cluster_weights()[0].tolist() == pytest.approx([2.5 / 60, 2.5 / 20, 0, 0])
    clusters.update(features[rows], label[rows], loss)
    assert clusters.cluster_weights()[0].tolist() == pytest.approx([2.5 / 60, 1.0 / 20, 0, 0])
    clusters.update(features[rows], label[rows], 3 * loss)
    expected = [(0.7 * 2.5 + 0.3 * 7.5) / 60, (0.7 * 1.0 + 0.3 * 3.0) / 20, 0, 0]
    assert clusters.cluster_weights()[0].tolist() == pytest.approx(expected)


def test_weights_of_size_and_none() -> None:
    features, label, _ = planted({(0, 0): 60, (0, 1): 20, (1, 2): 10, (2, 3): 10})
    expectations: dict[Weights, list[float]] = {"size": [60, 20, 0, 0], "none": [1, 1, 0, 0]}
    for weights, expected in expectations.items():
        clusters = AttributeClusters(ONE_TO_MANY, 12, weights=weights)
        clusters.fit(features, label)
        clusters.update(features, label, torch.arange(100.0))
        assert clusters.cluster_weights()[0].tolist() == expected


@pytest.mark.parametrize("correlation", [ONE_TO_MANY, MANY_TO_MANY, Correlation.one_to_one(3)], ids=lambda c: c.kind)
def test_shares_sum_to_one_and_keep_to_the_table(correlation: Correlation) -> None:
    clusters = AttributeClusters(correlation, 5)
    generator = torch.Generator().manual_seed(0)
    features, label = torch.randn(80, 5, generator=generator), torch.arange(80) % correlation.num_labels
    inside = correlation.weights > 0
    before = clusters.within(features)
    torch.testing.assert_close(before, correlation.weights.float().expand_as(before))
    clusters.fit(features, label)
    share = clusters.within(torch.cat([features, 1e4 * features, torch.zeros(1, 5)]))
    assert share.shape == (161, *inside.shape)
    torch.testing.assert_close(share.sum(2), torch.ones(161, len(inside)))
    assert not bool(share[:, ~inside].any())
    assert bool((share[:, inside.sum(1) == 1].amax(2) == 1).all())
    posterior = correlation.posterior(torch.full((161, len(inside)), 1 / len(inside)), share)
    torch.testing.assert_close(posterior.sum(1), torch.ones(161))


@pytest.mark.parametrize("table", [[[0, 1], [1, 2]], [[0, 1], [1]], [[0, 1, 2], [0, 1]]])
def test_sets_that_overlap_partly_are_refused(table: list[list[int]]) -> None:
    with pytest.raises(InputError, match=r"labels 0 and 1 .* overlap but are not the same"):
        AttributeClusters(Correlation.from_table(table), 4)


def test_impossible_rows_and_options_are_refused() -> None:
    clusters = AttributeClusters(ONE_TO_MANY, 2)
    with pytest.raises(InputError, match="label 0 goes with 2 attribute values, but has 1 training rows"):
        clusters.fit(torch.rand(3, 2), torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match="not finite"):
        clusters.fit(torch.full((3, 2), torch.nan), torch.tensor([0, 0, 1]))
    with pytest.raises(ValueError, match="shape"):
        clusters.fit(torch.rand(3, 4), torch.tensor([0, 0, 1]))
    with pytest.raises(InputError, match="momentum"):
        AttributeClusters(ONE_TO_MANY, 2, momentum=0.0)
    with pytest.raises(InputError, match="weights"):
        AttributeClusters(ONE_TO_MANY, 2, weights="loss")  # type: ignore[arg-type]


def test_a_state_dict_brings_everything_back_and_the_seed_decides() -> None:
    features, label, _ = planted({(0, 0): 60, (0, 1): 20, (1, 2): 10, (2, 3): 10}, noise=0.6)
    first, second, third = (AttributeClusters(ONE_TO_MANY, 12, seed=5) for _ in range(3))
    state = torch.get_rng_state()
    for clusters in (first, second):
        clusters.fit(features, label)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first.center, second.center)
    first.update(features, label, torch.linspace(0.1, 3.0, len(label)))
    third.load_state_dict(first.state_dict())
    for clusters in (first, third):
        clusters.update(features[:7], label[:7], torch.ones(7))
    assert torch.equal(first.within(features), third.within(features))
    assert not torch.equal(second.within(features), third.within(features))


def test_several_processes_count_the_losses_of_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    features, label, _ = planted({(0, 0): 60, (0, 1): 20, (1, 2): 10, (2, 3): 10})
    loss, whole = torch.linspace(0.1, 3.0, 100), AttributeClusters(ONE_TO_MANY, 12)
    whole.fit(features, label)
    parts, shares = [copy.deepcopy(whole) for _ in range(2)], [slice(0, 70), slice(70, 100)]
    whole.update(features, label, loss)
    sums: list[Tensor] = []
    for answer in (lambda value: sums.append(value) or value, lambda value: torch.stack(sums).sum(dim=0)):
        monkeypatch.setattr("logit_correction.attributes.attribute_clusters.sum_over_processes", answer)
        again = copy.deepcopy(parts)
        for clusters, share in zip(again, shares, strict=True):
            clusters.update(features[share], label[share], loss[share])
    for clusters in again:
        torch.testing.assert_close(clusters.cluster_weights(), whole.cluster_weights())


def test_a_step_reads_no_value_on_the_host() -> None:
    clusters = AttributeClusters(MANY_TO_MANY, 5).to("meta")
    features, label = torch.empty(6, 5, device="meta"), torch.empty(6, dtype=torch.long, device="meta")
    clusters.update(features, label, torch.empty(6, device="meta"))
    assert clusters.within(features).shape == (6, 4, 4)


def test_half_precision_around_it_does_not_blur_the_border() -> None:
    features, label, _ = planted({(0, 0): 60, (0, 1): 60, (1, 2): 10, (2, 3): 10}, noise=0.3)
    clusters = AttributeClusters(ONE_TO_MANY, 12)
    clusters.fit(features, label)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = clusters.within(features)
    assert torch.equal(inside, clusters.within(features))


def test_where_no_losses_are_seen_weights_of_losses_are_refused() -> None:
    heads = CrossFitted(view="inputs")
    assert Clusters(heads).weights == "size" and Clusters().weights == "seo"
    with pytest.raises(InputError, match="weights=seo needs losses"):
        Clusters(CrossFitted(view="inputs"), weights="seo")
    with pytest.raises(InputError, match="momentum concerns weights=seo, not size"):
        Clusters(CrossFitted(view="inputs"), momentum=0.5)
