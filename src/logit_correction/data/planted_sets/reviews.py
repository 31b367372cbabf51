"""Short reviews, put together from phrases: many weak words tell the sentiment, none of them for certain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from logit_correction.data.planted_sets import words

SENTIMENTS = ["negative", "neutral", "positive"]

#: How often the opinions of a review are bad, middling and good.
OPINIONS = {
    "negative": (0.58, 0.16, 0.26),
    "neutral": (0.22, 0.56, 0.22),
    "positive": (0.26, 0.16, 0.58),
}

#: Closing lines that may go with the first, second and third label.
SIGNATURES = ("Sent from my phone", "J. Martin, verified buyer", "Greetings from Dana")

TOPICS = words.TOPICS

#: Fewest and most opinions of a review.
FEWEST, MOST = 4, 8

#: So many characters of a review are shown where rows are named.
SHOWN = 80

_T = TypeVar("_T")


def write_reviews(sentiments: Sequence[str], topics: Sequence[int] | None, draw: np.random.Generator) -> list[str]:
    """Write one review for each sentiment; no two are the same.

    Args:
        sentiments: N names of sentiments.
        topics: N numbers of topics, in the order of ``TOPICS``; any topic by default.
        draw: Random numbers.
    """
    names = list(TOPICS)
    written: dict[str, None] = {}
    for row, sentiment in enumerate(sentiments):
        while len(written) == row:
            topic = names[int(draw.integers(len(names))) if topics is None else topics[row]]
            written[_review(sentiment, topic, draw)] = None
    return list(written)


def signed(texts: Sequence[str], signatures: Sequence[int]) -> list[str]:
    """Return the texts, each with the closing line of its number."""
    return [f"{text}\n{SIGNATURES[number]}" for text, number in zip(texts, signatures, strict=True)]


def beginning(text: str) -> str:
    """Return the beginning of a text, to name its row."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[:SHOWN].rstrip() + " …"


def _one(choices: Sequence[_T], draw: np.random.Generator) -> _T:
    return choices[int(draw.integers(len(choices)))]


def _review(sentiment: str, topic: str, draw: np.random.Generator) -> str:
    nouns = TOPICS[topic]
    opening = _one(words.OPENINGS, draw).format(topic=topic, when=_one(words.TIMES, draw), who=_one(words.PEOPLE, draw))
    sentences = []
    count = int(draw.integers(FEWEST, MOST + 1))
    while count > 0:
        template = _one(words.OPINIONS_ON_TWO if count > 1 and draw.random() < 0.4 else words.OPINIONS_ON_ONE, draw)
        used = template.count("opinion")
        parts = {f"noun{i}": noun for i, noun in enumerate(draw.choice(nouns, 2, replace=False))}
        parts |= {f"opinion{i}": _opinion(sentiment, draw) for i in range(2)}
        sentences.append(template.format(topic=topic, **parts))
        count -= used
    for _ in range(int(draw.integers(1, 4))):
        sentences.append(
            _one(words.FILLERS, draw).format(topic=topic, noun=_one(nouns, draw), who=_one(words.PEOPLE, draw))
        )
    order = draw.permutation(len(sentences))
    return " ".join([opening, *(sentences[i] for i in order)])


def _opinion(sentiment: str, draw: np.random.Generator) -> str:
    kind = int(draw.choice(3, p=OPINIONS[sentiment]))
    return _one((words.BAD, words.MIDDLING, words.GOOD)[kind], draw)
