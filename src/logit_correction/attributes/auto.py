"""Looks for a shortcut by named views, estimates it where there is one, and abstains where there is none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from logit_correction.attributes.base import UNKNOWN, AttributeEstimator, Builder
from logit_correction.attributes.cross_fitted import CrossFitted
from logit_correction.attributes.evidence import RICH, Evidence, Signs, Thresholds, conclude
from logit_correction.attributes.folds import gather_members, take_rows
from logit_correction.attributes.search import Sample, looked_at
from logit_correction.distributed import broadcast_from_first
from logit_correction.errors import check_range
from logit_correction.networks import NETWORKS
from logit_correction.randomness import StepRandomness
from logit_correction.registry import resolve
from logit_correction.seeds import derive_seed, make_generator
from logit_correction.types import Batch, DataInfo, InputError, Inputs, NetworkFactory, Stage, Step, TrainingRows
from logit_correction.views.base import EVERYTHING, ViewInputs
from logit_correction.views.choose import available_views, find_views

#: Parts that the rows are divided into; each is predicted by a network that was trained on the others.
FOLDS = 3

#: Most rows that are looked at, where nobody says.
MOST_ROWS = 10_000


class Auto(AttributeEstimator):
    """Finds out whether there is a shortcut before anything is corrected. Reads no attribute label, of any split.

    1. Ordinary networks, of the kind of the robust one, are trained in folds, and predict rows that they did not see;
       or the network of a given ``run`` predicts the validation rows.
    2. So do heads on each view that the data permit, narrow views first.
    3. Two signs tell: a narrow view alone predicts the label as well as the whole network, and where view and label
       disagree the ordinary network goes with the view. See ``evidence``.
    4. Where both hold, the attribute of every row is estimated by heads on the view, as ``CrossFitted`` does.
       Otherwise nothing is corrected, and the method trains as ERM does.

    A person who knows says so: with ``shortcut`` nothing is looked for, these views are corrected by; by those under
    ``legitimate`` never.
    """

    fold: Tensor

    def __init__(
        self,
        shortcut: list[str] | None = None,
        legitimate: list[str] | None = None,
        views: list[str] | None = None,
        rows: int | None = None,
        epochs: int | None = None,
        run: str | None = None,
    ) -> None:
        """Choose what to look at.

        Args:
            shortcut: Views that are known to be a shortcut, such as ``colour`` or ``column:scanner``: corrected by
                without a search.
            legitimate: Views, or families of views, that are known to be no shortcut: never corrected by.
            views: Families of views to look at; by default all that the data permit.
            rows: Most rows that are looked at in the search; None takes 10,000. The estimate itself takes all.
            epochs: Epochs of the ordinary networks; None takes as many as the run has.
            run: Folder of a finished run of ERM on the same data and split. Its network is then asked about the
                validation rows, which it was not trained on, and none are trained in folds.

        Raises:
            InputError: If an option is out of range, or a view is both.
        """
        super().__init__()
        for name, value, least in (("rows", rows, 100), ("epochs", epochs, 1)):
            if value is not None:
                check_range(name, value, least)
        self.shortcut, self.legitimate = list(shortcut or []), list(legitimate or [])
        both = set(self.shortcut) & set(self.legitimate)
        if both:
            raise InputError(f"view {sorted(both)[0]} is given both as shortcut and as legitimate: leave one out")
        for name, of_the_search in (("views", views), ("rows", rows), ("epochs", epochs), ("run", run)):
            if self.shortcut and of_the_search is not None:
                raise InputError(f"with shortcut nothing is looked for: leave {name} out")
        if run is not None and epochs is not None:
            raise InputError("with run no network is trained to look for a shortcut: leave epochs out")
        self.family_names, self.most_rows, self.epochs, self.run = views, rows or MOST_ROWS, epochs, run
        self.num_stages = 0 if self.shortcut or run is not None else 1
        self.networks = nn.ModuleList()
        self.thresholds = Thresholds()

    def attach(self, build: Builder, network: NetworkFactory, info: DataInfo, seed: int) -> None:
        """Build the ordinary networks, if there is something to look for."""
        super().attach(build, network, info, seed)
        self._build, self._network = build, network
        if self.run is not None:
            self.networks.append(_ordinary(self.run, info))
        elif not self.shortcut:
            self.networks.extend(build(network, f"ordinary network {fold}") for fold in range(FOLDS))

    def setup(self, rows: TrainingRows) -> None:
        """Take in the labels, find the views, and draw the rows to look at and their folds."""
        super().setup(rows)
        if rows.view_inputs is None:
            raise InputError(
                "Auto needs to look at the inputs of all training rows: give TrainingRows.view_inputs, or take another "
                "estimator, such as Online"
            )
        if self.shortcut:
            find_views(self.shortcut, rows.view_inputs)  # what does not apply is told at once
            return
        never = {view.name for view in find_views(self.legitimate, rows.view_inputs)}
        # What sees everything would be no evidence.
        usable = [view for view in available_views(rows.view_inputs, self.family_names) if view.breadth < EVERYTHING]
        self.views = [view for view in usable if view.name not in never]
        if self.run is not None and (rows.held_out is None or rows.held_out.view_inputs is None):
            raise InputError("a given run is asked about validation rows: give TrainingRows.held_out, or leave run out")
        fold = looked_at(len(rows.label), self.most_rows, FOLDS, make_generator(self.seed, "looked at"))
        self.register_buffer("fold", fold, persistent=False)

    # -- the ordinary networks

    def begin_stage(self, stage: int, outputs: Tensor | None) -> Stage:
        """Ask for the epochs of the ordinary networks, on the rows that are looked at."""
        everything = bool((self.fold >= 0).all())
        return Stage(epochs=self.epochs, sample_weight=None if everything else (self.fold >= 0).long().cpu())

    def step(self, batch: Batch, epoch: float, randomness: StepRandomness) -> Step:
        """Return the sum of the networks' mean cross-entropies, each over the rows of the other folds."""
        fold = self.fold.index_select(0, batch.index)
        total = torch.zeros((), device=batch.label.device)
        for number, network in enumerate(self.networks):
            rows, weight = gather_members(fold != number, 1 - 1 / FOLDS)
            logits = network(take_rows(batch.inputs, rows))
            loss = cross_entropy(logits, batch.label.index_select(0, rows), reduction="none")
            total = total + (loss * weight).sum()
        return Step(total, {"loss_ordinary": total.detach() / FOLDS})

    def collect(self, batch: Batch) -> Tensor:
        """Return the class probabilities (B, L) of the network that did not see a row; waits for the device."""
        fold = self.fold.index_select(0, batch.index).clamp_min(0)
        found = torch.zeros(len(fold), self.info.num_labels, device=batch.label.device)
        for number, network in enumerate(self.networks):
            rows = (fold == number).nonzero().squeeze(1)
            if len(rows):
                found[rows] = network(take_rows(batch.inputs, rows)).float().softmax(dim=1)
        return found

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return one optimiser group for each ordinary network; they train as the run does."""
        if self.evidence is not None:
            return []
        return [
            {"params": list(network.parameters()), "name": f"ordinary_network_{number}"}
            for number, network in enumerate(self.networks)
        ]

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logarithm (B, L) of the mean softmax of the ordinary networks."""
        return torch.stack([log_softmax(network(inputs).float(), dim=1) for network in self.networks]).mean(dim=0)

    # -- the search, and the estimate

    def finish(self, outputs: Tensor | None) -> None:
        """Look for a shortcut, then estimate the attributes, or abstain."""
        if self.shortcut:
            evidence = Evidence("shortcut", list(self.shortcut), [], "a person said so")
        else:
            sample = self._held_out_sample() if outputs is None else self._sample_in_folds(outputs)
            evidence = conclude(self._signs(sample), self.thresholds)
        self.evidence = evidence.to_dict(self.info.label_names)
        self.networks = nn.ModuleList()  # their work is done, and a checkpoint need not hold them
        self.abstained = evidence.verdict != "shortcut"
        unknown = torch.full_like(self.rows.label, UNKNOWN)
        self.settle(*(self._estimate(evidence.views) if not self.abstained else (unknown, None)))

    def _sample_in_folds(self, outputs: Tensor) -> Sample:
        """Return the rows that are looked at, each with what the network says that was not trained on it."""
        assert self.rows.view_inputs is not None
        rows = (self.fold >= 0).nonzero().squeeze(1).cpu()
        network = outputs[rows]
        broadcast_from_first(network)
        return Sample([self.rows.view_inputs.take(rows)], self.rows.label[rows], self.fold.cpu()[rows], network)

    def _held_out_sample(self) -> Sample:
        """Return training rows for heads to learn from, and the validation rows with what the run says of them."""
        held_out = self.rows.held_out
        assert self.rows.view_inputs is not None and held_out is not None and held_out.view_inputs is not None
        rows, others = (self.fold >= 0).nonzero().squeeze(1).cpu(), held_out.view_inputs
        answers = _answers(self.networks[0], others, self.fold.device)
        broadcast_from_first(answers)
        network = torch.cat([torch.zeros(len(rows), self.info.num_labels), answers])
        fold = torch.full((len(network),), -1)
        fold[len(rows) :] = 0
        inputs = [self.rows.view_inputs.take(rows), others]
        return Sample(inputs, torch.cat([self.rows.label[rows], held_out.label]), fold, network)

    def _signs(self, sample: Sample) -> list[Signs]:
        """Return what each view tells."""
        signs: list[Signs] = []
        for is_rich in (False, True):
            # Rich views take longest, and no simple one that explains what was found gives way to them.
            if is_rich and conclude(signs, self.thresholds).verdict == "shortcut":
                break
            views = [view for view in self.views if (view.breadth >= RICH) is is_rich]
            signs += sample.look(views, self.thresholds.sure, self.rows.report)
        return signs

    def _estimate(self, views: list[str]) -> tuple[Tensor, Tensor | None]:
        """Estimate the attributes of all rows by heads on the views."""
        estimator = CrossFitted(view=views)
        estimator.attach(self._build, self._network, self.info, derive_seed(self.seed, "estimate"))
        estimator.setup(self.rows)
        return estimator.estimate_rows(None)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Do without the ordinary networks where the search was over."""
        if not any(name.startswith(f"{prefix}networks.") for name in state_dict):
            self.networks = nn.ModuleList()
        super()._load_from_state_dict(state_dict, prefix, *args)

    def describe(self) -> str:
        """Say where the attributes come from."""
        if self.evidence is None:
            return "a search for a shortcut by views"
        if self.abstained:
            return f"nowhere: {self.evidence['sentence']}"
        return f"heads on {', '.join(self.evidence['views'])}, cross-fitted: {self.evidence['sentence']}"


def _ordinary(run: str, info: DataInfo) -> nn.Module:
    """Return the network of a finished run.

    Raises:
        InputError: If the run has other labels or other inputs.
    """
    network: nn.Module = resolve("network", "FromRun", NETWORKS)(info=info, run=run)
    labels = network.label_names
    if labels != tuple(info.label_names):
        raise InputError(
            f"the run {run} has other labels than these data: give a run of the same data, or leave it out"
        )
    return network.requires_grad_(False)


def _answers(network: nn.Module, rows: ViewInputs, device: torch.device) -> Tensor:
    """Return a network's class probabilities (n, L) of rows, on the CPU."""
    found = []
    network.eval()
    with torch.no_grad():
        for chunk in rows.image_chunks():
            inputs = rows.inputs(chunk)
            if isinstance(inputs, dict):
                moved: Inputs = {name: value.to(device) for name, value in inputs.items()}
            else:
                moved = inputs.to(device)
            found.append(network(moved).float().softmax(dim=1).cpu())
    return torch.cat(found)
