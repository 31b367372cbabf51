"""The first and the last words of a text."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from logit_correction.views.words import WORD, TermView

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

#: Words at either end.
WIDTH = 5

#: Stands before the outermost word; no word holds it.
OUTERMOST = "|"

_WORD = re.compile(WORD)


class _Ends(TermView):
    """Which words a text has among those at one end, and which is the outermost."""

    breadth = 1
    few: ClassVar[int | None] = 2
    most: ClassVar[int] = 1000

    def vectorizer(self, **options: Any) -> CountVectorizer:
        """Return what finds the words at the end."""
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(analyzer=self.words, **options)

    @staticmethod
    @abstractmethod
    def words(text: str) -> list[str]:
        """Return the words at the end in lower case, and the outermost once more, marked as such."""


class Opening(_Ends):
    """Which words a text has among its first five, and which is its first: "Dear", "RE", "Patient"."""

    name = "opening"
    sentence = "the first words of the text"

    @staticmethod
    def words(text: str) -> list[str]:
        """Return the first words.

        >>> Opening.words("Dear Sir, hello")
        ['dear', 'sir', 'hello', '|dear']
        """
        found = [match[0].lower() for match, _ in zip(_WORD.finditer(text), range(WIDTH), strict=False)]
        return found + [OUTERMOST + word for word in found[:1]]


class Closing(_Ends):
    """Which words a text has among its last five, and which is its last: a signature, a source, a date."""

    name = "closing"
    sentence = "the last words of the text"

    @staticmethod
    def words(text: str) -> list[str]:
        """Return the last words.

        >>> Closing.words("Kind regards, Bob.")
        ['kind', 'regards', 'bob', '|bob']
        """
        found = [word.lower() for word in _WORD.findall(text)[-WIDTH:]]
        return found + [OUTERMOST + word for word in found[-1:]]
