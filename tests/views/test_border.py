from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from logit_correction.views.border import Border


def test_frame_and_centre_are_told_apart_in_float64() -> None:
    x = torch.randint(256, (5, 3, 16, 24), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    inside = torch.zeros(16, 24, dtype=torch.bool)
    inside[2:-2, 2:-2] = True
    points = x.double() / 255
    edge = torch.ones(16, 24, dtype=torch.bool)
    edge[1:-1, 1:-1] = False
    parts = points[..., ~inside], points[..., inside], points[..., edge]
    frame, centre, outer = (torch.cat([part.mean(2), part.std(2, correction=0)], dim=1) for part in parts)
    wanted = torch.cat([frame, centre, frame - centre, outer], dim=1).float()
    assert_close(Border().look(x), wanted, atol=1e-6, rtol=0)


def test_a_white_frame_shows_and_the_centre_does_not_change() -> None:
    x = torch.full((1, 1, 32, 32), 51, dtype=torch.uint8)
    framed = x.clone()
    framed[..., :4, :] = framed[..., -4:, :] = 255
    framed[..., :, :4] = framed[..., :, -4:] = 255
    assert_close(Border().look(x)[0], torch.tensor([0.2, 0, 0.2, 0, 0, 0, 0.2, 0]))
    assert_close(Border().look(framed)[0], torch.tensor([1, 0, 0.2, 0, 0.8, 0, 1, 0]))


@pytest.mark.parametrize("shape", [(1, 1), (2, 9), (3, 3)])
def test_small_images_have_a_frame_too(shape: tuple[int, int]) -> None:
    found = Border().look(torch.full((2, 3, *shape), 255, dtype=torch.uint8))
    assert found.shape == (2, 24)
    assert_close(found[:, :3], torch.ones(2, 3))
