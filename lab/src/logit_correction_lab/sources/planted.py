"""Small ordinary data sets with a shortcut of a known kind, the same without it, and plain ones.

Whether an audit finds shortcuts, and only shortcuts, can be measured only where they are known. So a mark is planted
into rows in agreement with their labels, or, in the control of the same set, at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data import digits
from logit_correction.data.features import ColumnReader
from logit_correction.data.images import ImageReader
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.source import DataSource
from logit_correction.data.splits import make_consecutive_splits
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader, shorten_text
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import format_option, suggest_name
from logit_correction.seeds import derive_seed, make_generator
from logit_correction.types import UNKNOWN_ATTRIBUTE, Array, Correlation
from logit_correction.yaml_files import read_yaml_file
from logit_correction_lab.sources import colored_mnist, image_marks, reviews
from logit_correction_lab.sources.cifar10_images import CLASSES, SIZE, ensure_cifar10, read_cifar10
from logit_correction_lab.sources.published import (
    build_table_by_reader,
    draw_attributes_with_conflicts,
    get_data_folder,
)

#: Rows of the test where all rows are generated.
NUM_TEST = 2_000

#: Share of the training and validation rows that are for validation.
VALID_SHARE = 0.2

#: Share of all examples that are for the test, where the data have no test part of their own.
TEST_SHARE = 0.25

DIGITS = tuple("0123456789")


class Kind(NamedTuple):
    """What sets of a kind share.

    Attributes:
        labels: Names of the labels.
        rows: Training and validation rows; None takes all that the test leaves.
        known_labels: Names that ``labels`` may be replaced by.
        side: Height and width of images in pixels; None for other data.
    """

    labels: tuple[str, ...]
    rows: int | None = None
    known_labels: tuple[str, ...] = ()
    side: int | None = None


KINDS = {
    "photos": Kind(("bird", "cat", "ship", "truck"), 2_800, CLASSES, SIZE),
    "digits": Kind(DIGITS, None, DIGITS, 8),
    "mnist": Kind(DIGITS, 6_000, DIGITS, 28),
    "texts": Kind(("negative", "positive"), 3_000),
    "people": Kind(("low income", "high income"), 4_000),
    "cancer": Kind(("malignant", "benign")),
    "wine": Kind(("grower 1", "grower 2", "grower 3")),
}


class PlantedSet(NamedTuple):
    """A set: its kind, and the mark that is planted; None plants nothing."""

    kind: str
    mark: str | None = None


#: Name -> a set with a mark, or the plain one of its kind.
SETS: dict[str, PlantedSet] = {
    **{mark: PlantedSet("photos", mark) for mark in image_marks.MARKS},
    "digits": PlantedSet("digits", "colour"),
    "mnist": PlantedSet("mnist", "colour"),
    "signature": PlantedSet("texts", "signature"),
    "topic": PlantedSet("texts", "topic"),
    "column": PlantedSet("people", "form_version"),
    "scanner": PlantedSet("cancer", "scanner_kv"),  # a mark that is hardly needed
    "photos": PlantedSet("photos"),
    "plain-digits": PlantedSet("digits"),
    "plain-mnist": PlantedSet("mnist"),
    "plain-texts": PlantedSet("texts"),
    "plain-table": PlantedSet("people"),
    "breast-cancer": PlantedSet("cancer"),
    "wine": PlantedSet("wine"),
}

#: Mark -> names of its values, in the order of the labels that they belong to; values of other marks are numbered.
VALUES: dict[str, Sequence[str]] = {
    "corner": image_marks.PLACES,
    "colour": list(digits.COLORS),
    "form_version": ["2019-A", "2021-C"],
    "scanner_kv": ["80 kV", "120 kV"],
    "signature": reviews.SIGNATURES,
    "topic": list(reviews.TOPICS),
}


class DrawnRows(NamedTuple):
    """M rows of all splits.

    Attributes:
        example: (M,) the example that each row shows.
        label: (M,) long, 0..L-1.
        attribute: (M,) long, the value of its mark, 0..K-1; -1 where nothing is planted.
        split: Rows of train, valid and test.
    """

    example: Tensor
    label: Tensor
    attribute: Tensor
    split: dict[str, Tensor]


class Planted(DataSource):
    """Small data sets with a planted shortcut, with the same marks at random, or with nothing planted.

    The attribute of a row is the value of its mark. The test is balanced: every pair of label and mark is equally
    frequent. Validation is like training. Nothing planted: attributes are unknown, and the test is like training.
    """

    def __init__(
        self,
        set: str = "cast",
        control: bool = False,
        minority_ratio: float = 0.05,
        rows: int | None = None,
        labels: str | None = None,
        seed: int = 0,
        root: str | None = None,
        download: bool = True,
    ) -> None:
        """Choose the set.

        Args:
            set: Name of the set, such as cast, digits, topic or column.
            control: Draw the marks at random, so that they are independent of the label.
            minority_ratio: Fraction of the rows of each label, in (0, 1], whose mark is that of another label.
            rows: Training and validation rows together, four to one; the set's own number by default.
            labels: Labels with commas between, in order, such as ``cat,dog`` or ``3,8``.
            seed: Seed of the rows, the split, the marks and all that is generated.
            root: Folder of CIFAR-10 or MNIST, as for CorruptedCIFAR10 and ColoredMNIST; by default
                LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            download: Let torchvision download CIFAR-10 or MNIST where it is not found.

        Raises:
            InputError: The set is unknown, or an option does not fit it.
        """
        if set not in SETS:
            raise InputError(f"set {set!r} is unknown{suggest_name(set, SETS)}: take one of {', '.join(SETS)}")
        self.name = set
        self.kind, self.mark = SETS[set]
        kind = KINDS[self.kind]
        self.labels = list(kind.labels)
        if labels is not None:
            known = kind.known_labels or kind.labels
            self.labels = [label.strip() for label in labels.split(",")]
            if len({*self.labels} & {*known}) < max(len(self.labels), 2):
                raise InputError(f"labels is {labels!r}: name two or more of {', '.join(known)}, each once")
        if control and self.mark is None:
            raise InputError(
                f"nothing is planted in {set}, so it has no control: leave {format_option('data.control')} out"
            )
        if not 0 < minority_ratio <= 1:
            raise InputError(f"minority_ratio is {minority_ratio}, but must lie in (0, 1]: a fraction")
        self.control = control
        self.minority_ratio = float(minority_ratio)
        self.seed = seed
        self.root = get_data_folder(root)
        self.download = download
        if kind.side is not None:
            self.reader = ImageReader((kind.side, kind.side))
        self.rows = kind.rows if rows is None else rows
        if self.rows is not None:
            check_range("rows", self.rows, 10 * len(self.labels))
        self.marks: list[str] = []
        if self.mark is not None:
            numbered = [f"{self.mark} {number}" for number in range(len(self.labels))]
            self.marks = list(VALUES.get(self.mark, numbered))[: len(self.labels)]

    def ensure_raw_files(self) -> None:
        if self.kind == "photos":
            ensure_cifar10(self.root, self.download)
        elif self.kind == "mnist":
            colored_mnist.read_mnist(self.root, self.download)

    def build(self) -> DataTable:
        """Draw the rows and plant the marks."""
        if self.kind == "photos":
            return self._build_photos()
        if self.kind in ("digits", "mnist"):
            return self._build_digits()
        return self._build_texts() if self.kind == "texts" else self._build_columns()

    def _build_photos(self) -> DataTable:
        cifar = read_cifar10(self.root, self.download)
        label = _encode_by_position(torch.from_numpy(cifar.label), [CLASSES.index(name) for name in self.labels])
        drawn = self._sample_rows(label, torch.arange(len(label)) >= cifar.num_train)
        images = cifar.images[drawn.example.numpy()]
        if self.mark is not None:
            values = drawn.attribute.numpy()
            planted = image_marks.plant_mark(
                images.astype(np.float32), self.mark, values, len(self.marks), self._make_random_generator("look")
            )
            images = np.rint(planted).clip(0, 255).astype(np.uint8)
        return DataTable(inputs=ArrayStore(torch.from_numpy(images)), **self._build_table_fields(drawn, cifar.source))

    def _build_digits(self) -> DataTable:
        if self.kind == "digits":
            glyph, digit = digits.load_small_digits()
            source = "scikit-learn's bundled handwritten digits (8x8)"
            is_test = None
        else:
            glyph, digit = colored_mnist.read_mnist(self.root, self.download)
            source = "MNIST"
            is_test = torch.arange(len(digit)) >= colored_mnist.NUM_MNIST_TRAIN
        drawn = self._sample_rows(_encode_by_position(digit, [int(name) for name in self.labels]), is_test)
        color = torch.ones(len(drawn.label), 3)
        if self.marks:
            color = digits.draw_jittered_colors(drawn.attribute, 4, make_generator(self.seed, "planted", "look"))
        return DataTable(
            inputs=digits.ColoredStore(glyph, drawn.example, color), **self._build_table_fields(drawn, source)
        )

    def _build_texts(self) -> DataTable:
        drawn = self._sample_rows(*self._make_labels())
        values = drawn.attribute.tolist()
        sentiments = [self.labels[code] for code in drawn.label.tolist()]
        rng = Random(derive_seed(self.seed, "planted", "texts", "rows"))
        texts = reviews.generate_reviews(sentiments, values if self.mark == "topic" else None, rng)
        if self.mark == "signature":
            texts = [f"{text}\n{self.marks[value]}" for text, value in zip(texts, values, strict=True)]
        return build_table_by_reader(
            TextReader(),
            texts,
            RowErrors("the planted rows", []),
            row_names=[shorten_text(text, 80) for text in texts],
            **self._build_table_fields(drawn, "reviews, generated here"),
        )

    def _build_columns(self) -> DataTable:
        import pandas as pd
        from sklearn.datasets import load_breast_cancer, load_wine

        if self.kind == "people":
            source = "people, generated here"
            drawn = self._sample_rows(*self._make_labels())
            columns = sample_people_columns(drawn.label.numpy(), self._make_random_generator("rows"))
            if self.mark is not None:
                columns[self.mark] = np.array(self.marks, dtype=object)[drawn.attribute.numpy()]
        else:
            source = f"scikit-learn's {self.kind} data"
            raw = load_wine() if self.kind == "wine" else load_breast_cancer()
            drawn = self._sample_rows(torch.tensor(raw.target).long(), None)
            columns = dict(zip(map(str, raw.feature_names), raw.data[drawn.example.numpy()].T, strict=True))
            if self.mark is not None:
                kilovolts = np.array([80.0, 120.0])[drawn.attribute.numpy()]
                columns[self.mark] = (
                    kilovolts + self._make_random_generator("look").normal(0, 2, len(kilovolts))
                ).round(1)
        reader = ColumnReader(list(columns))
        rows = Rows("the planted rows", range(len(drawn.label)), pd.DataFrame(columns))
        return build_table_by_reader(
            reader, reader.validate(rows)[0], rows.errors, **self._build_table_fields(drawn, source)
        )

    def _make_random_generator(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed(self.seed, "planted", self.kind, purpose))

    def _make_labels(self) -> tuple[Tensor, Tensor]:
        """Return labels of examples that are still to be generated, and which of the examples are for the test."""
        num_labels = len(self.labels)
        num_groups = num_labels * (len(self.marks) or 1)
        num_test = max(1, NUM_TEST // num_groups) * num_groups
        num_learn = math.ceil((self.rows or 0) / num_labels) * num_labels
        example = torch.arange(num_learn + num_test)
        return example % num_labels, example >= num_learn

    def _sample_rows(self, example_label: Tensor, is_test: Tensor | None) -> DrawnRows:
        """Draw rows and their marks, label by label; sets of a kind draw in the same way, so they share most rows.

        Args:
            example_label: (P,) long, 0..L-1, of all examples; -1 for those that are left out.
            is_test: (P,) bool, which examples are for the test and not for training; None where the data lack this
                part. Then a quarter is set apart, and each of its examples is shown with every value of the mark.
        """
        generator = make_generator(self.seed, "planted", self.kind, "rows")
        num_marks = len(self.marks)
        examples = []
        for code in range(int(example_label.max()) + 1):
            rows = (example_label == code).nonzero().flatten()
            examples.append(rows[torch.randperm(len(rows), generator=generator)])
        # With a mark each label has as many test rows, and each value of the mark equally often.
        if is_test is None:
            counts = [round(TEST_SHARE * len(rows)) for rows in examples]
            if num_marks:
                counts = [min(counts)] * len(counts)
            test = [rows[:count] for rows, count in zip(examples, counts, strict=True)]
            learn = [rows[count:] for rows, count in zip(examples, counts, strict=True)]
        else:
            test = [rows[is_test[rows]] for rows in examples]
            learn = [rows[~is_test[rows]] for rows in examples]
            if num_marks:
                count = min(map(len, test)) // num_marks * num_marks
                test = [rows[:count] for rows in test]
        if self.rows is not None:
            total = sum(map(len, learn))
            if self.rows > total:
                option = format_option("data.rows")
                raise InputError(f"{option} is {self.rows:,}, but only {total:,} rows are left after the test")
            learn = [rows[: round(self.rows * len(rows) / total)] for rows in learn]
        train = [rows[round(VALID_SHARE * len(rows)) :] for rows in learn]
        valid = [rows[: round(VALID_SHARE * len(rows))] for rows in learn]
        parts = []
        for part in (train, valid, test):  # in random order, so that a row's number does not depend on its label
            rows = torch.cat(part)
            parts.append(rows[torch.randperm(len(rows), generator=generator)])
        if is_test is None:
            parts[2] = parts[2].repeat_interleave(num_marks or 1)
        example = torch.cat(parts)
        split = make_consecutive_splits(*map(len, parts))
        label = example_label[example]
        return DrawnRows(example, label, self._sample_marks(label, split), split)

    def _sample_marks(self, label: Tensor, split: dict[str, Tensor]) -> Tensor:
        attribute = torch.full_like(label, UNKNOWN_ATTRIBUTE)
        num_marks = len(self.marks)
        if not num_marks:
            return attribute
        for code in range(len(self.labels)):  # the values in turn, so that each pair with a label is equally frequent
            rows = split["test"][label[split["test"]] == code]
            attribute[rows] = torch.arange(len(rows)) % num_marks
        generator = make_generator(self.seed, "planted", self.kind, "marks")
        correlation = Correlation.one_to_one(num_marks)
        for rows in (split["train"], split["valid"]):
            if self.control:
                attribute[rows] = torch.randint(num_marks, rows.shape, generator=generator)
            else:
                attribute[rows] = draw_attributes_with_conflicts(
                    label[rows], correlation, self.minority_ratio, generator
                )
        return attribute

    def _build_table_fields(self, drawn: DrawnRows, source: str) -> dict[str, Any]:
        """Return all fields of the table but those of its inputs."""
        metadata: dict[str, object] = {"source": source, "set": self.name, "planted": "nothing"}
        if self.control:
            metadata["planted"] = f"{self.mark} at random, going with no label ({', '.join(self.marks)})"
        elif self.mark is not None:
            pairs = ", ".join(f"{label} - {mark}" for label, mark in zip(self.labels, self.marks, strict=True))
            metadata["planted"] = f"{self.mark} ({pairs})"
            metadata["minority ratio"] = self.minority_ratio
        metadata["test"] = "each pair of label and mark equally frequent" if self.marks else "like training"
        metadata["data seed"] = self.seed
        return {
            "label": drawn.label,
            "attribute": drawn.attribute,
            "split": drawn.split,
            "label_names": self.labels,
            "attribute_names": self.marks,
            "correlation": Correlation.one_to_one(len(self.marks)) if self.marks and not self.control else None,
            "metadata": metadata,
        }


def _encode_by_position(values: Tensor, codes: list[int]) -> Tensor:
    """Return the place of each value (P,) among ``codes``; -1 where it is not among them."""
    places = torch.full((int(values.max()) + 1,), -1)
    places[torch.tensor(codes)] = torch.arange(len(codes))
    return places[values]


def sample_people_columns(label: NDArray[np.int64], rng: np.random.Generator) -> dict[str, Array]:
    """Draw the columns of ``people.yaml``, and ``years_in_job``, for people of low and of high income.

    Many columns are weak features and ``capital`` is a strong one: a classifier by it alone is right in about 83 % of
    the rows, one by all in about 88 %.

    Args:
        label: (N,) 0 for low and 1 for high income.
        rng: Random numbers.
    """
    people = read_yaml_file(Path(__file__).with_name("people.yaml"))
    side = 2.0 * label - 1.0
    columns: dict[str, Array] = {}
    for name, number in people["numbers"].items():
        values = number["mean"] + number["deviation"] * (number["pull"] * side + rng.standard_normal(len(label)))
        columns[name] = values.clip(number["min"], number["max"]).round()
    # A person can have served since the age of sixteen; given the age, this is independent of the label.
    columns["years_in_job"] = ((columns["age"] - 16).clip(0) * rng.uniform(0, 0.8, len(label))).round()
    for name, shares in people["names"].items():
        ends = np.cumsum(list(shares.values()), axis=0).T[label]
        place = (rng.uniform(size=(len(label), 1)) > ends[:, :-1]).sum(1)
        columns[name] = np.array(list(shares), dtype=object)[place]
    return columns
