"""Short runs of characters of a text."""

from __future__ import annotations

from typing import Any, ClassVar

from logit_correction.views.words import TermView

#: Shortest and longest run.
RUNS = (3, 5)

#: Characters at either end of a text that are looked at: long texts would take minutes.
SEEN = 1000


def shortened(text: str) -> str:
    """Return a text in lower case, without the middle of a long one."""
    if len(text) > 2 * SEEN:
        text = f"{text[:SEEN]} {text[-SEEN:]}"
    return text.lower()


class Characters(TermView):
    """Which of the 3,000 commonest runs of three to five characters a text has, in lower case, none across blanks.

    They see what words do not: punctuation, markup, parts of words, and languages without blanks. Of a text of more
    than 2,000 characters only the first and the last 1,000 are looked at. A blank stands for the edge of a word.
    """

    name = "characters"
    sentence = "short runs of characters, one for each label"
    breadth = 0
    few: ClassVar[int | None] = 1
    most: ClassVar[int] = 3000
    terms_by: ClassVar[dict[str, Any]] = {"analyzer": "char_wb", "ngram_range": RUNS, "preprocessor": shortened}
