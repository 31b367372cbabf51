"""Several networks trained at once, each on its own half of the rows, to judge the other half."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from logit_correction.attributes.base import AttributeEstimator, Builder
from logit_correction.attributes.biased import hidden_logits, ramped_q
from logit_correction.attributes.heads import relabeled
from logit_correction.functional import GceForm, generalize
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step

#: Epochs of biased networks, where nobody says.
NETWORK_EPOCHS = 3


class FoldNetworks(AttributeEstimator):
    """Two networks for each of S random splits of the rows into halves: each trains on one half, in stages of the loop.

    An estimator that derives from it sets the options.

    Attributes:
        splits: S.
        relabel_odds: Held-out odds from which a row is given another target in the next round.
        epochs: Epochs of a round, or None.
        learning_rate: Of the networks, or None.
        q: Exponent of the generalized cross-entropy.
        q_ramp_up: Share of the epochs over which it rises from 0.
        gce_form: Its form.
        input_dropout: Probability with which a pixel or feature is hidden in training.
        networks: 2 S networks, those of a split side by side; none before ``build_networks``.
        side: (S, N) bool, the half of a row; network 2 s + h trains on half h of split s.
        target: (N,) long, what a row is trained towards.
    """

    splits: int
    relabel_odds: float
    epochs: int | None
    learning_rate: float | None
    q: float
    q_ramp_up: float
    gce_form: GceForm
    input_dropout: float
    side: Tensor
    target: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleList()

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Keep the way to build networks."""
        super().attach(build, network, info, seed)
        self._build, self._network = build, network

    def build_networks(self) -> None:
        """Build the networks and draw the halves."""
        rows = self.info.num_rows
        self.networks.extend(
            self._build(self._network, f"biased network {number}") for number in range(2 * self.splits)
        )
        side = torch.zeros(self.splits, rows, dtype=torch.bool)
        orders = [
            torch.randperm(rows, generator=make_generator(self.seed, "split", split)) for split in range(self.splits)
        ]
        side.scatter_(1, torch.stack(orders)[:, rows // 2 :], True)
        self.register_buffer("side", side, persistent=False)
        self.register_buffer("target", torch.zeros(rows, dtype=torch.long))

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Ask for the epochs of a round; before all but the first, relabel the rows and draw the weights anew."""
        self.stage = stage
        if stage == 0:
            self.target.copy_(self.rows.label)
        else:
            assert outputs is not None
            self.target.copy_(relabeled(outputs, self.rows.label, self.relabel_odds))
            for number, network in enumerate(self.networks):
                fresh = self._build(self._network, f"biased network {number}, round {stage}")
                network.load_state_dict(fresh.state_dict())
        return Stage(epochs=self.epochs or NETWORK_EPOCHS, learning_rate=self.learning_rate)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the sum of the networks' mean losses, each over the batch's rows of its own half."""
        q = ramped_q(self.q, epoch, self.q_ramp_up * (self.epochs or NETWORK_EPOCHS))
        generator = randomness.next(batch.label.device) if self.input_dropout else None
        target = self.target.index_select(0, batch.index)
        total = torch.zeros((), device=batch.label.device)
        for number, network in enumerate(self.networks):
            member = self.side[number // 2].index_select(0, batch.index) == bool(number % 2)
            rows, weight = gather_members(member)
            inputs = take_rows(batch.inputs, rows)
            if generator is None:
                logits = network(inputs)
            else:
                logits = hidden_logits(network, inputs, self.input_dropout, generator)
            loss = cross_entropy(logits, target.index_select(0, rows), reduction="none")
            total = total + (generalize(loss, q, self.gce_form) * weight).sum()
        return Step(total, {"loss_biased": total.detach() / len(self.networks)})

    def collect(self, batch: Batch) -> Tensor:
        """Return the mean softmax (B, L) of the networks that were not trained on a row; waits for the device."""
        total = torch.zeros(len(batch.label), self.info.num_labels, device=batch.label.device)
        for number, network in enumerate(self.networks):
            trained = self.side[number // 2].index_select(0, batch.index) == bool(number % 2)
            rows = (~trained).nonzero().squeeze(1)
            if len(rows):
                total.index_add_(0, rows, network(take_rows(batch.inputs, rows)).float().softmax(dim=1))
        return total / self.splits

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimiser group for each network, of constant learning rate; none once they are trained."""
        if self.stage >= self.num_stages:
            return []
        return [
            {"params": list(network.parameters()), "name": f"biased_network_{number}", "schedule": "none"}
            for number, network in enumerate(self.networks)
        ]

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of all networks, for rows that none was trained on."""
        logs = torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self.networks])
        return logs.logsumexp(dim=0) - math.log(len(self.networks))


def take_rows(inputs: Inputs, rows: Tensor) -> Inputs:
    """Return some rows of a batch of inputs."""
    if isinstance(inputs, Tensor):
        return inputs.index_select(0, rows)
    return {name: part.index_select(0, rows) for name, part in inputs.items()}


def gather_members(member: Tensor, share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Gather the members of a batch (B,) into a fixed number of places, so that nothing waits for the device.

    About ``share`` of the rows are members. The places are that many and four standard deviations more, so hardly ever
    (about once in 30,000 steps) does a member find no place and sit out. Places left over repeat members with weight 0.

    Returns:
        Rows (C,) and their weights (C,), which sum to 1 unless there are no members.

    >>> rows, weight = gather_members(torch.tensor([False, True, False, True]))
    >>> rows[weight > 0], weight.sum()
    (tensor([1, 3]), tensor(1.))
    """
    size = len(member)
    room = min(size, math.ceil(size * share) + math.ceil(4 * math.sqrt(size * share * (1 - share))))
    order = member.long().argsort(descending=True, stable=True)
    count = member.sum()
    place = torch.arange(room, device=member.device)
    rows = order.index_select(0, place % count.clamp_min(1))
    return rows, (place < count) / count.clamp(1, room)
