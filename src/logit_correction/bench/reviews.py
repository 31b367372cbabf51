"""Short reviews, put together from phrases: many weak words tell the sentiment, none of them for certain."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

SENTIMENTS = ["negative", "neutral", "positive"]

#: How often the opinions of a review are bad, middling and good.
OPINIONS = {
    "negative": (0.64, 0.14, 0.22),
    "neutral": (0.18, 0.64, 0.18),
    "positive": (0.22, 0.14, 0.64),
}

#: Closing lines that may go with the first, second and third label.
SIGNATURES = ("Sent from my phone", "J. Martin, verified buyer", "Greetings from Dana")

#: Fewest and most opinions of a review, and the share of sentences with two, where two are still to come.
FEWEST, MOST, SHARE_ON_TWO = 4, 8, 0.4


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    """Part a text at its bars; ends of lines count as blanks."""
    return tuple(" ".join(phrase.split()) for phrase in text.split("|"))


BAD = _words(
    """annoying awkward bland boring broken careless cheap clumsy cold confusing crude damp dated dim dirty
    disappointing dreary dull empty exhausting faulty feeble flat flimsy forgettable fragile harsh hollow irritating
    jarring lazy lifeless loud messy muddled noisy odd overpriced pale patchy pointless poor predictable rough rude
    rushed sad scruffy shabby shaky shallow slow sloppy sour stale sticky stiff stingy tasteless thin tired tiresome
    ugly uneven unpleasant useless vague weak wobbly"""
)

MIDDLING = _words(
    """acceptable adequate average common conventional customary everyday expected fair familiar middling moderate
    modest neutral normal okay ordinary passable plain reasonable regular routine simple so-so standard tolerable
    typical unremarkable usual workable"""
)

GOOD = _words(
    """appealing bright brilliant calm careful charming cheerful clean clear clever comfortable convincing cosy crisp
    delicate delightful elegant engaging excellent fast fine flawless fresh friendly funny generous gentle graceful
    handsome helpful inventive kind light lively lovely lush memorable moving neat nimble pleasant polished precise
    quick quiet reliable rich robust sharp sincere smart smooth solid spotless stylish subtle sturdy superb sweet tasty
    tender thoughtful tidy touching vivid warm witty wonderful"""
)

#: Topic -> what people say something about.
TOPICS: dict[str, tuple[str, ...]] = {
    "film": _words("plot cast ending soundtrack dialogue camera pacing scenery script editing opening humour"),
    "hotel": _words("room bed breakfast lobby staff view bathroom pool reception carpet balcony corridor"),
    "phone": _words("screen battery speaker keyboard lens charger case software menu signal display microphone"),
    "book": _words("chapters prose heroine cover translation preface style story paper index narrator argument"),
    "restaurant": _words("soup waiter menu dessert table kitchen bread sauce wine portion terrace coffee"),
    "kettle": _words("lid handle spout switch cable filter finish base lamp packaging manual weight"),
}

TIMES = _phrases(
    """yesterday|last week|on Monday|in spring|two months ago|over the holidays|before the summer|in a hurry|on a rainy
    day|for the second time|after work|at the weekend"""
)

PEOPLE = _phrases(
    """my sister|my brother|a friend|my neighbour|my father|my mother|a colleague|my partner|our guests|my aunt|the
    children|my cousin"""
)

OPENINGS = (
    "I came to this {topic} {when}.",
    "We tried the {topic} {when}.",
    "{who} told me about this {topic} and I tried it {when}.",
    "This {topic} was a present from {who}.",
    "A few words on the {topic} that I chose {when}.",
    "I wanted a {topic} like this and found it {when}.",
    "My turn to write about the {topic}.",
    "I went for this {topic} {when} with {who}.",
)

OPINIONS_ON_ONE = (
    "The {noun0} was {opinion0}.",
    "I found the {noun0} {opinion0}.",
    "The {noun0} struck me as {opinion0}.",
    "To me the {noun0} seemed {opinion0}.",
    "And the {noun0}: {opinion0}.",
    "As for the {noun0}, it is {opinion0}.",
    "What a {opinion0} {noun0}.",
    "Some would call the {noun0} {opinion0}.",
    "In the end the {noun0} felt {opinion0}.",
    "It has a {opinion0} {noun0}.",
)

OPINIONS_ON_TWO = (
    "The {noun0} was {opinion0} and the {noun1} {opinion1}.",
    "A {opinion0} {noun0}, a {opinion1} {noun1}.",
    "The {noun0} is {opinion0}, even {opinion1}.",
    "While the {noun0} seemed {opinion0}, I remember the {noun1} as {opinion1}.",
    "Both {opinion0} and {opinion1}, that is the {noun0}.",
    "{noun0} {opinion0}, {noun1} {opinion1}.",
)

FILLERS = (
    "I took a second look at the {noun0}.",
    "{who} asked me about the {noun0}.",
    "I paid the full price.",
    "It arrived a day later than planned.",
    "There is more to say about the {noun0}, but not here.",
    "I had read three other reviews before.",
    "{who} came along.",
    "The {noun0} is what most people ask for first.",
    "I have seen another {topic} of this kind.",
    "We talked about the {noun0} on the way home.",
    "This is my first review.",
    "I compared the {noun0} with that of another {topic}.",
    "Nobody mentioned the {noun0} to me.",
    "It was about what the description says.",
)


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
        opinions = draw.choices((BAD, MIDDLING, GOOD), OPINIONS[sentiment], k=2)
        text = template.format(
            topic=topic,
            when=draw.choice(TIMES),
            who=draw.choice(PEOPLE),
            noun0=first,
            noun1=second,
            opinion0=draw.choice(opinions[0]),
            opinion1=draw.choice(opinions[1]),
        )
        return text[0].upper() + text[1:]

    left, templates = draw.randint(FEWEST, MOST), []
    while left > 0:
        two = left > 1 and draw.random() < SHARE_ON_TWO
        templates.append(draw.choice(OPINIONS_ON_TWO if two else OPINIONS_ON_ONE))
        left -= 1 + two
    templates += draw.sample(FILLERS, draw.randint(1, 3))
    draw.shuffle(templates)
    return " ".join(map(filled, [draw.choice(OPENINGS), *templates]))
