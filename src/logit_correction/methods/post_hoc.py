"""Post-hoc logit adjustment (Menon et al., ICLR 2021), here by P(y | a)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import AttributeEstimator, ParameterGroup, make_parameter_group
from logit_correction.losses import GroupPrior
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import Counted, check_is_static
from logit_correction.networks.base import get_feature_size
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class CorrectedHead(nn.Module):
    """A head's logits less log P(y | a_x), which a linear layer (``reader``) predicts from the same features."""

    def __init__(self, head: nn.Module, in_features: int, num_labels: int) -> None:
        """Build the linear layer, with weights of 0.

        Args:
            head: The network's own head.
            in_features: Number of features.
            num_labels: L.
        """
        super().__init__()
        self.head = head
        self.in_features = in_features
        self.reader = nn.Linear(in_features, num_labels, dtype=next(head.parameters()).dtype)
        nn.init.zeros_(self.reader.weight)
        nn.init.zeros_(self.reader.bias)

    def forward(self, features: Tensor) -> Tensor:
        return self.head(features) - self.reader(features).log_softmax(dim=1)


class PostHoc(Algorithm):
    """Trains by ERM and predicts by its logits less log P(y | a_x): the correction is applied only in prediction.

    Use it to correct a finished run without training it again (``network="FromRun"``): the network then stays as it is,
    and only the linear layer of ``CorrectedHead`` trains. P(y | a) is counted on the training rows. For a new row the
    linear layer predicts it from the network's features; its training does not change them.
    """

    components = ("attributes",)
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
        """Build the network and the linear layer.

        Args:
            network: Builds a network with ``features`` and ``head``.
            info: Sizes and names of the data.
            attributes: The static estimator of each training row's attribute.
            biased_network: Builds the estimator's networks; by default ones like ``network``.
            seed: Seed of the initial weights.
        """
        super().__init__(network, info, seed=seed)
        self.use_attributes(attributes, biased_network or network)
        self.is_finished = getattr(self.network, "finished", False)
        check_is_static(self.attributes, "PostHoc", "take Auto, CrossFitted or Given")
        self.use_prior(Counted())
        size = get_feature_size(self.network)  # refuses a network without features
        self.network.head = CorrectedHead(self.network.head, size, info.num_labels)

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return ERM's loss, plus the loss of the linear layer that predicts P(y | a_x).

        Args: as in ``Algorithm.compute_loss``.
        """
        head: CorrectedHead = self.network.head
        if self.is_finished:  # so that batch normalisation does not go on to count, nor dropout hide features
            self.network.eval()
        with torch.set_grad_enabled(not self.is_finished):
            features = self.network.features(batch.inputs)
            loss = cross_entropy(head.head(features), batch.label)
        attribute = self.attributes(batch, epoch, self.randomness).attribute
        target = self.group_prior.log_for_attribute(attribute).softmax(dim=1)  # P(. | a)
        losses = cross_entropy(head.reader(features.detach()), target, reduction="none")
        reader_loss = losses @ (attribute >= 0).to(losses.dtype) / len(losses)
        total = reader_loss if self.is_finished else loss + reader_loss
        return Step(total, {"loss_reader": reader_loss.detach()})

    def parameter_groups(self) -> list[ParameterGroup]:
        if self.in_pretraining or not self.is_finished:
            return super().parameter_groups()
        return [make_parameter_group(self.network.head.reader, "reader")]
