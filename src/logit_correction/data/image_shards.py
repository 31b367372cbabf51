"""ImageShards: a user's own images in tar files, as WebDataset writes them, more than a disk may hold twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from logit_correction.config import listed
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.image_io import Fit, faults_of, format_resizing, read_image
from logit_correction.data.problems import OnBadRows, Problems
from logit_correction.data.records import Records, build_table
from logit_correction.data.row_names import LazyNames
from logit_correction.data.shards import read_index, shard_files
from logit_correction.data.splits import Splitting
from logit_correction.data.stores import StreamedImages
from logit_correction.data.table import SPLITS, DataSource, DataTable
from logit_correction.data.tabular_io import texts_of
from logit_correction.errors import InputError, TrainingError, check_range
from logit_correction.threads import in_threads


class ImageShards(DataSource):
    """Your own images in tar files, as WebDataset writes them: ``NAME.jpg`` beside ``NAME.cls`` or ``NAME.json``."""

    def __init__(
        self,
        train: str | list[str],
        valid: str | list[str] | None = None,
        test: str | list[str] | None = None,
        label: str = "cls",
        attribute: str | list[str] | None = None,
        size: int = 224,
        fit: Fit = "crop",
        augment: AugmentationName = "none",
        valid_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
        on_bad_rows: OnBadRows = "error",
    ) -> None:
        """Name the shards and how images are read.

        Args:
            train: Tar files without compression, on a disk or on storage that is mounted: ``train-{000..099}.tar``,
                ``train-*.tar``, or several such.
            valid: Those of validation; without them a part of the training rows is drawn, label by label.
            test: Those of the test; likewise.
            label: ``cls`` for what stands in ``NAME.cls``, else the name of an entry of ``NAME.json``.
            attribute: Entries of ``NAME.json`` that are attributes; several make one attribute of their combinations.
            size: Height and width that images are resized to.
            fit: ``crop`` keeps the proportions and takes the middle, ``stretch`` changes the proportions.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            valid_fraction: Fraction of each label's rows for validation, where no shards are.
            test_fraction: Fraction of each label's rows for the test, where no shards are.
            seed: Seed of the split, apart from the run's.
            on_bad_rows: ``error`` names the bad rows and stops, ``skip`` names them and leaves them out.
        """
        check_range("--data.size", size, 1)
        self.shards = {split: listed(one) for split, one in zip(SPLITS, (train, valid, test), strict=True) if one}
        self.label, self.size, self.fit, self.on_bad_rows = label, size, fit, on_bad_rows
        self.attributes = listed(attribute)
        self.image_size = (size, size)
        self.splitting = Splitting(valid_fraction, test_fraction, seed)
        self.augment = named_augmentation(augment, size)

    def ensure_files(self) -> None:
        """Return if all shards are there."""
        self._files()

    def build(self) -> DataTable:
        """Read what lies where in the shards, or what was kept of it; images are read when a batch asks for them."""
        files, splits = self._files()
        read = partial(read_index, label=self.label, others=self.attributes, size=(self.size, self.size))
        frames = list(in_threads(read, files, "reading what lies where in shards"))
        shard = np.repeat(np.arange(len(files), dtype=np.int32), [len(frame) for frame in frames])
        frame = pd.concat(frames, ignore_index=True)
        if not len(frame):
            raise InputError(f"{files[0]} and the other shards hold no samples")
        place = f"{files[0]}" if len(files) == 1 else f"{len(files):,} shards from {files[0]} on"
        names = LazyNames(partial(_sample_name, files, shard, frame["name"].array), range(len(frame)))
        problems = Problems(place, names)
        for row in np.flatnonzero(frame["fault"].notna()).tolist():
            problems.add(row, str(frame["fault"].iloc[row]))
        raw = Records(
            problems,
            label=texts_of(frame, self.label),
            split=[splits[one] for one in shard.tolist()] if len(self.shards) > 1 else None,
            attributes={name: texts_of(frame, name) for name in self.attributes},
            keys=pd.util.hash_pandas_object(frame[["name"]].assign(shard=shard), index=False),
            row_names=names,
            metadata={
                "source": f"{len(files):,} tar files, the first of them {files[0].name}",
                "images": format_resizing((self.size, self.size), self.fit),
            },
        )
        offset, length = (frame[name].to_numpy(np.int64) for name in ("offset", "length"))
        store = ShardedImages(files, shard, offset, length, (self.size, self.size), self.fit)
        return build_table(raw, lambda: store, self.splitting, self.on_bad_rows, self.augment)

    def _files(self) -> tuple[list[Path], list[str]]:
        """Return all shards, and the split of each."""
        found = {name: shard_files(one, f"--data.{name}") for name, one in self.shards.items()}
        files = [file for part in found.values() for file in part]
        if len(set(files)) < len(files):
            twice = next(file for file in files if files.count(file) > 1)
            raise InputError(f"{twice} is named more than once: give each shard once, to one split")
        return files, [name for name, part in found.items() for _ in part]


def _sample_name(
    files: Sequence[Path], shard: NDArray[np.int32], names: pd.api.extensions.ExtensionArray, row: int
) -> str:
    """Return what a sample is called, ``train-000.tar/NAME``."""
    return f"{files[shard[row]].name}/{names[row]}"


class ShardedImages(StreamedImages):
    """Images in tar files, each read and decoded when a batch asks for it."""

    def __init__(
        self,
        files: Sequence[Path],
        shard: NDArray[np.int32],
        offset: NDArray[np.int64],
        length: NDArray[np.int64],
        size: tuple[int, int],
        fit: Fit,
    ) -> None:
        """Keep where the images lie: (M,) the shard, the first byte, and the number of bytes of each."""
        self.files, self.shard, self.offset, self.length, self.size, self.fit = files, shard, offset, length, size, fit
        self.place = f"read from {len(files):,} shards, {int(length.sum()) / 2**30:.2f} GiB of images"

    def __len__(self) -> int:
        return len(self.shard)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return (3, *self.size)

    def images(self, rows: Tensor) -> Tensor:
        """Read and decode ``rows``, on the CPU, by threads unless processes read ahead.

        Raises:
            TrainingError: Names shard and place of an image that cannot be read any more.
        """
        chosen = rows.cpu().numpy()
        images = torch.zeros((len(chosen), 3, *self.size), dtype=torch.uint8)
        values = images.numpy()

        def read(place: int) -> None:
            row = chosen[place]
            with self.files[self.shard[row]].open("rb", buffering=0) as file:
                file.seek(self.offset[row])
                values[place] = read_image(BytesIO(file.read(int(self.length[row]))), self.size, self.fit)

        names = [f"{self.files[self.shard[row]]}: the image at byte {self.offset[row]}" for row in chosen]
        faults = faults_of(read, names, threads=None if get_worker_info() is None else 1)
        if faults:
            raise TrainingError(f"{faults[0][1]}, but could be when training began: copy the shard again")
        return images
