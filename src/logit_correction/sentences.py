"""Results in plain English: numbers, names, and what was found of a shortcut.

Pages, the console, notebooks and ``report.json`` say the same. ``shortcuts.words`` says what an audit comes to.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from logit_correction.errors import format_first, format_list, format_percent, is_missing
from logit_correction.finding import FEWEST, Finding, Look, ViewName

#: Members of a family of views that are named one by one; of more of them the first.
_MOST_MEMBERS = 6

#: What families of views are called whose name alone is no noun of a sentence.
_OF_FAMILY = {
    "word": "single words",
    "characters": "short runs of characters",
    "opening": "the first words",
    "closing": "the last words",
    "file": "facts of the file",
    "missing": "missing values",
    "form": "the form of the text",
}

#: What to do about a network that is worse than no network.
REMEDY = "name fewer shortcuts, try `--method.mixing NoMixing`, or train with `--method ERM`"

# Numbers and names


def format_rows(count: int) -> str:
    """Return a number of rows: ``1 row``, ``1,200 rows``."""
    return f"{count:,} row{'' if count == 1 else 's'}"


def format_value(value: Any) -> str:
    """Return a setting as a reader writes it: yes and no, thousands apart, lists by commas.

    >>> format_value(True), format_value(55000), format_value(0.005), format_value([1, "a"])
    ('yes', '55,000', '0.005', '1, a')
    """
    if is_missing(value) or isinstance(value, bool):
        return "–" if is_missing(value) else "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.0f}" if 1e5 < abs(value) < 1e15 else f"{value:g}"
    return ", ".join(map(format_value, value)) if isinstance(value, list | tuple) else str(value)


def format_name(name: object) -> str:
    """Return a name from the code as words: ``minority_ratio`` becomes ``minority ratio``."""
    return str(name).replace("_", " ")


def name_views(views: Sequence[str], terms: Sequence[str] = ()) -> str:
    """Return what a sentence calls views: columns as columns, and the family of all words by the words that tell.

    >>> name_views(["colour"]), name_views(["column:scanner"]), name_views(["places:1,1", "places:4,4"])
    ('colour', 'the column `scanner`', 'the places row 1 column 1 and row 4 column 4')
    >>> name_views(["word"], ["north", "south"])
    'the words `north` and `south`'
    >>> name_views([f"word:{one}" for one in "abcdefgh"], ["north"])
    'the words `a`, `b`, `c`, `d`, `e`, `f` and 2 more'
    """
    members: dict[str, list[str]] = {}
    for family, member in map(ViewName.of, views):
        members.setdefault(family, []).extend([member] if member else [])
    if "word" in views:
        members["word"] = list(dict.fromkeys([*members["word"], *terms]))
    named = []
    for family, found in members.items():
        told = [f"`{one}`" for one in found] if family in ("column", "word") else found
        if family == "places":
            told = [f"row {one.replace(',', ' column ')}" for one in found]
        plural = family.rstrip("s") + ("s" if len(found) > 1 else "")
        many = len(found) > _MOST_MEMBERS
        if family == "pair":
            named += [f"the relation of the columns `{one.replace(' & ', '` and `')}`" for one in found]
        elif many and family == "places":  # a list of them shows nobody where they are
            named.append(f"{len(found)} places")
        elif found:
            named.append(f"the {plural} {format_first(told, _MOST_MEMBERS) if many else format_list(told)}")
        else:
            named.append(_OF_FAMILY.get(family, family))
    return format_list(named)


def name_training(method: str, hidden: Sequence[str] = ()) -> str:
    """Return what tables call a training whose networks cannot see the ``hidden`` views.

    >>> name_training("ERM", ["column:site"])
    'ERM without the column site'
    """
    return f"{method} without {name_views(hidden)}".replace("`", "") if hidden else method


def is_plural(views: Sequence[str]) -> bool:
    """Return whether the name of the views is a plural."""
    return len(views) > 1 or any(view in _OF_FAMILY and view != "form" for view in views)


def capitalize(text: str) -> str:
    """Return a text that starts with a capital, all else as it is."""
    return text[:1].upper() + text[1:]


def describe_selection(selection: Any) -> str:
    """Return how a ``Selection`` chose a checkpoint, and what it took beyond the labels of the validation rows."""
    text = format_name(selection.rule)
    read = [name for name in selection.labels_read if name != "label"]
    return f"{text} (reads {format_list(read)})" if read else text


def of_minority(count: int, rows: int, named: Sequence[str]) -> list[str]:
    """Return what to tell where a method takes none of the training rows, or most of them, for bias-conflicting.

    ``named`` are views that a person calls a shortcut.

    >>> of_minority(0, 294, ["word:reef"])
    ['0 of 294 training rows are taken for bias-conflicting by the word `reef`, so nothing is corrected']
    """
    taken = f"{count:,} of {rows:,} training rows are taken for bias-conflicting"
    if named:
        told = f"{taken} by {name_views(named)}{'' if count else ', so nothing is corrected'}"
    else:
        told = f"{taken}: name the shortcut by `--shortcut VIEW`, or try other options of the method"
    return [] if 0 < count <= rows / 2 else [told]


def of_few_right(accuracy: float, share: float, name: str, corrects: bool) -> str:
    """Return what to tell of a network that is right no more often than who always names the commonest label."""
    right, most = (format_percent(one, unit=" %") for one in (accuracy, share))
    told = f"the network is right in {right} of the validation rows, always saying `{name}` in {most}"
    return f"{told}: {REMEDY if corrects else 'train longer, or lower --learning_rate'}"


# Is there a shortcut?


def of_finding(finding: Finding) -> str:
    """Return the verdict in a few sentences, with its figures."""
    said = ["You named this shortcut"] if finding.named else []
    if (look := finding.look) is not None:
        said += _of_look(finding, look)
    elif not finding.named:
        said += [_of_nothing(finding)]
    return ". ".join(said)


def _of_nothing(finding: Finding) -> str:
    if finding.judged < FEWEST:
        return f"{finding.judged} rows are too few to tell a shortcut by"
    if not finding.looks:
        return "There is no view of these inputs to look through"
    none = "Beside what you call legitimate no" if finding.legitimate else "No"
    return f"{none} narrow view says of more than two rows that they look like another label"


def _of_look(finding: Finding, look: Look) -> list[str]:
    """Return how often views are right, who follows them, and what that comes to."""
    view, several, none = name_views(look.views), is_plural(look.views), finding.verdict == "none found"
    they, them, verb = ("they", "them", "") if several else ("it", "it", "s")
    right, network, most = (
        format_percent(share, unit=" %") for share in (look.accuracy, look.network_accuracy, finding.commonest)
    )
    alone = f"{capitalize(view)} alone predict{verb} {right} of the held-out labels"
    told = [f"{alone}, the whole network {network}, the commonest label {most}"]
    if none and finding.tells_nothing:
        return [*told, f"{capitalize(they)} {'are' if several else 'is'} right no more often than the commonest label"]
    if look.rows:
        with_view, with_label = (round(look.rows * (share or 0)) for share in (look.follows_view, look.follows_label))
        where = f"On the {format_rows(look.rows)} where {they} clearly point{verb} to another label"
        told += [f"{where}, {finding.who} follows {them} in {with_view:,} and the label in {with_label:,}"]
    else:
        told += [f"{capitalize(they)} never clearly point{verb} to another label"]
    if look.may_leak(finding.commonest):
        told += [f"{capitalize(they)} may give the label away: leave out what will not be known in use"]
    return told + ["Together that is too little for a shortcut"] * none


def plain(finding: Finding) -> dict[str, Any]:
    """Return what ``report.json`` and ``audit.json`` hold of a finding: its values, and the sentence that says them."""
    return finding.to_dict() | {"sentence": of_finding(finding)}


def answer(finding: Finding) -> str:
    """Return the verdict with the views of a shortcut: ``shortcut: colour``, ``shortcut: none found``."""
    return f"shortcut: {name_views(finding.views) or finding.verdict}"


def advice(finding: Finding, asked: Sequence[str] | None = None) -> str:
    """Return what to say against a verdict; empty where a person said what the shortcut is.

    ``asked`` are the views that an audit asks about, by default those of the shortcut.
    """
    views = finding.views if asked is None else asked
    if not views:
        named: Sequence[str] = ()
        if finding.candidates and finding.verdict != "none found":  # else that would be a hint
            named = finding.candidates[0].views
        such = f", such as `{options('shortcut', named[:1])}`" if named else ""
        add = f"add `--shortcut VIEW`{such}. `logit-correction list views` shows the names"
        return f"If you know a shortcut, name it: {add}"
    if finding.verdict != "shortcut":
        return f"Only you can tell: add `{options('shortcut', views)}` or `{options('legitimate', views)}`"
    cause = "are legitimate causes" if is_plural(views) else "is a legitimate cause"
    told = f"If {name_views(views)} {cause} of the label, add `{options('legitimate', views)}`"
    return told if finding.looks else ""


def options(name: str, views: Sequence[str]) -> str:
    """Return ``--shortcut`` or ``--legitimate`` for each view, as a command line takes them; many are a family."""
    families = [ViewName.of(view).family for view in views]
    named = [view if families.count(of) <= _MOST_MEMBERS else of for of, view in zip(families, views, strict=True)]
    return " ".join(f"--{name} {shlex.quote(view)}" for view in dict.fromkeys(named))
