"""The form of a text."""

from __future__ import annotations

import math

import numpy as np
import torch

from logit_correction.views.base import ViewInputs
from logit_correction.views.form import KINDS, MARKS, Form


def form(texts: list[str]) -> torch.Tensor:
    inputs = ViewInputs(num_rows=len(texts), inputs=lambda rows: rows, texts=texts)
    (view,) = Form.views_of(inputs)
    view.fit(inputs)
    found = view.features(inputs)
    assert found.dtype == torch.float32 and bool(torch.isfinite(found).all())
    assert found.shape == (len(texts), 3 + len(KINDS) + len(MARKS))
    return found


def by_hand(text: str) -> list[float]:
    """The same, text by text and character by character."""
    length, words = len(text), text.split()
    shares = [sum(map(test, text)) / max(1, length) for test in KINDS.values()]
    mean = sum(map(len, words)) / max(1, len(words))
    marks = [math.log1p(text.count(mark)) for mark in MARKS]
    return [math.log1p(length), math.log1p(len(words)), mean, *shares, *marks]


def test_against_a_count_by_hand() -> None:
    draw = np.random.default_rng(0)
    letters = list("abcXYZ 0189\t\n.,!?“é😀Ω名\u00a0%$-")
    texts = ["".join(draw.choice(letters, size=draw.integers(0, 60))) for _ in range(1300)]
    texts += ["", " ", "\n\n", "a", "😀", "  two words ", "e\u0301", "\ud83d lone"]
    torch.testing.assert_close(form(texts), torch.tensor([by_hand(text) for text in texts]))


def test_what_the_numbers_mean() -> None:
    found = form(["AB cd 12!!\n"])[0]
    kinds = dict(zip(KINDS, found[3:].tolist(), strict=False))
    assert math.isclose(found[0].item(), math.log(12), rel_tol=1e-6)
    assert math.isclose(found[1].item(), math.log(4), rel_tol=1e-6)
    assert math.isclose(found[2].item(), 8 / 3, rel_tol=1e-6)
    for name, share in {"capitals": 2, "digits": 2, "punctuation": 2, "white space": 3, "not ASCII": 0}.items():
        assert math.isclose(kinds[name], share / 11, rel_tol=1e-6)
    assert math.isclose(found[-1].item(), math.log(2), rel_tol=1e-6)  # line breaks


def test_a_text_alone_and_among_others_is_the_same() -> None:
    texts = ["one Text.", "", "another, longer one\nof two lines", "x"]
    assert torch.equal(form(texts), torch.cat([form([text]) for text in texts]))


def test_marks_are_each_counted_once() -> None:
    assert len(set(MARKS)) == len(MARKS)


def test_without_texts_there_is_no_form() -> None:
    assert Form.views_of(ViewInputs(num_rows=2, inputs=lambda rows: rows)) == []
