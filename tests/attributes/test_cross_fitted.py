"""Cross-fitted networks in the loop."""

from __future__ import annotations

import torch

from logit_correction import CrossFitted
from logit_correction.types import Correlation

from .conftest import build_training_batch, train_estimator


def test_cross_fitted_estimates_are_the_argmax_of_held_out_posteriors(make_table) -> None:
    for correlation in (Correlation.one_to_one(3), Correlation.from_table([[0], [0], [1]])):
        table = make_table(correlation)
        estimator = train_estimator(CrossFitted(correlation="known"), table)
        probability = estimator.collect_outputs(build_training_batch(table)).detach()
        batch = build_training_batch(table)
        assert torch.equal(estimator.row_attribute, correlation.posterior(probability).argmax(1))
        torch.testing.assert_close(estimator.row_posterior, correlation.posterior(probability))
        mean_probability = torch.stack([network(batch.inputs).softmax(1) for network in estimator.networks]).mean(0)
        torch.testing.assert_close(
            estimator.predict_logits(batch.inputs).exp(), mean_probability
        )  # of new rows all networks tell
