"""What a view tells, against SciPy and by hand, the signs of a candidate, and the model that weighs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, mannwhitneyu

from logit_correction.finding import Signs
from logit_correction.shortcuts.evidence import (
    Model,
    independence,
    information,
    look_of,
    ratio_interval,
    signs_of,
    told_apart,
)


def one_hot(says: list[int], num_labels: int = 2, sure: float = 0.9) -> torch.Tensor:
    table = torch.full((len(says), num_labels), (1 - sure) / (num_labels - 1))
    table[torch.arange(len(says)), torch.tensor(says)] = sure
    return table


def test_figures_count_rows_where_the_sure_view_and_the_label_disagree() -> None:
    label = torch.tensor([0, 0, 0, 0, 1, 1])
    seen = one_hot([0, 1, 1, 1, 1, 1])
    seen[3] = torch.tensor([0.4, 0.6])  # not sure: it does not count
    found = look_of(["colour"], "the colours", 1, seen, one_hot([0, 1, 0, 0, 1, 0]), label)
    assert (found.rows, found.follows_view, found.follows_label) == (2, 0.5, 0.5)
    assert found.accuracy == pytest.approx(3 / 6) and found.network_accuracy == pytest.approx(4 / 6)
    assert found.ratio == pytest.approx(0.75) and found.ratio_low < 0.75 < found.ratio_high
    assert found.follows_low < 0.5 < found.follows_high
    none = look_of(["colour"], "the colours", 1, one_hot([0, 1]), one_hot([0, 1]), torch.tensor([0, 1]))
    assert none.rows == 0 and none.follows_view is None


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
    surprise = -float(seen.double()[torch.arange(200), label].clamp_min(1e-3).log().mean())
    wanted = 1 - surprise / entropy(torch.bincount(label, minlength=3).numpy() / 200)
    assert information(seen.numpy(), label.numpy()) == pytest.approx(wanted)
    sure, says = seen.max(1).values > 0.8, seen.argmax(1)
    wins = pairs = 0.0
    for answer in range(3):
        rows = sure & (says == answer)
        fits, other = (network[rows & chosen, answer].numpy() for chosen in (label == answer, label != answer))
        wins += mannwhitneyu(fits, other).statistic
        pairs += len(fits) * len(other)
    found = told_apart(seen, network, label)
    assert found.told_apart == pytest.approx(wins / pairs)
    assert found.told_apart_low < found.told_apart < found.told_apart_high
    assert told_apart(one_hot([0, 1]), one_hot([0, 1]), torch.tensor([0, 1])) is None


def test_label_noise_is_told_from_a_minority_that_the_network_partly_knows() -> None:
    generator = torch.Generator().manual_seed(0)
    content = torch.randint(4, (4_000,), generator=generator)
    network = (torch.randn(4_000, 4, generator=generator) + 3 * torch.eye(4)[content]).softmax(1)
    changed = torch.rand(4_000, generator=generator) < 0.1
    other = (content + torch.randint(1, 4, (4_000,), generator=generator)) % 4
    # Labels drawn wrongly: the view and the network see the true content, and it is not the label.
    noise = told_apart(one_hot(content.tolist(), 4), network, torch.where(changed, other, content))
    assert noise.told_apart_low < 0.5 < noise.told_apart_high
    # A minority: the view sees something else, the network the content, which is the label.
    minority = told_apart(one_hot(torch.where(changed, other, content).tolist(), 4), network, content)
    assert minority.told_apart > 0.9 and minority.told_apart_low > 0.5


def drawn(mark: bool, followed: float, rows: int = 4000) -> Signs:
    """Signs of an attribute of which one row in twenty conflicts: a mark laid on at random, or part of the object.

    The network says what the attribute says in the share ``followed`` of these rows, and else the label.
    """
    draw = np.random.default_rng(0)
    label = draw.integers(2, size=rows)
    conflict = draw.random(rows) < 0.05
    attribute = np.where(conflict, 1 - label, label)
    # What another view sees of the object: odd where an honest feature is an exception.
    typical = draw.normal(1, 1, rows) - (0 if mark else 1.5) * conflict
    other = 1 / (1 + np.exp(-typical * (2 * label - 1)))
    says = np.where(conflict & (draw.random(rows) < followed), attribute, label)
    # A mark is seen or not; an honest feature the plainer the more typical the object is.
    sure = np.where(draw.random(rows) < 0.97, 0.97, 0.6) if mark else 0.5 + 0.5 / (1 + np.exp(-typical - 1))
    alone = np.where(np.eye(2)[attribute] > 0, sure[:, None], 1 - sure[:, None])
    views = [np.stack([1 - other, other], axis=1)]
    # The network is less sure where what it sees of the object speaks against what it says.
    certain = np.where(says == label, 0.85, 0.75) + draw.normal(0, 0.04, rows)
    network = np.where(np.eye(2)[says] > 0, certain[:, None], 1 - certain[:, None])
    return signs_of(label, network, attribute, alone, views)


def test_a_mark_that_is_followed_helps_and_neither_an_honest_feature_nor_one_that_is_not_followed_does() -> None:
    model = Model.shipped()
    mark, honest, unused = drawn(True, 0.7), drawn(False, 0.7), drawn(True, 0.0)
    assert mark.rest == pytest.approx(0.5, abs=0.05) and honest.rest > 0.8
    assert abs(mark.linked) < 0.1 and honest.linked > 0.9
    assert mark.excess == pytest.approx(0.7, abs=0.08) and unused.excess == pytest.approx(0, abs=0.02)
    probability = {name: model.judge(one, "images") for name, one in
                   (("mark", mark), ("honest", honest), ("unused", unused))}  # fmt: skip
    assert model.verdict_of(probability["mark"]) == "shortcut"
    assert model.verdict_of(probability["honest"]) != "shortcut"
    assert model.verdict_of(probability["unused"]) == "none found"


def test_labels_of_which_the_network_is_as_sure_as_of_others_may_be_wrong_so_a_person_is_asked() -> None:
    draw = np.random.default_rng(0)
    attribute = draw.integers(2, size=2000)
    label = np.where(draw.random(2000) < 0.1, 1 - attribute, attribute)
    sure = draw.uniform(0.8, 1, 2000)
    network = np.where(np.eye(2)[attribute] > 0, sure[:, None], 1 - sure[:, None])
    signs = signs_of(label, network, attribute, np.eye(2)[attribute] * 0.9 + 0.05)
    assert signs.doubtful == pytest.approx(0.5, abs=0.05)
    model = Model.shipped()
    found, likely = (model.judge(replace(signs, doubtful=one), "tables", clear=True) for one in (signs.doubtful, 0.9))
    assert model.may_be_wrong_labels(signs) and model.verdict_of(found) == "cannot tell"
    assert model.verdict_of(likely) == "shortcut"  # but for the doubt


def test_every_sign_pushes_in_its_direction_alone() -> None:
    model, usual = Model.shipped(), drawn(True, 0.5)
    for name, one in model.signs.items():
        for part, weight in one["weight"].items():
            values = [model.judge(replace(usual, **{name: value}), part) for value in np.linspace(-2, 2, 9)]
            rising = np.diff(values) * one["direction"]
            assert (rising >= 0).all() and (rising.max() > 0) == (weight > 0 or name in model.guards), name


def test_views_that_know_nothing_of_the_label_do_not_vote_and_parts_of_a_text_count_by_their_lower_half() -> None:
    label = np.arange(60) % 2
    flagged, knows = np.arange(60) < 12, np.where(np.arange(60) < 12, 0.4, 0.9)
    view = np.where(np.eye(2)[label] > 0, knows[:, None], 1 - knows[:, None])
    nothing = np.full((60, 2), 0.5)
    assert independence(label, flagged, [view, nothing], []) == 1.0
    assert independence(label, flagged, [nothing], []) == 0.75
    assert independence(label, flagged, [], [view, nothing, nothing, view]) == 0.5
    assert independence(label, flagged, [nothing], [view]) == 1.0
