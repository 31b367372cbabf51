"""The batches of a split: in order for evaluation, and as the loop and other trainers go through them."""

from __future__ import annotations

import torch

from logit_correction.config import TrainingConfig
from logit_correction.data.loading import BatchLoader, evaluation_batch
from logit_correction.data.table import DataTable
from logit_correction.methods.base import Algorithm
from logit_correction.seeds import derive_seed
from logit_correction.types import Stage


def evaluation_loader(table: DataTable, split: str, config: TrainingConfig, device: torch.device) -> BatchLoader:
    """Return a loader of all rows of a split in order, without attributes."""
    return BatchLoader(table, split, batch_size=evaluation_batch(table.inputs), device=device, workers=config.workers)


def training_loader(
    table: DataTable,
    algorithm: Algorithm,
    plan: Stage,
    stage: int,
    config: TrainingConfig,
    device: torch.device,
    rank: int = 0,
    world_size: int = 1,
) -> BatchLoader:
    """Return a loader of the training rows of a stage.

    Args:
        table: The data.
        algorithm: The method; its rows have attributes if it needs them.
        plan: What the method asks of the stage.
        stage: Its number.
        config: Options of the loop, with a batch size.
        device: Where batches are wanted.
        rank: This process.
        world_size: Number of processes, which share each batch.
    """
    assert config.batch_size is not None  # chosen to fit the data where nobody says
    return BatchLoader(
        table,
        "train",
        batch_size=plan.batch_size(config.batch_size, world_size),
        # Counted from the last one, so that methods of one stage and of several see their rows in one order.
        seed=derive_seed(config.seed, "stage", algorithm.num_stages - 1 - stage),
        shuffle=True,
        with_attributes=algorithm.needs_attributes,
        sample_weight=plan.sample_weight,
        device=device,
        rank=rank,
        world_size=world_size,
        workers=config.workers,
    )
