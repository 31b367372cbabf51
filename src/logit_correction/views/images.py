"""Views of images: simple summaries such as colours and places, then those of fine detail such as blur and texture.

None of them keeps the shape of what an image shows, so a head on them hardly learns the label, but each expresses some
shortcut: a background, a mark in a corner, a camera's noise, the light.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d, conv2d, one_hot

from logit_correction.errors import InputError
from logit_correction.seeds import make_generator
from logit_correction.types import ViewInputs
from logit_correction.view_names import RICH
from logit_correction.views.base import View


class ImageView(View):
    """The base of views that compute features of each image by itself; a subclass writes ``image_features``.

    Attributes:
        min_side: The shortest side of an image, in pixels. The view would express about everything in smaller images.
        max_chunk_values: Limit on the numbers of the images that are passed together to ``image_features``. So few stay
            in the processor's cache, which makes most views twice as quick as ten times as many.
    """

    needs = "images, for most views of 16 pixels a side at least"
    min_side: int = 0
    max_chunk_values = 1 << 17

    def is_applicable(self, inputs: ViewInputs) -> bool:
        shape = inputs.image_shape
        return shape is not None and min(shape[1:]) >= self.min_side

    def features(self, inputs: ViewInputs) -> Tensor:
        return self.compute_family_features([self], inputs)[0]

    @classmethod
    def compute_family_features(cls, members: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
        """Read the images once, not once for each member."""
        views = cast(Sequence[ImageView], members)
        features_of_chunks = []
        for rows in inputs.split_row_numbers():
            images = cast(Tensor, inputs.images(rows))
            max_images = max(1, cls.max_chunk_values // max(1, images[0:1].numel()))
            for chunk in images.split(max_images):
                features_of_chunks.append([view.image_features(chunk) for view in views])
        return [torch.cat(chunks) for chunks in zip(*features_of_chunks, strict=True)]

    @abstractmethod
    def image_features(self, images: Tensor) -> Tensor:
        """Return the features (B, F) of the images (B, C, H, W), unsigned bytes."""


def compute_brightness(images: Tensor) -> Tensor:
    """Return the brightness (B, H, W) in 0..255 of images (B, C, H, W), unsigned bytes.

    Three channels are weighted as red, green and blue, after ITU-R BT.601; others are averaged.
    """
    if images.shape[1] != 3:
        return images.float().mean(1)
    red = images[:, 0].float() * 0.299
    green = images[:, 1].float() * 0.587
    blue = images[:, 2].float() * 0.114
    return red.add_(green).add_(blue)


def halve_until_below_64_pixels(images: Tensor) -> Tensor:
    """Return images (B, C, H, W), floats, halved by averaging until their shorter side is below 64 pixels."""
    while min(images.shape[2:]) >= 64:
        images = avg_pool2d(images, 2)
    return images


def compute_quantiles(values: Tensor, shares: Sequence[float]) -> Tensor:
    """Return quantiles along the last axis, each of them one of the values.

    Args:
        values: (..., P).
        shares: Q shares in [0, 1] of the values that lie below.

    Returns:
        (..., Q).
    """
    # NumPy sorts short rows several times as fast as PyTorch does.
    in_order = np.sort(values.numpy(), axis=-1)
    return torch.from_numpy(in_order[..., [round(share * (values.shape[-1] - 1)) for share in shares]])


class Thumbnail(ImageView):
    """The image averaged to 4 x 4 points: 16 numbers for each channel."""

    name = "thumbnail"
    breadth = RICH
    min_side = 16

    def image_features(self, images: Tensor) -> Tensor:
        return adaptive_avg_pool2d(images.float(), 4).flatten(1) / 255


class Colour(ImageView):
    """Mean, standard deviation, extremes and five quantiles of each channel: 27 numbers of a colour image."""

    name = "colour"

    def image_features(self, images: Tensor) -> Tensor:
        """Return (B, 9 C) in [0, 1]: the means of all channels, then deviations, maxima, minima and quantiles."""
        flat = images.flatten(2)
        in_order = torch.from_numpy(np.sort(flat.numpy(), axis=-1, kind="stable"))  # of bytes, ten times as quick
        # Quantiles are interpolated between neighbouring pixels, as by ``torch.quantile``.
        position = torch.tensor((0.05, 0.25, 0.5, 0.75, 0.95), dtype=torch.float64) * (flat.shape[2] - 1)
        below = in_order[..., position.floor().long()].double()
        above = in_order[..., position.ceil().long()].double()
        inner = torch.lerp(below, above, position - position.floor()).transpose(1, 2).flatten(1)
        features = [_compute_colour_moments(flat.double()), in_order[..., -1], in_order[..., 0], inner]
        return (torch.cat(features, dim=1) / 255).float()


def _compute_colour_moments(pixels: Tensor) -> Tensor:
    """Return means, then deviations (B, 2 C) of points (B, C, P); they are whole numbers, so that sums are exact."""
    mean = pixels.mean(2)
    variance = pixels.square().mean(2) - mean.square()
    return torch.cat([mean, variance.clamp_min(0).sqrt()], dim=1)


class Border(ImageView):
    """Mean and standard deviation of each channel in a frame, in the centre, and the difference of the two.

    The frame is an eighth of the shorter side wide, and one pixel at least. With the same of its outer half these are
    24 numbers of a colour image.
    """

    name = "border"
    min_side = 3  # smaller images have no centre

    def image_features(self, images: Tensor) -> Tensor:
        """Return (B, 8 C): frame, centre, frame less centre, and the outer half of the frame.

        Each is means, then standard deviations.
        """
        height, width = images.shape[2:]
        down = torch.arange(height).unsqueeze(1)
        across = torch.arange(width)
        to_edge = torch.minimum(torch.minimum(down, height - 1 - down), torch.minimum(across, width - 1 - across))
        is_frame = to_edge < max(1, round(min(height, width) / 8))
        is_outer = to_edge < max(1, round(min(height, width) / 16))
        points = images.double()
        frame = _compute_colour_moments(points[..., is_frame])
        centre = _compute_colour_moments(points[..., ~is_frame])
        outer = _compute_colour_moments(points[..., is_outer])
        return (torch.cat([frame, centre, frame - centre, outer], dim=1) / 255).float()


class Light(ImageView):
    """The slope of brightness from left to right and from top to bottom, by 28 statistics that few edges do not move.

    Light from a side multiplies brightness by a little more from each pixel to the next, everywhere; the edges of
    things are great and go either way. So of the differences of the logarithm between pixels 1 and 3 apart, in both
    directions: the quartiles, and the mean after the differences are bounded, softly, at four slopes. Images of 64
    pixels and more are averaged to between 32 and 64.
    """

    name = "light"
    min_side = 16

    def image_features(self, images: Tensor) -> Tensor:
        # 4 is added to bytes before the logarithm, so that rounding of the dark ones hardly matters.
        light = halve_until_below_64_pixels(compute_brightness(images).unsqueeze(1)).squeeze(1).add(4).log_()
        features: list[Tensor] = []
        for step in (1, 3):
            for turned in (light, light.transpose(1, 2)):
                slope = (turned[:, :, step:] - turned[:, :, :-step]).flatten(1) / step
                features += compute_quantiles(slope, (0.25, 0.5, 0.75)).unbind(1)
                features += [(slope / bound).tanh_().mean(1) for bound in (0.01, 0.03, 0.1, 0.3)]
        return torch.stack(features, dim=1)


class Places(ImageView):
    """The colours of one cell of a grid of 4 x 4, and where in it brightness changes.

    Of each channel of the cell: mean, standard deviation, least and greatest value. Of the brightness, averaged to
    8 x 8 points: the absolute differences of neighbours, which outline a mark on any background. 124 numbers of a
    colour image.
    """

    breadth = 0
    min_side = 16  # cells of smaller images hold a few points each, and together they are the image
    max_chunk_values = 1 << 19
    max_narrow_members = 4  # the corners; nine of the sixteen cells suffice to read handwritten digits
    grid = 4

    def __init__(self, row: int, column: int) -> None:
        """Make the view of one cell.

        Args:
            row: 1..4, from the top.
            column: 1..4, from the left.
        """
        self.name = f"places:{row},{column}"
        self.cell = (row - 1, column - 1)

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        views = [cls(*place) for place in product(range(1, cls.grid + 1), repeat=2)]
        return [view for view in views if view.is_applicable(inputs)]

    def image_features(self, images: Tensor) -> Tensor:
        row, column = self.cell
        height, width = images.shape[2:]
        down = slice(row * height // self.grid, (row + 1) * height // self.grid)
        across = slice(column * width // self.grid, (column + 1) * width // self.grid)
        part = images[:, :, down, across].float()
        flat = part.flatten(2)
        mean = flat.mean(2)
        deviation = (flat - mean.unsqueeze(2)).square().mean(2).sqrt()
        points = adaptive_avg_pool2d(compute_brightness(part).unsqueeze(1), 8)
        changes = [points.diff(dim=axis).abs_().flatten(1) for axis in (2, 3)]
        return torch.cat([mean, deviation, flat.amin(2), flat.amax(2), *changes], dim=1) / 255


# -- fine detail


class Spectrum(ImageView):
    """The power spectrum of the grey image, averaged over directions, and how its neighbouring pixels differ.

    Images of 32 pixels and more give 38 numbers, most of them logarithms: the mean power in 16 bands of rising
    frequency, and the share of power above half the greatest one. Then the mean absolute difference of neighbours in
    both directions, and at each phase of a grid of 8 pixels. The last is the difference across the borders of these
    blocks relative to that inside, which rises with JPEG compression.
    """

    name = "spectrum"
    min_side = 16

    def image_features(self, images: Tensor) -> Tensor:
        grey = compute_brightness(images)
        along_rows = _compute_neighbour_differences(grey)
        along_columns = _compute_neighbour_differences(grey.transpose(1, 2))
        return torch.cat([_compute_power_features(grey / 255), along_rows, along_columns], dim=1)


def _compute_power_features(grey: Tensor) -> Tensor:
    """Return log power in bands and the share of fine detail: (B, H, W) in [0, 1] -> (B, bands + 2)."""
    weights = _build_spectrum_weights(*grey.shape[1:])
    # The window fades the edges out: they would look like fine detail where the image does not repeat.
    centred = (grey - grey.mean((1, 2), keepdim=True)) * weights.window
    spectrum = torch.view_as_real(torch.fft.rfft2(centred)).square_().sum(3).flatten(1)
    floor = 1e-6  # the power of rounding to bytes
    fine_power = spectrum @ weights.fine_sum + floor * weights.fine_sum.sum()
    total_power = spectrum @ weights.total_sum + floor * weights.total_sum.sum()
    share = fine_power / total_power
    share = share.clamp_min(floor).unsqueeze(1)
    return torch.cat([(spectrum @ weights.band_mean + floor).log(), share, share.log()], dim=1)


class _SpectrumWeights(NamedTuple):
    """A window for an image, and weights for its spectrum of S = H * (W // 2 + 1) frequencies.

    Attributes:
        window: (H, W). Its squares add up to 1, so that white noise has its variance as power in each frequency.
        band_mean: (S, bands), weights that average over each band.
        total_sum: (S,), weights that add up all frequencies.
        fine_sum: (S,), weights that add up the frequencies above half the greatest.
    """

    window: Tensor
    band_mean: Tensor
    total_sum: Tensor
    fine_sum: Tensor


@lru_cache(maxsize=8)
def _build_spectrum_weights(height: int, width: int) -> _SpectrumWeights:
    down = torch.hann_window(height + 2, periodic=False)[1:-1]
    across = torch.hann_window(width + 2, periodic=False)[1:-1]
    window = down.unsqueeze(1) * across
    window = window / window.square().sum().sqrt()
    radius = (torch.fft.fftfreq(height).unsqueeze(1).square() + torch.fft.rfftfreq(width).square()).sqrt().flatten()
    # The spectrum holds one of two mirrored frequencies, except in the first and last column, where it holds both.
    total = torch.full((height, width // 2 + 1), 2.0)
    total[:, 0] = 1
    if width % 2 == 0:
        total[:, -1] = 1
    total = total.flatten()
    total[0] = 0  # the mean of the image
    num_bands = min(16, min(height, width) // 2)
    band = (radius * 2 * num_bands).round().long().sub(1).clamp(0, num_bands - 1)
    bands = one_hot(band, num_bands) * total.unsqueeze(1)
    return _SpectrumWeights(window, bands / bands.sum(0), total, total * (radius > 0.25))


def _compute_neighbour_differences(grey: Tensor) -> Tensor:
    """Return differences of neighbours along the last axis: (B, H, W) in 0..255 -> (B, 10).

    Logarithms of: their mean; their mean at each phase of a grid of 8 pixels, the blocks of JPEG, relative to it; at
    block borders relative to inside.
    """
    profile = grey.diff(dim=2).abs_().mean(1)
    weight = one_hot(torch.arange(profile.shape[1]) % 8, 8).float()
    mean = profile.mean(1, keepdim=True)
    at_phase = profile @ (weight / weight.sum(0))
    inside = at_phase[:, :-1].mean(1, keepdim=True)
    log_mean, log_phases, log_inside = ((value + 0.25).log() for value in (mean, at_phase, inside))
    return torch.cat([log_mean, log_phases - log_mean, log_phases[:, -1:] - log_inside], dim=1)


class Stripes(ImageView):
    """The energy of stripes of each direction in the places of an image that have least of it.

    The energy of Gabor filters (cosine and sine together, so the phase does not matter) of 4 widths and 8 directions at
    up to 12 x 12 places. Of each the logarithm of what a tenth of the places stay below, less its mean over the
    directions: 32 numbers. The edges of things lie in some places, stripes everywhere, so these places measure them.
    Images of 64 pixels and more give as many again, averaged to between 32 and 64 pixels.
    """

    name = "stripes"
    min_side = 16

    def image_features(self, images: Tensor) -> Tensor:
        grey = compute_brightness(images).unsqueeze(1)
        energies = _compute_filter_energies(grey)
        small = halve_until_below_64_pixels(grey)
        return energies if small.shape == grey.shape else torch.cat([energies, _compute_filter_energies(small)], dim=1)


def _compute_filter_energies(grey: Tensor) -> Tensor:
    """Return the log energy of each width and direction: (B, 1, H, W) in 0..255 -> (B, 32)."""
    filters = _make_gabor_filters()
    stride = max(1, math.ceil((max(grey.shape[2:]) - filters.shape[3] + 1) / 12))
    energy = conv2d(grey, filters, stride=stride).square_().flatten(2).unflatten(1, (4, 8, 2)).sum(3)
    least = compute_quantiles(energy, [0.1]).squeeze(3).add_(1).log_()
    return (least - least.mean(2, keepdim=True)).flatten(1)


@lru_cache
def _make_gabor_filters() -> Tensor:
    """Return Gabor filters (64, 1, 11, 11) without a mean, of length one; cosine and sine of a pattern in turn."""
    axis = torch.arange(11) - 5
    window = torch.exp(-(axis.square() + axis.square().unsqueeze(1)) / (2 * 2.75**2))
    filters = []
    for period in (3.0, 4.0, 5.0, 6.5):  # pixels from one stripe to the next
        for direction in range(8):
            angle = math.pi * direction / 8
            turns = 2 * math.pi / period * (axis * math.cos(angle) + axis.unsqueeze(1) * math.sin(angle))
            for wave in (turns.cos(), turns.sin()):
                centred = window * (wave - (window * wave).sum() / window.sum())
                filters.append(centred / centred.norm())
    return torch.stack(filters).unsqueeze(1)


class Texture(ImageView):
    """How small patches are distributed over an image, without regard to where they are.

    In the spirit of the patch features of Coates and Ng. Filters are D whitened principal components of patches of 6 x
    6 pixels and 128 random whitened patches, both learned from 100,000 random patches. Of each component's responses
    the view keeps mean, log standard deviation and log kurtosis. Of each random patch's responses it keeps mean and
    standard deviation of what exceeds 0.5, upwards and downwards, at every second place each way. D is 108 for colour
    images, which gives 836 numbers.
    """

    name = "texture"
    breadth = RICH
    min_side = 16
    max_chunk_values = 1 << 21

    def __init__(self) -> None:
        self._side = 0  # of a patch; 0 before the filters are learned
        self._components = torch.empty(0, 0)  # (D, D)
        self._filters = torch.empty(0, 0)  # (D, 128)
        self._mean = torch.empty(0)  # (D,)

    def fit(self, inputs: ViewInputs) -> None:
        generator = make_generator(0, "texture")
        patches = _sample_patches(inputs, generator)
        self._side = math.isqrt(patches.shape[1])
        patches = patches.flatten(1)
        mean = patches.mean(0)
        centred = patches - mean
        # In float64 and with fixed signs, so that the components do not depend on the rounding of the machine.
        spread, vectors = torch.linalg.eigh((centred.T.double() @ centred.double()) / (len(patches) - 1))
        vectors = vectors * vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()
        components = (vectors / (spread.clamp_min(0) + 1e-3).sqrt()).float()
        chosen = torch.randperm(len(patches), generator=generator)[:128]
        random = centred[chosen] @ components
        random = random / random.norm(dim=1, keepdim=True).clamp_min(1e-6)
        self._mean = mean
        self._components = components
        self._filters = components @ random.T

    def image_features(self, images: Tensor) -> Tensor:
        if len(self._mean) != images.shape[1] * self._side**2 or min(images.shape[2:]) < self._side:
            raise InputError(f"Images of shape {tuple(images.shape[1:])} are not like those of training: give such")
        # The responses of 16 images stay in the processor's cache.
        return torch.cat([self._compute_patch_statistics(part) for part in _shrink_to_64_pixels(images).split(16)])

    def _compute_patch_statistics(self, images: Tensor) -> Tensor:
        """Return the statistics (B, 3 D + 512) of images (B, C, H, W) of at most 64 pixels a side.

        It works in place, so that all stays in the processor's cache.
        """
        patches = _cut_patches(images, self._side)
        response = _compute_filter_responses(patches, self._components, -(self._mean @ self._components))
        mean = response.mean(1)
        square = response.sub_(mean.unsqueeze(1)).square_()
        variance = square.mean(1)
        fourth = square.square_().mean(1)
        response = _compute_filter_responses(patches[:, ::2, ::2], self._filters, -(self._mean @ self._filters) - 0.5)
        tails = [response.clamp_min(0), response.add_(1.0).clamp_max_(0)]  # above 0.5, below -0.5
        above, below = (tail.mean(1) for tail in tails)
        deviations = [
            ((tail.square_().mean(1) - tail_mean.square()).clamp_min(0) + 1e-6).sqrt()
            for tail, tail_mean in zip(tails, (above, below), strict=True)
        ]
        kurtosis = (fourth + 1e-6).log() - 2 * (variance + 1e-3).log()
        return torch.cat([mean, 0.5 * (variance + 1e-4).log(), kurtosis, above, -below, *deviations], dim=1)


def _compute_filter_responses(patches: Tensor, weights: Tensor, shift: Tensor) -> Tensor:
    """Return responses (B, P, F) of patches (B, h, w, D) in 0..255 to the weights (D, F) of patches in [0, 1]."""
    flat = patches.flatten(0, 2)
    return torch.addmm(shift, flat, weights / 255).view(patches.shape[0], -1, weights.shape[1])


def _shrink_to_64_pixels(images: Tensor) -> Tensor:
    """Average images (B, C, H, W) down to at most 64 pixels on the longer side."""
    height, width = images.shape[2:]
    shrink = 64 / max(height, width)
    if shrink >= 1:
        return images
    return adaptive_avg_pool2d(images.float(), (max(1, round(height * shrink)), max(1, round(width * shrink))))


def _cut_patches(images: Tensor, patch_side: int) -> Tensor:
    """Cut h x w patches at regular places of images (B, C, H, W): (B, h, w, patch_side^2 * C) float32, same units."""
    channels, height, width = images.shape[1:]
    step = max(1, min(round((max(height, width) - patch_side) / 13), patch_side - 1))  # 2 in images of 32 pixels
    # Pixels that no patch reaches are left out at both ends alike.
    first_row = (height - patch_side) % step // 2
    first_column = (width - patch_side) % step // 2
    points = images[:, :, first_row:, first_column:].permute(0, 2, 3, 1).float().flatten(2)
    # Channels last: a row of a patch is one run of memory, which is several times as quick to copy.
    cut = points.unfold(1, patch_side, step).unfold(2, patch_side * channels, step * channels)
    return cut.flatten(3)


def _sample_patches(inputs: ViewInputs, generator: torch.Generator) -> Tensor:
    """Return 100,000 patches (P, side * side, C) in [0, 1] from random places of 10,000 random images at most."""
    rows = torch.randperm(inputs.num_rows, generator=generator)[:10_000].sort().values
    patches_per_image = -(-100_000 // len(rows))
    patches = []
    for chunk in rows.split(512):
        images = _shrink_to_64_pixels(cast(Tensor, inputs.images(chunk)))
        height, width = images.shape[2:]
        side = min(6, height, width)
        shape = (len(chunk), patches_per_image, 1, 1)
        down = torch.randint(height - side + 1, shape, generator=generator) + torch.arange(side).view(-1, 1)
        across = torch.randint(width - side + 1, shape, generator=generator) + torch.arange(side)
        cut = images.permute(0, 2, 3, 1)[torch.arange(len(chunk)).view(-1, 1, 1, 1), down, across]
        patches.append(cut.flatten(2, 3).flatten(0, 1).float() / 255)
    return torch.cat(patches)
