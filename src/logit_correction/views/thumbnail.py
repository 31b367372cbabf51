"""The image averaged to a few points."""

from __future__ import annotations

from torch import Tensor

from logit_correction.views.images import ImageView, area_average


class Thumbnail(ImageView):
    """The image averaged to 4 x 4 points: 16 numbers for each channel."""

    name = "thumbnail"
    least_side = 16
    sentence = "the image averaged to 4 x 4 points: where it is light and dark, and in which colour"
    breadth = 1

    def look(self, images: Tensor) -> Tensor:
        """Return the averages (B, 16 C) in [0, 1] of the images (B, C, H, W), unsigned bytes."""
        return area_average(images, 4, 4).flatten(1) / 255
