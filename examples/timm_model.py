"""Logit correction for a network of timm.

    python examples/timm_model.py

With ``network={"name": "Timm", "model": MODEL}`` the verdict would be about this very network, which takes longer: it
is then trained in folds. ``create_model(MODEL, pretrained=True)`` takes timm's weights where they may be downloaded.
"""

from __future__ import annotations

import argparse

import timm
import torch
from pytorch_loop import BATCH, judge, rows_of

from logit_correction import estimate_attributes

MODEL = "test_resnet"  # of timm's smallest


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    inputs, label, _ = rows_of("train")
    found = estimate_attributes(inputs, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)
    print(found.sentence)
    criterion, attribute = found.loss(), torch.from_numpy(found.attribute)

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
    test_inputs, test_label, test_attribute = rows_of("test")
    with torch.no_grad():
        logits = torch.cat([network((part - mean) / std) for part in test_inputs.split(500)])
    return judge(logits, test_label, test_attribute)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
