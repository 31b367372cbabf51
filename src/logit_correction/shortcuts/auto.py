"""Auto, the attribute estimator that first searches for a shortcut, and abstains where none is likely."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor, nn

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.attributes.folds import FoldNetworks, draw_folds, draw_folds_of_units
from logit_correction.distributed import broadcast_in_place
from logit_correction.errors import InputError
from logit_correction.finding import Decider, Finding
from logit_correction.formatting import format_option
from logit_correction.seeds import StepRandomness, derive_seed, make_generator
from logit_correction.shortcuts.heads import (
    FittedHeads,
    ShortcutPrediction,
    compute_joint_posterior,
    estimate_by_heads,
    join_attributes,
)
from logit_correction.shortcuts.held_out import HeldOutPredictions
from logit_correction.shortcuts.search import Search
from logit_correction.types import (
    UNKNOWN_ATTRIBUTE,
    Batch,
    Correlation,
    Inputs,
    Stage,
    Step,
    TrainingRows,
    ViewInputs,
)
from logit_correction.view_names import EVERYTHING, ViewName, are_column_views, format_view_names
from logit_correction.views.base import View, available_views, compute_features, find_views
from logit_correction.views.tables import Pairs, find_viewed_columns

#: Folds of the search; each is predicted by a network that was trained on the others.
FOLDS = 3

#: Rows that the search uses at most; the estimate of the attribute uses all.
MAX_SEARCH_ROWS = 10_000

#: Steps of the search's networks, on images and elsewhere. The model of the evidence was fitted on networks that were
#: trained about as long, so this does not depend on the training of the method.
STEPS_ON_IMAGES = 300
STEPS = 600

#: Rows of a step of these networks.
ROWS_PER_STEP = 64

#: Fewest and most epochs of these networks.
MIN_EPOCHS = 4
MAX_EPOCHS = 100

#: Rows for each combination of a label and values of several shortcuts from which these are kept apart.
MIN_ROWS_PER_COMBINATION = 10


class Auto(AttributeEstimator):
    """Searches for a shortcut before anything is corrected, and estimates it. Reads no attribute label, of any split.

    1. ERM networks like that of the method are trained in folds and predict the rows that they were not trained on.
    2. So are probes on each view that applies to the data.
    3. The most promising views estimate the attribute, and narrower views that flag the same rows. A model gives each
       candidate the probability that correcting by it helps, see ``evidence``.
    4. If that is high enough, the method corrects by the best candidate. Otherwise it trains as ERM.

    Views under ``shortcut`` are corrected by without a search, unless ``search`` is True.
    """

    networks: FoldNetworks  # of the search; none once it has ended

    def __init__(
        self,
        shortcut: list[str] | None = None,
        legitimate: list[str] | None = None,
        when_unsure: Literal["correct", "leave"] = "leave",
        search: bool | None = None,
        decided_by: Decider = "person",
    ) -> None:
        """Choose views.

        Args:
            shortcut: Views that are known to be a shortcut, such as ``colour`` or ``column:scanner``. Each column is
                a shortcut of its own, so are the cells of ``places`` and words, and all other views together.
                Combinations of their values are corrected by, where there are rows enough.
            legitimate: Views, or families of views, that are known to be no shortcut: never corrected by.
            when_unsure: Where the verdict is ``cannot tell``, ``correct`` by the likeliest view, or ``leave`` training
                as that of ERM.
            search: Whether to search for a shortcut, as an audit does in any case; by default only if ``shortcut`` is
                empty.
            decided_by: Who named ``shortcut``, for the report: a ``person``, ``answers`` about new rows, or the
                ``search`` of an audit.
        """
        super().__init__()
        self.shortcut = list(shortcut or [])
        self.legitimate = list(legitimate or [])
        contradictory = {*self.shortcut} & {*self.legitimate}
        if contradictory:
            raise InputError(
                f"view {sorted(contradictory)[0]} is given both as shortcut and as legitimate: leave one out"
            )
        names = map(ViewName.parse, self.legitimate)
        words = [str(name) for name in names if name.family == "word" and name.member]
        if words:
            raise InputError(
                f"{format_option('legitimate', words[0])}: texts are looked at by all words together: give word"
            )
        self.when_unsure = when_unsure
        self.num_stages = int(not self.shortcut if search is None else search)
        self.decided_by: Decider = decided_by
        self.heads: Sequence[FittedHeads] = ()  # for unseen rows, of each shortcut
        self.estimates: list[ShortcutPrediction] = []  # of the training rows, by each shortcut
        self.search: Search | None = None
        self._adopted_finding: Finding | None = None

    def build_networks(self, build: Callable[[str], nn.Module]) -> None:
        self.fold = torch.zeros(self.info.num_rows, dtype=torch.long)  # ``setup`` draws it
        networks = [build(f"ordinary network {number}") for number in range(FOLDS * self.num_stages)]
        self.networks = FoldNetworks(networks, self.fold.unsqueeze(0))

    def draw_search_folds(self, label: Tensor, unit: Tensor | None) -> Tensor:
        """Return the fold (n,) of each of these rows; -1 of rows that the search does not use.

        Args:
            label: (n,) long.
            unit: (n,) long, see ``TrainingRows``.
        """
        generator = make_generator(self.seed, "looked at")
        if unit is None:
            return draw_folds(len(label), FOLDS, generator, MAX_SEARCH_ROWS)
        return draw_folds_of_units(unit, label, FOLDS, generator, MAX_SEARCH_ROWS)

    def adopt_finding(self, finding: Finding) -> None:
        """Estimate by what an earlier search found, and search no more."""
        self._adopted_finding = finding
        self.num_stages = 0
        self._delete_networks()

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        if rows.view_inputs is None:
            raise InputError("Auto looks at all training rows: give TrainingRows.view_inputs, or take Online")
        self._legitimate_views = [view.name for view in find_views(self.legitimate, rows.view_inputs)]
        self._find_shortcut_views(self.shortcut)  # raises if a name does not apply
        self.fold = self.draw_search_folds(rows.label, rows.unit)
        self.networks.fold.copy_(self.fold)
        if not self.num_stages:
            return
        # A pair with a legitimate column would be that column again.
        columns = set(find_viewed_columns(self._legitimate_views, rows.view_inputs.columns))
        self.views = [
            view
            for view in available_views(rows.view_inputs)
            if view.breadth < EVERYTHING
            and view.name not in self._legitimate_views
            and not (isinstance(view, Pairs) and columns & {*view.columns})
        ]

    def _find_shortcut_views(self, names: Sequence[str]) -> list[View]:
        """Return the views of these names, less the legitimate ones."""
        assert self.rows.view_inputs is not None
        views = [view for view in find_views(names, self.rows.view_inputs) if view.name not in self._legitimate_views]
        if names and not views:
            raise InputError("all views that shortcut names are legitimate: leave one out")
        return views

    # -- networks of the search

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        is_used = self.fold >= 0
        sample_weight = None if is_used.all() else is_used.long()
        return Stage(self.compute_epochs(), sample_weight=sample_weight, step_rows=ROWS_PER_STEP)

    def compute_epochs(self) -> int:
        """Return the epochs of the search's networks."""
        steps = STEPS_ON_IMAGES if len(self.info.input_shape) == 3 else STEPS
        epochs = math.ceil(steps * ROWS_PER_STEP / max(1, int((self.fold >= 0).sum())))
        return min(MAX_EPOCHS, max(MIN_EPOCHS, epochs))

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        total = self.networks.compute_loss(batch)
        return Step(total, {"loss_ordinary": total.detach() / FOLDS})

    def collect_outputs(self, batch: Batch) -> Tensor:
        return self.networks.predict_out_of_fold(batch, self.info.num_labels)

    def predict_logits(self, inputs: Inputs) -> Tensor:
        return self.networks.compute_log_probabilities(inputs).mean(dim=0)

    # -- search and estimate

    def finish(self, outputs: Tensor | None) -> None:
        """Search in the predictions (N, L) of the networks, unless the shortcut was named, and estimate it."""
        if outputs is None:
            named = Finding("shortcut", (*self.shortcut,), user_named=True, decided_by=self.decided_by)
            self._store_finding(self._adopted_finding or named)
            return
        rows = (self.fold >= 0).nonzero().squeeze(1)
        self.search_for_shortcut(HeldOutPredictions("train", rows, outputs[rows], self.fold[rows]))

    def search_for_shortcut(self, held_out: HeldOutPredictions) -> None:
        """Search for a shortcut in the predictions of a classifier, then estimate the attribute, or abstain."""
        broadcast_in_place(held_out.network)
        learned = (self.fold >= 0).nonzero().squeeze(1)
        self.search = Search(self.rows, learned, held_out, self.info.num_labels, derive_seed(self.seed, "estimate"))
        self.search.evaluate_views(self.views)
        self.search.score_candidates()
        if self.shortcut:
            finding = self.search.conclude_user_named(self._find_shortcut_views(self.shortcut))
        else:
            finding = self.search.conclude(self.when_unsure == "correct")
        self._store_finding(replace(finding, legitimate=tuple(self._legitimate_views)))

    def _store_finding(self, finding: Finding) -> None:
        self.finding = finding
        super().finish(None)
        self._delete_networks()

    def _delete_networks(self) -> None:
        """Remove the search's networks, so that no checkpoint holds them."""
        self.networks = FoldNetworks([], self.fold.unsqueeze(0))

    def assign_training(self, outputs: Tensor | None) -> Tensor:
        if self.has_abstained:
            return torch.full_like(self.rows.label, UNKNOWN_ATTRIBUTE)
        assert self.finding is not None
        estimates = self._estimate_attributes_by_shortcut(self.finding)
        self.estimates = [prediction for prediction, _ in estimates]
        self.heads = [heads for _, heads in estimates]
        self.row_posterior = compute_joint_posterior([probabilities for _, probabilities in self.estimates])
        if len(estimates) > 1:
            self._name_shortcut_combinations()
        return join_attributes([attribute for attribute, _ in self.estimates], self.info.num_labels)

    def _estimate_attributes_by_shortcut(self, finding: Finding) -> list[tuple[ShortcutPrediction, FittedHeads]]:
        """Return an estimate by each shortcut: one by several would follow the surest of them in each row."""
        views = self._find_shortcut_views(finding.views)
        num_rows = len(self.rows.label)
        shortcuts = _separate_shortcuts(views) if finding.user_named else [views]
        if num_rows < MIN_ROWS_PER_COMBINATION * self.info.num_labels ** (len(shortcuts) + 1):
            shortcuts = [views]
        is_exact = [finding.user_named and are_column_views([view.name for view in shortcut]) for shortcut in shortcuts]
        candidate = None if self.search is None else self.search.get_candidate(finding.views)
        if candidate and len(candidate.learned.attribute) == num_rows and is_exact == [False]:
            return [(candidate.learned, candidate.heads)]
        seed = derive_seed(self.seed, "estimate")
        return [
            estimate_by_heads(shortcut, self.rows, self.info.num_labels, seed, exact=exact)
            for shortcut, exact in zip(shortcuts, is_exact, strict=True)
        ]

    def _name_shortcut_combinations(self) -> None:
        """Name each combination of the values of several shortcuts; a label is correlated with its own values."""
        num_labels = self.info.num_labels
        values = []
        for heads in self.heads:
            names = [ViewName.parse(view.name) for view in heads.views]
            shortcut = " and ".join(
                dict.fromkeys(name.member if name.family == "column" else name.family for name in names)
            )
            values.append([f"{shortcut} like {label}" for label in self.info.label_names])
        self.attribute_names = [", ".join(combination) for combination in product(*values)]
        step = sum(num_labels**power for power in range(len(values)))
        table = [[label * step] for label in range(num_labels)]
        self.correlation = Correlation.from_table(table, num_labels ** len(values))

    def predict_attributes(self, label: Tensor, inputs: ViewInputs) -> Tensor | None:
        """Return the attribute (n,) of unseen rows by the same odds as of training rows; None without heads for them.

        Args:
            label: (n,) of the rows.
            inputs: What views need of them.
        """
        if not self.heads or not all(view.is_applicable(inputs) for heads in self.heads for view in heads.views):
            return None
        attributes = [attribute for attribute, _ in self.predict_shortcuts(label, inputs)]
        return join_attributes(attributes, self.info.num_labels)

    def predict_shortcuts(self, label: Tensor, inputs: ViewInputs) -> list[ShortcutPrediction]:
        """Return what each shortcut predicts of unseen rows.

        Args:
            label: (n,) of the rows.
            inputs: What views need of them.
        """
        return [heads.predict(label, torch.cat(compute_features(heads.views, inputs), dim=1)) for heads in self.heads]

    def get_extra_state(self) -> dict[str, Any]:
        heads = [heads.get_state() for heads in self.heads]
        return {**super().get_extra_state(), "kept": [] if None in heads else heads}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.heads = [FittedHeads.from_state(heads) for heads in state["kept"]]
        if len(self.heads) > 1:
            self._name_shortcut_combinations()
        if self.finding is not None:
            self._delete_networks()

    def describe(self) -> str:
        if self.finding is None:
            return "a search for a shortcut"
        if self.has_abstained:
            return "nowhere, for no shortcut was found"
        return f"a classifier of {format_view_names(self.finding.views)} alone, cross-fitted"


def _separate_shortcuts(views: Sequence[View]) -> list[list[View]]:
    """Return the views of each shortcut: a column, members of a family that sees one thing, and all broader views."""
    shortcuts: dict[str, list[View]] = {}
    for view in views:
        family = ViewName.parse(view.name).family
        shortcut = "" if view.breadth else view.name if family == "column" else family
        shortcuts.setdefault(shortcut, []).append(view)
    return list(shortcuts.values())
