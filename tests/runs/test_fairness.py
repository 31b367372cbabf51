"""A run as a MetricFrame of fairlearn."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairlearn.metrics import selection_rate
from sklearn.metrics import recall_score

from logit_correction import load
from logit_correction.runs.run import Run


@pytest.fixture(scope="module")
def run(digits_run: Path) -> Run:
    return load(digits_run)


def test_accuracy_by_attribute_is_that_of_the_report(run: Run) -> None:
    frame = run.metric_frame()
    assert frame.overall["accuracy"] == pytest.approx(run.report["test"]["average"])
    by = {row["attribute"]: row for row in run.report["test"]["by_attribute"]}
    assert set(by) == set(frame.by_group.index)
    for name, row in by.items():
        assert frame.by_group.loc[name, "accuracy"] == pytest.approx(row["accuracy"])
        assert frame.by_group.loc[name, "count"] == row["count"]


def test_metrics_of_ones_own_on_another_split(run: Run) -> None:
    frame = run.metric_frame("valid", {"rate": selection_rate})
    assert frame.overall["rate"] == pytest.approx(run.metric_frame("valid", lambda y, p: (p == 1).mean()).overall)
    estimated = run.metric_frame(
        metrics=lambda y, p: recall_score(y, p, average="macro", zero_division=0), estimated=True
    )
    assert 0 < estimated.overall < 1 and len(estimated.by_group) > 1
