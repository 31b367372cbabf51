"""Terms of texts, such as words and parts of words, as people read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from logit_correction.shortcuts.summaries import ContrastRow
from logit_correction.views.texts import EDGE_MARK, TermView, shorten_text

#: Least share of the rows with either of two terms, of parts of words with the rarer, from which both count as one.
MIN_OVERLAP = 0.8

#: Words that are shown with a part of words.
MAX_EXAMPLES = 3


def format_terms(view: TermView) -> list[str]:
    """Return the terms of a view for people: those at the edge of a text with a note, parts of words with hyphens.

    The terms of the view ``characters`` hold a blank at the edge of a word, which nobody sees.
    """
    if view.name == "characters":
        return [_format_part_of_words(term) for term in view.terms]
    note = {"opening": " (first word)", "closing": " (last word)"}.get(view.name, "")
    return [term.removeprefix(EDGE_MARK) + note if term.startswith(EDGE_MARK) else term for term in view.terms]


def _format_part_of_words(term: str) -> str:
    """Return ``-son`` of ``son`` at the end of words, ``re-`` at their start, ``-son-`` anywhere, and whole words."""
    start = "" if term.startswith(" ") else "-"
    end = "" if term.endswith(" ") else "-"
    return f"{start}{term.strip()}{end}"


def select_distinct_terms(
    order: Iterable[int], has_term: NDArray[np.bool_], max_terms: int, are_parts: bool
) -> list[int]:
    """Return the first terms in an order, without those that nearly the same rows have as an earlier one.

    Args:
        order: Positions of terms, the most important one first.
        has_term: (n, F) which rows have which terms.
        max_terms: Number of terms to return, at most.
        are_parts: Whether the terms are parts of words. A longer part of the same words is in fewer rows, and a shorter
            one in more, so it is enough that nearly all rows with the rarer of two have both.
    """
    selected: list[int] = []
    for term in order:
        rows = has_term[:, [term]]
        others = has_term[:, selected]
        rarer = np.minimum(rows.sum(axis=0), others.sum(axis=0))
        compared = rarer if are_parts else (rows | others).sum(axis=0)
        if not ((rows & others).sum(axis=0) >= MIN_OVERLAP * np.maximum(compared, 1)).any():
            selected.append(term)
        if len(selected) == max_terms:
            break
    return selected


def find_example_words(term: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return the first words that hold a term of the view ``characters``, except the term itself.

    >>> find_example_words("son ", ["larson", "leo", "olson", "son"])
    ('larson', 'olson')
    """
    examples = (word for word in words if term in f" {word} " and word != term.strip())
    return tuple(islice(examples, MAX_EXAMPLES))


def list_words_by_frequency(texts: Iterable[str]) -> list[str]:
    """Return the words of texts, the commonest first.

    >>> list_words_by_frequency(["Ida Olson", "Eva Larson", "Leo Larson"])
    ['larson', 'ida', 'olson', 'eva', 'leo']
    """
    return [word for word, _ in Counter(word for text in texts for word in shorten_text(text).split()).most_common()]


def format_term_rows(view: TermView, rows: Iterable[ContrastRow], texts: Sequence[str]) -> tuple[ContrastRow, ...]:
    """Return lines of a contrast with their terms as people read them; parts of words with words that hold them.

    Args:
        view: Whose terms they are.
        rows: Lines with terms of the view.
        texts: With the words.
    """
    names = dict(zip(view.terms, format_terms(view), strict=True))
    words = list_words_by_frequency(texts) if view.name == "characters" else []
    return tuple(
        replace(row, term=names[row.term or ""], examples=find_example_words(row.term or "", words)) for row in rows
    )
