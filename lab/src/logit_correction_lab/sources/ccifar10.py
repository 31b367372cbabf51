"""Corrupted CIFAR-10: in training the corruption of an image predicts its class, in the test it does not."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.data.augment import AugmentationName, build_augmentation
from logit_correction.data.cache import cache_array, compute_digest, get_cache_folder
from logit_correction.data.digits import PlantedAttribute, draw_attributes
from logit_correction.data.images import ImageReader, read_image_store
from logit_correction.data.rows import RowErrors
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.errors import check_range
from logit_correction.formatting import format_option
from logit_correction.seeds import make_generator
from logit_correction.threads import count_available_cores
from logit_correction.types import Correlation
from logit_correction_lab.sources.cifar10_images import CLASSES, SIZE, ensure_cifar10, read_cifar10
from logit_correction_lab.sources.corruptions import CORRUPTIONS, RECIPE, corrupt_by_attribute
from logit_correction_lab.sources.published import (
    PublishedSource,
    draw_attributes_with_conflicts,
    get_data_folder,
    read_labels_from_file_names,
    sample_validation_split,
)


class CorruptedCIFAR10(PublishedSource):
    """CIFAR-10 with ten corruptions: 45,000 train, 5,000 valid, 10,000 test; corruptions uniform in the test."""

    title = "Corrupted CIFAR-10"
    folders = ()

    def __init__(
        self,
        minority_ratio: float = 0.005,
        severity: int = 5,
        correlation: list[list[int]] | str = "one-to-one",
        valid: str = "biased",
        augment: AugmentationName = "crop-flip",
        seed: int = 0,
        root: str | None = None,
        download: bool = True,
        published: str | None = None,
    ) -> None:
        """Choose the shortcut and the place of the files.

        Args:
            minority_ratio: Fraction of the training rows, in (0, 1], whose corruption conflicts with their class.
            severity: Level of CIFAR-10-C, 1..5; published folders that are called Severity4 hold level 5.
            correlation: one-to-one, many-to-one, many-to-many, or a table such as [[0], [1], ...].
            valid: ``biased`` validates on data as biased as training, ``balanced`` on uniform corruptions.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
            seed: Seed of the split, the attributes and the corruptions.
            root: Folder that holds ``cifar-10-batches-py`` or ``cifar10-images.tar.gz``; by default
                LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            download: Let torchvision download CIFAR-10 where it is not found.
            published: Folder of the published images, which holds 0.5pct, 1pct, ... and test; these are then read
                as they are, and of the options only ``minority_ratio`` and ``augment`` count.
        """
        self.planted = PlantedAttribute(minority_ratio, correlation, valid, len(CLASSES), list(CORRUPTIONS))
        check_range(format_option("data.severity"), severity, 1, 5)
        self.severity = severity
        self.augment = augment
        self.augmentation = build_augmentation(augment)
        self.seed = seed
        self.root = published or root
        self.download = download
        self.is_published = published is not None
        pct = f"{100 * self.planted.ratio:g}pct"
        self.files = [f"{pct}/align", f"{pct}/conflict", f"{pct}/valid", "test"]
        self.source = f"its publisher, in the share of conflicts that {format_option('data.minority_ratio')} gives"

    def ensure_raw_files(self) -> None:
        if self.is_published:
            self.find_folder()
        else:
            ensure_cifar10(get_data_folder(self.root), self.download)

    def make_reader(self) -> ImageReader:
        return ImageReader((SIZE, SIZE))

    def build(self) -> DataTable:
        """Read CIFAR-10, split off a tenth of its training part, draw the corruption of every image and corrupt it."""
        if self.is_published:
            return self._read_published()
        cifar = read_cifar10(get_data_folder(self.root), self.download)
        label = torch.from_numpy(cifar.label)
        generator = make_generator(self.seed, "corrupted-cifar10")
        split = sample_validation_split(cifar.num_train // 10, cifar.num_train, len(label), generator)
        attribute = torch.empty_like(label)
        for name, rows in split.items():
            # The published rows conflict as often as their ratio says, unlike those of Colored MNIST.
            ratio = self.planted.ratios[name]
            draw = draw_attributes_with_conflicts if ratio < 1 else draw_attributes
            attribute[rows] = draw(label[rows], self.planted.correlation, ratio, generator)
        images = self._compute_or_read_corrupted_images(cifar.images, attribute.numpy())
        metadata: dict[str, object] = {
            "source": f"{cifar.source}, corrupted here",
            **self.planted.metadata,
            "corruptions": ", ".join(self.planted.names),
            "severity": f"{self.severity} of CIFAR-10-C",
            "data seed": self.seed,
            "test": "each image once, corruption uniform",
            "augmentation": self.augment,
            "checksum of the images": compute_checksum(images)[:16],
        }
        if "Frost" in self.planted.names:
            metadata["frost"] = "computed texture in place of the photographs of CIFAR-10-C"
        return DataTable(
            inputs=ArrayStore(torch.from_numpy(images)),
            label=label,
            attribute=attribute,
            split=split,
            label_names=list(CLASSES),
            attribute_names=self.planted.names,
            correlation=self.planted.correlation,
            metadata=metadata,
            augment=self.augmentation,
        )

    def _compute_or_read_corrupted_images(
        self, images: NDArray[np.uint8], attribute: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Return the corrupted images, which are made once and kept in the cache folder."""
        import PIL
        import scipy

        names = self.planted.names
        recipe = [RECIPE, compute_checksum(images), self.severity, self.seed, *names]
        versions = [np.__version__, scipy.__version__, PIL.__version__]  # other versions may round otherwise
        digest = compute_digest([*map(str, recipe), attribute.tobytes(), *versions])
        options = (names, self.severity, self.seed, count_available_cores())
        corrupted, _ = cache_array(
            get_cache_folder() / "corrupted-cifar10" / f"{digest}.npy",
            lambda path: np.save(path, corrupt_by_attribute(images, attribute, *options)),
        )
        return corrupted

    def _read_published(self) -> DataTable:
        folder = self.find_folder()
        paths, contents = read_labels_from_file_names(folder, self.files, len(CLASSES))
        errors = RowErrors(str(folder), contents["row_names"])
        images, _ = read_image_store(paths, (SIZE, SIZE), errors)
        errors.raise_if_any(remedy="get them again")
        return DataTable(
            inputs=images,
            label_names=list(CLASSES),
            # The files number their corruptions and do not name them.
            attribute_names=[f"corruption {value}" for value in range(len(CLASSES))],
            correlation=Correlation.one_to_one(len(CLASSES)),
            metadata={"source": f"published Corrupted CIFAR-10, {self.files[0]}", "augmentation": self.augment},
            augment=self.augmentation,
            **contents,
        )


def compute_checksum(values: NDArray[Any]) -> str:
    """Return the SHA-256 of the values in C order; the file they are in does not matter."""
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()
