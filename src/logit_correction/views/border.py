"""The colours along the edge of an image beside those of its centre: frames, vignettes, backgrounds."""

from __future__ import annotations

import torch
from torch import Tensor

from logit_correction.views.images import ImageView


class Border(ImageView):
    """Mean and standard deviation of each channel in a frame, in the centre, and the difference of the two.

    The frame is an eighth of the shorter side wide, and one pixel at least. With the same of its outer half these are
    24 numbers of a colour image.
    """

    name = "border"
    sentence = "the colours of a frame along the edge of the image, beside those of its centre"
    breadth = 1

    def look(self, images: Tensor) -> Tensor:
        """Return the statistics of the images.

        Args:
            images: (B, C, H, W) unsigned bytes.

        Returns:
            (B, 8 C): means, then standard deviations of the frame and of the centre in [0, 1], frame less centre in
            [-1, 1], and means, then standard deviations of the outer half of the frame. Images without a centre, of one
            or two pixels, are their own.
        """
        height, width = images.shape[2:]
        side = min(height, width)
        frame, edge = max(1, round(side / 8)), max(1, round(side / 16))
        # Sums of whole numbers are exact in float64, so that the frame is what the centre leaves of the whole.
        points = images.double()
        whole = _sums(points)
        outside, inside = _around(points, whole, frame)
        return (torch.cat([outside, inside, outside - inside, _around(points, whole, edge)[0]], dim=1) / 255).float()


def _around(points: Tensor, whole: tuple[Tensor, Tensor], width: int) -> tuple[Tensor, Tensor]:
    """Return the moments (B, 2 C) of a frame of this width, and of the centre that it leaves."""
    height, length = points.shape[2:]
    inner = points[:, :, width : height - width, width : length - width]
    if not inner.numel():
        return (_moments(*whole, pixels=height * length),) * 2
    centre, pixels = _sums(inner), inner.shape[2] * inner.shape[3]
    outside = _moments(whole[0] - centre[0], whole[1] - centre[1], pixels=height * length - pixels)
    return outside, _moments(*centre, pixels=pixels)


def _sums(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return sums and sums of squares: (B, C, H, W) -> twice (B, C)."""
    return points.sum((2, 3)), points.square().sum((2, 3))


def _moments(total: Tensor, squares: Tensor, *, pixels: int) -> Tensor:
    """Return means and standard deviations (B, 2 C) from sums (B, C) over so many pixels."""
    mean = total / pixels
    return torch.cat([mean, (squares / pixels - mean.square()).clamp_min(0).sqrt()], dim=1)
