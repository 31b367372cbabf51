"""Planted: small ordinary data sets with a shortcut of a known kind, the same without it, and plain ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.bench import bias, colors, glyphs, published
from logit_correction.bench.cifar10_images import CLASSES, SIZE, ensure_cifar10, read_cifar10
from logit_correction.bench.planted_sets import SETS, checked_labels, image_marks, mark_names, people, reviews
from logit_correction.bench.planted_sets.rows import Rows, draw_rows, drawn_labels, even_marks
from logit_correction.correlation import Correlation
from logit_correction.data.features import Columns
from logit_correction.data.frames import row_names
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Problems
from logit_correction.data.stores import ArrayStore, ColoredStore, InputStore
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.data.texts import beginning, hashed_words
from logit_correction.errors import InputError, check_range, did_you_mean
from logit_correction.seeds import derive_seed, make_generator

#: Rows of the test where all rows are generated.
NUM_TEST = 2_000


def planted_sets() -> dict[str, str]:
    """Return the names of the sets, each with one sentence.

    >>> planted_sets()["cast"]
    'CIFAR photos; a colour cast goes with the label'
    """
    return {name: chosen.sentence for name, chosen in SETS.items()}


class Planted(DataSource):
    """Small data sets with a planted shortcut, with the same marks at random, or with nothing planted.

    The attribute of a row is the mark that it bears. The test is balanced: every pair of label and mark is equally
    frequent. Validation is like training. Nothing planted: attributes are unknown, and the test is like training.
    """

    def __init__(
        self,
        set: str = "cast",
        control: bool = False,
        minority_ratio: float = 0.05,
        rows: int | None = None,
        labels: str | None = None,
        size: int | None = None,
        seed: int = 0,
        root: str | None = None,
        download: bool = True,
    ) -> None:
        """Choose the set.

        Args:
            set: Name of the set; ``planted_sets()`` lists them.
            control: Draw the marks at random, so that they tell nothing of the label.
            minority_ratio: Fraction of the rows of each label, in (0, 1], whose mark goes with another label.
            rows: Training and validation rows together, four to one; by default as many as the set has usually.
            labels: Labels with commas between, in order: classes of CIFAR-10 (``cat,dog``), digits (``3,8``), or
                sentiments (negative, neutral, positive).
            size: Height and width of the photos.
            seed: Seed of the rows, the split, the marks and all that is generated.
            root: Folder of CIFAR-10 or MNIST, as for CorruptedCIFAR10 and ColoredMNIST; by default
                LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            download: Let torchvision download CIFAR-10 or MNIST where it is not found.

        Raises:
            InputError: If there is no such set, or it has no such option.
        """
        if set not in SETS:
            raise InputError(f"set {set!r} is unknown{did_you_mean(set, SETS)}: take one of {', '.join(SETS)}")
        self.name, self.chosen, self.control, self.seed = set, SETS[set], control, seed
        if control and self.chosen.mark is None:
            raise InputError(f"nothing is planted in {set}, so it has no control: leave --data.control out")
        self.minority_ratio = bias.check_ratio("minority_ratio", minority_ratio)
        if size is not None and (self.chosen.kind != "photos" or size < 8):
            raise InputError(f"size is {size}, but only photos can be resized, to 8 pixels or more: leave it out")
        self.size = size or SIZE
        sides = {"photos": self.size, "digits": 8, "mnist": 28}
        side = sides.get(self.chosen.kind)
        self.image_size = None if side is None else (side, side)
        self.rows = self.chosen.rows if rows is None else rows
        if self.rows is not None:
            check_range("rows", self.rows, 1)
        self.labels = checked_labels(set, self.chosen, labels, CLASSES)
        self.marks = mark_names(self.chosen, len(self.labels))
        self.root, self.download = root, download

    def ensure_files(self) -> None:
        """Look for CIFAR-10 or MNIST where the set needs it, and let torchvision download what is not there."""
        if self.chosen.kind == "photos":
            ensure_cifar10(published.data_folder(self.root), self.download)
        elif self.chosen.kind == "mnist" and not glyphs.mnist_present(published.data_folder(self.root)):
            glyphs.read_mnist(published.data_folder(self.root), self.download)

    def build(self) -> DataTable:
        """Draw the rows and plant the marks."""
        builders = {
            "photos": self._photos,
            "digits": self._digits,
            "mnist": self._digits,
            "texts": self._texts,
            "people": self._people,
            "cancer": self._measurements,
            "wine": self._measurements,
        }
        return builders[self.chosen.kind]()

    def _photos(self) -> DataTable:
        cifar = read_cifar10(published.data_folder(self.root), self.download)
        label = _numbered(torch.from_numpy(cifar.label), [CLASSES.index(name) for name in self.labels])
        rows, label, attribute = self._drawn(label, torch.arange(len(label)) >= cifar.num_train)
        images = image_marks.resized(cifar.images[rows.example.numpy()], self.size)
        if self.chosen.mark is not None:
            images = image_marks.mark_images(
                self.chosen.mark, images, attribute.numpy(), len(self.marks), self._draw("look")
            )
        return self._table(ArrayStore(torch.from_numpy(images)), label, attribute, rows.split, cifar.source)

    def _digits(self) -> DataTable:
        if self.chosen.kind == "digits":
            glyph, digit = glyphs.small_digits()
            source, test_part = "scikit-learn's bundled handwritten digits (8x8)", None
        else:
            glyph, digit = glyphs.read_mnist(published.data_folder(self.root), self.download)
            source, test_part = "MNIST", torch.arange(len(digit)) >= glyphs.NUM_TRAIN
        label = _numbered(digit, [int(name) for name in self.labels])
        rows, label, attribute = self._drawn(label, test_part)
        look = make_generator(self.seed, "planted", "look")
        color = colors.jittered_colors(attribute, 4, look) if self.marks else torch.ones(len(label), 3)
        return self._table(ColoredStore(glyph, rows.example, color), label, attribute, rows.split, source)

    def _texts(self) -> DataTable:
        example_label, test_part = drawn_labels(self.rows or 0, len(self.labels), len(self.marks) or None, NUM_TEST)
        rows, label, attribute = self._drawn(example_label, test_part)
        sentiment = [self.labels[y] for y in label.tolist()]
        topics = attribute.tolist() if self.chosen.mark == "topic" else None
        texts = reviews.write_reviews(sentiment, topics, Random(derive_seed(self.seed, "planted", "texts", "rows")))
        if self.chosen.mark == "signature":
            texts = reviews.signed(texts, attribute.tolist())
        table = self._table(hashed_words(texts), label, attribute, rows.split, "reviews, generated here")
        return replace(table, texts=texts, row_names=[beginning(text, 80) for text in texts])

    def _people(self) -> DataTable:
        example_label, test_part = drawn_labels(self.rows or 0, 2, len(self.marks) or None, NUM_TEST)
        rows, label, attribute = self._drawn(example_label, test_part)
        columns = people.draw_people(label.numpy(), self._draw("rows"))
        if self.chosen.mark is not None:
            columns["form_version"] = np.array(people.FORM_VERSIONS, dtype=object)[attribute.numpy()]
        return self._of_columns(columns, label, attribute, rows.split, "people, generated here")

    def _measurements(self) -> DataTable:
        from sklearn.datasets import load_breast_cancer, load_wine

        raw = load_wine() if self.chosen.kind == "wine" else load_breast_cancer()
        rows, label, attribute = self._drawn(torch.tensor(raw.target).long(), None)
        values = raw.data[rows.example.numpy()]
        columns = {str(name): values[:, i] for i, name in enumerate(raw.feature_names)}
        if self.chosen.mark is not None:
            kilovolts = np.array([80.0, 120.0])[attribute.numpy()]
            columns["scanner_kv"] = (kilovolts + self._draw("look").normal(0, 2, len(label))).round(1)
        return self._of_columns(columns, label, attribute, rows.split, f"scikit-learn's {self.chosen.kind} data")

    def _drawn(self, example_label: Tensor, test_part: Tensor | None) -> tuple[Rows, Tensor, Tensor]:
        """Draw rows, their labels and their marks.

        All sets of a kind draw in the same way, so that a set, its control and plain data differ little.
        """
        generator = make_generator(self.seed, "planted", self.chosen.kind, "rows")
        rows = draw_rows(example_label, test_part, self.rows, len(self.marks) or None, generator)
        label = example_label[rows.example]
        return rows, label, self._marks_of(label, rows.split)

    def _draw(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed(self.seed, "planted", self.chosen.kind, purpose))

    def _marks_of(self, label: Tensor, split: dict[str, Tensor]) -> Tensor:
        """Draw for each row the mark that it is to bear; -1 where nothing is planted."""
        attribute = torch.full_like(label, UNKNOWN)
        if not self.marks:
            return attribute
        generator = make_generator(self.seed, "planted", self.chosen.kind, "marks")
        attribute[split["test"]] = even_marks(label[split["test"]], len(self.marks))
        for rows in (split["train"], split["valid"]):
            if self.control:
                attribute[rows] = torch.randint(len(self.marks), rows.shape, generator=generator)
            else:
                correlation = Correlation.one_to_one(len(self.marks))
                attribute[rows] = bias.draw_conflicts(label[rows], correlation, self.minority_ratio, generator)
        return attribute

    def _of_columns(
        self, columns: dict[str, NDArray[Any]], label: Tensor, attribute: Tensor, split: dict[str, Tensor], source: str
    ) -> DataTable:
        import pandas as pd

        frame = pd.DataFrame(columns)
        reader = Columns(list(frame.columns))
        reader.check(frame, Problems("the planted rows", row_names(range(len(frame)))))
        store, looks = reader.fit(split["train"].numpy())
        table = self._table(store, label, attribute, split, source)
        return replace(table, **looks, preparation={"columns": reader.learnt})

    def _table(
        self, inputs: InputStore, label: Tensor, attribute: Tensor, split: dict[str, Tensor], source: str
    ) -> DataTable:
        planted = bool(self.marks) and not self.control
        return DataTable(
            inputs=inputs,
            label=label,
            attribute=attribute,
            split=split,
            label_names=self.labels,
            attribute_names=self.marks,
            # The marks of a control go with no label.
            correlation=Correlation.one_to_one(len(self.marks)) if planted else None,
            metadata=self._metadata(source),
        )

    def _metadata(self, source: str) -> dict[str, object]:
        metadata: dict[str, object] = {"source": source, "set": f"{self.name}: {self.chosen.sentence}"}
        if self.chosen.mark is None:
            return metadata | {"planted": "nothing", "test": "like training", "data seed": self.seed}
        if self.control:
            metadata["planted"] = f"{self.chosen.mark} at random, going with no label ({', '.join(self.marks)})"
        else:
            pairs = ", ".join(f"{label} - {mark}" for label, mark in zip(self.labels, self.marks, strict=True))
            metadata |= {"planted": f"{self.chosen.mark} ({pairs})", "minority ratio": self.minority_ratio}
        return metadata | {"test": "each pair of label and mark equally frequent", "data seed": self.seed}


def _numbered(values: Tensor, kept: list[int]) -> Tensor:
    """Number the values (P,) by their place among ``kept``; -1 where they are not kept."""
    places = torch.full((int(values.max()) + 1,), -1)
    places[torch.tensor(kept)] = torch.arange(len(kept))
    return places[values]
