"""What one view tells of a shortcut: its held-out predictions beside those of the whole network."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from logit_correction.attributes.statistics import information_of, ratio_interval, told_apart
from logit_correction.functional import wilson_interval
from logit_correction.sentences import views_in

#: Pairs of labels that are listed.
MOST_PAIRS = 20

#: Of every interval.
CONFIDENCE = 0.9


@dataclass(frozen=True)
class Signs:
    """What one view tells of a shortcut of its kind.

    Attributes:
        view: Its name; of several, joined by " + ".
        sentence: What it looks at.
        breadth: How much it can see, see ``View``.
        accuracy: Held-out accuracy of a head on the view alone.
        network_accuracy: Held-out accuracy of the whole network on the same rows.
        ratio: The first divided by the second.
        ratio_low: Lower end of its interval of 90 %.
        ratio_high: Upper end.
        rows: Held-out rows where the view is sure of another label.
        share: Of all rows that are looked at.
        follows_view: Share of them in which the network says what the view says.
        follows_label: Share of them in which the network says the label.
        follows_low: Lower end of the interval of 90 % of the first among both.
        follows_high: Upper end.
        confidence: Mean of the view's greatest probability.
        information: Share of the label's entropy that the view alone takes away, 1 less cross-entropy over entropy;
            less than 0 where the head is worse than the labels' shares.
        told_apart: How well the network tells the rows where the view is sure of another label from rows of that label
            (area under the curve). Were their labels just wrong, both would look alike and it were 0.5.
        told_apart_low: Lower end of its interval of 90 %.
        told_apart_high: Upper end.
        conflicts: (label, what the view says, rows) of the commonest pairs, at most ``MOST_PAIRS``.
    """

    view: str
    sentence: str
    breadth: int
    accuracy: float
    network_accuracy: float
    ratio: float
    ratio_low: float
    ratio_high: float
    rows: int
    share: float
    follows_view: float
    follows_label: float
    follows_low: float
    follows_high: float
    confidence: float
    information: float
    told_apart: float
    told_apart_low: float
    told_apart_high: float
    conflicts: tuple[tuple[int, int, int], ...] = ()

    @property
    def views(self) -> list[str]:
        """The names of the views."""
        return views_in(self.view)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None for what there is no figure of, which JSON has no number for."""
        figures = asdict(self)
        del figures["conflicts"]  # of the view that the verdict is about alone, see ``Evidence``
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in figures.items()
        }


def signs_of(
    view: str, sentence: str, breadth: int, seen: Tensor, network: Tensor, label: Tensor, sure: float = 0.8
) -> Signs:
    """Put a view's held-out predictions beside a network's.

    Args:
        view: Name of the view.
        sentence: What it looks at.
        breadth: How much it can see.
        seen: (n, L) held-out class probabilities of a head on the view.
        network: (n, L) held-out class probabilities of the network on the same rows.
        label: (n,) long.
        sure: Probability from which the view is sure.
    """
    confidence, says = seen.max(dim=1)
    answer = network.argmax(dim=1)
    right, network_right = (says == label).double(), (answer == label).double()
    ratio, low, high = ratio_interval(right, network_right)
    conflict = (says != label) & (confidence > sure)
    rows = int(conflict.sum())
    with_view = int((answer == says)[conflict].sum())
    with_label = int((answer == label)[conflict].sum())
    follows_low, follows_high = wilson_interval(with_view, with_view + with_label, CONFIDENCE)
    apart, apart_low, apart_high = told_apart(seen, network, label, sure)
    return Signs(
        view=view,
        sentence=sentence,
        breadth=breadth,
        accuracy=float(right.mean()),
        network_accuracy=float(network_right.mean()),
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        rows=rows,
        share=rows / len(label),
        follows_view=with_view / rows if rows else math.nan,
        follows_label=with_label / rows if rows else math.nan,
        follows_low=float(follows_low),
        follows_high=float(follows_high),
        confidence=float(confidence.mean()),
        information=information_of(seen, label),
        told_apart=apart,
        told_apart_low=apart_low,
        told_apart_high=apart_high,
        conflicts=_commonest_pairs(label[conflict], says[conflict]),
    )


def _commonest_pairs(label: Tensor, says: Tensor) -> tuple[tuple[int, int, int], ...]:
    pairs, count = torch.stack([label, says], dim=1).unique(dim=0, return_counts=True)
    order = count.argsort(descending=True, stable=True)[:MOST_PAIRS]
    return tuple(
        (int(y), int(a), int(n)) for (y, a), n in zip(pairs[order].tolist(), count[order].tolist(), strict=True)
    )
