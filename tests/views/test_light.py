from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from logit_correction.views.light import Light

#: Numbers of a pair of step and direction: three quartiles, then four bounded means; the median is the second.
EACH, MEDIAN = 7, 1


def lit(images: Tensor, slope: float, downwards: bool) -> Tensor:
    """Make (B, C, H, W) brighter towards the right or the bottom, by a share of ``slope`` a pixel."""
    side = images.shape[3]
    ramp = 1 + slope * (torch.arange(side) - side / 2)
    return (images * (ramp.unsqueeze(1) if downwards else ramp)).round().clamp(0, 255).to(torch.uint8)


def things(count: int) -> Tensor:
    """Patches of many brightnesses side by side: edges everywhere, and no light from a side."""
    grey = torch.randint(40, 160, (count, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    return grey.repeat_interleave(8, 2).repeat_interleave(8, 3).expand(-1, 3, -1, -1).float()


def medians(images: Tensor) -> Tensor:
    """Return the median slopes (B, step, direction): to the right, downwards."""
    return Light().look(images).view(len(images), 2, 2, EACH)[..., MEDIAN]


@pytest.mark.parametrize("slope", [-0.01, 0.01, 0.02])
@pytest.mark.parametrize("downwards", [False, True])
def test_the_side_of_the_light_shows_however_many_edges_there_are(slope: float, downwards: bool) -> None:
    found = medians(lit(things(16), slope, downwards))[:, 1]  # three pixels apart: rounding to bytes counts less
    along, across = found[:, int(downwards)], found[:, int(not downwards)]
    assert_close(along.mean(), torch.tensor(slope), rtol=0.25, atol=0)
    assert (along.sign() == (1 if slope > 0 else -1)).all()
    assert (across.abs() < abs(slope) / 3).all()


def test_turning_an_image_round_turns_the_slopes() -> None:
    images = lit(things(4), 0.02, downwards=False)
    assert_close(medians(images.flip(3)), medians(images) * torch.tensor([-1, 1]), atol=1e-3, rtol=0)


def test_an_image_of_one_colour_has_no_slope() -> None:
    assert_close(Light().look(torch.full((1, 3, 32, 32), 77, dtype=torch.uint8)), torch.zeros(1, 28))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 9), (3, 2, 2), (1, 5, 3), (3, 40, 7), (3, 28, 28), (4, 70, 65)])
def test_images_of_any_size_give_finite_numbers(shape: tuple[int, int, int]) -> None:
    images = torch.randint(256, (4, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = Light().look(images)
    assert found.shape == (4, 28)
    assert found.isfinite().all()
