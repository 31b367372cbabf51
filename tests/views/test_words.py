"""Words and runs of characters of a text, and the words at its ends."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import numpy as np
import pytest
import torch

from logit_correction.views import words as words_module
from logit_correction.views.base import ViewInputs
from logit_correction.views.characters import Characters, shortened
from logit_correction.views.ends import Closing, Opening
from logit_correction.views.words import TermView, Words

VIEWS = [Words, Characters, Opening, Closing]


def inputs_of(texts: list[str]) -> ViewInputs:
    return ViewInputs(num_rows=len(texts), inputs=lambda rows: rows, texts=texts)


def fitted(kind: type[TermView], texts: list[str]) -> TermView:
    inputs = inputs_of(texts)
    (view,) = kind.views_of(inputs)
    assert isinstance(view, TermView)
    view.fit(inputs)
    return view


def has(view: TermView, term: str, texts: list[str]) -> list[float]:
    return view.features(inputs_of(texts))[:, view.terms.index(term)].tolist()


def some_texts(count: int = 600) -> list[str]:
    draw = np.random.default_rng(0)
    share = 1 / np.arange(1, 301)
    return [
        " ".join(f"w{i}" for i in draw.choice(300, size=draw.integers(0, 12), p=share / share.sum()))
        for _ in range(count)
    ]


def test_words_against_a_count_by_hand() -> None:
    texts = some_texts()
    view = fitted(Words, texts)
    sets = [set(text.split()) for text in texts]
    rows = Counter(word for one in sets for word in one)
    expected = {word for word, count in rows.items() if 5 <= count < 0.95 * len(texts)}
    assert set(view.terms) == expected and len(expected) < 300
    assert [rows[term] for term in view.terms] == sorted((rows[term] for term in view.terms), reverse=True)
    brute = torch.tensor([[float(term in one) for term in view.terms] for one in sets])
    found = view.features(inputs_of(texts))
    assert found.dtype == torch.float32 and torch.equal(found, brute)


def test_the_commonest_words_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "most", 7)
    texts = some_texts()
    rows = Counter(word for text in texts for word in set(text.split()))
    least = sorted((n for n in rows.values() if n < 0.95 * len(texts)), reverse=True)[6]
    terms = fitted(Words, texts).terms
    assert len(terms) == 7 and all(rows[term] >= least for term in terms)


def test_words_of_nearly_all_texts_and_of_few_are_left_out() -> None:
    texts = ["the cat" if i < 50 else "the dog" for i in range(100)]
    texts[:4] = ["the cat rare"] * 4
    assert sorted(fitted(Words, texts).terms) == ["cat", "dog"]
    many = ["a b" if i % 2 else "a" for i in range(5000)]
    many[:9] = ["a scarce"] * 9  # more than five, but less than 0.2 %
    many[9:19] = ["a enough"] * 10
    assert sorted(fitted(Words, many).terms) == ["b", "enough"]


def test_words_are_runs_of_letters_and_digits_in_lower_case() -> None:
    texts = ["Ärger, I've_x9 名前!", "other"] * 5
    view = fitted(Words, texts)
    assert set(view.terms) == {"ärger", "i", "ve", "x9", "名前", "other"}
    assert has(view, "ärger", ["ÄRGER", "", "arger"]) == [1, 0, 0]


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("texts", [[""], ["one text"], ["", " \n", "!?"], ["same text"] * 30])
def test_texts_without_a_term_give_one_column_of_zeros(kind: type[TermView], texts: list[str]) -> None:
    found = fitted(kind, texts).features(inputs_of(texts))
    assert found.shape == (len(texts), 1) and found.dtype == torch.float32 and not found.any()


@pytest.mark.parametrize("kind", VIEWS)
def test_views_of_texts(kind: type[TermView]) -> None:
    assert kind.views_of(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []
    texts = [f"{'Yes' if i % 2 else 'No'}, it is number {i % 3} \ud83d 🙂." for i in range(1100)]  # one half of a pair
    view = fitted(kind, texts)
    found = view.features(inputs_of(texts))
    assert found.shape == (1100, len(view.terms)) and set(found.unique().tolist()) == {0.0, 1.0}
    again = pickle.loads(pickle.dumps(view))
    assert torch.equal(again.features(inputs_of(texts)), found)
    assert fitted(kind, texts).terms == view.terms
    assert view.few == (1 if kind in (Words, Characters) else 2)


def test_a_vocabulary_is_learnt_of_rows_spread_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "ROWS", 50)
    texts = [f"half{i // 100} third{i % 4}" for i in range(200)]
    assert {"half0", "half1"} <= set(fitted(Words, texts).terms)


def test_runs_of_characters_against_a_count_by_hand() -> None:
    texts = ["Sent -- J.", "ab"] * 5
    view = fitted(Characters, texts)

    def runs(text: str) -> set[str]:
        padded = [f" {word} " for word in text.lower().split()]
        found = {word[i : i + n] for word in padded for n in (3, 4, 5) for i in range(len(word) - n + 1)}
        return found | {word for word in padded if len(word) < 3}

    assert set(view.terms) == runs(texts[0]) | runs(texts[1])
    assert has(view, " j.", ["by J.", "J", "aj."]) == [1, 0, 0]


def test_of_long_texts_the_ends_are_looked_at() -> None:
    text = "Start" + "x" * 5000 + "END"
    short = shortened(text)
    assert len(short) == 2001 and short.startswith("start") and short.endswith("end")
    assert shortened("Ab" * 1000) == "ab" * 1000
    view = fitted(Characters, [text, "other"] * 5)
    assert has(view, "end ", [text, "END"]) == [1, 1]


def test_openings_and_closings() -> None:
    texts = ["Dear Sir, one two three hidden four. Yours, Bob!", "hello"] * 5
    opening, closing = fitted(Opening, texts), fitted(Closing, texts)
    assert set(opening.terms) == {"dear", "sir", "one", "two", "three", "|dear", "hello", "|hello"}
    assert set(closing.terms) == {"three", "hidden", "four", "yours", "bob", "|bob", "hello", "|hello"}
    new = ["my dear", "DEAR me", "bob is dear to me and others but no more", ""]
    assert has(opening, "dear", new) == [1, 1, 1, 0] and has(opening, "|dear", new) == [0, 1, 0, 0]
    assert has(closing, "bob", new) == [0, 0, 0, 0] and has(closing, "|bob", ["to Bob", "Bob too"]) == [1, 0]


def test_marks_of_the_outermost_word_are_no_words() -> None:
    assert not re.search(words_module.WORD, "|")
