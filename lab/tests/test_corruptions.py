"""Every corruption: reproducible, of the published strength, and equal to closed forms where there are any."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from logit_correction_lab.sources.corruptions import CORRUPTIONS, corrupt_images, motion_blur

Bytes = NDArray[np.uint8]


@pytest.fixture(scope="module")
def images() -> Bytes:
    """Twelve smooth random images with an edge, of all brightnesses and colours."""
    draw = np.random.default_rng(0)
    waves = ndimage.gaussian_filter(draw.normal(size=(12, 32, 32, 3)), (0, 3, 3, 0.5), mode="wrap")
    waves = waves / waves.std() * 50 + 110 + 30 * draw.normal(size=(12, 1, 1, 3))
    waves[:, 10:20, 8:24] += 60
    return np.clip(waves, 0, 255).astype(np.uint8)


def corrupt_in_order(image: Bytes, name: str, severity: int, seed: int = 0) -> Bytes:
    return corrupt_images(image, name, severity, np.arange(len(image)), seed)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_depends_only_on_image_number_and_seed(name: str, images: Bytes) -> None:
    before = images.copy()
    same = np.repeat(images[:1], 2, axis=0)
    for severity in (1, 5):
        changed = corrupt_in_order(images, name, severity)
        assert changed.shape == images.shape and changed.dtype == np.uint8
        assert np.array_equal(changed, corrupt_in_order(images, name, severity)) and not np.array_equal(changed, images)
    assert np.array_equal(before, images)
    changed = corrupt_in_order(same, name, 3)
    fixed = name in ("Brightness", "Contrast", "JPEG", "Pixelate", "Saturate")
    assert np.array_equal(changed[0], changed[1]) == fixed
    assert np.array_equal(changed, corrupt_in_order(same, name, 3, seed=1)) == fixed


def test_motion_blur_along_a_row_is_a_one_sided_gaussian() -> None:
    point = np.zeros((1, 32, 32))
    point[0, 16, 16] = 1
    spread = motion_blur(point, 6, 2.0, np.array([0.0]))
    weights = np.exp(-(np.arange(13) ** 2) / 8)
    np.testing.assert_allclose(spread[0, 16, 16 - 12 : 17][::-1], weights / weights.sum(), atol=1e-6)
    assert spread.sum() == pytest.approx(1, abs=1e-5) and (spread[0, :16] == 0).all()
