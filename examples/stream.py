"""Logit correction on a stream larger than memory: the shortcut is found on a sample, then used for each part.

    python examples/stream.py

Parts may come from WebDataset shards, a Hugging Face stream or a database; here each is drawn when it is needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from pytorch_loop import BATCH, build_network, compute_group_accuracies, load_rows
from torch import Tensor

from logit_correction import estimate_attributes
from logit_correction.data.digits import Digits

PARTS = 15


def stream(first: int, parts: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield so many parts, each images (n, 3, 8, 8) and labels (n,), with colours of its own."""
    for number in range(first, first + parts):
        table = Digits(seed=100 + number).build()
        rows = table.split["train"]
        yield table.inputs.fetch(rows), table.label[rows]


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    sample, label = (torch.cat(part) for part in zip(*stream(0, 2), strict=True))
    estimates = estimate_attributes(sample, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)
    print(estimates.sentence)
    criterion = estimates.loss()  # the sample's prior stands for the stream

    torch.manual_seed(seed)
    network = build_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, PARTS)
    for inputs, label in stream(2, PARTS):
        attribute = torch.from_numpy(estimates.predict_attributes(inputs, label))  # nothing is fitted to the part
        for rows in torch.randperm(len(label)).split(BATCH):
            loss = criterion(network(inputs[rows]), label[rows], attribute[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()

    test_inputs, test_label, test_attribute = load_rows("test")
    with torch.no_grad():
        return compute_group_accuracies(network(test_inputs), test_label, test_attribute)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15, help="of the search for a shortcut")
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
