"""Views of texts: words, short runs of characters, the words at both ends, and the form."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.types import ViewInputs
from logit_correction.unicode_text import normalize_text
from logit_correction.views.base import View

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

#: Texts of which words are learnt; more would find the same ones.
MAX_VOCABULARY_TEXTS = 20_000

#: Characters that are words of their own: of scripts without blanks (Thai to Burmese, Khmer, Japanese, Chinese), emoji
#: and other pictures. What stands within a word beside letters and digits: accents and vowel signs.
ALONE = (
    r"\u0e00-\u109f\u1780-\u17ff\u2190-\u2bff\u3005-\u3007\u3040-\u312f\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    r"\U0001f000-\U0003ffff"
)
WITHIN = r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"

#: A word, in any script, and two neighbours of those that have no blanks.
WORD_PATTERN = re.compile(rf"[{ALONE}]|[^\W_{ALONE}](?:[^\W_{ALONE}]|[{WITHIN}])*")
PAIR_PATTERN = re.compile(rf"(?=([{ALONE}]{{2}}))")

#: What stands before the first and the last word of a text; no word holds it.
EDGE_MARK = "|"


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, as views and networks count them.

    Of scripts without blanks, and of emoji, each character is a word, and so is each pair of neighbours.

    >>> split_words("I don't 很好"), split_words("naïve e\u0301t\u00e9")
    (['i', 'don', 't', '很', '好', '很好'], ['naïve', 'été'])
    """
    if text.isascii():
        return WORD_PATTERN.findall(text.lower())
    text = normalize_text(text, "NFKC").lower()
    return WORD_PATTERN.findall(text) + PAIR_PATTERN.findall(text)


class TextView(View):
    """A view of texts."""

    needs = "texts"

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return inputs.texts is not None


class TermView(TextView):
    """Which of the commonest terms a text has: 1 where it has one, however often, else 0.

    Attributes:
        most: Terms at most.
        least_rows: Texts at least that must have a term.
        terms_by: What a term is, as options of scikit-learn's ``CountVectorizer``.
        terms: The terms that the view has learnt, the commonest first.
    """

    most: ClassVar[int]
    least_rows: ClassVar[int] = 5
    terms_by: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        self.terms: list[str] = []

    def _vectorizer(self, **options: Any) -> CountVectorizer:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(binary=True, **self.terms_by, **options)

    def fit(self, inputs: ViewInputs) -> None:
        """Learn the commonest terms that not nearly all texts have; of equally common ones the first."""
        texts = inputs.texts or []
        step = max(1, len(texts) / MAX_VOCABULARY_TEXTS)
        some = [texts[int(i * step)] for i in range(min(len(texts), MAX_VOCABULARY_TEXTS))]
        vectorizer, self.terms = self._vectorizer(), []
        try:
            present = vectorizer.fit_transform(some)
        except ValueError:  # no text has a term
            return
        terms, rows = np.asarray(vectorizer.get_feature_names_out()), np.bincount(present.indices)
        fitting = (rows >= max(self.least_rows, math.ceil(0.002 * len(some)))) & (rows < 0.95 * len(some))
        terms, rows = terms[fitting], rows[fitting]
        self.terms = [str(term) for term in terms[np.argsort(-rows, kind="stable")[: self.most]]]

    def features(self, inputs: ViewInputs) -> Tensor:
        texts = inputs.texts or []
        if not self.terms:
            return torch.zeros(len(texts), 1)
        return torch.from_numpy(self._vectorizer(vocabulary=self.terms, dtype=np.float32).transform(texts).toarray())


class Words(TermView):
    """Which of the 2,000 commonest words a text has, in lower case; or whether it has one that a person names."""

    name = "word"
    breadth = 0
    max_per_label: int | None = 1
    most = 2000
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": split_words}

    def __init__(self, word: str | None = None) -> None:
        """Look for all words, or for one alone."""
        super().__init__()
        self.word = word
        if word is not None:  # of several that are named each counts
            self.name, self.terms, self.max_per_label = f"word:{word}", [word], None

    @classmethod
    def make_member(cls, member: str, inputs: ViewInputs) -> View:
        view = cls(word := normalize_text(member, "NFKC").lower())
        # Few are to be split into words.
        some = [text for text in inputs.texts or [] if word in normalize_text(text, "NFKC").lower()]
        there = view.features(ViewInputs(num_rows=len(some), inputs=inputs.inputs, texts=some))
        if (rows := int(there.sum())) < cls.least_rows:
            raise InputError(f"the word {member!r} is in {rows} texts: name one that is in at least {cls.least_rows}")
        return view

    def fit(self, inputs: ViewInputs) -> None:
        if self.word is None:
            super().fit(inputs)


def shorten_text(text: str) -> str:
    """Return a text in lower case, without the middle of a long one, in which to look for runs would take minutes."""
    return (f"{text[:1000]} {text[-1000:]}" if len(text) > 2000 else text).lower()


class Characters(TermView):
    """Which of the 3,000 commonest runs of three to five characters a text has, in lower case, none across blanks.

    They see what words do not: punctuation, markup, parts of words, and languages without blanks. Of a text of more
    than 2,000 characters only the first and the last 1,000 are looked at. A blank stands for the edge of a word.
    """

    name = "characters"
    breadth = 0
    max_per_label: int | None = 1
    most = 3000
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": "char_wb", "ngram_range": (3, 5), "preprocessor": shorten_text}


def extract_first_words(text: str) -> list[str]:
    """Return the first words in lower case, and the very first once more, marked as such.

    >>> extract_first_words("Dear Sir, hello")
    ['dear', 'sir', 'hello', '|dear']
    """
    words = [match[0] for match in islice(WORD_PATTERN.finditer(normalize_text(text, "NFKC").lower()), 5)]
    return words + [EDGE_MARK + word for word in words[:1]]


class Opening(TermView):
    """Which words a text has among its first five, and which is its first: "Dear", "RE", "Patient"."""

    name = "opening"
    max_per_label = 2
    most = 1000
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": extract_first_words}


def extract_last_words(text: str) -> list[str]:
    """Return the last words in lower case, and the very last once more, marked as such."""
    words = WORD_PATTERN.findall(normalize_text(text, "NFKC").lower())[-5:]
    return words + [EDGE_MARK + word for word in words[-1:]]


class Closing(TermView):
    """Which words a text has among its last five, and which is its last: a signature, a source, a date."""

    name = "closing"
    max_per_label = 2
    most = 1000
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": extract_last_words}


class Form(TextView):
    """How a text is written, not what it says.

    ln(1 + characters), ln(1 + words), mean length of a word, the shares of ``kinds`` in [0, 1], and ln(1 + count) of
    each of ``marks``; the last is the line break.
    """

    name = "form"
    kinds: ClassVar[dict[str, Callable[[str], bool]]] = {
        "capitals": str.isupper,
        "digits": str.isdigit,
        "punctuation": lambda character: unicodedata.category(character)[0] in "PS",  # and symbols
        "white space": str.isspace,
        "not ASCII": lambda character: not character.isascii(),
    }
    marks = ".,;:!?'\"()[]{}<>-–—_/\\&@#%*+=$€£~^|`…“”\u2018’«»•\n"
    names = (
        "characters",
        "words",
        "length of words",
        *(f"share of {kind}" for kind in kinds),
        *marks[:-1],
        "line breaks",
    )

    def features(self, inputs: ViewInputs) -> Tensor:
        return torch.tensor([self._of_text(text) for text in inputs.texts or []])

    def _of_text(self, text: str) -> list[float]:
        count, words, length = Counter(text), text.split(), max(1, len(text))
        shares = [sum(rows for one, rows in count.items() if test(one)) / length for test in self.kinds.values()]
        of_words = math.log1p(len(words)), sum(map(len, words)) / max(1, len(words))
        return [math.log1p(len(text)), *of_words, *shares, *(math.log1p(count[mark]) for mark in self.marks)]
