"""Cross-fitted learners in the loop, heads on views and their rounds, options that do not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from logit_correction import CrossFitted
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.methods.erm import ERM
from logit_correction.networks.small import MLP
from logit_correction.types import DataInfo, TrainingRows
from logit_correction.views.base import ViewInputs

from .conftest import all_rows, attached, prepared

# Networks


def test_the_estimates_are_the_argmax_of_the_held_out_posteriors(make_table) -> None:
    for correlation in (Correlation.one_to_one(3), Correlation.from_table([[0], [0], [1]])):
        table = make_table(correlation)
        estimator = prepared(CrossFitted(correlation="known"), table)
        probability, batch = estimator.collect(all_rows(table)).detach(), all_rows(table)
        assert torch.equal(estimator.row_attribute, correlation.posterior(probability).argmax(1))
        torch.testing.assert_close(estimator.row_posterior, correlation.posterior(probability))
        seen = torch.stack([network(batch.inputs).softmax(1) for network in estimator.networks]).mean(0)
        torch.testing.assert_close(estimator.predict(batch.inputs).exp(), seen)  # of new rows all networks tell


# Views


def test_heads_on_a_view_tell_the_planted_attribute(make_table) -> None:
    table = make_table(train=600)
    estimator = prepared(CrossFitted(view="my_parts.Tail"), table)
    assert not estimator.trains_network and estimator.num_stages == 0 and not list(estimator.parameters())
    attribute, label = table.attribute[table.split["train"]], all_rows(table).label
    right = (estimator.row_attribute == attribute).double()
    assert float(right.mean()) > 0.97 and float(right[attribute != label].mean()) > 0.9
    assert estimator.describe() == "heads on my_parts.Tail, cross-fitted"


def test_rounds_on_a_view_forget_what_is_known_of_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    # One number tells the attribute well, four tell the label a little.
    label, generator = torch.arange(800) % 2, torch.Generator().manual_seed(0)
    attribute = torch.where(torch.rand(800, generator=generator) < 0.15, 1 - label, label)
    values = torch.randn(800, 5, generator=generator) + 0.7 * label[:, None]
    values[:, 0] += 5 * attribute - 0.7 * label
    info, recall, told = DataInfo(num_labels=2, num_rows=800, input_shape=(5,)), [], []
    for rounds in (0, 3):
        monkeypatch.setattr("logit_correction.attributes.heads.ROUNDS", rounds)
        estimator = CrossFitted(view="inputs")
        estimator.attach(ERM(lambda: MLP(info), info).build, lambda: MLP(info), info, 0)
        rows = ViewInputs(800, lambda rows: values[rows])
        estimator.setup(TrainingRows(label, view_inputs=rows, report=told.append))
        assert len(told) == (2 if rounds else 0)  # long work is done later
        estimator.finish(None)
        recall.append(float((estimator.row_attribute == attribute)[attribute != label].double().mean()))
    assert recall[1] > recall[0] + 0.1
    assert told[2:] == ["looking at inputs", *(f"estimating the attribute, round {i} of 4" for i in range(1, 5))]


# What is refused


def test_what_does_not_fit_the_data_is_refused_before_any_work(table) -> None:
    estimator = attached(CrossFitted(view="inputs"), table)
    with pytest.raises(InputError, match=r"views need the inputs of all training rows: give TrainingRows\.view_inputs"):
        estimator.setup(TrainingRows(table.label[table.split["train"]]))
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        CrossFitted(correlation="known").attach(nn.Identity, nn.Identity, DataInfo(2, 4, (7,)), 0)
