"""Views of images that see fine detail: against waves, noise, compression and stripes that were put in."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.types import ViewInputs
from logit_correction.views.images import Spectrum, Stripes, Texture

SHARE = 16
LEVEL = 18
PHASES = slice(19, 27)
EDGE = 27
PERIODS = (3.0, 4.0, 5.0, 6.5)
DIRECTIONS = 8


# Spectrum


def scene(side: int = 64) -> Image.Image:
    """Soft blobs with fine grain: something that blur and compression can change."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, 6, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1)
    grain = 0.06 * torch.randn(1, 1, side, side, generator=generator)
    pixels = ((smooth * 0.8 + 0.1 + grain).clamp(0, 1) * 255).round().to(torch.uint8)[0]
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def compressed(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, subsampling=0)
    return Image.open(file).convert("RGB")


def look(image: Image.Image) -> Tensor:
    return Spectrum().image_features(torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).unsqueeze(0))[0]


def test_a_wave_has_its_power_in_its_band() -> None:
    for cycles in (2, 5, 9, 15):
        across = torch.arange(32) * (2 * torch.pi * cycles / 32)
        wave = (127.5 + 100 * across.cos()).round().to(torch.uint8).expand(1, 3, 32, 32)
        for images in (wave, wave.transpose(2, 3)):
            found = Spectrum().image_features(images)[0]
            assert found[:16].argmax() == cycles - 1 and (found[SHARE] > 0.5) == (cycles > 8)


def test_blur_lowers_fine_detail_and_compression_shows_at_the_borders_of_blocks_in_both_directions() -> None:
    plain = look(scene())
    blurred = look(scene().filter(ImageFilter.GaussianBlur(1)))
    assert blurred[SHARE] < plain[SHARE] / 2 and blurred[LEVEL] < plain[LEVEL]
    strengths = [look(compressed(scene(), quality)) for quality in (95, 40, 8)]
    for offset in (0, 10):
        edge = [float(found[EDGE + offset]) for found in strengths]
        assert edge[0] < edge[1] < edge[2]
        assert strengths[2][PHASES.start + offset : PHASES.stop + offset].argmax() == 7


# Stripes


def striped(images: Tensor, degrees: float, period: float, phase: float, strength: float = 9) -> Tensor:
    side = images.shape[2]
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    along = right * math.cos(math.radians(degrees)) + down * math.sin(math.radians(degrees))
    wave = strength * (2 * math.pi / period * along + phase).sin()
    return (images + wave).round().clamp(0, 255).to(torch.uint8)


def scenes(count: int, side: int = 32) -> Tensor:
    """Soft blobs with an upright edge in the middle: something that has a direction of its own in places."""
    coarse = torch.rand(count, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1) * 120 + 40
    smooth[..., side // 2 :] += 60
    return smooth


def test_faint_stripes_show_in_their_direction_and_width() -> None:
    for number, period in enumerate(PERIODS):
        for direction in range(DIRECTIONS):
            images = striped(scenes(4), 180 * direction / DIRECTIONS, period, phase=0.3, strength=15)
            found = Stripes().image_features(images).view(4, len(PERIODS), DIRECTIONS)
            assert (found[:, number].argmax(1) == direction).all()


# Texture


def grainy(*shape: int, seed: int = 0) -> Tensor:
    """Smooth blobs with some grain, so that patches have directions of great and of little variance."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(*shape[:2], 1 + shape[2] // 5, 1 + shape[3] // 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, shape[2:], mode="bilinear")
    return ((smooth + 0.1 * torch.randn(shape, generator=generator)).clamp(0, 1) * 255).to(torch.uint8)


def inputs_of(x: Tensor) -> ViewInputs:
    return ViewInputs(num_rows=len(x), inputs=lambda rows: x[rows], images=lambda rows: x[rows])


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 47, 47)])
def test_texture_is_learned_alike_each_time_and_refuses_images_of_another_kind(shape: tuple[int, ...]) -> None:
    x = grainy(20, *shape)
    views = [Texture(), Texture()]
    for view in views:
        view.fit(inputs_of(x))
    first, second = (view.features(inputs_of(x)) for view in views)
    assert first.shape == (20, 3 * 36 * shape[0] + 4 * 128) and torch.equal(first, second)
    with pytest.raises(InputError, match="are not like those of training"):
        views[0].features(inputs_of(grainy(5, 4, *shape[1:])))
