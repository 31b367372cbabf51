"""What is found of a shortcut, as values, whose fields are the keys of ``report.json`` and ``audit.json``.

``sentences`` says them in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from logit_correction.files import from_plain, to_plain

Verdict: TypeAlias = Literal["shortcut", "none found", "cannot tell"]

#: The method that everything is measured against.
BASELINE = "ERM"

#: What a classifier is called that was given; a network that was trained to be asked is ERM.
EXAMINED = "the examined classifier"

#: Fewest judged rows by which anything is told.
FEWEST = 20

#: Breadth of views of rich statistics, and of one that sees everything.
RICH, EVERYTHING = 2, 3


#: Conflicting rows that it takes to tell whether a classifier relies on a view: with so many the interval of a share is
#: about 30 points wide.
NEEDED_ROWS = 30


class ViewName(NamedTuple):
    """The name of a view in its parts: a family, such as ``colour``, and of most families a member of it.

    >>> ViewName.of("column:scanner"), str(ViewName("places", "1,1"))
    (ViewName(family='column', member='scanner'), 'places:1,1')
    """

    family: str
    member: str = ""

    @classmethod
    def of(cls, name: str) -> ViewName:
        """Return the parts of a name."""
        family, _, member = name.partition(":")
        return cls(family, member)

    def __str__(self) -> str:
        return f"{self.family}:{self.member}" if self.member else self.family


def are_columns(views: Sequence[str]) -> bool:
    """Return whether all of these views are columns."""
    return {ViewName.of(view).family for view in views} == {"column"}


@dataclass(frozen=True)
class Look:
    """What one view, or several of a family, tell of a shortcut of their kind; intervals are of 90 %.

    Attributes:
        views: Their names.
        breadth: How much they can see; see ``View``.
        accuracy: How often a head on them is right about rows that it did not learn from, and the lower end of its
            interval; ``network_accuracy`` of the whole network.
        ratio: The first over the second.
        rows: Judged rows where they are sure of another label than the row's, and their ``share``.
        follows_view: In which share of these the network says what they say, ``follows_label`` or the label;
            ``follows_low`` and ``follows_high`` of the rows where it says one of the two.
        information: Share of the label's entropy that they take away.
    """

    views: tuple[str, ...]
    breadth: int
    accuracy: float
    accuracy_low: float
    network_accuracy: float
    ratio: float | None
    rows: int
    share: float
    follows_view: float | None
    follows_label: float | None
    follows_low: float | None
    follows_high: float | None
    information: float

    #: A simple view that is right in this share of the rows, and as often as the whole network, may be a leak.
    LEAK: ClassVar = 0.95

    def may_leak(self, commonest: float) -> bool:
        """Return whether narrow views may give the label away: few rows contradict them, and the network is no better.

        ``commonest`` is the share of the commonest label, which they have to exceed.
        """
        right = self.accuracy >= max(self.LEAK, self.network_accuracy - 0.005) and self.accuracy_low > commonest
        return right and self.breadth < RICH and self.rows < NEEDED_ROWS


@dataclass(frozen=True)
class Signs:
    """What tells whether it helps to correct by a candidate; see ``evidence.signs_of``.

    Attributes:
        flagged: Judged rows that the candidate takes for bias-conflicting.
        error: Share of the other rows that the network gets wrong.
        excess: Share of the flagged rows in which the network says what the candidate says, less ``error``.
        explains: Share of the network's mistakes that these rows explain.
        plain_information: Share of the label's entropy that plain heads take away.
        typical: How much less typical of their label flagged rows are to other views than other rows are, 0.5 to 1.
    """

    flagged: int
    error: float
    excess: float
    explains: float
    plain_information: float
    typical: float


@dataclass(frozen=True)
class Weighed:
    """A candidate to correct by its ``views``; ``probability`` that this helps, by the model that reads the signs."""

    views: tuple[str, ...]
    probability: float
    signs: Signs


@dataclass(frozen=True)
class Finding:
    """The verdict, what it is about, and all that was looked at.

    Attributes:
        verdict: Whether there is a shortcut.
        views: What is corrected by; empty where nothing is.
        named: Whether a person named the shortcut.
        legitimate: What a person calls a legitimate cause.
        who: What the classifier is called that was asked.
        judged: Rows that it was asked about; 0 where nobody looked.
        commonest: Share of these that have the commonest label.
        about: The views of the candidate that the verdict is about; empty where there is none.
        leak: The views of a look that may give the label away, where nothing else was found.
        looks: All looks.
        candidates: All candidates, the likeliest to help first.
    """

    verdict: Verdict
    views: tuple[str, ...] = ()
    named: bool = False
    legitimate: tuple[str, ...] = ()
    who: str = BASELINE
    judged: int = 0
    commonest: float = 0.0
    about: tuple[str, ...] = ()
    leak: tuple[str, ...] = ()
    looks: tuple[Look, ...] = ()
    candidates: tuple[Weighed, ...] = ()

    @property
    def corrects(self) -> bool:
        """Whether anything is corrected."""
        return bool(self.views)

    @property
    def candidate(self) -> Weighed | None:
        """The candidate that the verdict is about; None where there is none, and where nobody looked."""
        return next((one for one in self.candidates if one.views == self.about), None)

    @property
    def look(self) -> Look | None:
        """What its views tell; of a leak, what that tells."""
        return next((one for one in self.looks if one.views == (self.leak or self.about)), None)

    @property
    def tells_nothing(self) -> bool:
        """Whether these views are right no more often than who always says the commonest label, but for chance."""
        return self.look is not None and self.look.accuracy_low <= self.commonest

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; for programs that read them, the figures of what is corrected by stand on top."""
        found = {"view": ", ".join(self.views) or None, "corrects": self.corrects, **to_plain(self)}
        tops = [to_plain(self.candidate), to_plain(self.look) if self.corrects else None]
        inside = (*found, "signs")
        return found | {name: value for top in tops if top for name, value in top.items() if name not in inside}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """Return the finding that ``to_dict`` gave; ``ValueError`` if something is missing or of another version."""
        missing = [one.name for one in fields(cls) if one.name not in plain]
        if missing:
            raise ValueError(f"the finding of a shortcut has no {missing[0]}: it is damaged, or of another version")
        found: Finding = from_plain(cls, plain)
        return found


# -- what new rows say


@dataclass(frozen=True)
class Tried:
    """What one candidate says of the new rows, and what it gains there; intervals are of 90 %.

    Attributes:
        name: What tables call it; ``does``, what it does.
        views: The views that it corrects by, or leaves out.
        seconds: That its training took.
        like_training: Its accuracy on validation rows.
        differs_new: Share of the new rows of which it says something else than ERM; ``differs_usual`` of rows like
            those of training.
        gain: Accuracy that it gains over ERM on the new rows; None without answers.
        told_by: Answered rows on which it and ERM differ.
    """

    name: str
    does: str
    views: tuple[str, ...]
    seconds: float
    like_training: float
    differs_new: float
    differs_new_low: float
    differs_new_high: float
    differs_usual: float
    differs_usual_low: float
    differs_usual_high: float
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    told_by: int = 0


@dataclass(frozen=True)
class Choice:
    """What the new rows say, and which candidate they choose.

    Attributes:
        rows: How many new rows there are; ``labelled`` came with their label.
        usual_rows: Rows like those of training, beside which they were put.
        changed: Whether something that held in training does not hold in them.
        likely: How often rows that are exchanged at random differ as much.
        candidates: All that were trained, ERM first.
        answers: New rows whose label is known; ``sheet_answers`` of the ``asked`` ones.
        chosen: The name of the candidate to train; None where answers are missing that would tell.
        gain: Accuracy that it gains over ERM, corrected for having been chosen; None of ERM and without answers.
        more: Further answers that would tell whether the best candidate is ahead of ERM; None without answers.
    """

    rows: int
    labelled: int
    usual_rows: int
    changed: bool
    likely: float
    candidates: tuple[Tried, ...]
    answers: int = 0
    asked: int = 0
    sheet_answers: int = 0
    chosen: str | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    more: int | None = None

    @property
    def correction(self) -> Tried | None:
        """The chosen candidate; None where that is ERM, and where nothing was chosen."""
        return next((one for one in self.candidates[1:] if one.name == self.chosen), None)
