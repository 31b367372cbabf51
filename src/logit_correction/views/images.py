"""Views of images: simple summaries such as colours and places, then those of fine detail such as blur and texture."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import ClassVar

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
    """A view that looks at the bytes of each image by itself; a subclass writes ``image_features``.

    Attributes:
        least_side: Images of a shorter side hold so little that the view would see about everything in them.
        values: Values of the images that are looked at together, at most: so few stay in the processor's cache, which
            makes most views twice as quick as ten times as many.
    """

    needs = "images, for most views of 16 pixels a side at least"
    min_side: int = 0
    values: ClassVar[int] = 1 << 17

    def is_applicable(self, inputs: ViewInputs) -> bool:
        shape = inputs.image_shape
        return shape is not None and min(shape[1:]) >= self.min_side

    def features(self, inputs: ViewInputs) -> Tensor:
        return self.features_together([self], inputs)[0]

    @classmethod
    def features_together(cls, members: Sequence[View], inputs: ViewInputs) -> list[Tensor]:
        """Read the images once, not once for each member."""
        views, looks = [view for view in members if isinstance(view, ImageView)], list[list[Tensor]]()
        for rows in inputs.chunks():
            images = inputs.images(rows)
            assert images is not None
            few = max(1, cls.values // max(1, images[0:1].numel()))
            looks += [[view.image_features(part) for view in views] for part in images.split(few)]
        return [torch.cat(of_view) for of_view in zip(*looks, strict=True)]

    @abstractmethod
    def image_features(self, images: Tensor) -> Tensor:
        """Return the features (B, F) of the images (B, C, H, W), unsigned bytes."""


def brightness(images: Tensor) -> Tensor:
    """Return the brightness (B, H, W) in 0..255 of images (B, C, H, W), unsigned bytes.

    Three channels are weighted as red, green and blue, after ITU-R BT.601, others averaged.
    """
    if images.shape[1] != 3:
        return images.float().mean(1)
    red, green, blue = (images[:, channel].float() * weight for channel, weight in enumerate((0.299, 0.587, 0.114)))
    return red.add_(green).add_(blue)


def halved(images: Tensor) -> Tensor:
    """Return images (B, C, H, W), floats, halved by averaging until their shorter side is below 64 pixels."""
    while min(images.shape[2:]) >= 64:
        images = avg_pool2d(images, 2)
    return images


def quantiles(values: Tensor, shares: Sequence[float]) -> Tensor:
    """Return values that given shares of the last axis lie below: (..., P) -> (..., Q), none of them interpolated."""
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
        # Quantiles are linear between neighbouring pixels, as ``torch.quantile`` has them.
        position = torch.tensor((0.05, 0.25, 0.5, 0.75, 0.95), dtype=torch.float64) * (flat.shape[2] - 1)
        below, above = (in_order[..., place.long()].double() for place in (position.floor(), position.ceil()))
        inner = torch.lerp(below, above, position - position.floor()).transpose(1, 2).flatten(1)
        return (torch.cat([_moments(flat.double()), in_order[..., -1], in_order[..., 0], inner], dim=1) / 255).float()


def _moments(points: Tensor) -> Tensor:
    """Return means, then deviations (B, 2 C) of points (B, C, P); they are whole numbers, so that sums are exact."""
    mean = points.mean(2)
    return torch.cat([mean, (points.square().mean(2) - mean.square()).clamp_min(0).sqrt()], dim=1)


class Border(ImageView):
    """Mean and standard deviation of each channel in a frame, in the centre, and the difference of the two.

    The frame is an eighth of the shorter side wide, and one pixel at least. With the same of its outer half these are
    24 numbers of a colour image.
    """

    name = "border"
    min_side = 3  # else there is no centre

    def image_features(self, images: Tensor) -> Tensor:
        """Return (B, 8 C): frame, centre, frame less centre, and the outer half of the frame.

        Each is means, then standard deviations.
        """
        side = min(images.shape[2:])
        down, across = (torch.minimum(place, place.flip(0)) for place in map(torch.arange, images.shape[2:]))
        depth, points = torch.minimum(down.unsqueeze(1), across), images.double()
        in_frame, in_outer = depth < max(1, round(side / 8)), depth < max(1, round(side / 16))
        frame, centre, outer = (_moments(points[..., place]) for place in (in_frame, ~in_frame, in_outer))
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
        # 4 is added to bytes before the logarithm, so that rounding of the dark ones does not count.
        light = halved(brightness(images).unsqueeze(1)).squeeze(1).add(4).log_()
        looks: list[Tensor] = []
        for step in (1, 3):
            for turned in (light, light.transpose(1, 2)):
                slope = (turned[:, :, step:] - turned[:, :, :-step]).flatten(1) / step
                looks += quantiles(slope, (0.25, 0.5, 0.75)).unbind(1)
                looks += [(slope / edge).tanh_().mean(1) for edge in (0.01, 0.03, 0.1, 0.3)]
        return torch.stack(looks, dim=1)


class Places(ImageView):
    """The colours of one cell of a grid of 4 x 4, and where in it brightness changes.

    Of each channel of the cell: mean, standard deviation, least and greatest value. Of the brightness, averaged to
    8 x 8 points: the absolute differences of neighbours, which outline a mark whatever lies behind it. 124 numbers of a
    colour image.
    """

    breadth = 0
    min_side = 16  # cells of smaller images hold a few points each, and together they are the image
    values = 1 << 19
    max_narrow_members = 4  # the corners; nine of the sixteen cells told ten handwritten digits apart
    grid = 4

    def __init__(self, row: int, column: int) -> None:
        """Choose the cell: row 1..4 from the top, column 1..4 from the left."""
        self.name, self.cell = f"places:{row},{column}", (row - 1, column - 1)

    @classmethod
    def list_views(cls, inputs: ViewInputs) -> list[View]:
        cells = [cls(*place) for place in product(range(1, cls.grid + 1), repeat=2)]
        return [cell for cell in cells if cell.is_applicable(inputs)]

    def image_features(self, images: Tensor) -> Tensor:
        sides = zip(self.cell, images.shape[2:], strict=True)
        down, across = (slice(i * side // self.grid, (i + 1) * side // self.grid) for i, side in sides)
        part = images[:, :, down, across].float()
        flat = part.flatten(2)
        mean = flat.mean(2)
        deviation = (flat - mean.unsqueeze(2)).square().mean(2).sqrt()
        points = adaptive_avg_pool2d(brightness(part).unsqueeze(1), 8)
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
        grey = brightness(images)
        return torch.cat([_power(grey / 255), _blocks(grey), _blocks(grey.transpose(1, 2))], dim=1)


def _power(grey: Tensor) -> Tensor:
    """Return log power in bands and the share of fine detail: (B, H, W) in [0, 1] -> (B, bands + 2)."""
    window, bands, every, fine = _window(*grey.shape[1:])
    # The window fades the edges out: they would look like fine detail where the image does not repeat.
    centred = (grey - grey.mean((1, 2), keepdim=True)) * window
    spectrum = torch.view_as_real(torch.fft.rfft2(centred)).square_().sum(3).flatten(1)
    floor = 1e-6  # the power of rounding to bytes
    share = (spectrum @ fine + floor * fine.sum()) / (spectrum @ every + floor * every.sum())
    share = share.clamp_min(floor).unsqueeze(1)
    return torch.cat([(spectrum @ bands + floor).log(), share, share.log()], dim=1)


@lru_cache(maxsize=8)
def _window(height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a window (H, W), and weights of a spectrum of S = H * (W // 2 + 1) numbers.

    The window's squares add up to 1, so that white noise has its variance as power in each frequency. The weights
    average over each band (S, bands), add up all frequencies (S,), and those above half the greatest (S,).
    """
    sides = [torch.hann_window(length + 2, periodic=False)[1:-1] for length in (height, width)]
    window = sides[0].unsqueeze(1) * sides[1]
    window = window / window.square().sum().sqrt()
    down, across = torch.fft.fftfreq(height).unsqueeze(1), torch.fft.rfftfreq(width)
    radius = (down.square() + across.square()).sqrt().flatten()
    # Half of the frequencies are left out as mirror images; those of the first and last column have theirs inside.
    every = torch.full((height, width // 2 + 1), 2.0)
    every[:, 0] = 1
    if width % 2 == 0:
        every[:, -1] = 1
    every = every.flatten()
    every[0] = 0  # the mean is no frequency
    count = min(16, min(height, width) // 2)
    band = (radius * 2 * count).round().long().sub(1).clamp(0, count - 1)
    bands = one_hot(band, count) * every.unsqueeze(1)
    return window, bands / bands.sum(0), every, every * (radius > 0.25)


def _blocks(grey: Tensor) -> Tensor:
    """Return differences of neighbours along the last axis: (B, H, W) in 0..255 -> (B, 10).

    Logarithms of: their mean; their mean at each phase of a grid of 8 pixels, the blocks of JPEG, relative to it; at
    block borders relative to inside.
    """
    profile = grey.diff(dim=2).abs_().mean(1)
    weight = one_hot(torch.arange(profile.shape[1]) % 8, 8).float()
    mean = profile.mean(1, keepdim=True)
    at_phase = profile @ (weight / weight.sum(0))
    border, inside = at_phase[:, -1:], at_phase[:, :-1].mean(1, keepdim=True)
    level, phases, edge, rest = ((value + 0.25).log() for value in (mean, at_phase, border, inside))
    return torch.cat([level, phases - level, edge - rest], dim=1)


class Stripes(ImageView):
    """How much of each direction of stripes even those places have that have little of it.

    The energy of Gabor filters (cosine and sine together, so the phase does not matter) of 4 widths and 8 directions at
    up to 12 x 12 places. Of each the logarithm of what a tenth of the places stay below, less its mean over the
    directions: 32 numbers. A photo's own edges lie somewhere, stripes everywhere, so those places tell of them. Images
    of 64 pixels and more give as many again, averaged to between 32 and 64 pixels.
    """

    name = "stripes"
    min_side = 16

    def image_features(self, images: Tensor) -> Tensor:
        grey = brightness(images).unsqueeze(1)
        small = halved(grey)
        looks = [_energies(grey)] if small.shape == grey.shape else [_energies(grey), _energies(small)]
        return torch.cat(looks, dim=1)


def _energies(grey: Tensor) -> Tensor:
    """Return the log energy of each width and direction: (B, 1, H, W) in 0..255 -> (B, 32)."""
    filters = _filters()
    stride = max(1, math.ceil((max(grey.shape[2:]) - filters.shape[3] + 1) / 12))
    energy = conv2d(grey, filters, stride=stride).square_().flatten(2).unflatten(1, (4, 8, 2)).sum(3)
    least = quantiles(energy, [0.1]).squeeze(3).add_(1).log_()
    return (least - least.mean(2, keepdim=True)).flatten(1)


@lru_cache
def _filters() -> Tensor:
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
    values = 1 << 21

    def __init__(self) -> None:
        self._side = 0  # of a patch; 0 before the filters are learned
        self._components = torch.empty(0, 0)  # (D, D)
        self._filters = torch.empty(0, 0)  # (D, 128)
        self._mean = torch.empty(0)  # (D,)

    def fit(self, inputs: ViewInputs) -> None:
        generator = make_generator(0, "texture")
        patches = _random_patches(inputs, generator)
        self._side = math.isqrt(patches.shape[1])
        patches = patches.flatten(1)
        mean = patches.mean(0)
        centred = patches - mean
        # In float64 and with signs fixed: the components do not hang on the rounding of the machine.
        spread, vectors = torch.linalg.eigh((centred.T.double() @ centred.double()) / (len(patches) - 1))
        vectors = vectors * vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()
        components = (vectors / (spread.clamp_min(0) + 1e-3).sqrt()).float()
        chosen = torch.randperm(len(patches), generator=generator)[:128]
        random = centred[chosen] @ components
        random = random / random.norm(dim=1, keepdim=True).clamp_min(1e-6)
        self._mean, self._components, self._filters = mean, components, components @ random.T

    def image_features(self, images: Tensor) -> Tensor:
        if len(self._mean) != images.shape[1] * self._side**2 or min(images.shape[2:]) < self._side:
            raise InputError(f"Images of shape {tuple(images.shape[1:])} are not like those of training: give such")
        # So few images together that their responses stay in the processor's cache.
        return torch.cat([self._statistics(part) for part in _bounded(images).split(16)])

    def _statistics(self, images: Tensor) -> Tensor:
        """Return the statistics of few images (B, C, H, W) of bounded size (B, 3 D + 512), in place in the cache."""
        patches = _patches(images, self._side)
        response = _respond(patches, self._components, -(self._mean @ self._components))
        mean = response.mean(1)
        square = response.sub_(mean.unsqueeze(1)).square_()
        variance = square.mean(1)
        fourth = square.square_().mean(1)
        response = _respond(patches[:, ::2, ::2], self._filters, -(self._mean @ self._filters) - 0.5)
        tails = [response.clamp_min(0), response.add_(1.0).clamp_max_(0)]
        above, below = (tail.mean(1) for tail in tails)
        variances = [tail.square_().mean(1) - own.square() for tail, own in zip(tails, (above, below), strict=True)]
        deviations = [(one.clamp_min(0) + 1e-6).sqrt() for one in variances]
        kurtosis = (fourth + 1e-6).log() - 2 * (variance + 1e-3).log()
        return torch.cat([mean, 0.5 * (variance + 1e-4).log(), kurtosis, above, -below, *deviations], dim=1)


def _respond(patches: Tensor, weights: Tensor, shift: Tensor) -> Tensor:
    """Return responses (B, P, F) of patches (B, h, w, D) in 0..255 to the weights (D, F) of patches in [0, 1]."""
    flat = patches.flatten(0, 2)
    return torch.addmm(shift, flat, weights / 255).view(patches.shape[0], -1, weights.shape[1])


def _bounded(images: Tensor) -> Tensor:
    """Average images (B, C, H, W) down to at most 64 pixels on the longer side."""
    height, width = images.shape[2:]
    shrink = 64 / max(height, width)
    if shrink >= 1:
        return images
    return adaptive_avg_pool2d(images.float(), (max(1, round(height * shrink)), max(1, round(width * shrink))))


def _patches(images: Tensor, side: int) -> Tensor:
    """Cut h x w patches at regular places of images (B, C, H, W): (B, h, w, side * side * C) float32, same units."""
    channels, height, width = images.shape[1:]
    step = max(1, min(round((max(height, width) - side) / 13), side - 1))  # 2 in images of 32 pixels
    # Pixels that no patch reaches are shared between both ends.
    top, left = (height - side) % step // 2, (width - side) % step // 2
    points = images[:, :, top:, left:].permute(0, 2, 3, 1).float().flatten(2)
    # Channels last: a row of a patch is one run of memory, which is several times as quick to copy.
    cut = points.unfold(1, side, step).unfold(2, side * channels, step * channels)
    return cut.flatten(3)


def _random_patches(inputs: ViewInputs, generator: torch.Generator) -> Tensor:
    """Return 100,000 patches (P, side * side, C) in [0, 1] from random places of 10,000 random images at most."""
    rows = torch.randperm(inputs.num_rows, generator=generator)[:10_000].sort().values
    each = -(-100_000 // len(rows))
    found = []
    for part in rows.split(512):
        images = inputs.images(part)
        assert images is not None
        small = _bounded(images)
        height, width = small.shape[2:]
        side = min(6, height, width)
        count = (len(part), each, 1, 1)
        top = torch.randint(height - side + 1, count, generator=generator) + torch.arange(side).view(-1, 1)
        left = torch.randint(width - side + 1, count, generator=generator) + torch.arange(side)
        cut = small.permute(0, 2, 3, 1)[torch.arange(len(part)).view(-1, 1, 1, 1), top, left]
        found.append(cut.flatten(2, 3).flatten(0, 1).float() / 255)
    return torch.cat(found)
