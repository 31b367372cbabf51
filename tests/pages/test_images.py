from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from logit_correction.pages.images import SIDE, checked_uri, contact_sheet, image_width, png_uris


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


# Contact sheets: which image lies where


def colored(*colors: tuple[int, int, int], size: int = 8) -> torch.Tensor:
    """One flat image for each colour."""
    return torch.tensor(colors, dtype=torch.uint8)[:, :, None, None].expand(-1, -1, size, size)


def found(sheet: np.ndarray, color: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Rows and columns of the sheet that a colour fills."""
    rows, columns = (sheet == color).all(2).nonzero()
    assert len(rows) == (rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1)
    return rows.min(), rows.max() + 1, columns.min(), columns.max() + 1


RED, GREEN, BLUE, PINK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (250, 150, 200)


def test_images_lie_in_their_cells() -> None:
    cells = [[colored(RED, PINK), colored(GREEN)], [colored(BLUE), colored(RED)[:0]]]
    sheet = np.asarray(contact_sheet(cells, ["one", "two"], ["left", "right"], per_cell=2))
    red, pink, green, blue = (found(sheet, color) for color in (RED, PINK, GREEN, BLUE))
    assert {(box[1] - box[0], box[3] - box[2]) for box in (red, pink, green, blue)} == {(SIDE, SIDE)}
    assert red[2:] == pink[2:] == blue[2:] and red[1] < pink[0] < pink[1] < blue[0]
    assert green[:2] == red[:2] and green[2] > red[3]
    # Four places are empty: below green, below blue, and the whole last cell.
    empty = (sheet == (233, 235, 238)).all(2).sum()
    assert empty == 4 * SIDE * SIDE


@pytest.mark.parametrize(("size", "shown"), [(8, 64), (28, 56), (32, 64), (64, 64), (224, 64)])
def test_images_are_enlarged_by_whole_factors_or_shrunk(size: int, shown: int) -> None:
    sheet = np.asarray(contact_sheet([[colored(RED, size=size)]], ["a"], ["b"], per_cell=1))
    top, bottom, left, right = found(sheet, RED)
    assert (bottom - top, right - left) == (shown, shown)
