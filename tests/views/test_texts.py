"""Views of texts, against counts by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.shortcuts.auto import Auto
from logit_correction.types import ViewInputs
from logit_correction.views.base import find_views, restore_view, serialize_builtin_view
from logit_correction.views.texts import Characters, Closing, Form, Opening, TermView, Words, shorten_text

VIEWS = [Words, Characters, Opening, Closing]


def build_inputs(texts: list[str]) -> ViewInputs:
    return ViewInputs(num_rows=len(texts), inputs=lambda rows: rows, texts=texts)


def fit_view(kind: type[TermView], texts: list[str]) -> TermView:
    (view,) = kind.list_views(build_inputs(texts))
    assert isinstance(view, TermView)
    view.fit(build_inputs(texts))
    return view


def compute_term_column(view: TermView, term: str, texts: list[str]) -> list[float]:
    return view.features(build_inputs(texts))[:, view.terms.index(term)].tolist()


def test_words_view_equals_a_count_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    share = 1 / np.arange(1, 301)
    texts = [
        " ".join(f"w{i}" for i in draw.choice(300, size=draw.integers(0, 12), p=share / share.sum()))
        for _ in range(600)
    ]
    view = fit_view(Words, texts)
    sets = [set(text.split()) for text in texts]
    rows = Counter(word for words in sets for word in words)
    expected = {word for word, count in rows.items() if 5 <= count < 0.95 * len(texts)}
    assert set(view.terms) == expected and len(expected) < 300
    assert [rows[term] for term in view.terms] == sorted((rows[term] for term in view.terms), reverse=True)
    reference = torch.tensor([[float(term in words) for term in view.terms] for words in sets])
    assert torch.equal(view.features(build_inputs(texts)), reference)
    monkeypatch.setattr(Words, "max_terms", 7)
    assert fit_view(Words, texts).terms == view.terms[:7]


@pytest.mark.parametrize("kind", VIEWS)
def test_term_view_has_one_indicator_for_each_term(kind: type[TermView]) -> None:
    assert kind.list_views(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []
    texts = [f"{'Yes' if i % 2 else 'No'}, it is number {i % 3} \ud83d 🙂." for i in range(1100)]  # one half of a pair
    view = fit_view(kind, texts)
    features = view.features(build_inputs(texts))
    assert features.shape == (1100, len(view.terms)) and set(features.unique().tolist()) == {0.0, 1.0}
    assert fit_view(kind, texts).terms == view.terms
    for bare in ([""], ["one text"], ["", " \n", "!?"], ["same text"] * 30):
        empty_features = fit_view(kind, bare).features(build_inputs(bare))
        assert (
            empty_features.shape == (len(bare), 1)
            and empty_features.dtype == torch.float32
            and not empty_features.any()
        )


def test_characters_view_equals_a_count_by_hand() -> None:
    texts = ["Sent -- J.", "ab"] * 5
    view = fit_view(Characters, texts)

    def reference_terms(text: str) -> set[str]:
        padded = [f" {word} " for word in text.lower().split()]
        terms = {word[i : i + n] for word in padded for n in (3, 4, 5) for i in range(len(word) - n + 1)}
        return terms | {word for word in padded if len(word) < 3}

    assert set(view.terms) == reference_terms(texts[0]) | reference_terms(texts[1])
    assert compute_term_column(view, " j.", ["by J.", "J", "aj."]) == [1, 0, 0]
    text = "Start" + "x" * 5000 + "END"
    assert len(shorten_text(text)) == 2001 and shorten_text("Ab" * 1000) == "ab" * 1000
    assert compute_term_column(fit_view(Characters, [text, "other"] * 5), "end ", [text, "END"]) == [1, 1]


def test_opening_and_closing_views_see_the_first_and_last_words() -> None:
    texts = ["Dear Sir, one two three hidden four. Yours, Bob!", "hello"] * 5
    opening = fit_view(Opening, texts)
    closing = fit_view(Closing, texts)
    assert set(opening.terms) == {"dear", "sir", "one", "two", "three", "|dear", "hello", "|hello"}
    assert set(closing.terms) == {"three", "hidden", "four", "yours", "bob", "|bob", "hello", "|hello"}
    new = ["my dear", "DEAR me", "bob is dear to me and others but no more", ""]
    assert compute_term_column(opening, "dear", new) == [1, 1, 1, 0] and compute_term_column(opening, "|dear", new) == [
        0,
        1,
        0,
        0,
    ]
    assert compute_term_column(closing, "bob", new) == [0, 0, 0, 0] and compute_term_column(
        closing, "|bob", ["to Bob", "Bob too"]
    ) == [1, 0]


def compute_form_features(texts: list[str]) -> torch.Tensor:
    (view,) = Form.list_views(build_inputs(texts))
    features = view.features(build_inputs(texts))
    assert features.dtype == torch.float32 and features.shape == (len(texts), 3 + len(Form.kinds) + len(Form.marks))
    return features


def test_form_view_equals_a_count_by_hand() -> None:
    texts = ["Ab 1\u00e9,\n", "", "\ud83d  \U0001f600\u00a0,,"]
    logs = torch.tensor([[7.0, 2.0], [0.0, 0.0], [7.0, 3.0]]).log1p()
    shares = torch.tensor([[5 / 2, 1 / 7, 1 / 7, 1 / 7, 2 / 7, 1 / 7], [0] * 6, [4 / 3, 0, 0, 3 / 7, 3 / 7, 3 / 7]])
    torch.testing.assert_close(compute_form_features(texts)[:, : 3 + len(Form.kinds)], torch.cat([logs, shares], dim=1))
    marks = torch.tensor([[float(text.count(mark)) for mark in Form.marks] for text in texts]).log1p()
    torch.testing.assert_close(compute_form_features(texts)[:, 3 + len(Form.kinds) :], marks)
    assert len(set(Form.marks)) == len(Form.marks)
    assert Form.list_views(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []


def test_word_view_sees_the_named_word() -> None:
    texts = ["the Nordby depot", "no depot"] * 5 + ["piotr"]
    inputs = build_inputs(texts)
    views = find_views(["word:Nordby", "word:depot"], inputs)
    assert [view.name for view in views] == ["word:nordby", "word:depot"] and all(
        view.max_per_label is None for view in views
    )
    assert views[0].features(inputs).flatten().tolist() == [1.0, 0.0] * 5 + [0.0]
    state = serialize_builtin_view(views[0])
    assert state is not None and torch.equal(restore_view(state).features(inputs), views[0].features(inputs))
    with pytest.raises(InputError, match="'piotr' is in 1 texts"):
        find_views(["word:piotr"], inputs)
    with pytest.raises(InputError, match="all words together"):
        Auto(legitimate=["word:depot"])
