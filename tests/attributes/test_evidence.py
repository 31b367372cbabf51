"""What a view tells, against SciPy and by hand, and the verdict on all of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, mannwhitneyu

from logit_correction.attributes.evidence import (
    Signs,
    Thresholds,
    conclude,
    information_of,
    ratio_interval,
    signs_of,
    told_apart,
)

CLEAR = Signs(
    view="colour",
    sentence="the colours",
    breadth=1,
    accuracy=0.93,
    network_accuracy=0.95,
    ratio=0.98,
    ratio_low=0.97,
    ratio_high=0.99,
    rows=80,
    share=0.08,
    follows_view=0.7,
    follows_label=0.2,
    follows_low=0.69,
    follows_high=0.85,
    confidence=0.95,
    information=0.8,
    told_apart=0.8,
    told_apart_low=0.7,
    told_apart_high=0.9,
)


def one_hot(says: list[int], num_labels: int = 2, sure: float = 0.9) -> torch.Tensor:
    table = torch.full((len(says), num_labels), (1 - sure) / (num_labels - 1))
    table[torch.arange(len(says)), torch.tensor(says)] = sure
    return table


def test_signs_count_rows_where_the_sure_view_and_the_label_disagree() -> None:
    label = torch.tensor([0, 0, 0, 0, 1, 1])
    seen = one_hot([0, 1, 1, 1, 1, 1])
    seen[3] = torch.tensor([0.4, 0.6])  # not sure: it does not count
    found = signs_of("colour", "the colours", 1, seen, one_hot([0, 1, 0, 0, 1, 0]), label)
    assert (found.rows, found.follows_view, found.follows_label) == (2, 0.5, 0.5)
    assert found.accuracy == pytest.approx(3 / 6) and found.network_accuracy == pytest.approx(4 / 6)
    assert found.ratio == pytest.approx(0.75) and found.ratio_low < 0.75 < found.ratio_high
    assert found.follows_low < 0.5 < found.follows_high
    none = signs_of("colour", "the colours", 1, one_hot([0, 1]), one_hot([0, 1]), torch.tensor([0, 1]))
    content = json.loads(json.dumps(conclude([none], 4, 19).to_dict(["cat", "dog"]), allow_nan=False))
    assert content["verdict"] == "cannot tell" and content["signs"][0]["follows_view"] is None
    label = torch.tensor([0, 0, 0, 1, 2, 2])
    seen = one_hot([1, 1, 2, 1, 0, 2], 3)  # pairs are counted, the commonest first
    assert signs_of("colour", "the colours", 1, seen, seen, label).conflicts == ((0, 1, 2), (0, 2, 1), (2, 0, 1))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_the_interval_holds_the_ratio_of_the_means(pairs: list[tuple[bool, bool]]) -> None:
    one, other = (torch.tensor([pair[i] for pair in pairs]).double() for i in (0, 1))
    ratio, low, high = ratio_interval(one, other)
    assert low <= ratio <= high
    if float(other.mean()) > 0:
        assert ratio == pytest.approx(float(one.mean() / other.mean()))


def test_information_and_rows_told_apart_are_as_scipy_counts_them() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(200, 3, generator=generator).mul(4).softmax(1)
    network = torch.randn(200, 3, generator=generator).softmax(1).mul(20).round().div(20)  # with ties
    label = torch.randint(3, (200,), generator=generator)
    surprise = -float(seen.double()[torch.arange(200), label].clamp_min(1e-6).log().mean())
    wanted = 1 - surprise / entropy(torch.bincount(label, minlength=3).numpy() / 200)
    assert information_of(seen, label) == pytest.approx(wanted)
    sure, says = seen.max(1).values > 0.8, seen.argmax(1)
    wins = pairs = 0.0
    for answer in range(3):
        rows = sure & (says == answer)
        fits, other = (network[rows & chosen, answer].numpy() for chosen in (label == answer, label != answer))
        wins += mannwhitneyu(fits, other).statistic
        pairs += len(fits) * len(other)
    value, low, high = told_apart(seen, network, label)
    assert value == pytest.approx(wins / pairs) and low < value < high


def test_label_noise_is_told_from_a_minority_that_the_network_partly_knows() -> None:
    generator = torch.Generator().manual_seed(0)
    content = torch.randint(4, (4_000,), generator=generator)
    network = (torch.randn(4_000, 4, generator=generator) + 3 * torch.eye(4)[content]).softmax(1)
    changed = torch.rand(4_000, generator=generator) < 0.1
    other = (content + torch.randint(1, 4, (4_000,), generator=generator)) % 4
    # Labels drawn wrongly: the view and the network see the true content, and it is not the label.
    value, low, high = told_apart(one_hot(content.tolist(), 4), network, torch.where(changed, other, content))
    assert low < 0.5 < high
    # A minority: the view sees something else, the network the content, which is the label.
    value, low, _ = told_apart(one_hot(torch.where(changed, other, content).tolist(), 4), network, content)
    assert value > 0.9 and low > 0.5


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "shortcut"),
        ({"ratio": 0.9}, "none found"),  # the network knows more
        ({"information": 0.4}, "none found"),  # too little of the label is told
        ({"follows_low": 0.05}, "none found"),  # there, but the network does not take it
        ({"rows": 5}, "cannot tell"),  # too few rows to see whether it does
        ({"breadth": 2, "ratio": 0.95}, "cannot tell"),  # rich statistics know something of the label itself
        ({"told_apart_low": 0.45}, "cannot tell"),  # rows with wrong labels would look the same
        ({"told_apart_low": math.nan}, "cannot tell"),
        ({"breadth": 3}, "cannot tell"),  # what sees everything is no evidence
    ],
)
def test_one_sign_alone_is_no_shortcut(change: dict[str, float], verdict: str) -> None:
    found = conclude([replace(CLEAR, **change)], 4)
    assert (found.verdict, found.views) == (verdict, ["colour"] if verdict == "shortcut" else [])
    several = replace(CLEAR, view="places:1,1 + places:1,4", conflicts=((0, 1, 7),))
    content = conclude([several], 4).to_dict(["cat", "dog"])
    assert content["rows"] == 80 and content["conflicts"] == [{"label": "cat", "looks_like": "dog", "rows": 7}]


def test_a_simple_summary_goes_before_rich_statistics_and_one_view_before_several() -> None:
    rich = replace(CLEAR, view="texture", breadth=2, accuracy=0.95, ratio=1.0)
    several = replace(CLEAR, view="places:1,1 + places:1,4", breadth=0, accuracy=0.94)
    assert conclude([several, CLEAR, rich], 4).views == ["colour"]
    assert conclude([several, rich], 4).views == ["places:1,1", "places:1,4"]
    assert conclude([rich], 3).views == ["texture"]
    assert conclude([rich], 2).verdict == "cannot tell"  # two honest labels differ as much


def test_thresholds_are_frozen() -> None:
    """Set on planted sets of the seeds 50, 60 to 69 and 70, the rows on breast cancer; who moves one measures all."""
    assert Thresholds() == Thresholds(0.92, 0.97, 0.58, 0.8, 0.12, 20, 10, 3)
