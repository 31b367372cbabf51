"""Looks at held-out rows through one view after the other, beside what an ordinary classifier says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction.attributes.evidence import (
    EXAMINED,
    ORDINARY,
    Evidence,
    Signs,
    Thresholds,
    conclude,
    signs_of,
)
from logit_correction.attributes.folds import draw_folds, held_out
from logit_correction.attributes.given import RowFile
from logit_correction.attributes.heads import (
    answers,
    logistic,
    scale_of,
    scaled,
    telling,
    telling_columns,
    telling_members,
)
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

    def __init__(
        self, rows: TrainingRows, learned: Tensor, judged: Judged, num_labels: int, thresholds: Thresholds
    ) -> None:
        """Put the rows together; where validation rows are judged, heads learn from the training rows ``learned``."""
        assert rows.view_inputs is not None
        self.judged, self.num_labels, self.thresholds, self.report = judged, num_labels, thresholds, rows.report
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
            for sign, seen in self.look([view for view in views if (view.breadth >= RICH) is is_rich]):
                self.signs.append(sign)
                self.seen[sign.view] = seen
        return self._conclusion()

    def insist(self, views: Sequence[View]) -> Evidence:
        """Take a person's word that these views are a shortcut, and say what they tell side by side."""
        self.report(f"looking at {', '.join(view.name for view in views)}")
        features = torch.cat(self._features(views), dim=1)
        sign, seen = self._told(views, features)
        self.seen[sign.view] = seen
        self.signs = [sign, *(one for one in self.signs if one.view != sign.view)]
        told = of_evidence("follows", sign.to_dict(), self.judged.who)
        return Evidence("shortcut", sign.views, self.signs, f"{SAID}. {told}")

    def _conclusion(self) -> Evidence:
        return conclude(self.signs, self.num_labels, self.thresholds, len(self.judged.rows), self.judged.who)

    def look(self, views: Sequence[View]) -> Iterator[tuple[Signs, Tensor]]:
        """Yield what each view tells, and its held-out class probabilities (m, L) of the judged rows.

        A family of several members, which stand side by side, tells as one: at most one member for each label.
        """
        for family, group in groupby(views, key=lambda view: view.name.partition(":")[0]):
            members = list(group)
            self.report(f"looking at {family}")
            features = self._features(members)
            if len(members) > 1:
                choose = telling_columns(features, self._label, self.num_labels)
                members = [members[i] for i in telling_members(features, self._label, self.num_labels)]
                yield self._told(members, torch.cat(features, dim=1), choose)
            else:
                yield self._told(members, features[0])

    def _features(self, views: Sequence[View]) -> list[Tensor]:
        """Return the standardised features of all rows; views are fitted to the first part of them."""
        for view in views:
            view.fit(self._inputs[0])
        parts = [features_of(views, part) for part in self._inputs]
        whole = [torch.cat(of_view) for of_view in zip(*parts, strict=True)]
        return [scaled(features, *scale_of(features)) for features in whole]

    def _told(
        self, views: Sequence[View], features: Tensor, choose: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Signs, Tensor]:
        """Return what views tell by a head on their features, and its class probabilities of the judged rows."""
        few = next((view.few for view in views if view.few is not None), None)
        choose = choose or telling(features, self._label, self.num_labels, few)
        fit = logistic(features, self._label, self.num_labels, choose)
        seen, is_judged = held_out(fit, self._fold, self.num_labels), self._fold >= 0
        breadth = max(view.breadth for view in views)
        if any(view.together is not None and len(views) > view.together for view in views):
            breadth = max(breadth, RICH)
        name, sentence = " + ".join(view.name for view in views), " and ".join(view.sentence for view in views)
        seen, label = seen[is_judged], self._label[is_judged]
        return signs_of(name, sentence, breadth, seen, self.judged.network, label, self.thresholds.sure), seen


# -- classifiers that are given


def network_of_run(run: str, info: DataInfo) -> nn.Module:
    """Return the network of a finished run, which must have these labels."""
    network = resolve("network", "FromRun", NETWORKS, nn.Module)(info=info, run=run)
    if network.label_names != tuple(info.label_names):
        raise InputError(
            f"the run {run} has other labels than these data: give a run of the same data, or leave it out"
        )
    return network.requires_grad_(False)


def judged_by_run(network: nn.Module, rows: TrainingRows, device: torch.device) -> Judged:
    """Return what a finished run says of the validation rows, all of them."""
    assert rows.view_inputs is not None
    places = torch.arange(len(rows.label))
    found = answers(network.eval().to(device), rows.view_inputs, device)
    return Judged("valid", places, found, torch.zeros_like(places), EXAMINED)


class PredictionsFile:
    """Class probabilities of rows from a CSV or Parquet file: of any classifier that was not trained on these rows.

    Columns ``probability_LABEL`` (as `predict` writes them) or ``p_LABEL`` (as the audit does), one for each label, are
    what the classifier says of a row.
    """

    def __init__(self, file: Path | str, label_names: Sequence[str]) -> None:
        """Read and check the file."""
        self.file = RowFile(file)
        frame, path = self.file.frame, self.file.path
        prefix = next((one for one in ("probability_", "p_") if f"{one}{label_names[0]}" in frame), "probability_")
        columns = [f"{prefix}{label}" for label in label_names]
        missing = [column for column in columns if column not in frame]
        if missing:
            raise InputError(f"{path} has no column {missing[0]!r}: give one probability_LABEL for each label")
        try:
            values = frame[columns].to_numpy(dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: columns probability_LABEL must hold numbers ({error})") from error
        bad = ~np.isfinite(values).all(1) | (values < 0).any(1) | (np.abs(values.sum(1) - 1) > 0.02)
        if bad.any():
            raise InputError(
                f"{path}: the probabilities of {self.file.key} {self.file.names[int(bad.argmax())]} do not add up to "
                "1: give probabilities of all labels, not scores"
            )
        self.values = torch.from_numpy(values).float()

    def of(self, rows: TrainingRows) -> tuple[Tensor, Tensor]:
        """Return which rows the file tells of (m,) long, counted within their split, and the probabilities (m, L)."""
        place = self.file.places_of(rows)
        known = (place >= 0).nonzero().squeeze(1)
        return known, self.values[place[known]]

    def judged(self, rows: TrainingRows, most: int, folds: int, generator: torch.Generator) -> Judged:
        """Return what the file says of training rows, at most so many; of validation rows if it tells of no other."""
        places, found = self.of(rows)
        if len(places):
            fold = draw_folds(len(places), folds, generator, most)
            return Judged("train", places[fold >= 0], found[fold >= 0], fold[fold >= 0], EXAMINED)
        places, found = (places, found) if rows.held_out is None else self.of(rows.held_out)
        if not len(places):
            raise InputError(f"{self.file.path} tells of no training or validation row by its column {self.file.key}")
        return Judged("valid", places, found, torch.zeros_like(places), EXAMINED)
