"""Crops of original photos: against torchvision's, and only in training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from logit_correction.data.augment import DRAW_RANGE, ResizedCropFlip
from logit_correction.data.image_files import read_picture
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction_lab.original_crops import OriginalCropFlip, read_image_sizes


def draw_random_numbers(images: int, draws: int = OriginalCropFlip.num_draws) -> torch.Tensor:
    return torch.randint(DRAW_RANGE, (images, draws), generator=torch.Generator().manual_seed(0))


def make_numbered_table() -> DataTable:
    """Rows whose splits do not lie in order."""
    order = torch.randperm(20, generator=torch.Generator().manual_seed(5))
    return DataTable(
        inputs=ArrayStore(torch.arange(20.0)[:, None]),
        label=torch.arange(20) % 2,
        attribute=torch.arange(20) % 3,
        split={"train": order[:14], "valid": order[14:17], "test": order[17:]},
        label_names=["a", "b"],
        attribute_names=["x", "y", "z"],
    )


def crop_originals(
    height: int, width: int, size: tuple[int, int], images: torch.Tensor | None = None, rows: int = 400
) -> torch.Tensor:
    """Parts of photos of one height and width, by default slopes whose values are the places of their pixels."""
    if images is None:
        down = torch.arange(height, dtype=torch.uint8)[:, None].expand(height, width)
        across = torch.arange(width, dtype=torch.uint8).expand(height, width)
        images = torch.stack([down, across])
    originals = torch.tensor([[1, 1], [height, width]])
    store = ArrayStore(torch.zeros(2, *images.shape, dtype=torch.uint8))
    crop = OriginalCropFlip(store, originals, size)
    index = torch.ones(rows, dtype=torch.long)
    return crop(images.expand(rows, -1, -1, -1), draw_random_numbers(rows, crop.num_draws), index)


def reference_box(draws: list[int], height: int, width: int) -> tuple[int, int, int, int, bool]:
    """Top, left, height and width of the box, and whether it is mirrored: the published crop, try by try."""
    for attempt in range(10):
        area = height * width * (0.7 + 0.3 * draws[attempt] / DRAW_RANGE)
        shape = math.exp(math.log(4 / 3) * (2 * draws[10 + attempt] / DRAW_RANGE - 1))
        down = round(math.sqrt(area / shape))
        across = round(math.sqrt(area * shape))
        if down <= height and across <= width:
            top = draws[20] % (height - down + 1)
            left_edge = draws[21] % (width - across + 1)
            return top, left_edge, down, across, draws[22] % 2 == 1
    down = min(height, round(width * 4 / 3))
    across = min(width, round(height * 4 / 3))
    return (height - down) // 2, (width - across) // 2, down, across, draws[22] % 2 == 1


@pytest.mark.parametrize(("height", "width"), [(90, 120), (120, 100), (40, 200)])
def test_parts_of_originals_are_those_that_torchvision_cuts_and_resizes(height: int, width: int) -> None:
    functional = pytest.importorskip("torchvision.transforms.functional")
    photo = torch.randint(0, 256, (3, height, width), generator=torch.Generator().manual_seed(2)).to(torch.uint8)
    size = (24, 16)
    crops = crop_originals(height, width, size, photo, rows=50)
    for number, draws in enumerate(draw_random_numbers(50, OriginalCropFlip.num_draws).tolist()):
        *box, mirrored = reference_box(draws, height, width)
        expected = functional.resized_crop(photo.float(), *box, size, antialias=False)
        expected = functional.hflip(expected) if mirrored else expected
        assert (crops[number].float() - expected).abs().max() <= 0.51, number  # what rounding to bytes may do


@pytest.mark.parametrize(("height", "width"), [(150, 210), (180, 90), (200, 200)])
def test_parts_of_originals_vary_as_those_of_torchvision(height: int, width: int) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    photo = torch.zeros(1, height, width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        boxes = [transforms.RandomResizedCrop.get_params(photo, (0.7, 1.0), (3 / 4, 4 / 3)) for _ in range(2500)]
    top_edges, left_edges, down, across = torch.tensor(boxes).float().unbind(1)
    crops = crop_originals(height, width, (11, 11), rows=2500).float()
    # The slope of eleven pixels, whose middles are ten elevenths of the box apart.
    found_down = (crops[:, 0, -1, 5] - crops[:, 0, 0, 5]) * 1.1
    found_across = (crops[:, 1, 5, -1] - crops[:, 1, 5, 0]) * 1.1
    assert 0.45 < float((found_across < 0).float().mean()) < 0.55
    middle_down = crops[:, 0, 5, 5]
    middle_across = crops[:, 1, 5, 5]
    for values, expected in (
        (found_down, down),
        (found_across.abs(), across),
        (middle_down, top_edges + down / 2),
        (middle_across, left_edges + across / 2),
    ):
        assert abs(float(values.mean() - expected.mean())) < 1.5
        assert abs(float(values.std() - expected.std())) < 1.0


def test_a_part_of_a_photo_stretched_to_a_square_has_the_proportions_of_the_original() -> None:
    """Twice as wide as high: torchvision takes the whole height and 4/3 of it across, half of the width or more."""
    square = torch.arange(224, dtype=torch.uint8).expand(2, 224, 224)
    images = torch.stack([square[0].T, square[1]])
    crops = crop_originals(100, 200, (20, 20), images).float()
    down = (crops[:, 0, -1, 10] - crops[:, 0, 0, 10]) / 224 * 20 / 19 * 100
    across = (crops[:, 1, 10, -1] - crops[:, 1, 10, 0]).abs() / 224 * 20 / 19 * 200
    shape = across / down
    assert float(shape.min()) > 1.30 and float(shape.max()) < 1.37
    stretched = ResizedCropFlip()(images.expand(400, -1, -1, -1), draw_random_numbers(400), torch.zeros(0)).float()
    down = (stretched[:, 0, -1, 112] - stretched[:, 0, 0, 112]) * 100
    across = (stretched[:, 1, 112, -1] - stretched[:, 1, 112, 0]).abs() * 200
    assert float((across / down).max()) > 2


@pytest.mark.parametrize("fits", [True, False])
def test_parts_of_originals_are_those_of_the_rows_and_training_alone_sees_them(fits: bool) -> None:
    table = make_numbered_table()
    numbers = torch.arange(20, dtype=torch.uint8)[:, None, None, None]
    larger = ArrayStore(numbers.expand(20, 3, 12, 12) + 100)
    larger.fits = lambda device: fits  # type: ignore[method-assign]
    crop = OriginalCropFlip(larger, torch.tensor([[30, 40]]).repeat(20, 1), (7, 7))
    table = replace(table, inputs=ArrayStore(numbers.expand(20, 3, 7, 7)), augment=crop)
    for shuffle, more in ((True, 100), (False, 0)):
        for batch in BatchLoader(table, "train", batch_size=4, shuffle=shuffle).epoch(1, 1):
            expected = (table.split["train"][batch.index] + more) / 255
            torch.testing.assert_close(batch.inputs, expected[:, None, None, None].expand(-1, 3, 7, 7))


def test_the_size_of_an_image_is_that_of_the_image_upright(tmp_path: Path) -> None:
    image = Image.new("RGB", (5, 3))
    image.save(tmp_path / "lies.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    image.save(tmp_path / "stands.jpg", exif=turned)
    paths = [tmp_path / "lies.png", tmp_path / "stands.jpg"]
    assert (
        read_image_sizes(paths).tolist()
        == [[3, 5], [5, 3]]
        == [list(read_picture(path, None).pixels.shape[1:]) for path in paths]
    )
    assert read_image_sizes([]).shape == (0, 2)
