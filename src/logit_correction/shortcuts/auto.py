"""ViewEvidences for a shortcut, estimates it where correcting is likely to help, and abstains elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor

from logit_correction.attributes.base import AttributeEstimator, NetworkBuilder, select_attribute
from logit_correction.attributes.folds import FoldNetworks, draw_folds
from logit_correction.distributed import broadcast_from_first
from logit_correction.errors import InputError
from logit_correction.finding import Decider, Finding
from logit_correction.formatting import format_option
from logit_correction.seeds import StepRandomness, derive_seed, make_generator
from logit_correction.shortcuts.heads import KeptHeads, estimate_by_heads, join_attributes, join_posteriors
from logit_correction.shortcuts.search import HeldOutPredictions, Search
from logit_correction.types import (
    UNKNOWN_ATTRIBUTE,
    Batch,
    Correlation,
    DataInfo,
    Inputs,
    NetworkFactory,
    Stage,
    Step,
    TrainingRows,
    ViewInputs,
)
from logit_correction.view_names import EVERYTHING, ViewName, are_columns, name_views
from logit_correction.views.base import View, available_views, find_views
from logit_correction.views.tables import Pairs, find_viewed_columns

#: Parts that the rows are divided into; each is predicted by a network that was trained on the others. Most rows that
#: are looked at; the estimate itself takes all.
FOLDS, MOST_ROWS = 3, 10_000

#: Steps of the ordinary networks, on images and elsewhere, rows of a step, and fewest and most epochs. The evidence was
#: learned from networks that were trained about as long, however long the method itself trains.
STEPS_ON_IMAGES, STEPS, ROWS_OF_A_STEP, LEAST_EPOCHS, MOST_EPOCHS = 300, 600, 64, 4, 100

#: Several shortcuts that a person names are told apart where there are so many rows for each label and values of them.
ROWS_OF_A_CELL = 10


class Auto(AttributeEstimator):
    """Finds out whether there is a shortcut before anything is corrected. Reads no attribute label, of any split.

    1. ERM networks of the kind of the robust one are trained in folds and predict rows that they did not see.
    2. So do heads on each view that the data permit.
    3. The most promising views each estimate the attribute, and narrower views that point at the same rows. A model
       that was learned from drawn shortcuts gives each the probability that correcting by it helps; see ``evidence``.
    4. One is corrected by if that is high enough: of several the narrowest look. Otherwise the method trains as ERM.

    The views under ``shortcut`` are corrected by without a search, unless ``search`` says so.
    """

    networks: FoldNetworks  # the ordinary ones; none where nothing is left for them to do

    def __init__(
        self,
        shortcut: list[str] | None = None,
        legitimate: list[str] | None = None,
        when_unsure: Literal["correct", "leave"] = "leave",
        search: bool | None = None,
        decided_by: Decider = "person",
    ) -> None:
        """Choose what to look at.

        Args:
            shortcut: Views that are known to be a shortcut, such as ``colour`` or ``column:scanner``. Each column is
                a shortcut of its own, so are the cells of ``places`` and words, and all other views together.
                Combinations of their values are corrected by, where there are rows enough.
            legitimate: Views, or families of views, that are known to be no shortcut: never corrected by.
            when_unsure: Where the verdict is ``cannot tell``, ``correct`` by the likeliest view, or ``leave`` training
                as that of ERM.
            search: Whether to look for a shortcut, as an audit does whatever a person says; None where nobody has said
                what it is.
            decided_by: Who said what ``shortcut`` names, for the report: a ``person``, ``answers`` about new rows, or
                the ``search`` of an audit.
        """
        super().__init__()
        self.shortcut, self.legitimate = list(shortcut or []), list(legitimate or [])
        self._searches = not self.shortcut if search is None else search
        both = {*self.shortcut} & {*self.legitimate}
        if both:
            raise InputError(f"view {sorted(both)[0]} is given both as shortcut and as legitimate: leave one out")
        known = map(ViewName.of, self.legitimate)
        if words := [str(one) for one in known if one.family == "word" and one.member]:
            raise InputError(
                f"{format_option('legitimate', words[0])}: texts are looked at by all words together: give word"
            )
        self.when_unsure, self.num_stages = when_unsure, int(self._searches)
        self.decided_by: Decider = decided_by
        self.kept: Sequence[KeptHeads] = ()  # that tell of other rows; of several, each tells one shortcut
        self.estimates: list[tuple[Tensor, Tensor]] = []  # attribute and class probabilities by each shortcut
        self.search: Search | None = None  # what it saw, row by row, for those who ask

    def attach(self, build: NetworkBuilder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.fold = self.draw(info.num_rows)
        networks = [build(network, f"ordinary network {number}") for number in range(FOLDS * self.num_stages)]
        self.networks = FoldNetworks(networks, self.fold.unsqueeze(0))

    def draw(self, rows: int) -> Tensor:
        """Return the fold (rows,) of each of so many rows; -1 of those that are not looked at."""
        return draw_folds(rows, FOLDS, make_generator(self.seed, "looked at"), MOST_ROWS)

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        if rows.view_inputs is None:
            raise InputError("Auto looks at all training rows: give TrainingRows.view_inputs, or take Online")
        self._never = [view.name for view in find_views(self.legitimate, rows.view_inputs)]
        self._corrected_by(self.shortcut)  # what does not apply is told
        if not self._searches:
            return
        # What sees everything would be no evidence.
        usable = [view for view in available_views(rows.view_inputs) if view.breadth < EVERYTHING]
        told = set(
            find_viewed_columns(self._never, rows.view_inputs.columns)
        )  # a pair with one of them would be it again
        again = {view.name for view in usable if isinstance(view, Pairs) and told & {*view.columns}}
        self.views = [view for view in usable if view.name not in {*self._never} | again]

    def _corrected_by(self, names: Sequence[str]) -> list[View]:
        """Return the views of these names, less those that a person calls legitimate."""
        assert self.rows.view_inputs is not None
        found = [view for view in find_views(names, self.rows.view_inputs) if view.name not in self._never]
        if names and not found:
            raise InputError("all views that shortcut names are legitimate: leave one out")
        return found

    # -- the networks

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        seen = None if bool((self.fold >= 0).all()) else (self.fold >= 0).long()
        epochs, size = self.length()
        return Stage(epochs=epochs, sample_weight=seen, step_rows=size)

    def length(self) -> tuple[int, int]:
        """Return the epochs of the ordinary networks, and the rows of their steps."""
        steps = STEPS_ON_IMAGES if len(self.info.input_shape) == 3 else STEPS
        epochs = math.ceil(steps * ROWS_OF_A_STEP / max(1, int((self.fold >= 0).sum())))
        return min(MOST_EPOCHS, max(LEAST_EPOCHS, epochs)), ROWS_OF_A_STEP

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        total = self.networks.loss(batch)
        return Step(total, {"loss_ordinary": total.detach() / FOLDS})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.networks.predict_out_of_fold(batch, self.info.num_labels)

    def parameter_groups(self) -> list[dict[str, object]]:
        return self.networks.parameter_groups("ordinary_network")

    def predict(self, inputs: Inputs) -> Tensor:
        return self.networks.log_probabilities(inputs).mean(dim=0)

    # -- the search, and the estimate

    def finish(self, outputs: Tensor | None) -> None:
        """Look for a shortcut in what the ordinary networks (N, L) said, unless a person named it, and estimate it."""
        if outputs is None:
            self._settle(Finding("shortcut", (*self.shortcut,), user_named=True, decided_by=self.decided_by))
        else:
            seen = (self.fold >= 0).nonzero().squeeze(1)
            self.examine(HeldOutPredictions("train", seen, outputs[seen], self.fold[seen]))

    def examine(self, judged: HeldOutPredictions) -> None:
        """Look for a shortcut in what a classifier says; then estimate the attributes, or abstain."""
        broadcast_from_first(judged.network)
        seen = (self.fold >= 0).nonzero().squeeze(1)  # what heads may learn from
        self.search = Search(self.rows, seen, judged, self.correlation, derive_seed(self.seed, "estimate"))
        self.search.look(self.views)
        self.search.weigh()
        named = self._corrected_by(self.shortcut)
        found = self.search.conclude_user_named(named) if named else self.search.conclude(self.when_unsure == "correct")
        self._settle(replace(found, legitimate=tuple(self._never)))

    def _settle(self, finding: Finding) -> None:
        self.finding = finding
        super().finish(None)
        self._drop_networks()

    def _drop_networks(self) -> None:
        """Forget networks whose work is done: a checkpoint need not hold them."""
        self.networks = FoldNetworks([], self.fold.unsqueeze(0))

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        if self.has_abstained:
            return torch.full_like(self.rows.label, UNKNOWN_ATTRIBUTE)
        assert self.rows.view_inputs is not None and self.finding is not None
        names = self.finding.views
        views, seed = self._corrected_by(names), derive_seed(self.seed, "estimate")
        said, rows = self.finding.user_named, len(self.rows.label)
        # One estimate for several shortcuts would be that of the surest, row by row.
        parts = _apart(views) if said else [views]
        if rows < ROWS_OF_A_CELL * self.info.num_labels ** (len(parts) + 1):
            parts = [views]
        exact = [said and are_columns([view.name for view in part]) for part in parts]
        weighed = None if self.search is None else self.search.get_candidate(names)
        if weighed is not None and len(weighed.estimate[0]) == rows and exact == [False]:
            found = [weighed.estimate]
        else:
            found = [
                estimate_by_heads(part, self.rows, self.correlation, seed, exact=one)
                for part, one in zip(parts, exact, strict=True)
            ]
        self.kept = [heads for _, _, heads in found]
        self.estimates = [(attribute, probability) for attribute, probability, _ in found]
        self.row_posterior = join_posteriors([probability for _, probability in self.estimates])
        if len(parts) > 1:
            self._combine()
        return join_attributes([attribute for attribute, _ in self.estimates], self.info.num_labels)

    def _combine(self) -> None:
        """Take each combination of several shortcuts' values for a value; a label has the one of its own values."""
        names, size, values = self.info.label_names, self.info.num_labels, list[list[str]]()
        for heads in self.kept:
            parts = [ViewName.of(view.name) for view in heads.views]
            called = dict.fromkeys(member if family == "column" else family for family, member in parts)
            values.append([f"{' and '.join(called)} like {name}" for name in names])
        self.attribute_names = [", ".join(one) for one in product(*values)]
        step = sum(size**place for place in range(len(values)))
        self.correlation = Correlation.from_table([[label * step] for label in range(size)], size ** len(values))

    def predict_attributes(self, label: Tensor, rows: ViewInputs) -> Tensor | None:
        """Return the attribute (n,) of rows by the same odds as of training rows."""
        if not self.kept or not all(view.is_applicable(rows) for heads in self.kept for view in heads.views):
            return None
        return join_attributes([attribute for attribute, _ in self.estimates_of(label, rows)], self.info.num_labels)

    def estimates_of(self, label: Tensor, rows: ViewInputs) -> list[tuple[Tensor, Tensor]]:
        """Return attribute (n,) and class probabilities (n, L) of other rows by each shortcut."""
        own = Correlation.one_to_one(self.info.num_labels)
        seen = [(heads.probability(rows), heads.odds) for heads in self.kept]
        return [(select_attribute(own.posterior(one), label, own, odds), one) for one, odds in seen]

    def get_extra_state(self) -> dict[str, Any]:
        kept = [heads.state() for heads in self.kept]
        return {**super().get_extra_state(), "kept": [] if None in kept else kept}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.kept = [KeptHeads.from_state(one) for one in state["kept"]]
        if len(self.kept) > 1:
            self._combine()
        if self.finding is not None:
            self._drop_networks()

    def describe(self) -> str:
        if self.finding is None:
            return "a search for a shortcut"
        if self.has_abstained:
            return "nowhere, for no shortcut was found"
        return f"a classifier of {name_views(self.finding.views)} alone, cross-fitted"


def _apart(views: Sequence[View]) -> list[list[View]]:
    """Return the views of each shortcut: a column, members of a family that sees one thing, and all broader views."""
    parts: dict[str, list[View]] = {}
    for view in views:
        family = ViewName.of(view.name).family
        parts.setdefault("" if view.breadth else view.name if family == "column" else family, []).append(view)
    return list(parts.values())
