"""Texts as hashed words and as tokens."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import HashingVectorizer

from logit_correction import from_table, load, train
from logit_correction.data.own import Table
from logit_correction.data.rows import Rows
from logit_correction.data.texts import LengthNormalization, TextReader, hash_words, load_tokenizer
from logit_correction.errors import InputError

TEXTS = ["A good film, good indeed.", "bad", "", "Das Ende war gut; all's well!", "good bad good bad bad"]


def test_hash_words_equals_scikit_learn() -> None:
    store = hash_words(TEXTS, num_features=64)
    expected = (
        LengthNormalization.LENGTH
        * HashingVectorizer(n_features=64, token_pattern=r"[^\W_]+").transform(TEXTS).toarray()
    )
    rows = torch.tensor([4, 0, 2, 3, 1, 1])
    np.testing.assert_allclose(store.fetch(rows), expected[rows], rtol=1e-5)
    assert store.input_shape == (64,) and len(store) == 5 and store.images(rows) is None
    np.testing.assert_allclose(store.to("cpu").fetch(rows), expected[rows], rtol=1e-5)


def test_tokenizer_changed_since_training_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "model")
    trained = TextReader(tokenizer=str(folder))
    rows = Rows("the texts", range(1), texts=["good film"])
    preparation = trained.fit_transform(trained.validate(rows)[0], torch.arange(1), rows.errors).preparation
    loaded = TextReader(tokenizer=str(folder))
    loaded.load_state(preparation)
    loaded.transform(rows)
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(
        content.replace("good", "GOOD").replace("bad", "good").replace("GOOD", "bad")
    )
    with pytest.raises(InputError, match=r"another than when the run was trained"):
        loaded.transform(rows)


def test_tokenizer_without_its_package_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install .*\[texts\]"):
        load_tokenizer("name")


def train_text_accuracy(texts: list[str], folder: Path, **options: str) -> float:
    """The accuracy of ERM on texts with alternating labels."""
    data = from_table({"t": texts, "y": ["bad", "good"] * (len(texts) // 2)}, label="y", text="t", folder=folder)
    return train(data, method="ERM", device="cpu", epochs=20, **options).report.test.average or 0.0


SCRIPTS = {
    "Chinese": ("很的是天家有在我来路", "差", "好"),
    "Thai": ("กขคงจฉชซฌญ", "ร้าย", "ดี"),
    "emoji": ("🍎🚗🐶🏠🌲🎈📚🎵🚀🌙", "👎🏽", "👍🏽"),
    "Hindi": ("क ख ग घ च ", "बुरी", "बूरा"),
    "single letters": ("i u k n q ", "b", "g"),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_of_any_script_are_learned(script: str, tmp_path: Path) -> None:
    alphabet, *words = SCRIPTS[script]
    draw = np.random.default_rng(0)
    texts = []
    for row in range(300):
        filler = "".join(draw.choice(list(alphabet), 9))
        texts.append(f"{filler[:4]}{words[row % 2]}{filler[4:]}" if script != "Hindi" else f"{filler} {words[row % 2]}")
    texts = [" ".join(text) for text in texts] if script == "single letters" else texts
    assert train_text_accuracy(texts, tmp_path) > 0.9


def test_words_shared_by_all_texts_do_not_hide_the_others(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    common_words, boilerplate = (
        [f"{kind}{number}" for number in range(n)] for kind, n in (("usual", 40), ("notice", 400))
    )
    texts = [" ".join([*draw.choice(common_words, 4), ("awful", "lovely")[row % 2]]) for row in range(600)]
    texts_with_boilerplate = [f"{' '.join(draw.choice(boilerplate, 800))} {text}" for text in texts]
    assert train_text_accuracy(texts, tmp_path) > 0.9 and train_text_accuracy(texts_with_boilerplate, tmp_path) > 0.85


def test_new_texts_get_the_word_weights_of_training(tmp_path: Path) -> None:
    texts = [f"the notice {('awful', 'lovely')[row % 2]} word{row}" for row in range(60)]
    data = from_table({"t": texts, "y": ["bad", "good"] * 30}, label="y", text="t", folder=tmp_path)
    train(data, tmp_path / "run", method="ERM", device="cpu", epochs=20)
    run = load(tmp_path / "run")
    probability = run.predict_proba(["the notice lovely", "lovely", "the notice awful"])
    assert probability.argmax(1).tolist() == [1, 1, 0]
    assert abs(probability[0] - probability[1]).max() < 0.05  # what all texts have counts next to nothing
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    del report["data"]["preparation"]["weights"]  # as before words had weights
    (tmp_path / "run" / "report.json").write_text(json.dumps(report))
    with pytest.raises(InputError, match="train again"):
        load(tmp_path / "run").predict(["lovely"])


def test_texts_with_hardly_any_words_are_noted(tmp_path: Path) -> None:
    texts = ["?!" if row % 3 else f"a few words {row}" for row in range(60)]
    data = from_table({"t": texts, "y": ["bad", "good"] * 30}, label="y", text="t", folder=tmp_path)
    assert any("40 of 60 texts" in note for note in Table(**data.options).build().notes)
