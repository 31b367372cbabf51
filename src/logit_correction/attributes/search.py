"""Looks at held-out rows through one view after the other, the members of a family together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from logit_correction.attributes.evidence import Signs, signs_of
from logit_correction.attributes.heads import held_out_family, held_out_logistic, standardized, telling_members
from logit_correction.views.base import View, ViewInputs


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
            features = [self._features(view) for view in members]
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
        features = torch.cat([self._features(view) for view in views], dim=1)
        few = next((view.few for view in views if view.few is not None), None)
        return self._signs(views, held_out_logistic(features, self.label, self.fold, self._num_labels, few), sure)

    def _signs(self, views: list[View], seen: Tensor, sure: float) -> tuple[Signs, Tensor]:
        judged = self.fold >= 0
        seen, breadth = seen[judged], max(view.breadth for view in views)
        name, sentence = " + ".join(view.name for view in views), " and ".join(view.sentence for view in views)
        return signs_of(name, sentence, breadth, seen, self.network[judged], self.label[judged], sure), seen

    @property
    def _num_labels(self) -> int:
        return self.network.shape[1]

    def _features(self, view: View) -> Tensor:
        view.fit(self.inputs[0])
        return standardized(torch.cat([view.features(part) for part in self.inputs]))


@dataclass(frozen=True)
class Findings:
    """What a search saw of the rows, for those who want to look at them one by one, such as an audit.

    Attributes:
        split: ``train`` or ``valid``, the split of the judged rows.
        rows: (m,) long, the judged rows, counted within their split.
        network: (m, L) class probabilities of an ordinary network that was not trained on them.
        seen: View -> (m, L) class probabilities of a head on it that was not trained on them.
        likely: (N, L) class probabilities of the heads that estimated the attribute of all training rows, none of which
            was trained on the row; None where nothing was estimated.
    """

    split: str
    rows: Tensor
    network: Tensor
    seen: Mapping[str, Tensor]
    likely: Tensor | None = None


def looked_at(num_rows: int, most: int, folds: int, generator: torch.Generator) -> Tensor:
    """Return the fold (N,) of each row that is looked at, -1 for the others."""
    order = torch.randperm(num_rows, generator=generator)[:most]
    fold = torch.full((num_rows,), -1, dtype=torch.long)
    fold[order] = torch.arange(len(order)) % folds
    return fold
