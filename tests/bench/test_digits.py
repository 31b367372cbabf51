"""The embedded data set."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits

from logit_correction.bench.digits import Digits
from logit_correction.errors import InputError


def test_sizes_and_names() -> None:
    table = Digits().build().check()
    assert {name: len(rows) for name, rows in table.split.items()} == {
        "train": 1197,
        "valid": 200,
        "test": 4000,
    }
    assert table.inputs.input_shape == (3, 8, 8)
    assert list(table.label_names) == [str(i) for i in range(10)] and len(table.attribute_names) == 10
    assert len(torch.cat(list(table.split.values())).unique()) == len(table.label) == 5397


def test_every_digit_of_the_bundle_is_used_in_one_split() -> None:
    table = Digits(seed=3).build()
    glyph = {name: set(table.inputs.glyph_of_row[rows].tolist()) for name, rows in table.split.items()}
    assert len(glyph["test"]) == 400
    assert sorted(row for part in glyph.values() for row in part) == list(range(1797))


def test_images_are_the_bundled_ones_in_the_attributes_colour() -> None:
    table, raw = Digits(severity=5).build(), load_digits()
    for split in table.split.values():
        for row in split[:: len(split) // 5].tolist():
            glyph = int(table.inputs.glyph_of_row[row])
            assert int(table.label[row]) == raw.target[glyph]
            image = table.inputs.fetch(torch.tensor([row]))[0].double()
            grey = torch.tensor(raw.images[glyph]) / 16
            color = table.inputs.color[row].double()
            torch.testing.assert_close(image, grey * color[:, None, None], rtol=0, atol=0.5 / 255)


def test_every_test_digit_is_shown_in_each_colour_once() -> None:
    table = Digits(correlation="one-to-many").build()
    rows = table.split["test"]
    pairs = torch.stack([table.inputs.glyph_of_row[rows], table.attribute[rows]])
    assert len(rows) == 400 * 11 and len(pairs.unique(dim=1).T) == len(rows)
    assert torch.equal(table.group_counts("test"), table.group_counts("test")[:, :1].expand(-1, 11))


@pytest.mark.parametrize("ratio", [0.02, 0.3])
def test_training_is_as_biased_as_the_ratio_says(ratio: float) -> None:
    conflicting = 0
    for seed in range(10):
        table = Digits(minority_ratio=ratio, seed=seed).build()
        counts = table.group_counts("train")
        conflicting += int(counts.sum() - counts.diagonal().sum())
    rows, share = 11_970, 0.9 * ratio
    assert abs(conflicting - rows * share) <= 4 * math.sqrt(rows * share * (1 - share))


def test_validation_is_biased_as_training_or_balanced() -> None:
    biased = Digits(minority_ratio=0.05).build().group_counts("valid")
    balanced = Digits(minority_ratio=0.05, valid="balanced").build().group_counts("valid")
    assert int(biased.sum()) == int(balanced.sum()) == 200
    assert int(biased.diagonal().sum()) > 175  # 191 expected
    assert int(balanced.diagonal().sum()) < 45  # 20 expected


def test_the_seed_decides_everything() -> None:
    def everything(seed: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(seed + 17)
        table = Digits(seed=seed).build()
        return (table.label, table.attribute, table.inputs.color, table.inputs.glyph_of_row)

    first, again, other = everything(1), everything(1), everything(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minority_ratio": 0.0}, "minority_ratio"),
        ({"minority_ratio": 1.5}, "minority_ratio"),
        ({"severity": 9}, "severity"),
        ({"valid": "fair"}, "valid"),
        ({"correlation": [[0], [1]]}, "2 rows.*10 labels"),
        ({"correlation": "none"}, "correlation"),
        ({"correlation": [[i + 2] for i in range(10)]}, "12 colours"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Digits(**options)


def test_facts_say_what_was_made() -> None:
    facts = Digits(minority_ratio=0.1, seed=4, correlation="many-to-one", valid="balanced").build().metadata
    assert facts["minority ratio"] == 0.1 and facts["data seed"] == 4
    assert facts["correlation"] == "many-to-one" and facts["validation"] == "balanced"
