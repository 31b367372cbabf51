"""Is there a shortcut? Two signs with their intervals, from held-out predictions of a narrow view and of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from logit_correction.attributes.signs import Signs
from logit_correction.sentences import of_evidence
from logit_correction.views.base import EVERYTHING

Verdict: TypeAlias = Literal["shortcut", "none found", "cannot tell"]

#: Breadth of rich statistics, see ``View``.
RICH = 2

#: Who is asked, in sentences: a network that was trained for it, or a classifier that was given.
ORDINARY, EXAMINED = "ordinary classifier", "examined classifier"

#: Where ``Signs.told_apart`` lies if labels are wrong; no threshold that was chosen.
CHANCE = 0.5


@dataclass(frozen=True)
class Thresholds:
    """Where the signs count; set on planted data whose seeds no result uses, and frozen.

    Attributes:
        ratio: A view alone predicts the label so well beside the network that a shortcut is there to be taken.
        rich_ratio: The same for rich statistics, which know something of the label itself.
        information: Share of the label's entropy that the view alone takes away: a shortcut holds for most rows, or it
            is none.
        sure: Probability from which a view is sure of a label.
        follows: Share of the rows where view and label disagree, and the network says either, in which it says what
            the view says. The network has taken the shortcut if its interval lies above: it need not follow in most
            rows, where the label is easy to see, for it to cost much.
        least_rows: Fewer such rows are too few to correct by: with 10, half of the fits on breast cancer, which has no
            shortcut that anybody knows of, were called one.
        few_rows: Fewer such rows tell nothing of one label, or of a given classifier.
        rich_labels: With fewer labels rich statistics are no evidence: they tell two honest labels apart as well as a
            shortcut would (of 18 pairs of kinds of photos without one, 4 looked just like it).
    """

    ratio: float = 0.92
    rich_ratio: float = 0.97
    information: float = 0.58
    sure: float = 0.8
    follows: float = 0.12
    least_rows: int = 20
    few_rows: int = 10
    rich_labels: int = 3


@dataclass(frozen=True)
class Evidence:
    """What was found of a shortcut.

    Attributes:
        verdict: ``shortcut``, ``none found`` or ``cannot tell``.
        views: The views to correct by; empty but for a shortcut.
        signs: What each view tells.
        sentence: The verdict in one plain sentence, with its figures.
    """

    verdict: Verdict
    views: list[str]
    signs: list[Signs]
    sentence: str

    def to_dict(self, label_names: Sequence[str]) -> dict[str, Any]:
        """Return plain values, the figures of the view that the verdict is about on top.

        Args:
            label_names: L names, for the pairs of labels.
        """
        chosen = next((one for one in self.signs if one.views == self.views), None)
        figures = {} if chosen is None else chosen.to_dict()
        if chosen is not None:
            figures["conflicts"] = [
                {"label": label_names[label], "looks_like": label_names[says], "rows": rows}
                for label, says, rows in chosen.conflicts
            ]
        return {
            "verdict": self.verdict,
            "view": ", ".join(self.views) or None,
            "views": self.views,
            "sentence": self.sentence,
            **{name: value for name, value in figures.items() if name not in ("view", "sentence")},
            "signs": [one.to_dict() for one in self.signs],
        }


def conclude(
    signs: list[Signs],
    num_labels: int,
    thresholds: Thresholds = Thresholds(),
    num_rows: int | None = None,
    who: str = ORDINARY,
) -> Evidence:
    """Draw the conclusion from what all views tell.

    A view counts as a shortcut if it leaves little of the label open, alone predicts the label about as well as the
    whole network, and the network goes with it where it disagrees with the label, unless these labels may just be
    wrong. Of several the most accurate is taken, rich statistics only where no simple summary will do.

    Args:
        signs: What each view tells; views that see everything are no evidence.
        num_labels: L.
        thresholds: Where the signs count.
        num_rows: Rows that were looked at, where known.
        who: What the classifier is called.
    """

    def found(verdict: Verdict, reason: str, one: Signs | None, views: Sequence[str] = (), **told: Any) -> Evidence:
        sentence = of_evidence(reason, None if one is None else one.to_dict(), who, **told)
        return Evidence(verdict, list(views), signs, sentence)

    narrow = [one for one in signs if one.breadth < EVERYTHING]
    there = [one for one in narrow if one.ratio >= thresholds.ratio and one.information >= thresholds.information]
    clear = [one for one in there if one.breadth < RICH or one.ratio >= thresholds.rich_ratio]
    enough = [one for one in clear if one.rows >= thresholds.least_rows]
    followed = [one for one in enough if one.follows_low >= thresholds.follows]
    apart = [one for one in followed if one.told_apart_low > CHANCE]
    taken = [one for one in apart if one.breadth < RICH or num_labels >= thresholds.rich_labels]
    if taken:
        # Simple summaries name a shortcut where they can, one view before several; then the one that fits most rows.
        chosen = max(taken, key=lambda one: (one.breadth < RICH, len(one.views) == 1, one.accuracy))
        return found("shortcut", "follows", chosen, chosen.views)
    if apart:
        return found("cannot tell", "honest", max(apart, key=lambda one: one.accuracy), number=num_labels)
    if followed:
        return found("cannot tell", "mislabelled", max(followed, key=lambda one: one.accuracy))
    if there:
        doubtful = any(one.follows_low >= thresholds.follows for one in there)
        chosen = max(enough or there, key=lambda one: one.accuracy)
        return found("none found" if enough and not doubtful else "cannot tell", "follows", chosen)
    if not narrow:
        return found("cannot tell", "no view", None)
    if num_rows is not None and num_rows < thresholds.least_rows:
        return found("cannot tell", "few rows", None, number=num_rows)
    high = [one for one in narrow if one.ratio >= thresholds.ratio]
    if high:  # both may be right about most rows where one label has most
        most = max(high, key=lambda one: one.information)
        return found("none found", "little", most, wanted=thresholds.information)
    return found("none found", "worse", max(narrow, key=lambda one: one.ratio))
