"""Lightning's loggers get the figures of a run, by name or as they are."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from logit_correction import InputWarning, Run, train


def train_with_logger(out: Path, logger: Any, **options: Any) -> Run:
    options = {"epochs": 2, "batch_size": 256, "log_every": 2, "threads": 1, "device": "cpu"} | options
    network = {"name": "MLP", "hidden": [8]}
    return train("Digits", out, method="ERM", network=network, logger=logger, page=False, **options)


class RecordingLogger:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Any]] = []

    def log_metrics(self, metrics: Any, step: int) -> None:
        self.given.append(("metrics", (step, metrics)))

    def log_hyperparams(self, params: Any) -> None:
        self.given.append(("options", params["method.name"]))

    def finalize(self, status: str) -> None:
        self.given.append(("end", status))


def test_logger_object_gets_all_metrics_in_order_next_to_a_named_logger(tmp_path: Path) -> None:
    logger = RecordingLogger()
    run = train_with_logger(tmp_path / "run", [logger, "csv"])
    assert logger.given[0] == ("options", "ERM") and logger.given[-1] == ("end", "success")
    steps = [value[0] for name, value in logger.given if name == "metrics"]
    assert set(steps) >= {2, run.report.steps} and steps == sorted(steps)
    last = logger.given[-2][1][1]
    assert last["test/worst_group"] == run.report.test.worst_group
    rows = list(csv.DictReader((run / "csv" / "version_0" / "metrics.csv").open()))
    assert any(row.get("loss") for row in rows) and any(row.get("test/worst_group") for row in rows)


def test_failing_logger_does_not_end_the_training(tmp_path: Path) -> None:
    class Away(RecordingLogger):
        def log_metrics(self, metrics: Any, step: int) -> None:
            raise ConnectionError("the server is away")

    with pytest.warns(InputWarning, match="Away failed and gets no further figures .the server is away."):
        assert train_with_logger(tmp_path / "run", Away()).report.epochs == 2
