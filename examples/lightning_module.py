"""A whole method of this package, with its stages, trained by a Lightning Trainer.

    python examples/lightning_module.py

The trainer brings what it is good at, such as checkpoints, loggers and precision; the module brings data and method.
"""

from __future__ import annotations

import argparse
import tempfile

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from logit_correction.integrations.lightning import LightningMethod


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    torch.set_num_threads(1)
    module = LightningMethod("Digits", method="LC", network="MLP", epochs=epochs, batch_size=32, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        last = ModelCheckpoint(folder, save_last=True)  # trainer.fit(module, ckpt_path="last") goes on from it
        options = {"logger": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
        trainer = lightning.Trainer(max_epochs=-1, callbacks=[last], **options)  # the module stops by itself
        trainer.fit(module)
        trainer.test(module, verbose=False)
    print(module.algorithm.attributes.evidence["sentence"])
    return {name: module.figures[name] for name in ("group_balanced", "worst_group")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
