"""What cameras, screens and files do: brightness, contrast, saturation, JPEG, pixels, elastic distortion."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from logit_correction.bench.corruptions import geometry
from logit_correction.bench.corruptions.streams import Floats, Streams

BRIGHTNESS = (0.05, 0.1, 0.15, 0.2, 0.3)
CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
#: Saturation is multiplied by the first and raised by the second.
SATURATE = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))
JPEG = (80, 65, 58, 50, 40)
PIXELATE = (0.95, 0.9, 0.85, 0.75, 0.65)
#: As fractions of the side: strength and smoothness of the local displacement, and reach of the affine one.
ELASTIC = ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))


def brightness(images: Floats, severity: int, streams: Streams) -> Floats:
    """Raise the value of hue-saturation-value by 0.05, 0.1, 0.15, 0.2, 0.3, at most to 1."""
    value = images.max(axis=3, keepdims=True)
    raised = np.minimum(value + BRIGHTNESS[severity - 1], 1)
    # Hue and saturation stay where the three values keep their ratios; black has neither and turns grey.
    return np.where(value > 0, images * (raised / np.where(value > 0, value, 1)), raised)


def saturate(images: Floats, severity: int, streams: Streams) -> Floats:
    """Multiply and raise the saturation: pale at severity 1 and 2, garish from 3 on; grey counts as red."""
    factor, offset = SATURATE[severity - 1]
    value = images.max(axis=3, keepdims=True)
    spread = value - images.min(axis=3, keepdims=True)
    old = spread / np.where(value > 0, value, 1)
    new = np.clip(old * factor + offset, 0, 1)
    changed = value - (value - images) * (new / np.where(old > 0, old, 1))
    # Without a hue, hue-saturation-value means red.
    reddened = value * np.concatenate([np.ones_like(new), 1 - new, 1 - new], axis=3)
    return np.where(old > 0, changed, reddened)


def contrast(images: Floats, severity: int, streams: Streams) -> Floats:
    """Draw each channel towards its mean: (x - m) c + m with c = 0.75, 0.5, 0.4, 0.3, 0.15."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    return (images - mean) * CONTRAST[severity - 1] + mean


def jpeg(images: Floats, severity: int, streams: Streams) -> Floats:
    """Write and read as JPEG of quality 80, 65, 58, 50, 40."""
    result = np.empty_like(images)
    for row, pixels in enumerate(_bytes(images)):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=JPEG[severity - 1])
        with Image.open(stream) as image:
            result[row] = np.asarray(image)
    return result / 255


def pixelate(images: Floats, severity: int, streams: Streams) -> Floats:
    """Shrink to 0.95, 0.9, 0.85, 0.75, 0.65 of the side by averaging and enlarge again."""
    height, width = images.shape[1:3]
    small = (int(width * PIXELATE[severity - 1]), int(height * PIXELATE[severity - 1]))
    result = np.empty_like(images)
    for row, pixels in enumerate(_bytes(images)):
        image = Image.fromarray(pixels).resize(small, Image.Resampling.BOX)
        result[row] = np.asarray(image.resize((width, height), Image.Resampling.BOX))
    return result / 255


def _bytes(images: Floats) -> np.ndarray:
    return np.rint(images * 255).astype(np.uint8)


def elastic(images: Floats, severity: int, streams: Streams) -> Floats:
    """Tilt and stretch the image by moving three of its points, then shift each pixel along a smooth field."""
    height, width = images.shape[1:3]
    strength, smoothness, reach = (min(height, width) * part for part in ELASTIC[severity - 1])
    middle, arm = np.array([width // 2, height // 2]), min(height, width) // 3
    before = middle + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    after = before + reach * streams.symmetric(3, 2)
    # Affine map from a position (x, y, 1) of the result to the position in the image, (N, 3, 2).
    back = np.linalg.solve(np.concatenate([after, np.ones((len(after), 3, 1))], axis=2), before.astype(np.float64))
    y, x = np.meshgrid(np.arange(height, dtype=np.float64), np.arange(width), indexing="ij")
    from_x, from_y = (
        back[:, 0, i, None, None] * x + back[:, 1, i, None, None] * y + back[:, 2, i, None, None] for i in (0, 1)
    )
    tilted = geometry.sample(images, from_y, from_x, half_sample=False)
    if not strength:
        return tilted
    across, down = (
        strength * geometry.gaussian_blur(streams.symmetric(height, width), smoothness, "reflect", truncate=3)
        for _ in range(2)
    )
    return geometry.sample(tilted, y + down, x + across, half_sample=True)
