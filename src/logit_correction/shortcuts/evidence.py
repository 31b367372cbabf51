"""Is there a shortcut? What each view tells, the signs of a candidate to correct by, and the model that weighs them.

Class probabilities are (n, L) and held out: of what was not trained on the row. Labels and attributes are (n,) long.
No sign reads an attribute label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import yaml
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.finding import RICH, Look, Signs, ToldApart, Verdict
from logit_correction.functional import wilson_interval

Array: TypeAlias = NDArray[Any]

#: Of every interval, and standard deviations to either side of one.
CONFIDENCE, DEVIATIONS = 0.9, 1.645

#: Probability from which a view is sure of a label.
SURE = 0.8

#: Fewer rows that conflict tell nothing of one label, or of a given classifier; fewer than the second nothing at all.
FEW_ROWS, LEAST_ROWS = 10, 3

#: Views that know less of the label than this share of its entropy do not vote on independence; what is said where
#: nobody votes, and of how it rises with others where there are none; rows that a share of few rows is drawn with.
KNOWS, UNDECIDED, UNLINKED, DRAWN = 0.02, 0.75, 0.3, 4

#: Probabilities count as no less than this where a logarithm is taken.
LEAST = 1e-3


# -- what a view tells


def conflict_of(seen: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a view says of each row (n,), and where it is sure of another label than the row's (n,) bool."""
    confidence, says = seen.max(dim=1)
    return says, (says != label) & (confidence > SURE)


def look_of(views: Sequence[str], sentence: str, breadth: int, seen: Tensor, network: Tensor, label: Tensor) -> Look:
    """Return what views tell of a shortcut of their kind.

    ``seen`` is what a head on them says, ``network`` what the whole network says of the same rows. Counted are rows
    where the views are sure of another label, and whether the network then says what they say, or the label.
    """
    says, conflict = conflict_of(seen, label)
    answer = network.argmax(dim=1)
    right, network_right = (says == label).double(), (answer == label).double()
    rows = int(conflict.sum())
    with_view, with_label = (int((answer == other)[conflict].sum()) for other in (says, label))
    ratio, ratio_low, ratio_high = map(_finite, ratio_interval(right, network_right))
    low, high = map(_finite, map(float, wilson_interval(with_view, with_view + with_label, CONFIDENCE)))
    return Look(
        views=tuple(views),
        sentence=sentence,
        breadth=breadth,
        accuracy=float(right.mean()),
        network_accuracy=float(network_right.mean()),
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        rows=rows,
        share=rows / max(1, len(label)),
        follows_view=with_view / rows if rows else None,
        follows_label=with_label / rows if rows else None,
        follows_low=low,
        follows_high=high,
        information=information(seen.numpy(), label.numpy()),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


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


def told_apart(seen: Tensor, network: Tensor, label: Tensor) -> ToldApart | None:
    """Return how well a network tells rows that contradict a view from rows that it fits, with an interval of 90 %.

    Label noise is the rival explanation of rows where a view is sure of another label: if their labels are wrong, they
    are like the rows of the label that the view names, and the network's probability of that label cannot tell which
    is which. The area under the curve is 0.5 then. In a shortcut's minority the network sees something of the label
    itself. Areas are taken within rows of one view's answer and joined by their numbers of pairs (van Elteren's test
    with weights of its own; the variance is the one under label noise). None where no row contradicts.
    """
    confidence, says = seen.max(dim=1)
    certain = confidence > SURE
    says, label, score = says[certain], label[certain], network[certain].double()
    wins = pairs = variance = 0.0
    for answer in says[says != label].unique().tolist():
        of_answer = says == answer
        fits = label[of_answer] == answer
        many, few = int(fits.sum()), int((~fits).sum())
        if many:
            own = score[of_answer, answer].numpy()
            wins += area(own[fits.numpy()], own[~fits.numpy()]) * many * few
        pairs += many * few
        variance += many * few * (many + few + 1) / 12
    if not pairs:
        return None
    half = DEVIATIONS * math.sqrt(variance) / pairs
    return ToldApart(wins / pairs, max(0.0, wins / pairs - half), min(1.0, wins / pairs + half))


# -- the signs of a candidate


def area(above: Array, below: Array) -> float:
    """Return the area under the curve of ``above`` (m,) against ``below``, neither empty; 0.5 where they are alike.

    >>> area(np.array([2.0, 3.0, 4.0]), np.array([0.0, 1.0, 1.0]))
    1.0
    """
    from scipy.stats import rankdata

    rank = rankdata(np.concatenate([above, below]))
    return float((rank[: len(above)].sum() - len(above) * (len(above) + 1) / 2) / (len(above) * len(below)))


def information(probability: Array, label: Array) -> float:
    """Return the share of the label's entropy that predictions take away: 1 less cross-entropy over entropy.

    It is less than 0 where predictions are worse than the labels' shares.

    >>> round(information(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])), 2)
    1.0
    """
    share = np.bincount(label, minlength=probability.shape[1]) / max(1, len(label))
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    own = probability[np.arange(len(label)), label].astype(float).clip(LEAST)
    return float(1 + np.log(own).mean() / max(entropy, LEAST))


def margin(probability: Array, label: Array) -> Array:
    """Return the log odds (n,) of each row's label."""
    own = probability[np.arange(len(label)), label].astype(float).clip(LEAST, 1 - LEAST)
    return np.asarray(np.log(own / (1 - own)))


def typical(other: Array, label: Array, flagged: Array) -> float:
    """Return how much less typical of their label ``flagged`` rows (n,) are to another view than the rest.

    It is an area under the curve: 0.5 where they are as typical, as those of a mark are that was laid on regardless of
    what else is there. Labels count by their flagged rows.
    """
    odds, found, rows = margin(other, label), 0.0, 0
    for y in np.unique(label):
        own, few = odds[(label == y) & ~flagged], odds[(label == y) & flagged]
        if min(len(own), len(few)) >= LEAST_ROWS:
            found, rows = found + area(own, few) * len(few), rows + len(few)
    return found / rows if rows else UNDECIDED


def independence(label: Array, flagged: Array, others: Sequence[Array], rest: Sequence[Array]) -> float:
    """Return how ``typical`` flagged rows are to the best that is known of the rest.

    That is all other columns of a table, the lower half of several parts of a text, else (of images) the view among
    ``others`` that sees least of a difference.
    """
    if len(rest) == 1:
        return typical(rest[0], label, flagged)
    if rest:
        return float(np.mean(sorted(typical(one, label, flagged) for one in rest)[: len(rest) // 2]))
    voting = [one for one in others if information(one, label) >= KNOWS]
    return min((typical(one, label, flagged) for one in voting), default=UNDECIDED)


def linked(alone: Array, label: Array, rows: Array, others: Sequence[Array], rest: Sequence[Array]) -> float:
    """Return how much the odds of a row's label by a candidate rise with those by other looks, among ``rows`` (n,).

    It is the mean rank correlation within each label. A mark that is laid on regardless of what else is there leaves
    it near 0; honest looks at the same thing rise together. Of the parts of a text, some of which may hold the words
    of the candidate, the lower half votes.
    """
    from scipy.stats import rankdata

    groups = [group for y in np.unique(label) if (group := rows & (label == y)).sum() > FEW_ROWS // 2]
    looks = [one for one in rest or others if len(rest) == 1 or information(one, label) >= KNOWS]
    if not groups or not looks:
        return UNLINKED

    def places(look: Array) -> Array:
        odds = margin(look, label)
        return np.concatenate([(rankdata(odds[own]) - 0.5) / own.sum() - 0.5 for own in groups])

    own_places = places(alone)
    found = sorted(float(12 * (own_places * places(one)).mean()) for one in looks)
    return float(np.mean(found[: (len(found) + 1) // 2] if len(rest) > 1 else found))


def doubtful(network: Array, label: Array, attribute: Array) -> float:
    """Return how much less sure a network is of rows that it takes for their attribute than of rows of that label.

    It is an area under the curve. If the labels of the flagged rows are wrong, they are what the network says, and it
    is as sure of them: 0.5. A classifier that says only names, or one probability for each label, tells nothing here.
    """
    says, flagged, found, rows = network.argmax(1), attribute != label, 0.0, 0
    sure = network.astype(float).clip(LEAST, 1 - LEAST)
    for a in np.unique(attribute[flagged]):
        few, own = flagged & (attribute == a) & (says == a), (label == a) & (says == a) & ~flagged
        if few.any() and own.sum() >= LEAST_ROWS and np.ptp(sure[own, a]) > 0:
            found, rows = found + area(sure[own, a], sure[few, a]) * few.sum(), rows + int(few.sum())
    return float((found + DRAWN * UNDECIDED) / (rows + DRAWN)) if rows else 0.8


def signs_of(
    label: Array,
    network: Array,
    attribute: Array,
    alone: Array,
    others: Sequence[Array] = (),
    rest: Sequence[Array] = (),
) -> Signs:
    """Return the signs of a candidate; the model reads some of them.

    Args:
        label: (n,).
        network: (n, L) of ordinary networks.
        attribute: (n,) the attribute that the candidate estimates.
        alone: (n, L) of plain heads on the candidate's views, or of the biased networks.
        others: (n, L) of each view that is not the candidate's.
        rest: (n, L) of what a table has beside the candidate's columns, or of parts of the texts; see ``independence``.
    """
    rows, says, flagged = len(label), network.argmax(1), attribute != label
    few, wrong = int(flagged.sum()), says != label
    error = float(wrong[~flagged].mean()) if few < rows else 1.0
    # Towards few rows each share is drawn to what the network does everywhere.
    follows = float(((says == attribute)[flagged].sum() + DRAWN * error) / (few + DRAWN))
    # The same as odds: where a network hardly errs, to follow a few of the rows is much.
    usual = max(error, 2 / rows) / (1 - min(error, 0.99))
    return Signs(
        flagged=few,
        error=error,
        followed=int(((says == attribute) & flagged).sum()),
        follows=follows,
        excess=follows - error,
        lift=math.log(max(LEAST, follows) / max(LEAST, 1 - follows)) - math.log(usual),
        plain_information=information(alone, label),
        explains=float(((says == attribute) & flagged & wrong).sum() / (wrong.sum() + 5)),
        accuracy=float(1 - wrong.mean()),
        rest=independence(label, flagged, others, rest),
        linked=linked(alone, label, ~flagged, others, rest),
        doubtful=doubtful(network, label, attribute),
    )


# -- the model


@dataclass(frozen=True)
class Model:
    """From signs to the probability that correcting helps, by which candidates are put in order.

    ``evidence.yaml`` has its numbers; ``lab/results/evidence`` tells where they come from, and how right they are.

    Attributes:
        signs: Name -> direction, the two values between which it counts, and weights: of views of images, texts and
            tables, and of the biased networks' estimate.
        intercept: Of the score of each of these.
        chance: P(helps) is the logistic function of the first and of the second times the score.
        guards: Sign -> ``least``, and the ``most`` that P(helps) is below it: ``doubtful``, since wrong labels look the
            same, and ``excess``, since the network does not follow.
        clear: What one view must tell to be a shortcut without more ado; P(helps) is no less than ``probability`` then.
        verdict: ``shortcut``: P(helps) above which there is one; ``cannot tell``: P above which that is in doubt.
        when_unsure: What to do in doubt, unless a person chooses: ``correct`` or ``leave``.
    """

    signs: Mapping[str, Mapping[str, Any]]
    intercept: Mapping[str, float]
    chance: tuple[float, float]
    guards: Mapping[str, Mapping[str, float]]
    clear: Mapping[str, float]
    verdict: Mapping[str, float]
    when_unsure: str

    @classmethod
    @cache
    def shipped(cls) -> Model:
        """Return the model that the package ships."""
        return cls(**yaml.safe_load(Path(__file__).with_name("evidence.yaml").read_text(encoding="utf-8")))

    def is_clear(self, look: Look, apart: ToldApart | None, excess: float, num_labels: int) -> bool:
        """Return whether one view is a clear shortcut by what it tells, and by ``told_apart``.

        Rich statistics must tell more, and of more labels, since they know something of the label's own shape.
        """
        rich, least = look.breadth >= RICH, self.clear
        return (
            (look.ratio or 0) >= least["rich ratio" if rich else "ratio"]
            and look.information >= least["information"]
            and look.rows >= least["rows"]
            and (look.follows_low or 0) >= least["follows"]
            and apart is not None
            and apart.told_apart_low > 0.5
            and excess > least["excess"]
            and (not rich or num_labels >= least["rich labels"])
        )

    def judge(self, signs: Signs, part: str, clear: bool = False) -> float:
        """Return the probability that correcting by a candidate helps, by its signs.

        ``part`` is the kind of the data (images, texts or tables), or biased.
        """
        score = self.intercept[part]
        for name, one in self.signs.items():
            share = min(1.0, max(0.0, (getattr(signs, name) - one["from"]) / (one["to"] - one["from"])))
            score += one["weight"][part] * (share if one["direction"] > 0 else 1 - share)
        probability = 1 / (1 + math.exp(-self.chance[0] - self.chance[1] * score))
        probability = max(probability, self.clear["probability"]) if clear else probability
        for name, guard in self.guards.items():
            if getattr(signs, name) < guard["least"]:
                probability = min(probability, guard["most"])
        return round(probability, 4)

    def may_be_wrong_labels(self, signs: Signs) -> bool:
        """Return whether the rows that a candidate flags look as rows would whose labels are wrong."""
        return signs.doubtful < self.guards["doubtful"]["least"]

    def verdict_of(self, probability: float) -> Verdict:
        """Return the verdict on the candidate of the greatest P(helps)."""
        if probability > self.verdict["shortcut"]:
            return "shortcut"
        return "cannot tell" if probability > self.verdict["cannot tell"] else "none found"
