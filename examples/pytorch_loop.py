"""Logit correction in a plain PyTorch loop: attributes that nobody named are estimated, and the loss is corrected.

    python examples/pytorch_loop.py

The data are small coloured digits: in training nearly every digit has a colour of its own, in the test every colour.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from logit_correction import estimate_attributes
from logit_correction.data.digits import Digits
from logit_correction.functional import group_balanced_accuracy, group_membership, worst_group_accuracy

BATCH = 32


def rows_of(split: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return images (N, 3, 8, 8), labels and true attributes; of the training rows the last are not looked at."""
    table = Digits().build()
    rows = table.split[split]
    return table.inputs.fetch(rows), table.label[rows], table.attribute[rows]


def build_network() -> nn.Module:
    hidden = [layer for _ in range(2) for layer in (nn.Linear(100, 100), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 100), nn.ReLU(), *hidden, nn.Linear(100, 10))


def judge(logits: Tensor, label: Tensor, attribute: Tensor) -> dict[str, float]:
    prediction, groups = logits.argmax(1), group_membership(label, attribute, 10, 10)
    return {
        "group_balanced": float(group_balanced_accuracy(prediction, label, groups)),
        "worst_group": float(worst_group_accuracy(prediction, label, groups)),
    }


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    inputs, label, _ = rows_of("train")
    found = estimate_attributes(inputs, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)
    print(found.sentence)
    criterion, attribute = found.loss(), torch.from_numpy(found.attribute)

    torch.manual_seed(seed)
    network = build_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for rows in torch.randperm(len(label)).split(BATCH):
            loss = criterion(network(inputs[rows]), label[rows], attribute[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()

    test_inputs, test_label, test_attribute = rows_of("test")
    with torch.no_grad():
        return judge(network(test_inputs), test_label, test_attribute)  # the plain logits, without correction


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
