"""Logit correction for a network of timm, in a training loop of your own.

    python examples/timm_model.py

The attribute is estimated by a small network here. Give ``estimate_attributes`` the option
``network={"name": "Timm", "model": MODEL}`` to examine this very network, which takes longer, since it is then trained
in folds. ``create_model(MODEL, pretrained=True)`` takes timm's weights where they may be downloaded.
"""

from __future__ import annotations

import argparse

import timm
import torch
from pytorch_loop import BATCH, compute_group_accuracies, load_rows

from logit_correction import estimate_attributes

MODEL = "test_resnet"  # of timm's smallest


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    inputs, label, _ = load_rows("train")
    estimates = estimate_attributes(inputs, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)
    print(estimates.sentence)
    criterion = estimates.loss()
    attribute = torch.from_numpy(estimates.attribute)

    torch.manual_seed(seed)
    network = timm.create_model(MODEL, num_classes=10)
    cfg = network.pretrained_cfg
    mean, std = (torch.tensor(cfg[name]).view(3, 1, 1) for name in ("mean", "std"))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        network.train()
        for rows in torch.randperm(len(label)).split(BATCH):
            loss = criterion(network((inputs[rows] - mean) / std), label[rows], attribute[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()

    network.eval()
    test_inputs, test_label, test_attribute = load_rows("test")
    with torch.no_grad():
        logits = torch.cat([network((part - mean) / std) for part in test_inputs.split(500)])
    return compute_group_accuracies(logits, test_label, test_attribute)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
