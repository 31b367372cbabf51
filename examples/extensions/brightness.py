"""How bright an image is."""

from __future__ import annotations

from torch import Tensor

from logit_correction.views.images import ImageView


class Brightness(ImageView):
    """One number: the mean of all pixels."""

    name = "brightness"
    breadth = 0

    def image_features(self, images: Tensor) -> Tensor:
        """Return the brightness (B, 1) of unsigned bytes (B, C, H, W)."""
        return images.float().mean(dim=(1, 2, 3)).unsqueeze(1) / 255
