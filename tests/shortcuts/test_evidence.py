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


def build_probabilities(predicted: list[int], num_labels: int = 2, confidence: float = 0.9) -> torch.Tensor:
    table = torch.full((len(predicted), num_labels), (1 - confidence) / (num_labels - 1))
    table[torch.arange(len(predicted)), torch.tensor(predicted)] = confidence
    return table


def test_evaluate_view_counts_rows_where_a_sure_view_and_the_label_disagree() -> None:
    label = torch.tensor([0, 0, 0, 0, 1, 1])
    view_probability = build_probabilities([0, 1, 1, 1, 1, 1])
    view_probability[3] = torch.tensor([0.4, 0.6])  # not sure: it does not count
    evidence = evaluate_view(["colour"], 1, view_probability, build_probabilities([0, 1, 0, 0, 1, 0]), label)
    assert (evidence.rows, evidence.follows_view, evidence.follows_label) == (2, 0.5, 0.5)
    assert evidence.accuracy == pytest.approx(3 / 6) and evidence.network_accuracy == pytest.approx(4 / 6)
    assert evidence.ratio == pytest.approx(0.75)
    assert evidence.follows_low < 0.5 < evidence.follows_high
    evidence_without_conflicts = evaluate_view(
        ["colour"], 1, build_probabilities([0, 1]), build_probabilities([0, 1]), torch.tensor([0, 1])
    )
    assert evidence_without_conflicts.rows == 0 and evidence_without_conflicts.follows_view is None


def test_information_share_equals_scipy_entropy() -> None:
    generator = torch.Generator().manual_seed(0)
    probability = torch.randn(200, 3, generator=generator).mul(4).softmax(1)
    label = torch.arange(200) % 3
    surprise = -float(probability.double()[torch.arange(200), label].clamp_min(1e-3).log().mean())
    expected = 1 - surprise / entropy(torch.bincount(label, minlength=3).numpy() / 200)
    assert compute_information_share(probability.numpy(), label.numpy()) == pytest.approx(expected)


def test_typicality_equals_the_area_under_the_curve() -> None:
    draw = np.random.default_rng(0)
    label = np.arange(300) % 2
    flagged = np.arange(300) < 60
    label_probability = draw.random(300).round(1).clip(0.1, 0.9)  # with ties
    probability = np.where(np.eye(2)[label] > 0, label_probability[:, None], 1 - label_probability[:, None])
    areas = [
        mannwhitneyu(label_probability[rows & ~flagged], label_probability[rows & flagged]).statistic
        / ((rows & ~flagged).sum() * 30)
        for rows in (label == 0, label == 1)
    ]
    assert compute_typicality(probability, label, flagged) == pytest.approx(np.mean(areas))


def draw_candidate_statistics(mark: bool, followed: float, rows: int = 4000) -> CandidateStatistics:
    """Statistics of an attribute that conflicts in one row of twenty: a mark laid on at random, or part of the object.

    The network says what the attribute says in the share ``followed`` of these rows, and else the label.
    """
    draw = np.random.default_rng(0)
    label = draw.integers(2, size=rows)
    conflict = draw.random(rows) < 0.05
    attribute = np.where(conflict, 1 - label, label)
    # What another view sees of the object: odd where an honest feature is an exception.
    view_logit = draw.normal(1, 1, rows) - (0 if mark else 1.5) * conflict
    other = 1 / (1 + np.exp(-view_logit * (2 * label - 1)))
    network_label = np.where(conflict & (draw.random(rows) < followed), attribute, label)
    alone, network = (0.03 + 0.94 * np.eye(2)[predicted] for predicted in (attribute, network_label))
    views = [np.stack([1 - other, other], axis=1), np.full((rows, 2), 0.5)]  # the second knows nothing
    return compute_statistics(label, network, attribute, alone, views)


def test_evidence_model_prefers_a_followed_mark_to_an_honest_or_unused_feature() -> None:
    mark = draw_candidate_statistics(True, 0.7)
    honest = draw_candidate_statistics(False, 0.7)
    unused = draw_candidate_statistics(True, 0.0)
    assert mark.typical == pytest.approx(0.5, abs=0.05) and honest.typical > 0.8
    assert mark.excess == pytest.approx(0.7, abs=0.08) and unused.excess == pytest.approx(0, abs=0.02)
    chance = [EvidenceModel.predict_probability(statistics, "images") for statistics in (mark, honest, unused)]
    assert EvidenceModel.classify(chance[0]) == "shortcut" and chance[0] > max(chance[1:]) + 0.1


def test_every_statistic_changes_the_probability_in_one_direction() -> None:
    statistics = draw_candidate_statistics(True, 0.5)
    for name, (start, end) in EvidenceModel.ends.items():
        for kind in EvidenceModel.weights:
            values = [
                EvidenceModel.predict_probability(replace(statistics, **{name: value}), kind)
                for value in np.linspace(-2, 2, 9)
            ]
            rising = np.diff(values) * (end - start)
            assert (rising >= 0).all() and (rising.max() > 0 or kind != "images"), name
