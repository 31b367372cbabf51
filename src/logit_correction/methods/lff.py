"""Learning from failure; Nam, Cha, Ahn, Lee and Shin, NeurIPS 2020 (arXiv:2007.02561)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from logit_correction.functional import GCE_EXPONENT, check_gce_exponent, gce_from_cross_entropy
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import RelativeDifficulty
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class LfF(Algorithm):
    """Two networks side by side; rows that the biased one finds hard weigh more for the other. Reads no attribute.

    As in Algorithm 1 of the paper, the biased network f_B is trained with generalized cross-entropy, every row with
    weight 1. The debiased network f_D, ``network``, is trained with cross-entropy weighted by the relative difficulty

        W(x) = CE(f_B(x), y) / (CE(f_B(x), y) + CE(f_D(x), y)).

    Both losses are moving averages, kept for each training row and divided by the greatest one of the row's label
    (``RelativeDifficulty``). No gradient flows through W.
    """

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        biased_network: NetworkFactory | None = None,
        q: float = GCE_EXPONENT,
        seed: int = 0,
    ) -> None:
        """Build both networks.

        Args:
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7.
        """
        check_gce_exponent(q)
        super().__init__(network, info, seed=seed)
        self.biased_network = self.build(biased_network or network, "biased network")
        self.q = q
        self.difficulty = RelativeDifficulty(info.num_rows, info.num_labels)

    def forward(self, batch: Batch, epoch: float) -> Step:
        biased = cross_entropy(self.biased_network(batch.inputs), batch.label, reduction="none")
        debiased = cross_entropy(self.network(batch.inputs), batch.label, reduction="none")
        weight: Tensor = self.difficulty(batch.index, batch.label, biased, debiased)
        biased_loss, debiased_loss = gce_from_cross_entropy(biased, self.q).mean(), (weight * debiased).mean()
        logs = {
            "loss_debiased": debiased_loss.detach(),
            "loss_biased": biased_loss.detach(),
            "mean_weight": weight.mean(),
        }
        return Step(debiased_loss + biased_loss, logs)

    def parameter_groups(self) -> list[dict[str, object]]:
        biased: dict[str, object] = {"params": list(self.biased_network.parameters()), "name": "biased_network"}
        return [*super().parameter_groups(), biased]
