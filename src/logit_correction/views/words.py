"""The words of a text, in any order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from logit_correction.views.base import CHUNK, View, ViewInputs

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

#: Rows of which a vocabulary is learnt; more would find the same terms.
ROWS = 20_000

#: In how many rows a term must be at least, and in what share of them; and in what share it must not be.
LEAST_ROWS, LEAST_SHARE, MOST_SHARE = 5, 0.002, 0.95

#: Letters and digits of any script, without the underscore.
WORD = r"(?u)[^\W_]+"


class TermView(View):
    """Which of the commonest terms a text has: 1 where it has one, however often, else 0.

    Attributes:
        most: Terms at most.
        terms_by: What a term is, as options of scikit-learn's ``CountVectorizer``.
    """

    needs = "texts"
    most: ClassVar[int]
    terms_by: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        self.terms: list[str] = []

    def can_look(self, inputs: ViewInputs) -> bool:
        """Return whether there are texts."""
        return inputs.texts is not None

    def vectorizer(self, **options: Any) -> CountVectorizer:
        """Return what finds the terms of texts, with further options."""
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(binary=True, **self.terms_by, **options)

    def fit(self, inputs: ViewInputs) -> None:
        """Learn the commonest terms that not nearly all texts have; of equally common ones the first."""
        texts = inputs.texts or []
        some = [texts[row] for row in _spread_rows(len(texts))]
        vectorizer = self.vectorizer()
        try:
            present = vectorizer.fit_transform(some)
        except ValueError:  # no text has a term
            self.terms = []
            return
        found = np.asarray(vectorizer.get_feature_names_out())
        rows = np.bincount(present.indices, minlength=len(found))
        fitting = (rows >= max(LEAST_ROWS, math.ceil(LEAST_SHARE * len(some)))) & (rows < MOST_SHARE * len(some))
        found, rows = found[fitting], rows[fitting]
        self.terms = [str(term) for term in found[np.argsort(-rows, kind="stable")[: self.most]]]

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return which terms each text has, (N, terms) of 0 and 1; one column of zeros where no term was found."""
        texts = inputs.texts or []
        values = torch.zeros(len(texts), max(1, len(self.terms)))
        if self.terms:
            vectorizer = self.vectorizer(vocabulary=self.terms, dtype=np.float32)
            for start in range(0, len(texts), CHUNK):
                there = vectorizer.transform(texts[start : start + CHUNK]).toarray()
                values[start : start + CHUNK] = torch.from_numpy(there)
        return values


class Words(TermView):
    """Which of the 2,000 commonest words a text has, in lower case."""

    name = "word"
    sentence = "single words, one for each label"
    breadth = 0
    few: ClassVar[int | None] = 1
    most: ClassVar[int] = 2000
    terms_by: ClassVar[dict[str, Any]] = {"token_pattern": WORD}


def _spread_rows(count: int) -> list[int]:
    """Return rows from which to learn: all, or so many at equal distances.

    >>> _spread_rows(3)
    [0, 1, 2]
    """
    step = max(1, count / ROWS)
    return [int(i * step) for i in range(min(count, ROWS))]
