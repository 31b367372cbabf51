"""Which attribute values belong to which labels in the majority of the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from logit_correction.errors import InputError


class Correlation:
    """A spurious correlation as weights (L, K): entry (y, a) is P(a | y) in the majority; rows sum to 1.

    It covers the paper's four kinds of correlation (section 4.2), and takes no attribute labels of rows.

    Args:
        weights: (L, K) numbers, 0 or more; each row sums to 1.

    Attributes:
        weights: (L, K) float64 on the CPU.
        num_labels: L.
        num_attributes: K.

    >>> brown_zeros_and_ones = Correlation.from_table([[0], [0], [1]])
    >>> brown_zeros_and_ones.kind
    'many-to-one'
    >>> brown_zeros_and_ones.posterior(torch.tensor([[0.5, 0.25, 0.25]]))
    tensor([[0.7500, 0.2500]])
    """

    def __init__(self, weights: Tensor | Sequence[Sequence[float]]) -> None:
        table = torch.as_tensor(weights, dtype=torch.float64, device="cpu").detach().clone()
        good = table.dim() == 2 and bool((table >= 0).all()) and bool(((table.sum(dim=1) - 1).abs() < 1e-6).all())
        if not good or 0 in table.shape:
            raise InputError(
                "Correlation weights need the shape (labels, attribute values), and rows of numbers of 0 or more that "
                f"sum to 1, not {table.tolist()}."
            )
        self.weights = table
        self.num_labels, self.num_attributes = table.shape
        square = self.num_labels == self.num_attributes
        self._identity = square and torch.equal(table, torch.eye(len(table), dtype=table.dtype))
        self._placed: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    @classmethod
    def one_to_one(cls, num_labels: int) -> Correlation:
        """Return the correlation in which label j has attribute value j."""
        return cls(torch.eye(num_labels, dtype=torch.float64))

    @classmethod
    def from_table(
        cls, table: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], num_attributes: int | None = None
    ) -> Correlation:
        """Return the correlation of a table, whose row y lists the attribute values of label y; they weigh alike.

        Args:
            table: One row for each of the labels 0..L-1, as a mapping or in order.
            num_attributes: K; the greatest listed value plus one if left out.

        >>> Correlation.from_table([[0, 1], [2]]).weights
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
        """
        try:
            rows = [list(table[label]) for label in range(len(table))]
            size = 1 + max(max(row) for row in rows) if num_attributes is None else num_attributes
            weights = torch.zeros(len(rows), size, dtype=torch.float64)
            for label, row in enumerate(rows):
                weights[label, [value for value in row if value >= 0]] = 1.0 / len(row)
            return cls(weights)  # refuses negative and repeated values, whose weights do not add up
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, RuntimeError) as error:
            raise InputError(
                f"A correlation lists the attribute values of each label, such as [[0, 1], [2]], not {table!r}."
            ) from error

    @classmethod
    def counted(cls, label: Tensor, attribute: Tensor, num_labels: int, num_attributes: int) -> Correlation:
        """Return the correlation in which each label has its commonest attribute; (N,) each, -1 where unknown."""
        known = attribute >= 0
        cell = label[known] * num_attributes + attribute[known]
        counts = torch.bincount(cell, minlength=num_labels * num_attributes).view(num_labels, num_attributes)
        return cls.from_table(counts.argmax(dim=1, keepdim=True).tolist(), num_attributes)

    @property
    def kind(self) -> str:
        """One of "one-to-one", "many-to-one", "one-to-many", "many-to-many" (labels to attribute values)."""
        labels, values = ("many" if bool(((self.weights > 0).sum(dim) > 1).any()) else "one" for dim in (0, 1))
        return f"{labels}-to-{values}"

    def posterior(self, class_probs: Tensor) -> Tensor:
        """Return P(a | x), (B, K), from a biased network's class probabilities (B, L) (eq. 11, 12).

        For the one-to-one correlation these are the class probabilities themselves, not a copy.
        """
        if self._identity:
            return class_probs
        weights = self._on(class_probs.device, class_probs.dtype)
        if len(class_probs) * weights.numel() > 2**18:  # from here on, what takes less memory is faster too
            with torch.autocast(class_probs.device.type, enabled=False):  # it would round a matrix product
                return class_probs @ weights
        return (class_probs.unsqueeze(2) * weights).sum(dim=1)

    def is_minority(self, label: Tensor, attribute: Tensor) -> Tensor:
        """Return which rows (B,) of these labels and attributes, (B,) each, conflict; none of attribute -1 does."""
        aligned = self._on(label.device, torch.bool)[label, attribute]
        return ~aligned & (attribute >= 0)

    def minority_groups(self, device: torch.device | str = "cpu") -> Tensor:
        """Return which groups (y, a) conflict with the correlation, (L, K) bool."""
        return ~self._on(torch.device(device), torch.bool)

    def to_table(self) -> list[list[int]]:
        """Return the attribute values of each label, in order; the weights themselves are left out."""
        return [row.nonzero().flatten().tolist() for row in self.weights > 0]

    def _on(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the weights (as bool: which are positive) on a device, copied there once."""
        placed = self._placed.get((device, dtype))
        if placed is None:
            placed = self._placed[device, dtype] = self.weights.to(device=device, dtype=dtype)
        return placed

    def __eq__(self, other: object) -> bool:
        return torch.equal(self.weights, other.weights) if isinstance(other, Correlation) else NotImplemented

    def __repr__(self) -> str:
        return f"Correlation({self.weights.tolist()})"
