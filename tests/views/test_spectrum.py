from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torch.testing import assert_close

from logit_correction.views.spectrum import Spectrum

BANDS = 16
SHARE, LEVEL, PHASES, EDGE = 16, 18, slice(19, 27), 27


def to_bytes(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).unsqueeze(0)


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
    return Spectrum().look(to_bytes(image))[0]


def test_a_wave_has_its_power_in_its_band() -> None:
    for cycles in (2, 5, 9, 15):
        across = torch.arange(32) * (2 * torch.pi * cycles / 32)
        wave = (127.5 + 100 * across.cos()).round().to(torch.uint8).expand(1, 3, 32, 32)
        for images in (wave, wave.transpose(2, 3)):
            found = Spectrum().look(images)[0, :BANDS]
            assert found.argmax() == cycles - 1
            assert (Spectrum().look(images)[0, SHARE] > 0.5) == (cycles > 8)


def test_white_noise_has_its_variance_as_power_at_all_frequencies() -> None:
    noise = 128 + 20 * torch.randn(400, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    power = Spectrum().look(noise.round().clamp(0, 255).to(torch.uint8))[:, :BANDS].exp().mean(0)
    # The first band loses what is taken away with the mean.
    assert_close(power[1:], torch.full((BANDS - 1,), (20**2 + 1 / 12) / 255**2), rtol=0.05, atol=0)


def test_an_image_of_one_colour_has_no_detail() -> None:
    found = Spectrum().look(torch.full((1, 3, 32, 32), 77, dtype=torch.uint8))[0]
    assert_close(found[:BANDS], torch.full((BANDS,), 1e-6).log(), atol=1e-3, rtol=0)
    assert_close(found[PHASES], torch.zeros(8))
    assert found[EDGE] == 0


def test_blur_lowers_and_noise_raises_fine_detail() -> None:
    plain, blurred = look(scene()), look(scene().filter(ImageFilter.GaussianBlur(1)))
    assert blurred[SHARE] < plain[SHARE] / 2
    assert blurred[LEVEL] < plain[LEVEL]
    pixels = to_bytes(scene()).float()
    noisy = pixels + 25 * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(1))
    assert Spectrum().look(noisy.clamp(0, 255).to(torch.uint8))[0, SHARE] > 1.5 * plain[SHARE]


def test_compression_shows_at_the_borders_of_blocks_in_both_directions() -> None:
    strengths = [look(compressed(scene(), quality)) for quality in (95, 40, 8)]
    for offset in (0, 10):
        edge = [float(found[EDGE + offset]) for found in strengths]
        assert edge[0] < edge[1] < edge[2]
        assert strengths[2][PHASES.start + offset : PHASES.stop + offset].argmax() == 7


def test_a_step_at_a_phase_shows_at_that_phase_only_and_in_its_direction() -> None:
    images = torch.zeros(1, 1, 24, 24, dtype=torch.uint8)
    images[..., 11:] = 200  # between pixels 10 and 11: phase 10 % 8 = 2
    found = Spectrum().look(images)[0]
    phases = found[15:23]  # there are 12 bands
    assert phases.argmax() == 2
    assert_close(found[-9:], torch.zeros(9))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 9), (3, 2, 2), (1, 5, 3), (3, 40, 7), (3, 28, 28)])
def test_images_of_any_size_give_finite_numbers(shape: tuple[int, int, int]) -> None:
    images = torch.randint(256, (4, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = Spectrum().look(images)
    assert found.shape == (4, 22 + min(16, max(1, min(shape[1:]) // 2)))
    assert found.isfinite().all()
