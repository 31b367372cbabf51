"""LC+: several attribute values of one label told apart, against what was planted and against loops over rows."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from logit_correction import Clusters, CrossFitted, Given, Online, TrueAttributes
from logit_correction.attributes.clusters import AttributeClusters, Weights
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.seeds import StepRandomness

from .conftest import all_rows, attached, prepared

SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])
ONE_TO_MANY = Correlation.from_table([[0, 1], [2], [3]])
MANY_TO_MANY = Correlation.from_table([[0, 2], [1], [0, 2], [3]])
COUNTS = {(0, 0): 60, (0, 1): 20, (1, 2): 10, (2, 3): 10}


# The estimator


def agreement(found: Tensor, table: DataTable) -> float:
    """The least share of a label's aligned rows whose value is found; values of one label may be exchanged."""
    rows = table.split["train"]
    label, attribute = table.label[rows], table.attribute[rows]
    shares = []
    for y, values in enumerate(SEVERAL.to_table()):
        aligned = (label == y) & torch.isin(attribute, torch.tensor(values))
        swapped = torch.tensor([{v: o for v, o in zip(values, values[::-1])}.get(a, a) for a in attribute.tolist()])  # noqa: B905
        shares.append(max(float((found == one)[aligned].double().mean()) for one in (attribute, swapped)))
    return min(shares)


@pytest.mark.parametrize(
    "inner",
    [Online(head_start_epochs=3), Online(head_start_epochs=3, epochs=3), CrossFitted(view="inputs", splits=1)],
    ids=["beside", "ahead", "heads on a view"],
)
def test_the_values_of_a_label_are_told_apart(inner: Any, make_table) -> None:
    table = make_table(SEVERAL, train=600)
    estimator, batch = prepared(Clusters(inner), table), all_rows(table)
    assert estimator.settled is inner.settled and estimator.num_attributes == 5
    assert estimator.num_stages == inner.num_stages and estimator.trains_network is inner.trains_network
    found, seen = estimator(batch, 0.0, StepRandomness(0)), estimator.diagnose(batch)
    assert agreement(found.attribute, table) > 0.9 and agreement(seen["estimated_attribute"], table) > 0.9
    if estimator.settled:
        assert torch.equal(found.attribute, estimator.row_attribute) and found.posterior is None
        # Both values of label 0 hold many rows: with the table alone, one of them would have none.
        assert float(estimator.group_counts()[0, :2].min()) > 50
    else:
        torch.testing.assert_close(found.posterior.sum(1), torch.ones(600))
        # The label's probability is divided, not changed.
        inside = found.posterior @ (SEVERAL.weights.float() > 0).float().T
        torch.testing.assert_close(inside, found.probability, rtol=1e-4, atol=1e-5)
        before = estimator.clusters.cluster_weights()
        estimator.learn_from_losses(found, batch.label, torch.linspace(0.1, 3.0, 600))
        assert found.loss.requires_grad and not torch.equal(estimator.clusters.cluster_weights(), before)


def test_a_state_brings_clusters_back_and_a_minority_value_counts_from_the_odds_of_the_heads_on(make_table) -> None:
    table, counts = make_table(SEVERAL, train=200), []
    for odds in (1.0, 1e12):
        made = prepared(Clusters(CrossFitted(view="inputs", splits=1, odds=odds)), table)
        counts.append(int(SEVERAL.is_minority(all_rows(table).label, made.row_attribute).sum()))
    assert counts[0] > counts[1] == 0
    fresh = attached(Clusters(CrossFitted(view="inputs", splits=1, odds=odds)), table)
    fresh.load_state_dict(made.state_dict())
    assert torch.equal(fresh.row_attribute, made.row_attribute)
    assert torch.equal(fresh.clusters.center, made.clusters.center)


@pytest.mark.parametrize(
    ("inner", "options", "words"),
    [
        (Online(), {}, "head_start_epochs is 0.*give 1 or more"),
        (CrossFitted(), {}, "features of cross-fitted networks are not comparable"),
        (Given(column="hint"), {}, "Given has no features to cluster"),
        (TrueAttributes(), {}, "TrueAttributes has no features to cluster"),
        (CrossFitted(view="inputs"), {"weights": "seo"}, "weights=seo needs losses"),
        (CrossFitted(view="inputs"), {"momentum": 0.5}, "momentum concerns weights=seo, not size"),
        ("Online", {"momentum": 0.0}, "momentum is 0"),
        ("Online", {"weights": "loss"}, "weights 'loss' is unknown: give seo, size or none"),
    ],
)
def test_what_cannot_be_clustered_and_impossible_options_are_refused(inner: Any, options: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Clusters(inner, **options)
    assert Clusters(CrossFitted(view="inputs")).weights == "size" and Clusters().weights == "seo"


# The clusters


def planted(counts: dict[tuple[int, int], int], noise: float = 0.1, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows whose direction tells attribute and label, and whose length tells nothing; counts by (label, attribute)."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.tensor([y for (y, _), count in counts.items() for _ in range(count)])
    attribute = torch.tensor([a for (_, a), count in counts.items() for _ in range(count)])
    order = torch.randperm(len(label), generator=generator)
    label, attribute, axes = label[order], attribute[order], torch.eye(12)
    points = axes[attribute] + 0.8 * axes[6 + label] + noise * torch.randn(len(label), 12, generator=generator)
    return points * (0.5 + 4 * torch.rand(len(label), 1, generator=generator)), label, attribute


def fitted(correlation: Correlation, features: Tensor, label: Tensor, **options: Any) -> AttributeClusters:
    clusters = AttributeClusters(correlation, **options)
    clusters.fit(features, label)
    return clusters


def same_up_to_names(found: Tensor, true: Tensor, values: list[int], number: int) -> bool:
    names = [list(range(number)) for _ in itertools.permutations(values)]
    for new, order in zip(names, itertools.permutations(values), strict=True):
        for old, other in zip(values, order, strict=True):
            new[old] = other
    return any(torch.equal(torch.tensor(new)[found], true) for new in names)


def test_a_colour_twenty_times_rarer_is_found_without_a_miss_and_in_rows_of_other_labels_too() -> None:
    features, label, attribute = planted({(0, 0): 800, (0, 1): 40, (1, 2): 300, (2, 3): 300})
    clusters = fitted(ONE_TO_MANY, features, label)
    share = clusters.within(features)[:, 0]
    assert torch.equal(share.argmax(1)[label == 0], attribute[label == 0])  # the larger one comes first
    assert clusters.size.tolist() == [[800, 40, 0, 0], [0, 0, 300, 0], [0, 0, 0, 300]]
    conflicting, _, attribute = planted({(1, 0): 20, (2, 0): 20, (1, 1): 20, (2, 1): 20}, seed=1)
    assert same_up_to_names(clusters.within(conflicting)[:, 0].argmax(1), attribute, [0, 1], 4)


@pytest.mark.parametrize("weights", ["seo", "size", "none"])
def test_shares_are_those_of_the_formula_row_by_row(weights: Weights) -> None:
    features, label, _ = planted(COUNTS, noise=0.5)
    clusters = fitted(ONE_TO_MANY, features, label, weights=weights)
    loss = torch.linspace(0.1, 3.0, 100)
    clusters.update(features, label, loss)
    nearest, points = clusters.within(features)[:, 0], normalize(features, dim=1)
    distance = (points.unsqueeze(1) - clusters.center[:2]).square().sum(2)
    member, weight = distance.argmin(1), []
    for value in (0, 1):
        own = (label == 0) & (member == value)
        assert int(clusters.size[0, value]) == int(own.sum())
        by_kind = {"seo": loss[own].mean() / own.sum(), "size": own.sum().float(), "none": torch.tensor(1.0)}
        weight.append(by_kind[weights])
    expected = torch.stack(weight) * torch.exp(-distance / (2 * clusters.variance[0]))
    torch.testing.assert_close(nearest[:, :2], expected / expected.sum(1, keepdim=True), rtol=1e-3, atol=1e-5)


def test_losses_are_averaged_over_the_steps() -> None:
    features, label, attribute = planted(COUNTS)
    clusters, loss = fitted(ONE_TO_MANY, features, label), torch.where(attribute == 1, 1.0, 2.5)
    clusters.update(features, label, loss)
    clusters.update(features, label, 3 * loss)
    expected = [(0.7 * 2.5 + 0.3 * 7.5) / 60, (0.7 * 1.0 + 0.3 * 3.0) / 20, 0, 0]
    assert clusters.cluster_weights()[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("correlation", [ONE_TO_MANY, MANY_TO_MANY, Correlation.one_to_one(3)], ids=lambda c: c.kind)
def test_shares_sum_to_one_and_keep_to_the_table(correlation: Correlation) -> None:
    features = torch.randn(80, 5, generator=torch.Generator().manual_seed(0))
    clusters = fitted(correlation, features, torch.arange(80) % correlation.num_labels)
    inside = correlation.weights > 0
    share = clusters.within(torch.cat([features, 1e4 * features, torch.zeros(1, 5)]))
    torch.testing.assert_close(share.sum(2), torch.ones(161, len(inside)))
    assert not bool(share[:, ~inside].any()) and bool((share[:, inside.sum(1) == 1].amax(2) == 1).all())
    with torch.autocast("cpu", dtype=torch.bfloat16):  # does not blur the border
        assert torch.equal(clusters.within(features), share[:80])


def test_impossible_rows_and_tables_are_refused() -> None:
    for table in ([[0, 1], [1, 2]], [[0, 1], [1]], [[0, 1, 2], [0, 1]]):
        with pytest.raises(InputError, match=r"labels 0 and 1 .* overlap but are not the same"):
            AttributeClusters(Correlation.from_table(table))
    with pytest.raises(InputError, match="label 0 goes with 2 attribute values, but has 1 training rows"):
        fitted(ONE_TO_MANY, torch.rand(3, 2), torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match="not finite"):
        fitted(ONE_TO_MANY, torch.full((3, 2), torch.nan), torch.tensor([0, 0, 1]))


def test_several_processes_count_the_losses_of_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    features, label, _ = planted(COUNTS)
    loss, whole = torch.linspace(0.1, 3.0, 100), fitted(ONE_TO_MANY, features, label)
    parts, shares = [copy.deepcopy(whole) for _ in range(2)], [slice(0, 70), slice(70, 100)]
    whole.update(features, label, loss)
    sums: list[Tensor] = []
    for answer in (lambda value: sums.append(value) or value, lambda value: torch.stack(sums).sum(dim=0)):
        monkeypatch.setattr("logit_correction.attributes.clusters.sum_over_processes", answer)
        again = copy.deepcopy(parts)
        for clusters, share in zip(again, shares, strict=True):
            clusters.update(features[share], label[share], loss[share])
    for clusters in again:
        torch.testing.assert_close(clusters.cluster_weights(), whole.cluster_weights())


def test_a_step_reads_no_value_on_the_host() -> None:
    clusters = AttributeClusters(MANY_TO_MANY)
    clusters.center = torch.zeros(4, 5)
    clusters, features, label = clusters.to("meta"), torch.empty(6, 5, device="meta"), torch.empty(6, device="meta")
    clusters.update(features, label.long(), label)
    assert clusters.within(features).shape == (6, 4, 4)
