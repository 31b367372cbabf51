"""Views of texts, against counts by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.shortcuts.auto import Auto
from logit_correction.types import ViewInputs
from logit_correction.views.base import find_views, get_view_state, restore_view
from logit_correction.views.texts import Characters, Closing, Form, Opening, TermView, Words, shorten_text

VIEWS = [Words, Characters, Opening, Closing]


def inputs_of(texts: list[str]) -> ViewInputs:
    return ViewInputs(num_rows=len(texts), inputs=lambda rows: rows, texts=texts)


def fitted(kind: type[TermView], texts: list[str]) -> TermView:
    (view,) = kind.list_views(inputs_of(texts))
    assert isinstance(view, TermView)
    view.fit(inputs_of(texts))
    return view


def has(view: TermView, term: str, texts: list[str]) -> list[float]:
    return view.features(inputs_of(texts))[:, view.terms.index(term)].tolist()


def test_words_against_a_count_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    share = 1 / np.arange(1, 301)
    texts = [
        " ".join(f"w{i}" for i in draw.choice(300, size=draw.integers(0, 12), p=share / share.sum()))
        for _ in range(600)
    ]
    view = fitted(Words, texts)
    sets = [set(text.split()) for text in texts]
    rows = Counter(word for one in sets for word in one)
    expected = {word for word, count in rows.items() if 5 <= count < 0.95 * len(texts)}
    assert set(view.terms) == expected and len(expected) < 300
    assert [rows[term] for term in view.terms] == sorted((rows[term] for term in view.terms), reverse=True)
    brute = torch.tensor([[float(term in one) for term in view.terms] for one in sets])
    assert torch.equal(view.features(inputs_of(texts)), brute)
    monkeypatch.setattr(Words, "max_terms", 7)
    assert fitted(Words, texts).terms == view.terms[:7]


@pytest.mark.parametrize("kind", VIEWS)
def test_views_of_texts(kind: type[TermView]) -> None:
    assert kind.list_views(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []
    texts = [f"{'Yes' if i % 2 else 'No'}, it is number {i % 3} \ud83d 🙂." for i in range(1100)]  # one half of a pair
    view = fitted(kind, texts)
    found = view.features(inputs_of(texts))
    assert found.shape == (1100, len(view.terms)) and set(found.unique().tolist()) == {0.0, 1.0}
    assert fitted(kind, texts).terms == view.terms
    for bare in ([""], ["one text"], ["", " \n", "!?"], ["same text"] * 30):
        none = fitted(kind, bare).features(inputs_of(bare))
        assert none.shape == (len(bare), 1) and none.dtype == torch.float32 and not none.any()


def test_runs_of_characters_against_a_count_by_hand() -> None:
    texts = ["Sent -- J.", "ab"] * 5
    view = fitted(Characters, texts)

    def runs(text: str) -> set[str]:
        padded = [f" {word} " for word in text.lower().split()]
        found = {word[i : i + n] for word in padded for n in (3, 4, 5) for i in range(len(word) - n + 1)}
        return found | {word for word in padded if len(word) < 3}

    assert set(view.terms) == runs(texts[0]) | runs(texts[1])
    assert has(view, " j.", ["by J.", "J", "aj."]) == [1, 0, 0]
    text = "Start" + "x" * 5000 + "END"
    assert len(shorten_text(text)) == 2001 and shorten_text("Ab" * 1000) == "ab" * 1000
    assert has(fitted(Characters, [text, "other"] * 5), "end ", [text, "END"]) == [1, 1]


def test_openings_and_closings() -> None:
    texts = ["Dear Sir, one two three hidden four. Yours, Bob!", "hello"] * 5
    opening = fitted(Opening, texts)
    closing = fitted(Closing, texts)
    assert set(opening.terms) == {"dear", "sir", "one", "two", "three", "|dear", "hello", "|hello"}
    assert set(closing.terms) == {"three", "hidden", "four", "yours", "bob", "|bob", "hello", "|hello"}
    new = ["my dear", "DEAR me", "bob is dear to me and others but no more", ""]
    assert has(opening, "dear", new) == [1, 1, 1, 0] and has(opening, "|dear", new) == [0, 1, 0, 0]
    assert has(closing, "bob", new) == [0, 0, 0, 0] and has(closing, "|bob", ["to Bob", "Bob too"]) == [1, 0]


def form(texts: list[str]) -> torch.Tensor:
    (view,) = Form.list_views(inputs_of(texts))
    found = view.features(inputs_of(texts))
    assert found.dtype == torch.float32 and found.shape == (len(texts), 3 + len(Form.kinds) + len(Form.marks))
    return found


def test_the_form_against_a_count_by_hand() -> None:
    texts = ["Ab 1\u00e9,\n", "", "\ud83d  \U0001f600\u00a0,,"]
    logs = torch.tensor([[7.0, 2.0], [0.0, 0.0], [7.0, 3.0]]).log1p()
    rest = torch.tensor([[5 / 2, 1 / 7, 1 / 7, 1 / 7, 2 / 7, 1 / 7], [0] * 6, [4 / 3, 0, 0, 3 / 7, 3 / 7, 3 / 7]])
    torch.testing.assert_close(form(texts)[:, : 3 + len(Form.kinds)], torch.cat([logs, rest], dim=1))
    marks = torch.tensor([[float(text.count(mark)) for mark in Form.marks] for text in texts]).log1p()
    torch.testing.assert_close(form(texts)[:, 3 + len(Form.kinds) :], marks)
    assert len(set(Form.marks)) == len(Form.marks)
    assert Form.list_views(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []


def test_a_person_may_name_words() -> None:
    texts = ["the Nordby depot", "no depot"] * 5 + ["piotr"]
    inputs = inputs_of(texts)
    views = find_views(["word:Nordby", "word:depot"], inputs)
    assert [view.name for view in views] == ["word:nordby", "word:depot"] and all(
        view.max_per_label is None for view in views
    )
    assert views[0].features(inputs).flatten().tolist() == [1.0, 0.0] * 5 + [0.0]
    kept = get_view_state(views[0])
    assert kept is not None and torch.equal(restore_view(kept).features(inputs), views[0].features(inputs))
    with pytest.raises(InputError, match="'piotr' is in 1 texts"):
        find_views(["word:piotr"], inputs)
    with pytest.raises(InputError, match="all words together"):
        Auto(legitimate=["word:depot"])
