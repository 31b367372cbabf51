"""Augmentations: drawn from the seed alone, one by one as in batches."""

from __future__ import annotations

import math

import pytest
import torch

from logit_correction.data.loading import DRAW_RANGE, NUM_DRAWS, CropFlip, OriginalCropFlip, resized_crop_flip
from logit_correction.data.table import ArrayStore

IMAGES = torch.randint(0, 256, (16, 3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def drawn(images: int, draws: int = NUM_DRAWS) -> torch.Tensor:
    return torch.randint(DRAW_RANGE, (images, draws), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("augment", [CropFlip(), resized_crop_flip])
def test_its_random_numbers_alone_decide(augment: CropFlip | resized_crop_flip) -> None:
    draws = drawn(16)
    first = augment(IMAGES, draws)
    assert torch.equal(first, torch.cat([augment(IMAGES[i : i + 1], draws[i : i + 1]) for i in range(16)]))
    assert first.shape == IMAGES.shape and first.dtype == torch.uint8
    same = IMAGES[:1].expand(20, -1, -1, -1)
    assert len({image.numpy().tobytes() for image in augment(same, drawn(20))}) > 10


def test_crop_flip_is_a_shift_and_a_mirror() -> None:
    """Every result is one of the windows of the padded image, mirrored or not."""
    image, padding = IMAGES[1], CropFlip().padding
    padded = torch.nn.functional.pad(image, (padding,) * 4)
    places = range(2 * padding + 1)
    windows = {}
    for top in places:
        for left in places:
            window = padded[:, top : top + 12, left : left + 10]
            windows[window.numpy().tobytes()] = (top, left, False)
            windows[window.flip(2).numpy().tobytes()] = (top, left, True)
    changed = CropFlip()(image.expand(2000, -1, -1, -1), drawn(2000))
    found = [windows[one.contiguous().numpy().tobytes()] for one in changed]
    assert len(set(found)) == 2 * len(places) ** 2
    assert 0.45 < sum(flip for _, _, flip in found) / 2000 < 0.55
    for axis in (0, 1):
        counts = torch.bincount(torch.tensor([place[axis] for place in found])).float() / 2000
        assert counts.sub(1 / len(places)).abs().max() < 0.03


def test_resized_crop_flip_is_a_part_of_the_image() -> None:
    """Of a slope the result is a slope: as steep as the part is long."""
    ramp = torch.linspace(0, 255, 101).round().to(torch.uint8).expand(101, 101)
    changed = resized_crop_flip(torch.stack([ramp, ramp.T]).expand(500, -1, -1, -1), drawn(500)).float()
    across = (changed[:, 0, :, -2] - changed[:, 0, :, 1]).mean(1) / 250
    down = (changed[:, 1, -2] - changed[:, 1, 1]).mean(1) / 250
    area = across.abs() * down
    assert 0.45 < (across < 0).float().mean() < 0.55 and bool((down > 0).all())
    assert 0.66 < area.min() < 0.72 and 0.92 < area.max() < 1.02 and 0.8 < area.median() < 0.88
    starts = torch.minimum(changed[:, 0, 9, 0], changed[:, 0, 9, -1])
    assert starts.min() < 3 and starts.max() > 35


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
    return crop(images.expand(rows, -1, -1, -1), drawn(rows, crop.draws), index)


def reference_box(draws: list[int], height: int, width: int) -> tuple[int, int, int, int, bool]:
    """Top, left, height and width of the box, and whether it is mirrored: the published crop, try by try."""
    for attempt in range(10):
        area = height * width * (0.7 + 0.3 * draws[attempt] / DRAW_RANGE)
        shape = math.exp(math.log(4 / 3) * (2 * draws[10 + attempt] / DRAW_RANGE - 1))
        down = round(math.sqrt(area / shape))
        across = round(math.sqrt(area * shape))
        if down <= height and across <= width:
            top = draws[20] % (height - down + 1)
            left = draws[21] % (width - across + 1)
            return top, left, down, across, draws[22] % 2 == 1
    down = min(height, round(width * 4 / 3))
    across = min(width, round(height * 4 / 3))
    return (height - down) // 2, (width - across) // 2, down, across, draws[22] % 2 == 1


@pytest.mark.parametrize(("height", "width"), [(90, 120), (120, 100), (40, 200)])
def test_parts_of_originals_are_those_that_torchvision_cuts_and_resizes(height: int, width: int) -> None:
    functional = pytest.importorskip("torchvision.transforms.functional")
    photo = torch.randint(0, 256, (3, height, width), generator=torch.Generator().manual_seed(2)).to(torch.uint8)
    size = (24, 16)
    found = crop_originals(height, width, size, photo, rows=50)
    for number, draws in enumerate(drawn(50, OriginalCropFlip.draws).tolist()):
        *box, mirrored = reference_box(draws, height, width)
        expected = functional.resized_crop(photo.float(), *box, size, antialias=False)
        expected = functional.hflip(expected) if mirrored else expected
        assert (found[number].float() - expected).abs().max() <= 0.51, number  # what rounding to bytes may do


@pytest.mark.parametrize(("height", "width"), [(150, 210), (180, 90), (200, 200)])
def test_parts_of_originals_vary_as_those_of_torchvision(height: int, width: int) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    photo = torch.zeros(1, height, width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        boxes = [transforms.RandomResizedCrop.get_params(photo, (0.7, 1.0), (3 / 4, 4 / 3)) for _ in range(4000)]
    top, left, down, across = torch.tensor(boxes).float().unbind(1)
    found = crop_originals(height, width, (11, 11), rows=4000).float()
    # The slope of eleven pixels, whose middles are ten elevenths of the box apart.
    found_down = (found[:, 0, -1, 5] - found[:, 0, 0, 5]) * 1.1
    found_across = (found[:, 1, 5, -1] - found[:, 1, 5, 0]) * 1.1
    assert 0.45 < float((found_across < 0).float().mean()) < 0.55
    middle_down = found[:, 0, 5, 5]
    middle_across = found[:, 1, 5, 5]
    for values, expected in (
        (found_down, down),
        (found_across.abs(), across),
        (middle_down, top + down / 2),
        (middle_across, left + across / 2),
    ):
        assert abs(float(values.mean() - expected.mean())) < 1.5
        assert abs(float(values.std() - expected.std())) < 1.0


def test_a_part_of_a_photo_stretched_to_a_square_has_the_proportions_of_the_original() -> None:
    """Twice as wide as high: torchvision takes the whole height and 4/3 of it across, half of the width or more."""
    square = torch.arange(224, dtype=torch.uint8).expand(2, 224, 224)
    images = torch.stack([square[0].T, square[1]])
    found = crop_originals(100, 200, (20, 20), images).float()
    down = (found[:, 0, -1, 10] - found[:, 0, 0, 10]) / 224 * 20 / 19 * 100
    across = (found[:, 1, 10, -1] - found[:, 1, 10, 0]).abs() / 224 * 20 / 19 * 200
    shape = across / down
    assert float(shape.min()) > 1.30 and float(shape.max()) < 1.37
    stretched = resized_crop_flip(images.expand(400, -1, -1, -1), drawn(400)).float()
    down = (stretched[:, 0, -1, 112] - stretched[:, 0, 0, 112]) * 100
    across = (stretched[:, 1, 112, -1] - stretched[:, 1, 112, 0]).abs() * 200
    assert float((across / down).max()) > 2
