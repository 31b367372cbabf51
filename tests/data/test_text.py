"""Texts as hashed words and as tokens."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import HashingVectorizer

from logit_correction.data.rows import Rows
from logit_correction.data.texts import LENGTH, MOST_WORDS, Texts, hashed_words, load_tokenizer, tokenize
from logit_correction.errors import InputError

TEXTS = ["A good film, good indeed.", "bad", "", "Das Ende war gut; all's well!", "good bad good bad bad"]


def test_words_are_counted_as_scikit_learn_counts_them() -> None:
    store = hashed_words(TEXTS, 64)
    expected = LENGTH * HashingVectorizer(n_features=64).transform(TEXTS).toarray()
    rows = torch.tensor([4, 0, 2, 3, 1, 1])
    np.testing.assert_allclose(store.fetch(rows), expected[rows], rtol=1e-5)
    assert store.input_shape == (64,) and len(store) == 5 and store.images(rows) is None
    np.testing.assert_allclose(store.to("cpu").fetch(rows), expected[rows], rtol=1e-5)


def test_of_a_very_long_text_the_heaviest_words_count() -> None:
    words = [f"word{i}" for i in range(MOST_WORDS + 200)]
    text = " ".join(words + words[-100:] * 5)
    fetched = hashed_words([text, "short"], 2**20).fetch(torch.tensor([0]))[0]
    assert int((fetched != 0).sum()) <= MOST_WORDS
    heavy = hashed_words([" ".join(words[-100:])], 2**20).fetch(torch.tensor([0]))[0].nonzero().flatten()
    assert bool((fetched[heavy] != 0).all())


def test_texts_are_split(tiny_bert: Path) -> None:
    store = tokenize(["good film", "bad", "good good bad film film"], load_tokenizer(str(tiny_bert)), 5)
    assert store.input_shape == (5,)
    batch = store.fetch(torch.arange(3))
    assert batch["attention_mask"].sum(1).tolist() == [4, 3, 5]
    assert batch["input_ids"][1, 3:].tolist() == [0, 0]


def test_a_tokenizer_that_was_changed_is_not_taken(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "model")
    trained = Texts(tokenizer=str(folder))
    rows = Rows("the texts", range(1), texts=["good film"])
    found = trained.learn(trained.check(rows)[0], torch.arange(1), rows.problems).preparation
    again = Texts(tokenizer=str(folder))
    again.prepare(found)
    again.transform(rows)
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(
        content.replace("good", "GOOD").replace("bad", "good").replace("GOOD", "bad")
    )
    with pytest.raises(InputError, match=r"another than when the run was trained"):
        again.transform(rows)


def test_a_tokenizer_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install .*\[texts\]"):
        load_tokenizer("name")
