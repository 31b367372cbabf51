"""Group distributionally robust optimization; Sagawa, Koh, Hashimoto and Liang, ICLR 2020 (arXiv:1911.08731)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.functional import cell_sums
from logit_correction.methods.attribute import hidden_share
from logit_correction.methods.base import check_range, num_processes, sum_over_processes
from logit_correction.methods.grouped import GroupedAlgorithm
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step


class GroupDRO(GroupedAlgorithm):
    """Minimizes the loss of the worst group, which takes the attribute of every training row.

    The groups g = (y, a) have weights q_g that sum to 1 (Algorithm 1 of the paper). In each step

    - l_g is the mean cross-entropy of the batch's rows of group g, plus the group adjustment C / sqrt(n_g), n_g
      being the number of training rows of the group;
    - q_g is multiplied by exp(eta * l_g), and all q are scaled to sum to 1;
    - the loss is the sum of q_g * l_g, with q held constant (and without the adjustment, which has no gradient).

    The paper draws one group a step; here, as in its published runs, a step has rows of many groups and updates all
    of those. A group without rows in the batch keeps its q_g but for the scaling and adds nothing to the loss.

    A run lets the method count the groups through ``observe_rows``; in a loop of your own call it once before stage 0.
    With ``groups=cross-fitted`` no attribute is read: a stage before this one estimates it (see ``CrossFitted``).
    """

    needs_attributes = True
    q: Tensor
    count: Tensor

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        groups: Literal["true", "cross-fitted"] = "true",
        step_size: float = 0.01,
        adjustment: float = 0.0,
        balanced: bool = True,
        biased_network: NetworkFactory | None = None,
        num_splits: int = 2,
        cross_fitting_epochs: int = 3,
        cross_fitting_learning_rate: float | None = None,
        biased_input_dropout: float | None = None,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
        seed: int = 0,
    ) -> None:
        """Build the network.

        Args:
            network: Builds the network.
            info: Sizes and names of the data.
            groups: ``true`` reads the training attributes, ``cross-fitted`` estimates them; the last five options
                concern the estimate.
            step_size: eta, the step size of the group weights; the paper's 0.01.
            adjustment: C; 0 is off. The paper chooses it on validation groups among 0..5.
            balanced: Draw rows so that every group is as frequent as any other, as Algorithm 1 does; otherwise each
                row is seen once an epoch.
            biased_network: Builds the biased networks; by default the same kind as ``network``.
            num_splits: S, the number of random splits into two halves; 2 S biased networks are trained.
            cross_fitting_epochs: Epochs of the stage in which they are trained.
            cross_fitting_learning_rate: Its learning rate; None takes the run's.
            biased_input_dropout: Probability with which a pixel or feature is hidden from the biased networks while
                they train; None as in ``LC``.
            correlation: ``one-to-one``, or ``known`` for the data source's table.
            seed: Seed of the initial weights, and of the splits.

        Raises:
            InputError: If an option is out of range or does not fit the data.
        """
        check_range("step_size", step_size, 0)
        check_range("adjustment", adjustment, 0)
        super().__init__(network, info, groups=groups, correlation=correlation, seed=seed)
        if groups == "cross-fitted":
            rate = cross_fitting_learning_rate
            hidden, build = hidden_share(biased_input_dropout, info), biased_network or network
            self.cross_fit(build, num_splits, cross_fitting_epochs, learning_rate=rate, input_dropout=hidden)
        self.step_size, self.adjustment, self.balanced = step_size, adjustment, balanced
        num_groups = info.num_labels * self.num_attributes
        self.register_buffer("q", torch.full((num_groups,), 1.0 / num_groups))
        self.register_buffer("count", torch.zeros(num_groups))
        self._group: Tensor | None = None

    @property
    def needs_counts(self) -> bool:
        """Whether the sampling or the adjustment goes by the groups' sizes."""
        return self.balanced or self.adjustment > 0

    def count_groups(self, label: Tensor, attribute: Tensor) -> None:
        """Count the groups of the training rows."""
        self._group = label.cpu() * self.num_attributes + attribute.cpu()
        self.count.copy_(torch.bincount(self._group, minlength=len(self.count)))
        # A group that no row belongs to can have no loss, so it shall have no weight.
        self.q.copy_((self.count > 0) / (self.count > 0).sum())

    def own_stage(self) -> Stage:
        """Ask for rows of all groups alike, if so chosen."""
        if not self.balanced:
            return Stage()
        assert self._group is not None
        return Stage(row_weight=1.0 / self.count.cpu().double()[self._group])

    def forward(self, batch: Batch, epoch: float) -> Step:
        """Update the group weights and return the weighted sum of the group losses."""
        if self.preparing:
            return self.prepare(batch, epoch)
        attribute = self.row_attribute(batch)
        loss = cross_entropy(self.network(batch.inputs), batch.label, reduction="none").to(self.q.dtype)
        sums, counts = cell_sums(batch.label, attribute, loss, self.info.num_labels, self.num_attributes)
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
