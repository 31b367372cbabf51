"""Names of views, and how sentences, tables and command lines write them.

A *view* is a low-capacity probe: a few features of an input that keep one kind of information, such as its colours or
one column (package ``views``). It is called by a family, such as ``colour``, or by a family and a member of
it, such as ``column:scanner``. Pages, the console and notebooks all write such names as this module does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logit_correction.formatting import format_first, format_list

#: Breadth (see ``View``) of views of rich statistics.
RICH = 2

#: Breadth of a view of the whole input. A head on it may predict the label without any shortcut.
EVERYTHING = 3

#: Members of a family that a sentence names one by one; of more, it names the first and counts the others.
MAX_NAMED_MEMBERS = 6

#: The same limit in the short names of tables.
MAX_NAMED_MEMBERS_SHORT = 2

#: Phrases for families whose name alone is not a noun phrase.
FAMILY_PHRASES = {
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

    >>> ViewName.parse("column:scanner"), str(ViewName("places", "1,1"))
    (ViewName(family='column', member='scanner'), 'places:1,1')
    """

    family: str
    member: str = ""

    @classmethod
    def parse(cls, name: str) -> ViewName:
        """Return the parts of a name."""
        family, _, member = name.partition(":")
        return cls(family, member)

    def __str__(self) -> str:
        return f"{self.family}:{self.member}" if self.member else self.family


class WordForms(NamedTuple):
    """Words of a sentence whose subject is one view or several."""

    subject: str
    object: str
    be: str
    predict: str
    point: str
    legitimate_cause: str


SINGULAR = WordForms("it", "it", "is", "predicts", "points", "a legitimate cause")
PLURAL = WordForms("they", "them", "are", "predict", "point", "legitimate causes")


def is_plural_phrase(views: Sequence[str]) -> bool:
    """Return whether the phrase of ``format_view_names`` is a plural."""
    return len(views) > 1 or any(view in FAMILY_PHRASES and view != "form" for view in views)


def choose_word_forms(views: Sequence[str]) -> WordForms:
    """Return the pronouns and verbs that agree with the phrase of ``format_view_names``.

    >>> choose_word_forms(["colour"]).predict, choose_word_forms(["column:age", "column:site"]).subject
    ('predicts', 'they')
    """
    return PLURAL if is_plural_phrase(views) else SINGULAR


def are_column_views(views: Sequence[str]) -> bool:
    """Return whether all views are columns of a table; False without views."""
    return {ViewName.parse(view).family for view in views} == {"column"}


def format_view_names(views: Sequence[str], terms: Sequence[str] = (), short: bool = False) -> str:
    """Return the phrase by which a sentence or a table calls views.

    Args:
        views: Names of views.
        terms: Words that are named where the view ``word``, which sees all words, is among the views.
        short: Use the short form of tables: count the members of a family, and name the first two.

    >>> format_view_names(["colour"]), format_view_names(["column:scanner"])
    ('colour', 'the column `scanner`')
    >>> format_view_names(["places:1,1", "places:4,4"])
    'the places row 1 column 1 and row 4 column 4'
    >>> format_view_names(["places:2,3", "places:2,2", "places:4,2"])
    '3 places of the images'
    >>> format_view_names(["word"], ["north", "south"])
    'the words `north` and `south`'
    >>> format_view_names([f"word:{letter}" for letter in "abcdefgh"], ["north"])
    'the words `a`, `b`, `c`, `d`, `e`, `f` and 2 more'
    >>> format_view_names([f"word:{letter}" for letter in "abc"], short=True)
    '3 words: `a`, `b` ...'
    """
    families = _group_by_family(views, terms).items()
    return format_list(
        [phrase for family, members in families for phrase in _format_family_names(family, members, short)]
    )


def _format_family_names(family: str, members: Sequence[str], short: bool) -> list[str]:
    names = _format_member_names(family, members)
    limit = MAX_NAMED_MEMBERS_SHORT if short or family == "places" else MAX_NAMED_MEMBERS
    noun = family.rstrip("s") + ("s" if len(members) > 1 else "")
    if family == "pair":
        return [f"the relation of the columns {name}" for name in names]
    if not members:
        return [FAMILY_PHRASES.get(family, family)]
    if len(members) <= limit:
        return [f"the {noun} {format_list(names)}"]
    if family == "places":  # a long list of cells cannot be pictured
        return [f"{len(members)} places" + ("" if short else " of the images")]
    if short:
        return [f"{len(members)} {noun}: {', '.join(names[:limit])} ..."]
    return [f"the {noun} {format_first(names, limit)}"]


def list_full_view_names(groups: Iterable[Sequence[str]]) -> list[str]:
    """Return a line for each list of members that the short names of these groups of views cut, each list once.

    >>> list_full_view_names([["colour", *(f"word:{letter}" for letter in "abc")], ["word:a"]])
    ['3 words: `a`, `b` and `c`']
    """
    lines = []
    for views in groups:
        for family, members in _group_by_family(views).items():
            if len(members) > MAX_NAMED_MEMBERS_SHORT and family != "pair":
                lines.append(
                    f"{len(members)} {family.rstrip('s')}s: {format_list(_format_member_names(family, members))}"
                )
    return list(dict.fromkeys(lines))


def _group_by_family(views: Sequence[str], terms: Sequence[str] = ()) -> dict[str, list[str]]:
    members: dict[str, list[str]] = {}
    for family, member in map(ViewName.parse, views):
        members.setdefault(family, []).extend([member] if member else [])
    if "word" in views:
        members["word"] = list(dict.fromkeys([*members["word"], *terms]))
    return members


def _format_member_names(family: str, members: Sequence[str]) -> list[str]:
    if family == "places":
        return [f"row {member.replace(',', ' column ')}" for member in members]
    if family == "pair":
        return [f"`{member.replace(' & ', '` and `')}`" for member in members]
    return [f"`{member}`" for member in members] if family in ("column", "word") else list(members)


def format_training_name(method: str, hidden_views: Sequence[str] = ()) -> str:
    """Return how tables call a training of a method whose network does not see the hidden views.

    Args:
        method: Name of the method.
        hidden_views: Names of views.

    >>> format_training_name("ERM", ["column:site"])
    'ERM without the column site'
    """
    if not hidden_views:
        return method
    return f"{method} without {format_view_names(hidden_views, short=True)}".replace("`", "")


def format_view_options(option: str, views: Sequence[str]) -> str:
    """Return words of a command line that give an option once for each view; a long family is given as a whole.

    Args:
        option: Name of the option, without dashes.
        views: Names of views.

    >>> format_view_options("shortcut", ["colour", "column:the site"])
    "--shortcut colour --shortcut 'column:the site'"
    """
    families = [ViewName.parse(view).family for view in views]
    values = [
        family if families.count(family) > MAX_NAMED_MEMBERS else view
        for family, view in zip(families, views, strict=True)
    ]
    return " ".join(f"--{option} {shlex.quote(value)}" for value in dict.fromkeys(values))
