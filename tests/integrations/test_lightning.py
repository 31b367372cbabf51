"""A Lightning callback that corrects the loss of a module that knows nothing of it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from logit_correction import AttributeEstimates, InputError, LogitCorrectedLoss

pl = pytest.importorskip("lightning.pytorch")

from logit_correction.integrations.lightning import CorrectLogits  # noqa: E402

LABEL = torch.arange(40) % 2
ATTRIBUTE = torch.where(torch.arange(40) < 36, LABEL, 1 - LABEL)
ATTRIBUTE[3] = -1
INPUTS = torch.stack([LABEL + 0.1 * torch.arange(40).sin(), 3.0 * ATTRIBUTE], dim=1).float()
ESTIMATES = AttributeEstimates(LABEL.numpy(), ATTRIBUTE.numpy(), ("0", "1"), ("a", "b"), None, np.arange(40), None)


class PlainModule(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Linear(2, 2)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.seen: list[float] = []

    def training_step(self, batch: Any, number: int) -> Any:
        loss = self.criterion(self.network(batch[0]), batch[1])
        self.seen.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("valid_loss", self.criterion(self.network(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def make_loader(*more: Any) -> Any:
    return DataLoader(TensorDataset(INPUTS, LABEL, *more), batch_size=10)


ROWS = make_loader(torch.arange(40))


def fit_with_callback(module: Any, callback: Any, rows: Any = ROWS, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    quiet |= {"logger": False, "accelerator": "cpu", "num_sanity_val_steps": 0}
    trainer = pl.Trainer(max_epochs=2, callbacks=[callback], **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, rows, **options)
    return trainer


def test_callback_trains_with_the_corrected_loss() -> None:
    module = PlainModule()
    names = list(module.state_dict())
    trainer = fit_with_callback(module, CorrectLogits(ESTIMATES, index=2), val_dataloaders=ROWS)
    torch.manual_seed(0)
    network = torch.nn.Linear(2, 2)
    criterion = LogitCorrectedLoss(ESTIMATES.prior())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for rows in torch.arange(40).split(10):
            loss = criterion(network(INPUTS[rows]), LABEL[rows], ATTRIBUTE[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert module.seen == pytest.approx(losses, abs=1e-5)
    torch.testing.assert_close(module.network.weight, network.weight)
    assert list(module.state_dict()) == names  # a checkpoint loads without the callback
    # In validation and afterwards the loss is the plain one.
    logits = module.network(INPUTS).detach().requires_grad_()
    plain = torch.nn.functional.cross_entropy(logits, LABEL)
    torch.testing.assert_close(module.criterion(logits, LABEL), plain)
    assert float(trainer.callback_metrics["valid_loss"]) == pytest.approx(float(plain))


def test_missing_loss_or_index_is_named() -> None:
    with pytest.raises(InputError, match="no loss 'loss'"):
        fit_with_callback(PlainModule(), CorrectLogits(ESTIMATES, criterion="loss"))
    smooth = PlainModule()
    smooth.criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    with pytest.raises(InputError, match=r"CrossEntropyLoss has label_smoothing=0\.1.*Leave it out"):
        fit_with_callback(smooth, CorrectLogits(ESTIMATES))
    other = PlainModule()
    other.criterion = torch.nn.NLLLoss()  # of log-probabilities, to which nothing can be added
    with pytest.raises(InputError, match="CrossEntropyLoss"):
        fit_with_callback(other, CorrectLogits(ESTIMATES))
    with pytest.raises(InputError, match="Labels are no, yes"):  # the order of the columns is unknown
        CorrectLogits(replace(ESTIMATES, label_names=("no", "yes")), index=2)
    with pytest.raises(InputError, match="Labels are 1, 0"):
        CorrectLogits(replace(ESTIMATES, label_names=("1", "0")), index=2)
    for index in (2, "index"):
        with pytest.raises(InputError, match="no row numbers"):
            fit_with_callback(PlainModule(), CorrectLogits(ESTIMATES, index=index), make_loader())
