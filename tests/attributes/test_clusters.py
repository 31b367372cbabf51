"""LC+: several attribute values of one label told apart, against what was planted and against loops over rows."""

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

from .conftest import all_rows, attached, prepared

SEVERAL = Correlation.from_table([[0, 1], [2], [3, 4]])
ONE_TO_MANY = Correlation.from_table([[0, 1], [2], [3]])
MANY_TO_MANY = Correlation.from_table([[0, 2], [1], [0, 2], [3]])


def agreement(found: Tensor, table: DataTable) -> float:
    """The least share of a label's aligned rows whose value is found; values of one label may be exchanged."""
    rows = table.split["train"]
    label = table.label[rows]
    attribute = table.attribute[rows]
    shares = []
    for y, values in enumerate(SEVERAL.to_table()):
        aligned = (label == y) & torch.isin(attribute, torch.tensor(values))
        swapped = torch.tensor([{v: o for v, o in zip(values, values[::-1])}.get(a, a) for a in attribute.tolist()])  # noqa: B905
        shares.append(max(float((found == one)[aligned].double().mean()) for one in (attribute, swapped)))
    return min(shares)


@pytest.mark.parametrize("epochs", [None, 3], ids=["beside", "ahead"])
def test_the_values_of_a_label_are_told_apart_and_come_back_with_the_state(epochs: int | None, make_table) -> None:
    table = make_table(SEVERAL, train=600)
    estimator = prepared(Clusters(Online(head_start_epochs=3, epochs=epochs)), table)
    batch = all_rows(table)
    assert estimator.is_static is (epochs == 3) and estimator.num_attributes == 5
    found = estimator(batch, 0.0, StepRandomness(0))
    assert agreement(found.attribute, table) > 0.9
    if estimator.is_static:
        # Both values of label 0 hold many rows: with the table alone, one of them would have none.
        assert float(estimator.count_groups()[0, :2].min()) > 50 and found.loss is None
    else:
        torch.testing.assert_close(found.posterior.sum(1), torch.ones(600))
        assert found.loss.requires_grad
    fresh = attached(Clusters(Online(head_start_epochs=3, epochs=epochs)), table)
    fresh.load_state_dict(estimator.state_dict())
    assert torch.equal(fresh.row_attribute, estimator.row_attribute) and torch.equal(fresh.center, estimator.center)


# The clusters


def planted(counts: dict[tuple[int, int], int], noise: float = 0.1, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows whose direction tells attribute and label, and whose length tells nothing; counts by (label, attribute)."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.tensor([y for (y, _), count in counts.items() for _ in range(count)])
    attribute = torch.tensor([a for (_, a), count in counts.items() for _ in range(count)])
    order = torch.randperm(len(label), generator=generator)
    label = label[order]
    attribute = attribute[order]
    axes = torch.eye(12)
    points = axes[attribute] + 0.8 * axes[6 + label] + noise * torch.randn(len(label), 12, generator=generator)
    return points * (0.5 + 4 * torch.rand(len(label), 1, generator=generator)), label, attribute


def same_up_to_names(found: Tensor, true: Tensor, values: list[int], number: int) -> bool:
    names = [list(range(number)) for _ in itertools.permutations(values)]
    for new, order in zip(names, itertools.permutations(values), strict=True):
        for old, other in zip(values, order, strict=True):
            new[old] = other
    return any(torch.equal(torch.tensor(new)[found], true) for new in names)


def fitted(correlation: Correlation, features: Tensor, label: Tensor, epochs: int | None = 1) -> Clusters:
    """Clusters of these features, beside a network that trains on or, by default, one that stays as it is."""
    info = DataInfo(correlation.num_labels, len(label), (4,), correlation=correlation)
    clusters = Clusters(Online(head_start_epochs=1, epochs=epochs))
    clusters.attach(lambda network, role: network(), lambda: MLP(info, hidden=[features.shape[1]]), info, 5)
    clusters.fit_clusters(features, label)
    return clusters


def test_a_colour_twenty_times_rarer_is_found_without_a_miss_and_in_rows_of_other_labels_too() -> None:
    counts = {(0, 0): 800, (0, 1): 40, (1, 2): 300, (2, 3): 300, (1, 0): 20, (2, 0): 20, (1, 1): 20, (2, 1): 20}
    features, label, attribute = planted(counts)
    alike = attribute < 2  # rows that look like the label 0
    sure = one_hot(torch.where(alike, 0, label), 3).float()
    found = fitted(ONE_TO_MANY, features, label).compute_posterior(torch.cat([sure, features], dim=1))
    assert torch.equal(found.argmax(1)[label == 0], attribute[label == 0])  # the larger one comes first
    assert same_up_to_names(found.argmax(1)[alike], attribute[alike], [0, 1], 4)


def test_labels_that_share_their_values_are_clustered_together() -> None:
    counts = {(0, 0): 100, (0, 2): 50, (1, 1): 40, (2, 0): 60, (2, 2): 90, (3, 3): 40}
    features, label, attribute = planted(counts)
    clusters = fitted(MANY_TO_MANY, features, label)
    found = clusters.compute_posterior(torch.cat([one_hot(label, 4).float(), features], dim=1))
    torch.testing.assert_close(found.sum(1), torch.ones(len(label)))
    assert same_up_to_names(found.argmax(1), attribute, [0, 2], 4)


def test_impossible_rows_and_tables_are_refused() -> None:
    for table in ([[0, 1], [1, 2]], [[0, 1], [1]], [[0, 1, 2], [0, 1]]):
        with pytest.raises(InputError, match=r"overlap .* but are not the same"):
            find_labels_by_shared_attributes(Correlation.from_table(table))
    with pytest.raises(InputError, match="label 0 has 2 attribute values, but 1 rows"):
        fitted(ONE_TO_MANY, torch.rand(3, 12), torch.tensor([0, 1, 2]))
