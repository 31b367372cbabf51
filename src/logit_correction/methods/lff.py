"""Learning from failure; Nam, Cha, Ahn, Lee and Shin, NeurIPS 2020 (arXiv:2007.02561)."""

from __future__ import annotations

from torch.nn.functional import cross_entropy

from logit_correction.attributes.base import ParameterGroup, make_parameter_group
from logit_correction.functional import GCE_EXPONENT, check_gce_exponent, gce_from_cross_entropy
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import RelativeDifficulty
from logit_correction.types import Batch, DataInfo, NetworkFactory, Step


class LfF(Algorithm):
    """Trains two networks together; rows that are hard for the biased one weigh more for the other.

    Use it as a baseline that reads no attribute. As in Algorithm 1 of the paper, the biased network f_B is trained with
    generalized cross-entropy, every row with weight 1. The debiased network f_D, ``network``, is trained with
    cross-entropy weighted by the relative difficulty

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
            network: Builds the network that predicts.
            info: Sizes and names of the data.
            biased_network: Builds the biased network; by default one like ``network``.
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7. The higher, the more the biased
                network trusts rows that it already predicts right; 0 is cross-entropy.
            seed: Seed of the initial weights.
        """
        check_gce_exponent(q)
        super().__init__(network, info, seed=seed)
        self.biased_network = self.build(biased_network or network, "biased network")
        self.q = q
        self.difficulty = RelativeDifficulty(info.num_rows, info.num_labels)

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return GCE(f_B) + W CE(f_D), each the mean over the batch.

        Args: as in ``Algorithm.compute_loss``.
        """
        biased = cross_entropy(self.biased_network(batch.inputs), batch.label, reduction="none")
        debiased = cross_entropy(self.network(batch.inputs), batch.label, reduction="none")
        weight = self.difficulty(batch.index, batch.label, biased, debiased)
        biased_loss = gce_from_cross_entropy(biased, self.q).mean()
        debiased_loss = (weight * debiased).mean()
        logs = {
            "loss_debiased": debiased_loss.detach(),
            "loss_biased": biased_loss.detach(),
            "mean_weight": weight.mean(),
        }
        return Step(debiased_loss + biased_loss, logs)

    def parameter_groups(self) -> list[ParameterGroup]:
        return [*super().parameter_groups(), make_parameter_group(self.biased_network, "biased_network")]
