"""How hard rows are for a biased network, from losses averaged row by row; shared by LfF and DFA."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from logit_correction.distributed import join_over_processes


class RelativeDifficulty(nn.Module):
    """How hard a row is for a biased network relative to a debiased one, from losses averaged row by row.

    Each training row has a moving average of its cross-entropy under either network, l_B and l_D; the first visit sets
    it. An average is divided by the greatest one of all rows with the same label, so that a label that is hard
    throughout does not get the weight of minorities, and W = l_B / (l_B + l_D). Used by LfF (Nam et al. 2020) and DFA
    (Lee et al. 2021).

    Args:
        num_rows: N.
        num_labels: L.
        momentum: Weight of the past.
    """

    average: Tensor
    visited: Tensor
    row_label: Tensor

    def __init__(self, num_rows: int, num_labels: int, momentum: float) -> None:
        super().__init__()
        self.num_labels, self.momentum = num_labels, momentum
        self.register_buffer("average", torch.zeros(2, num_rows))
        self.register_buffer("visited", torch.zeros(num_rows, dtype=torch.bool))
        self.register_buffer("row_label", torch.zeros(num_rows, dtype=torch.long))

    @torch.no_grad()
    def forward(self, index: Tensor, label: Tensor, biased: Tensor, debiased: Tensor) -> Tensor:
        """Take in one batch's losses, of all processes together, and return the weights of its rows.

        Args:
            index: (B,) long, the training rows, each once.
            label: (B,) long.
            biased: (B,) cross-entropy under the biased network.
            debiased: (B,) cross-entropy under the debiased network.

        Returns:
            (B,) weights in [0, 1].
        """
        losses = torch.stack((biased, debiased), dim=1).to(self.average.dtype)
        rows, current = join_over_processes(index), join_over_processes(losses).t()
        past = self.average.index_select(1, rows)
        moved = torch.where(self.visited.index_select(0, rows), torch.lerp(current, past, self.momentum), current)
        self.average.index_copy_(1, rows, moved)
        self.visited.index_fill_(0, rows, True)
        self.row_label.index_copy_(0, rows, join_over_processes(label))
        # A row not yet visited has the average 0 and so is never the greatest, whatever its label.
        greatest = self.average.new_zeros(2, self.num_labels)
        greatest.scatter_reduce_(1, self.row_label.expand(2, -1), self.average, "amax")
        relative = self.average.index_select(1, index) / greatest.index_select(1, label).clamp_min(1e-12)
        return relative[0] / relative.sum(dim=0).clamp_min(1e-12)
