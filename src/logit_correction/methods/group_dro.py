"""Group distributionally robust optimization; Sagawa, Koh, Hashimoto and Liang, ICLR 2020 (arXiv:1911.08731)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.distributed import sum_over_processes
from logit_correction.errors import check_range
from logit_correction.functional import sum_by_group
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import check_is_static
from logit_correction.types import Batch, DataInfo, NetworkFactory, Stage, Step


class GroupDRO(Algorithm):
    """Minimizes the loss of the worst group, which needs the attribute of every training row.

    Use it with attribute labels as the upper bound that methods without them are compared with; with an estimator it is
    an alternative to ``LC``. The groups g = (y, a) have weights q_g that sum to 1 (Algorithm 1 of the paper). Each step
    has three parts:

    - l_g is the mean cross-entropy of the batch's rows of group g, plus the group adjustment C / sqrt(n_g). n_g is
      the number of training rows of the group.
    - q_g is multiplied by exp(eta * l_g), and all q are scaled to sum to 1.
    - The loss is the sum of q_g * l_g, with q held constant (and without the adjustment, which has no gradient).

    As in the published runs, all groups are drawn equally often, and a step updates all groups that it has drawn. A
    group without rows in the batch keeps its q_g except for the scaling and adds nothing to the loss. Rows of unknown
    attribute belong to no group; their mean cross-entropy is added with their share of the batch.
    """

    components = ("attributes",)

    attributes: AttributeEstimator
    q: Tensor
    count: Tensor

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str = "TrueAttributes",
        step_size: float = 0.01,
        adjustment: float = 0.0,
        biased_network: NetworkFactory | None = None,
        seed: int = 0,
    ) -> None:
        """Build the network.

        Args:
            network: Builds the network.
            info: Sizes and names of the data.
            attributes: The static estimator of each row's attribute: by default the attribute labels, which are then
                read.
            step_size: eta, the step size of the group weights, 0 or more; the paper's 0.01. The higher, the faster the
                weight moves to the worst group; 0 weighs all groups alike.
            adjustment: C, 0 or more; 0 is off. Groups with few rows then count as worse than they are. The paper
                chooses it on validation groups among 0..5.
            biased_network: Builds the estimator's networks; by default ones like ``network``.
            seed: Seed of the initial weights.
        """
        check_range("step_size", step_size, 0)
        check_range("adjustment", adjustment, 0)
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        check_is_static(self.attributes, "GroupDRO", "take Auto")
        self.step_size = step_size
        self.adjustment = adjustment
        num_groups = info.num_labels * self.attributes.num_attributes
        self.register_buffer("q", torch.full((num_groups,), 1.0 / num_groups))
        self.register_buffer("count", torch.zeros(num_groups))

    def begin_method_stage(self) -> Stage:
        counts = self.attributes.count_groups().float()
        self.count = counts.flatten().to(self.count.device)
        # A group without rows never has a loss, so it gets no weight.
        self.q = (self.count > 0) / (self.count > 0).sum().clamp_min(1)
        attribute = self.attributes.row_attribute.cpu()
        is_known = attribute >= 0
        if not is_known.any():
            return Stage()
        weight = 1.0 / counts.cpu().double()[self.attributes.rows.label, attribute.clamp_min(0)]
        return Stage(sample_weight=weight.where(is_known, weight[is_known].mean()))

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Update q, and return the sum of q_g * l_g, plus the loss of rows of unknown attribute.

        Args: as in ``Algorithm.compute_loss``.
        """
        loss = cross_entropy(self.network(batch.inputs), batch.label, reduction="none").to(self.q.dtype)
        attribute = self.attributes(batch, epoch, self.randomness).attribute
        is_known = (attribute >= 0).to(loss.dtype)
        group_shape = (self.info.num_labels, self.attributes.num_attributes)
        group = (batch.label, attribute.clamp_min(0))
        sums = sum_by_group(*group, loss * is_known, *group_shape)[0].flatten()
        counts = sum_by_group(*group, is_known, *group_shape)[0].flatten()
        with torch.no_grad():
            total_sums, counts = sum_over_processes(torch.stack((sums, counts))).unbind(0)
            size = counts.clamp_min(1.0)
            adjusted = total_sums / size + self.adjustment * self.count.clamp_min(1.0).rsqrt()
            # In logarithms: exp(eta * l_g) overflows float32 from losses of 8,900 on. 0 if no attribute is known.
            q = torch.softmax(self.q.log() + self.step_size * adjusted * (counts > 0), dim=0).nan_to_num(0.0)
            self.q.copy_(q)
        # The loop averages the losses of the processes by their rows; group sums of all processes must be added.
        num_rows = torch.full_like(loss[:1], len(loss))
        robust_loss = (q * sums / size).sum() * (sum_over_processes(num_rows) / num_rows).squeeze(0)
        robust_loss = robust_loss * (counts.sum() > 0) + (loss * (1 - is_known)).mean()
        return Step(robust_loss, {"loss_mean": loss.detach().mean(), "largest_group_weight": q.max()})
