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


def draw_scene(side: int = 64) -> Image.Image:
    """Soft blobs with fine grain: something that blur and compression can change."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, 6, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1)
    grain = 0.06 * torch.randn(1, 1, side, side, generator=generator)
    pixels = ((smooth * 0.8 + 0.1 + grain).clamp(0, 1) * 255).round().to(torch.uint8)[0]
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def compress_as_jpeg(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, subsampling=0)
    return Image.open(file).convert("RGB")


def compute_spectrum(image: Image.Image) -> Tensor:
    return Spectrum().image_features(torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).unsqueeze(0))[0]


def test_spectrum_of_a_wave_has_its_power_in_its_band() -> None:
    for cycles in (2, 5, 9, 15):
        across = torch.arange(32) * (2 * torch.pi * cycles / 32)
        wave = (127.5 + 100 * across.cos()).round().to(torch.uint8).expand(1, 3, 32, 32)
        for images in (wave, wave.transpose(2, 3)):
            spectrum = Spectrum().image_features(images)[0]
            assert spectrum[:16].argmax() == cycles - 1 and (spectrum[SHARE] > 0.5) == (cycles > 8)


def test_spectrum_shows_blur_and_jpeg_blocks_in_both_directions() -> None:
    plain = compute_spectrum(draw_scene())
    blurred = compute_spectrum(draw_scene().filter(ImageFilter.GaussianBlur(1)))
    assert blurred[SHARE] < plain[SHARE] / 2 and blurred[LEVEL] < plain[LEVEL]
    strengths = [compute_spectrum(compress_as_jpeg(draw_scene(), quality)) for quality in (95, 40, 8)]
    for offset in (0, 10):
        edge = [float(spectrum[EDGE + offset]) for spectrum in strengths]
        assert edge[0] < edge[1] < edge[2]
        assert strengths[2][PHASES.start + offset : PHASES.stop + offset].argmax() == 7


# Stripes


def add_stripes(images: Tensor, degrees: float, period: float, phase: float, strength: float = 9) -> Tensor:
    side = images.shape[2]
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    along = right * math.cos(math.radians(degrees)) + down * math.sin(math.radians(degrees))
    wave = strength * (2 * math.pi / period * along + phase).sin()
    return (images + wave).round().clamp(0, 255).to(torch.uint8)


def draw_scenes(count: int, side: int = 32) -> Tensor:
    """Soft blobs with an upright edge in the middle: something that has a direction of its own in places."""
    coarse = torch.rand(count, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1) * 120 + 40
    smooth[..., side // 2 :] += 60
    return smooth


def test_stripes_view_finds_direction_and_period_of_faint_stripes() -> None:
    for number, period in enumerate(PERIODS):
        for direction in range(DIRECTIONS):
            images = add_stripes(draw_scenes(4), 180 * direction / DIRECTIONS, period, phase=0.3, strength=15)
            energy = Stripes().image_features(images).view(4, len(PERIODS), DIRECTIONS)
            assert (energy[:, number].argmax(1) == direction).all()


# Texture


def draw_grainy_images(*shape: int, seed: int = 0) -> Tensor:
    """Smooth blobs with some grain, so that patches have directions of great and of little variance."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(*shape[:2], 1 + shape[2] // 5, 1 + shape[3] // 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, shape[2:], mode="bilinear")
    return ((smooth + 0.1 * torch.randn(shape, generator=generator)).clamp(0, 1) * 255).to(torch.uint8)


def build_inputs(x: Tensor) -> ViewInputs:
    return ViewInputs(num_rows=len(x), inputs=lambda rows: x[rows], images=lambda rows: x[rows])


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 47, 47)])
def test_texture_view_is_reproducible_and_refuses_images_of_other_channels(shape: tuple[int, ...]) -> None:
    images = draw_grainy_images(20, *shape)
    views = [Texture(), Texture()]
    for view in views:
        view.fit(build_inputs(images))
    first, second = (view.features(build_inputs(images)) for view in views)
    assert first.shape == (20, 3 * 36 * shape[0] + 4 * 128) and torch.equal(first, second)
    with pytest.raises(InputError, match="are not like those of training"):
        views[0].features(build_inputs(draw_grainy_images(5, 4, *shape[1:])))
