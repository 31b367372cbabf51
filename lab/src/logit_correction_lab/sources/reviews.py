"""Short reviews that are put together from phrases: many weak words show the sentiment, none of them for certain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from logit_correction.yaml_files import read_yaml_file

_PHRASES = read_yaml_file(Path(__file__).with_name("reviews.yaml"))

#: Topic -> the things that a review gives opinions on.
TOPICS: dict[str, list[str]] = _PHRASES["topics"]

#: Closing lines; the first three may stand for the first three labels.
SIGNATURES: list[str] = _PHRASES["signatures"]

#: How often the opinions of a review are bad, middling and good.
OPINIONS = {
    "negative": (0.64, 0.14, 0.22),
    "neutral": (0.18, 0.64, 0.18),
    "positive": (0.22, 0.14, 0.64),
}

#: Fewest opinions of a review.
MIN_OPINIONS = 4

#: Most opinions of a review.
MAX_OPINIONS = 8

#: Share of sentences with two opinions, where two are still to come.
SHARE_ON_TWO = 0.4


def generate_reviews(sentiments: Sequence[str], topic_indices: Sequence[int] | None, rng: Random) -> list[str]:
    """Return one review for each sentiment; no two are the same.

    Args:
        sentiments: Keys of ``OPINIONS``.
        topic_indices: The place in ``TOPICS`` of each review's topic; None draws a topic for each review.
        rng: Random numbers.
    """
    names = list(TOPICS)
    reviews: dict[str, None] = {}
    for row, sentiment in enumerate(sentiments):
        while len(reviews) == row:
            topic = rng.choice(names) if topic_indices is None else names[topic_indices[row]]
            reviews[_generate_review(sentiment, topic, rng)] = None
    return list(reviews)


def _generate_review(sentiment: str, topic: str, rng: Random) -> str:
    templates = []
    num_left = rng.randint(MIN_OPINIONS, MAX_OPINIONS)
    while num_left > 0:
        on_two = num_left > 1 and rng.random() < SHARE_ON_TWO
        templates.append(rng.choice(_PHRASES["opinions_on_two" if on_two else "opinions_on_one"]))
        num_left -= 1 + on_two
    templates += rng.sample(_PHRASES["fillers"], rng.randint(1, 3))
    rng.shuffle(templates)
    templates.insert(0, rng.choice(_PHRASES["openings"]))
    return " ".join(_fill_review_template(template, sentiment, topic, rng) for template in templates)


def _fill_review_template(template: str, sentiment: str, topic: str, rng: Random) -> str:
    nouns = rng.sample(TOPICS[topic], 2)
    opinions = rng.choices([_PHRASES[kind] for kind in ("bad", "middling", "good")], OPINIONS[sentiment], k=2)
    text = template.format(
        topic=topic,
        when=rng.choice(_PHRASES["times"]),
        who=rng.choice(_PHRASES["people"]),
        noun0=nouns[0],
        noun1=nouns[1],
        opinion0=rng.choice(opinions[0]),
        opinion1=rng.choice(opinions[1]),
    )
    return text[0].upper() + text[1:]
