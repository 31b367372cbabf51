"""Views of images that see fine detail: against waves, noise, compression and stripes that were put in."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torch.testing import assert_close

from logit_correction.errors import InputError
from logit_correction.views.base import ViewInputs
from logit_correction.views.textures import Spectrum, Stripes, Texture

SHARE, LEVEL, PHASES, EDGE = 16, 18, slice(19, 27), 27
PERIODS, DIRECTIONS = (3.0, 4.0, 5.0, 6.5), 8


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
    return Spectrum().look(torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).unsqueeze(0))[0]


def test_a_wave_has_its_power_in_its_band() -> None:
    for cycles in (2, 5, 9, 15):
        across = torch.arange(32) * (2 * torch.pi * cycles / 32)
        wave = (127.5 + 100 * across.cos()).round().to(torch.uint8).expand(1, 3, 32, 32)
        for images in (wave, wave.transpose(2, 3)):
            found = Spectrum().look(images)[0]
            assert found[:16].argmax() == cycles - 1 and (found[SHARE] > 0.5) == (cycles > 8)


def test_blur_lowers_fine_detail_and_compression_shows_at_the_borders_of_blocks_in_both_directions() -> None:
    plain, blurred = look(scene()), look(scene().filter(ImageFilter.GaussianBlur(1)))
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
            found = Stripes().look(images).view(4, len(PERIODS), DIRECTIONS)
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


def fitted(x: Tensor) -> Texture:
    view = Texture()
    view.fit(inputs_of(x))
    return view


def oracle(view: Texture, image: Tensor, top: int, left: int, step: int) -> Tensor:
    """The statistics of one image, patch by patch in float64."""
    components, filters, mean = view._components.double(), view._filters.double(), view._mean.double()

    def patches(step: int) -> Tensor:
        places = [range(start, size - 5, step) for start, size in zip((top, left), image.shape[1:], strict=True)]
        cut = [image[:, r : r + 6, c : c + 6].permute(1, 2, 0).reshape(-1) for r in places[0] for c in places[1]]
        return torch.stack(cut).double() / 255 - mean

    response = patches(step) @ components
    centred = response - response.mean(0)
    variance, fourth = centred.square().mean(0), centred.pow(4).mean(0)
    other = patches(2 * step) @ filters  # at every second place
    above, below = (other - 0.5).relu(), (-other - 0.5).relu()
    tails = [above.mean(0), below.mean(0), *((one.var(0, correction=0) + 1e-6).sqrt() for one in (above, below))]
    kurtosis = (fourth + 1e-6).log() - 2 * (variance + 1e-3).log()
    return torch.cat([response.mean(0), 0.5 * (variance + 1e-4).log(), kurtosis, *tails])


@pytest.mark.parametrize(("shape", "top", "step"), [((3, 32, 32), 0, 2), ((1, 47, 47), 1, 3)])
def test_statistics_equal_those_patch_by_patch(shape: tuple[int, int, int], top: int, step: int) -> None:
    x = grainy(20, *shape)
    view = fitted(x)
    found = view.features(inputs_of(x))
    assert found.shape == (20, 3 * 36 * shape[0] + 4 * 128)
    assert_close(found[7].double(), oracle(view, x[7], top, top, step), atol=2e-3, rtol=1e-3)
    assert torch.equal(fitted(x.clone()).features(inputs_of(x)), found)  # learning is deterministic
    with pytest.raises(InputError, match="are not like those of training"):
        view.features(inputs_of(grainy(5, 4, *shape[1:])))
