"""Group distributionally robust optimization; Sagawa, Koh, Hashimoto and Liang, ICLR 2020 (arXiv:1911.08731)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.functional import cell_sums
from logit_correction.methods.base import Algorithm, check_range, num_processes, sum_over_processes
from logit_correction.types import Batch, DataInfo, InputError, NetworkFactory, Stage, Step


class GroupDRO(Algorithm):
    """Minimizes the loss of the worst group, which takes the attribute of every training row.

    The groups g = (y, a) have weights q_g that sum to 1 (Algorithm 1 of the paper). In each step

    - l_g is the mean cross-entropy of the batch's rows of group g, plus the group adjustment C / sqrt(n_g), n_g
      being the number of training rows of the group;
    - q_g is multiplied by exp(eta * l_g), and all q are scaled to sum to 1;
    - the loss is the sum of q_g * l_g, with q held constant (and without the adjustment, which has no gradient).

    The paper draws one group a step; here, as in its published runs, a step has rows of many groups and updates all
    of those. A group without rows in the batch keeps its q_g but for the scaling and adds nothing to the loss.

    A run lets the method count the groups through ``observe_rows``; in a loop of your own call it once before stage 0.
    """

    needs_attributes = True
    q: Tensor
    count: Tensor

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        step_size: float = 0.01,
        adjustment: float = 0.0,
        balanced: bool = True,
        seed: int = 0,
    ) -> None:
        """Build the network.

        Args:
            network: Builds the network.
            info: Sizes and names of the data.
            step_size: eta, the step size of the group weights; the paper's 0.01.
            adjustment: C; 0 is off. The paper chooses it on validation groups among 0..5.
            balanced: Draw rows so that every group is as frequent as any other, as Algorithm 1 does; otherwise each
                row is seen once an epoch.
            seed: Seed of the initial weights.

        Raises:
            InputError: If an option is out of range.
        """
        check_range("step_size", step_size, 0)
        check_range("adjustment", adjustment, 0)
        super().__init__(network, info, seed=seed)
        self.step_size, self.adjustment, self.balanced = step_size, adjustment, balanced
        num_groups = info.num_labels * info.num_attributes
        self.register_buffer("q", torch.full((num_groups,), 1.0 / num_groups))
        self.register_buffer("count", torch.zeros(num_groups))
        self._group: Tensor | None = None

    def observe_rows(self, label: Tensor, attribute: Tensor | None) -> None:
        """Count the groups of the training rows."""
        assert attribute is not None
        self._group = label.cpu() * self.info.num_attributes + attribute.cpu()
        self.count.copy_(torch.bincount(self._group, minlength=len(self.count)))
        # A group that no row belongs to can have no loss, so it shall have no weight.
        self.q.copy_((self.count > 0) / (self.count > 0).sum())

    def begin_stage(self, stage: int, train_logits: Tensor | None) -> Stage:
        """Ask for rows of all groups alike, if so chosen.

        Raises:
            InputError: If the groups must be counted and were not.
        """
        if not self.balanced:
            if self.adjustment and self._group is None:
                raise InputError("GroupDRO must count the groups: call observe_rows(label, attribute) before training")
            return Stage()
        if self._group is None:
            raise InputError(
                "GroupDRO must know the rows' groups to balance them: call observe_rows(label, attribute) before "
                "training, or take balanced=False"
            )
        return Stage(row_weight=1.0 / self.count.cpu().double()[self._group])

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Update the group weights and return the weighted sum of the group losses."""
        assert batch.attribute is not None
        loss = cross_entropy(self.network(batch.inputs), batch.label, reduction="none").to(self.q.dtype)
        sums, counts = cell_sums(batch.label, batch.attribute, loss, self.info.num_labels, self.info.num_attributes)
        sums, counts = sums.flatten(), counts.flatten()
        with torch.no_grad():
            present_sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
            present, size = counts > 0, counts.clamp_min(1.0)
            adjusted = present_sums / size
            if self.adjustment:
                adjusted = adjusted + self.adjustment * self.count.clamp_min(1.0).rsqrt()
            grown = self.q * torch.exp(self.step_size * adjusted * present)
            q = grown / grown.sum()
            self.q.copy_(q)
        # Gradients of several processes are averaged, their group sums must be added.
        robust = (q * sums / size).sum() * num_processes()
        logs = {"loss_mean": loss.detach().mean(), "largest_group_weight": q.max()}
        return Step(robust, logs)
