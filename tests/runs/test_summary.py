"""What a run tells of its training rows."""

from __future__ import annotations

import pytest

from logit_correction.attributes.auto import Auto
from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.clusters import Clusters
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.given import Given
from logit_correction.attributes.online import Online
from logit_correction.evaluation.report import EstimatedMinority
from logit_correction.runs.write import warn_of_minority


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "no training row"), (1, None), (50, None), (51, "51 of 100 training rows"), (100, "100 of 100")],
)
@pytest.mark.parametrize("estimator", [None, Online(), Given(column="scanner")])
def test_an_estimate_that_tells_nothing_is_warned_of(
    count: int, told: str | None, estimator: AttributeEstimator | None
) -> None:
    warnings = warn_of_minority(EstimatedMinority(count=count), 100, estimator)
    assert len(warnings) == (told is not None) and all(str(told) in warning for warning in warnings)


@pytest.mark.parametrize(
    ("estimator", "option"),
    [
        (Online(), "shorter --method.attributes.epochs"),
        (CrossFitted(), "--method.attributes.input_dropout"),
        (CrossFitted(view="colour"), "--method.attributes.view VIEW"),
        (Clusters(), "--method.attributes.attributes.epochs"),
        (Auto(), "--shortcut VIEW"),
    ],
)
def test_the_warning_names_options_that_there_are(estimator: AttributeEstimator, option: str) -> None:
    (warning,) = warn_of_minority(EstimatedMinority(count=0), 100, estimator)
    assert option in warning and "biased_epochs" not in warning


@pytest.mark.parametrize("estimator", [Auto(), CrossFitted(view="colour"), Given(column="scanner")])
def test_no_biased_network_is_named_where_there_is_none(estimator: AttributeEstimator) -> None:
    assert all(
        "biased" not in text.replace("bias-", "")
        for text in warn_of_minority(EstimatedMinority(count=0), 100, estimator)
    )


def test_who_abstained_is_not_warned_of() -> None:
    estimator = Auto()
    estimator.abstained = True
    assert warn_of_minority(EstimatedMinority(count=0), 100, estimator) == []


def test_a_method_without_an_estimate_is_not() -> None:
    assert warn_of_minority(None, 100, None) == []
