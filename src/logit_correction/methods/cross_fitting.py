"""Cross-fitting: the attribute of every training row, estimated by biased networks that never saw the row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from logit_correction.correlation import Correlation
from logit_correction.functional import GceForm, generalize
from logit_correction.methods.attribute import hide, ramped_q
from logit_correction.methods.base import StepRandomness, check_range
from logit_correction.networks.base import frozen_statistics, has_running_statistics
from logit_correction.seeds import make_generator
from logit_correction.types import Batch, InputError, Inputs, Stage, Step


class CrossFitted(nn.Module):
    """Biased networks that predict only rows that they were not trained on.

    The training rows are split into two random halves S times. For each split one network is trained on either half,
    with generalized cross-entropy, and predicts the other half: what it has learned by heart of a minority row does not
    help it there, so it goes by the shortcut. A row's S held-out softmaxes are averaged.

    The row's index decides which network it trains, so all 2 S networks are trained at once, whatever the order of the
    rows. Row i trains network 2 s + side[s, i] of split s and is predicted by the other one.

    They are trained in a stage of a method before its own: the method hands the loop what ``stage``, ``step``,
    ``parameter_groups``, ``predict`` and ``predict_rows`` return, and gives the predicted rows to ``finish``, after
    which ``attribute`` (N,) and ``label_probability`` (N,) are there. ``GroupedAlgorithm`` does all this.

    Args:
        networks: 2 S networks, those of a split side by side.
        num_rows: N.
        correlation: Which labels go with which attribute values.
        epochs: Length of the stage.
        learning_rate: Learning rate of the stage; None takes the run's.
        schedule: ``none`` keeps the learning rate constant, ``same`` follows the run's schedule.
        keep_posterior: Keep ``posterior`` (N, K) too.
        q: Exponent of the generalized cross-entropy.
        form: Its form.
        q_ramp_up_epochs: Epochs over which q rises from 0.
        input_dropout: Probability with which a pixel or feature is hidden while the networks train.
        seed: Seed of the splits.

    Raises:
        InputError: If an option is out of range.
    """

    side: Tensor
    attribute: Tensor
    label_probability: Tensor
    posterior: Tensor | None

    def __init__(
        self,
        networks: Sequence[nn.Module],
        num_rows: int,
        correlation: Correlation,
        *,
        epochs: int = 3,
        learning_rate: float | None = None,
        schedule: Literal["same", "none"] = "none",
        keep_posterior: bool = False,
        q: float = 0.7,
        form: GceForm = "paper",
        q_ramp_up_epochs: float = 2.0,
        input_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_range("q", q, 0, 1)
        check_range("biased_input_dropout", input_dropout, 0, 1, open_end=True)
        if len(networks) < 2 or len(networks) % 2:
            raise InputError(f"cross-fitting needs two networks for each split, not {len(networks)} in all")
        self.networks, self.correlation = nn.ModuleList(networks), correlation
        self.epochs, self.learning_rate, self.schedule = epochs, learning_rate, schedule
        self.q, self.form, self.q_ramp_up_epochs, self.input_dropout = q, form, q_ramp_up_epochs, input_dropout
        orders = [
            torch.randperm(num_rows, generator=make_generator(seed, "split", number))
            for number in range(len(networks) // 2)
        ]
        side = torch.zeros(len(orders), num_rows, dtype=torch.bool)
        side.scatter_(1, torch.stack(orders)[:, num_rows // 2 :], True)
        self.register_buffer("side", side)
        self.register_buffer("attribute", torch.zeros(num_rows, dtype=torch.long))
        self.register_buffer("label_probability", torch.zeros(num_rows))
        kept = torch.zeros(num_rows, correlation.num_attributes) if keep_posterior else None
        self.register_buffer("posterior", kept)

    def stage(self) -> Stage:
        """Return the stage in which the networks are trained."""
        return Stage(epochs=self.epochs, learning_rate=self.learning_rate)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Train on a batch."""
        loss = self(batch, epoch, randomness.next(batch.label.device))
        return Step(loss, {"loss_biased": loss.detach() / len(self.networks)})

    def forward(self, batch: Batch, epoch: float, generator: torch.Generator) -> Tensor:
        """Return the sum of the networks' mean losses, 0-d, each over the batch's rows of its own half."""
        q = ramped_q(self.q, epoch, self.q_ramp_up_epochs)
        total = torch.zeros((), device=batch.label.device)
        for number, network in enumerate(self.networks):
            member = self.side[number // 2].index_select(0, batch.index) == bool(number % 2)
            rows, weight = _own_rows(member)
            logits = self._hidden_logits(network, _take(batch.inputs, rows), generator)
            loss = cross_entropy(logits, batch.label.index_select(0, rows), reduction="none")
            total = total + (generalize(loss, q, self.form) * weight).sum()
        return total

    def _hidden_logits(self, network: nn.Module, inputs: Inputs, generator: torch.Generator) -> Tensor:
        """Return logits of inputs of which a part is hidden; running statistics are those of whole inputs."""
        if not (self.input_dropout and isinstance(inputs, Tensor)):
            logits: Tensor = network(inputs)
            return logits
        with frozen_statistics(network):
            logits = network(hide(inputs, self.input_dropout, generator))
        if has_running_statistics(network):
            # After the step's own pass: some versions of autocast keep the weights as they were first cast, and those
            # cast here have no gradient.
            with torch.no_grad():
                network(inputs)
        return logits

    def held_out(self, batch: Batch) -> Tensor:
        """Return the mean softmax (B, L) of the networks that were not trained on a row; waits for the device."""
        total: Tensor | None = None
        for number, network in enumerate(self.networks):
            trained = self.side[number // 2].index_select(0, batch.index) == bool(number % 2)
            rows = (~trained).nonzero().squeeze(1)
            if len(rows) == 0:
                continue
            probability = network(_take(batch.inputs, rows)).float().softmax(dim=1)
            if total is None:
                total = probability.new_zeros(len(trained), probability.shape[1])
            total.index_add_(0, rows, probability)
        assert total is not None
        return total / len(self.side)

    def predict_rows(self, batch: Batch) -> Tensor:
        """Return the held-out class probabilities of training rows and then their labels, (B, L + 1)."""
        return torch.cat([self.held_out(batch), batch.label.unsqueeze(1).float()], dim=1)

    def finish(self, rows: Tensor) -> Tensor:
        """Estimate every row's attribute from the rows (N, L + 1) of ``predict_rows``; return the labels (N,)."""
        probability, label = rows[:, :-1], rows[:, -1].long()
        posterior = self.correlation.posterior(probability)
        self.attribute.copy_(posterior.argmax(dim=1))
        self.label_probability.copy_(probability.gather(1, label.unsqueeze(1)).squeeze(1))
        if self.posterior is not None:
            self.posterior.copy_(posterior)
        return label

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimiser group for each network."""
        groups: list[dict[str, object]] = [
            {"params": list(network.parameters()), "name": f"biased_network_{number}"}
            for number, network in enumerate(self.networks)
        ]
        return [{**group, "schedule": "none"} for group in groups] if self.schedule == "none" else groups

    def diagnose(self, batch: Batch) -> dict[str, Tensor]:
        """Return each row's estimated attribute and whether it is taken for minority."""
        attribute = self.attribute.index_select(0, batch.index)
        return {
            "estimated_attribute": attribute,
            "minority": self.correlation.is_minority(batch.label, attribute),
            "label_probability": self.label_probability.index_select(0, batch.index),
        }

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of all networks, for rows that none was trained on."""
        logs = torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self.networks])
        return logs.logsumexp(dim=0) - math.log(len(self.networks))


def _take(inputs: Inputs, rows: Tensor) -> Inputs:
    if isinstance(inputs, Tensor):
        return inputs.index_select(0, rows)
    return {name: part.index_select(0, rows) for name, part in inputs.items()}


def _own_rows(member: Tensor) -> tuple[Tensor, Tensor]:
    """Gather the members of a batch (B,) into a fixed number of places, so that nothing waits for the device.

    About half of the rows are members. The places are half the batch and four standard deviations more, so hardly ever
    (about once in 30,000 steps) does a member find no place and sit out. Places left over repeat members with weight 0.

    Returns:
        Rows (C,) and their weights (C,), which sum to 1 unless there are no members.
    """
    size = len(member)
    room = min(size, size // 2 + math.ceil(2 * math.sqrt(size)))
    order = member.long().argsort(descending=True, stable=True)
    count = member.sum()
    place = torch.arange(room, device=member.device)
    rows = order.index_select(0, place % count.clamp_min(1))
    return rows, (place < count) / count.clamp(1, room)
