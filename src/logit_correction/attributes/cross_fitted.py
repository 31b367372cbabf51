"""Cross-fitting: the attribute of every training row, estimated by a learner that was not trained on the row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator, Builder
from logit_correction.attributes.biased import ramped_q
from logit_correction.attributes.folds import FoldNetworks, draw_halves
from logit_correction.attributes.heads import (
    HeadEstimates,
    answers,
    estimate_by_heads,
    likely_attribute,
    relabeled,
)
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError, check_range
from logit_correction.seeds import StepRandomness, make_generator
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows
from logit_correction.views.base import ViewInputs
from logit_correction.views.choose import find_views


class CrossFitted(AttributeEstimator):
    """Learners trained on one half of the rows, with generalized cross-entropy, estimate the other half.

    What a learner knows by heart of a minority row does not help it on the other half, so there it goes by the
    shortcut. The learner is either

    - a network on the whole input, of the kind of the robust one (``--biased_network`` names another), or
    - with ``view`` a small head on what this view keeps of an input. It trains in seconds, and a shortcut of the view's
      kind is about all that it can learn.

    With ``rounds`` the rows whose held-out odds for another label exceed ``relabel_odds`` get that label for a target,
    and the learners are trained anew: they forget what they knew of the label itself.

    >>> from logit_correction import CrossFitted
    >>> CrossFitted(view="colour").num_stages  # heads on a view need no stage of the loop
    0
    """

    networks: FoldNetworks
    target: Tensor

    def __init__(
        self,
        view: str | list[str] | None = None,
        splits: int = 2,
        rounds: int | None = None,
        relabel_odds: float | None = None,
        odds: float | None = None,
        head: Literal["linear", "hidden layer"] | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        q: float | None = None,
        q_ramp_up: float | None = None,
        input_dropout: float | None = None,
        correlation: Literal["one-to-one", "known"] = "one-to-one",
    ) -> None:
        """Choose the learner and how it trains.

        Args:
            view: What the learner sees: a view or several side by side; None for the whole input. `logit-correction
                list views` names them.
            splits: S, the number of random splits into two halves; 2 S learners are trained.
            rounds: Rounds of relabelling; None takes 2 on a view and 0 on the whole input.
            relabel_odds: Held-out odds from which a row is given another target in the next round; None takes 10.
            odds: Held-out odds of another value against its label's own from which a row counts as minority, 1 or more;
                None takes 4 of linear heads, whose odds are the surer ones, 3 of those with a hidden layer, and 1 of
                networks on the whole input.
            head: On a view: ``linear`` is logistic regression, to which the options from ``epochs`` on do not apply,
                ``hidden layer`` a small network; None takes the linear one for up to 100 features, and for views of
                which a head may use few.
            epochs: Epochs of a learner; None takes 3, on a view at least 150 steps.
            learning_rate: Of the learners; None takes the run's for networks, 1e-3 on a view.
            q: Exponent of the generalized cross-entropy, in [0, 1]; 0 is cross-entropy, None takes 0.7.
            q_ramp_up: Share of the epochs over which q rises from 0; None takes two thirds.
            input_dropout: Probability with which a pixel or feature is hidden while the learners train; None takes 0.2
                on a view and 0 on the whole input.
            correlation: ``one-to-one`` takes label j to go with attribute value j; ``known`` uses the data source's
                table.

        Raises:
            InputError: If an option is out of range.
        """
        super().__init__()
        check_range("splits", splits, 1, 1000)
        for name, value, least, most in (
            ("odds", odds, 1, math.inf),
            ("relabel_odds", relabel_odds, 1, math.inf),
            ("epochs", epochs, 1, math.inf),
            ("rounds", rounds, 0, 1000),
            ("learning_rate", learning_rate, 0, math.inf),
            ("q", q, 0, 1),
            ("q_ramp_up", q_ramp_up, 0, 1),
            ("input_dropout", input_dropout, 0, 1),
        ):
            if value is not None:
                check_range(name, value, least, most, open_end=name == "input_dropout")
        if view is None and head is not None:
            raise InputError("head concerns views: give a view, or leave it out")
        self.views = [] if view is None else [view] if isinstance(view, str) else list(view)
        self.rounds = rounds if rounds is not None else 2 if self.views else 0
        if relabel_odds is not None and not self.rounds:
            raise InputError("relabel_odds concerns rounds of relabelling, and there are none: give rounds")
        self.own_views, self.trains_network = self.views, not self.views
        self.splits, self.relabel_odds, self.odds, self.head = splits, relabel_odds or 10.0, odds, head
        self.choice = correlation
        training = {"epochs": epochs, "learning_rate": learning_rate, "q": q, "q_ramp_up": q_ramp_up}
        training["input_dropout"] = input_dropout
        self.options: Mapping[str, Any] = {name: value for name, value in training.items() if value is not None}
        self.num_stages = 0 if self.views else 1 + self.rounds
        self.heads: HeadEstimates | None = None

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Build the networks and draw the halves, unless there are views."""
        super().attach(build, network, info, seed)
        if self.views:
            return
        if self.options.get("input_dropout") and info.tokens:
            raise InputError("tokens cannot be hidden from a biased network: give input_dropout=0")
        self._fresh = lambda role: build(network, role)
        networks = [self._fresh(f"biased network {number}") for number in range(2 * self.splits)]
        halves = [draw_halves(info.num_rows, make_generator(seed, "split", split)) for split in range(self.splits)]
        self.networks = FoldNetworks(networks, torch.stack(halves))
        self.register_buffer("target", torch.zeros(info.num_rows, dtype=torch.long))

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return label j with value j, or the data source's table."""
        return info.chosen_correlation(self.choice)

    def setup(self, rows: TrainingRows) -> None:
        """Take in the labels; find the views, so that one that does not apply is told at once."""
        super().setup(rows)
        if self.views:
            if rows.view_inputs is None:
                raise InputError("views need the inputs of all training rows: give TrainingRows.view_inputs")
            self._found = find_views(self.views, rows.view_inputs)

    # -- networks, in stages of the loop

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Ask for the epochs of a round; before all but the first, relabel the rows and draw the weights anew."""
        self.stage = stage
        if outputs is None:
            self.target.copy_(self.rows.label)
        else:
            self.target.copy_(relabeled(outputs, self.rows.label, self.relabel_odds))
            for number, network in enumerate(self.networks):
                fresh = self._fresh(f"biased network {number}, round {stage}")
                network.load_state_dict(fresh.state_dict())
        return Stage(epochs=self.options.get("epochs", 3), learning_rate=self.options.get("learning_rate"))

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the sum of the networks' mean losses, each over the batch's rows of its own half."""
        dropout, target = self.options.get("input_dropout", 0.0), self.target.index_select(0, batch.index)
        length = self.options.get("q_ramp_up", 2 / 3) * self.options.get("epochs", 3)
        q = ramped_q(self.options.get("q", 0.7), epoch, length)
        generator = randomness.next(batch.label.device) if dropout else None
        total = self.networks.loss(batch, target, q, dropout, generator)
        return Step(total, {"loss_biased": total.detach() / len(self.networks)})

    def collect(self, batch: Batch) -> Tensor:
        """Return the mean softmax (B, L) of the networks that were not trained on a row; waits for the device."""
        return self.networks.held_out(batch, self.info.num_labels)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimiser group for each network, of constant learning rate; none once they are trained."""
        if self.stage >= self.num_stages:
            return []
        return self.networks.parameter_groups("biased_network", schedule="none")

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of all networks, for rows that none was trained on."""
        return self.networks.log_probabilities(inputs).logsumexp(dim=0) - math.log(len(self.networks))

    # -- estimates

    def finish(self, outputs: Tensor | None) -> None:
        """Settle the estimates; the learners stay as they are."""
        self.stage = self.num_stages
        super().finish(outputs)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Estimate all rows from held-out class probabilities: of the networks, or of heads on the views."""
        if self.views:
            self.heads = estimate_by_heads(
                self._found,
                self.rows,
                self.correlation,
                self.seed,
                head=self.head,
                training=self.options,
                splits=self.splits,
                rounds=self.rounds,
                relabel_odds=self.relabel_odds,
                odds=self.odds,
            )
            attribute, self.held_out, self.kept = self.heads.attribute, self.heads.probability, self.heads.kept
        else:
            assert outputs is not None
            attribute, self.held_out = self._likely(outputs, self.rows.label), outputs
        return attribute, self.held_out.gather(1, self.rows.label.unsqueeze(1)).squeeze(1)

    def _likely(self, probability: Tensor, label: Tensor) -> Tensor:
        """Return the attribute by class probabilities of the networks."""
        return likely_attribute(self.correlation.posterior(probability), label, self.correlation, self.odds or 1.0)

    def estimate_new(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        """Return what the learners say of rows (n,) that none was trained on, all together."""
        if self.views:
            return super().estimate_new(label, rows)
        return self._likely(answers(self.predict, rows, self.row_attribute.device), label)

    def keep_features(self) -> None:
        """Keep the views' features; those of networks are not comparable."""
        if not self.views:
            raise InputError(
                "features of cross-fitted networks are not comparable, so they cannot be clustered: give a view, or "
                "take Online with head_start_epochs"
            )

    def rows_to_cluster(self, outputs: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """Return the held-out probabilities, the features of all rows, and the heads' odds."""
        assert self.heads is not None
        return self.heads.probability, self.heads.features, self.heads.kept.odds

    def describe(self) -> str:
        """Say where the attributes come from."""
        if self.views:
            return f"heads on {', '.join(self.views)}, cross-fitted"
        return "biased networks on the whole input, cross-fitted"
