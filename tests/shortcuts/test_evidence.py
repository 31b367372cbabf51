"""What a view tells, against SciPy and by hand, the signs of a candidate, and the model that weighs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import entropy, mannwhitneyu

from logit_correction.finding import CandidateStatistics
from logit_correction.shortcuts.evidence import (
    EvidenceModel,
    compute_information_share,
    compute_statistics,
    compute_typicality,
    evaluate_view,
)


def one_hot(says: list[int], num_labels: int = 2, sure: float = 0.9) -> torch.Tensor:
    table = torch.full((len(says), num_labels), (1 - sure) / (num_labels - 1))
    table[torch.arange(len(says)), torch.tensor(says)] = sure
    return table


def test_figures_count_rows_where_the_sure_view_and_the_label_disagree() -> None:
    label = torch.tensor([0, 0, 0, 0, 1, 1])
    seen = one_hot([0, 1, 1, 1, 1, 1])
    seen[3] = torch.tensor([0.4, 0.6])  # not sure: it does not count
    found = evaluate_view(["colour"], 1, seen, one_hot([0, 1, 0, 0, 1, 0]), label)
    assert (found.rows, found.follows_view, found.follows_label) == (2, 0.5, 0.5)
    assert found.accuracy == pytest.approx(3 / 6) and found.network_accuracy == pytest.approx(4 / 6)
    assert found.ratio == pytest.approx(0.75)
    assert found.follows_low < 0.5 < found.follows_high
    none = evaluate_view(["colour"], 1, one_hot([0, 1]), one_hot([0, 1]), torch.tensor([0, 1]))
    assert none.rows == 0 and none.follows_view is None


def test_information_is_as_scipy_counts_it() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(200, 3, generator=generator).mul(4).softmax(1)
    label = torch.arange(200) % 3
    surprise = -float(seen.double()[torch.arange(200), label].clamp_min(1e-3).log().mean())
    wanted = 1 - surprise / entropy(torch.bincount(label, minlength=3).numpy() / 200)
    assert compute_information_share(seen.numpy(), label.numpy()) == pytest.approx(wanted)


def test_how_typical_rows_are_is_the_area_under_the_curve() -> None:
    draw = np.random.default_rng(0)
    label = np.arange(300) % 2
    flagged = np.arange(300) < 60
    own = draw.random(300).round(1).clip(0.1, 0.9)  # with ties
    other = np.where(np.eye(2)[label] > 0, own[:, None], 1 - own[:, None])
    areas = [
        mannwhitneyu(own[rows & ~flagged], own[rows & flagged]).statistic / ((rows & ~flagged).sum() * 30)
        for rows in (label == 0, label == 1)
    ]
    assert compute_typicality(other, label, flagged) == pytest.approx(np.mean(areas))


def drawn(mark: bool, followed: float, rows: int = 4000) -> CandidateStatistics:
    """Statistics of an attribute of which one row in twenty conflicts: a mark laid on at random, or part of the object.

    The network says what the attribute says in the share ``followed`` of these rows, and else the label.
    """
    draw = np.random.default_rng(0)
    label = draw.integers(2, size=rows)
    conflict = draw.random(rows) < 0.05
    attribute = np.where(conflict, 1 - label, label)
    # What another view sees of the object: odd where an honest feature is an exception.
    sees = draw.normal(1, 1, rows) - (0 if mark else 1.5) * conflict
    other = 1 / (1 + np.exp(-sees * (2 * label - 1)))
    says = np.where(conflict & (draw.random(rows) < followed), attribute, label)
    alone, network = (0.03 + 0.94 * np.eye(2)[one] for one in (attribute, says))
    views = [np.stack([1 - other, other], axis=1), np.full((rows, 2), 0.5)]  # the second knows nothing
    return compute_statistics(label, network, attribute, alone, views)


def test_a_mark_that_is_followed_helps_and_neither_an_honest_feature_nor_one_that_is_not_followed_does() -> None:
    mark = drawn(True, 0.7)
    honest = drawn(False, 0.7)
    unused = drawn(True, 0.0)
    assert mark.typical == pytest.approx(0.5, abs=0.05) and honest.typical > 0.8
    assert mark.excess == pytest.approx(0.7, abs=0.08) and unused.excess == pytest.approx(0, abs=0.02)
    chance = [EvidenceModel.predict_probability(one, "images") for one in (mark, honest, unused)]
    assert EvidenceModel.classify(chance[0]) == "shortcut" and chance[0] > max(chance[1:]) + 0.1


def test_every_sign_pushes_in_its_direction_alone() -> None:
    usual = drawn(True, 0.5)
    for name, (none, full) in EvidenceModel.ends.items():
        for kind in EvidenceModel.weights:
            values = [
                EvidenceModel.predict_probability(replace(usual, **{name: value}), kind)
                for value in np.linspace(-2, 2, 9)
            ]
            rising = np.diff(values) * (full - none)
            assert (rising >= 0).all() and (rising.max() > 0 or kind != "images"), name
