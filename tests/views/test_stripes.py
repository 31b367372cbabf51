from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from logit_correction.views.stripes import Stripes

PERIODS, DIRECTIONS = (3.0, 4.0, 5.0, 6.5), 8


def scenes(count: int, side: int = 32, seed: int = 0) -> Tensor:
    """Soft blobs with an upright edge in the middle: something that has a direction of its own in places."""
    coarse = torch.rand(count, 3, 5, 5, generator=torch.Generator().manual_seed(seed))
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1) * 120 + 40
    smooth[..., side // 2 :] += 60
    return smooth


def striped(images: Tensor, degrees: float, period: float, phase: float, strength: float = 9) -> Tensor:
    side = images.shape[2]
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    along = right * math.cos(math.radians(degrees)) + down * math.sin(math.radians(degrees))
    wave = strength * (2 * math.pi / period * along + phase).sin()
    return (images + wave).round().clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize("direction", range(DIRECTIONS))
@pytest.mark.parametrize("period", PERIODS)
def test_faint_stripes_show_in_their_direction_and_width(period: float, direction: int) -> None:
    images = striped(scenes(8), 180 * direction / DIRECTIONS, period, phase=0.3, strength=15)
    found = Stripes().look(images).view(8, len(PERIODS), DIRECTIONS)
    assert (found[:, PERIODS.index(period)].argmax(1) == direction).all()


def test_where_stripes_begin_does_not_matter() -> None:
    plain = torch.full((1, 1, 32, 32), 128.0)
    first, second = (Stripes().look(striped(plain, 45, 5, phase, strength=40)) for phase in (0, 2))
    assert first.max() > 3
    assert_close(first, second, atol=0.5, rtol=0)  # sampling leaves a little


def test_an_edge_is_no_stripe() -> None:
    image = torch.full((1, 3, 32, 32), 60, dtype=torch.uint8)
    image[..., 16:] = 200
    assert_close(Stripes().look(image), torch.zeros(1, 32))
    # What is all over the image counts, however faint it is beside the edge.
    assert Stripes().look(striped(image.float(), 90, 5, 0.0)).max() > 1


def test_large_images_are_looked_at_twice_so_coarse_stripes_show_too() -> None:
    found = Stripes().look(striped(scenes(4, 128), 45, 16, phase=0.0)).view(4, 2, len(PERIODS), DIRECTIONS)
    assert (found[:, 1, 1].argmax(1) == 2).all()  # 16 pixels are 4 of the image in a quarter of the size


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 9), (3, 2, 2), (1, 5, 3), (3, 40, 7), (3, 28, 28), (4, 70, 65)])
def test_images_of_any_size_give_finite_numbers(shape: tuple[int, int, int]) -> None:
    images = torch.randint(256, (4, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = Stripes().look(images)
    assert found.shape == (4, 64 if min(shape[1:]) >= 64 else 32)
    assert found.isfinite().all()
