"""The running estimate of the group prior P(y, a) that logit correction adds to the logits."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from logit_correction.correlation import LARGE, weighted_rows
from logit_correction.distributed import sum_over_processes
from logit_correction.functional import cell_sums
from logit_correction.functional.prior import checked_table, shifted

Estimator: TypeAlias = Literal["cell", "joint", "algorithm-1"]
Averaging: TypeAlias = Literal["moving", "batch", "dataset", "fixed"]


class GroupPrior(nn.Module):
    """A table (L, K) of the group prior, estimated batch by batch from a biased network (eq. 9 - 11).

    With a_x the attribute of the greatest posterior, a batch gives to cell (y, a) of the table

    - "joint": the mean over the batch of P(y, a | x), as the equations say; the table sums to 1;
    - "cell": the mean of the label's probability p_y(x) over the rows with label y and a_x = a, that is how
      far the biased network believes such a label; no joint probability, the table need not sum to 1;
    - "algorithm-1": the mean of P(a_x | x) over the same rows, as the pseudo-code is printed (batch by batch
      instead of row by row). Rare cells then get values near 1, and little is corrected.

    The batches are averaged by "moving" (moving average; the first visit sets a cell), "batch" (the last batch
    alone), "dataset" (the mean over an epoch, taken over by ``end_epoch``) or "fixed" (a table that was counted,
    see ``set_table``). A cell without rows is not visited: it keeps its value, with "batch" ``start``. Of "joint"
    each batch visits every cell, and is 0 where it has no rows.

    When torch.distributed is initialised the sums of all ranks are added before anything is averaged, so that
    every rank holds the table of the whole batch. All state lies in buffers.

    Args:
        num_labels: L.
        num_attributes: K.
        estimator: See above.
        averaging: See above.
        momentum: Weight of the past in the moving average, 0 <= momentum < 1.
        start: Table before the first update: a number or (L, K); 1 / (L * K) if left out.
        floor: Added to the prior inside the logarithm, 0 or more.

    Raises:
        ValueError: An option is out of its range.

    >>> prior = GroupPrior(2, 2, estimator="joint")
    >>> prior.update(torch.tensor([0, 1]), torch.tensor([[1.0, 0.0], [0.25, 0.75]]))
    >>> prior.for_attribute(torch.tensor([0]))
    tensor([[0.5000, 0.1250]])
    """

    others: Tensor
    start: Tensor
    table: Tensor
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
        start: float | Tensor | None = None,
        floor: float = 5e-5,
    ) -> None:
        super().__init__()
        if estimator not in get_args(Estimator):
            raise ValueError(f"estimator must be one of {', '.join(get_args(Estimator))}, not {estimator!r}.")
        if averaging not in get_args(Averaging):
            raise ValueError(f"averaging must be one of {', '.join(get_args(Averaging))}, not {averaging!r}.")
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum must be at least 0 and less than 1, but it is {momentum}.")
        if floor < 0.0:
            raise ValueError(f"floor must be 0 or more, but it is {floor}.")
        self.num_labels, self.num_attributes = num_labels, num_attributes
        self.estimator: Estimator = estimator
        self.averaging: Averaging = averaging
        self.momentum, self.floor = momentum, floor
        shape = num_labels, num_attributes
        first = torch.as_tensor(1.0 / (num_labels * num_attributes) if start is None else start).cpu()
        filled = torch.zeros(shape).copy_(checked_table(first, shape))
        unknown = torch.full((1, num_labels), 1.0 / (num_labels * num_attributes))
        # What an attribute that cannot be is taken for, so that it shows although no value is read; last the unknown.
        self.register_buffer("others", torch.cat((torch.full_like(unknown, torch.nan), unknown)), False)
        self.register_buffer("start", filled)
        self.register_buffer("table", filled.clone())
        self.register_buffer("log_rows", self._log_rows(), False)
        self.register_buffer("visited", torch.zeros(shape, dtype=torch.bool))
        self.register_buffer("epoch_sums", torch.zeros(shape))
        self.register_buffer("epoch_counts", torch.zeros(shape))

    @torch.no_grad()
    def update(
        self,
        label: Tensor,
        posterior: Tensor,
        label_probability: Tensor | None = None,
        attribute: Tensor | None = None,
    ) -> None:
        """Take in one batch.

        Args:
            label: (B,) long, 0..L-1.
            posterior: (B, K), P(a | x), for example of ``Correlation.posterior``.
            label_probability: (B,), the biased network's p_y(x); used by "cell" alone. It may be left out for
                a one-to-one correlation, where it is the posterior of attribute value y.
            attribute: (B,), a_x, the attribute value of the greatest posterior; found here if left out.

        Raises:
            ValueError: The prior is fixed, the posterior has another shape, or "cell" gets no
                ``label_probability`` although labels and attribute values differ in number.
        """
        if self.averaging == "fixed":
            raise ValueError("A fixed group prior is not updated; give it a table with set_table instead.")
        if posterior.shape != (len(label), self.num_attributes):
            size = (len(label), self.num_attributes)
            raise ValueError(f"posterior needs the shape {size}, not {tuple(posterior.shape)}.")
        sums, counts = self._reduced_sums(label, posterior.to(self.table.dtype), label_probability, attribute)
        if self.averaging == "dataset":
            self.epoch_sums += sums
            self.epoch_counts += counts
            return
        table, visited = self.table, self.visited
        batch, seen = sums / counts, counts > 0
        if self.averaging == "batch":
            torch.where(seen, batch, self.start, out=table)
            visited.copy_(seen)
            return
        torch.where(seen, torch.where(visited, batch.lerp(table, self.momentum), batch), table, out=table)
        visited.logical_or_(seen)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """With "dataset" averaging: take over the means of the epoch and begin anew; else do nothing."""
        if self.averaging != "dataset":
            return
        seen = self.epoch_counts > 0
        self.table.copy_(torch.where(seen, self.epoch_sums / self.epoch_counts, self.table))
        self.visited |= seen
        self.epoch_sums.zero_()
        self.epoch_counts.zero_()

    @torch.no_grad()
    def set_table(self, table: Tensor) -> None:
        """Set the table, for example to a counted prior; a moving average goes on from there.

        Args:
            table: (L, K), finite and 0 or more.

        Raises:
            ValueError: The table has a wrong shape or wrong values.
        """
        if table.dim() == 0:
            raise ValueError("A group prior needs a table of labels and attribute values, not one number.")
        self.table.copy_(checked_table(table, (self.num_labels, self.num_attributes)))
        self.log_rows.copy_(self._log_rows())
        self.visited.fill_(True)

    def resize(self, num_attributes: int) -> None:
        """Take another number of attribute values, as known only when they have been read; forgets what there was."""
        if num_attributes == self.num_attributes:
            return
        options: dict[str, Any] = {"estimator": self.estimator, "averaging": self.averaging}
        options |= {"momentum": self.momentum, "floor": self.floor}
        fresh = GroupPrior(self.num_labels, num_attributes, **options).to(self.table.device)
        self.num_attributes = num_attributes
        self._buffers.update(fresh.named_buffers())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take as many attribute values as were saved."""
        table = state_dict.get(f"{prefix}table")
        if table is not None and table.dim() == 2:
            self.resize(table.shape[1])
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.log_rows.copy_(self._log_rows())

    def for_attribute(self, attribute: Tensor) -> Tensor:
        """P(y, a_x) of every label y for each row: attributes (B,) long, 0..K-1 -> (B, L).

        Where the attribute is -1, unknown, it is the same for every label, so that nothing is corrected. Where it lies
        outside its range it is NaN.
        """
        if self.table.numel() <= LARGE:
            return torch.cat((self.table.t(), self.others))[self._row(attribute)]
        value = attribute.clamp(0, self.num_attributes - 1)
        prior = self.table.index_select(1, value).t()
        return torch.where((attribute == value).unsqueeze(1), prior, self.others[(attribute == -1).long()])

    def log_for_attribute(self, attribute: Tensor) -> Tensor:
        """``log`` of ``for_attribute`` less each row's greatest value, finite (B, L); if fixed, a mere lookup.

        Where the attribute lies outside its range it is NaN.
        """
        return (self.log_rows if self.averaging == "fixed" else self._log_rows())[self._row(attribute)]

    def for_posterior(self, posterior: Tensor) -> Tensor:
        """Expected prior under a soft attribute, sum over a of P(a | x) P(y, a): (B, K) -> (B, L)."""
        return weighted_rows(posterior, self.table.t())

    def log(self, prior: Tensor) -> Tensor:
        """Correction to add to the logits, the logarithm of prior + floor, of any shape."""
        return torch.log(prior + self.floor if self.floor else prior)

    def _log_rows(self) -> Tensor:
        return shifted(self.log(torch.cat((self.table.t(), self.others))))

    def _row(self, attribute: Tensor) -> Tensor:
        """Row (B,) of the K values and ``others``: -1 is the last one, what lies outside the range the one before."""
        return attribute.clamp(-2, self.num_attributes)

    def extra_repr(self) -> str:
        """The options, for printing."""
        return (
            f"{self.num_labels}, {self.num_attributes}, estimator={self.estimator!r},"
            f" averaging={self.averaging!r}, momentum={self.momentum}, floor={self.floor}"
        )

    def _reduced_sums(
        self, label: Tensor, posterior: Tensor, label_probability: Tensor | None, attribute: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Sums and counts (L, K) of this batch over all ranks; their quotient is the batch's table."""
        if self.estimator == "joint":
            sums = torch.zeros_like(self.table).index_add_(0, label, posterior)
            counts = torch.full_like(self.table, float(label.shape[0]))
        else:
            if attribute is None:
                attribute = posterior.argmax(dim=1)
            value = posterior.gather(1, attribute.unsqueeze(1)).squeeze(1)
            if self.estimator == "cell":
                value = self._label_probability(label, posterior, label_probability)
            sums, counts = cell_sums(label, attribute, value, self.num_labels, self.num_attributes)
        sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
        return sums, counts

    def _label_probability(self, label: Tensor, posterior: Tensor, label_probability: Tensor | None) -> Tensor:
        """p_y(x) of each row in the table's dtype."""
        if label_probability is not None:
            return label_probability.to(posterior.dtype)
        if self.num_labels != self.num_attributes:
            raise ValueError("'cell' needs label_probability where labels and attributes differ in number.")
        return posterior.gather(1, label.unsqueeze(1)).squeeze(1)
