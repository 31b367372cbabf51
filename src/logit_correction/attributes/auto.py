"""Looks for a shortcut by named views, estimates it where there is one, and abstains where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from logit_correction.attributes.base import UNKNOWN, AttributeEstimator, Builder
from logit_correction.attributes.evidence import Evidence
from logit_correction.attributes.folds import FoldNetworks, draw_folds
from logit_correction.attributes.heads import estimate_by_heads
from logit_correction.attributes.search import Judged, Search, judged_by_file, judged_by_run, network_of_run
from logit_correction.distributed import broadcast_from_first
from logit_correction.errors import InputError
from logit_correction.seeds import StepRandomness, derive_seed, make_generator
from logit_correction.sentences import SAID
from logit_correction.types import Batch, DataInfo, Inputs, NetworkFactory, Stage, Step, TrainingRows
from logit_correction.views.base import EVERYTHING
from logit_correction.views.choose import available_views, find_views

#: Parts that the rows are divided into; each is predicted by a network that was trained on the others.
FOLDS = 3

#: Most rows that are looked at; the estimate itself takes all.
MOST_ROWS = 10_000

#: Most rows of a batch of the search where it looks at some rows: larger ones fit all rows, but leave these few steps.
MOST_OF_A_BATCH = 256


class Auto(AttributeEstimator):
    """Finds out whether there is a shortcut before anything is corrected. Reads no attribute label, of any split.

    1. Ordinary networks, of the kind of the robust one, are trained in folds, and predict rows that they did not see;
       or the network of a given ``run`` predicts the validation rows, or ``predictions`` of any classifier are read.
    2. So do heads on each view that the data permit, narrow views first.
    3. Two signs tell: a narrow view alone predicts the label as well as the whole network, and where view and label
       disagree the ordinary network goes with the view. See ``evidence``.
    4. Where both hold, the attribute of every row is estimated by heads on the view, as ``CrossFitted`` does.
       Otherwise nothing is corrected, and the method trains as ERM does.

    A person who knows says so: with ``shortcut`` nothing is looked for, these views are corrected by; by those under
    ``legitimate`` never.
    """

    networks: FoldNetworks | None
    _judge: Callable[[torch.device], Judged]

    def __init__(
        self,
        shortcut: list[str] | None = None,
        legitimate: list[str] | None = None,
        views: list[str] | None = None,
        run: str | None = None,
        predictions: str | None = None,
    ) -> None:
        """Choose what to look at.

        Args:
            shortcut: Views that are known to be a shortcut, such as ``colour`` or ``column:scanner``: corrected by
                without a search.
            legitimate: Views, or families of views, that are known to be no shortcut: never corrected by.
            views: Families of views to look at; by default all that the data permit.
            run: Folder of a finished run of ERM on the same data and split. Its network is then asked about the
                validation rows, which it was not trained on, and none are trained in folds.
            predictions: CSV or Parquet file of what any classifier says of training rows, out of fold, or else of
                validation rows, with columns ``row``, ``line`` or ``path``, and ``probability_LABEL``.
        """
        super().__init__()
        self.shortcut, self.legitimate = list(shortcut or []), list(legitimate or [])
        both = set(self.shortcut) & set(self.legitimate)
        if both:
            raise InputError(f"view {sorted(both)[0]} is given both as shortcut and as legitimate: leave one out")
        search = {"views": views, "run": run, "predictions": predictions}
        asked = [name for name, option in search.items() if option is not None]
        if self.shortcut and asked:
            raise InputError(f"with shortcut nothing is looked for: leave {asked[0]} out")
        if run is not None and predictions is not None:
            raise InputError("run and predictions each say who answers as an ordinary classifier: give one")
        self.family_names, self.run, self.predictions = views, run, predictions
        self.num_stages = 0 if self.shortcut or run is not None or predictions is not None else 1
        self.networks = None
        self.search: Search | None = None  # what it saw, row by row, for those who ask

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        super().attach(build, network, info, seed)
        self.fold = self._draw(info.num_rows)
        if self.num_stages:
            networks = [build(network, f"ordinary network {number}") for number in range(FOLDS)]
            self.networks = FoldNetworks(networks, self.fold.unsqueeze(0))

    def _draw(self, rows: int) -> Tensor:
        return draw_folds(rows, FOLDS, make_generator(self.seed, "looked at"), MOST_ROWS)

    def setup(self, rows: TrainingRows) -> None:
        super().setup(rows)
        if rows.view_inputs is None:
            raise InputError("Auto looks at all training rows: give TrainingRows.view_inputs, or take Online")
        if self.shortcut:
            find_views(self.shortcut, rows.view_inputs)  # what does not apply is told at once
            return
        never = {view.name for view in find_views(self.legitimate, rows.view_inputs)}
        # What sees everything would be no evidence.
        usable = [view for view in available_views(rows.view_inputs, self.family_names) if view.breadth < EVERYTHING]
        self.views = [view for view in usable if view.name not in never]
        if self.run is not None:
            if rows.held_out is None:
                raise InputError("a given run is asked about validation rows: give TrainingRows.held_out")
            self._judge = partial(judged_by_run, network_of_run(self.run, self.info), rows.held_out)
        elif self.predictions is not None:
            judged = judged_by_file(self.predictions, rows, self.info.label_names, self._draw)
            self._judge = lambda _: judged

    # -- the ordinary networks

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        if bool((self.fold >= 0).all()):
            return Stage()
        return Stage(sample_weight=(self.fold >= 0).long(), most_rows=MOST_OF_A_BATCH)

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        assert self.networks is not None
        total = self.networks.loss(batch, batch.label)
        return Step(total, {"loss_ordinary": total.detach() / FOLDS})

    def collect(self, batch: Batch) -> Tensor:
        assert self.networks is not None
        return self.networks.held_out(batch, self.info.num_labels)

    def parameter_groups(self) -> list[dict[str, object]]:
        return [] if self.networks is None else self.networks.parameter_groups("ordinary_network")

    def predict(self, inputs: Inputs) -> Tensor:
        assert self.networks is not None
        return self.networks.log_probabilities(inputs).mean(dim=0)

    # -- the search, and the estimate

    def finish(self, outputs: Tensor | None) -> None:
        """Look for a shortcut, then estimate the attributes, or abstain."""
        if self.shortcut:
            evidence = Evidence("shortcut", list(self.shortcut), [], SAID)
        else:
            seen = (self.fold >= 0).nonzero().squeeze(1)  # what heads may learn from
            if outputs is None:
                judged = self._judge(self.row_attribute.device)
            else:
                judged = Judged("train", seen, outputs[seen], self.fold[seen])
            broadcast_from_first(judged.network)
            self.search = Search(self.rows, seen, judged, self.info.num_labels)
            evidence = self.search.conclude(self.views)
        self.networks = None  # their work is done, and a checkpoint need not hold them
        self._follow(evidence)

    def insist(self, views: Sequence[str]) -> None:
        """Correct by views that a person calls a shortcut, after a search that may have concluded otherwise."""
        assert self.rows.view_inputs is not None and self.search is not None
        self._follow(self.search.insist(find_views(views, self.rows.view_inputs)))

    def _follow(self, evidence: Evidence) -> None:
        self.evidence = evidence.to_dict(self.info.label_names)
        self.abstained = evidence.verdict != "shortcut"
        super().finish(None)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.abstained:
            return torch.full_like(self.rows.label, UNKNOWN), None
        assert self.rows.view_inputs is not None and self.evidence is not None
        views, seed = find_views(self.evidence["views"], self.rows.view_inputs), derive_seed(self.seed, "estimate")
        attribute, self.held_out, self.kept = estimate_by_heads(views, self.rows, self.correlation, seed)
        return attribute, self.held_out.gather(1, self.rows.label.unsqueeze(1)).squeeze(1)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Do without the ordinary networks where the search was over."""
        super().set_extra_state(state)
        if self.evidence is not None:
            self.networks = None

    def describe(self) -> str:
        if self.evidence is None:
            return "a search for a shortcut by views"
        if self.abstained:
            return "nowhere, for no shortcut was found"
        return f"heads on {', '.join(self.evidence['views'])}, cross-fitted"
