"""Corrupted CIFAR-10: CIFAR-10 whose classes go with corruptions in training and with none in the test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.bench import bias, published
from logit_correction.bench.cifar10_images import CLASSES, SIZE, Cifar10, ensure_cifar10, read_cifar10
from logit_correction.bench.corruptions import FAMILIES, RECIPE, check, corrupt_all
from logit_correction.correlation import Correlation
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import cache_folder, digest, verified_array
from logit_correction.data.images import image_store
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Problems
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.files import available_cores
from logit_correction.seeds import make_generator


class CorruptedCIFAR10(DataSource):
    """CIFAR-10 with ten corruptions: 45,000 train, 5,000 valid, 10,000 test; corruptions uniform in the test."""

    image_size = (SIZE, SIZE)

    def __init__(
        self,
        minority_ratio: float = 0.005,
        severity: int = 5,
        corruptions: str | list[str] = "type0",
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
            corruptions: ``type0`` or ``type1``, the published families, or a list of names.
            correlation: one-to-one, many-to-one, many-to-many, or a table such as [[0], [1], ...].
            valid: ``biased`` validates on data as biased as training, ``balanced`` on uniform corruptions.
            augment: Random changes of training images: ``none``, ``crop-flip`` or ``resized-crop-flip``.
            seed: Seed of the split, the attributes and the corruptions.
            root: Folder that holds ``cifar-10-batches-py``, ``cifar10-images.tar.gz`` or train/<class> and
                test/<class>; by default LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            download: Let torchvision download CIFAR-10 where it is not found.
            published: Folder of the published images, which holds 0.5pct, 1pct, ... and test; these are then read
                as they are, and of the options only ``minority_ratio`` and ``augment`` count.
        """
        self.minority_ratio = bias.check_ratio("minority_ratio", minority_ratio)
        self.severity = severity
        self.names = list(FAMILIES.get(corruptions, [corruptions])) if isinstance(corruptions, str) else corruptions
        for name in self.names:
            check(name, severity)
        if len(set(self.names)) < len(self.names):
            raise InputError(f"corruptions names some twice: {', '.join(self.names)}: give each once")
        self.correlation = bias.named_correlation(correlation, len(CLASSES))
        if self.correlation.num_attributes > len(self.names):
            raise InputError(
                f"the correlation names {self.correlation.num_attributes} corruptions, but there are only "
                f"{len(self.names)}: give more by --data.corruptions"
            )
        self.names = self.names[: self.correlation.num_attributes]
        self.valid_ratio = bias.valid_ratio(valid, minority_ratio)
        self.augmentation = named_augmentation(augment, SIZE)
        self.corruptions, self.valid, self.augment, self.seed = corruptions, valid, augment, seed
        self.root, self.download, self.published = root, download, published

    def ensure_files(self) -> None:
        """Look for CIFAR-10 or the published folders, and let torchvision download CIFAR-10 where it is not there."""
        if self.published is None:
            ensure_cifar10(published.data_folder(self.root), self.download)
        else:
            self._published_parts(Path(self.published))

    def build(self) -> DataTable:
        """Read CIFAR-10 and corrupt it, or read the published images."""
        if self.published is not None:
            return self._read_published(Path(self.published))
        cifar = read_cifar10(published.data_folder(self.root), self.download)
        label = torch.from_numpy(cifar.label)
        split, attribute = self._attributes(label, cifar.num_train)
        images, checksum = self._corrupted(cifar, attribute)
        return DataTable(
            inputs=ArrayStore(torch.from_numpy(images)),
            label=label,
            attribute=attribute,
            split=split,
            label_names=list(CLASSES),
            attribute_names=self.names,
            correlation=self.correlation,
            metadata=self._metadata(cifar, checksum),
            augment=self.augmentation,
        )

    def _attributes(self, label: Tensor, num_train: int) -> tuple[dict[str, Tensor], Tensor]:
        """Split off a tenth of the training part and draw the corruption of every image."""
        generator = make_generator(self.seed, "corrupted-cifar10")
        split = bias.split_off(num_train // 10, num_train, len(label), generator)
        attribute = torch.empty_like(label)
        for name, rows in split.items():
            conflicting = {"train": self.minority_ratio, "valid": self.valid_ratio, "test": 1.0}[name]
            # The published rows conflict as often as their ratio says, unlike those of Colored MNIST.
            draw = bias.draw_conflicts if conflicting < 1 else bias.draw_attributes
            attribute[rows] = draw(label[rows], self.correlation, conflicting, generator)
        return split, attribute

    def _corrupted(self, cifar: Cifar10, attribute: Tensor) -> tuple[NDArray[np.uint8], str]:
        """Return the corrupted images and their checksum, from the cache folder if they were made before."""
        import PIL
        import scipy

        chosen = attribute.numpy().astype(np.int64)
        parts = [RECIPE, cifar.checksum, self.severity, self.seed, *self.names]
        versions = [np.__version__, scipy.__version__, PIL.__version__]  # others may round otherwise here and there
        return verified_array(
            cache_folder() / "corrupted-cifar10" / f"{digest([*map(str, parts), chosen.tobytes(), *versions])}.npy",
            lambda: corrupt_all(cifar.images, chosen, self.names, self.severity, self.seed, available_cores()),
        )

    def _metadata(self, cifar: Cifar10, checksum: str) -> dict[str, object]:
        family = self.corruptions if isinstance(self.corruptions, str) else "own list"
        metadata: dict[str, object] = {
            "source": f"{cifar.source}, corrupted here",
            "minority ratio": self.minority_ratio,
            "corruptions": f"{family}: {', '.join(self.names)}",
            "severity": f"{self.severity} of CIFAR-10-C",
            "correlation": self.correlation.kind,
            "validation": self.valid,
            "data seed": self.seed,
            "test": "each image once, corruption uniform",
            "augmentation": self.augment,
            "checksum of the images": checksum[:16],
        }
        if "Frost" in self.names:
            metadata["frost"] = "computed texture in place of the photographs of CIFAR-10-C"
        return metadata

    def _published_parts(self, folder: Path) -> tuple[Path, list[str]]:
        """Return the folder of everything, and the four in it; raise ``InputError`` unless they are there."""
        pct = f"{100 * self.minority_ratio:g}pct"
        base = folder.parent if folder.name == pct and (folder / "align").is_dir() else folder
        parts = [f"{pct}/align", f"{pct}/conflict", f"{pct}/valid", "test"]
        for part in parts:
            if not (base / part).is_dir():
                raise InputError(
                    f"{base / part} does not exist: name by --data.published the folder that holds "
                    f"{' and '.join(parts)}; the number before pct is 100 times --data.minority_ratio"
                )
        return base, parts

    def _read_published(self, folder: Path) -> DataTable:
        base, parts = self._published_parts(folder)
        source = f"published Corrupted CIFAR-10, {parts[0].removesuffix('/align')}"
        read = published.read_conflict_folders(base, parts, len(CLASSES))
        problems = Problems(str(base), read.names)
        images = image_store(read.paths, (SIZE, SIZE), problems)
        problems.raise_if_any(fix="get them again")
        return DataTable(
            inputs=images,
            label=read.label,
            attribute=read.attribute,
            split=read.split,
            label_names=list(CLASSES),
            # The files number their corruptions and do not name them.
            attribute_names=[f"corruption {value}" for value in range(len(CLASSES))],
            correlation=Correlation.one_to_one(len(CLASSES)),
            metadata={"source": source, "augmentation": self.augment},
            augment=self.augmentation,
            row_names=read.names,
            ordered=False,  # aligned images come first, and names tell the attribute: files are for no view
        )
