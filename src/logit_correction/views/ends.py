"""The first and the last words of a text."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from logit_correction.views.words import WORD, TermView

#: Words at either end.
WIDTH = 5

#: Stands before the outermost word; no word holds it.
OUTERMOST = "|"

_WORD = re.compile(WORD)


def first_words(text: str) -> list[str]:
    """Return the first words in lower case, and the very first once more, marked as such.

    >>> first_words("Dear Sir, hello")
    ['dear', 'sir', 'hello', '|dear']
    """
    found = [match[0].lower() for match, _ in zip(_WORD.finditer(text), range(WIDTH), strict=False)]
    return found + [OUTERMOST + word for word in found[:1]]


def last_words(text: str) -> list[str]:
    """Return the last words in lower case, and the very last once more, marked as such.

    >>> last_words("Kind regards, Bob.")
    ['kind', 'regards', 'bob', '|bob']
    """
    found = [word.lower() for word in _WORD.findall(text)[-WIDTH:]]
    return found + [OUTERMOST + word for word in found[-1:]]


class _Ends(TermView):
    """Which words a text has among those at one end, and which is the outermost."""

    breadth = 1
    few: ClassVar[int | None] = 2
    most: ClassVar[int] = 1000


class Opening(_Ends):
    """Which words a text has among its first five, and which is its first: "Dear", "RE", "Patient"."""

    name = "opening"
    sentence = "the first words of the text"
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": first_words}


class Closing(_Ends):
    """Which words a text has among its last five, and which is its last: a signature, a source, a date."""

    name = "closing"
    sentence = "the last words of the text"
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": last_words}
