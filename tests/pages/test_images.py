from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.pages.images import SIDE, is_picture, png_uris, sheet_of


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
        assert is_picture(uri)
    with pytest.raises(ValueError, match="images must be uint8"):
        png_uris(images.float())


@pytest.mark.parametrize(
    "text",
    [None, "https://example.org/x.png", "data:image/svg+xml;base64,AAAA", 'data:image/png;base64,AAAA" onerror="x'],
)
def test_nothing_but_png_data_is_let_through(text: object) -> None:
    assert not is_picture(text)


@pytest.mark.parametrize("known", [True, False])
def test_images_lie_in_the_cell_of_their_group(known: bool) -> None:
    colors = torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255]], dtype=torch.uint8)
    images = colors[:, :, None, None].expand(-1, -1, 8, 8).float() / 255
    label, attribute = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])
    split = {"train": torch.arange(3), "valid": torch.arange(0), "test": torch.arange(0)}
    marks = attribute if known else torch.full_like(attribute, -1)
    table = DataTable(ArrayStore(images), label, marks, split, ["one", "two"], ["left", "right"] if known else [])
    sheet = np.asarray(sheet_of(table, "train", per_cell=1))
    places = [np.argwhere((sheet == color.numpy()).all(2)) for color in colors]
    assert all(len(place) == SIDE * SIDE for place in places)
    red, green, blue = (place.min(0).tolist() for place in places)
    assert red[0] == green[0] < blue[0] and red[1] < green[1] and blue[1] == (green if known else red)[1]
    with pytest.raises(InputError, match="valid split has no rows"):
        sheet_of(table, "valid", 1)
