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
    frame, centre = points[..., ~inside], points[..., inside]
    wanted = [torch.cat([part.mean(2), part.std(2, correction=0)], dim=1) for part in (frame, centre)]
    assert_close(Border().look(x), torch.cat([*wanted, wanted[0] - wanted[1]], dim=1).float(), atol=1e-6, rtol=0)


def test_a_white_frame_shows_and_the_centre_does_not_change() -> None:
    x = torch.full((1, 1, 32, 32), 51, dtype=torch.uint8)
    framed = x.clone()
    framed[..., :4, :] = framed[..., -4:, :] = 255
    framed[..., :, :4] = framed[..., :, -4:] = 255
    assert_close(Border().look(x)[0], torch.tensor([0.2, 0, 0.2, 0, 0, 0]))
    assert_close(Border().look(framed)[0], torch.tensor([1, 0, 0.2, 0, 0.8, 0]))


@pytest.mark.parametrize("shape", [(1, 1), (2, 9), (3, 3)])
def test_small_images_have_a_frame_too(shape: tuple[int, int]) -> None:
    found = Border().look(torch.full((2, 3, *shape), 255, dtype=torch.uint8))
    assert found.shape == (2, 18)
    assert_close(found[:, :3], torch.ones(2, 3))
