"""Groups of a data set's own to judge on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from logit_correction.errors import InputError


@dataclass(frozen=True)
class Scoring:
    """The groups to judge on where they are not label x attribute: they may overlap and leave rows out.

    Attributes:
        membership: (M, G) bool, which row of the table belongs to which group.
        label_names: G names, the label of each group.
        attribute_names: G names, what else the rows of a group have in common.
    """

    membership: Tensor
    label_names: Sequence[str]
    attribute_names: Sequence[str]

    def __post_init__(self) -> None:
        """Check the shapes.

        Raises:
            InputError: If the membership is not (M, G) bool, or there are not G names.
        """
        if self.membership.dim() != 2 or self.membership.dtype != torch.bool:
            raise InputError("the membership of scoring groups must be a (rows, groups) tensor of bools")
        if not self.membership.shape[1] == len(self.label_names) == len(self.attribute_names):
            raise InputError(
                f"there are {self.membership.shape[1]} scoring groups, but {len(self.label_names)} names of labels and "
                f"{len(self.attribute_names)} of attributes: name each group by both"
            )

    @property
    def names(self) -> list[tuple[str, str]]:
        """Label and attribute of each group."""
        return list(zip(map(str, self.label_names), map(str, self.attribute_names), strict=True))
