"""What is found of a shortcut: values, whose fields are keys of ``report.json`` and ``audit.json``, and their words.

Pages, the console and notebooks say the same. ``shortcuts.words`` says what an audit comes to.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from logit_correction.formatting import capitalize, format_first, format_list, format_percent, format_row_count
from logit_correction.serialization import from_json_values, to_json_values

Verdict: TypeAlias = Literal["shortcut", "none found", "cannot tell"]

#: Who said what a shortcut is that no search was made for.
Decider: TypeAlias = Literal["person", "answers", "search"]

#: Decider -> the sentence about a shortcut.
DECIDED_BY: dict[Decider, str] = {
    "person": "You named this shortcut",
    "answers": "Labels of new rows chose to correct by it",
    "search": "The search of an audit chose to correct by it",
}

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

#: Members of a family of views that are named one by one; of more of them the first.
MOST_MEMBERS = 6

#: The same in a short name, as tables have it.
SHORT_MEMBERS = 2

#: What families of views are called whose name alone is no noun of a sentence.
OF_FAMILY = {
    "word": "single words",
    "characters": "short runs of characters",
    "opening": "the first words",
    "closing": "the last words",
    "file": "facts of the file",
    "missing": "missing values",
    "form": "the form of the text",
}


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


def name_views(views: Sequence[str], terms: Sequence[str] = (), short: bool = False) -> str:
    """Return what a sentence calls views: columns as columns, and the family of all words by the words that tell.

    A ``short`` name is for tables: it counts the members of a family and names two of them.

    >>> name_views(["colour"]), name_views(["column:scanner"]), name_views(["places:1,1", "places:4,4"])
    ('colour', 'the column `scanner`', 'the places row 1 column 1 and row 4 column 4')
    >>> name_views(["word"], ["north", "south"])
    'the words `north` and `south`'
    >>> name_views([f"word:{one}" for one in "abcdefgh"], ["north"])
    'the words `a`, `b`, `c`, `d`, `e`, `f` and 2 more'
    >>> name_views([f"word:{one}" for one in "abc"], short=True)
    '3 words: `a`, `b` ...'
    """
    most = SHORT_MEMBERS if short else MOST_MEMBERS
    named = []
    for family, found in _group_by_family(views, terms).items():
        told = _name_members(family, found)
        plural = family.rstrip("s") + ("s" if len(found) > 1 else "")
        many = len(found) > most
        if family == "pair":
            named += [f"the relation of the columns {one}" for one in told]
        elif many and family == "places":  # a list of them shows nobody where they are
            named.append(f"{len(found)} places")
        elif many and short:
            named.append(f"{len(found)} {plural}: {', '.join(told[:most])} ...")
        elif found:
            named.append(f"the {plural} {format_first(told, most) if many else format_list(told)}")
        else:
            named.append(OF_FAMILY.get(family, family))
    return format_list(named)


def spell_out_views(groups: Iterable[Sequence[str]]) -> list[str]:
    """Return a line for each list of members that the short names of these groups of views cut, each list once.

    >>> spell_out_views([["colour", *(f"word:{one}" for one in "abc")], ["word:a"]])
    ['3 words: `a`, `b` and `c`']
    """
    lines = []
    for views in groups:
        for family, found in _group_by_family(views).items():
            if len(found) > SHORT_MEMBERS and family != "pair":
                lines.append(f"{len(found)} {family.rstrip('s')}s: {format_list(_name_members(family, found))}")
    return list(dict.fromkeys(lines))


def _group_by_family(views: Sequence[str], terms: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return family -> members; ``terms`` are those of the family of all words, if that is among the views."""
    members: dict[str, list[str]] = {}
    for family, member in map(ViewName.of, views):
        members.setdefault(family, []).extend([member] if member else [])
    if "word" in views:
        members["word"] = list(dict.fromkeys([*members["word"], *terms]))
    return members


def _name_members(family: str, members: Sequence[str]) -> list[str]:
    if family == "places":
        return [f"row {member.replace(',', ' column ')}" for member in members]
    if family == "pair":
        return [f"`{member.replace(' & ', '` and `')}`" for member in members]
    return [f"`{member}`" for member in members] if family in ("column", "word") else list(members)


def name_training(method: str, hidden: Sequence[str] = ()) -> str:
    """Return what tables call a training whose networks cannot see the ``hidden`` views.

    >>> name_training("ERM", ["column:site"])
    'ERM without the column site'
    """
    return f"{method} without {name_views(hidden, short=True)}".replace("`", "") if hidden else method


def is_plural(views: Sequence[str]) -> bool:
    """Return whether the name of the views is a plural."""
    return len(views) > 1 or any(view in OF_FAMILY and view != "form" for view in views)


def options(name: str, views: Sequence[str]) -> str:
    """Return ``--shortcut`` or ``--legitimate`` for each view, as a command line takes them; many are a family."""
    families = [ViewName.of(view).family for view in views]
    named = [view if families.count(of) <= MOST_MEMBERS else of for of, view in zip(families, views, strict=True)]
    return " ".join(f"--{name} {shlex.quote(view)}" for view in dict.fromkeys(named))


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
    LEAK: ClassVar[float] = 0.95

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
        decided_by: Who named it, if it is ``named``.
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
    decided_by: Decider = "person"

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

    @property
    def answer(self) -> str:
        """The views of the shortcut, in words; without one the verdict."""
        return name_views(self.views) or self.verdict

    @property
    def sentence(self) -> str:
        """The verdict in a few sentences, with its figures."""
        said = [DECIDED_BY[self.decided_by]] if self.named else []
        if self.look is not None:
            said += self._of_look(self.look)
        elif not self.named and self.judged < FEWEST:
            said += [f"{self.judged} rows are too few to tell a shortcut by"]
        elif not self.named and not self.looks:
            said += ["There is no view of these inputs to look through"]
        elif not self.named:
            none = "Beside what you call legitimate no" if self.legitimate else "No"
            said += [f"{none} narrow view says of more than two rows that they look like another label"]
        return ". ".join(said)

    def _of_look(self, look: Look) -> list[str]:
        """Return how often views are right, who follows them, and what that comes to."""
        view, several, none = name_views(look.views), is_plural(look.views), self.verdict == "none found"
        they, them, verb = ("they", "them", "") if several else ("it", "it", "s")
        right, network, most = (
            format_percent(share, unit=" %") for share in (look.accuracy, look.network_accuracy, self.commonest)
        )
        alone = f"{capitalize(view)} alone predict{verb} {right} of the held-out labels"
        told = [f"{alone}, the whole network {network}, the commonest label {most}"]
        if none and self.tells_nothing:
            be = "are" if several else "is"
            return [*told, f"{capitalize(they)} {be} right no more often than the commonest label"]
        if look.rows:
            follows = look.follows_view, look.follows_label
            with_view, with_label = (round(look.rows * (share or 0)) for share in follows)
            where = f"On the {format_row_count(look.rows)} where {they} clearly point{verb} to another label"
            told += [f"{where}, {self.who} follows {them} in {with_view:,} and the label in {with_label:,}"]
        else:
            told += [f"{capitalize(they)} never clearly point{verb} to another label"]
        if look.may_leak(self.commonest):
            told += [f"{capitalize(they)} may give the label away: leave out what will not be known in use"]
        return told + ["Together that is too little for a shortcut"] * none

    def advice(self, asked: Sequence[str] | None = None) -> str:
        """Return what to say against a verdict; empty where a person said what the shortcut is.

        ``asked`` are the views that an audit asks about, by default those of the shortcut.
        """
        views = self.views if asked is None else asked
        if not views:
            named: Sequence[str] = ()
            if self.candidates and self.verdict != "none found":  # else that would be a hint
                named = self.candidates[0].views
            such = f", such as `{options('shortcut', named[:1])}`" if named else ""
            add = f"add `--shortcut VIEW`{such}. `logit-correction list views` shows the names"
            return f"If you know a shortcut, name it: {add}"
        if self.verdict != "shortcut":
            return f"Only you can tell: add `{options('shortcut', views)}` or `{options('legitimate', views)}`"
        cause = "are legitimate causes" if is_plural(views) else "is a legitimate cause"
        told = f"If {name_views(views)} {cause} of the label, add `{options('legitimate', views)}`"
        return told if self.looks else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values and the sentence; for programs, the figures of what is corrected by stand on top."""
        found = {"view": ", ".join(self.views) or None, "corrects": self.corrects, **to_json_values(self)}
        if self.decided_by == "person":  # as of everything that was found before there were others
            del found["decided_by"]
        tops = [to_json_values(self.candidate), to_json_values(self.look) if self.corrects else None]
        inside = (*found, "signs")
        found |= {name: value for top in tops if top for name, value in top.items() if name not in inside}
        return found | {"sentence": self.sentence}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """Return the finding that ``to_dict`` gave; ``ValueError`` if something is missing or of another version."""
        missing = [one.name for one in fields(cls) if one.name not in (*plain, "decided_by")]
        if missing:
            raise ValueError(f"the finding of a shortcut has no {missing[0]}: it is damaged, or of another version")
        found: Finding = from_json_values(cls, plain)
        return found


# -- what new rows say


@dataclass(frozen=True)
class Tried:
    """What one candidate says of the new rows, and what it gains there; intervals are of 90 %.

    Attributes:
        name: What tables call it; ``does``, what it does.
        config: What trains it, as ``config.yaml`` has it.
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
    config: dict[str, Any]
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
        more: Further answers that would tell whether the best candidate is ahead of ERM; None without answers, but 0
            where none can tell.
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
