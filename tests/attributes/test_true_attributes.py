"""The oracle: the attribute labels of the training rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from logit_correction.attributes.true_attributes import TrueAttributes
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.types import DataInfo, TrainingRows


def test_the_attributes_are_those_of_the_rows(table, prepared, all_rows) -> None:
    estimator = prepared(TrueAttributes(), table)
    assert estimator.needs_attributes and estimator.settled and estimator.num_stages == 0
    assert torch.equal(estimator.row_attribute, table.attribute[table.split["train"]])
    assert torch.equal(estimator.group_counts().long(), table.group_counts("train"))
    assert estimator.attribute_names == ["attribute 0", "attribute 1", "attribute 2"]
    assert estimator.diagnose(all_rows(table)) == {}  # what is known needs no report
    assert "attribute labels" in estimator.describe()


def test_the_majority_is_that_of_the_data_source(make_table, prepared) -> None:
    table = make_table(Correlation.from_table([[0, 1], [2], [3, 4]]))
    estimator = prepared(TrueAttributes(), table)
    assert estimator.correlation == table.correlation and estimator.num_attributes == 5


def test_without_a_known_correlation_the_commonest_value_is_the_majority() -> None:
    info = DataInfo(num_labels=2, num_rows=9, input_shape=(4,), num_attributes=3)
    estimator = TrueAttributes()
    estimator.attach(ERM(lambda: MLP(info), info).build, lambda: MLP(info), info, 0)
    assert estimator.num_attributes == 3
    label, attribute = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [2, 2, 1, 2, 0, 0, 1, 0, 2]])
    estimator.setup(TrainingRows(label, attribute))
    assert estimator.correlation.to_table() == [[2], [0]]


@pytest.mark.parametrize("known", [False, True], ids=["none", "some unknown"])
def test_attributes_that_are_not_there_are_asked_for(known: bool, table, attached) -> None:
    estimator = attached(TrueAttributes(), replace(table, attribute=table.attribute.clamp_min(0)))
    attribute = torch.tensor([0, 1, -1]) if known else None
    with pytest.raises(InputError, match=r"TrueAttributes needs the attribute of every training row.*TrainingRows"):
        estimator.setup(TrainingRows(torch.tensor([0, 1, 2]), attribute))
