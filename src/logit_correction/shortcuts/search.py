"""The search for a shortcut: probes on views, candidates to correct by, and the verdict.

A shortcut is a simple feature that predicts the label in the training data by accident, and that a network therefore
relies on. The search trains a *probe*, a linear head, on each view, which keeps one kind of simple feature. It predicts
held-out rows by the probe and compares with the held-out predictions of a network. Where the probe is sure of another
label than the row's, a network that relies on the view follows it. Promising views become *candidates*: each estimates
the attribute that LC would correct by, and a model of four statistics gives the probability that this helps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from logit_correction.attributes.folds import predict_out_of_fold
from logit_correction.finding import (
    MIN_HELD_OUT_ROWS,
    Finding,
    ScoredCandidate,
    Verdict,
    ViewEvidence,
)
from logit_correction.seeds import make_generator
from logit_correction.shortcuts.evidence import (
    MIN_FLAGGED_ROWS,
    EvidenceModel,
    compute_information_share,
    compute_statistics,
    evaluate_view,
)
from logit_correction.shortcuts.heads import (
    FittedHeads,
    ShortcutPrediction,
    estimate_by_heads,
    fit_logistic_head,
    get_max_features_per_label,
    select_features_by_correlation,
    select_most_predictive_members,
    standardize,
)
from logit_correction.shortcuts.held_out import HeldOutPredictions
from logit_correction.types import Array, TrainingRows, ViewInputs
from logit_correction.view_names import EVERYTHING, RICH, ViewName
from logit_correction.views.base import View, compute_features
from logit_correction.views.tables import INCOMPARABLE, Pairs, assign_bins, compare_column_values, compute_bins
from logit_correction.views.texts import EDGE_MARK, WORD_PATTERN, TermView

#: Share of the label's entropy that a probe must remove for its view to be a candidate, where any probe does.
MIN_USEFUL_INFORMATION = 0.03

#: Two candidates flag the same rows if the Dice coefficient of the rows that they flag is at least this.
MIN_SAME_ROWS = 0.5

#: Words of each label that are hidden from ERM where a view of words is promising.
MAX_WORDS_PER_LABEL = 5

#: Rows of a cell by which the label shares of a pair of columns are shrunk towards those of all rows.
CELL_PRIOR_ROWS = 4

#: Verdicts, the surest first.
VERDICT_ORDER: tuple[Verdict, ...] = ("shortcut", "cannot tell", "none found")

#: Names of views that one probe sees together.
Views: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class EstimatedCandidate:
    """A candidate to correct by, with its estimates of the attribute.

    Attributes:
        scored: Its views, statistics and probability of helping.
        held_out: What its heads predict of the held-out rows.
        learned: The same of the rows that they were trained on, each by heads that were not trained on it.
        heads: For other rows.
    """

    scored: ScoredCandidate
    held_out: ShortcutPrediction
    learned: ShortcutPrediction
    heads: FittedHeads

    @property
    def views(self) -> Views:
        return self.scored.views

    @property
    def verdict(self) -> Verdict:
        return EvidenceModel.classify(self.scored.probability)

    @property
    def has_enough_rows(self) -> bool:
        """Whether it flags enough rows to conclude anything."""
        return self.scored.statistics.flagged >= MIN_FLAGGED_ROWS


class Search:
    """Evaluates views on held-out rows, scores candidates, and draws the verdict.

    Attributes:
        held_out: The rows, and the predictions of the classifier that is examined.
        label: (m,) labels of these rows.
        predictions: Views -> (m, L) class probabilities by a probe that was not trained on the row.
        evidence: Views -> what the probe shows.
        fitted_views: Name -> view, of all that were evaluated, fitted to the rows that probes learn from.
        candidates: What might be corrected by, the surest first.
    """

    def __init__(
        self, rows: TrainingRows, learned: Tensor, held_out: HeldOutPredictions, num_labels: int, seed: int
    ) -> None:
        """Collect inputs and labels.

        Args:
            rows: The training rows, and the validation rows as ``held_out``.
            learned: Positions of the training rows that probes learn from if validation rows are examined.
            held_out: Predictions of the classifier.
            num_labels: L.
            seed: Of heads and folds.
        """
        self.held_out = held_out
        self.num_labels = num_labels
        self.report = rows.report
        self.seed = seed
        self.predictions: dict[Views, Tensor] = {}
        self.evidence: dict[Views, ViewEvidence] = {}
        self.candidates: list[EstimatedCandidate] = []
        self.fitted_views: dict[str, View] = {}
        self._features: dict[str, Tensor] = {}  # name of a view -> (N, F) of all rows, in the order of ``_label``
        parts: list[tuple[Any, Tensor]] = [(rows, held_out.rows)]
        if held_out.split == "valid":
            parts = [(rows, learned), (rows.held_out, held_out.rows)]
        self._inputs: list[ViewInputs] = [part.view_inputs.take(indices) for part, indices in parts]
        self._label = torch.cat([part.label[indices] for part, indices in parts])
        self._learned_unit = None if rows.unit is None else rows.unit[parts[0][1]]
        self._fold = torch.full_like(self._label, -1)
        self._fold[len(self._fold) - len(held_out.fold) :] = held_out.fold
        self.label = self._label[self._fold >= 0]

    # -- views

    def evaluate_views(self, views: Sequence[View]) -> None:
        """Evaluate views by probes, one for each family: on all its members, or on the best one for each label.

        Of pairs of columns, only the best one is evaluated, if it adds anything to its columns.
        """
        for family, group in groupby(views, key=lambda view: ViewName.parse(view.name).family):
            self.report(f"evaluating {family}")
            members = list(group)
            if family == "pair":
                members = self._select_pair([view for view in members if isinstance(view, Pairs)])
            if members:
                self.fit_joint_probe(members, choose_members=True)

    def _select_pair(self, pairs: Sequence[Pairs]) -> list[View]:
        """Return the pair of columns with most information beyond that of each column, if it has enough."""
        columns = self._inputs[-1].columns
        num_bins = Pairs.column_bins + 2
        bins = {
            name: assign_bins(values, compute_bins(values, Pairs.column_bins), num_bins)
            for name, values in columns.items()
        }
        information = {name: max(0.0, self._compute_cell_information(cell)) for name, cell in bins.items()}
        gains = []
        for first, second in (pair.columns for pair in pairs):
            relation = compare_column_values(columns[first], columns[second])
            cell = (bins[first] * num_bins + bins[second]) * (INCOMPARABLE + 1) + relation
            gains.append(self._compute_cell_information(cell) - information[first] - information[second])
        best = int(np.argmax(gains))
        return [pairs[best]] if gains[best] > MIN_USEFUL_INFORMATION else []

    def _compute_cell_information(self, cell: Array) -> float:
        """Return the information about a row's label in the labels of rows of the same cell in the other half."""
        label = self.label.numpy()
        half = torch.randint(2, (len(label),), generator=make_generator(self.seed, "pairs")).numpy()
        probability = np.zeros((len(label), self.num_labels))
        for is_predicted in (half == 0, half == 1):
            counts = np.zeros((int(cell.max()) + 1, self.num_labels))
            np.add.at(counts, (cell[~is_predicted], label[~is_predicted]), 1)
            prior = CELL_PRIOR_ROWS * counts.sum(axis=0) / max(1, counts.sum())
            shares = (counts + prior) / (counts.sum(axis=1, keepdims=True) + CELL_PRIOR_ROWS)
            probability[is_predicted] = shares[cell[is_predicted]]
        return compute_information_share(probability, label)

    def _compute_features(self, views: Sequence[View]) -> list[Tensor]:
        """Return the features (N, F) of all rows by each view; each view is fitted once."""
        new_views = [view for view in views if view.name not in self._features]
        for view in new_views:
            view.fit(self._inputs[0])
        parts = [compute_features(new_views, inputs) for inputs in self._inputs]
        for view, *features in zip(new_views, *parts, strict=True):
            self.fitted_views[view.name] = view
            self._features[view.name] = torch.cat(features)
        return [self._features[view.name] for view in views]

    def fit_joint_probe(self, views: Sequence[View], choose_members: bool) -> None:
        """Fit one probe on the features of views, and keep its held-out predictions and what they show.

        Args:
            views: All or some members of a family.
            choose_members: Use only the members that predict a label best, at most one for each label.
        """
        members = [standardize(part, *torch.std_mean(part, dim=0)) for part in self._compute_features(views)]
        if choose_members and len(views) > 1:  # for all folds: each fold would take one of two columns by chance
            chosen = select_most_predictive_members(members, self._label, self.num_labels)
            views = [views[number] for number in chosen]
            members = [members[number] for number in chosen]
        features = torch.cat(members, dim=1)
        max_per_label = get_max_features_per_label(views)

        def fit_and_predict(learned: Tensor, left_out: Tensor, fold: int) -> Tensor:
            head = fit_logistic_head(features[learned], self._label[learned], self.num_labels, max_per_label)
            return head(features[left_out])

        predictions = predict_out_of_fold(fit_and_predict, self._fold, self.num_labels)[self._fold >= 0]
        names = tuple(view.name for view in views)
        breadth = self._compute_breadth(views)
        self.predictions[names] = predictions
        self.evidence[names] = evaluate_view(names, breadth, predictions, self.held_out.network, self.label)

    def _compute_breadth(self, views: Sequence[View]) -> int:
        columns = self._inputs[-1].columns
        if len(views) > 2 and 2 * len(views) > len(columns) > 0:  # most columns are as good as the whole table
            return EVERYTHING
        breadth = max(view.breadth for view in views)
        limits = [view.max_narrow_members for view in views if view.max_narrow_members is not None]
        if limits and len(views) > 2 * min(limits):
            return EVERYTHING
        if limits and len(views) > min(limits):
            return max(breadth, RICH)
        return breadth

    # -- candidates

    def score_candidates(self) -> None:
        """Score the most promising views, and narrower ones that flag the same rows.

        The surest verdict comes first, of equal ones the narrowest views: of several that flag the same rows they are
        what a person would name. All of them are evidence of one shortcut, so the largest probability of them counts.
        """
        for views in self.select_promising_views():
            self._score_candidate(views)
        for views in self._list_narrower_views():
            self._score_candidate(views)
        candidates = [self._take_max_probability_of_broader_candidates(candidate) for candidate in self.candidates]

        def rank(candidate: EstimatedCandidate) -> tuple[bool, int, int, float]:
            evidence = self.evidence[candidate.views]
            verdict = VERDICT_ORDER.index(candidate.verdict)
            return not candidate.has_enough_rows, verdict, evidence.breadth, -evidence.accuracy

        self.candidates = sorted(candidates, key=rank)

    def _list_narrower_views(self) -> list[Views]:
        """Return views without a score that are narrower than a candidate and flag the same rows."""
        scored = {candidate.views for candidate in self.candidates}
        narrower = []
        for evidence in self.rank_informative_views():
            flagged = self.predictions[evidence.views].argmax(dim=1) != self.label
            is_narrower = any(
                self._flags_same_rows(candidate, flagged)
                for candidate in self.candidates
                if candidate.verdict != "none found" and evidence.breadth < self.evidence[candidate.views].breadth
            )
            if is_narrower and evidence.views not in scored:
                narrower.append(evidence.views)
        return narrower

    def _take_max_probability_of_broader_candidates(self, candidate: EstimatedCandidate) -> EstimatedCandidate:
        """Give a candidate the largest probability of itself and of all broader ones that flag the same rows."""
        flagged = candidate.held_out.attribute != self.label
        breadth = self.evidence[candidate.views].breadth
        broader = [
            other.scored.probability
            for other in self.candidates
            if self.evidence[other.views].breadth > breadth
            and other.has_enough_rows
            and self._flags_same_rows(other, flagged)
        ]
        probability = max([candidate.scored.probability, *broader])
        return replace(candidate, scored=replace(candidate.scored, probability=probability))

    def _flags_same_rows(self, candidate: EstimatedCandidate, is_flagged: Tensor) -> bool:
        return compute_dice(candidate.held_out.attribute != self.label, is_flagged) >= MIN_SAME_ROWS

    def rank_informative_views(self) -> list[ViewEvidence]:
        """Return the evidence of views that are informative about the label, the most informative first.

        All are returned if none is informative. Views that see everything and pairs of columns are left out, and all
        of them if there are few held-out rows.
        """
        if len(self.label) < MIN_HELD_OUT_ROWS:
            return []
        narrow = [
            evidence
            for evidence in self.evidence.values()
            if evidence.breadth < EVERYTHING and not is_pair_view(evidence.views)
        ]
        useful = [evidence for evidence in narrow if evidence.information > MIN_USEFUL_INFORMATION]
        return sorted(useful or narrow, key=lambda evidence: -evidence.information)

    def select_promising_views(self) -> list[Views]:
        """Return the views to score.

        They are the two most informative ones, the one that explains the network's errors best, and a pair of columns.
        """
        informative = self.rank_informative_views()
        if not informative:
            return []
        network = self.held_out.network.argmax(dim=1)

        def explain_errors(evidence: ViewEvidence) -> float:
            """Return the share of the probe's errors that the network makes too."""
            predicted = self.predictions[evidence.views].argmax(dim=1)
            shared_errors = int(((predicted == network) & (network != self.label)).sum())
            return shared_errors / max(1, int((predicted != self.label).sum()))

        best = [informative[0], max(informative, key=explain_errors), *informative[1:2]]
        pairs = filter(is_pair_view, self.evidence)
        return list(dict.fromkeys([*(evidence.views for evidence in best), *pairs]))

    def _score_candidate(self, names: Views) -> EstimatedCandidate:
        """Estimate the attribute by views that were evaluated, and score it by its statistics."""
        self.report(f"scoring {', '.join(names)}")
        views = [self.fitted_views[name] for name in names]
        features = torch.cat([self._features[name] for name in names], dim=1)
        num_learned = self._inputs[0].num_rows
        learned = TrainingRows(self._label[:num_learned], view_inputs=self._inputs[0], unit=self._learned_unit)
        estimate, heads = estimate_by_heads(views, learned, self.num_labels, self.seed, features[:num_learned])
        held_out = estimate
        if len(self._inputs) > 1:
            held_out = heads.predict(self.label, features[num_learned:])
        rows = self._inputs[-1]
        kind = "texts" if rows.texts else "tables" if rows.columns else "images"
        # A single narrow view sees one thing, not the object: other views are then no measure of what is typical.
        sees_object = kind == "images" and (self.evidence[names].breadth >= RICH or len(names) > 1)
        others = [
            predictions.numpy()
            for other_names, predictions in self.predictions.items()
            if sees_object and not {*other_names} & {*names}
        ]
        statistics = compute_statistics(
            self.label.numpy(),
            self.held_out.network.numpy(),
            held_out.attribute.numpy(),
            self.predictions[names].numpy(),
            others,
        )
        probability = EvidenceModel.predict_probability(statistics, kind)
        scored = ScoredCandidate(names, probability, statistics)
        candidate = EstimatedCandidate(scored, held_out, estimate, heads)
        self.candidates.append(candidate)
        return candidate

    def get_candidate(self, views: Sequence[str]) -> EstimatedCandidate | None:
        """Return the candidate of some views, in any order; None if they were not scored."""
        return next((candidate for candidate in self.candidates if {*candidate.views} == {*views}), None)

    # -- verdict

    def conclude(self, correct_if_unsure: bool = False) -> Finding:
        """Return the verdict on the best candidate, and whether to correct by it.

        The verdict is ``shortcut`` only where a person names one: training data cannot show what is an accident. A
        likely candidate is corrected by all the same, on few conflicting rows too: where 30 were required, of 395 drawn
        sets 34 instead of 48 % of the gain would be won, and no harm avoided (``lab/results/evidence``).

        Args:
            correct_if_unsure: Correct by the best candidate also if it is less likely.
        """
        has_enough_rows = len(self.label) >= MIN_HELD_OUT_ROWS
        best = next((candidate for candidate in self.candidates if candidate.has_enough_rows), None)
        verdict = "none found" if best is None else best.verdict
        unsure = self._make_finding("cannot tell")
        leaks = [evidence for evidence in self.evidence.values() if evidence.may_leak(unsure.majority_share)]
        if verdict == "none found" and has_enough_rows and leaks:  # which must not read as if all were well
            leak = max(leaks, key=lambda evidence: (evidence.accuracy, -evidence.breadth))
            return replace(unsure, leak_views=leak.views)
        if best is None:
            return self._make_finding("none found") if self.evidence and has_enough_rows else unsure
        if verdict == "none found":
            return self._make_finding(verdict, best.views)
        return self._make_finding("cannot tell", best.views, corrects=verdict == "shortcut" or correct_if_unsure)

    def conclude_user_named(self, views: Sequence[View]) -> Finding:
        """Return the finding that views which the user named are a shortcut."""
        limits = [view.max_per_label for view in views]
        max_per_label = None if None in limits else limits[0]
        if max_per_label is not None and len(views) > max_per_label * self.num_labels:  # a whole family of words
            columns = self._select_features(torch.cat(self._compute_features(views), dim=1), max_per_label)
            views = [views[column] for column in columns]
        names = tuple(view.name for view in views)
        best = self.get_candidate(names)
        if best is None:
            self.fit_joint_probe(views, choose_members=False)
            best = self._score_candidate(names)
        return replace(self._make_finding("shortcut", best.views, corrects=True), user_named=True)

    def _make_finding(self, verdict: Verdict, views: Views = (), corrects: bool = False) -> Finding:
        """Return a verdict on the candidate of some views, with all evidence."""
        num_rows = len(self.label)
        return Finding(
            verdict,
            views=views if corrects else (),
            classifier=self.held_out.classifier,
            num_rows=num_rows,
            majority_share=float(self.label.bincount().max()) / num_rows if num_rows else 0.0,
            candidate_views=views,
            evidence=tuple(self.evidence.values()),
            candidates=tuple(candidate.scored for candidate in self.candidates),
        )

    def select_words(self, view_name: str) -> list[str]:
        """Return the words that correlate most with each label among the terms of a view; none of other views."""
        view = self.fitted_views.get(view_name)
        if not isinstance(view, TermView) or not view.terms or view_name not in ("word", "opening", "closing"):
            return []
        columns = self._select_features(self._features[view_name], MAX_WORDS_PER_LABEL)
        words = [word for column in columns for word in view.terms[column].removeprefix(EDGE_MARK).split()]
        return [word for word in dict.fromkeys(words) if re.fullmatch(WORD_PATTERN, word)]

    def _select_features(self, features: Tensor, max_per_label: int) -> list[int]:
        """Return the columns of the features (N, F) that correlate most with each label where probes learn."""
        num_learned = self._inputs[0].num_rows
        label = self._label[:num_learned]
        return select_features_by_correlation(features[:num_learned], label, self.num_labels, max_per_label).tolist()


def compute_dice(is_flagged: Tensor, is_other_flagged: Tensor) -> float:
    """Return the Dice coefficient of two sets of rows (m,) bool: twice the rows of both over the sum of their sizes.

    >>> compute_dice(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
    0.6666666666666666
    """
    return 2 * int((is_flagged & is_other_flagged).sum()) / max(1, int(is_flagged.sum()) + int(is_other_flagged.sum()))


def is_pair_view(views: Views) -> bool:
    """Return whether a probe sees the relation of two columns."""
    return ViewName.parse(views[0]).family == "pair"
