"""Biased networks that tell the attribute of rows: one beside a robust network, or several, cross-fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, cross_entropy, interpolate, log_softmax, nll_loss

from logit_correction.correlation import Correlation
from logit_correction.functional import GceForm, generalize
from logit_correction.methods.base import StepRandomness, check_range
from logit_correction.seeds import make_generator
from logit_correction.types import Batch, DataInfo, InputError, Inputs


class BiasedNetwork(nn.Module):
    """A network trained with generalized cross-entropy beside a robust one, to tell the attribute.

    The options are those of ``LC`` with the same names.

    Args:
        network: The network.
        q: Exponent of the generalized cross-entropy.
        form: Its form.
        q_ramp_up_epochs: Epochs over which q rises from 0.
        epochs: Epochs after which the network stays as it is; None trains it to the end.
        head_start_epochs: Epochs in which it trains alone.
        input_dropout: Probability with which a pixel or feature is hidden while the network trains.
        pooling: If positive, the network sees pictures averaged down to so many cells a side.

    Raises:
        InputError: If an option is out of range.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        q: float = 0.7,
        form: GceForm = "paper",
        q_ramp_up_epochs: float = 2.0,
        epochs: float | None = 2.0,
        head_start_epochs: float = 0.0,
        input_dropout: float = 0.9,
        pooling: int = 0,
    ) -> None:
        super().__init__()
        check_range("q", q, 0, 1)
        check_range("q_ramp_up_epochs", q_ramp_up_epochs, 0)
        check_range("head_start_epochs", head_start_epochs, 0)
        check_range("biased_input_dropout", input_dropout, 0, 1, open_end=True)
        check_range("biased_pooling", pooling, 0)
        if epochs is not None and not epochs >= head_start_epochs:
            raise InputError(
                f"biased_epochs is {epochs}, but the head start takes {head_start_epochs} epochs, in which the "
                "biased network trains alone: give at least as many, or a shorter head_start_epochs"
            )
        self.network, self.q, self.form, self.q_ramp_up_epochs = network, q, form, q_ramp_up_epochs
        self.epochs, self.head_start_epochs = epochs, head_start_epochs
        self.input_dropout, self.pooling = input_dropout, pooling

    def forward(self, batch: Batch, epoch: float, randomness: StepRandomness) -> tuple[Tensor, Tensor]:
        """Return the mean loss, 0-d, and the log-probabilities (B, L) to estimate the attribute from, detached."""
        inputs = self._seen(batch.inputs)
        trains = torch.is_grad_enabled() and (self.epochs is None or epoch < self.epochs)
        hides = trains and self.input_dropout > 0 and isinstance(inputs, Tensor)
        with torch.set_grad_enabled(trains):
            shown = hide(inputs, self.input_dropout, randomness.next(batch.label.device)) if hides else inputs
            # One log-softmax serves the loss and the estimate.
            log_probability = log_softmax(self.network(shown), dim=1)
            loss = nll_loss(log_probability, batch.label, reduction="none")
            loss = generalize(loss, ramped_q(self.q, epoch, self.q_ramp_up_epochs), self.form).mean()
        if hides:
            # The attribute is estimated from all that there is to see.
            with torch.no_grad():
                log_probability = log_softmax(self.network(inputs), dim=1)
        return loss, log_probability.detach()

    def log_probability(self, inputs: Inputs) -> Tensor:
        """Return log-probabilities (B, L)."""
        return log_softmax(self.network(self._seen(inputs)), dim=1)

    def check_epochs(self, epochs: int) -> None:
        """Refuse a training in which the robust network would never start.

        Raises:
            InputError: If the head start takes all the epochs.
        """
        if epochs <= self.head_start_epochs:
            raise InputError(
                f"--epochs {epochs}: the robust network starts after the biased network's head start of "
                f"{self.head_start_epochs:g} epochs; give more epochs, or lower --method.head_start_epochs"
            )

    def _seen(self, inputs: Inputs) -> Inputs:
        if not self.pooling:
            return inputs
        if not isinstance(inputs, Tensor):
            raise InputError("tokens cannot be pooled: give biased_pooling=0")
        return interpolate(adaptive_avg_pool2d(inputs, self.pooling), size=inputs.shape[-2:])


class CrossFitted(nn.Module):
    """Biased networks that predict only rows that they were not trained on.

    The training rows are split into two random halves S times. For each split one network is trained on either half,
    with generalized cross-entropy, and predicts the other half: what it has learned by heart of a minority row does not
    help it there, so it goes by the shortcut. A row's S held-out softmaxes are averaged.

    The row's index decides which network it trains, so all 2 S networks are trained at once, whatever the order of the
    rows. Row i trains network 2 s + side[s, i] of split s and is predicted by the other one.

    Args:
        networks: 2 S networks, those of a split side by side.
        num_rows: N.
        q: Exponent of the generalized cross-entropy.
        form: Its form.
        q_ramp_up_epochs: Epochs over which q rises from 0.
        input_dropout: Probability with which a pixel or feature is hidden while the networks train.
        seed: Seed of the splits.

    Raises:
        InputError: If an option is out of range.
    """

    side: Tensor

    def __init__(
        self,
        networks: Sequence[nn.Module],
        num_rows: int,
        *,
        q: float = 0.7,
        form: GceForm = "paper",
        q_ramp_up_epochs: float = 0.0,
        input_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_range("q", q, 0, 1)
        check_range("biased_input_dropout", input_dropout, 0, 1, open_end=True)
        if len(networks) < 2 or len(networks) % 2:
            raise InputError(f"cross-fitting needs two networks for each split, not {len(networks)} in all")
        self.networks = nn.ModuleList(networks)
        self.q, self.form, self.q_ramp_up_epochs, self.input_dropout = q, form, q_ramp_up_epochs, input_dropout
        orders = [
            torch.randperm(num_rows, generator=make_generator(seed, "split", number))
            for number in range(len(networks) // 2)
        ]
        side = torch.zeros(len(orders), num_rows, dtype=torch.bool)
        side.scatter_(1, torch.stack(orders)[:, num_rows // 2 :], True)
        self.register_buffer("side", side)

    def forward(self, batch: Batch, epoch: float, generator: torch.Generator) -> Tensor:
        """Return the sum of the networks' mean losses, 0-d, each over the batch's rows of its own half."""
        q = ramped_q(self.q, epoch, self.q_ramp_up_epochs)
        total = torch.zeros((), device=batch.label.device)
        for number, network in enumerate(self.networks):
            member = self.side[number // 2].index_select(0, batch.index) == bool(number % 2)
            rows, weight = _own_rows(member)
            inputs = _take(batch.inputs, rows)
            if self.input_dropout:
                inputs = hide(inputs, self.input_dropout, generator)
            loss = cross_entropy(network(inputs), batch.label.index_select(0, rows), reduction="none")
            total = total + (generalize(loss, q, self.form) * weight).sum()
        return total

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

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of all networks, for rows that none was trained on."""
        logs = torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self.networks])
        return logs.logsumexp(dim=0) - math.log(len(self.networks))


def choose_correlation(choice: str, info: DataInfo) -> Correlation:
    """Return the one-to-one correlation, or with ``known`` the data source's.

    Raises:
        InputError: If the source knows none, or one that takes weights for each row.
    """
    if choice == "one-to-one":
        return Correlation.one_to_one(info.num_labels)
    if info.correlation is None:
        raise InputError("correlation=known needs a data source that knows which labels go with which attribute values")
    if info.correlation.needs_within:
        raise InputError(
            f"the data's correlation is {info.correlation.kind}: one label goes with several attribute values, which "
            "takes per-sample weights that are not estimated here; take correlation=one-to-one"
        )
    return info.correlation


def ramped_q(q: float, epoch: float, length: float) -> float:
    """The exponent q after ``epoch`` epochs, risen from 0 over ``length``.

    >>> ramped_q(0.8, 0.5, 2.0), ramped_q(0.8, 5.0, 2.0), ramped_q(0.8, 0.0, 0.0)
    (0.2, 0.8, 0.8)
    """
    return q * min(1.0, epoch / length) if length else q


def hide(inputs: Inputs, probability: float, generator: torch.Generator) -> Tensor:
    """Hide places of the inputs, all channels of a pixel together, and scale what is left to the same mean.

    Args:
        inputs: (B, C, H, W) or (B, F).
        probability: Of each place, in [0, 1).
        generator: Source of the randomness.

    Raises:
        InputError: If the inputs are tokens.
    """
    if not isinstance(inputs, Tensor):
        raise InputError("tokens cannot be hidden from the biased network: give biased_input_dropout=0")
    shape = (len(inputs), 1, *inputs.shape[2:]) if inputs.dim() > 2 else inputs.shape
    kept = torch.rand(shape, generator=generator, device=inputs.device) >= probability
    return inputs * (kept / (1 - probability))


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
