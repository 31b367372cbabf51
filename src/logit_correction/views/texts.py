"""Views of texts: words, short runs of characters, the words at both ends, and the form.

They express shortcuts such as a signature, a template's opening, a word that only one source uses, or a habit of
punctuation, but not what a text says.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
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

#: Limit on the texts from which a vocabulary is learnt; more would give the same one.
MAX_VOCABULARY_TEXTS = 20_000

#: Characters that are words by themselves: of scripts without blanks (Thai to Burmese, Khmer, Japanese, Chinese), emoji
#: and other pictures.
ALONE = (
    r"\u0e00-\u109f\u1780-\u17ff\u2190-\u2bff\u3005-\u3007\u3040-\u312f\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    r"\U0001f000-\U0003ffff"
)

#: Characters that a word may hold after its first letter or digit: accents and vowel signs.
WITHIN = r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"

#: A word in any script.
WORD_PATTERN = re.compile(rf"[{ALONE}]|[^\W_{ALONE}](?:[^\W_{ALONE}]|[{WITHIN}])*")

#: Two neighbours in a script without blanks.
PAIR_PATTERN = re.compile(rf"(?=([{ALONE}]{{2}}))")

#: Precedes the first word of an opening and the last word of a closing; no word holds it.
EDGE_MARK = "|"


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, as views and networks count them.

    In scripts without blanks, and of emoji, each character is a word, and so is each pair of neighbours.

    >>> split_words("I don't 很好"), split_words("naïve e\u0301t\u00e9")
    (['i', 'don', 't', '很', '好', '很好'], ['naïve', 'été'])
    """
    if text.isascii():
        return WORD_PATTERN.findall(text.lower())
    text = _fold_text(text)
    return WORD_PATTERN.findall(text) + PAIR_PATTERN.findall(text)


def _fold_text(text: str) -> str:
    """Return a text in the form in which words are compared: lower case, and one way to write each character."""
    return normalize_text(text, "NFKC").lower()


class TextView(View):
    """The base of views that read ``inputs.texts``."""

    needs = "texts"

    def is_applicable(self, inputs: ViewInputs) -> bool:
        return inputs.texts is not None


class TermView(TextView):
    """Which of the commonest terms a text has: 1 for a term that occurs once or more, else 0.

    Attributes:
        max_terms: Limit on the number of terms.
        min_rows: How many texts must have a term.
        analyzer_options: What a term is, as options of scikit-learn's ``CountVectorizer``.
        terms: The terms that the view has learnt, the commonest first.
    """

    max_terms: int
    min_rows = 5
    analyzer_options: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        self.terms: list[str] = []

    def _make_vectorizer(self, **options: Any) -> CountVectorizer:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(binary=True, **self.analyzer_options, **options)

    def fit(self, inputs: ViewInputs) -> None:
        """Learn the commonest terms, except those that nearly all texts have; of equally common ones the first."""
        texts = inputs.texts or []
        step = max(1, len(texts) / MAX_VOCABULARY_TEXTS)
        sample = [texts[int(number * step)] for number in range(min(len(texts), MAX_VOCABULARY_TEXTS))]
        vectorizer = self._make_vectorizer()
        self.terms = []
        try:
            has_term = vectorizer.fit_transform(sample)
        except ValueError:  # no text has a term
            return
        num_rows = np.bincount(has_term.indices)
        min_rows = max(self.min_rows, math.ceil(0.002 * len(sample)))
        by_rows = np.argsort(-num_rows, kind="stable")
        learnt = by_rows[(num_rows[by_rows] >= min_rows) & (num_rows[by_rows] < 0.95 * len(sample))]
        self.terms = vectorizer.get_feature_names_out()[learnt[: self.max_terms]].tolist()

    def features(self, inputs: ViewInputs) -> Tensor:
        texts = inputs.texts or []
        if not self.terms:
            return torch.zeros(len(texts), 1)
        return torch.from_numpy(
            self._make_vectorizer(vocabulary=self.terms, dtype=np.float32).transform(texts).toarray()
        )


class Words(TermView):
    """Which of the 2,000 commonest words a text has, in lower case; or whether it has one that the user names."""

    name = "word"
    breadth = 0
    max_per_label: int | None = 1
    max_terms = 2000
    analyzer_options: ClassVar[dict[str, Any]] = {"analyzer": split_words}

    def __init__(self, word: str | None = None) -> None:
        """Make the view of all words, or of one.

        Args:
            word: The word, in lower case; None for the commonest ones.
        """
        super().__init__()
        self.word = word
        if word is not None:
            self.name = f"word:{word}"
            self.terms = [word]
            self.max_per_label = None  # if a user names several words, all count

    @classmethod
    def make_member(cls, member: str, inputs: ViewInputs) -> View:
        """Return the view of one word; ``InputError`` if fewer than 5 texts have it."""
        word = _fold_text(member)
        view = cls(word)
        # Only texts that contain it are split into words, which takes long.
        texts = [text for text in inputs.texts or [] if word in _fold_text(text)]
        rows = int(view.features(ViewInputs(num_rows=len(texts), inputs=inputs.inputs, texts=texts)).sum())
        if rows < cls.min_rows:
            raise InputError(f"the word {member!r} is in {rows} texts: name one that is in at least {cls.min_rows}")
        return view

    def fit(self, inputs: ViewInputs) -> None:
        if self.word is None:
            super().fit(inputs)


def shorten_text(text: str) -> str:
    """Return a text in lower case, of a long one only both ends: finding all its runs would take minutes."""
    return (f"{text[:1000]} {text[-1000:]}" if len(text) > 2000 else text).lower()


class Characters(TermView):
    """Which of the 3,000 commonest runs of three to five characters a text has, in lower case, none across blanks.

    They express what words do not: punctuation, markup, parts of words, and languages without blanks. Of a text of more
    than 2,000 characters only the first and the last 1,000 are read. A blank marks the edge of a word.
    """

    name = "characters"
    breadth = 0
    max_per_label: int | None = 1
    max_terms = 3000
    analyzer_options: ClassVar[dict[str, Any]] = {
        "analyzer": "char_wb",
        "ngram_range": (3, 5),
        "preprocessor": shorten_text,
    }


def extract_first_words(text: str) -> list[str]:
    """Return the first five words in lower case, and the very first once more with a mark.

    >>> extract_first_words("Dear Sir, hello")
    ['dear', 'sir', 'hello', '|dear']
    """
    words = WORD_PATTERN.findall(_fold_text(text))[:5]
    return words + [EDGE_MARK + word for word in words[:1]]


class Opening(TermView):
    """Which words a text has among its first five, and which is its first: "Dear", "RE", "Patient"."""

    name = "opening"
    max_per_label = 2
    max_terms = 1000
    analyzer_options: ClassVar[dict[str, Any]] = {"analyzer": extract_first_words}


def extract_last_words(text: str) -> list[str]:
    """Return the last five words in lower case, and the very last once more with a mark."""
    words = WORD_PATTERN.findall(_fold_text(text))[-5:]
    return words + [EDGE_MARK + word for word in words[-1:]]


class Closing(TermView):
    """Which words a text has among its last five, and which is its last: a signature, a source, a date."""

    name = "closing"
    max_per_label = 2
    max_terms = 1000
    analyzer_options: ClassVar[dict[str, Any]] = {"analyzer": extract_last_words}


class Form(TextView):
    """The form of a text: its length, and shares of kinds of characters.

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
        return torch.tensor([self._measure_form(text) for text in inputs.texts or []])

    def _measure_form(self, text: str) -> list[float]:
        """Return the features of one text, in the order of ``names``."""
        counts = Counter(text)
        words = text.split()
        word_length = sum(map(len, words)) / max(1, len(words))
        shares = [
            sum(count for character, count in counts.items() if is_kind(character)) / max(1, len(text))
            for is_kind in self.kinds.values()
        ]
        marks = [math.log1p(counts[mark]) for mark in self.marks]
        return [math.log1p(len(text)), math.log1p(len(words)), word_length, *shares, *marks]
