"""Batches of a split: fetched by index from resident tensors, or read ahead from a file; and changes of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from logit_correction.data.table import ArrayStore, DataTable, InputStore
from logit_correction.errors import InputError
from logit_correction.seeds import make_generator
from logit_correction.types import Batch, Inputs

AugmentationName = Literal["none", "crop-flip", "resized-crop-flip"]

#: Random whole numbers that an augmentation gets for each image unless it says how many: 0..``DRAW_RANGE`` - 1.
NUM_DRAWS, DRAW_RANGE = 5, 2**62

#: Of a resized crop: the least share of the area, and the greatest ratio of its sides.
SMALLEST_PART = 0.7
WIDEST = 4 / 3


def build_augmentation(name: AugmentationName) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the augmentation of a published recipe; none for ``none``."""
    if name == "none":
        return None
    return CropFlip() if name == "crop-flip" else resized_crop_flip


@dataclass(frozen=True)
class CropFlip:
    """Shift by up to ``padding`` pixels into a black border, and mirror half of the time.

    As published for CIFAR-10 and BiasedFFHQ.
    """

    padding: int = 4
    mirror: bool = True

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        count, channels, height, width = images.shape
        places = 2 * self.padding + 1
        device = images.device
        top, left = (draws[:, :2] % places).unbind(1)
        flip = (draws[:, 2] % 2).bool()[:, None] & self.mirror
        rows = torch.arange(height, device=device) + top[:, None]
        across = torch.arange(width, device=device)
        columns = torch.where(flip, width - 1 - across, across) + left[:, None]
        padded = torch.nn.functional.pad(images, (self.padding,) * 4)
        flat = (rows[:, :, None] * (width + 2 * self.padding) + columns[:, None, :]).reshape(count, 1, -1)
        return padded.flatten(2).gather(2, flat.expand(-1, channels, -1)).reshape(images.shape)


def resized_crop_flip(images: Tensor, draws: Tensor) -> Tensor:
    """Take 70 to 100 % of each image, resized to the whole, and mirror half of the time.

    As published for Waterbirds, but for what it is a part of: here of the resized image, see ``OriginalCropFlip``;
    width is to height as 3 to 4 at least and 4 to 3 at most.
    """
    area, shape, top, left = (draws[:, :4].float() / DRAW_RANGE).unbind(1)
    area, shape = SMALLEST_PART + (1 - SMALLEST_PART) * area, (math.log(WIDEST) * (2 * shape - 1)).exp()
    down, across = (area / shape).sqrt().clamp(max=1), (area * shape).sqrt().clamp(max=1)
    middle = (1 - down) * (2 * top - 1), (1 - across) * (2 * left - 1)
    return _resample(images, middle, (down, across), draws[:, 4] % 2 == 1, images.shape[2:])


class OriginalCropFlip(nn.Module):
    """Take 70 to 100 % of each original photo, resized to ``size``, and mirror half of the time.

    As published for Waterbirds, which is torchvision's RandomResizedCrop: the part is a box of whole pixels of the
    original, whose width is to its height as 3 to 4 at least and 4 to 3 at most. Ten boxes are drawn and the first that
    fits into the original is taken; where none does, the middle. So the proportions of what is shown vary by no more
    than that, whatever the photo's own are, while a part of a stretched photo varies around the stretched ones.

    The pixels come from ``store``, photos stretched to one size. A box that fits is at least 0.7 of the original high
    and wide, so that a store of 10/7 of ``size`` is never enlarged. With 12/7 (384 pixels for 224), parts of two photos
    differed from Pillow's own by 1.3 and 0.6 of 255 levels on average, with 8/7 by 2.4 and 1.1.

    Attributes:
        draws: Random whole numbers that it gets for each image.
    """

    TRIES = 10
    draws = 2 * TRIES + 3
    originals: Tensor

    def __init__(self, store: InputStore, originals: Tensor, size: tuple[int, int]) -> None:
        """Keep what boxes are drawn in.

        Args:
            store: Stretched photos of all rows of the table, unsigned bytes.
            originals: (M, 2) long, height and width of each row's original.
            size: Height and width of the result.
        """
        super().__init__()
        self.store = store
        self.size = size
        self.register_buffer("originals", originals)

    def forward(self, images: Tensor, draws: Tensor, rows: Tensor) -> Tensor:
        """Return parts (B, C, *size) of ``images`` (B, C, H, W), those of ``rows`` (B,) in the store."""
        original = self.originals[rows.to(images.device)]
        # Each (B, 1), so that it goes with every try.
        height, width = original.split(1, dim=1)
        uniform = draws[:, : 2 * self.TRIES].float() / DRAW_RANGE
        area, shape = uniform.split(self.TRIES, dim=1)
        area = (SMALLEST_PART + (1 - SMALLEST_PART) * area) * height * width
        shape = (math.log(WIDEST) * (2 * shape - 1)).exp()
        down = (area / shape).sqrt().round().long()
        across = (area * shape).sqrt().round().long()
        fits = (down <= height) & (across <= width)
        first = fits.int().argmax(dim=1, keepdim=True)
        fits_once = fits.any(dim=1, keepdim=True)
        whole_down = torch.minimum(height, (width * WIDEST).round().long())
        whole_across = torch.minimum(width, (height * WIDEST).round().long())
        down = torch.where(fits_once, down.gather(1, first), whole_down)
        across = torch.where(fits_once, across.gather(1, first), whole_across)
        room = torch.cat([height - down, width - across], dim=1)
        corner = torch.where(fits_once, draws[:, -3:-1] % (room + 1), room // 2)
        part = torch.cat([down, across], dim=1)
        middle = ((2 * corner + part) / original - 1).unbind(1)
        return _resample(images, middle, (part / original).unbind(1), draws[:, -1] % 2 == 1, self.size)


def _resample(
    images: Tensor, middle: Sequence[Tensor], part: Sequence[Tensor], mirror: Tensor, size: Sequence[int]
) -> Tensor:
    """Return a part of each image (B, C, H, W), resized to ``size``, as unsigned bytes.

    Args:
        images: Unsigned bytes.
        middle: The part's middle (B,) down and across, where the image's edges are -1 and 1.
        part: The part's height and width (B,), those of the image being 1.
        mirror: (B,) bool.
        size: Height and width of the result.
    """
    down, across = part
    across_or_back = torch.where(mirror, -across, across)
    # Where each row and column of the result lies in the image.
    y = middle[0][:, None] + down[:, None] * _middles(size[0], images.device)
    x = middle[1][:, None] + across_or_back[:, None] * _middles(size[1], images.device)
    shape = len(images), *size
    grid = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], dim=-1)
    changed = torch.nn.functional.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return changed.round().to(torch.uint8)


def _middles(count: int, device: torch.device) -> Tensor:
    """Return where the middles of so many pixels in a row lie between -1 and 1."""
    return (2 * torch.arange(count, device=device) + 1) / count - 1


def compute_evaluation_batch_size(store: InputStore) -> int:
    """Return how many rows to evaluate at a time: at most 1,000, and 64 MiB of inputs."""
    return max(1, min(1000, 64 * 2**20 // max(1, store.row_bytes)))


class BatchLoader:
    """Yields batches of one split on one device.

    The order of an epoch depends on the seed and the epoch alone, so a resumed run sees the batches that an
    uninterrupted one would have seen, and any epoch can be entered in the middle. So does what an augmentation draws
    at each place of the order.

    Inputs lie on the device if they fit there; others are read ahead. Only a split that is shuffled is augmented.
    """

    def __init__(
        self,
        table: DataTable,
        split: str,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = False,
        sample_weight: Tensor | None = None,
        drop_last: bool = False,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Prepare the split.

        ``batch_size`` counts the rows of all processes together, by default as many as suit an evaluation; process
        ``rank`` of ``world_size`` gets its share of every batch. ``sample_weight`` is that of ``Stage``. With
        ``drop_last`` an epoch leaves out the rows that do not fill a batch, other rows in each epoch; an epoch of fewer
        rows than a batch keeps them.
        """
        batch_size = compute_evaluation_batch_size(table.inputs) if batch_size is None else batch_size
        rows, store = table.split[split], table.inputs
        self.device, self.rank, self.world_size = torch.device(device), rank, world_size
        self.seed, self.shuffle, self.batch_size = seed, shuffle, batch_size
        self.augment = table.augment if shuffle else None
        if isinstance(self.augment, OriginalCropFlip):
            self.augment = self.augment.to(self.device)
            store = self.augment.store
        #: Inputs that are indexed on the device, or those that are read beside it.
        self.beside = isinstance(store, ArrayStore) and not store.fits(self.device)
        self.store = store if self.beside else store.to(self.device)
        self.factor = store.scale / 255
        self.rows, self.label = rows.to(device), table.label[rows].to(device)
        self.num_rows = total = len(rows)
        self.sample_weight = None
        if sample_weight is not None:
            weight = sample_weight.detach().cpu()
            self.sample_weight = weight.double() if weight.is_floating_point() else weight.long()
            total = total if weight.is_floating_point() else int(weight.sum())
        if drop_last and total > batch_size:
            total -= total % batch_size
        self.steps = math.ceil(total / batch_size)
        left_over = total % batch_size
        least = min(2, batch_size // world_size) * world_size
        if (shuffle or world_size > 1) and 0 < left_over < least and self.steps > 1:
            # Rows left over join the batch before them: batch normalisation cannot do with one row, no process with
            # none, and alone they would weigh as much as a whole batch.
            self.steps -= 1
        #: Rows of an epoch; at least one, and where it can be two, for each process.
        self.total = max(total, min(2 * world_size, batch_size)) if world_size > 1 else total

    def __len__(self) -> int:
        return self.steps

    def epoch(self, epoch: int = 0, first_step: int = 0) -> Iterator[Batch]:
        """Yield the batches of ``epoch`` from ``first_step`` on."""
        order = self._order(epoch)
        places = [self._share(*self._batch(step, len(order))) for step in range(self.steps)]
        draws = None
        if self.augment is not None:  # once an epoch and for all processes: by the place in the order
            generator = make_generator(self.seed, "augment", epoch)
            numbers = getattr(self.augment, "draws", NUM_DRAWS)
            draws = torch.randint(DRAW_RANGE, (len(order), numbers), generator=generator).to(self.device)
        if self.world_size > 1:
            order = torch.cat([order[start:end] for start, end in places])
        order = order.to(self.device)
        # All but the inputs is gathered and cut up once an epoch, which takes a fraction of doing so in each step.
        sizes = [end - start for start, end in places]
        rows = self.rows.index_select(0, order)
        parts = (rows.cpu() if self.beside else rows).split(sizes)
        labels, indices = self.label.index_select(0, order).split(sizes), order.split(sizes)
        for step, inputs in enumerate(self._read(parts[first_step:]), first_step):
            if isinstance(inputs, Tensor):
                inputs = inputs.to(self.device)
                if self.augment is not None and draws is not None:
                    drawn = draws[slice(*places[step])]
                    if isinstance(self.augment, OriginalCropFlip):
                        inputs = self.augment(inputs, drawn, parts[step])
                    else:
                        inputs = self.augment(inputs, drawn)
                inputs = inputs.float().mul_(self.factor) if inputs.dtype == torch.uint8 else inputs
            yield Batch(inputs, labels[step], indices[step])

    def _read(self, parts: Sequence[Tensor]) -> Iterator[Inputs]:
        """Yield the inputs of parts of the rows; what lies beside the device is read while its user works."""
        if not self.beside:
            yield from map(self._inputs, parts)
            return
        with ThreadPoolExecutor(1) as reader:
            ahead = [reader.submit(self._inputs, rows) for rows in parts[:1]]
            for rows in parts[1:]:
                ahead.append(reader.submit(self._inputs, rows))
                yield ahead.pop(0).result()
            yield from (read.result() for read in ahead)

    def _inputs(self, rows: Tensor) -> Inputs:
        """Return the inputs of rows, as unsigned bytes where they are augmented, or moved to the device."""
        if self.augment is None and not (self.beside and self.store.holds_bytes):
            return self.store.fetch(rows)
        images = self.store.images(rows)
        if images is None:
            raise InputError("only images can be augmented: take augment none")
        return images

    def _batch(self, step: int, total: int) -> tuple[int, int]:
        """Return where the batch of all processes begins in the order, and where it ends."""
        return step * self.batch_size, total if step == self.steps - 1 else (step + 1) * self.batch_size

    def _share(self, start: int, end: int) -> tuple[int, int]:
        """Return where this process's part of a batch begins and ends; parts differ by a row at most."""
        rows = end - start
        return start + rows * self.rank // self.world_size, start + rows * (self.rank + 1) // self.world_size

    def weight(self, step: int) -> float:
        """Return how much this process's mean over its part of a batch counts, 1 where all parts have as many rows."""
        start, end = self._batch(step, self.total)
        own = self._share(start, end)
        return (own[1] - own[0]) * self.world_size / (end - start)

    def _order(self, epoch: int) -> Tensor:
        generator = make_generator(self.seed, "order", epoch)
        index = torch.arange(self.num_rows)
        if self.sample_weight is None:
            order = torch.randperm(self.num_rows, generator=generator) if self.shuffle else index
        elif self.sample_weight.is_floating_point():
            order = torch.multinomial(self.sample_weight, self.num_rows, replacement=True, generator=generator)
        else:
            repeated = index.repeat_interleave(self.sample_weight)
            order = repeated[torch.randperm(len(repeated), generator=generator)]
        if len(order) < self.total:
            order = order.repeat(math.ceil(self.total / len(order)))
        return order[: self.total]
