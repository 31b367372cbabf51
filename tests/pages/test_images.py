from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.pages.plots import encode_png_uris, is_image_uri


def decode_png(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


@pytest.mark.parametrize("channels", [1, 3])
def test_png_uris_hold_images_pixel_by_pixel(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (3, channels, 5, 7), generator=generator).to(torch.uint8)
    uris = encode_png_uris(images)
    assert len(uris) == 3
    for image, uri in zip(images, uris, strict=True):
        expected = image.permute(1, 2, 0).numpy() if channels == 3 else image[0].numpy()
        np.testing.assert_array_equal(decode_png(uri), expected)
        assert is_image_uri(uri)


@pytest.mark.parametrize(
    "text",
    [None, "https://example.org/x.png", "data:image/svg+xml;base64,AAAA", 'data:image/png;base64,AAAA" onerror="x'],
)
def test_only_png_data_is_an_image_uri(text: object) -> None:
    assert not is_image_uri(text)
