"""The group prior and the loss that it corrects, as modules for the shipped methods and for loops of your own.

Logit correction (eq. 7) adds the logarithm of the group prior P(y, a) to the logits. Where attributes are known,
``LogitCorrectedLoss`` takes a counted table. Where they are not, ``GroupPrior`` estimates the table batch by batch from
the predictions of a biased network (eq. 9 to 12).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from logit_correction.distributed import concatenate_over_processes, sum_over_processes
from logit_correction.errors import InputError, check_choice, check_range
from logit_correction.functional import IGNORED, Reduction, logit_corrected_cross_entropy, shift_log_prior, sum_by_group

PriorEstimator: TypeAlias = Literal["cell", "joint", "algorithm-1", "published"]
PriorAveraging: TypeAlias = Literal["moving", "moving-rows", "batch", "dataset", "fixed"]

#: What "published" adds to the number of rows of a cell before it divides by it, as the published code does.
EXTRA_ROWS = 1e-4


class GroupPrior(nn.Module):
    """A table (L, K) of the group prior P(y, a), estimated batch by batch from a biased network (eq. 9 to 11).

    In each training step call ``update`` with the biased network's posterior, then add ``log_for_attribute`` to the
    logits of the robust network. ``LogitCorrectedLoss`` does the latter. A cell is a pair of a label and an attribute
    value.

    ``estimator`` says what a batch adds to cell (y, a) of the table. a_x is the attribute of the greatest posterior.

    - "joint": the mean over the batch of P(y, a | x), as the equations say. The table sums to 1.
    - "cell": the mean of the label's probability p_y(x) over the rows with label y and a_x = a: how far the biased
      network believes such a label. The table need not sum to 1. A cell without rows in a batch keeps its value; with
      "batch" it goes back to 1 / (L * K).
    - "published": the mean of "cell" as the published code takes it. The table starts at 0. A cell without rows in a
      batch counts as 0: with "batch" it becomes 0, with "moving" it shrinks by the momentum.
    - "algorithm-1": the mean of P(a_x | x) over the rows of "cell", as Algorithm 1 is printed (batch by batch
      instead of row by row). Rare cells then get values near 1, and little is corrected.

    ``averaging`` says how batches are averaged over time.

    - "moving": a moving average of the batches. The first visit sets a cell, except with "published".
    - "moving-rows": a moving average of single rows in the order of the batch, with "published" only. The first row
      sets a cell, and a cell without rows keeps its value.
    - "batch": the last batch alone.
    - "dataset": the mean over an epoch, set by ``end_epoch``. Until then the table is uniform.
    - "fixed": a counted table; see ``set_table``.

    The table starts at 1 / (L * K) unless stated otherwise. With "joint" every batch visits every cell.

    With torch.distributed the sums of all ranks are added before they are averaged, so that every rank holds the table
    of the whole batch. All state lies in buffers.

    Args:
        num_labels: L.
        num_attributes: K.
        estimator: See above.
        averaging: See above.
        momentum: Weight of the past in the moving average, 0 <= momentum < 1. The nearer to 1, the steadier the table,
            and the later it follows a biased network that still learns.
        floor: Added to the prior inside the logarithm, finite and 0 or more. The greater, the less rare groups are
            corrected.
        normalize_columns: Divide the column of each attribute value by its sum wherever the prior is read, which
            makes it P(y | a). Without a floor, and without Group MixUp of two columns, this changes nothing.

    Raises:
        InputError: An option is out of its range.

    >>> prior = GroupPrior(2, 2, estimator="joint")
    >>> prior.update(torch.tensor([0, 1]), torch.tensor([[1.0, 0.0], [0.25, 0.75]]))
    >>> prior.for_attribute(torch.tensor([0]))
    tensor([[0.5000, 0.1250]])
    """

    table: Tensor
    unknown: Tensor
    log_rows: Tensor
    visited: Tensor
    epoch_sums: Tensor
    epoch_counts: Tensor

    def __init__(
        self,
        num_labels: int,
        num_attributes: int,
        *,
        estimator: PriorEstimator = "joint",
        averaging: PriorAveraging = "moving",
        momentum: float = 0.99,
        floor: float = 5e-5,
        normalize_columns: bool = False,
    ) -> None:
        super().__init__()
        check_choice("estimator", estimator, get_args(PriorEstimator))
        check_choice("averaging", averaging, get_args(PriorAveraging))
        if num_labels < 1 or num_attributes < 1:
            raise ValueError(f"A group prior needs labels and attribute values, not {(num_labels, num_attributes)}.")
        check_range("momentum", momentum, 0, 1, open_end=True)
        check_range("floor", floor, 0, open_end=True)
        if averaging == "moving-rows" and estimator != "published":
            raise InputError(f"averaging=moving-rows needs estimator=published, not {estimator}")
        self.num_labels = num_labels
        self.estimator: PriorEstimator = estimator
        self.averaging: PriorAveraging = averaging
        self.momentum = momentum
        self.floor = floor
        self.normalize_columns = normalize_columns
        self._make_buffers(num_attributes, torch.device("cpu"))

    def _make_buffers(self, num_attributes: int, device: torch.device) -> None:
        """Register the buffers as they are before the first batch."""
        self.num_attributes = num_attributes
        shape = (self.num_labels, num_attributes)
        uniform = torch.full(shape, 1.0 / (self.num_labels * num_attributes), device=device)
        starts_at_zero = self.estimator == "published" and self.averaging in ("moving", "moving-rows", "batch")
        self.register_buffer("table", torch.zeros_like(uniform) if starts_at_zero else uniform)
        self.register_buffer("unknown", uniform[:, :1].t().clone(), persistent=False)
        self.register_buffer("log_rows", self._build_log_prior_rows(), persistent=False)
        self.register_buffer("visited", torch.zeros(shape, dtype=torch.bool, device=device))
        self.register_buffer("epoch_sums", torch.zeros(shape, device=device))
        self.register_buffer("epoch_counts", torch.zeros(shape, device=device))

    @torch.no_grad()
    def update(
        self,
        label: Tensor,
        posterior: Tensor,
        label_probability: Tensor | None = None,
        attribute: Tensor | None = None,
    ) -> None:
        """Update the table by a batch.

        Args:
            label: (B,) long, 0..L-1.
            posterior: (B, K), P(a | x), for example of ``Correlation.posterior``; finite and 0 or more.
            label_probability: (B,), the biased network's p_y(x), for "cell" and "published". By default the
                posterior of attribute value y, which it is for a one-to-one correlation.
            attribute: (B,), a_x; by default the attribute value of the greatest posterior.

        Raises:
            ValueError: The prior is fixed, or the posterior has another shape.
        """
        if self.averaging == "fixed":
            raise ValueError("A fixed group prior is not updated; give it a table with set_table instead.")
        size = (len(label), self.num_attributes)
        if posterior.shape != size:
            raise ValueError(f"posterior needs the shape {size}, not {tuple(posterior.shape)}.")
        posterior = posterior.to(self.table.dtype)
        if self.estimator == "joint":  # eq. 9, 10: P(y, a | x) is P(a | x) for the row's own label, 0 for others
            sums = torch.zeros_like(self.table).index_add_(0, label, posterior)
            counts = torch.full_like(sums, float(len(label)))
        else:
            attribute = posterior.argmax(dim=1) if attribute is None else attribute
            if self.estimator == "algorithm-1":
                value = posterior.gather(1, attribute.unsqueeze(1)).squeeze(1)
            elif label_probability is not None:
                value = label_probability.to(posterior.dtype)
            else:
                value = posterior.gather(1, label.unsqueeze(1)).squeeze(1)
            if self.averaging == "moving-rows":
                self._average_rows(label, attribute, value)
                return
            sums, counts = sum_by_group(label, attribute, value, self.num_labels, self.num_attributes)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        self._average_batch(sums, counts)

    def _average_batch(self, sums: Tensor, counts: Tensor) -> None:
        """Update the table by the sums (L, K) and numbers of rows (L, K) of a batch in each cell."""
        has_rows = counts > 0
        if self.averaging == "dataset":
            self.epoch_sums += sums
            self.epoch_counts += counts
        elif self.estimator == "published":
            mean = sums / (counts + EXTRA_ROWS)
            self.table.copy_(mean if self.averaging == "batch" else mean.lerp(self.table, self.momentum))
            self.visited.logical_or_(has_rows)
        elif self.averaging == "batch":
            torch.where(has_rows, sums / counts, self.unknown[0, 0], out=self.table)
            self.visited.copy_(has_rows)
        else:
            mean = sums / counts
            moved = torch.where(self.visited, mean.lerp(self.table, self.momentum), mean)
            torch.where(has_rows, moved, self.table, out=self.table)
            self.visited.logical_or_(has_rows)

    def _average_rows(self, label: Tensor, attribute: Tensor, value: Tensor) -> None:
        """Update the table row by row: T <- momentum * T + (1 - momentum) * value, but at first T <- value.

        All rows at once: of n rows of a cell, row i has the weight (1 - momentum) * momentum ** (n - i).
        """
        cell = concatenate_over_processes(torch.add(attribute, label, alpha=self.num_attributes))
        value = concatenate_over_processes(value)
        sorted_cell, order = cell.sort(stable=True)
        first = torch.searchsorted(sorted_cell, torch.arange(self.table.numel() + 1, device=cell.device))
        counts = first.diff()
        position = torch.arange(len(cell), device=cell.device) - first[sorted_cell]
        power = self.momentum ** (counts[sorted_cell] - 1 - position).to(value.dtype)
        sets_cell = (position == 0) & ~self.visited.flatten()[sorted_cell]
        weight = torch.where(sets_cell, power, (1 - self.momentum) * power)
        added = torch.zeros_like(self.table.flatten()).index_add_(0, sorted_cell, weight * value[order])
        past = torch.where(self.visited.flatten(), self.momentum ** counts.to(value.dtype), 0.0) * self.table.flatten()
        has_rows = counts > 0
        self.table.copy_(torch.where(has_rows, past + added, self.table.flatten()).view_as(self.table))
        self.visited.logical_or_(has_rows.view_as(self.visited))

    @torch.no_grad()
    def end_epoch(self) -> None:
        """With "dataset" averaging: set the table to the means of the epoch; else do nothing."""
        if self.averaging != "dataset":
            return
        has_rows = self.epoch_counts > 0
        self.table.copy_(torch.where(has_rows, self.epoch_sums / self.epoch_counts, self.table))
        self.visited |= has_rows
        self.epoch_sums.zero_()
        self.epoch_counts.zero_()

    @torch.no_grad()
    def set_table(self, table: Tensor) -> None:
        """Set the table, for example to a counted prior; a moving average continues from there.

        Args:
            table: (L, K) counts or probabilities, finite, 0 or more.

        Raises:
            ValueError: The table has a wrong shape, is negative, not finite, or 0 everywhere.
        """
        if table.shape != self.table.shape:
            raise ValueError(f"The group prior needs the shape {tuple(self.table.shape)}, not {tuple(table.shape)}.")
        if not bool((table.isfinite() & (table >= 0)).all()) or not bool(table.any()):
            raise ValueError("A group prior must be finite, 0 or more, and not 0 everywhere: give counts.")
        self.table.copy_(table)
        self.log_rows.copy_(self._build_log_prior_rows())
        self.visited.fill_(True)

    def resize(self, num_attributes: int) -> None:
        """Start with an empty table for another number of attribute values K, if it differs."""
        if num_attributes != self.num_attributes:
            self._make_buffers(num_attributes, self.table.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Resize to the number of attribute values in the checkpoint, then load."""
        if f"{prefix}table" in state_dict:
            self.resize(state_dict[f"{prefix}table"].shape[1])
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.log_rows.copy_(self._build_log_prior_rows())

    def for_attribute(self, attribute: Tensor) -> Tensor:
        """Return P(y, a_x) of every label y for rows of known or estimated attributes.

        Args:
            attribute: (B,) long, 0..K-1, or -1 where unknown: then all labels are equally probable, so that nothing is
                corrected.

        Returns:
            (B, L).
        """
        return _look_up_prior_rows(self._build_prior_rows(), attribute)

    def log_for_attribute(self, attribute: Tensor) -> Tensor:
        """Return the logarithm of ``for_attribute`` less each row's greatest value: what is added to logits (eq. 7).

        Args:
            attribute: (B,) long, 0..K-1, or -1 where unknown.

        Returns:
            (B, L), finite.
        """
        return _look_up_prior_rows(
            self.log_rows if self.averaging == "fixed" else self._build_log_prior_rows(), attribute
        )

    def log(self, prior: Tensor) -> Tensor:
        """Return the logarithm of a prior of any shape, with the floor added to the prior."""
        return torch.log(prior + self.floor if self.floor else prior)

    def _build_prior_rows(self) -> Tensor:
        """Return P(y, a) of an unknown attribute, -1, and of each value, (1 + K, L)."""
        rows = self.table.t()
        if self.normalize_columns:
            total = rows.sum(dim=1, keepdim=True)
            rows = torch.where(total > 0, rows / total, rows)
        return torch.cat((self.unknown, rows))

    def _build_log_prior_rows(self) -> Tensor:
        return shift_log_prior(self.log(self._build_prior_rows()))


def _look_up_prior_rows(prior_rows: Tensor, attribute: Tensor) -> Tensor:
    """Return the rows (B, L) for attributes (B,) of -1..K-1 from a table (1 + K, L).

    ``embedding`` refuses attributes outside without waiting for a GPU; indexing would take -2 for a value.
    """
    try:
        return torch.nn.functional.embedding(attribute + 1, prior_rows)
    except IndexError as error:
        raise ValueError(f"attribute must lie in -1 (unknown) .. {len(prior_rows) - 2}") from error


def _build_fixed_prior(values: Tensor | ArrayLike) -> GroupPrior:
    """Return a prior that holds a table (L, K) of counts or probabilities; ``ValueError`` if it is not one."""
    table = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    if table.dim() != 2:
        raise ValueError(f"A group prior needs the shape (labels, attribute values), not {tuple(table.shape)}.")
    prior = GroupPrior(*table.shape, averaging="fixed", floor=0.0)
    prior.set_table(table)  # its scale corrects nothing
    return prior


class LogitCorrectedLoss(nn.Module):
    """Cross-entropy of the logits plus strength * log P(., a) of each row's attribute a (eq. 7).

    Use it in place of ``torch.nn.CrossEntropyLoss`` where each training row has an attribute, known or estimated, that
    correlates with the label. Predict with the plain logits: they no longer rely on the correlation.

    Args:
        prior: The group prior: a ``GroupPrior``, which may still be updated, or a table (L, K) of counts or
            probabilities, 0 or more, such as ``functional.count_prior`` gives.
        strength: Factor of log P, 0 or more. 1 is the paper's, 0 gives plain cross-entropy. More than 1 favours the
            labels that are rare for an attribute even further.
        label_smoothing: In [0, 1]; spread in proportion to the row's prior, not evenly;
            see ``functional.logit_corrected_cross_entropy``.
        weight: (L,) of each label, as that of ``torch.nn.CrossEntropyLoss``; but a smoothed row weighs as its own
            label, where that loss weighs each label's share. To weigh single rows, take ``reduction="none"`` and weigh
            what it returns.
        reduction: none, mean or sum over the rows.

    Raises:
        InputError: An option is out of its range.
        ValueError: The prior is not such a table.

    >>> loss = LogitCorrectedLoss(torch.tensor([[45.0, 5.0], [5.0, 45.0]]))
    >>> logits, label, attribute = torch.zeros(3, 2), torch.tensor([0, 0, 0]), torch.tensor([0, 1, -1])
    >>> [round(float(loss(logits[i:i+1], label[i:i+1], attribute[i:i+1]).exp()), 4) for i in range(3)]
    [1.1111, 10.0, 2.0]
    """

    def __init__(
        self,
        prior: GroupPrior | Tensor | ArrayLike,
        strength: float = 1.0,
        *,
        label_smoothing: float = 0.0,
        weight: Tensor | ArrayLike | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.weight: Tensor | None
        weights = None if weight is None else torch.as_tensor(weight)
        self.register_buffer("weight", weights if weights is None or weights.is_floating_point() else weights.float())
        check_range("strength", strength, 0)
        check_range("label_smoothing", label_smoothing, 0, 1)
        check_choice("reduction", reduction, get_args(Reduction))
        self.strength = strength
        self.label_smoothing = label_smoothing
        self.reduction = reduction
        self.prior = prior if isinstance(prior, GroupPrior) else _build_fixed_prior(prior)
        shape = (self.prior.num_labels,)
        if weights is not None and (weights.shape != shape or not bool((weights >= 0).all())):
            raise ValueError(f"weight must hold a number of 0 or more for each label, in the shape {shape}.")

    def forward(self, logits: Tensor, label: Tensor, attribute: Tensor) -> Tensor:
        """Return the mean loss, 0-d, or what ``reduction`` asks for.

        Args:
            logits: (B, L), uncorrected; the ones to predict with.
            label: (B,) whole numbers, 0..L-1; or (B, L) shares of each label, without ``weight``.
            attribute: (B,) whole numbers, 0..K-1, or -1 where unknown: such a row is not corrected.

        Raises:
            TypeError: The labels or the attributes are something else.
        """
        has_shares = label.is_floating_point() and label.shape == logits.shape and self.weight is None
        if not has_shares:
            if label.is_floating_point() or label.dim() != 1:
                raise TypeError(
                    "label must be a tensor of whole numbers (B,): give label.long(), or label.squeeze(1).long()"
                )
            label = label.long()
        reduction = self.reduction if self.weight is None else "none"
        loss = logit_corrected_cross_entropy(
            logits, label, self.offset(attribute), reduction, label_smoothing=self.label_smoothing
        )
        if self.weight is None:
            return loss
        weight = torch.where(label == IGNORED, 0.0, self.weight[label.clamp_min(0)])
        loss = loss * weight
        if self.reduction == "none":
            return loss
        return loss.sum() / (weight.sum() if self.reduction == "mean" else 1)

    def offset(self, attribute: Tensor) -> Tensor:
        """Return what the loss adds to the logits, strength * log P(., a), for losses of your own.

        Args:
            attribute: (B,) whole numbers, 0..K-1, or -1 where unknown: then it adds 0.

        Returns:
            (B, L), finite.

        Raises:
            TypeError: The attributes are not a tensor of whole numbers.

        A network for two labels with a single logit takes the difference of the two columns:

        >>> loss = LogitCorrectedLoss(torch.tensor([[45.0, 5.0], [5.0, 45.0]]))
        >>> offset = loss.offset(torch.tensor([0, 1, -1]))
        >>> (offset[:, 1] - offset[:, 0]).exp().round(decimals=4)
        tensor([0.1111, 9.0000, 1.0000])
        """
        is_tensor = isinstance(attribute, Tensor)
        if not is_tensor or attribute.is_floating_point() or attribute.is_complex() or attribute.dtype is torch.bool:
            raise TypeError("attribute must be a tensor of whole numbers (B,), with -1 where it is unknown")
        return self.strength * self.prior.log_for_attribute(attribute.long())


def check_criterion(criterion: object) -> None:
    """Raise ``InputError`` if adding the prior to the logits would not correct them under a user's loss.

    A loss that smooths labels evenly makes plain logits predict rare labels. Other losses of torch do not normalise the
    logits.
    """
    if type(criterion).__module__ == nn.NLLLoss.__module__ and not isinstance(criterion, nn.CrossEntropyLoss):
        raise InputError(f"{type(criterion).__name__} is not a cross-entropy of logits: take torch.nn.CrossEntropyLoss")
    for name in ("label_smoothing", "smoothing"):  # torch's, timm's
        value = getattr(criterion, name, None)
        if isinstance(value, int | float) and value > 0:
            raise InputError(
                f"{type(criterion).__name__} has {name}={value:g}, which goes to all labels alike: a network so "
                "corrected predicts the rarest label of each attribute. Leave it out, or take a loop of your own with "
                "LogitCorrectedLoss(label_smoothing=), which allows for the prior"
            )
