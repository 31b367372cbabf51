"""Short reviews, put together from phrases: many weak words tell the sentiment, none of them for certain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from logit_correction.yaml_files import read_yaml_file

_PARTS = read_yaml_file(Path(__file__).with_name("reviews.yaml"))

#: Topic -> what people say something about.
TOPICS: dict[str, list[str]] = _PARTS["topics"]

#: Closing lines that may go with the first, second and third label.
SIGNATURES: list[str] = _PARTS["signatures"]

#: How often the opinions of a review are bad, middling and good.
OPINIONS = {
    "negative": (0.64, 0.14, 0.22),
    "neutral": (0.18, 0.64, 0.18),
    "positive": (0.22, 0.14, 0.64),
}

#: Fewest and most opinions of a review, and the share of sentences with two, where two are still to come.
MIN_HELD_OUT_ROWS, MOST, SHARE_ON_TWO = 4, 8, 0.4


def write_reviews(sentiments: Sequence[str], topics: Sequence[int] | None, draw: Random) -> list[str]:
    """Write one review for each sentiment; no two are the same."""
    names = list(TOPICS)
    written: dict[str, None] = {}
    for row, sentiment in enumerate(sentiments):
        while len(written) == row:
            topic = draw.choice(names) if topics is None else names[topics[row]]
            written[_review(sentiment, topic, draw)] = None
    return list(written)


def _review(sentiment: str, topic: str, draw: Random) -> str:
    nouns = TOPICS[topic]

    def filled(template: str) -> str:
        first, second = draw.sample(nouns, 2)
        opinions = draw.choices([_PARTS[kind] for kind in ("bad", "middling", "good")], OPINIONS[sentiment], k=2)
        text = template.format(
            topic=topic,
            when=draw.choice(_PARTS["times"]),
            who=draw.choice(_PARTS["people"]),
            noun0=first,
            noun1=second,
            opinion0=draw.choice(opinions[0]),
            opinion1=draw.choice(opinions[1]),
        )
        return text[0].upper() + text[1:]

    left, templates = draw.randint(MIN_HELD_OUT_ROWS, MOST), []
    while left > 0:
        two = left > 1 and draw.random() < SHARE_ON_TWO
        templates.append(draw.choice(_PARTS["opinions_on_two" if two else "opinions_on_one"]))
        left -= 1 + two
    templates += draw.sample(_PARTS["fillers"], draw.randint(1, 3))
    draw.shuffle(templates)
    return " ".join(map(filled, [draw.choice(_PARTS["openings"]), *templates]))
