"""Cross-fitting: each row is predicted by a model that was not trained on it.

A network that has seen a row can recall its label, so its prediction for the row says little about the shortcut. The
predictions of networks that were trained on other rows do. This module draws the folds, trains one network for each,
and holds the parts that all biased networks share: the ramp-up of q and the dropout of inputs.
"""

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
from logit_correction.types import Batch, Inputs, select_input_rows

#: Fits a model and returns its predictions (m, C): called with the rows to learn from, (n,) long, the rows to predict,
#: (m,) long, and the number of their fold.
FoldPredictor: TypeAlias = Callable[[Tensor, Tensor, int], Tensor]


def predict_out_of_fold(fit_and_predict: FoldPredictor, fold: Tensor, num_outputs: int) -> Tensor:
    """Return the prediction of each row by a model that was fitted to the rows of all other folds.

    Args:
        fit_and_predict: Fits a model to the rows outside of one fold, and predicts those inside.
        fold: (N,) long, the fold of each row; -1 for rows that every model is fitted to and none predicts.
        num_outputs: C, the number of values that a model predicts for a row.

    Returns:
        (N, C), NaN for rows of fold -1.
    """
    predictions = torch.full((len(fold), num_outputs), torch.nan)
    for number in fold[fold >= 0].unique().tolist():
        learned = (fold != number).nonzero().squeeze(1)
        left_out = (fold == number).nonzero().squeeze(1)
        predictions[left_out] = fit_and_predict(learned, left_out, number)
    return predictions


def draw_folds(num_rows: int, num_folds: int, generator: torch.Generator, max_rows: int | None = None) -> Tensor:
    """Return a random fold for each row, all folds of nearly the same size.

    Args:
        num_rows: N.
        num_folds: Number of folds.
        generator: Source of the random numbers.
        max_rows: Rows that get a fold; all others get -1. None gives one to every row.

    Returns:
        (N,) long.
    """
    order = torch.randperm(num_rows, generator=generator)[:max_rows]
    fold = torch.full((num_rows,), -1, dtype=torch.long)
    fold[order] = torch.arange(len(order)) % num_folds
    return fold


def draw_folds_of_units(
    unit: Tensor, label: Tensor, num_folds: int, generator: torch.Generator, max_rows: int | None = None
) -> Tensor:
    """Return a random fold for each row, the same for all rows of a unit that get one.

    Units are dealt out label by label, the largest first. So every fold has rows of each label, if each is in as many
    units as there are folds.

    Args:
        unit: (N,) long, the unit of each row.
        label: (N,) long.
        num_folds: Number of folds.
        generator: Source of the random numbers.
        max_rows: See ``draw_folds``; rows are left out, not units.

    Returns:
        (N,) long.
    """
    _, code, size = unit.unique(return_inverse=True, return_counts=True)
    label_of_unit = (
        torch.zeros(len(size), int(label.max()) + 1).index_put_((code, label), torch.ones(1), True).argmax(1)
    )
    order = torch.randperm(len(size), generator=generator)
    order = order[size[order].argsort(descending=True, stable=True)]
    order = order[label_of_unit[order].argsort(stable=True)]
    fold_of_unit = torch.empty(len(size), dtype=torch.long)
    fold_of_unit[order] = torch.arange(len(size)) % num_folds
    fold = fold_of_unit[code]
    if max_rows is not None:
        fold[torch.randperm(len(fold), generator=generator)[max_rows:]] = -1
    return fold


def draw_halves(num_rows: int, generator: torch.Generator) -> Tensor:
    """Return a random half, 0 or 1, for each row, (N,) long."""
    half = torch.zeros(num_rows, dtype=torch.long)
    half[torch.randperm(num_rows, generator=generator)[: num_rows // 2]] = 1
    return half


def draw_halves_of_rows(label: Tensor, unit: Tensor | None, generator: torch.Generator) -> Tensor:
    """Return a random half, 0 or 1, for each row, (N,) long; the same for rows of one unit, if there are units.

    Args:
        label: (N,) long.
        unit: (N,) long, see ``TrainingRows``.
        generator: Source of the random numbers.
    """
    if unit is None:
        return draw_halves(len(label), generator)
    return draw_folds_of_units(unit, label, 2, generator)


class FoldNetworks(nn.ModuleList):
    """Networks that train together, one for each fold of each split, each on the rows outside its fold.

    Attributes:
        fold: (S, N) long, the fold of each row in each split; -1 for rows that all networks learn from.
        num_folds: F; network s F + f predicts fold f of split s.
    """

    fold: Tensor

    def __init__(self, networks: Iterable[nn.Module], fold: Tensor) -> None:
        """Combine the networks.

        Args:
            networks: S F networks.
            fold: (S, N) long, see the attribute.
        """
        super().__init__(networks)
        self.num_folds = len(self) // len(fold)
        self.register_buffer("fold", fold, persistent=False)

    def _iterate_left_out(self, index: Tensor) -> Iterator[tuple[nn.Module, Tensor]]:
        """Yield each network, and which rows (B,) it does not learn from."""
        for number, network in enumerate(self):
            fold = self.fold[number // self.num_folds].index_select(0, index)
            yield network, fold == number % self.num_folds

    def compute_loss(
        self,
        batch: Batch,
        q: float = 0,
        input_dropout: float = 0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the sum of the networks' mean generalized cross-entropies, each over its own rows of the batch.

        Args:
            batch: The rows.
            q: Exponent of the generalized cross-entropy, in [0, 1]; 0 is cross-entropy.
            input_dropout: Probability with which an input value is set to 0, in [0, 1).
            generator: Source of the dropout; None for no dropout.

        Returns:
            0-d loss.
        """
        total = torch.zeros((), device=batch.label.device)
        for network, is_left_out in self._iterate_left_out(batch.index):
            rows, weight = select_padded_member_rows(~is_left_out, 1 - 1 / self.num_folds)
            inputs = select_input_rows(batch.inputs, rows)
            if generator is None:
                logits = network(inputs)
            else:
                logits = compute_dropout_logits(network, inputs, input_dropout, generator)
            loss = cross_entropy(logits, batch.label.index_select(0, rows), reduction="none")
            total = total + (gce_from_cross_entropy(loss, q) * weight).sum()
        return total

    def predict_out_of_fold(self, batch: Batch, num_labels: int) -> Tensor:
        """Return the mean class probabilities of the networks that were not trained on each row; waits for the device.

        Args:
            batch: Training rows.
            num_labels: L.

        Returns:
            (B, L).
        """
        total = torch.zeros(len(batch.label), num_labels, device=batch.label.device)
        for network, is_left_out in self._iterate_left_out(batch.index):
            rows = is_left_out.nonzero().squeeze(1)
            if len(rows):
                total.index_add_(0, rows, network(select_input_rows(batch.inputs, rows)).float().softmax(dim=1))
        return total / len(self.fold)

    def compute_log_probabilities(self, inputs: Inputs) -> Tensor:
        """Return the log-softmax (M, B, L) of each network, for rows that none was trained on."""
        return torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self])


def select_padded_member_rows(is_member: Tensor, expected_share: float) -> tuple[Tensor, Tensor]:
    """Return the rows of a batch that are members, padded to a fixed number so that nothing waits for the device.

    The number of rows is C = ``expected_share`` of the batch and four standard deviations more: a member is left out
    once in 30,000 steps. Padding rows have the weight 0.

    Args:
        is_member: (B,) bool.
        expected_share: Expected share of members, in [0, 1].

    Returns:
        (C,) long, the rows, and (C,) their weights, which sum to 1.
    """
    size = len(is_member)
    deviation = math.sqrt(size * expected_share * (1 - expected_share))
    num_selected = min(size, math.ceil(size * expected_share) + math.ceil(4 * deviation))
    order = is_member.long().argsort(descending=True, stable=True)
    count = is_member.sum()
    position = torch.arange(num_selected, device=is_member.device)
    rows = order.index_select(0, position % count.clamp_min(1))
    return rows, (position < count) / count.clamp(1, num_selected)


def ramp_up_q(max_q: float, epoch: float, ramp_epochs: float) -> float:
    """Return the exponent q after ``epoch`` epochs; it rises linearly from 0 over ``ramp_epochs`` epochs.

    Args:
        max_q: Exponent of the generalized cross-entropy at the end.
        epoch: Epochs so far.
        ramp_epochs: Epochs of the ramp-up; 0 for none.

    >>> ramp_up_q(0.8, 0.5, 2.0), ramp_up_q(0.8, 5.0, 2.0), ramp_up_q(0.8, 0.0, 0.0)
    (0.2, 0.8, 0.8)
    """
    return max_q * min(1.0, epoch / ramp_epochs) if ramp_epochs else max_q


def apply_input_dropout(inputs: Inputs, probability: float, generator: torch.Generator) -> Tensor:
    """Return inputs with pixels or features set to 0 at random, and the others scaled up to keep the mean.

    Args:
        inputs: Images (B, C, H, W), where all channels of a pixel are dropped together, or features (B, F).
        probability: Of each pixel or feature, in [0, 1).
        generator: Source of the random numbers.

    Raises:
        InputError: The inputs are tokens.
    """
    if not isinstance(inputs, Tensor):
        raise InputError("tokens cannot be hidden from a biased network: give input_dropout=0")
    shape = (len(inputs), 1, *inputs.shape[2:]) if inputs.dim() > 2 else inputs.shape
    is_kept = torch.rand(shape, generator=generator, device=inputs.device) >= probability
    return inputs * (is_kept / (1 - probability)).to(inputs.dtype)


def compute_dropout_logits(
    network: nn.Module, inputs: Inputs, probability: float, generator: torch.Generator
) -> Tensor:
    """Return the logits (B, L) of inputs with dropout; batch norm statistics come from the inputs without.

    Args:
        network: The network.
        inputs: See ``apply_input_dropout``.
        probability: See ``apply_input_dropout``.
        generator: Source of the random numbers.
    """
    with freeze_batch_norm_statistics(network) as layers:
        logits: Tensor = network(apply_input_dropout(inputs, probability, generator))
    if layers:
        # After the step's own pass: some versions of autocast keep the weights as they were first cast, and those
        # cast here have no gradient.
        with torch.no_grad():
            network(inputs)
    return logits
