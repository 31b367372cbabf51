"""A Lightning callback that corrects the loss of a module that knows nothing of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from logit_correction import InputError
from logit_correction.losses import LogitCorrectedLoss
from logit_correction.runs.estimate import AttributeEstimates

pl = pytest.importorskip("lightning.pytorch")

from logit_correction.integrations.lightning import CorrectLogits  # noqa: E402

LABEL = torch.arange(40) % 2
ATTRIBUTE = torch.where(torch.arange(40) < 36, LABEL, 1 - LABEL)
ATTRIBUTE[3] = -1
INPUTS = torch.stack([LABEL + 0.1 * torch.arange(40).sin(), 3.0 * ATTRIBUTE], dim=1).float()
ESTIMATES = AttributeEstimates(LABEL.numpy(), ATTRIBUTE.numpy(), ("0", "1"), ("a", "b"), None, np.arange(40), None)


class Plain(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network, self.criterion = torch.nn.Linear(2, 2), torch.nn.CrossEntropyLoss()
        self.seen: list[float] = []

    def training_step(self, batch: Any, number: int) -> Any:
        loss = self.criterion(self.network(batch[0]), batch[1])
        self.seen.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("valid_loss", self.criterion(self.network(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(*more: Any) -> Any:
    return DataLoader(TensorDataset(INPUTS, LABEL, *more), batch_size=10)


def fit(module: Any, callback: Any, folder: Path, rows: Any, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    trainer = pl.Trainer(max_epochs=2, default_root_dir=folder, callbacks=[callback], num_sanity_val_steps=0, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, rows, **options)
    return trainer


def test_the_training_is_that_with_the_corrected_loss(tmp_path: Path) -> None:
    module = Plain()
    names = list(module.state_dict())
    trainer = fit(module, CorrectLogits(None, estimates=ESTIMATES, index=2), tmp_path, loader(torch.arange(40)))
    torch.manual_seed(0)
    network, criterion = torch.nn.Linear(2, 2), LogitCorrectedLoss(ESTIMATES.prior())
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=0.1), []
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
    # Afterwards, and in validation, the loss is the plain one.
    logits = module.network(INPUTS)
    logits = logits.detach()
    torch.testing.assert_close(module.criterion(logits, LABEL), torch.nn.functional.cross_entropy(logits, LABEL))
    (figures,) = trainer.validate(module, loader(torch.arange(40)), verbose=False)
    assert figures["valid_loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, LABEL)))


def test_validation_during_the_training_sees_plain_logits(tmp_path: Path) -> None:
    module = Plain()
    rows = loader(torch.arange(40))
    trainer = fit(module, CorrectLogits(None, estimates=ESTIMATES, index=2), tmp_path, rows, val_dataloaders=rows)
    plain = torch.nn.functional.cross_entropy(module.network(INPUTS).detach(), LABEL)
    assert float(trainer.callback_metrics["valid_loss"]) == pytest.approx(float(plain))


def test_a_resumed_training_does_not_estimate_again(tmp_path: Path) -> None:
    rows = loader(torch.arange(40))
    trainer = fit(Plain(), CorrectLogits(None, estimates=ESTIMATES, index=2), tmp_path, rows)
    trainer.save_checkpoint(tmp_path / "kept.ckpt")
    again = CorrectLogits("there is no such data", index=2)
    fit(Plain(), again, tmp_path, rows, ckpt_path=tmp_path / "kept.ckpt", weights_only=True)
    np.testing.assert_array_equal(again.log_prior, ESTIMATES.log_prior_of_rows())


def test_what_is_missing_is_named_before_anything_is_estimated(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no loss 'loss'"):
        fit(Plain(), CorrectLogits("no such data", criterion="loss"), tmp_path, loader(torch.arange(40)))
    for index in (2, "index"):
        with pytest.raises(InputError, match="no row numbers"):
            fit(Plain(), CorrectLogits(None, estimates=ESTIMATES, index=index), tmp_path, loader())
    with pytest.raises(InputError, match="no row has label 1"):
        fit(Plain(), CorrectLogits(INPUTS, 2 * LABEL), tmp_path, loader(torch.arange(40)))


def test_a_loss_that_smooths_labels_evenly_is_refused_before_anything_is_estimated(tmp_path: Path) -> None:
    module = Plain()
    module.criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    with pytest.raises(InputError, match=r"CrossEntropyLoss has label_smoothing=0\.1.*Leave it out"):
        fit(module, CorrectLogits("no such data"), tmp_path, loader(torch.arange(40)))


class Broken(Plain):
    def training_step(self, batch: Any, number: int) -> Any:
        loss = super().training_step(batch, number)
        if len(self.seen) == 3:
            raise RuntimeError("out of memory")
        return loss


def test_after_an_error_the_loss_is_the_plain_one_and_a_next_training_corrects_once(tmp_path: Path) -> None:
    module, callback, rows = Broken(), CorrectLogits(None, estimates=ESTIMATES, index=2), loader(torch.arange(40))
    with pytest.raises(RuntimeError, match="out of memory"):
        fit(module, callback, tmp_path, rows)
    logits = module.network(INPUTS).detach().requires_grad_()
    torch.testing.assert_close(module.criterion(logits, LABEL), torch.nn.functional.cross_entropy(logits, LABEL))
    again = Plain()
    again.load_state_dict(module.state_dict())
    expected = CorrectLogits(None, estimates=ESTIMATES, index=2)
    for one, by in ((module, callback), (again, expected)):
        fit(one, by, tmp_path, rows)
    assert module.seen[3:] == again.seen


def test_logits_given_by_name_are_refused(tmp_path: Path) -> None:
    class ByName(Plain):
        def training_step(self, batch: Any, number: int) -> Any:
            return self.criterion(input=self.network(batch[0]), target=batch[1])

    with pytest.raises(InputError, match=r"call self.criterion\(logits, label\), by position"):
        fit(ByName(), CorrectLogits(None, estimates=ESTIMATES, index=2), tmp_path, loader(torch.arange(40)))
