from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.pages.plots import encode_picture, is_image_uri


def decode_image(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


@pytest.mark.parametrize("channels", [1, 3])
def test_small_images_are_encoded_pixel_by_pixel(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (channels, 5, 7), generator=generator).to(torch.uint8)
    uri = encode_picture(image.numpy())
    expected = image.permute(1, 2, 0).numpy() if channels == 3 else image[0].numpy()
    np.testing.assert_array_equal(decode_image(uri), expected)
    assert uri.startswith("data:image/png") and is_image_uri(uri)


def test_large_images_are_reduced() -> None:
    uri = encode_picture(np.zeros((3, 200, 400), dtype=np.uint8), 100)
    assert uri.startswith("data:image/jpeg") and is_image_uri(uri) and decode_image(uri).shape == (50, 100, 3)


@pytest.mark.parametrize(
    "text",
    [None, "https://example.org/x.png", "data:image/svg+xml;base64,AAAA", 'data:image/png;base64,AAAA" onerror="x'],
)
def test_only_png_data_is_an_image_uri(text: object) -> None:
    assert not is_image_uri(text)
