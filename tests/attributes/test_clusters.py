"""LC+: several attribute values of one label told apart, on top of another estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from logit_correction.attributes.clusters import Clusters
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.given import Given
from logit_correction.attributes.online import Online
from logit_correction.attributes.true_attributes import TrueAttributes
from logit_correction.correlation import Correlation
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.seeds import StepRandomness

SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])


def agreement(found: Tensor, table: DataTable) -> float:
    """The least share of a label's aligned rows whose value is found; values of one label may be exchanged."""
    rows = table.split["train"]
    label, attribute = table.label[rows], table.attribute[rows]
    shares = []
    for y, values in enumerate(SEVERAL.to_table()):
        aligned = (label == y) & torch.isin(attribute, torch.tensor(values))
        swapped = {value: other for value, other in zip(values, reversed(values), strict=True)}
        right = (found == attribute)[aligned].double().mean()
        other = (found == torch.tensor([swapped.get(int(a), int(a)) for a in attribute]))[aligned].double().mean()
        shares.append(float(max(right, other)))
    return min(shares)


@pytest.mark.parametrize(
    "inner",
    [Online(head_start_epochs=3), Online(head_start_epochs=3, epochs=3), CrossFitted(view="inputs", splits=1)],
    ids=["beside", "ahead", "heads on a view"],
)
def test_the_values_of_a_label_are_told_apart(inner: Any, make_table, prepared, all_rows) -> None:
    table = make_table(SEVERAL, train=600)
    estimator = prepared(Clusters(inner), table)
    assert estimator.settled is inner.settled and estimator.num_attributes == 5
    assert estimator.num_stages == inner.num_stages and estimator.trains_network is inner.trains_network
    found = estimator(all_rows(table), 0.0, StepRandomness(0))
    assert agreement(found.attribute, table) > 0.9
    seen = estimator.diagnose(all_rows(table))
    assert agreement(seen["estimated_attribute"], table) > 0.9
    assert torch.equal(seen["minority"], SEVERAL.is_minority(all_rows(table).label, seen["estimated_attribute"]))
    assert bool(estimator.clusters.fitted) and estimator.describe().endswith("told apart by clusters")
    if estimator.settled:
        assert torch.equal(found.attribute, estimator.row_attribute) and found.posterior is None
        # Both values of label 0 hold many rows: with the table alone, one of them would have none.
        assert float(estimator.group_counts()[0, :2].min()) > 50
    else:
        torch.testing.assert_close(found.posterior.sum(1), torch.ones(600))
        # The label's probability is divided, not changed.
        inside = found.posterior @ (SEVERAL.weights.float() > 0).float().T
        torch.testing.assert_close(inside, found.probability, rtol=1e-4, atol=1e-5)
        assert found.loss.requires_grad


def test_a_minority_value_counts_from_the_odds_of_the_heads_on(make_table, prepared, all_rows) -> None:
    table, counts = make_table(SEVERAL, train=600), []
    for odds in (1.0, 1e12):
        estimator = prepared(Clusters(CrossFitted(view="inputs", splits=1, odds=odds)), table)
        counts.append(int(SEVERAL.is_minority(all_rows(table).label, estimator.row_attribute).sum()))
    assert counts[0] > counts[1] == 0


def test_losses_reach_the_weights_of_the_clusters(make_table, prepared, all_rows) -> None:
    table = make_table(SEVERAL, train=600)
    estimator = prepared(Clusters(Online(head_start_epochs=2)), table)
    batch = all_rows(table)
    found = estimator(batch, 0.0, StepRandomness(0))
    before = estimator.clusters.cluster_weights()
    estimator.learn_from_losses(found, batch.label, torch.linspace(0.1, 3.0, 600))
    assert bool(estimator.clusters.visited.any())
    assert not torch.equal(estimator.clusters.cluster_weights(), before)
    settled = prepared(Clusters(Online(head_start_epochs=2, epochs=2)), table)
    found = settled(batch, 0.0, StepRandomness(0))
    settled.learn_from_losses(found, batch.label, torch.ones(600))
    assert not bool(settled.clusters.visited.any())  # nothing is estimated any more


def test_before_the_head_start_the_inner_estimator_trains_alone(make_table, attached) -> None:
    estimator = attached(Clusters(Online(head_start_epochs=2, schedule="none")), make_table(SEVERAL))
    assert estimator.num_stages == 1 and estimator.begin_stage(0, None).epochs == 2
    (group,) = estimator.parameter_groups()
    assert (group["name"], group["schedule"]) == ("biased_network", "none")
    assert not bool(estimator.clusters.fitted)


def test_by_default_the_inner_estimator_has_a_head_start(make_table, attached) -> None:
    estimator = attached(Clusters(), make_table(SEVERAL))
    assert estimator.inner.head_start_epochs == 2 and not estimator.settled


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (Online(), "head_start_epochs is 0.*give 1 or more"),
        (CrossFitted(), "features of cross-fitted networks are not comparable"),
        (Given(column="hint"), "Given has no features to cluster"),
        (TrueAttributes(), "TrueAttributes has no features to cluster"),
    ],
    ids=["Online without a head start", "networks", "Given", "TrueAttributes"],
)
def test_an_estimator_without_features_to_cluster_is_refused(inner: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Clusters(inner)


def test_a_momentum_concerns_weights_that_follow_the_losses() -> None:
    with pytest.raises(InputError, match="momentum concerns weights=seo, not size"):
        Clusters(Online(head_start_epochs=1), weights="size", momentum=0.5)
    assert Clusters(Online(head_start_epochs=1), momentum=0.5).momentum == 0.5


def test_features_and_a_known_correlation_are_asked_for(make_table, attached, table) -> None:
    with pytest.raises(InputError, match="`features` and a linear `head`"):
        attached(Clusters(), make_table(SEVERAL), network=lambda: nn.Linear(12, 3))
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        attached(Clusters(), replace(table, correlation=None))


def test_a_state_brings_clusters_of_a_views_features_back(make_table, attached, prepared) -> None:
    table = make_table(SEVERAL, train=200)
    made = prepared(Clusters(CrossFitted(view="inputs", splits=1, rounds=0)), table)
    fresh = attached(Clusters(CrossFitted(view="inputs", splits=1, rounds=0)), table)
    fresh.load_state_dict(made.state_dict())
    assert torch.equal(fresh.row_attribute, made.row_attribute)
    assert torch.equal(fresh.clusters.center, made.clusters.center)
