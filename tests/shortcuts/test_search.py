"""What a search sees through views of rows whose shortcut is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from logit_correction.attributes.folds import draw_folds
from logit_correction.shortcuts.held_out import HeldOutPredictions
from logit_correction.shortcuts.search import Search
from logit_correction.types import TrainingRows, ViewInputs
from logit_correction.views.base import available_views
from logit_correction.views.images import Places
from logit_correction.views.tables import Pairs

from ..views.test_tables import build_inputs


def build_search(inputs: ViewInputs, label: torch.Tensor, network: torch.Tensor) -> Search:
    rows = torch.arange(len(label))
    held_out_predictions = HeldOutPredictions(
        "train", rows, network, draw_folds(len(rows), 3, torch.Generator().manual_seed(0))
    )
    num_labels = network.shape[1]
    return Search(TrainingRows(label, view_inputs=inputs), rows, held_out_predictions, num_labels, seed=0)


def test_pair_view_finds_what_no_single_column_predicts() -> None:
    draw = np.random.default_rng(0)
    label = torch.from_numpy(draw.integers(2, size=900))
    left = draw.normal(size=900)
    right = np.where(label.numpy() == 1, left, -left) + 0.1 * draw.normal(size=900)
    inputs = build_inputs(left=left, noise=draw.normal(size=900), right=right, place=["sea", "town", ""] * 300)
    search = build_search(inputs, label, torch.full((900, 2), 0.5))
    search.evaluate_views(Pairs.list_views(inputs))
    ((views, look),) = search.evidence.items()
    assert views == ("pair:left & right",) and look.accuracy > 0.85


def test_pair_view_finds_equal_numbers() -> None:
    draw = np.random.default_rng(0)
    label = torch.arange(600) % 2
    first = draw.integers(50, 200, 600).astype(float)
    third = draw.normal(size=600)
    second = np.where(label == 1, first, first + draw.integers(1, 4, 600) * draw.choice([-1, 1], 600))
    inputs = build_inputs(first=first, second=second, third=third)
    search = build_search(inputs, label, torch.full((600, 2), 0.5))
    search.evaluate_views(available_views(inputs, ["column", "pair"]))
    *_, (views, look) = search.evidence.items()
    assert len(search.evidence) == 2 and views == ("pair:first & second",) and look.accuracy > 0.99


# Top left corners of cells of 8 x 8 pixels.
CELLS = [(0, 0), (0, 24), (24, 0), (24, 24), (8, 8), (16, 8), (8, 16), (16, 16), (0, 8), (8, 0)]


@pytest.mark.parametrize(("num_labels", "breadth"), [(4, 0), (6, 2), (9, 3)])
def test_joint_evidence_of_many_places_has_a_greater_breadth(num_labels: int, breadth: int) -> None:
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(60 * num_labels) % num_labels
    images = torch.randint(100, 140, (len(label), 1, 32, 32), dtype=torch.uint8, generator=generator)
    for value, (top, left) in enumerate(CELLS[:num_labels]):  # each label has a mark in a cell of its own
        images[label == value, :, top : top + 8, left : left + 8] += 90
    inputs = ViewInputs(num_rows=len(label), inputs=lambda rows: images[rows] / 255, images=lambda rows: images[rows])
    network = torch.eye(num_labels)[label]
    search = build_search(inputs, label, network)
    search.evaluate_views(Places.list_views(inputs))
    ((views, look),) = search.evidence.items()
    assert len(views) == num_labels and look.accuracy > 0.95
    assert search.predictions[views].shape == network.shape and look.breadth == breadth


def test_narrowest_of_views_with_the_same_rows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A colour cast is correlated with the label; rich views see it too, and the label as well."""
    generator = torch.Generator().manual_seed(0)
    num_labels = 3
    label = torch.arange(600) % num_labels
    conflicting = torch.rand(len(label), generator=generator) < 0.06
    cast = torch.where(conflicting, (label + 1) % num_labels, label)
    images = torch.randint(60, 160, (len(label), 3, 32, 32), generator=generator)
    images[torch.arange(len(label)), cast] += 30
    row, column = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    patterns = torch.stack([row % 2, column % 2, (row + column) % 2])
    images += 4 * patterns[label].unsqueeze(1)
    images = images.to(torch.uint8)
    inputs = ViewInputs(num_rows=len(label), inputs=lambda rows: images[rows] / 255, images=lambda rows: images[rows])
    followed = torch.where(torch.rand(len(label), generator=generator) < 0.7, cast, label)
    search = build_search(inputs, label, 0.97 * torch.eye(num_labels)[followed] + 0.01)
    search.evaluate_views(available_views(inputs, ["thumbnail", "texture", "colour", "light"]))
    monkeypatch.setattr(search, "select_promising_views", lambda: [("texture",)])  # as on coloured digits
    search.score_candidates()
    finding = search.conclude()
    assert (finding.verdict, finding.views) == ("cannot tell", ("colour",))
    assert float((search.candidates[0].held_out.attribute == cast).double().mean()) > 0.98
