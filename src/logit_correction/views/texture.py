"""Orderless statistics of small patches: rich colours and textures, but no shape larger than a patch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.seeds import make_generator
from logit_correction.views.base import ViewInputs
from logit_correction.views.images import ImageView, area_average, image_parts

#: Side of a patch in pixels.
_PATCH = 6
#: Random patches that serve as filters.
_FILTERS = 128
#: Patches that the filters are learned from, and images that they are taken from at most.
_PATCHES, _SOURCES = 100_000, 10_000
#: Longer side in pixels that larger images are averaged down to, so that their cost is bounded.
_LONGEST = 64
#: Patches looked at along the longer side of a small image: those of an image of 32 pixels lie 2 apart. With 3
#: apart the rows that conflict were found less precisely in Corrupted CIFAR-10 of 5 % (0.65 for 0.72).
_ALONG = 14
#: The filters look at every second of these places each way, which takes a third of the time off and loses nothing.
_SPARSE = 2
#: Filter responses nearer to 0 than this count for nothing.
_THRESHOLD = 0.5
#: Images looked at together: their responses stay in the processor's cache.
_TOGETHER = 16


class Texture(ImageView):
    """How small patches are distributed over an image, without regard to where they are.

    In the spirit of the patch features of Coates and Ng: D whitened principal components of patches of 6 x 6 pixels and
    128 random whitened patches as filters, both learned from 100,000 random patches. Of each component's responses over
    the image the view keeps mean, log standard deviation and log kurtosis; of each filter's, mean and standard
    deviation of what exceeds a threshold, upwards and downwards. D is 108 for colour images, which gives 836 numbers.
    """

    name = "texture"
    sentence = "colours and textures of small patches, wherever they are: no shapes larger than a patch"
    breadth = 2
    least_side = 16

    def __init__(self) -> None:
        self._side = 0  # of a patch; 0 before the filters are learned
        self._components = torch.empty(0, 0)  # (D, D)
        self._filters = torch.empty(0, 0)  # (D, 128)
        self._mean = torch.empty(0)  # (D,)

    def fit(self, inputs: ViewInputs) -> None:
        """Learn components and filters from random patches of the images; deterministic."""
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
        chosen = torch.randperm(len(patches), generator=generator)[:_FILTERS]
        random = centred[chosen] @ components
        random = random / random.norm(dim=1, keepdim=True).clamp_min(1e-6)
        self._mean, self._components, self._filters = mean, components, components @ random.T

    def features(self, inputs: ViewInputs) -> Tensor:
        """Return the statistics of all rows, (N, 3 D + 512)."""
        return torch.cat([self.look(images) for images in image_parts(inputs, values=1 << 21)])

    def look(self, images: Tensor) -> Tensor:
        """Return the statistics (B, 3 D + 512) of the images (B, C, H, W), unsigned bytes.

        Raises:
            InputError: If ``fit`` was not called, or saw images of another number of channels or of larger ones.
        """
        side = self._side
        if len(self._mean) != images.shape[1] * side**2 or min(images.shape[2:]) < side or not side:
            raise InputError(
                f"the view 'texture' has learned patches of {len(self._mean)} values, "
                f"which do not fit images of shape {tuple(images.shape[1:])}: fit it on images like these"
            )
        small = _bounded(images)
        return torch.cat([self._statistics(part) for part in small.split(_TOGETHER)])

    def _statistics(self, images: Tensor) -> Tensor:
        """Return the statistics of few images (B, C, H, W) of bounded size.

        Responses are computed by one product of matrices and then overwritten step by step while they are in the cache.
        """
        patches = _patches(images, self._side)
        sparse = patches[:, ::_SPARSE, ::_SPARSE]
        response = _respond(patches, self._components, -(self._mean @ self._components))
        mean = response.mean(1)
        square = response.sub_(mean.unsqueeze(1)).square_()
        variance = square.mean(1)
        fourth = square.square_().mean(1)
        response = _respond(sparse, self._filters, -(self._mean @ self._filters) - _THRESHOLD)
        above = response.clamp_min(0)
        below = response.add_(2 * _THRESHOLD).clamp_max_(0)
        above_mean, below_mean = above.mean(1), below.mean(1)
        above_variance = above.square_().mean(1) - above_mean.square()
        below_variance = below.square_().mean(1) - below_mean.square()
        return torch.cat(
            [
                mean,
                0.5 * (variance + 1e-4).log(),
                (fourth + 1e-6).log() - 2 * (variance + 1e-3).log(),
                above_mean,
                -below_mean,
                (above_variance.clamp_min(0) + 1e-6).sqrt(),
                (below_variance.clamp_min(0) + 1e-6).sqrt(),
            ],
            dim=1,
        )


def _respond(patches: Tensor, weights: Tensor, shift: Tensor) -> Tensor:
    """Return responses (B, P, F) of patches (B, h, w, D) in 0..255 to the weights (D, F) of patches in [0, 1]."""
    flat = patches.flatten(0, 2)
    return torch.addmm(shift, flat, weights / 255).view(patches.shape[0], -1, weights.shape[1])


def _bounded(images: Tensor) -> Tensor:
    """Average images (B, C, H, W) down to at most 64 pixels on the longer side."""
    height, width = images.shape[2:]
    shrink = _LONGEST / max(height, width)
    if shrink >= 1:
        return images
    return area_average(images, max(1, round(height * shrink)), max(1, round(width * shrink)))


def _patches(images: Tensor, side: int) -> Tensor:
    """Cut patches at regular places.

    Args:
        images: (B, C, H, W) of at most 64 pixels on the longer side.
        side: Side of a patch.

    Returns:
        (B, h, w, side * side * C) float32 in the units of ``images``: h x w patches.
    """
    height, width, channels = images.shape[2], images.shape[3], images.shape[1]
    step = max(1, min(round((max(height, width) - side) / (_ALONG - 1)), side - 1))
    # Pixels that no patch reaches are shared between both ends.
    top, left = (height - side) % step // 2, (width - side) % step // 2
    points = images[:, :, top:, left:].permute(0, 2, 3, 1).float().flatten(2)
    # Channels last: a row of a patch is one run of memory, which is several times as quick to copy.
    cut = points.unfold(1, side, step).unfold(2, side * channels, step * channels)
    return cut.flatten(3)


def _random_patches(inputs: ViewInputs, generator: torch.Generator) -> Tensor:
    """Return 100,000 patches (P, side * side, C) in [0, 1] from random places of random images."""
    rows = torch.randperm(inputs.num_rows, generator=generator)[:_SOURCES].sort().values
    each = -(-_PATCHES // len(rows))
    found = []
    for part in rows.split(512):
        images = inputs.images(part)
        assert images is not None
        small = _bounded(images)
        height, width = small.shape[2:]
        side = min(_PATCH, height, width)
        count = (len(part), each, 1, 1)
        top = torch.randint(height - side + 1, count, generator=generator) + torch.arange(side).view(-1, 1)
        left = torch.randint(width - side + 1, count, generator=generator) + torch.arange(side)
        cut = small.permute(0, 2, 3, 1)[torch.arange(len(part)).view(-1, 1, 1, 1), top, left]
        found.append(cut.flatten(2, 3).flatten(0, 1).float() / 255)
    return torch.cat(found)
