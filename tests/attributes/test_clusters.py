"""LC+: several attribute values of one label are separated, against what was planted and against loops over rows."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from logit_correction import Clusters, Online
from logit_correction.attributes.clusters import find_labels_by_shared_attributes
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import Correlation, DataInfo

from .conftest import attach_estimator, build_training_batch, train_estimator

SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])
ONE_TO_MANY = Correlation.from_table([[0, 1], [2], [3]])
MANY_TO_MANY = Correlation.from_table([[0, 2], [1], [0, 2], [3]])


def compute_lowest_agreement(estimated: Tensor, table: DataTable) -> float:
    """The least share of a label's aligned rows whose value is found; values of one label may be exchanged."""
    rows = table.split["train"]
    label = table.label[rows]
    attribute = table.attribute[rows]
    shares = []
    for y, values in enumerate(SEVERAL.to_table()):
        aligned = (label == y) & torch.isin(attribute, torch.tensor(values))
        swapped = torch.tensor([{v: o for v, o in zip(values, values[::-1])}.get(a, a) for a in attribute.tolist()])  # noqa: B905
        shares.append(
            max(float((estimated == candidate)[aligned].double().mean()) for candidate in (attribute, swapped))
        )
    return min(shares)


@pytest.mark.parametrize("epochs", [None, 3], ids=["beside", "ahead"])
def test_clusters_separate_the_values_of_a_label_and_are_restored_from_state(epochs: int | None, make_table) -> None:
    table = make_table(SEVERAL, train=600)
    estimator = train_estimator(Clusters(Online(head_start_epochs=3, epochs=epochs)), table)
    batch = build_training_batch(table)
    assert estimator.is_static is (epochs == 3) and estimator.num_attributes == 5
    estimate = estimator(batch, 0.0, StepRandomness(0))
    assert compute_lowest_agreement(estimate.attribute, table) > 0.9
    if estimator.is_static:
        # Both values of label 0 hold many rows: with the table alone, one of them would have none.
        assert float(estimator.count_groups()[0, :2].min()) > 50 and estimate.loss is None
    else:
        torch.testing.assert_close(estimate.posterior.sum(1), torch.ones(600))
        assert estimate.loss.requires_grad
    fresh = attach_estimator(Clusters(Online(head_start_epochs=3, epochs=epochs)), table)
    fresh.load_state_dict(estimator.state_dict())
    assert torch.equal(fresh.row_attribute, estimator.row_attribute) and torch.equal(fresh.center, estimator.center)


# The clusters


def draw_clustered_rows(
    counts: dict[tuple[int, int], int], noise: float = 0.1, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows whose direction shows attribute and label, and whose length does not; counts by (label, attribute)."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.tensor([y for (y, _), count in counts.items() for _ in range(count)])
    attribute = torch.tensor([a for (_, a), count in counts.items() for _ in range(count)])
    order = torch.randperm(len(label), generator=generator)
    label = label[order]
    attribute = attribute[order]
    axes = torch.eye(12)
    points = axes[attribute] + 0.8 * axes[6 + label] + noise * torch.randn(len(label), 12, generator=generator)
    return points * (0.5 + 4 * torch.rand(len(label), 1, generator=generator)), label, attribute


def equals_up_to_renaming(estimated: Tensor, true: Tensor, values: list[int], number: int) -> bool:
    names = [list(range(number)) for _ in itertools.permutations(values)]
    for new, order in zip(names, itertools.permutations(values), strict=True):
        for old, renamed in zip(values, order, strict=True):
            new[old] = renamed
    return any(torch.equal(torch.tensor(new)[estimated], true) for new in names)


def fit_clusters(correlation: Correlation, features: Tensor, label: Tensor, epochs: int | None = 1) -> Clusters:
    """Clusters of these features, with a network that trains on or, by default, one that is frozen."""
    info = DataInfo(correlation.num_labels, len(label), (4,), correlation=correlation)
    clusters = Clusters(Online(head_start_epochs=1, epochs=epochs))
    clusters.attach(lambda network, role: network(), lambda: MLP(info, hidden=[features.shape[1]]), info, 5)
    clusters.fit_clusters(features, label)
    return clusters


def test_clusters_find_a_value_twenty_times_rarer_also_in_rows_of_other_labels() -> None:
    counts = {(0, 0): 800, (0, 1): 40, (1, 2): 300, (2, 3): 300, (1, 0): 20, (2, 0): 20, (1, 1): 20, (2, 1): 20}
    features, label, attribute = draw_clustered_rows(counts)
    alike = attribute < 2  # rows that look like the label 0
    sure = one_hot(torch.where(alike, 0, label), 3).float()
    posterior = fit_clusters(ONE_TO_MANY, features, label).compute_posterior(torch.cat([sure, features], dim=1))
    assert torch.equal(posterior.argmax(1)[label == 0], attribute[label == 0])  # the larger one comes first
    assert equals_up_to_renaming(posterior.argmax(1)[alike], attribute[alike], [0, 1], 4)


def test_labels_that_share_attributes_are_clustered_together() -> None:
    counts = {(0, 0): 100, (0, 2): 50, (1, 1): 40, (2, 0): 60, (2, 2): 90, (3, 3): 40}
    features, label, attribute = draw_clustered_rows(counts)
    clusters = fit_clusters(MANY_TO_MANY, features, label)
    posterior = clusters.compute_posterior(torch.cat([one_hot(label, 4).float(), features], dim=1))
    torch.testing.assert_close(posterior.sum(1), torch.ones(len(label)))
    assert equals_up_to_renaming(posterior.argmax(1), attribute, [0, 2], 4)


def test_impossible_rows_and_correlations_are_refused() -> None:
    for table in ([[0, 1], [1, 2]], [[0, 1], [1]], [[0, 1, 2], [0, 1]]):
        with pytest.raises(InputError, match=r"overlap .* but are not the same"):
            find_labels_by_shared_attributes(Correlation.from_table(table))
    with pytest.raises(InputError, match="label 0 has 2 attribute values, but 1 rows"):
        fit_clusters(ONE_TO_MANY, torch.rand(3, 12), torch.tensor([0, 1, 2]))
