"""Looks at held-out rows through one view after the other, and weighs what might be corrected by."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.attributes.base import likely_attribute, outputs_of
from logit_correction.attributes.folds import held_out
from logit_correction.correlation import Correlation
from logit_correction.data.frames import RowFile, check_names
from logit_correction.errors import InputError
from logit_correction.finding import (
    BIASED,
    EVERYTHING,
    EXAMINED,
    FEWEST,
    ORDINARY,
    RICH,
    Along,
    Finding,
    Look,
    Verdict,
    ViewName,
    Weighed,
)
from logit_correction.networks import NETWORKS
from logit_correction.registry import resolve
from logit_correction.seeds import make_generator
from logit_correction.shortcuts.evidence import (
    LEAST_ROWS,
    Model,
    conflict_of,
    information,
    look_of,
    signs_of,
    told_apart,
)
from logit_correction.shortcuts.heads import (
    KeptHeads,
    estimate_by_heads,
    logistic,
    scaled,
    telling_features,
    telling_members,
)
from logit_correction.types import DataInfo, TrainingRows
from logit_correction.views.base import View, features_of
from logit_correction.views.columns import cuts_of, flags, is_numeric, missing_in, part_of
from logit_correction.views.tables import MISSING, PARTS, Inputs, Pairs, columns_of, compared
from logit_correction.views.texts import OUTERMOST, WORD, TermView, Words

#: A view is a candidate if it takes away more than this share of the label's entropy, or where none does.
USEFUL = 0.03

#: Parts that the words of texts are divided into at random, each looked at by itself.
BLOCKS = 6

#: Words of each label that are left out where a view of words is promising.
WORDS = 5

#: Names of a column that are told apart where the rest of a table is looked at.
MOST_NAMES = 30

#: A view looks at the same shortcut as another if it says the same in this share of the other's rows in conflict.
SAME = 1 / 3

#: A simple view that is right in this share of the rows, and contradicted in hardly any, may be a leak of the label.
LEAK = 0.99

#: What goes along with a biased network's attribute is named from the first share of its conflicting rows on; from the
#: second the attribute is that of a legitimate view, which errs half as often elsewhere.
ALONG, MOSTLY = 0.3, 0.5


@dataclass(frozen=True)
class Judged:
    """Rows that a search looks at, and what an ordinary classifier says of them that was not trained on them."""

    split: str  # train or valid
    rows: Tensor  # (m,) long, counted within their split
    network: Tensor  # (m, L) class probabilities
    fold: Tensor  # (m,) long, 0 or more; a head predicts a fold that it did not learn from
    who: str = ORDINARY  # what the classifier is called


#: Names of views that are looked at together.
Views: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Correction:
    """What might be corrected by: views, or what a biased network learns first.

    Attributes:
        weighed: What speaks for it.
        attribute: (m,) long, its estimate of the judged rows.
        seen: (m, L) class probabilities of the judged rows.
        estimate: Attribute and class probabilities of the rows that heads learned from, and the heads, if there are.
    """

    weighed: Weighed
    attribute: Tensor
    seen: Tensor
    estimate: tuple[Tensor, Tensor, KeptHeads] | None = None

    @property
    def views(self) -> Views:
        """Their names."""
        return self.weighed.views


class Search:
    """Looks through views at judged rows, and keeps what it saw.

    Attributes:
        judged: The rows.
        label: (m,) their labels.
        seen: Views -> (m, L) class probabilities of a head on them that was not trained on the row.
        looks: What they tell.
        corrections: What might be corrected by, the likeliest to help first.
        clear: The views of a shortcut that needs no weighing; empty without one.
        legitimate: What a person calls a legitimate cause: biased networks that see nothing else are not weighed.
    """

    def __init__(
        self,
        rows: TrainingRows,
        learned: Tensor,
        judged: Judged,
        correlation: Correlation,
        seed: int,
        info: DataInfo,
        legitimate: Sequence[View] = (),
    ) -> None:
        """Put the rows together; where validation rows are judged, heads learn from the training rows ``learned``."""
        assert rows.view_inputs is not None
        self.judged, self.num_labels, self.report = judged, correlation.num_labels, rows.report
        self.correlation, self.seed, self._info = correlation, seed, info
        self.seen: dict[Views, Tensor] = {}
        self.looks: list[Look] = []
        self.corrections: list[Correction] = []
        self.clear: Views = ()
        self.legitimate = legitimate
        self._views: dict[str, tuple[View, list[Tensor]]] = {}
        self._rest: list[Tensor] = []  # what parts of the texts say
        if judged.split == "train":
            self._inputs = [rows.view_inputs.take(judged.rows)]
            self._label, self._fold = rows.label[judged.rows], judged.fold
        else:
            assert rows.held_out is not None and rows.held_out.view_inputs is not None
            self._inputs = [rows.view_inputs.take(learned), rows.held_out.view_inputs.take(judged.rows)]
            self._label = torch.cat([rows.label[learned], rows.held_out.label[judged.rows]])
            self._fold = torch.cat([torch.full((len(learned),), -1), judged.fold])
        self.label = self._label[self._fold >= 0]
        self._half = torch.randint(2, (len(self.label),), generator=make_generator(seed, "pairs")).numpy()

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
        clear = self._clear_views()
        # Rich statistics know something of the label itself: the model must not speak against them.
        least = Model.shipped().clear["rich probability"]
        rich = any(one.breadth >= RICH and one.views == clear for one in self.looks)
        self.clear = () if rich and self._weigh(clear).weighed.probability < least else clear

    def _related(self, pairs: Sequence[Pairs]) -> list[View]:
        """Return the pair of columns that tells most of the label beyond what either tells alone, if one does."""
        part, values, alone = self._part, self._inputs[-1].columns, self._alone
        beyond = []
        for a, b in (pair.columns for pair in pairs):
            cell = (part[a] * (PARTS + 2) + part[b]) * (MISSING + 1) + compared(values[a], values[b])
            beyond.append(self._tells(cell) - alone[a] - alone[b])
        best = int(np.argmax(beyond))
        return [pairs[best]] if beyond[best] > USEFUL else []

    @cached_property
    def _part(self) -> dict[str, NDArray[Any]]:
        """The part of each column that each judged row is in."""
        columns = self._inputs[-1].columns
        return {name: part_of(values, cuts_of(values, PARTS), PARTS + 2) for name, values in columns.items()}

    @cached_property
    def _alone(self) -> dict[str, float]:
        """What the parts of each column tell of the label."""
        return {name: max(0.0, self._tells(cell)) for name, cell in self._part.items()}

    def _tells(self, cell: NDArray[Any]) -> float:
        """Return the information that the cells of the judged rows have of their labels."""
        return information(self._of_cells(cell), self.label.numpy())

    def _of_cells(self, cell: NDArray[Any]) -> NDArray[Any]:
        """Return what other rows of the same cell say of each judged row's label, (m, L)."""
        return of_cells(cell, self.label.numpy(), self._half, self.num_labels)

    def _features(self, views: Sequence[View]) -> list[list[Tensor]]:
        """Return the features of each part of the rows, those of each view by themselves; views are fitted once."""
        new = [view for view in views if view.name not in self._views]
        for view in new:
            view.fit(self._inputs[0])
        parts = [features_of(new, part) for part in self._inputs] if new else []
        self._views |= {view.name: (view, list(own)) for view, own in zip(new, zip(*parts, strict=True), strict=True)}
        return [list(part) for part in zip(*(self._views[view.name][1] for view in views), strict=True)]

    def _scaled(self, views: Sequence[View]) -> list[Tensor]:
        """Return the features of each view by themselves, of all rows and scaled."""
        of_views = [torch.cat(parts) for parts in zip(*self._features(views), strict=True)]
        return [scaled(features, *torch.std_mean(features, dim=0)) for features in of_views]

    def _look(self, views: Sequence[View], choose_members: bool) -> Look:
        """Return what views tell by a head on all their features, or on those of the members that tell each label."""
        label, size = self._label, self.num_labels
        of_views = self._scaled(views)
        if choose_members and len(views) > 1:  # once: heads of each fold would take one of two columns by chance
            told = telling_members(of_views, label, size)
            views, of_views = [views[member] for member in told], [of_views[member] for member in told]
        seen = self._by_heads(views, torch.cat(of_views, dim=1))
        breadth = max(view.breadth for view in views)
        if any(view.together is not None and len(views) > view.together for view in views):
            breadth = max(breadth, RICH)
        sentence = " and ".join(view.sentence for view in views)
        return self._told(tuple(view.name for view in views), sentence, breadth, seen)

    def _by_heads(self, views: Sequence[View], features: Tensor) -> Tensor:
        """Return what heads on the features (n, F) of views say of the judged rows, (m, L)."""
        label, size, few = self._label, self.num_labels, next((one.few for one in views if one.few is not None), None)

        def choose(rows: Tensor) -> Tensor:
            return telling_features(features[rows], label[rows], size, few)

        return held_out(logistic(features, label, size, choose), self._fold, size)[self._fold >= 0]

    def _is_legitimate(self, attribute: Tensor) -> bool:
        """Return whether an estimate (m,) mostly conflicts where a view that a person calls legitimate errs so too."""
        flagged = attribute != self.label
        for view in self.legitimate:
            said = self._by_heads([view], *self._scaled([view])).argmax(dim=1)
            same, errs = (said == attribute)[flagged].float().mean(), (said != self.label).float().mean()
            if same >= max(MOSTLY, 2 * float(errs)):
                return True
        return False

    def _told(self, views: Views, sentence: str, breadth: int, seen: Tensor) -> Look:
        self.seen[views] = seen
        self.looks = [one for one in self.looks if one.views != views]
        self.looks.append(look_of(views, sentence, breadth, seen, self.judged.network, self.label))
        return self.looks[-1]

    # -- candidates

    def weigh(self, biased: Tensor | None = None) -> None:
        """Weigh the most promising views, and what biased networks (m, L) say of the judged rows."""
        for views in [self.clear] if self.clear else self.promising():  # a clear shortcut is named whatever else is
            self._weigh(views)
        if biased is not None:
            attribute = likely_attribute(self.correlation.posterior(biased), self.label, self.correlation)
            if not self._is_legitimate(attribute):
                self._judge((BIASED,), attribute, biased, None)

        def rank(one: Correction) -> tuple[bool, bool, float]:
            few = one.weighed.signs.flagged < LEAST_ROWS  # of which nothing can be concluded
            return few, not one.weighed.clear, -one.weighed.probability

        self.corrections.sort(key=rank)

    @property
    def _narrow(self) -> list[Look]:
        """The looks that do not see everything, without those at pairs of columns; none where few rows are judged."""
        if len(self.label) < FEWEST:
            return []
        return [one for one in self.looks if one.breadth < EVERYTHING and not is_of_pair(one)]

    def telling(self) -> list[Look]:
        """Return the narrow looks that tell of the label, the most telling first; all where none tells much."""
        useful = [one for one in self._narrow if one.information > USEFUL] or self._narrow
        return sorted(useful, key=lambda one: -one.information)

    def promising(self) -> list[Views]:
        """Return the views to weigh: those that say most of the label and explain most mistakes.

        They are a clear shortcut, the two that leave least of the label open, the one whose answer the network gives
        oftenest where both are wrong about the label, and a pair of columns.
        """
        network, label, telling = self.judged.network.argmax(dim=1), self.label, self.telling()

        def explains(look: Look) -> float:
            says = self.seen[look.views].argmax(dim=1)
            mistakes = int(((says == network) & (network != label)).sum())
            return mistakes / max(1, int((says != label).sum()))

        if not telling:
            return []
        picks = [self.clear] if self.clear else []
        picks += [telling[0].views, max(telling, key=explains).views, *(one.views for one in telling[1:2])]
        return list(dict.fromkeys([*picks, *(one.views for one in self.looks if is_of_pair(one))]))

    def _clear_views(self) -> Views:
        """Return the views of a shortcut without more ado, if there is one: of several a simple one if possible.

        Where another simple view often says the same of the rows in conflict and is right more often, it looks at the
        same shortcut better, and is returned though the network may follow it a little less.
        """
        model, network, label = Model.shipped(), self.judged.network, self.label

        def is_clear(look: Look) -> bool:
            seen = self.seen[look.views]
            errs = float((network.argmax(dim=1) != label)[seen.argmax(dim=1) == label].float().mean())
            excess = (look.follows_view or 0.0) - errs
            return model.is_clear(look, told_apart(seen, network, label), excess, self.num_labels)

        found = [one for one in self._narrow if is_clear(one)]
        found.sort(key=lambda one: (one.breadth < RICH, len(one.views) == 1, one.accuracy))
        if not found:
            return ()
        says, conflict = conflict_of(self.seen[found[-1].views], label)

        def looks_at_it(look: Look) -> bool:
            same = self.seen[look.views].argmax(dim=1) == says
            simple = look.breadth <= max(found[-1].breadth, RICH - 1) and len(look.views) == 1
            return simple and float(same[conflict].float().mean()) >= SAME

        return max([found[-1], *filter(looks_at_it, self._narrow)], key=lambda one: one.accuracy).views

    def _weigh(self, names: Views) -> Correction:
        """Estimate the attribute by views that were looked at, and weigh its signs."""
        if (known := self.correction_by(names)) is not None:  # what else was looked at since then may speak against it
            return self._judge(names, known.attribute, known.seen, known.estimate)
        self.report(f"weighing {', '.join(names)}")
        views = [self._views[name][0] for name in names]
        of_parts = self._features(views)
        learned = TrainingRows(self._label[: self._inputs[0].num_rows], view_inputs=self._inputs[0])
        features = torch.cat(of_parts[0], dim=1)
        estimate = estimate_by_heads(views, learned, self.correlation, self.seed, features=features)
        attribute, seen, kept = estimate
        if len(of_parts) > 1:
            seen = kept.of_features(torch.cat(of_parts[1], dim=1))
            attribute = likely_attribute(self.correlation.posterior(seen), self.label, self.correlation, kept.odds)
        return self._judge(names, attribute, seen, estimate)

    def _judge(
        self, views: Views, attribute: Tensor, seen: Tensor, estimate: tuple[Tensor, Tensor, KeptHeads] | None
    ) -> Correction:
        alone = self.seen.get(views, seen)
        others = {key: one for key, one in self.seen.items() if not {*key} & {*views}}
        looks = [one.numpy() for one in others.values()], [one.numpy() for one in self._rest_of(views, attribute)]
        network = self.judged.network.numpy()
        signs = signs_of(self.label.numpy(), network, attribute.numpy(), alone.numpy(), *looks)
        clear, model = self.clear == views, Model.shipped()
        weighed = Weighed(
            views=views,
            probability=model.judge(signs, self._part_of(views), clear),
            clear=clear,
            may_be_wrong_labels=model.may_be_wrong_labels(signs),
            signs=signs,
        )
        if views == (BIASED,):
            flagged = attribute != self.label
            same = {key: (one.argmax(dim=1) == attribute)[flagged] for key, one in others.items()}
            along = [Along(key, float(rows.float().mean())) for key, rows in same.items()]
            along = sorted((one for one in along if one.share >= ALONG), key=lambda one: -one.share)[:3]
            weighed = replace(weighed, along=tuple(along))
        found = Correction(weighed, attribute, seen, estimate)
        self.corrections = [one for one in self.corrections if one.views != views] + [found]
        return found

    def _part_of(self, views: Views) -> str:
        """Return by which weights of the model a candidate is judged."""
        looked = self._inputs[-1]
        return BIASED if views == (BIASED,) else "texts" if looked.texts else "tables" if looked.columns else "images"

    def _rest_of(self, views: Sequence[str], attribute: Tensor) -> list[Tensor]:
        """Return what the rest of a table beside the candidate's columns says (m, L), or parts of the texts."""
        columns, texts = self._inputs[-1].columns, self._inputs[-1].texts
        judged = self.judged.fold if len(self.judged.fold.unique()) > 1 else torch.arange(len(self.label)) % 2

        def told(features: Tensor) -> Tensor:
            return held_out(logistic(features, self.label, self.num_labels), judged, self.num_labels)

        if columns and texts is None:
            parts = {name: column_features(values) for name, values in columns.items()}
            looked_at = columns_of(views, parts) or [told_by(parts, attribute)]
            rest = [part for name, part in parts.items() if name not in looked_at]
            return [told(torch.cat(rest, dim=1))] if rest else []
        if texts is not None and not self._rest:
            self.report("looking at parts of the texts")
            words = Inputs() if self._info.words else Words()
            words.fit(self._inputs[-1])
            features = words.features(self._inputs[-1])
            order = torch.randperm(features.shape[1], generator=make_generator(self.seed, "words"))
            self._rest = [told(features[:, block]) for block in order.chunk(BLOCKS)]
        return self._rest

    # -- the verdict

    def conclude(self, when_unsure: Literal["correct", "leave"] | None = None) -> Finding:
        """Draw the verdict from what was weighed."""
        model, enough = Model.shipped(), len(self.label) >= FEWEST
        best = next((one for one in self.corrections if one.weighed.signs.flagged >= LEAST_ROWS), None)
        verdict = model.verdict_of(best.weighed.probability) if best is not None else "none found"
        if verdict == "none found" and enough:
            leak = [one for one in self.looks if one.breadth < RICH and one.accuracy >= LEAK and one.rows < LEAST_ROWS]
            if leak:  # nothing was found since no row can show it, which must not read as if all were well
                return self._found("cannot tell", leak=max(leak, key=lambda one: (one.accuracy, -one.breadth)).views)
        if best is None:
            return self._found(verdict if self.looks and enough else "cannot tell")
        in_doubt = verdict == "cannot tell" and (when_unsure or model.when_unsure) == "correct"
        return self._about(best, verdict, corrects=verdict == "shortcut" or in_doubt)

    def take_word(self, views: Sequence[View]) -> Finding:
        """Take a person's word that these views, or none for the biased network's, are a shortcut."""
        few = views[0].few if views and all(view.few is not None for view in views) else None
        if few is not None and len(views) > few * self.num_labels:  # a whole family of words
            features = torch.cat(self._features(views)[0], dim=1)
            telling = telling_features(features, self._label[: len(features)], self.num_labels, few)
            views = [views[number] for number in telling.tolist()]
        names = tuple(view.name for view in views) or (BIASED,)
        best = next((one for one in self.corrections if sorted(one.views) == sorted(names)), None)
        if best is None:
            self._look(views, choose_members=False)
            self.clear = self._clear_views()
            best = self._weigh(names)
        return self._about(best, "shortcut", corrects=True, named=True)

    def _about(self, best: Correction, verdict: Verdict, corrects: bool, named: bool = False) -> Finding:
        """Return a verdict on a candidate."""
        seen, network = self.seen_by(best), self.judged.network
        found = self._found(verdict, about=best.views, named=named)
        if not corrects:
            return found
        return replace(found, views=best.views, apart=told_apart(seen, network, self.label))

    def _found(self, verdict: Verdict, about: Views = (), leak: Views = (), named: bool = False) -> Finding:
        return Finding(
            verdict,
            named=named,
            legitimate=tuple(view.name for view in self.legitimate),
            who=self.judged.who,
            judged=len(self.label),
            about=about,
            leak=leak,
            looks=tuple(self.looks),
            candidates=tuple(one.weighed for one in self.corrections),
        )

    def telling_words(self, name: str) -> list[str]:
        """Return the words among the terms of a view that tell most of each label; none of a view of anything else."""
        view, (features, *_) = self._views.get(name, (None, [torch.zeros(0, 0)]))
        if not isinstance(view, TermView) or not view.terms or view.name not in ("word", "opening", "closing"):
            return []
        columns = telling_features(features, self._label[: len(features)], self.num_labels, WORDS)
        terms = [word for column in columns.tolist() for word in view.terms[column].removeprefix(OUTERMOST).split()]
        return [word for word in dict.fromkeys(terms) if re.fullmatch(WORD, word)]

    def seen_by(self, correction: Correction) -> Tensor:
        """Return what the views of a candidate say of the judged rows, (m, L)."""
        return self.seen[self.look_of(correction).views]

    def correction_by(self, views: Sequence[str]) -> Correction | None:
        """Return the candidate of some views; None where they were not weighed."""
        return next((one for one in self.corrections if one.views == tuple(views)), None)

    def look_of(self, correction: Correction) -> Look:
        """Return what the views of a candidate tell."""
        known = next((one for one in self.looks if one.views == correction.views), None)
        of_all = "what a network learns first of the whole input"
        return known or self._told(correction.views, of_all, RICH, correction.seen)


def is_of_pair(look: Look) -> bool:
    """Return whether a look is at two columns together."""
    return ViewName.of(look.views[0]).family == "pair"


def of_cells(cell: NDArray[Any], label: NDArray[Any], half: NDArray[Any], num_labels: int) -> NDArray[Any]:
    """Return the shares (n, L) of labels among the rows of the same cell in the other half, drawn to those of all."""
    found = np.zeros((len(label), num_labels))
    for own in (half == 0, half == 1):
        counts = np.zeros((int(cell.max()) + 1, num_labels))
        np.add.at(counts, (cell[~own], label[~own]), 1)
        shares = counts.sum(axis=0) / max(1, counts.sum())
        found[own] = ((counts + 4 * shares) / (counts.sum(axis=1, keepdims=True) + 4))[cell[own]]
    return found


def column_features(values: NDArray[Any]) -> Tensor:
    """Return what a linear head sees of a column of a table, (n, F): a number and its square, or its common names."""
    missing = torch.from_numpy(missing_in(values))
    if is_numeric(values):
        number = torch.from_numpy(values.astype(np.float32))
        known = number[~missing]
        number = ((number - known.mean()) / (known.std() + 1e-6)).masked_fill(missing, 0).nan_to_num().clamp(-5, 5)
        return torch.stack([number, number.square() / 3, missing.float()], dim=1)
    names = cuts_of(values, MOST_NAMES)
    return torch.cat([torch.from_numpy(flags(part_of(values, names), len(names))), missing[:, None].float()], dim=1)


def told_by(columns: dict[str, Tensor], attribute: Tensor) -> str:
    """Return the column of a table that tells an attribute best, by least squares."""
    target = torch.nn.functional.one_hot(attribute).float()

    def left(values: Tensor) -> float:
        seen = torch.cat([values, torch.ones(len(values), 1)], dim=1)
        return float((target - seen @ torch.linalg.lstsq(seen, target, driver="gelsd").solution).square().sum())

    return min(columns, key=lambda name: left(columns[name]))


# -- classifiers that are given


def judged_by_run(run: str, info: DataInfo, rows: TrainingRows) -> Callable[[torch.device], Judged]:
    """Return what asks, on a device, the network of a finished run on the same data about all validation rows."""
    network: nn.Module = resolve("network", "FromRun", NETWORKS)(info=info, run=run).requires_grad_(False)

    def judge(device: torch.device) -> Judged:
        assert rows.view_inputs is not None
        places = torch.arange(len(rows.label))
        found = outputs_of(network.eval().to(device), rows.view_inputs, device).softmax(dim=1)
        return Judged("valid", places, found, torch.zeros_like(places), EXAMINED)

    return judge


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
