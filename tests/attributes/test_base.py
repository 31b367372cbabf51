"""What every estimator has: settled estimates that are looked up, groups that are counted, a state; the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from logit_correction import TrueAttributes
from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.seeds import StepRandomness
from logit_correction.types import Batch, Correlation, DataInfo, TrainingRows

from ..conftest import FixedAttributes
from .conftest import attach_estimator, train_estimator

INFO = DataInfo(num_labels=2, num_rows=6, input_shape=(4,))
LABEL = torch.tensor([0, 0, 0, 1, 1, 1])
ATTRIBUTE = torch.tensor([0, 1, -1, 1, 1, 0])


def build_estimator(estimator: Any = None, info: DataInfo = INFO, finish: bool = True) -> Any:
    estimator = estimator or FixedAttributes(ATTRIBUTE)
    estimator.attach(ERM(lambda: MLP(info), info).build, lambda: MLP(info), info, 0)
    if finish:
        estimator.setup(TrainingRows(LABEL))
        estimator.finish(None)
    return estimator


def build_batch(*rows: int) -> Batch:
    index = torch.tensor(rows)
    return Batch(torch.zeros(len(index), 4), LABEL[index], index)


def test_static_estimates_are_looked_up_by_row_index() -> None:
    randomness = StepRandomness(0)
    estimate = build_estimator()(build_batch(5, 2, 0, 2), 3.0, randomness)
    assert estimate.attribute.tolist() == [0, -1, 0, -1] and randomness.count == 0  # nothing is drawn
    assert (estimate.posterior, estimate.label_probability, estimate.loss) == (None,) * 3
    assert build_estimator(finish=False)(build_batch(0, 3), 0.0, randomness).attribute.tolist() == [-1, -1]


@pytest.mark.parametrize("attribute", [ATTRIBUTE.numpy(), ATTRIBUTE[:5], ATTRIBUTE + 1, ATTRIBUTE - 1, ATTRIBUTE / 2])
def test_invalid_estimates_are_refused_by_class_name(attribute: Any) -> None:
    with pytest.raises(
        InputError, match=r"FixedAttributes\.assign_training must return .* \(6,\), from 0 to 1, -1 where unknown"
    ):
        build_estimator(FixedAttributes(attribute))


def test_true_attributes_reads_the_attributes_of_the_rows(table) -> None:
    estimator = train_estimator(TrueAttributes(), table)
    assert estimator.needs_attributes and torch.equal(estimator.row_attribute, table.attribute[table.split["train"]])
    assert torch.equal(estimator.count_groups().long(), table.count_groups("train"))
    assert estimator.attribute_names == ["attribute 0", "attribute 1", "attribute 2"]
    assert estimator.correlation == table.correlation
    attach_estimator(TrueAttributes(), replace(table, attribute=table.attribute.clamp_min(0)))
    for attribute in (None, torch.tensor([0, 1, -1])):
        with pytest.raises(InputError, match=r"TrueAttributes needs the attribute of every row"):
            estimator.setup(TrainingRows(torch.tensor([0, 1, 2]), attribute))


def test_most_frequent_attribute_is_the_majority_without_a_known_correlation() -> None:
    estimator = build_estimator(TrueAttributes(), DataInfo(2, 9, (4,), num_attributes=3), finish=False)
    label, attribute = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [2, 2, 1, 2, 0, 0, 1, 0, 2]])
    estimator.setup(TrainingRows(label, attribute))
    assert estimator.correlation == Correlation.from_table([[2], [0]], 3)
