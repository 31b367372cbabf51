"""What scikit-learn asks of every estimator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from logit_correction import LogitCorrectionClassifier

#: Checked in every run of the tests, since they train nothing or next to nothing; the others by the slow ones.
QUICK = {
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_complex_data",
    "check_classifiers_one_label",
    "check_fit2d_1sample",
    "check_estimators_nan_inf",
    "check_do_not_raise_errors_in_init_or_set_params",
}

CLASSIFIER = LogitCorrectionClassifier(epochs=20, training={"threads": 1})


@pytest.mark.slow
@parametrize_with_checks([CLASSIFIER])
def test_all_that_scikit_learn_checks(estimator: LogitCorrectionClassifier, check: Callable[..., None]) -> None:
    check(estimator)


def test_what_scikit_learn_checks_soonest() -> None:
    checks = list(estimator_checks_generator(CLASSIFIER))
    quick = [(one, check) for one, check in checks if isinstance(check, partial) and check.func.__name__ in QUICK]
    assert len(quick) >= len(QUICK)
    for estimator, check in quick:
        check(estimator)
