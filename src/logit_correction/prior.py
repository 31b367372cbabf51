"""The running estimate of the group prior P(y, a) that logit correction adds to the logits."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from logit_correction.distributed import sum_over_processes
from logit_correction.functional import cell_sums
from logit_correction.functional.prior import shifted

Estimator: TypeAlias = Literal["cell", "joint", "algorithm-1"]
Averaging: TypeAlias = Literal["moving", "batch", "dataset", "fixed"]


class GroupPrior(nn.Module):
    """A table (L, K) of the group prior, estimated batch by batch from a biased network (eq. 9 - 11).

    ``estimator`` says what a batch adds to cell (y, a) of the table. a_x is the attribute of the greatest posterior.

    - "joint": the mean over the batch of P(y, a | x), as the equations say. The table sums to 1.
    - "cell": the mean of the label's probability p_y(x) over the rows with label y and a_x = a: how far the biased
      network believes such a label, as in the published code. The table need not sum to 1.
    - "algorithm-1": the mean of P(a_x | x) over the same rows, as the pseudo-code is printed (batch by batch
      instead of row by row). Rare cells then get values near 1, and little is corrected.

    ``averaging`` is one of "moving" (moving average; the first visit sets a cell), "batch" (the last batch alone),
    "dataset" (the mean over an epoch, set by ``end_epoch``) and "fixed" (a counted table, see ``set_table``). The table
    starts at 1 / (L * K). A cell without rows in a batch keeps its value; with "batch" it goes back to the start. With
    "joint" every batch visits every cell.

    With torch.distributed the sums of all ranks are added before they are averaged, so that every rank holds the table
    of the whole batch. All state lies in buffers.

    Args:
        num_labels: L.
        num_attributes: K.
        estimator: See above.
        averaging: See above.
        momentum: Weight of the past in the moving average, 0 <= momentum < 1.
        floor: Added to the prior inside the logarithm, finite and 0 or more.

    Raises:
        ValueError: An option is out of its range.

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
        estimator: Estimator = "joint",
        averaging: Averaging = "moving",
        momentum: float = 0.99,
        floor: float = 5e-5,
    ) -> None:
        super().__init__()
        for name, value, kind in (("estimator", estimator, Estimator), ("averaging", averaging, Averaging)):
            if value not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}, not {value!r}.")
        if num_labels < 1 or num_attributes < 1:
            raise ValueError(f"A group prior needs labels and attribute values, not {(num_labels, num_attributes)}.")
        if not 0.0 <= momentum < 1.0 or not 0.0 <= floor < math.inf:
            raise ValueError(f"momentum must lie in [0, 1) and floor in [0, inf), but are {momentum} and {floor}.")
        self.num_labels = num_labels
        self.estimator: Estimator = estimator
        self.averaging: Averaging = averaging
        self.momentum, self.floor = momentum, floor
        self._start(num_attributes, torch.device("cpu"))

    def _start(self, num_attributes: int, device: torch.device) -> None:
        """Register the buffers as they are before the first batch."""
        self.num_attributes, shape = num_attributes, (self.num_labels, num_attributes)
        table = torch.full(shape, 1.0 / (self.num_labels * num_attributes), device=device)
        self.register_buffer("table", table)
        self.register_buffer("unknown", table[:, :1].t().clone(), persistent=False)
        self.register_buffer("log_rows", self._log_rows(), persistent=False)
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
            label_probability: (B,), the biased network's p_y(x), for "cell". By default the posterior of attribute
                value y, which it is for a one-to-one correlation.
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
            if self.estimator == "cell" and label_probability is not None:
                value = label_probability.to(posterior.dtype)
            else:
                chosen = label if self.estimator == "cell" else attribute
                value = posterior.gather(1, chosen.unsqueeze(1)).squeeze(1)
            sums, counts = cell_sums(label, attribute, value, self.num_labels, self.num_attributes)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        table, visited, mean, seen = self.table, self.visited, sums / counts, counts > 0
        if self.averaging == "dataset":
            self.epoch_sums += sums
            self.epoch_counts += counts
        elif self.averaging == "batch":
            torch.where(seen, mean, self.unknown[0, 0], out=table)
            visited.copy_(seen)
        else:
            torch.where(seen, torch.where(visited, mean.lerp(table, self.momentum), mean), table, out=table)
            visited.logical_or_(seen)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """With "dataset" averaging: set the table to the means of the epoch; else do nothing."""
        if self.averaging != "dataset":
            return
        seen = self.epoch_counts > 0
        self.table.copy_(torch.where(seen, self.epoch_sums / self.epoch_counts, self.table))
        self.visited |= seen
        self.epoch_sums.zero_()
        self.epoch_counts.zero_()

    @torch.no_grad()
    def set_table(self, table: Tensor) -> None:
        """Set the table (L, K), for example to a counted prior; a moving average continues from there.

        Raises:
            ValueError: The table has a wrong shape, is negative, not finite, or 0 everywhere.
        """
        if table.shape != self.table.shape:
            raise ValueError(f"The group prior needs the shape {tuple(self.table.shape)}, not {tuple(table.shape)}.")
        if not bool((table.isfinite() & (table >= 0)).all()) or not bool(table.any()):
            raise ValueError("A group prior must be finite, 0 or more, and not 0 everywhere: give counts.")
        self.table.copy_(table)
        self.log_rows.copy_(self._log_rows())
        self.visited.fill_(True)

    def resize(self, num_attributes: int) -> None:
        """Start anew with another number of attribute values, if it differs."""
        if num_attributes != self.num_attributes:
            self._start(num_attributes, self.table.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Resize to the saved number of attribute values, then load."""
        if f"{prefix}table" in state_dict:
            self.resize(state_dict[f"{prefix}table"].shape[1])
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.log_rows.copy_(self._log_rows())

    def for_attribute(self, attribute: Tensor) -> Tensor:
        """Return P(y, a_x) of every label y, (B, L), for attributes (B,) long, 0..K-1.

        For an unknown attribute, -1, it is the same for every label, so that nothing is corrected.
        """
        return _of(self._rows(), attribute)

    def log_for_attribute(self, attribute: Tensor) -> Tensor:
        """Return ``log`` of ``for_attribute``, less each row's greatest value, finite (B, L); a lookup if fixed."""
        return _of(self.log_rows if self.averaging == "fixed" else self._log_rows(), attribute)

    def log(self, prior: Tensor) -> Tensor:
        """Return the logarithm of a prior of any shape, with the floor added: what is added to logits."""
        return torch.log(prior + self.floor if self.floor else prior)

    def _rows(self) -> Tensor:
        """Return P(y, a) of an unknown attribute, -1, and of each value, (1 + K, L)."""
        return torch.cat((self.unknown, self.table.t()))

    def _log_rows(self) -> Tensor:
        return shifted(self.log(self._rows()))


def _of(rows: Tensor, attribute: Tensor) -> Tensor:
    """Return the rows (B, L) of attributes -1..K-1 out of (1 + K, L).

    ``embedding`` refuses attributes outside without waiting for a GPU; indexing would take -2 for a value.
    """
    try:
        return torch.nn.functional.embedding(attribute + 1, rows)
    except IndexError as error:
        raise ValueError(f"attribute must lie in -1 (unknown) .. {len(rows) - 2}") from error
