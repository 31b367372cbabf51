"""Cross-fitting: the attribute of every training row, estimated by a learner that was not trained on the row."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

from logit_correction.attributes.base import Builder
from logit_correction.attributes.folds import FoldNetworks
from logit_correction.attributes.heads import HeadTraining
from logit_correction.attributes.kept_heads import Head, KeptHeads, answers
from logit_correction.attributes.view_heads import HeadsOnViews, features_of, held_out_by_heads, likely_attribute
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError, check_range
from logit_correction.functional import GceForm
from logit_correction.types import DataInfo, NetworkFactory, TrainingRows
from logit_correction.views.base import ViewInputs
from logit_correction.views.choose import find_views

INFINITY = math.inf

#: Odds from which a row counts as minority, where nobody says; see ``CrossFitted``.
LINEAR_ODDS, HIDDEN_ODDS, NETWORK_ODDS = 4.0, 3.0, 1.0

#: Up to so many features a linear head finds the shortcut, and is the surer for it; more want a hidden layer.
LINEAR_FEATURES = 100


class CrossFitted(FoldNetworks, HeadsOnViews):
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
        gce_form: GceForm = "paper",
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
            gce_form: ``paper`` or ``weighted``.
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
            ("odds", odds, 1, INFINITY),
            ("relabel_odds", relabel_odds, 1, INFINITY),
            ("epochs", epochs, 1, INFINITY),
            ("rounds", rounds, 0, 1000),
            ("learning_rate", learning_rate, 0, INFINITY),
            ("q", q, 0, 1),
            ("q_ramp_up", q_ramp_up, 0, 1),
        ):
            if value is not None:
                check_range(name, value, least, most)
        if input_dropout is not None:
            check_range("input_dropout", input_dropout, 0, 1, open_end=True)
        if view is None and head is not None:
            raise InputError("head concerns views: give a view, or leave it out")
        trained = {"epochs": epochs, "learning_rate": learning_rate, "q": q, "q_ramp_up": q_ramp_up}
        self._of_training = [
            name for name, value in (trained | {"input_dropout": input_dropout}).items() if value is not None
        ]
        if head == "linear":
            self._refuse_training()
        if view is not None and gce_form != "paper":
            raise InputError("gce_form concerns networks: leave it out beside view")
        self.views = [] if view is None else [view] if isinstance(view, str) else list(view)
        self.own_views = self.views
        self.trains_network = not self.views
        self.splits, self.relabel_odds, self.head = splits, relabel_odds or 10.0, head
        self.odds = odds
        self.rounds = rounds if rounds is not None else 2 if self.views else 0
        if relabel_odds is not None and not self.rounds:
            raise InputError("relabel_odds concerns rounds of relabelling, and there are none: give rounds")
        self.epochs, self.learning_rate, self.gce_form, self.choice = epochs, learning_rate, gce_form, correlation
        self.q, self.q_ramp_up = 0.7 if q is None else q, 2 / 3 if q_ramp_up is None else q_ramp_up
        self.input_dropout = input_dropout if input_dropout is not None else 0.2 if self.views else 0.0
        self.num_stages = 0 if self.views else 1 + self.rounds
        self.held_out: Tensor | None = None
        self.row_features: Tensor | None = None

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Build the networks, unless there are views."""
        super().attach(build, network, info, seed)
        if self.views:
            return
        if self.input_dropout and info.tokens:
            raise InputError("tokens cannot be hidden from a biased network: give input_dropout=0")
        self.build_networks()

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

    def finish(self, outputs: Tensor | None) -> None:
        """Settle the estimates; the learners stay as they are."""
        self.stage = self.num_stages
        super().finish(outputs)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Estimate all rows from held-out class probabilities: of the networks, or of heads on the views."""
        label = self.rows.label
        if self.views:
            self.row_features, scale, few = features_of(self._found, self.rows)
            heads: list[Head] = []
            linear = self._suits_linear_head(self.row_features, few)
            training = HeadTraining(
                epochs=self.epochs,
                learning_rate=1e-3 if self.learning_rate is None else self.learning_rate,
                q=self.q,
                q_ramp_up=self.q_ramp_up,
                dropout=self.input_dropout,
            )
            self.held_out = held_out_by_heads(
                self.row_features,
                self.rows,
                self.info.num_labels,
                None if linear else training,
                few=few,
                splits=self.splits,
                rounds=self.rounds,
                odds=self.relabel_odds,
                seed=self.seed,
                kept=heads,
            )
            odds = self.odds or (LINEAR_ODDS if linear else HIDDEN_ODDS)
            self.kept = KeptHeads(self._found, *scale, heads, odds)
        else:
            assert outputs is not None
            self.held_out, odds = outputs, self.odds or NETWORK_ODDS
        posterior = self.correlation.posterior(self.held_out)
        own = self.held_out.gather(1, label.unsqueeze(1)).squeeze(1)
        return likely_attribute(posterior, label, self.correlation, odds), own

    def estimate_new(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        """Return what the learners say of rows (n,) that none was trained on, all together."""
        if self.views:
            return super().estimate_new(label, rows)
        probability = answers(self.predict, rows, self.row_attribute.device)
        posterior = self.correlation.posterior(probability)
        return likely_attribute(posterior, label, self.correlation, self.odds or NETWORK_ODDS)

    def _refuse_training(self) -> None:
        """Refuse options that do not apply to linear heads."""
        if self._of_training:
            raise InputError(
                f"{self._of_training[0]} does not apply to linear heads, which this view has: give head=hidden layer, "
                "or leave it out"
            )

    def _suits_linear_head(self, features: Tensor, few: int | None) -> bool:
        """Return whether the head is a linear one; of few features it is, unless somebody said otherwise."""
        linear = self.head == "linear" or (
            self.head is None and (few is not None or features.shape[1] <= LINEAR_FEATURES)
        )
        if linear:
            self._refuse_training()
        return linear

    def keep_features(self) -> None:
        """Keep the views' features.

        Raises:
            InputError: If networks were to be trained, whose features are not comparable.
        """
        if not self.views:
            raise InputError(
                "features of cross-fitted networks are not comparable, so they cannot be clustered: give a view, or "
                "take Online with head_start_epochs"
            )

    def row_posterior(self) -> Tensor | None:
        """Return P(a | x) of every row by the networks or heads that did not see it; None before ``finish``."""
        return None if self.held_out is None else self.correlation.posterior(self.held_out)

    def rows_to_cluster(self, outputs: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """Return the held-out probabilities, the features of all rows, and the heads' odds."""
        assert self.held_out is not None and self.row_features is not None and self.kept is not None
        return self.held_out, self.row_features, self.kept.odds

    def describe(self) -> str:
        """Say where the attributes come from."""
        if self.views:
            return f"heads on {', '.join(self.views)}, cross-fitted"
        return "biased networks on the whole input, cross-fitted"
