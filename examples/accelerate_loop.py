"""Logit correction with Hugging Face Accelerate: the first process estimates the attribute, all processes train.

    python examples/accelerate_loop.py
    accelerate launch --num_processes 2 examples/accelerate_loop.py

Use it if Accelerate distributes your training loop.
"""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from pytorch_loop import BATCH, build_network, compute_group_accuracies, load_rows
from torch.utils.data import DataLoader, TensorDataset

from logit_correction import estimate_attributes


def main(epochs: int = 15, seed: int = 0) -> dict[str, float]:
    accelerator = Accelerator()
    inputs, label, _ = load_rows("train")
    shared = [None]
    if accelerator.is_main_process:
        shared = [estimate_attributes(inputs, label, epochs=epochs, batch_size=BATCH, seed=seed, threads=1)]
    (estimates,) = broadcast_object_list(shared)
    accelerator.print(estimates.sentence)

    set_seed(seed)
    rows = TensorDataset(inputs, label, torch.from_numpy(estimates.attribute))
    loader = DataLoader(rows, batch_size=BATCH // accelerator.num_processes, shuffle=True)
    network = build_network()
    criterion = estimates.loss().to(accelerator.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.optimizer, epochs)
    for _ in range(epochs):
        for batch, labels, attribute in loader:
            loss = criterion(network(batch), labels, attribute)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        schedule.step()

    test = DataLoader(TensorDataset(*load_rows("test")), batch_size=1000)
    outputs = []
    with torch.no_grad():
        for batch, labels, attribute in accelerator.prepare(test):
            outputs.append(accelerator.gather_for_metrics((network(batch), labels, attribute)))
    return compute_group_accuracies(*(torch.cat(parts).cpu() for parts in zip(*outputs, strict=True)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    print(main(**vars(parser.parse_args())))
