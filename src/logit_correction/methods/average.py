"""The average of several trainings: what an audit advises after a few new rows were labelled.

Each member is a training of its own, such as LC by a view, or ERM that cannot see a column. Their logits are averaged
with the probability that each is the best on the new rows, and a linear correction that was learned from the labelled
rows may be added. ``runs/average.py`` trains the members one after another; this module holds what predicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import Network
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Step

#: Greatest number of members; an untrusted file could name any number.
MAX_MEMBERS = 20

#: Rows of the identity matrix that go through a linear network at a time, to read off its weights.
ROWS_PER_CHUNK = 512


class AveragedNetwork(nn.Module):
    """The weighted average of the centred logits of several networks, plus a linear function of features.

    The logits of each member are centred to mean 0 over the labels, since a constant on all of them changes no
    prediction of its own but would change the average.

    Attributes:
        members: K networks; the first one, of the greatest weight, gives the features of the correction.
        weight: (K,) weights that sum to 1.
        correction: What was learned from labelled new rows, of the first member's features; None if these are unknown.

    >>> network = AveragedNetwork([nn.Linear(3, 2), nn.Linear(3, 2)], [0.7, 0.3])
    >>> network(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    weight: Tensor

    def __init__(self, members: Sequence[nn.Module], weight: Sequence[float]) -> None:
        """Take the networks and their weights.

        Args:
            members: Networks from the same inputs to logits (B, L), the one of the greatest weight first.
            weight: Their weights, which sum to 1.
        """
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("weight", torch.tensor(weight))
        self.correction: nn.Linear | None = None
        if has_linear_head(members[0]):
            head: nn.Linear = members[0].head  # type: ignore[assignment]
            self.correction = nn.Linear(head.in_features, head.out_features, dtype=head.weight.dtype)
            nn.init.zeros_(self.correction.weight)
            nn.init.zeros_(self.correction.bias)

    def forward(self, inputs: Inputs) -> Tensor:
        if self.correction is None:
            return self.average_logits(inputs)
        features = self.compute_features(inputs)
        first: Network = self.members[0]  # type: ignore[assignment]
        return self.average_logits(inputs, first.head(features)) + self.correction(features)

    def average_logits(self, inputs: Inputs, first_logits: Tensor | None = None) -> Tensor:
        """Return the average (B, L) without the correction; ``first_logits`` are those of the first member if known."""
        first, *others = self.members
        first_logits = first(inputs) if first_logits is None else first_logits
        stacked = torch.stack([first_logits, *(member(inputs) for member in others)])
        centred = stacked - stacked.mean(dim=2, keepdim=True)
        return torch.einsum("k,kbl->bl", self.weight.to(centred.dtype), centred)

    def compute_features(self, inputs: Inputs) -> Tensor:
        """Return the features (B, F) of the first member, in front of its linear head."""
        features: Tensor = self.members[0].features(inputs)  # type: ignore[operator]
        return features


def has_linear_head(network: nn.Module) -> bool:
    """Return whether a network is ``features`` and a linear ``head`` in sequence, as our own are."""
    return type(network).forward is Network.forward and isinstance(network.head, nn.Linear)


@torch.no_grad()
def write_average_into_head(averaged_network: AveragedNetwork, head: nn.Linear) -> None:
    """Write the average of networks that are linear in the inputs (B, F) into one linear head.

    A function that is linear in the inputs is given by its values at 0 and at the unit vectors.

    Args:
        averaged_network: Its members are linear in the inputs, such as heads on frozen features of which some are
            masked.
        head: (F to L) that gets weights and bias.
    """
    size = head.in_features
    bias = averaged_network(torch.zeros(1, size, dtype=head.weight.dtype))[0]
    for places in torch.arange(size).split(ROWS_PER_CHUNK):
        unit_vectors = torch.zeros(len(places), size, dtype=head.weight.dtype).scatter_(1, places[:, None], 1.0)
        head.weight[:, places] = (averaged_network(unit_vectors) - bias).T
    head.bias.copy_(bias)


def _get_member_weight(member: Any) -> float:
    weight = member.get("weight") if isinstance(member, Mapping) else None
    if not isinstance(weight, int | float) or "method" not in member:
        raise InputError(f"members: each needs a weight and a method, but one is {member!r:.100}")
    return float(weight)


class Average(Algorithm):
    """An average of several trainings, with a correction that was learned from labelled new rows.

    An audit with answers advises it and writes its options; ``train --config fix.yaml`` trains it. The members train
    one after another, each as its own method would. What is saved and exported is the average alone: one linear layer
    where all members are linear in the same features, else a network of networks.
    """

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        members: list[dict[str, Any]] | None = None,
        answers: str | None = None,
        member_networks: Sequence[NetworkFactory] = (),
        is_linear: bool = False,
        seed: int = 0,
    ) -> None:
        """Build the networks of the members.

        Args:
            members: A mapping for each: ``weight``, ``method`` with its options, and ``leave_out``, views that its
                network does not see. The weights sum to 1.
            answers: File of the labelled new rows from which the correction is learned; None learns none.
            member_networks: Builds the network of each member; a run gives them.
            is_linear: Whether all of them are linear in the inputs, so that their average is one linear layer.
        """
        self.members = list(members or [])
        self.answers = answers
        self.answer_counts: Any = None  # how often ERM and the advice were right on them, for the report
        self.is_linear = is_linear
        weight = [_get_member_weight(member) for member in self.members]
        if not weight or min(weight) <= 0 or abs(sum(weight) - 1) > 1e-3 or len(weight) > MAX_MEMBERS:
            raise InputError(
                f"members: there must be 1 to {MAX_MEMBERS}, whose weights are positive and sum to 1, not "
                f"{weight[:MAX_MEMBERS]}"
            )
        factories = member_networks or [network] * len(weight)

        def build_average() -> AveragedNetwork:
            return AveragedNetwork([factory() for factory in factories], weight)

        super().__init__(network if is_linear else build_average, info, seed=seed)
        # Not a part of this module where it becomes one linear layer, so that no checkpoint holds it.
        self._averaged = [self.build(build_average, "members") if is_linear else self.network]

    @property
    def averaged_network(self) -> AveragedNetwork:
        """The network of networks, also where it will become one linear layer."""
        average: AveragedNetwork = self._averaged[0]
        return average

    def finish(self) -> None:
        """Make the predicting network of the trained members."""
        if self.is_linear:
            head: nn.Linear = self.network.head
            write_average_into_head(self.averaged_network, head)

    def compute_loss(self, batch: Batch, epoch: float) -> Step:
        raise InputError("method Average trains its members one after another: call `train`")
