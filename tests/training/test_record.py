"""Figures over time, and the CSV file of them."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from logit_correction.errors import TrainingError
from logit_correction.training.record import Record


def add(record: Record, loss: float, **logs: float) -> None:
    record.add(torch.tensor(loss), {name: torch.tensor(value) for name, value in logs.items()})


def test_a_row_holds_the_means_since_the_last_one() -> None:
    record = Record()
    for loss in (1.0, 2.0, 6.0):
        add(record, loss, loss_robust=10 * loss)
    assert record.flush(step=3, epoch=0) == {"step": 3, "epoch": 0, "loss": 3.0, "loss_robust": 30.0}
    add(record, 5.0, loss_robust=1.0)
    assert record.flush(step=4, epoch=1) == {"step": 4, "epoch": 1, "loss": 5.0, "loss_robust": 1.0}
    assert record.flush(step=4, epoch=1) is None and len(record.rows) == 2


def test_the_total_loss_stands_even_where_a_method_logs_one() -> None:
    record = Record()
    record.add(torch.tensor(2.0), {"loss": torch.tensor(1.0)})
    assert record.flush(step=1) == {"step": 1, "loss": 2.0}


def test_a_step_may_log_other_figures_than_the_one_before() -> None:
    record = Record()
    add(record, 1.0, loss_biased=1.0)
    add(record, 2.0, loss_robust=4.0, loss_biased=3.0)
    add(record, 3.0, loss_robust=6.0)
    assert record.flush(step=3) == {"step": 3, "loss": 2.0, "loss_robust": 5.0, "loss_biased": 2.0}
    add(record, 1.0, other=9.0)
    assert record.flush(step=4) == {"step": 4, "loss": 1.0, "other": 9.0}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_loss_that_is_not_finite_is_named_by_its_step(bad: float, place: int) -> None:
    record = Record()
    for number in range(5):
        add(record, bad if number >= place else 1.0, part=1.0)
    with pytest.raises(TrainingError, match=f"at step {100 + place + 1}:"):
        record.check(105)
    with pytest.raises(TrainingError, match=f"at step {100 + place + 1}:"):
        record.flush(step=105)
    assert record.rows == []


def test_half_precision_figures_are_kept_in_full() -> None:
    record = Record()
    record.add(torch.tensor(1.0, dtype=torch.bfloat16), {"part": torch.tensor(0.5, dtype=torch.float16)})
    record.add(torch.tensor(1.25), {"part": torch.tensor(1.0, dtype=torch.float64)})
    assert record.flush(step=2) == {"step": 2, "loss": 1.125, "part": 0.75}


def test_the_state_survives_a_checkpoint_with_its_pending_steps() -> None:
    record, loaded = Record(), Record()
    add(record, 1.0, part=2.0)
    record.flush(step=1)
    add(record, 3.0, part=4.0)
    file = io.BytesIO()
    torch.save(record.state(), file)
    file.seek(0)
    loaded.load(torch.load(file, weights_only=True))
    for one in (record, loaded):
        add(one, 5.0, part=0.0)
        one.flush(step=3)
    assert loaded.rows == record.rows and loaded.rows[-1] == {"step": 3, "loss": 4.0, "part": 2.0}


def test_the_file_has_a_column_for_every_figure_and_gaps_where_there_is_none(tmp_path: Path) -> None:
    record, path = Record(), tmp_path / "metrics.csv"
    add(record, 0.1, loss_robust=1 / 3)
    record.flush(step=1, epoch=0)
    record.rows.append({"step": 1, "epoch": 1, "valid_average": 0.75})
    record.write(path)
    frame = pd.read_csv(path)
    assert list(frame.columns) == ["step", "epoch", "loss", "loss_robust", "valid_average"]
    assert frame["step"].tolist() == [1, 1] and frame["epoch"].tolist() == [0, 1]
    assert frame["loss_robust"][0] == pytest.approx(1 / 3) and frame["valid_average"][1] == 0.75
    assert frame["loss"].isna().tolist() == [False, True] and frame["valid_average"].isna().tolist() == [
        True,
        False,
    ]
    with path.open(newline="") as file:
        assert list(csv.reader(file))[2] == ["1", "1", "", "", "0.75"]


def test_writing_again_replaces_the_file(tmp_path: Path) -> None:
    record, path = Record(), tmp_path / "metrics.csv"
    for step in (1, 2):
        add(record, float(step))
        record.flush(step=step)
        record.write(path)
        assert len(path.read_text().splitlines()) == step + 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.csv"]


def test_the_epochs_of_each_stage_are_told() -> None:
    record = Record()
    assert record.epochs_per_stage() == []
    record.rows = [
        {"step": step, "stage": stage, "epoch": epoch}
        for step, (stage, epoch) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)])
    ]
    assert record.epochs_per_stage() == [2, 1]
