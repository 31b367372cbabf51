"""Looks at held-out rows through one view after the other, beside what an ordinary classifier says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction.attributes.evidence import EXAMINED, ORDINARY, Evidence, Signs, conclude, signs_of
from logit_correction.attributes.folds import held_out
from logit_correction.attributes.given import RowFile
from logit_correction.attributes.heads import answers, logistic, scaled, telling_features, telling_members
from logit_correction.data.frames import check_names
from logit_correction.errors import InputError
from logit_correction.networks import NETWORKS
from logit_correction.registry import resolve
from logit_correction.sentences import SAID, of_evidence
from logit_correction.types import DataInfo, TrainingRows
from logit_correction.views.base import RICH, View, features_of


@dataclass(frozen=True)
class Judged:
    """Rows that a search looks at, and what an ordinary classifier says of them that was not trained on them."""

    split: str  # train or valid
    rows: Tensor  # (m,) long, counted within their split
    network: Tensor  # (m, L) class probabilities
    fold: Tensor  # (m,) long, 0 or more; a head predicts a fold that it did not learn from
    who: str = ORDINARY  # what the classifier is called


class Search:
    """Looks through views at judged rows, and keeps what it saw.

    Attributes:
        judged: The rows.
        seen: View -> (m, L) class probabilities of a head on it that was not trained on the row.
        signs: What each view tells.
    """

    def __init__(self, rows: TrainingRows, learned: Tensor, judged: Judged, num_labels: int) -> None:
        """Put the rows together; where validation rows are judged, heads learn from the training rows ``learned``."""
        assert rows.view_inputs is not None
        self.judged, self.num_labels, self.report = judged, num_labels, rows.report
        self.seen: dict[str, Tensor] = {}
        self.signs: list[Signs] = []
        if judged.split == "train":
            self._inputs = [rows.view_inputs.take(judged.rows)]
            self._label, self._fold = rows.label[judged.rows], judged.fold
            return
        assert rows.held_out is not None and rows.held_out.view_inputs is not None
        self._inputs = [rows.view_inputs.take(learned), rows.held_out.view_inputs.take(judged.rows)]
        self._label = torch.cat([rows.label[learned], rows.held_out.label[judged.rows]])
        self._fold = torch.cat([torch.full((len(learned),), -1), judged.fold])

    def conclude(self, views: Sequence[View]) -> Evidence:
        """Look through all views, rich ones only where no simple one explains what was found: they take longest."""
        for is_rich in (False, True):
            if is_rich and self._conclusion().verdict == "shortcut":
                break
            self.look([view for view in views if (view.breadth >= RICH) is is_rich])
        return self._conclusion()

    def _conclusion(self) -> Evidence:
        return conclude(self.signs, self.num_labels, num_rows=len(self.judged.rows), who=self.judged.who)

    def look(self, views: Sequence[View]) -> None:
        """Look through some views; a family of several members tells as one, at most one member for each label."""
        for family, group in groupby(views, key=lambda view: view.name.partition(":")[0]):
            self.report(f"looking at {family}")
            self.signs.append(self._told(list(group), choose_members=True))

    def insist(self, views: Sequence[View]) -> Evidence:
        """Take a person's word that these views are a shortcut, and say what they tell side by side."""
        self.report(f"looking at {', '.join(view.name for view in views)}")
        sign = self._told(views, choose_members=False)
        self.signs = [sign, *(one for one in self.signs if one.view != sign.view)]
        told = of_evidence("follows", sign.to_dict(), self.judged.who)
        return Evidence("shortcut", sign.views, self.signs, f"{SAID}. {told}")

    def _told(self, views: Sequence[View], choose_members: bool) -> Signs:
        """Return what views tell by a head on all their features, or on those of the members that tell each label."""
        label, size = self._label, self.num_labels
        for view in views:
            view.fit(self._inputs[0])
        of_parts = [features_of(views, part) for part in self._inputs]
        of_views = [torch.cat(of_view) for of_view in zip(*of_parts, strict=True)]
        of_views = [scaled(features, *torch.std_mean(features, dim=0)) for features in of_views]
        features, few = torch.cat(of_views, dim=1), next((view.few for view in views if view.few is not None), None)

        def choose(rows: Tensor) -> Tensor:
            if not choose_members or len(of_views) == 1:
                return telling_features(features[rows], label[rows], size, few)
            places = torch.arange(features.shape[1]).split([part.shape[1] for part in of_views])
            told = telling_members([part[rows] for part in of_views], label[rows], size)
            return torch.cat([places[member] for member in told])

        if choose_members and len(views) > 1:
            views = [views[member] for member in telling_members(of_views, label, size)]
        seen = held_out(logistic(features, label, size, choose), self._fold, size)
        breadth = max(view.breadth for view in views)
        if any(view.together is not None and len(views) > view.together for view in views):
            breadth = max(breadth, RICH)
        name, sentence = " + ".join(view.name for view in views), " and ".join(view.sentence for view in views)
        judged = self._fold >= 0
        self.seen[name] = seen[judged]
        return signs_of(name, sentence, breadth, seen[judged], self.judged.network, label[judged])


# -- classifiers that are given


def network_of_run(run: str, info: DataInfo) -> nn.Module:
    """Return the network of a finished run on the same data."""
    network: nn.Module = resolve("network", "FromRun", NETWORKS)(info=info, run=run)
    return network.requires_grad_(False)


def judged_by_run(network: nn.Module, rows: TrainingRows, device: torch.device) -> Judged:
    """Return what a finished run says of the validation rows, all of them."""
    assert rows.view_inputs is not None
    places = torch.arange(len(rows.label))
    found = answers(network.eval().to(device), rows.view_inputs, device)
    return Judged("valid", places, found, torch.zeros_like(places), EXAMINED)


def judged_by_file(path: str, rows: TrainingRows, labels: Sequence[str], fold_of: Callable[[int], Tensor]) -> Judged:
    """Return what a CSV or Parquet file says of training rows, or of validation rows if it tells of no other.

    Columns ``probability_LABEL`` (as `predict` writes them) or ``p_LABEL`` (as the audit does), one for each label, are
    what any classifier says of a row that was not trained on it. ``fold_of`` draws the folds of so many training rows.
    """
    file = RowFile(path)
    prefix = "p_" if f"p_{labels[0]}" in file.frame else "probability_"
    columns = [f"{prefix}{label}" for label in labels]
    check_names(list(file.frame.columns), str(file.path), columns)
    try:
        values = file.frame[columns].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{file.path}: columns probability_LABEL must hold numbers ({error})") from error
    bad = ~np.isfinite(values).all(1) | (values < 0).any(1) | (np.abs(values.sum(1) - 1) > 0.02)
    if bad.any():
        raise InputError(
            f"{file.path}: the probabilities of {file.key} {file.names[int(bad.argmax())]} do not add up to 1: give "
            "probabilities of all labels, not scores"
        )
    for split, its_rows in (("train", rows), ("valid", rows.held_out)):
        place = torch.zeros(0).long() if its_rows is None else file.places_of(its_rows)
        known = (place >= 0).nonzero().squeeze(1)
        if len(known):
            fold = fold_of(len(known)) if split == "train" else torch.zeros_like(known)
            known, fold = known[fold >= 0], fold[fold >= 0]
            return Judged(split, known, torch.from_numpy(values).float()[place[known]], fold, EXAMINED)
    raise InputError(f"{file.path} tells of no training or validation row by its column {file.key}")
