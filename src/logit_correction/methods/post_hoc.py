"""Post-hoc logit adjustment (Menon et al., ICLR 2021), here by P(y | a)."""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.losses import GroupPrior
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import Counted, check_is_static
from logit_correction.networks.base import get_feature_size
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class CorrectedHead(nn.Module):
    """A head's logits less log P(y | a_x), which a linear reader predicts from the same features."""

    def __init__(self, head: nn.Module, in_features: int, num_labels: int) -> None:
        super().__init__()
        self.head, self.in_features = head, in_features
        self.reader = nn.Linear(in_features, num_labels, dtype=next(head.parameters()).dtype)
        nn.init.zeros_(self.reader.weight)
        nn.init.zeros_(self.reader.bias)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features) - self.reader(features).log_softmax(dim=1)
        return logits


class PostHoc(Algorithm):
    """Trains by ERM and predicts by its logits less log P(y | a_x); nothing is corrected while it trains.

    P(y | a) is counted on the training rows. For a new row a linear reader of the network's features predicts it,
    trained without changing them. With ``--network FromRun`` the network stays that of a finished run, and only the
    reader trains.
    """

    components = MappingProxyType({"attributes": "attributes"})
    group_prior: GroupPrior
    attributes: AttributeEstimator

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str = "Auto",
        biased_network: NetworkFactory | None = None,
        seed: int = 0,
    ) -> None:
        """Build the network, which needs ``features`` and ``head``, and the reader.

        Args:
            attributes: Where the attribute of each training row comes from; estimates must be settled.
        """
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        self.finished = bool(getattr(self.network, "finished", False))
        check_is_static(self.attributes, "PostHoc", "take Auto, CrossFitted or Given")
        self.prior_rule = Counted()
        self.group_prior = self.prior_rule.make(self.attributes)
        size = get_feature_size(self.network)  # refuses a network without features
        self.network.head = CorrectedHead(self.network.head, size, info.num_labels)  # type: ignore[arg-type]

    def forward(self, batch: Batch, epoch: float) -> Step:
        if self.in_pretraining:
            return self.attributes.step(batch, epoch, self.randomness)
        head: CorrectedHead = self.network.head  # type: ignore[assignment]
        with torch.set_grad_enabled(not self.finished):
            features = self.network.features(batch.inputs)  # type: ignore[operator]
            loss = cross_entropy(head.head(features), batch.label)
        attribute = self.attributes(batch, epoch, self.randomness).attribute
        target = self.group_prior.log_for_attribute(attribute).softmax(dim=1)  # P(. | a)
        read = cross_entropy(head.reader(features.detach()), target, reduction="none")
        read = read @ (attribute >= 0).to(read.dtype) / len(read)
        return Step(read if self.finished else loss + read, {"loss": loss.detach(), "loss_reader": read.detach()})

    def parameter_groups(self) -> list[dict[str, object]]:
        if self.in_pretraining or not self.finished:
            return super().parameter_groups()
        return [{"params": list(self.network.head.reader.parameters()), "name": "reader"}]  # type: ignore[union-attr]
