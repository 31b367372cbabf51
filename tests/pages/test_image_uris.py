from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.pages.images import checked_uri, image_width, png_uris


def decoded(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


@pytest.mark.parametrize("channels", [1, 3])
def test_small_images_are_kept_pixel_by_pixel(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (3, channels, 5, 7), generator=generator).to(torch.uint8)
    uris = png_uris(images)
    assert len(uris) == 3
    for image, uri in zip(images, uris, strict=True):
        expected = image.permute(1, 2, 0).numpy() if channels == 3 else image[0].numpy()
        np.testing.assert_array_equal(decoded(uri), expected)
        assert checked_uri(uri) == uri
        assert image_width(uri) == 7


def test_great_images_are_made_smaller_in_proportion() -> None:
    uri = png_uris(torch.full((1, 3, 200, 400), 77, dtype=torch.uint8), longest=100)[0]
    assert decoded(uri).shape == (50, 100, 3)
    assert (decoded(uri) == 77).all()


def test_no_images_give_no_uris() -> None:
    assert png_uris(torch.zeros(0, 3, 8, 8, dtype=torch.uint8)) == []


@pytest.mark.parametrize(
    "images", [torch.zeros(1, 3, 4, 4), torch.zeros(1, 2, 4, 4).byte(), torch.zeros(3, 4, 4).byte()]
)
def test_other_tensors_are_refused(images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="images must be uint8"):
        png_uris(images)


@pytest.mark.parametrize(
    "text",
    [
        None,
        3,
        "",
        "https://example.org/x.png",
        "data:text/html;base64,AAAA",
        "data:image/svg+xml;base64,AAAA",
        'data:image/png;base64,AAAA" onerror="x',
        "data:image/png;base64,AAAA\n",
    ],
)
def test_nothing_but_png_data_is_let_through(text: object) -> None:
    assert checked_uri(text) is None
