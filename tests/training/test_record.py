"""What is recorded while a run trains: rows of figures."""

from __future__ import annotations

import torch

from logit_correction.training.record import Record


def test_a_row_holds_the_means_of_the_steps_that_have_the_figure() -> None:
    record = Record()
    logged = {"loss_biased": torch.tensor(1.0), "loss": torch.tensor(9.0)}
    record.add(torch.tensor(1.0), logged)  # the total loss stands, whatever a method logs
    record.add(torch.tensor(2.0), {"loss_robust": torch.tensor(4.0), "loss_biased": torch.tensor(3.0)})
    record.add(torch.tensor(6.0, dtype=torch.bfloat16), {"loss_robust": torch.tensor(6.0, dtype=torch.float64)})
    assert record.flush(3, epoch=0) and not record.flush(3, epoch=0)
    assert record.rows == [{"step": 3, "epoch": 0, "loss": 3.0, "loss_biased": 2.0, "loss_robust": 5.0}]
