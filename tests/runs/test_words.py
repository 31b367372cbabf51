"""What an encoder that knows ImageNet says of photos: read by a person, corrected by where one says so."""

from __future__ import annotations

import numpy as np
import pytest

from logit_correction import ComponentConfig, audit, from_arrays, train
from logit_correction.errors import InputError


@pytest.fixture(scope="module")
def photos() -> ComponentConfig:
    """Two labels, of which nine rows in ten are red or blue; ``my_parts.Seeing`` says goldfish or white shark."""
    draw, label = np.random.default_rng(0), np.arange(200) % 2
    colour = np.where(draw.random(200) < 0.9, label, 1 - label)
    images = draw.integers(0, 60, (200, 3, 16, 16))
    images[np.arange(200), 2 * colour] += 150
    images[:, 1] += (40 * label)[:, None, None]  # the label itself, weakly
    split = np.where(np.arange(200) < 160, "train", np.where(np.arange(200) < 180, "valid", "test"))
    return from_arrays(images.astype(np.uint8), np.array(["pond", "sea"])[label], split=split)


OPTIONS = {"encoder": "my_parts.Seeing", "epochs": 10, "threads": 1}


def test_the_audit_names_what_goes_with_each_label(photos: ComponentConfig) -> None:
    found = audit(photos, try_fix=False, **OPTIONS)
    (spoken,) = found.summary["words"]
    said = {(row["label"], row["term"]): row for row in spoken["rows"] if row["share"] > 0.5 > row["other_share"]}
    assert spoken["view"] == "words" and {("pond", "goldfish"), ("sea", "great white shark")} <= set(said)
    assert 0.8 < said["pond", "goldfish"]["share"] < 1 and said["pond", "goldfish"]["images"]
    assert all("words" not in sign["view"] for sign in found.summary["evidence"]["signs"]), "no evidence by itself"


def test_a_person_says_which_words_are_the_shortcut(photos: ComponentConfig) -> None:
    found = audit(photos, shortcut="words", legitimate="words:tench", try_fix=False, **OPTIONS)
    assert {"words:goldfish", "words:great white shark"} & set(found.views) and "words:tench" not in found.views
    rows = found.rows[found.rows["split"] == "train"]
    assert rows["conflicting"].sum() == pytest.approx(16, abs=10)
    run = train(photos, method="LC", shortcut=["words:goldfish", "words:great white shark"], **OPTIONS)
    assert run.report["evidence"]["views"] == ["words:goldfish", "words:great white shark"]
    assert run.report["estimated_minority"]["count"] == pytest.approx(16, abs=10)
    assert run.evaluate("test")["average"] == run.report["test"]["average"]
    with pytest.raises(InputError, match=r"did you mean words:goldfish"):
        train(photos, method="LC", shortcut="words:goldfisch", **OPTIONS)
    with pytest.raises(InputError, match="legitimate"):
        train(photos, method="LC", shortcut="words:goldfish", legitimate="words", **OPTIONS)


def test_without_an_encoder_there_are_no_words(photos: ComponentConfig) -> None:
    with pytest.raises(InputError, match="needs photos behind the encoder"):
        train(photos, method="LC", shortcut="words", epochs=1)
