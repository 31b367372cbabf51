"""Is there a shortcut? ``signs_of`` computes what each view tells, ``judge`` draws the verdict from all of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from logit_correction.functional import wilson_interval
from logit_correction.sentences import of_evidence, views_in
from logit_correction.views.base import EVERYTHING, RICH

Verdict: TypeAlias = Literal["shortcut", "none found", "cannot tell"]

#: Who is asked, in sentences: a network that was trained for it, or a classifier that was given.
ORDINARY, EXAMINED = "ordinary classifier", "examined classifier"

#: Of every interval, and standard deviations to either side of one.
CONFIDENCE, DEVIATIONS = 0.9, 1.645

#: Where ``Signs.told_apart`` lies if labels are wrong; no threshold that was chosen.
CHANCE = 0.5

#: Probabilities count as no less than this where a logarithm is taken.
LEAST = 1e-6

#: Pairs of labels that are listed.
MOST_PAIRS = 20


@dataclass(frozen=True)
class Thresholds:
    """Where the signs count; set on planted data whose seeds no result uses, and frozen."""

    #: A view alone predicts the label so well beside the network that a shortcut is there to be taken; the same for
    #: rich statistics, which know something of the label itself.
    ratio: float = 0.92
    rich_ratio: float = 0.97
    #: Share of the label's entropy that the view takes away: a shortcut holds for most rows, or it is none.
    information: float = 0.58
    #: Probability from which a view is sure of a label.
    sure: float = 0.8
    #: Where view and label disagree, and the network says either, it says so often what the view says, the interval's
    #: lower end. It need not follow in most rows, where the label is easy to see, for it to cost much.
    follows: float = 0.12
    #: Fewer such rows are too few to correct by: with 10, half of the fits on breast cancer were called a shortcut.
    least_rows: int = 20
    #: Fewer such rows tell nothing of one label, or of a given classifier.
    few_rows: int = 10
    #: With fewer labels rich statistics are no evidence: they tell two honest labels apart as well as a shortcut would
    #: (of 18 pairs of kinds of photos without one, 4 looked just like it).
    rich_labels: int = 3


# -- what a view tells


@dataclass(frozen=True)
class Signs:
    """What one view tells of a shortcut of its kind; intervals are of 90 %."""

    view: str  # its name; of several, joined by " + "
    sentence: str  # what it looks at
    breadth: int  # how much it can see, see ``View``
    accuracy: float  # held-out accuracy of a head on the view alone
    network_accuracy: float  # that of the whole network on the same rows
    ratio: float  # of the two
    ratio_low: float
    ratio_high: float
    rows: int  # held-out rows where the view is sure of another label
    share: float  # of them, of all rows that are looked at
    follows_view: float  # share of them in which the network says what the view says
    follows_label: float  # share of them in which the network says the label
    follows_low: float  # of the first among both
    follows_high: float
    confidence: float  # mean of the view's greatest probability
    information: float  # see ``information_of``
    told_apart: float  # see ``told_apart``
    told_apart_low: float
    told_apart_high: float
    conflicts: tuple[tuple[int, int, int], ...] = ()  # (label, what the view says, rows) of the commonest pairs

    @property
    def views(self) -> list[str]:
        """The names of the views."""
        return views_in(self.view)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None for what there is no figure of, which JSON has no number for."""
        figures = asdict(self)
        del figures["conflicts"]  # of the view that the verdict is about alone, see ``Evidence``
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in figures.items()}


def signs_of(view: str, sentence: str, breadth: int, seen: Tensor, network: Tensor, label: Tensor) -> Signs:
    """Put held-out class probabilities (n, L) of a head on a view beside a network's on the same rows, label (n,)."""
    confidence, says = seen.max(dim=1)
    answer = network.argmax(dim=1)
    right, network_right = (says == label).double(), (answer == label).double()
    ratio, low, high = ratio_interval(right, network_right)
    conflict = (says != label) & (confidence > Thresholds.sure)
    rows = int(conflict.sum())
    with_view, with_label = (int((answer == other)[conflict].sum()) for other in (says, label))
    follows_low, follows_high = wilson_interval(with_view, with_view + with_label, CONFIDENCE)
    apart, apart_low, apart_high = told_apart(seen, network, label)
    pairs, count = torch.stack([label[conflict], says[conflict]], dim=1).unique(dim=0, return_counts=True)
    order = count.argsort(descending=True, stable=True)[:MOST_PAIRS]
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
        conflicts=tuple((y, a, n) for (y, a), n in zip(pairs[order].tolist(), count[order].tolist(), strict=True)),
    )


def information_of(probability: Tensor, label: Tensor) -> float:
    """Return the share of the label's entropy that predictions (n, L) take away: 1 less cross-entropy over entropy.

    It is less than 0 where predictions are worse than the labels' shares.

    >>> information_of(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
    1.0
    """
    share = torch.bincount(label, minlength=probability.shape[1]).double() / len(label)
    entropy = -torch.special.xlogy(share, share).sum()
    surprise = -probability.double().gather(1, label.unsqueeze(1)).clamp_min(LEAST).log().mean()
    return float(1 - surprise / entropy.clamp_min(LEAST))


def ratio_interval(one: Tensor, other: Tensor) -> tuple[float, float, float]:
    """Return the ratio of the means of two paired columns of 0 and 1, with its interval of 90 % by the delta method.

    >>> [round(value, 3) for value in ratio_interval(torch.tensor([1.0, 1, 0, 1]), torch.tensor([1.0, 1, 1, 1]))]
    [0.75, 0.466, 1.206]
    """
    count, a, b = len(one), float(one.mean()), float(other.mean())
    if a == 0 or b == 0:
        return (0.0, 0.0, 0.0) if b else (math.inf, 0.0, math.inf)
    spread = (one / a - other / b).square().mean().item() / count
    half = DEVIATIONS * math.sqrt(spread)
    return a / b, a / b * math.exp(-half), a / b * math.exp(half)


def told_apart(seen: Tensor, network: Tensor, label: Tensor) -> tuple[float, float, float]:
    """Return how well a network tells rows that contradict a view from rows that it fits, with an interval of 90 %.

    Label noise is the rival explanation of rows where a view is sure of another label: if their labels are wrong, they
    are like the rows of the label that the view names, and the network's probability of that label cannot tell which
    is which. The area under the curve is 0.5 then. In a shortcut's minority the network sees something of the label
    itself. Areas are taken within rows of one view's answer and joined by their numbers of pairs (van Elteren's test
    with weights of its own; the variance is the one under label noise). For the arguments see ``signs_of``.
    """
    from scipy.stats import rankdata

    confidence, says = seen.max(dim=1)
    certain = confidence > Thresholds.sure
    says, label, score = says[certain], label[certain], network[certain].double()
    wins = pairs = variance = 0.0
    for answer in says[says != label].unique().tolist():
        of_answer = says == answer
        fits = label[of_answer] == answer
        rank = torch.from_numpy(rankdata(score[of_answer, answer].numpy()))
        many, few = int(fits.sum()), int((~fits).sum())
        wins += float(rank[fits].sum()) - many * (many + 1) / 2
        pairs += many * few
        variance += many * few * (many + few + 1) / 12
    if not pairs:
        return math.nan, math.nan, math.nan
    half = DEVIATIONS * math.sqrt(variance) / pairs
    return wins / pairs, max(0.0, wins / pairs - half), min(1.0, wins / pairs + half)


# -- the verdict


@dataclass(frozen=True)
class Evidence:
    """What was found of a shortcut."""

    verdict: Verdict
    views: list[str]  # to correct by; empty but for a shortcut
    signs: list[Signs]  # what each view tells
    sentence: str  # the verdict in one plain sentence, with its figures

    def to_dict(self, label_names: Sequence[str]) -> dict[str, Any]:
        """Return plain values, the figures of the view that the verdict is about on top."""
        found: dict[str, Any] = {"verdict": self.verdict, "view": ", ".join(self.views) or None}
        found |= {"views": self.views, "sentence": self.sentence}
        chosen = next((one for one in self.signs if one.views == self.views), None)
        if chosen is not None:
            found |= {name: value for name, value in chosen.to_dict().items() if name not in found}
            found["conflicts"] = [
                {"label": label_names[label], "looks_like": label_names[says], "rows": rows}
                for label, says, rows in chosen.conflicts
            ]
        return found | {"signs": [one.to_dict() for one in self.signs]}


def conclude(signs: list[Signs], num_labels: int, num_rows: int | None = None, who: str = ORDINARY) -> Evidence:
    """Draw the conclusion from what all views tell of so many rows, in words that call the classifier ``who``."""
    verdict, reason, one = _judge(signs, num_labels, num_rows)
    number = num_labels if reason == "honest" else num_rows or 0
    sentence = of_evidence(reason, None if one is None else one.to_dict(), who, number, Thresholds.information)
    return Evidence(verdict, one.views if one is not None and verdict == "shortcut" else [], signs, sentence)


def _judge(signs: list[Signs], num_labels: int, num_rows: int | None) -> tuple[Verdict, str, Signs | None]:
    """Return the verdict on what all views tell, why it is so (see ``sentences.of_evidence``), and by which view.

    A view counts as a shortcut if it leaves little of the label open, alone predicts the label about as well as the
    whole network, and the network goes with it where it disagrees with the label, unless these labels may just be
    wrong. Of several the most accurate is taken, rich statistics only where no simple summary will do. Views that see
    everything are no evidence.
    """
    narrow = [one for one in signs if one.breadth < EVERYTHING]
    high = [one for one in narrow if one.ratio >= Thresholds.ratio]
    there = [one for one in high if one.information >= Thresholds.information]
    clear = [one for one in there if one.breadth < RICH or one.ratio >= Thresholds.rich_ratio]
    enough = [one for one in clear if one.rows >= Thresholds.least_rows]
    followed = [one for one in enough if one.follows_low >= Thresholds.follows]
    apart = [one for one in followed if one.told_apart_low > CHANCE]
    taken = [one for one in apart if one.breadth < RICH or num_labels >= Thresholds.rich_labels]

    def most_accurate(some: list[Signs]) -> Signs:
        return max(some, key=lambda one: one.accuracy)

    if taken:
        # Simple summaries name a shortcut where they can, one view before several; then the one that fits most rows.
        best = max(taken, key=lambda one: (one.breadth < RICH, len(one.views) == 1, one.accuracy))
        return "shortcut", "follows", best
    if apart:
        return "cannot tell", "honest", most_accurate(apart)
    if followed:
        return "cannot tell", "mislabelled", most_accurate(followed)
    if there:
        doubtful = any(one.follows_low >= Thresholds.follows for one in there)
        return "none found" if enough and not doubtful else "cannot tell", "follows", most_accurate(enough or there)
    if not narrow:
        return "cannot tell", "no view", None
    if num_rows is not None and num_rows < Thresholds.least_rows:
        return "cannot tell", "few rows", None
    if high:  # both may be right about most rows where one label has most
        return "none found", "little", max(high, key=lambda one: one.information)
    return "none found", "worse", max(narrow, key=lambda one: one.ratio)
