"""Augmentations: drawn from the seed alone, one by one as in batches."""

from __future__ import annotations

import pickle

import pytest
import torch

from logit_correction.data.augment import (
    PADDING,
    BatchedAugmentation,
    CropFlip,
    ResizedCropFlip,
    mixed_seeds,
    named_augmentation,
)
from logit_correction.errors import InputError

IMAGES = torch.randint(0, 256, (16, 3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("augment", [CropFlip(), ResizedCropFlip(12, 10)])
def test_the_seed_alone_decides(augment: CropFlip | ResizedCropFlip) -> None:
    torch.manual_seed(1)
    first = augment(IMAGES[0], 7)
    torch.manual_seed(2)
    again = pickle.loads(pickle.dumps(augment))(IMAGES[0], 7)
    assert torch.equal(first, again)
    assert first.shape == IMAGES[0].shape and first.dtype == torch.uint8
    assert len({augment(IMAGES[0], seed).numpy().tobytes() for seed in range(20)}) > 10


@pytest.mark.parametrize("augment", [CropFlip(), ResizedCropFlip(12, 10)])
def test_no_other_random_numbers_are_used_up(augment: CropFlip | ResizedCropFlip) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    augment(IMAGES[0], 11)
    assert torch.equal(torch.rand(3), expected)


def test_crop_flip_is_a_shift_and_a_mirror() -> None:
    """Every result is one of the windows of the padded image, mirrored or not."""
    image = IMAGES[1]
    padded = torch.nn.functional.pad(image, (PADDING,) * 4)
    places = range(2 * PADDING + 1)
    windows = {}
    for top in places:
        for left in places:
            window = padded[:, top : top + 12, left : left + 10]
            windows[window.numpy().tobytes()] = (top, left, False)
            windows[window.flip(2).numpy().tobytes()] = (top, left, True)
    found = [windows[CropFlip()(image, seed).contiguous().numpy().tobytes()] for seed in range(2000)]
    assert len(set(found)) == 2 * len(places) ** 2
    assert 0.45 < sum(flip for _, _, flip in found) / 2000 < 0.55
    for axis in (0, 1):
        counts = torch.bincount(torch.tensor([place[axis] for place in found])).float() / 2000
        assert counts.sub(1 / len(places)).abs().max() < 0.03


def test_a_batch_is_changed_as_its_images_are() -> None:
    augment = CropFlip()
    seeds = mixed_seeds(torch.arange(16), 4)
    one_by_one = torch.stack([augment(image, int(seed)) for image, seed in zip(IMAGES, seeds, strict=True)])
    assert torch.equal(augment.batch(IMAGES, seeds), one_by_one)
    assert isinstance(augment, BatchedAugmentation) and not isinstance(ResizedCropFlip(2, 2), BatchedAugmentation)


def test_resized_crop_keeps_most_of_the_image() -> None:
    """A horizontal ramp stays a ramp whose range is a large part of the whole."""
    ramp = torch.arange(0, 250, 5, dtype=torch.uint8).expand(3, 50, 50)
    augment = ResizedCropFlip(50, 50)
    spans, rising = [], 0
    for seed in range(200):
        row = augment(ramp, seed)[0, 25].int()
        steps = row.diff()
        assert bool((steps >= 0).all()) or bool((steps <= 0).all())
        rising += int(row[-1] > row[0])
        spans.append(abs(int(row[-1] - row[0])) / 245)
    # Area 0.7 .. 1 and width to height 3:4 .. 4:3: the width is at least sqrt(0.7 * 3 / 4) of the whole.
    assert min(spans) > 0.68 and max(spans) > 0.97
    assert 70 < rising < 130


def test_names() -> None:
    assert named_augmentation("none", 32) is None
    assert named_augmentation("crop-flip", 32) == CropFlip()
    assert named_augmentation("resized-crop-flip", (8, 9)) == ResizedCropFlip(8, 9)
    with pytest.raises(InputError, match="augmentation 'flip' is unknown"):
        named_augmentation("flip", 32)  # type: ignore[arg-type]


def splitmix(state: int) -> int:
    """The finalizer of SplitMix64 in Python's unbounded numbers."""
    mask = (1 << 64) - 1
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)


def test_mixing_is_that_of_splitmix() -> None:
    for seed in (0, 1, 2**62 + 12345, 2**63 - 1):
        state = seed
        for part in (5, 0):
            state = splitmix((state + 0x9E3779B97F4A7C15 * (part + 1)) & ((1 << 64) - 1))
        assert int(mixed_seeds(torch.tensor([seed]), 5)[0]) == state >> 1


def test_mixed_seeds_are_spread_evenly() -> None:
    seeds = mixed_seeds(torch.arange(4000), 1)
    assert len(set(seeds.tolist())) == 4000 and bool((seeds >= 0).all())
    counts = torch.bincount(seeds % 10, minlength=10).float() / 4000
    assert counts.sub(0.1).abs().max() < 0.025
