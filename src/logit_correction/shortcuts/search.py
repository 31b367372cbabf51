"""ViewEvidences at held-out rows through one view after the other, and weighs what might be corrected by."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.attributes.base import compute_outputs, select_attribute
from logit_correction.attributes.folds import predict_out_of_fold
from logit_correction.data.cells import check_column_names
from logit_correction.data.row_file import RowFile
from logit_correction.errors import InputError
from logit_correction.finding import (
    BASELINE,
    EXAMINED,
    MIN_HELD_OUT_ROWS,
    Finding,
    ScoredCandidate,
    Verdict,
    ViewEvidence,
)
from logit_correction.networks import NETWORKS
from logit_correction.registry import import_component
from logit_correction.seeds import make_generator
from logit_correction.shortcuts.evidence import (
    LEAST_ROWS,
    EvidenceModel,
    compute_information_share,
    compute_statistics,
    evaluate_view,
)
from logit_correction.shortcuts.heads import (
    KeptHeads,
    estimate_by_heads,
    make_logistic_learner,
    select_features_by_correlation,
    select_members,
    standardize,
)
from logit_correction.types import Correlation, DataInfo, TrainingRows
from logit_correction.view_names import EVERYTHING, RICH, ViewName
from logit_correction.views.base import View, compute_features
from logit_correction.views.tables import INCOMPARABLE, Pairs, assign_parts, compare_columns, compute_cuts
from logit_correction.views.texts import EDGE_MARK, WORD_PATTERN, TermView

#: A view is a candidate if it takes away more than this share of the label's entropy, or where none does.
USEFUL = 0.03

#: Two candidates point at the same rows if they agree on this share of the rows that they take for bias-conflicting:
#: rows of both, twice, over those of the one plus those of the other (Dice).
SAME_ROWS = 0.5

#: Words of each label that are left out where a view of words is promising.
WORDS = 5


@dataclass(frozen=True)
class HeldOutPredictions:
    """Rows that a search looks at, and what an ordinary classifier says of them that was not trained on them."""

    split: str  # train or valid
    rows: Tensor  # (m,) long, counted within their split
    network: Tensor  # (m, L) class probabilities
    fold: Tensor  # (m,) long, 0 or more; a head predicts a fold that it did not learn from
    who: str = BASELINE  # what the classifier is called


#: Names of views that are looked at together.
Views: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Correction:
    """What might be corrected by.

    Attributes:
        weighed: What speaks for it.
        attribute: (m,) long, its estimate of the judged rows.
        seen: (m, L) class probabilities of the judged rows.
        estimate: Attribute and class probabilities of the rows that heads learned from, and the heads.
    """

    weighed: ScoredCandidate
    attribute: Tensor
    seen: Tensor
    estimate: tuple[Tensor, Tensor, KeptHeads]


class Search:
    """ViewEvidences through views at judged rows, and keeps what it saw.

    Attributes:
        judged: The rows.
        label: (m,) their labels.
        seen: Views -> (m, L) class probabilities of a head on them that was not trained on the row.
        looks: Views -> what they tell.
        corrections: What might be corrected by, the surest first.
    """

    def __init__(
        self, rows: TrainingRows, learned: Tensor, judged: HeldOutPredictions, correlation: Correlation, seed: int
    ) -> None:
        """Put the rows together; where validation rows are judged, heads learn from the training rows ``learned``."""
        assert rows.view_inputs is not None
        self.judged, self.num_labels, self.report = judged, correlation.num_labels, rows.report
        self.correlation, self.seed = correlation, seed
        self.seen: dict[Views, Tensor] = {}
        self.evidence: dict[Views, ViewEvidence] = {}
        self.candidates: list[Correction] = []
        self._views: dict[str, tuple[View, list[Tensor]]] = {}
        if judged.split == "train":
            self._inputs = [rows.view_inputs.take(judged.rows)]
            self._label, self._fold = rows.label[judged.rows], judged.fold
        else:
            assert rows.held_out is not None and rows.held_out.view_inputs is not None
            self._inputs = [rows.view_inputs.take(learned), rows.held_out.view_inputs.take(judged.rows)]
            self._label = torch.cat([rows.label[learned], rows.held_out.label[judged.rows]])
            self._fold = torch.cat([torch.full((len(learned),), -1), judged.fold])
        self.label = self._label[self._fold >= 0]

    # -- views

    def look(self, views: Sequence[View]) -> None:
        """Look through some views; a family of several members tells as one, at most one member for each label.

        Of pairs of columns it is the one that tells most beyond its columns, if any does.
        """
        for family, group in groupby(views, key=lambda view: ViewName.of(view.name).family):
            self.report(f"looking at {family}")
            members = list(group)
            if family == "pair":
                members = self._related([view for view in members if isinstance(view, Pairs)])
            if members:
                self._look(members, choose_members=True)

    def _related(self, pairs: Sequence[Pairs]) -> list[View]:
        """Return the pair of columns that tells most of the label beyond what either tells alone, if one does."""
        label, columns = self.label.numpy(), self._inputs[-1].columns
        half = torch.randint(2, (len(label),), generator=make_generator(self.seed, "pairs")).numpy()

        def tells(cell: NDArray[Any]) -> float:
            """Return the information in the labels of rows of the same cell in the other half, drawn to all rows'."""
            seen = np.zeros((len(label), self.num_labels))
            for own in (half == 0, half == 1):
                counts = np.zeros((int(cell.max()) + 1, self.num_labels))
                np.add.at(counts, (cell[~own], label[~own]), 1)
                shares = counts.sum(axis=0) / max(1, counts.sum())
                seen[own] = ((counts + 4 * shares) / (counts.sum(axis=1, keepdims=True) + 4))[cell[own]]
            return compute_information_share(seen, label)

        part = {
            name: assign_parts(values, compute_cuts(values, Pairs.parts), Pairs.parts + 2)
            for name, values in columns.items()
        }
        alone = {name: max(0.0, tells(cell)) for name, cell in part.items()}
        beyond = []
        for a, b in (pair.columns for pair in pairs):
            cell = (part[a] * (Pairs.parts + 2) + part[b]) * (INCOMPARABLE + 1) + compare_columns(
                columns[a], columns[b]
            )
            beyond.append(tells(cell) - alone[a] - alone[b])
        best = int(np.argmax(beyond))
        return [pairs[best]] if beyond[best] > USEFUL else []

    def _features(self, views: Sequence[View]) -> list[list[Tensor]]:
        """Return the features of each part of the rows, those of each view by themselves; views are fitted once."""
        new = [view for view in views if view.name not in self._views]
        for view in new:
            view.fit(self._inputs[0])
        parts = [compute_features(new, part) for part in self._inputs] if new else []
        self._views |= {view.name: (view, list(own)) for view, own in zip(new, zip(*parts, strict=True), strict=True)}
        return [list(part) for part in zip(*(self._views[view.name][1] for view in views), strict=True)]

    def _look(self, views: Sequence[View], choose_members: bool) -> None:
        """Keep what views tell by a head on all their features, or on those of the members that tell each label."""
        label, size = self._label, self.num_labels
        of_views = [torch.cat(parts) for parts in zip(*self._features(views), strict=True)]
        of_views = [standardize(features, *torch.std_mean(features, dim=0)) for features in of_views]
        if choose_members and len(views) > 1:  # once: heads of each fold would take one of two columns by chance
            told = select_members(of_views, label, size)
            views, of_views = [views[member] for member in told], [of_views[member] for member in told]
        features, few = (
            torch.cat(of_views, dim=1),
            next((one.max_per_label for one in views if one.max_per_label is not None), None),
        )
        seen = predict_out_of_fold(make_logistic_learner(features, label, size, few), self._fold, size)[self._fold >= 0]
        breadth = max(view.breadth for view in views)
        if any(view.max_narrow_members is not None and len(views) > view.max_narrow_members for view in views):
            breadth = max(breadth, RICH)
        columns = self._inputs[-1].columns
        if len(views) > 2 and 2 * len(views) > len(columns) > 0:  # that is the table
            breadth = EVERYTHING
        names = tuple(view.name for view in views)
        self.seen[names] = seen
        self.evidence[names] = evaluate_view(names, breadth, seen, self.judged.network, self.label)

    # -- candidates

    def weigh(self) -> None:
        """Weigh the most promising views, and narrower ones that point at the same rows.

        The surest verdict comes first, of equal ones the narrowest look: of several that point at the same rows it is
        what a person would name, and all of them are evidence of one shortcut, so the surest of them counts.
        """
        for views in self.promising():
            self._weigh(views)
        for views in self._narrower():
            self._weigh(views)
        self.candidates = [self._with_common_evidence(correction) for correction in self.candidates]

        def rank(correction: Correction) -> tuple[bool, int, int, float]:
            few_rows = correction.weighed.statistics.flagged < LEAST_ROWS  # of few rows nothing can be concluded
            verdict = ("shortcut", "cannot tell", "none found").index(
                EvidenceModel.classify(correction.weighed.probability)
            )
            look = self.evidence[correction.weighed.views]
            return few_rows, verdict, look.breadth, -look.accuracy

        self.candidates.sort(key=rank)

    def _narrower(self) -> list[Views]:
        """Return views that were not weighed, narrower than a candidate and pointing at the same rows."""
        weighed = {correction.weighed.views for correction in self.candidates}
        candidates = [
            correction
            for correction in self.candidates
            if EvidenceModel.classify(correction.weighed.probability) != "none found"
        ]
        narrower = []
        for look in self.telling():
            flagged = self.seen[look.views].argmax(dim=1) != self.label
            same = [
                compute_overlap(flagged, candidate.attribute != self.label) >= SAME_ROWS
                for candidate in candidates
                if look.breadth < self.evidence[candidate.weighed.views].breadth
            ]
            if look.views not in weighed and any(same):
                narrower.append(look.views)
        return narrower

    def _with_common_evidence(self, correction: Correction) -> Correction:
        """Return a candidate with the greatest probability of it and all broader ones that point at the same rows."""
        weighed = correction.weighed
        flagged = correction.attribute != self.label
        probability = max(
            other.weighed.probability
            for other in self.candidates
            if other is correction
            or (
                self.evidence[other.weighed.views].breadth > self.evidence[weighed.views].breadth
                and other.weighed.statistics.flagged >= LEAST_ROWS
                and compute_overlap(flagged, other.attribute != self.label) >= SAME_ROWS
            )
        )
        return replace(correction, weighed=replace(weighed, probability=probability))

    def telling(self) -> list[ViewEvidence]:
        """Return the looks that tell of the label, the most telling first; all where none tells much.

        ViewEvidences that see everything and those at pairs of columns are left out; all, where few rows are judged.
        """
        narrow = [one for one in self.evidence.values() if one.breadth < EVERYTHING and not is_of_pair(one.views)]
        useful = [one for one in narrow if one.information > USEFUL] or narrow
        return sorted(useful, key=lambda one: -one.information) if len(self.label) >= MIN_HELD_OUT_ROWS else []

    def promising(self) -> list[Views]:
        """Return the views to weigh: those that say most of the label and explain most mistakes.

        They are the two that leave least of the label open, the one whose answer the network gives oftenest where both
        are wrong about the label, and a pair of columns.
        """
        network, label, telling = self.judged.network.argmax(dim=1), self.label, self.telling()

        def explains(look: ViewEvidence) -> float:
            says = self.seen[look.views].argmax(dim=1)
            mistakes = int(((says == network) & (network != label)).sum())
            return mistakes / max(1, int((says != label).sum()))

        if not telling:
            return []
        picks = [telling[0].views, max(telling, key=explains).views, *(one.views for one in telling[1:2])]
        return list(dict.fromkeys([*picks, *filter(is_of_pair, self.evidence)]))

    def _weigh(self, names: Views) -> Correction:
        """Estimate the attribute by views that were looked at, and weigh its signs."""
        self.report(f"weighing {', '.join(names)}")
        views = [self._views[name][0] for name in names]
        of_parts = self._features(views)
        learned = TrainingRows(self._label[: self._inputs[0].num_rows], view_inputs=self._inputs[0])
        features = torch.cat(of_parts[0], dim=1)
        estimate = estimate_by_heads(views, learned, self.correlation, self.seed, features=features)
        attribute, seen, kept = estimate
        if len(of_parts) > 1:
            seen = kept.of_features(torch.cat(of_parts[1], dim=1))
            attribute = select_attribute(self.correlation.posterior(seen), self.label, self.correlation, kept.odds)
        rows = self._inputs[-1]
        kind = "texts" if rows.texts else "tables" if rows.columns else "images"
        others = [one.numpy() for views, one in self.seen.items() if not {*views} & {*names}]
        if kind != "images" or (self.evidence[names].breadth < RICH and len(names) == 1):
            others = []  # a look at one thing sees no object
        label, network, alone = self.label.numpy(), self.judged.network.numpy(), self.seen[names].numpy()
        signs = compute_statistics(label, network, attribute.numpy(), alone, others)
        found = Correction(
            ScoredCandidate(names, EvidenceModel.predict_probability(signs, kind), signs), attribute, seen, estimate
        )
        self.candidates.append(found)
        return found

    # -- the verdict

    def conclude(self, correct_in_doubt: bool = False) -> Finding:
        """Draw the verdict from what was weighed, and say what is corrected by."""
        enough = len(self.label) >= MIN_HELD_OUT_ROWS
        best = next((one for one in self.candidates if one.weighed.statistics.flagged >= LEAST_ROWS), None)
        verdict = EvidenceModel.classify(best.weighed.probability) if best is not None else "none found"
        untold = self._found("cannot tell")
        leaks = [one for one in self.evidence.values() if one.may_leak(untold.majority_share)]
        if verdict == "none found" and enough and leaks:  # which must not read as if all were well
            return replace(untold, leak_views=max(leaks, key=lambda one: (one.accuracy, -one.breadth)).views)
        if best is None:
            return self._found(verdict) if self.evidence and enough else untold
        corrects = verdict == "shortcut" or (verdict == "cannot tell" and correct_in_doubt)
        return self._found(verdict, best.weighed.views, corrects)

    def conclude_user_named(self, views: Sequence[View]) -> Finding:
        """Take a person's word that these views are a shortcut."""
        few = views[0].max_per_label if views and all(view.max_per_label is not None for view in views) else None
        if few is not None and len(views) > few * self.num_labels:  # a whole family of words
            features = torch.cat(self._features(views)[0], dim=1)
            telling = select_features_by_correlation(features, self._label[: len(features)], self.num_labels, few)
            views = [views[number] for number in telling.tolist()]
        names = tuple(view.name for view in views)
        best = next((one for one in self.candidates if sorted(one.weighed.views) == sorted(names)), None)
        if best is None:
            self._look(views, choose_members=False)
            best = self._weigh(names)
        return replace(self._found("shortcut", best.weighed.views, corrects=True), user_named=True)

    def _found(self, verdict: Verdict, about: Views = (), corrects: bool = False) -> Finding:
        """Return a verdict on the candidate of some views, with all that was looked at."""
        return Finding(
            verdict,
            views=about if corrects else (),
            classifier=self.judged.who,
            num_rows=len(self.label),
            majority_share=float(self.label.bincount().max()) / len(self.label) if len(self.label) else 0.0,
            candidate_views=about,
            evidence=tuple(self.evidence.values()),
            candidates=tuple(one.weighed for one in self.candidates),
        )

    def select_words(self, name: str) -> list[str]:
        """Return the words among the terms of a view that tell most of each label; none of a view of anything else."""
        view, (features, *_) = self._views.get(name, (None, [torch.zeros(0, 0)]))
        if not isinstance(view, TermView) or not view.terms or view.name not in ("word", "opening", "closing"):
            return []
        columns = select_features_by_correlation(features, self._label[: len(features)], self.num_labels, WORDS)
        terms = [word for column in columns.tolist() for word in view.terms[column].removeprefix(EDGE_MARK).split()]
        return [word for word in dict.fromkeys(terms) if re.fullmatch(WORD_PATTERN, word)]

    def get_candidate(self, views: Sequence[str]) -> Correction | None:
        """Return the candidate of some views; None where they were not weighed."""
        return next((one for one in self.candidates if one.weighed.views == tuple(views)), None)


def compute_overlap(rows: Tensor, others: Tensor) -> float:
    """Return how far two sets of rows (m,) bool are the same: twice the rows of both over the sum of their sizes.

    >>> compute_overlap(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
    0.6666666666666666
    """
    return 2 * int((rows & others).sum()) / max(1, int(rows.sum()) + int(others.sum()))


def is_of_pair(views: Views) -> bool:
    """Return whether a look is at two columns together."""
    return ViewName.of(views[0]).family == "pair"


# -- classifiers that are given


@torch.no_grad()
def predict_held_out(run: str, info: DataInfo, rows: TrainingRows, device: torch.device) -> HeldOutPredictions:
    """Return what the network of a finished run on the same data says of all validation rows."""
    held_out = rows.held_out
    assert held_out is not None and held_out.view_inputs is not None
    network: nn.Module = import_component("network", "FromRun", NETWORKS)(info=info, run=run).eval().to(device)
    found, places = (
        compute_outputs(network, held_out.view_inputs, device).softmax(dim=1),
        torch.arange(len(held_out.label)),
    )
    return HeldOutPredictions("valid", places, found, torch.zeros_like(places), EXAMINED)


def load_class_probabilities(
    path: str, rows: TrainingRows, labels: Sequence[str], fold_of: Callable[[int], Tensor]
) -> HeldOutPredictions:
    """Return what a CSV or Parquet file says of training rows, or of validation rows if it tells of no other.

    Columns ``probability_LABEL`` (as `predict` writes them) or ``p_LABEL`` (as the audit does), one for each label, are
    what any classifier says of a row that was not trained on it. ``fold_of`` draws the folds of so many training rows.
    """
    file = RowFile(path)
    prefix = "p_" if f"p_{labels[0]}" in file.frame else "probability_"
    columns = [f"{prefix}{label}" for label in labels]
    check_column_names(list(file.frame.columns), str(file.path), columns)
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
        place = torch.zeros(0).long() if its_rows is None else file.find_positions(its_rows)
        known = (place >= 0).nonzero().squeeze(1)
        if len(known):
            fold = fold_of(len(known)) if split == "train" else torch.zeros_like(known)
            known, fold = known[fold >= 0], fold[fold >= 0]
            return HeldOutPredictions(split, known, torch.from_numpy(values).float()[place[known]], fold, EXAMINED)
    raise InputError(f"{file.path} tells of no training or validation row by its column {file.key}")
