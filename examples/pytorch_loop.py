"""Logit correction in a plain PyTorch loop: the attribute is estimated, then the loss is corrected by it.

    python examples/pytorch_loop.py

Use it if you have a training loop of your own. It takes two calls: ``estimate_attributes`` before the training, and its
``loss()`` in place of cross-entropy. The data are small coloured digits: in training nearly every digit has a colour of
its own, in the test every colour. Prints which shortcut was found, and group-balanced and worst-group accuracy.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from logit_correction import estimate_attributes
from logit_correction.data.digits import Digits
from logit_correction.functional import group_balanced_accuracy, group_membership, worst_group_accuracy

BATCH = 32


def load_rows(split: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return images (N, 3, 8, 8), labels and true attributes, which are used for the test only."""
    table = Digits().build()
    rows = table.split[split]
    return table.inputs.fetch(rows), table.label[rows], table.attribute[rows]


def build_network() -> nn.Module:
    hidden = [layer for _ in range(2) for layer in (nn.Linear(100, 100), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 100), nn.ReLU(), *hidden, nn.Linear(100, 10))


def compute_group_accuracies(logits: Tensor, label: Tensor, attribute: Tensor) -> dict[str, float]:
    prediction = logits.argmax(1)
    groups = group_membership(label, attribute, 10, 10)
    return {
        "group_balanced": float(group_balanced_accuracy(prediction, label, groups)),
        "worst_group": float(worst_group_accuracy(prediction, label, groups)),
    }


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    inputs, label, _ = load_rows("train")
    estimates = estimate_attributes(inputs, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)
    print(estimates.sentence)
    criterion = estimates.loss()
    attribute = torch.from_numpy(estimates.attribute)

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

    test_inputs, test_label, test_attribute = load_rows("test")
    with torch.no_grad():
        logits = network(test_inputs)  # used as they are, without correction
    return compute_group_accuracies(logits, test_label, test_attribute)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
