"""Looks at held-out rows through one view after the other, the members of a family together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from logit_correction.attributes.evidence import ORDINARY, RICH, Evidence, Thresholds, conclude
from logit_correction.attributes.kept_heads import standardized
from logit_correction.attributes.linear_heads import held_out_family, held_out_logistic, telling_members
from logit_correction.attributes.signs import Signs, signs_of
from logit_correction.sentences import SAID, of_evidence
from logit_correction.types import TrainingRows
from logit_correction.views.base import View, ViewInputs, features_of


@dataclass(frozen=True)
class Sample:
    """The rows that are looked at, and what an ordinary network that did not see them says of them.

    Attributes:
        inputs: The n rows in every form, in parts one after the other; views are fitted to the first.
        label: (n,) long.
        fold: (n,) long, the fold of each row; -1 for rows that heads learn from and nobody judges.
        network: (n, L) held-out class probabilities of the ordinary network; of rows that nobody judges anything.
    """

    inputs: Sequence[ViewInputs]
    label: Tensor
    fold: Tensor
    network: Tensor

    def look(self, views: list[View], sure: float, report: Callable[[str], None]) -> Iterator[tuple[Signs, Tensor]]:
        """Yield what each view tells, families of several members as one: at most one member for each label.

        Beside the signs stand the view's own held-out class probabilities (m, L) of the m judged rows.

        Args:
            views: Not yet fitted, members of a family side by side.
            sure: Probability from which a view is sure of a label.
            report: Told what is being looked at.
        """
        for family, group in groupby(views, key=lambda view: view.name.partition(":")[0]):
            members = list(group)
            report(f"looking at {family}")
            features = self._features(members)
            if len(members) == 1:
                seen = held_out_logistic(features[0], self.label, self.fold, self._num_labels, members[0].few)
                chosen = members
            else:
                seen = held_out_family(features, self.label, self.fold, self._num_labels)
                chosen = [members[i] for i in telling_members(features, self.label, self._num_labels)]
            yield self._signs(chosen, seen, sure)

    def look_together(self, views: list[View], sure: float, report: Callable[[str], None]) -> tuple[Signs, Tensor]:
        """Return what views tell side by side, as those that a person names, and their class probabilities (m, L)."""
        report(f"looking at {', '.join(view.name for view in views)}")
        features = torch.cat(self._features(views), dim=1)
        few = next((view.few for view in views if view.few is not None), None)
        return self._signs(views, held_out_logistic(features, self.label, self.fold, self._num_labels, few), sure)

    def _signs(self, views: list[View], seen: Tensor, sure: float) -> tuple[Signs, Tensor]:
        judged = self.fold >= 0
        seen, breadth = seen[judged], max(view.breadth for view in views)
        if any(view.together is not None and len(views) > view.together for view in views):
            breadth = max(breadth, RICH)
        name, sentence = " + ".join(view.name for view in views), " and ".join(view.sentence for view in views)
        return signs_of(name, sentence, breadth, seen, self.network[judged], self.label[judged], sure), seen

    @property
    def _num_labels(self) -> int:
        return self.network.shape[1]

    def _features(self, views: Sequence[View]) -> list[Tensor]:
        for view in views:
            view.fit(self.inputs[0])
        parts = [features_of(views, part) for part in self.inputs]
        return [standardized(torch.cat(of_view)) for of_view in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Judged:
    """Rows that a search looks at, and what an ordinary classifier says of them that was not trained on them.

    Attributes:
        split: ``train`` or ``valid``.
        rows: (m,) long, counted within their split.
        network: (m, L) class probabilities.
        fold: (m,) long, 0 or more; a head predicts a fold that it did not learn from.
        who: What the classifier is called.
    """

    split: str
    rows: Tensor
    network: Tensor
    fold: Tensor
    who: str = ORDINARY


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
        """Put the rows together.

        Args:
            rows: All training rows.
            learned: (n,) long, the training rows that heads learn from where validation rows are judged.
            judged: The rows to look at.
            num_labels: L.
            thresholds: Where signs count.
        """
        assert rows.view_inputs is not None
        self.judged, self.num_labels, self.thresholds, self.report = judged, num_labels, thresholds, rows.report
        self.seen: dict[str, Tensor] = {}
        self.signs: list[Signs] = []
        if judged.split == "train":
            inputs = [rows.view_inputs.take(judged.rows)]
            self._sample = Sample(inputs, rows.label[judged.rows], judged.fold, judged.network)
            return
        held_out = rows.held_out
        assert held_out is not None and held_out.view_inputs is not None
        inputs = [rows.view_inputs.take(learned), held_out.view_inputs.take(judged.rows)]
        label = torch.cat([rows.label[learned], held_out.label[judged.rows]])
        fold = torch.cat([torch.full((len(learned),), -1), judged.fold])
        self._sample = Sample(inputs, label, fold, torch.cat([torch.zeros(len(learned), num_labels), judged.network]))

    def conclude(self, views: Sequence[View]) -> Evidence:
        """Look through all views, rich ones only where no simple one explains what was found: they take longest."""
        for is_rich in (False, True):
            if is_rich and self._conclusion().verdict == "shortcut":
                break
            chosen = [view for view in views if (view.breadth >= RICH) is is_rich]
            for sign, seen in self._sample.look(chosen, self.thresholds.sure, self.report):
                self.signs.append(sign)
                self.seen[sign.view] = seen
        return self._conclusion()

    def insist(self, views: Sequence[View]) -> Evidence:
        """Take a person's word that these views are a shortcut, and say what they tell."""
        sign, seen = self._sample.look_together(list(views), self.thresholds.sure, self.report)
        self.seen[sign.view] = seen
        self.signs = [sign, *(one for one in self.signs if one.view != sign.view)]
        told = of_evidence("follows", sign.to_dict(), self.judged.who)
        return Evidence("shortcut", sign.views, self.signs, f"{SAID}. {told}")

    def _conclusion(self) -> Evidence:
        return conclude(self.signs, self.num_labels, self.thresholds, len(self.judged.rows), self.judged.who)


def looked_at(num_rows: int, most: int, folds: int, generator: torch.Generator) -> Tensor:
    """Return the fold (N,) of each row that is looked at, -1 for the others."""
    order = torch.randperm(num_rows, generator=generator)[:most]
    fold = torch.full((num_rows,), -1, dtype=torch.long)
    fold[order] = torch.arange(len(order)) % folds
    return fold
