"""Short reviews, put together from phrases: many weak words tell the sentiment, none of them for certain."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from logit_correction.bench.planted_sets import words

SENTIMENTS = ["negative", "neutral", "positive"]

#: How often the opinions of a review are bad, middling and good.
OPINIONS = {
    "negative": (0.64, 0.14, 0.22),
    "neutral": (0.18, 0.64, 0.18),
    "positive": (0.22, 0.14, 0.64),
}

#: Closing lines that may go with the first, second and third label.
SIGNATURES = ("Sent from my phone", "J. Martin, verified buyer", "Greetings from Dana")

TOPICS = words.TOPICS

#: Fewest and most opinions of a review.
FEWEST, MOST = 4, 8

#: Share of sentences with two opinions, where two are still to come.
SHARE_ON_TWO = 0.4


def write_reviews(sentiments: Sequence[str], topics: Sequence[int] | None, draw: Random) -> list[str]:
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
            topic = draw.choice(names) if topics is None else names[topics[row]]
            written[_review(sentiment, topic, draw)] = None
    return list(written)


def signed(texts: Sequence[str], signatures: Sequence[int]) -> list[str]:
    """Return the texts, each with the closing line of its number."""
    return [f"{text}\n{SIGNATURES[number]}" for text, number in zip(texts, signatures, strict=True)]


def _review(sentiment: str, topic: str, draw: Random) -> str:
    nouns = TOPICS[topic]

    def filled(template: str) -> str:
        first, second = draw.sample(nouns, 2)
        opinions = draw.choices((words.BAD, words.MIDDLING, words.GOOD), OPINIONS[sentiment], k=2)
        text = template.format(
            topic=topic,
            when=draw.choice(words.TIMES),
            who=draw.choice(words.PEOPLE),
            noun0=first,
            noun1=second,
            opinion0=draw.choice(opinions[0]),
            opinion1=draw.choice(opinions[1]),
        )
        return text[0].upper() + text[1:]

    left, templates = draw.randint(FEWEST, MOST), []
    while left > 0:
        two = left > 1 and draw.random() < SHARE_ON_TWO
        templates.append(draw.choice(words.OPINIONS_ON_TWO if two else words.OPINIONS_ON_ONE))
        left -= 1 + two
    templates += draw.sample(words.FILLERS, draw.randint(1, 3))
    draw.shuffle(templates)
    return " ".join(map(filled, [draw.choice(words.OPENINGS), *templates]))
