"""Looks at held-out rows through one view after the other, the members of a family together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from logit_correction.attributes.evidence import Signs, signs_of
from logit_correction.attributes.heads import held_out_family, held_out_logistic, telling_members
from logit_correction.attributes.kept_heads import standardized
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

    def look(self, views: list[View], sure: float, report: Callable[[str], None]) -> Iterator[Signs]:
        """Yield what each view tells, families of several members as one: at most one member for each label.

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
            judged = self.fold >= 0
            seen, network, label = seen[judged], self.network[judged], self.label[judged]
            yield replace(
                signs_of(chosen[0].name, chosen[0].sentence, chosen[0].breadth, seen, network, label, sure),
                view=" + ".join(view.name for view in chosen),
                sentence=" and ".join(view.sentence for view in chosen),
            )

    @property
    def _num_labels(self) -> int:
        return self.network.shape[1]

    def _features(self, view: View) -> Tensor:
        view.fit(self.inputs[0])
        return standardized(torch.cat([view.features(part) for part in self.inputs]))


def looked_at(num_rows: int, most: int, folds: int, generator: torch.Generator) -> Tensor:
    """Return the fold (N,) of each row that is looked at, -1 for the others."""
    order = torch.randperm(num_rows, generator=generator)[:most]
    fold = torch.full((num_rows,), -1, dtype=torch.long)
    fold[order] = torch.arange(len(order)) % folds
    return fold
