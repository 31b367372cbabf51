"""What the loop does to networks: where their weights lie, compilation, and the random numbers of their layers."""

from __future__ import annotations

import torch

from logit_correction.config import TrainingConfig
from logit_correction.methods.base import Algorithm
from logit_correction.seeds import derive_seed, step_seed


def prepare(algorithm: Algorithm, config: TrainingConfig, device: torch.device) -> None:
    """Bring a method's networks to the device, in the order of memory and compiled as the config asks."""
    algorithm.to(device)
    if config.channels_last:
        algorithm.to(memory_format=torch.channels_last)
    if config.compile:
        for network in algorithm.built:
            # In place, so that names in checkpoints stay; a network's halves are called one by one where features
            # are mixed or swapped, and a head is one layer.
            features = getattr(network, "features", None)  # of a user's network it may be anything
            if isinstance(features, torch.nn.Module):
                features.compile(mode=None if config.compile is True else config.compile)
            else:
                # Without CUDA graphs, whose results the next pass overwrites: logits are kept for longer, while of
                # features the head makes logits at once.
                network.compile()


class LayerRandomness:
    """Seeds torch's own generators before each step, for layers such as dropout that draw from them.

    A step's seed comes from its number, so a resumed run draws what an uninterrupted one would.
    """

    def __init__(self, seed: int, rank: int, device: torch.device) -> None:
        self.first, self.on_cuda = derive_seed(seed, "layers", rank), device.type == "cuda"

    def seed(self, step: int) -> None:
        """Seed the generators for step number ``step`` of the run."""
        seed = step_seed(self.first, step)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every backend, sixty times as long
        if self.on_cuda:
            torch.cuda.manual_seed(seed)
