"""Every corruption: reproducible, of the published strength, and equal to closed forms where there are any."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage, stats

from logit_correction.bench import corruptions
from logit_correction.bench.corruptions import CORRUPTIONS, corrupt, corrupt_all
from logit_correction.bench.pixels import Streams, motion_blur, sample
from logit_correction.errors import InputError

Bytes = NDArray[np.uint8]
NAMES = list(CORRUPTIONS)


@pytest.fixture(scope="module")
def images() -> Bytes:
    """Twelve smooth random images with an edge, of all brightnesses and colours."""
    draw = np.random.default_rng(0)
    waves = ndimage.gaussian_filter(draw.normal(size=(12, 32, 32, 3)), (0, 3, 3, 0.5), mode="wrap")
    waves = waves / waves.std() * 50 + 110 + 30 * draw.normal(size=(12, 1, 1, 3))
    waves[:, 10:20, 8:24] += 60
    return np.clip(waves, 0, 255).astype(np.uint8)


def whole(image: Bytes, name: str, severity: int, seed: int = 0) -> Bytes:
    return corrupt(image, name, severity, np.arange(len(image)), seed)


def flat(color: tuple[int, int, int], count: int = 1) -> Bytes:
    return np.tile(np.array(color, np.uint8), (count, 32, 32, 1))


@pytest.mark.parametrize("name", NAMES)
def test_results_are_bytes_and_the_same_every_time(name: str, images: Bytes) -> None:
    before = images.copy()
    for severity in (1, 5):
        changed = whole(images, name, severity)
        assert changed.shape == images.shape and changed.dtype == np.uint8
        assert np.array_equal(changed, whole(images, name, severity))
        assert (name == "Original") == np.array_equal(changed, images)
    assert np.array_equal(before, images)


@pytest.mark.parametrize("name", NAMES)
def test_random_corruptions_differ_by_image_and_by_seed(name: str, images: Bytes) -> None:
    same = np.repeat(images[:1], 2, axis=0)
    changed = whole(same, name, 3)
    fixed = {"Brightness", "Contrast", "JPEG", "Pixelate", "Saturate"}
    fixed |= {"Gaussian blur", "Defocus blur", "Zoom blur", "Original"}
    assert np.array_equal(changed[0], changed[1]) == (name in fixed)
    assert np.array_equal(changed, whole(same, name, 3, seed=1)) == (name in fixed)


def test_a_whole_set_is_what_its_images_are(images: Bytes) -> None:
    many = np.tile(images, (50, 1, 1, 1))
    names = ("Snow", "Shot noise", "Original")
    attribute = np.random.default_rng(1).integers(0, 3, len(many))
    made = corrupt_all(many.transpose(0, 3, 1, 2), attribute, names, 3, seed=2, workers=3)
    assert made.shape == (600, 3, 32, 32)
    for row in (0, 100, 333, 599):
        alone = corrupt(many[row : row + 1], names[attribute[row]], 3, np.array([row]), seed=2)
        assert np.array_equal(made[row].transpose(1, 2, 0), alone[0])


def test_an_unknown_corruption_is_refused(images: Bytes) -> None:
    with pytest.raises(InputError, match="did you mean Snow"):
        whole(images, "snow", 1)


class TestNoise:
    GREY = 128

    def grey(self, name: str, severity: int) -> NDArray[np.float64]:
        return whole(flat((self.GREY,) * 3, 40), name, severity) / 255

    @pytest.mark.parametrize("severity", [1, 5])
    def test_gaussian_noise_has_the_published_spread(self, severity: int) -> None:
        drawn = self.grey("Gaussian noise", severity)
        assert drawn.mean() == pytest.approx(self.GREY / 255, abs=0.002)
        assert drawn.std() == pytest.approx((0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1], rel=0.02)

    @pytest.mark.parametrize("severity", [1, 5])
    def test_shot_noise_is_poisson(self, severity: int) -> None:
        photons = (500, 250, 100, 75, 50)[severity - 1]
        drawn = self.grey("Shot noise", severity)
        mean = self.GREY / 255
        assert drawn.mean() == pytest.approx(mean, abs=0.002)
        assert drawn.std() == pytest.approx(math.sqrt(mean / photons), rel=0.03)
        counts = np.rint(drawn * photons)
        share = np.bincount(counts.astype(int).ravel(), minlength=photons + 1) / counts.size
        if photons <= 100:  # below that, several counts fall on one grey level
            expected = stats.poisson.pmf(np.arange(photons + 1), photons * mean)
            assert np.abs(share - expected)[: int(0.9 * photons)].max() < 0.004


class TestBlur:
    def test_defocus_blur_spreads_a_point_by_its_kernel(self) -> None:
        point = flat((0, 0, 0))
        point[0, 16, 16] = 255
        spread = whole(point, "Defocus blur", 5)[0, 14:19, 14:19, 1]
        assert np.abs(spread - 255 * corruptions.defocus_kernel(1.5, 0.1)).max() <= 0.5

    def test_motion_blur_along_the_row_is_a_one_sided_gaussian(self) -> None:
        point = np.zeros((1, 32, 32))
        point[0, 16, 16] = 1
        spread = motion_blur(point, 6, 2.0, np.array([0.0]))
        weights = np.exp(-(np.arange(13) ** 2) / 8)
        np.testing.assert_allclose(spread[0, 16, 16 - 12 : 17][::-1], weights / weights.sum(), atol=1e-6)
        assert spread.sum() == pytest.approx(1, abs=1e-5) and (spread[0, :16] == 0).all()


class TestDigital:
    @pytest.mark.parametrize("severity", [1, 5])
    def test_contrast_draws_to_the_mean_of_each_channel(self, severity: int, images: Bytes) -> None:
        factor = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
        mean = images.mean(axis=(1, 2), keepdims=True)
        expected = (images - mean) * factor + mean
        assert np.abs(whole(images, "Contrast", severity) - expected).max() <= 0.5 + 1e-6

    def test_elastic_at_severity_1_is_affine(self) -> None:
        y, x = np.meshgrid(np.arange(32.0), np.arange(32.0), indexing="ij")
        ramps = np.stack([x, y, x + y], axis=2)[None] / 255
        streams = Streams(8, np.array([0]))
        changed = corruptions.elastic(ramps, streams, 0, 0, 0.08)[0, 8:24, 8:24] * 255
        # The gradient of an affine map of a ramp is constant.
        for axis in (0, 1):
            slope = np.diff(changed, axis=axis)
            assert np.abs(slope - slope.mean(axis=(0, 1))).max() < 1e-9

    @pytest.mark.parametrize(("half_sample", "mode"), [(True, "reflect"), (False, "mirror")])
    def test_sampling_is_that_of_scipy(self, half_sample: bool, mode: str) -> None:
        draw = np.random.default_rng(2)
        image = draw.uniform(size=(2, 16, 16, 3))
        rows, columns = draw.uniform(-9, 24, (2, 2, 16, 16))
        ours = sample(image, rows, columns, half_sample)
        for n in range(2):
            for channel in range(3):
                theirs = ndimage.map_coordinates(image[n, :, :, channel], [rows[n], columns[n]], order=1, mode=mode)
                np.testing.assert_allclose(ours[n, :, :, channel], theirs, atol=1e-12)


class TestWeather:
    @pytest.mark.parametrize("severity", [1, 5])
    def test_fog_lifts_the_dark_and_keeps_the_brightest(self, severity: int) -> None:
        amount = (0.2, 0.5, 0.75, 1.0, 1.5)[severity - 1]
        image = np.zeros((5, 32, 32, 3))
        image[:, 0, 0] = 0.8
        fog = corruptions.fog(image, Streams(2, np.arange(5)), amount, (3.0, 3.0, 2.5, 2.0, 1.75)[severity - 1])
        assert fog.max() <= 0.8 + 1e-9
        dark = fog[:, 1:]
        assert dark.min() >= 0 and dark.max() == pytest.approx(amount * 0.8 / (0.8 + amount), rel=0.05)
