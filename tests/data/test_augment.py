"""Augmentations: drawn from the seed alone, one by one as in batches."""

from __future__ import annotations

import pytest
import torch

from logit_correction.data.augment import DRAW_RANGE, Augmentation, CropFlip, ResizedCropFlip

ROWS = torch.zeros(0, dtype=torch.long)  # these augmentations change any row alike
IMAGES = torch.randint(0, 256, (16, 3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def draw_augmentation_numbers(images: int, draws: int = Augmentation.num_draws) -> torch.Tensor:
    return torch.randint(DRAW_RANGE, (images, draws), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("augment", [CropFlip(), ResizedCropFlip()])
def test_augmentation_depends_on_its_random_numbers_only(augment: Augmentation) -> None:
    draws = draw_augmentation_numbers(16)
    first = augment(IMAGES, draws, ROWS)
    assert torch.equal(first, torch.cat([augment(IMAGES[i : i + 1], draws[i : i + 1], ROWS) for i in range(16)]))
    assert first.shape == IMAGES.shape and first.dtype == torch.uint8
    same = IMAGES[:1].expand(20, -1, -1, -1)
    assert len({image.numpy().tobytes() for image in augment(same, draw_augmentation_numbers(20), ROWS)}) > 10


def test_crop_flip_returns_each_mirrored_or_shifted_window_equally_often() -> None:
    """Every result is one of the windows of the padded image, mirrored or not."""
    image = IMAGES[1]
    padding = CropFlip().padding
    padded = torch.nn.functional.pad(image, (padding,) * 4)
    places = range(2 * padding + 1)
    windows = {}
    for top in places:
        for left in places:
            window = padded[:, top : top + 12, left : left + 10]
            windows[window.numpy().tobytes()] = (top, left, False)
            windows[window.flip(2).numpy().tobytes()] = (top, left, True)
    changed = CropFlip()(image.expand(2000, -1, -1, -1), draw_augmentation_numbers(2000), ROWS)
    placements = [windows[window_image.contiguous().numpy().tobytes()] for window_image in changed]
    assert len(set(placements)) == 2 * len(places) ** 2
    assert 0.45 < sum(flip for _, _, flip in placements) / 2000 < 0.55
    for axis in (0, 1):
        counts = torch.bincount(torch.tensor([place[axis] for place in placements])).float() / 2000
        assert counts.sub(1 / len(places)).abs().max() < 0.03


def test_resized_crop_flip_returns_a_part_of_the_image() -> None:
    """Of a slope the result is a slope: as steep as the part is long."""
    ramp = torch.linspace(0, 255, 101).round().to(torch.uint8).expand(101, 101)
    changed = ResizedCropFlip()(
        torch.stack([ramp, ramp.T]).expand(500, -1, -1, -1), draw_augmentation_numbers(500), ROWS
    ).float()
    across = (changed[:, 0, :, -2] - changed[:, 0, :, 1]).mean(1) / 250
    down = (changed[:, 1, -2] - changed[:, 1, 1]).mean(1) / 250
    area = across.abs() * down
    assert 0.45 < (across < 0).float().mean() < 0.55 and bool((down > 0).all())
    assert 0.66 < area.min() < 0.72 and 0.92 < area.max() < 1.02 and 0.8 < area.median() < 0.88
    starts = torch.minimum(changed[:, 0, 9, 0], changed[:, 0, 9, -1])
    assert starts.min() < 3 and starts.max() > 35
