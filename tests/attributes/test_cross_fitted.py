"""Cross-fitted networks in the loop, and options that do not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from logit_correction import CrossFitted
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.types import DataInfo

from .conftest import all_rows, prepared

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


# What is refused


def test_what_does_not_fit_the_data_is_refused_before_any_work() -> None:
    with pytest.raises(InputError, match="correlation=known needs a data source that knows"):
        CrossFitted(correlation="known").attach(nn.Identity, nn.Identity, DataInfo(2, 4, (7,)), 0)
