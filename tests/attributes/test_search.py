"""What is looked at as one: the members of a family, and how much they see together."""

from __future__ import annotations

import pytest
import torch

from logit_correction.attributes.search import Sample
from logit_correction.types import ViewInputs
from logit_correction.views.images import Places

CELLS = [(0, 0), (0, 24), (24, 0), (24, 24), (8, 8), (16, 8), (8, 16)]  # corners of cells of 8 x 8 pixels


@pytest.mark.parametrize(("num_labels", "breadth"), [(3, 0), (4, 0), (6, 2), (7, 2)])
def test_many_places_together_are_no_narrow_look(num_labels: int, breadth: int) -> None:
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(60 * num_labels) % num_labels
    images = torch.randint(100, 140, (len(label), 1, 32, 32), dtype=torch.uint8, generator=generator)
    for value, (top, left) in enumerate(CELLS[:num_labels]):  # each label has a mark in a cell of its own
        images[label == value, :, top : top + 8, left : left + 8] += 90
    inputs = ViewInputs(num_rows=len(label), inputs=lambda rows: images[rows] / 255, images=lambda rows: images[rows])
    network = torch.eye(num_labels)[label]
    sample = Sample([inputs], label, torch.arange(len(label)) // num_labels % 3, network)
    ((found, seen),) = sample.look(Places.views_of(inputs), 0.8, lambda _: None)
    assert len(found.views) == num_labels and found.accuracy > 0.95 and seen.shape == network.shape
    assert found.breadth == breadth
