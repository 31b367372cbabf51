"""Disentangled feature augmentation; Lee, Kim, Lee, Lee and Choo, NeurIPS 2021 (arXiv:2107.01372)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from logit_correction.errors import InputError
from logit_correction.formatting import format_option
from logit_correction.functional import GCE_EXPONENT, check_gce_exponent, gce_from_cross_entropy
from logit_correction.methods.base import Algorithm
from logit_correction.methods.parts import RelativeDifficulty
from logit_correction.networks.base import DropoutLinear, Network, get_feature_size
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Step, TrainingRows

DEFAULT_SWAP_FROM_EPOCH = 3.0  # where the length of the training is unknown


class DisentangledNetwork(nn.Module):
    """Two encoders, the features of two networks, and two linear heads on the concatenated features of both."""

    def __init__(self, intrinsic: Network, biased: Network) -> None:
        """Take the encoders of two networks and build new heads.

        Args:
            intrinsic: A network with ``features`` and a linear ``head``.
            biased: Another one.
        """
        super().__init__()
        width = get_feature_size(intrinsic) + get_feature_size(biased)
        self.intrinsic = intrinsic.features
        self.biased = biased.features
        head: Any = intrinsic.head
        head_class = DropoutLinear if isinstance(head, DropoutLinear) else nn.Linear
        self.intrinsic_head = head_class(width, head.out_features, dtype=head.weight.dtype)
        self.biased_head = head_class(width, head.out_features, dtype=head.weight.dtype)

    def forward(self, inputs: Inputs) -> Tensor:
        return self.intrinsic_head(torch.cat([self.intrinsic(inputs), self.biased(inputs)], dim=1))


class DFA(Algorithm):
    """Splits the features into an intrinsic and a biased half and swaps the biased halves between rows.

    Use it as a baseline that reads no attribute. Two heads read z = [E_i(x); E_b(x)]. C_i is trained with cross-entropy
    weighted by the relative difficulty W (see ``RelativeDifficulty``), C_b with generalized cross-entropy.

        L_dis = W(z) CE(C_i(z), y) + lambda_dis GCE(C_b(z), y).

    The loss of C_i does not reach E_b, nor that of C_b E_i. From a given epoch on the biased halves are permuted within
    the batch, and the labels y~ with them: z_swap = [z_i; z~_b].

        L_swap = W(z) CE(C_i(z_swap), y) + lambda_swap_b GCE(C_b(z_swap), y~),

    The loss is L_dis + lambda_swap L_swap. C_i predicts.

    >>> import torch
    >>> from logit_correction import DFA, MLP, DataInfo
    >>> info = DataInfo(num_labels=2, num_rows=4, input_shape=(3,))
    >>> method = DFA(lambda: MLP(info, hidden=[8]), info, swap_from_epoch=3)  # a network with features and a head
    >>> method.predict(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    network: DisentangledNetwork

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        q: float = GCE_EXPONENT,
        lambda_dis: float = 10.0,
        lambda_swap_b: float = 10.0,
        lambda_swap: float = 1.0,
        swap_from_epoch: float | None = None,
        seed: int = 0,
    ) -> None:
        """Build both encoders and heads.

        Args:
            network: Builds a network with ``features`` and a linear ``head``; called twice.
            info: Sizes and names of the data.
            q: Exponent of the generalized cross-entropy, in [0, 1]; the paper's 0.7.
            lambda_dis: Weight of the biased head's loss; the paper has 10 on Colored MNIST, 1 or 5 on Corrupted
                CIFAR-10, 2 on bFFHQ.
            lambda_swap_b: The same for swapped features.
            lambda_swap: Weight of the swapped features' loss; the paper has 1, and 0.1 on bFFHQ.
            swap_from_epoch: Epoch from which features are swapped. None takes a fifth of the training, as the paper
                does with 10,000 of 50,000 steps; in a loop that does not give the epochs in ``setup``, 3 epochs.
            seed: Seed of the initial weights and of the swaps.
        """
        check_gce_exponent(q)
        super().__init__(network, info, seed=seed)
        intrinsic: Any = self.network
        biased = self.build(network, "biased network")
        # Built as a whole under a role of its own, since the heads draw weights too.
        self.network = self.build(lambda: DisentangledNetwork(intrinsic, biased), "heads")
        self.q = q
        self.lambda_dis = lambda_dis
        self.lambda_swap_b = lambda_swap_b
        self.lambda_swap = lambda_swap
        self.is_swap_default = swap_from_epoch is None
        self.swap_from_epoch = DEFAULT_SWAP_FROM_EPOCH if swap_from_epoch is None else swap_from_epoch
        self.difficulty = RelativeDifficulty(info.num_rows, info.num_labels)

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        if self.is_swap_default:
            self.swap_from_epoch = rows.epochs / 5 if rows.epochs else DEFAULT_SWAP_FROM_EPOCH
        elif rows.epochs and rows.epochs <= self.swap_from_epoch:
            raise InputError(
                f"{format_option('epochs')} is {rows.epochs}: features are swapped from epoch "
                f"{self.swap_from_epoch:g} on, that is never; give more epochs, or lower "
                f"{format_option('method.swap_from_epoch')}"
            )

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        """Return L_dis, and from ``swap_from_epoch`` on L_dis + lambda_swap L_swap.

        Args: as in ``Algorithm.compute_loss``.
        """
        intrinsic = self.network.intrinsic(batch.inputs)
        biased = self.network.biased(batch.inputs)
        debiased_losses, biased_losses = self._compute_losses(intrinsic, biased, batch.label, batch.label)
        weight = self.difficulty(batch.index, batch.label, biased_losses, debiased_losses)
        debiased_loss = (weight * debiased_losses).mean()
        biased_loss = gce_from_cross_entropy(biased_losses, self.q).mean()
        loss = debiased_loss + self.lambda_dis * biased_loss
        logs = {
            "loss_debiased": debiased_loss.detach(),
            "loss_biased": biased_loss.detach(),
            "mean_weight": weight.mean(),
        }
        if epoch < self.swap_from_epoch:
            return Step(loss, logs)
        device = batch.label.device
        order = torch.rand(batch.label.shape, generator=self.randomness.next(device), device=device).argsort()
        swapped_label = batch.label.index_select(0, order)
        swapped = biased.index_select(0, order)
        debiased_losses, biased_losses = self._compute_losses(intrinsic, swapped, batch.label, swapped_label)
        debiased_loss = (weight * debiased_losses).mean()
        biased_loss = gce_from_cross_entropy(biased_losses, self.q).mean()
        logs["loss_debiased_swapped"] = debiased_loss.detach()
        logs["loss_biased_swapped"] = biased_loss.detach()
        return Step(loss + self.lambda_swap * (debiased_loss + self.lambda_swap_b * biased_loss), logs)

    def _compute_losses(
        self, intrinsic: Tensor, biased: Tensor, label: Tensor, biased_label: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies (B,) of both heads; each reaches its own encoder only."""
        logits = self.network.intrinsic_head(torch.cat([intrinsic, biased.detach()], dim=1))
        biased_logits = self.network.biased_head(torch.cat([intrinsic.detach(), biased], dim=1))
        return (
            cross_entropy(logits, label, reduction="none"),
            cross_entropy(biased_logits, biased_label, reduction="none"),
        )
