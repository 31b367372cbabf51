"""What every attribute estimator has: a table of settled estimates, groups that are counted, a state."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator, Estimate
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, DataInfo, TrainingRows

INFO = DataInfo(num_labels=2, num_rows=6, input_shape=(4,))
LABEL, ATTRIBUTE = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, -1, 1, 1, 0])


class Told(AttributeEstimator):
    """Says what it was told."""

    def __init__(self, attribute: Tensor = ATTRIBUTE, own: Tensor | None = None) -> None:
        super().__init__()
        self.attribute, self.own = attribute, own

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self.attribute, self.own

    def describe(self) -> str:
        return "what it was told"


def ready(estimator: Told | None = None) -> Told:
    estimator = estimator or Told()
    method = ERM(lambda: MLP(INFO, hidden=(4,)), INFO)
    estimator.attach(method.build, lambda: MLP(INFO, hidden=(4,)), INFO, 0)
    estimator.setup(TrainingRows(LABEL))
    estimator.finish(None)
    return estimator


def batch(*rows: int) -> Batch:
    index = torch.tensor(rows)
    return Batch(torch.zeros(len(index), 4), LABEL[index], index)


def test_settled_estimates_are_looked_up_by_the_rows_index() -> None:
    estimator, randomness = ready(), StepRandomness(0)
    found = estimator(batch(5, 2, 0, 2), 3.0, randomness)
    assert found.attribute.tolist() == [0, -1, 0, -1]
    assert (found.posterior, found.loss, found.features, found.probability) == (None, None, None, None)
    assert randomness.count == 0  # nothing is drawn


def test_before_anything_is_known_no_row_has_an_attribute() -> None:
    estimator = Told()
    estimator.attach(ERM(lambda: MLP(INFO), INFO).build, lambda: MLP(INFO), INFO, 0)
    assert estimator(batch(0, 3), 0.0, StepRandomness(0)).attribute.tolist() == [-1, -1]


def test_unknown_rows_are_in_no_group() -> None:
    assert ready().group_counts().tolist() == [[1, 1], [1, 2]]
    assert ready(Told(torch.full((6,), -1))).group_counts().tolist() == [[0, 0], [0, 0]]


def test_what_is_believed_of_rows() -> None:
    own = torch.tensor([0.9, 0.2, 0.5, 0.8, 0.7, 0.1])
    found = ready(Told(own=own)).diagnose(batch(1, 2, 5))
    assert found["estimated_attribute"].tolist() == [1, -1, 0]
    assert found["minority"].tolist() == [True, False, True]  # an unknown row counts as none
    torch.testing.assert_close(found["label_probability"], own[[1, 2, 5]])


def test_the_state_brings_the_estimates_back() -> None:
    estimator, other = ready(), Told()
    estimator.evidence, estimator.abstained, estimator.stage = {"verdict": "none found", "signs": []}, True, 2
    other.attach(ERM(lambda: MLP(INFO), INFO).build, lambda: MLP(INFO), INFO, 0)
    file = io.BytesIO()
    torch.save(estimator.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.row_attribute, ATTRIBUTE)
    assert (other.evidence, other.abstained, other.stage) == ({"verdict": "none found", "signs": []}, True, 2)


def test_an_estimator_has_one_value_for_each_label_no_stage_and_no_features_unless_it_says_otherwise() -> None:
    estimator = ready()
    assert estimator.num_attributes == 2 and estimator.attribute_names is None
    assert estimator.settled and not estimator.needs_attributes and not estimator.trains_network
    assert estimator.num_stages == 0 and estimator.parameter_groups() == [] and estimator.warnings() == []
    assert estimator.feature_size() == 0
    with pytest.raises(InputError, match="Told has no features to cluster: take Online with head_start_epochs"):
        estimator.keep_features()
    with pytest.raises(InputError, match="Told has no stage"):
        estimator.begin_stage(0, None)


def test_the_known_correlation_is_asked_for_where_there_is_none() -> None:
    assert INFO.chosen_correlation("one-to-one") == Correlation.one_to_one(2)
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        INFO.chosen_correlation("known")
    table = Correlation.from_table([[0, 1], [2]])
    known = DataInfo(2, 6, (4,), num_attributes=3, correlation=table)
    assert known.chosen_correlation("known") == table


def test_the_commonest_value_is_a_labels_majority() -> None:
    label, attribute = torch.tensor([0, 0, 0, 0, 1, 1, 1]), torch.tensor([2, 2, 1, -1, -1, -1, 1])
    found = Correlation.counted(label, attribute, num_labels=2, num_attributes=3)
    assert found.to_table() == [[2], [1]] and found.num_attributes == 3


def test_an_estimate_is_an_attribute_and_nothing_else_unless_told() -> None:
    found: Any = Estimate(torch.tensor([1]))
    names = ("posterior", "label_probability", "loss", "features", "probability")
    assert [getattr(found, name) for name in names] == [None] * 5
