"""Logit correction for an ordinary LightningModule by a callback, without a change of the module.

    python examples/lightning_callback.py

Use it if Lightning trains your module. The module must compute its loss by ``self.criterion``, and a batch must hold
the numbers of its rows.
"""

from __future__ import annotations

import argparse

import lightning
import torch
from pytorch_loop import BATCH, build_network, compute_group_accuracies, load_rows
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from logit_correction import estimate_attributes
from logit_correction.integrations.lightning import CorrectLogits


class DigitReader(lightning.LightningModule):
    """An ordinary classifier."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs
        self.network = build_network()
        self.criterion = nn.CrossEntropyLoss()
        self.outputs: list[tuple[Tensor, Tensor, Tensor]] = []

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], number: int) -> Tensor:
        inputs, label, _ = batch
        return self.criterion(self.network(inputs), label)

    def test_step(self, batch: tuple[Tensor, Tensor, Tensor], number: int) -> None:
        inputs, label, attribute = batch
        self.outputs.append((self.network(inputs), label, attribute))

    def on_test_epoch_end(self) -> None:
        self.log_dict(compute_group_accuracies(*map(torch.cat, zip(*self.outputs, strict=True))))

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-3)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs),
        }


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    lightning.seed_everything(seed, verbose=False)
    inputs, label, _ = load_rows("train")
    train = DataLoader(TensorDataset(inputs, label, torch.arange(len(label))), batch_size=BATCH, shuffle=True)
    estimates = estimate_attributes(inputs, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)
    options = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    options |= {"accelerator": "cpu", "devices": 1, "callbacks": [CorrectLogits(estimates, index=2)]}
    trainer = lightning.Trainer(max_epochs=epochs, **options)
    module = DigitReader(epochs)
    trainer.fit(module, train)
    print(estimates.sentence)
    (figures,) = trainer.test(module, DataLoader(TensorDataset(*load_rows("test")), batch_size=1000), verbose=False)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
