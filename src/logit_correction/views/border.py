"""The colours along the edge of an image beside those of its centre: frames, vignettes, backgrounds."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from logit_correction.views.thumbnail import ImageView


class Border(ImageView):
    """Mean and standard deviation of each channel in a frame, in the centre, and the difference of the two.

    The frame is an eighth of the shorter side wide, and one pixel at least: 18 numbers of a colour image.
    """

    name = "border"
    sentence: ClassVar[str] = "the colours of a frame along the edge of the image, beside those of its centre"
    breadth: ClassVar[int] = 1

    def look(self, images: Tensor) -> Tensor:
        """Return the statistics of the images.

        Args:
            images: (B, C, H, W) unsigned bytes.

        Returns:
            (B, 6 C): means, then standard deviations of the frame and of the centre in [0, 1], and frame less centre in
            [-1, 1]. Images without a centre, of one or two pixels, are their own.
        """
        height, width = images.shape[2:]
        frame = max(1, round(min(height, width) / 8))
        # Sums of whole numbers are exact in float64, so that the frame is what the centre leaves of the whole.
        points = images.double()
        whole = _sums(points)
        inner = points[:, :, frame : height - frame, frame : width - frame]
        if not inner.numel():
            outside = inside = _moments(*whole, pixels=height * width)
        else:
            centre = _sums(inner)
            pixels = inner.shape[2] * inner.shape[3]
            inside = _moments(*centre, pixels=pixels)
            outside = _moments(whole[0] - centre[0], whole[1] - centre[1], pixels=height * width - pixels)
        return (torch.cat([outside, inside, outside - inside], dim=1) / 255).float()


def _sums(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return sums and sums of squares: (B, C, H, W) -> twice (B, C)."""
    return points.sum((2, 3)), points.square().sum((2, 3))


def _moments(total: Tensor, squares: Tensor, *, pixels: int) -> Tensor:
    """Return means and standard deviations (B, 2 C) from sums (B, C) over so many pixels."""
    mean = total / pixels
    return torch.cat([mean, (squares / pixels - mean.square()).clamp_min(0).sqrt()], dim=1)
