"""Cross-fitting: each row is predicted by a learner that was not trained on it. And how biased networks train."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from logit_correction.errors import InputError
from logit_correction.functional import gce_from_cross_entropy
from logit_correction.networks.base import freeze_batch_norm_statistics
from logit_correction.types import Batch, Inputs

#: Called with the rows to learn from (n,) long and the number of the fold that is left out; returns what predicts rows
#: (m,) long, (m, C).
FoldFitter: TypeAlias = Callable[[Tensor, int], Callable[[Tensor], Tensor]]


def predict_out_of_fold(fit: FoldFitter, fold: Tensor, size: int) -> Tensor:
    """Return predictions (N, size) of each row by a learner fitted to the rows of all other folds.

    ``fold`` (N,) long is -1 for rows that every learner is fitted to; their predictions are NaN.
    """
    found = torch.full((len(fold), size), torch.nan)
    for number in fold[fold >= 0].unique().tolist():
        others = (fold == number).nonzero().squeeze(1)
        found[others] = fit((fold != number).nonzero().squeeze(1), number)(others)
    return found


def draw_folds(rows: int, folds: int, generator: torch.Generator, most: int | None = None) -> Tensor:
    """Return a random fold (N,) for each row, all folds of one size; -1 for all but ``most`` rows."""
    order = torch.randperm(rows, generator=generator)[:most]
    fold = torch.full((rows,), -1, dtype=torch.long)
    fold[order] = torch.arange(len(order)) % folds
    return fold


def draw_halves(rows: int, generator: torch.Generator) -> Tensor:
    """Return a random half (N,) for each row, 0 or 1."""
    half = torch.zeros(rows, dtype=torch.long)
    half[torch.randperm(rows, generator=generator)[: rows // 2]] = 1
    return half


class FoldNetworks(nn.ModuleList):
    """Networks that train together, one for each fold of each split, each on the rows outside its fold.

    Attributes:
        fold: (S, N) long, the fold of each row in each split; -1 for rows that all networks learn from.
        folds: F; network s F + f predicts fold f of split s.
    """

    fold: Tensor

    def __init__(self, networks: Iterable[nn.Module], fold: Tensor) -> None:
        super().__init__(networks)
        self.folds = len(self) // len(fold)
        self.register_buffer("fold", fold, persistent=False)

    def _left_out(self, index: Tensor) -> Iterator[tuple[nn.Module, Tensor]]:
        """Yield each network, and which rows (B,) it does not learn from."""
        for number, network in enumerate(self):
            yield network, self.fold[number // self.folds].index_select(0, index) == number % self.folds

    def loss(self, batch: Batch, q: float = 0, dropout: float = 0, generator: torch.Generator | None = None) -> Tensor:
        """Return the sum (0-d) of the networks' mean generalized cross-entropies, each over its rows of the batch."""
        total = torch.zeros((), device=batch.label.device)
        for network, left_out in self._left_out(batch.index):
            rows, weight = gather_members(~left_out, 1 - 1 / self.folds)
            inputs = take_rows(batch.inputs, rows)
            logits = (
                compute_dropout_logits(network, inputs, dropout, generator)
                if generator is not None
                else network(inputs)
            )
            loss = cross_entropy(logits, batch.label.index_select(0, rows), reduction="none")
            total = total + (gce_from_cross_entropy(loss, q) * weight).sum()
        return total

    def predict_out_of_fold(self, batch: Batch, num_labels: int) -> Tensor:
        """Return the mean softmax (B, L) of the networks that were not trained on each row; waits for the device."""
        total = torch.zeros(len(batch.label), num_labels, device=batch.label.device)
        for network, left_out in self._left_out(batch.index):
            rows = left_out.nonzero().squeeze(1)
            if len(rows):
                total.index_add_(0, rows, network(take_rows(batch.inputs, rows)).float().softmax(dim=1))
        return total / len(self.fold)

    def log_probabilities(self, inputs: Inputs) -> Tensor:
        """Return the log-softmax (M, B, L) of each network, for rows that none was trained on."""
        return torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self])

    def parameter_groups(self, name: str, **options: object) -> list[dict[str, object]]:
        """Return one optimiser group, with these options, for each network, called by this name and its number."""
        return [{"params": list(net.parameters()), "name": f"{name}_{i}", **options} for i, net in enumerate(self)]


def take_rows(inputs: Inputs, rows: Tensor) -> Inputs:
    """Return some rows of a batch of inputs."""
    if isinstance(inputs, Tensor):
        return inputs.index_select(0, rows)
    return {name: part.index_select(0, rows) for name, part in inputs.items()}


def gather_members(member: Tensor, share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return the rows (C,) of a batch that are members (B,), and weights (C,) that sum to 1.

    C does not depend on the number of members, so that nothing waits for the device. It is ``share`` of the rows and
    four standard deviations more: a member is left out once in 30,000 steps. Spare places have the weight 0.
    """
    size = len(member)
    room = min(size, math.ceil(size * share) + math.ceil(4 * math.sqrt(size * share * (1 - share))))
    order = member.long().argsort(descending=True, stable=True)
    count = member.sum()
    place = torch.arange(room, device=member.device)
    rows = order.index_select(0, place % count.clamp_min(1))
    return rows, (place < count) / count.clamp(1, room)


def ramp_up_q(q: float, epoch: float, length: float) -> float:
    """Return the exponent q after ``epoch`` epochs, which rises from 0 over ``length`` epochs.

    >>> ramp_up_q(0.8, 0.5, 2.0), ramp_up_q(0.8, 5.0, 2.0), ramp_up_q(0.8, 0.0, 0.0)
    (0.2, 0.8, 0.8)
    """
    return q * min(1.0, epoch / length) if length else q


def apply_input_dropout(inputs: Inputs, probability: float, generator: torch.Generator) -> Tensor:
    """Return inputs (B, C, H, W) or (B, F) with pixels or features set to 0 at random, scaled to the same mean."""
    if not isinstance(inputs, Tensor):
        raise InputError("tokens cannot be hidden from a biased network: give input_dropout=0")
    shape = (len(inputs), 1, *inputs.shape[2:]) if inputs.dim() > 2 else inputs.shape
    kept = torch.rand(shape, generator=generator, device=inputs.device) >= probability
    return inputs * (kept / (1 - probability)).to(inputs.dtype)


def compute_dropout_logits(
    network: nn.Module, inputs: Inputs, probability: float, generator: torch.Generator
) -> Tensor:
    """Return logits (B, L) of partly hidden inputs; running statistics come from whole inputs."""
    with freeze_batch_norm_statistics(network) as layers:
        logits: Tensor = network(apply_input_dropout(inputs, probability, generator))
    if layers:
        # After the step's own pass: some versions of autocast keep the weights as they were first cast, and those
        # cast here have no gradient.
        with torch.no_grad():
            network(inputs)
    return logits
