"""Planted: small ordinary data sets with a shortcut of a known kind, the same without it, and plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data import digits
from logit_correction.data.features import ColumnReader
from logit_correction.data.images import ImageReader
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import RowErrors, Rows, make_consecutive_splits
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextReader, shorten_text
from logit_correction.errors import InputError, check_range
from logit_correction.formatting import suggest_name
from logit_correction.seeds import derive_seed, make_generator
from logit_correction.types import UNKNOWN_ATTRIBUTE, Correlation
from logit_correction_lab.sources import colored_mnist, image_marks, reviews
from logit_correction_lab.sources.cifar10_images import CLASSES, SIZE, ensure_cifar10, read_cifar10
from logit_correction_lab.sources.published import draw_attributes_with_conflicts, get_data_folder

#: Rows of the test where all rows are generated.
NUM_TEST = 2_000

#: Share of the training and validation rows that goes to validation, and of all examples that goes to the test where
#: the data have no test part of their own.
VALID_SHARE, TEST_SHARE = 0.2, 0.25

PHOTOS, DIGITS = ("bird", "cat", "ship", "truck"), tuple("0123456789")
SENTIMENTS, INCOMES, TUMOURS = ("negative", "positive"), ("low income", "high income"), ("malignant", "benign")

Kind = Literal["photos", "digits", "mnist", "texts", "people", "cancer", "wine"]


class PlantedSet(NamedTuple):
    """One set; without a ``mark`` nothing is planted, and without ``rows`` it takes all that the test leaves."""

    kind: Kind
    labels: tuple[str, ...]
    mark: str | None = None
    rows: int | None = None


#: By name: a set with a mark, or the plain one of its kind.
SETS: dict[str, PlantedSet] = {
    **{name: PlantedSet("photos", PHOTOS, name, 2_800) for name in image_marks.MARKS},
    "digits": PlantedSet("digits", DIGITS, "colour"),
    "mnist": PlantedSet("mnist", DIGITS, "colour", 6_000),
    "signature": PlantedSet("texts", SENTIMENTS, "signature", 3_000),
    "topic": PlantedSet("texts", SENTIMENTS, "topic", 3_000),
    "column": PlantedSet("people", INCOMES, "form_version", 4_000),
    "scanner": PlantedSet("cancer", TUMOURS, "scanner_kv"),  # which is hardly needed
    "photos": PlantedSet("photos", PHOTOS, rows=2_800),
    "plain-digits": PlantedSet("digits", DIGITS),
    "plain-mnist": PlantedSet("mnist", DIGITS, rows=6_000),
    "plain-texts": PlantedSet("texts", SENTIMENTS, rows=3_000),
    "plain-table": PlantedSet("people", INCOMES, rows=4_000),
    "breast-cancer": PlantedSet("cancer", TUMOURS),
    "wine": PlantedSet("wine", ("grower 1", "grower 2", "grower 3")),
}

#: Names of the values of marks, in the order of the labels that they go with; of other marks they are numbered.
VALUES: dict[str, Sequence[str]] = {
    "corner": image_marks.PLACES,
    "colour": list(digits.COLORS),
    "form_version": ["2019-A", "2021-C"],
    "scanner_kv": ["80 kV", "120 kV"],
    "signature": reviews.SIGNATURES,
    "topic": list(reviews.TOPICS),
}


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
        seed: int = 0,
        root: str | None = None,
        download: bool = True,
    ) -> None:
        """Choose the set.

        Args:
            set: Name of the set, such as cast, digits, topic or column.
            control: Draw the marks at random, so that they tell nothing of the label.
            minority_ratio: Fraction of the rows of each label, in (0, 1], whose mark is that of another label.
            rows: Training and validation rows together, four to one; by default as many as the set has usually.
            labels: Labels with commas between, in order, such as ``cat,dog`` or ``3,8``.
            seed: Seed of the rows, the split, the marks and all that is generated.
            root: Folder of CIFAR-10 or MNIST, as for CorruptedCIFAR10 and ColoredMNIST; by default
                LOGIT_CORRECTION_DATA, else ``~/.cache/logit_correction``.
            download: Let torchvision download CIFAR-10 or MNIST where it is not found.

        Raises:
            InputError: If there is no such set, or it has no such option.
        """
        if set not in SETS:
            raise InputError(f"set {set!r} is unknown{suggest_name(set, SETS)}: take one of {', '.join(SETS)}")
        self.name, self.chosen, self.control, self.seed = set, SETS[set], control, seed
        self.kind, self.mark, self.labels = self.chosen.kind, self.chosen.mark, list(self.chosen.labels)
        if labels is not None:
            known = {"photos": CLASSES, "digits": DIGITS, "mnist": DIGITS}.get(self.kind, self.labels)
            self.labels = [label.strip() for label in labels.split(",")]
            if len({*self.labels} & {*known}) < max(len(self.labels), 2):
                raise InputError(f"labels is {labels!r}: name two or more of {', '.join(known)}, each once")
        if control and self.mark is None:
            raise InputError(f"nothing is planted in {set}, so it has no control: leave --data.control out")
        if not 0 < minority_ratio <= 1:
            raise InputError(f"minority_ratio is {minority_ratio}, but must lie in (0, 1]: a fraction")
        self.minority_ratio = float(minority_ratio)
        side = {"photos": SIZE, "digits": 8, "mnist": 28}.get(self.kind)
        if side is not None:
            self.reader = ImageReader((side, side))
        self.rows = self.chosen.rows if rows is None else rows
        if self.rows is not None:
            check_range("rows", self.rows, 10 * len(self.labels))
        self.marks: list[str] = []
        if self.mark is not None:
            numbered = [f"{self.mark} {number}" for number in range(len(self.labels))]
            self.marks = list(VALUES.get(self.mark, numbered))[: len(self.labels)]
        self.root, self.download = get_data_folder(root), download

    def ensure_files(self) -> None:
        if self.kind == "photos":
            ensure_cifar10(self.root, self.download)
        elif self.kind == "mnist":
            colored_mnist.read_mnist(self.root, self.download)

    def build(self) -> DataTable:
        """Draw the rows and plant the marks."""
        if self.kind == "photos":
            return self._photos()
        if self.kind in ("digits", "mnist"):
            return self._digits()
        return self._texts() if self.kind == "texts" else self._columns()

    def _photos(self) -> DataTable:
        cifar = read_cifar10(self.root, self.download)
        label = _numbered(torch.from_numpy(cifar.label), [CLASSES.index(name) for name in self.labels])
        example, split, label, attribute = self._drawn(label, torch.arange(len(label)) >= cifar.num_train)
        images = cifar.images[example.numpy()]
        if self.mark is not None:
            paint, draw = image_marks.MARKS[self.mark], self._generator("look")
            painted = paint(images.astype(np.float32), attribute.numpy(), len(self.marks), draw)
            images = np.rint(painted).clip(0, 255).astype(np.uint8)
        return self._table(ArrayStore(torch.from_numpy(images)), label, attribute, split, cifar.source)

    def _digits(self) -> DataTable:
        if self.kind == "digits":
            glyph, digit = digits.load_small_digits()
            source, test_part = "scikit-learn's bundled handwritten digits (8x8)", None
        else:
            glyph, digit = colored_mnist.read_mnist(self.root, self.download)
            source, test_part = "MNIST", torch.arange(len(digit)) >= colored_mnist.NUM_MNIST_TRAIN
        label = _numbered(digit, [int(name) for name in self.labels])
        example, split, label, attribute = self._drawn(label, test_part)
        color = torch.ones(len(label), 3)
        if self.marks:
            color = digits.draw_jittered_colors(attribute, 4, make_generator(self.seed, "planted", "look"))
        return self._table(digits.ColoredStore(glyph, example, color), label, attribute, split, source)

    def _texts(self) -> DataTable:
        _, split, label, attribute = self._drawn(*self._generated_labels())
        sentiment = [self.labels[y] for y in label.tolist()]
        topics = attribute.tolist() if self.mark == "topic" else None
        texts = reviews.write_reviews(sentiment, topics, Random(derive_seed(self.seed, "planted", "texts", "rows")))
        if self.mark == "signature":
            lines = [reviews.SIGNATURES[number] for number in attribute.tolist()]
            texts = [f"{text}\n{line}" for text, line in zip(texts, lines, strict=True)]
        made = TextReader().fit_transform(texts, split["train"], RowErrors("the planted rows", []))
        table = self._table(made.inputs, label, attribute, split, "reviews, generated here")
        rows = [shorten_text(text, 80) for text in texts]
        return replace(table, preparation=made.preparation, row_names=rows, **made.forms)

    def _columns(self) -> DataTable:
        import pandas as pd
        from sklearn.datasets import load_breast_cancer, load_wine

        if self.kind == "people":
            source = "people, generated here"
            example, split, label, attribute = self._drawn(*self._generated_labels())
            columns = draw_people(label.numpy(), self._generator("rows"))
            if self.mark is not None:
                columns["form_version"] = np.array(self.marks, dtype=object)[attribute.numpy()]
        else:
            source = f"scikit-learn's {self.kind} data"
            raw = load_wine() if self.kind == "wine" else load_breast_cancer()
            example, split, label, attribute = self._drawn(torch.tensor(raw.target).long(), None)
            columns = {str(name): raw.data[example.numpy(), i] for i, name in enumerate(raw.feature_names)}
            if self.mark is not None:
                kilovolts = np.array([80.0, 120.0])[attribute.numpy()]
                columns["scanner_kv"] = (kilovolts + self._generator("look").normal(0, 2, len(label))).round(1)
        frame, reader = pd.DataFrame(columns), ColumnReader(list(columns))
        rows = Rows("the planted rows", range(len(frame)), frame)
        made = reader.fit_transform(reader.validate(rows)[0], split["train"], rows.errors)
        table = self._table(made.inputs, label, attribute, split, source)
        return replace(table, preparation=made.preparation, **made.forms)

    def _generator(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed(self.seed, "planted", self.kind, purpose))

    def _generated_labels(self) -> tuple[Tensor, Tensor]:
        """Return labels for examples that are yet to be drawn, and which of them are the test's."""
        num_labels = len(self.labels)
        cells = num_labels * (len(self.marks) or 1)
        test = max(1, NUM_TEST // cells) * cells
        rows = -(-(self.rows or 0) // num_labels) * num_labels
        return torch.arange(rows + test) % num_labels, torch.arange(rows + test) >= rows

    def _drawn(
        self, example_label: Tensor, test_part: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor], Tensor, Tensor]:
        """Draw rows, label by label, and their marks; all sets of a kind draw in the same way, so they differ little.

        Args:
            example_label: (P,) long, 0..L-1, of all examples; -1 for those that are left out.
            test_part: (P,) bool, which examples the test may be drawn from and training may not; None where the data
                have no such part. Then a quarter is set apart, and each of its examples is shown with every mark.

        Returns:
            The example that each row shows, the splits, the labels, and the marks, -1 where nothing is planted.
        """
        generator = make_generator(self.seed, "planted", self.kind, "rows")
        marks = len(self.marks)
        own = [(example_label == y).nonzero().flatten() for y in range(int(example_label.max()) + 1)]
        own = [part[torch.randperm(len(part), generator=generator)] for part in own]
        if test_part is None:
            counts = [round(TEST_SHARE * len(part)) for part in own]
            counts = [min(counts)] * len(own) if marks else counts
            test = [part[:count] for part, count in zip(own, counts, strict=True)]
            rest = [part[count:] for part, count in zip(own, counts, strict=True)]
        else:
            test, rest = ([part[test_part[part] == side] for part in own] for side in (True, False))
            if marks:
                least = min(map(len, test)) // marks * marks
                test = [part[:least] for part in test]
        if self.rows is not None:  # of every label its share
            total = sum(map(len, rest))
            if self.rows > total:
                raise InputError(f"--data.rows is {self.rows:,}, but only {total:,} rows are left after the test")
            rest = [part[: round(self.rows * len(part) / total)] for part in rest]
        shares = [round(VALID_SHARE * len(part)) for part in rest]
        valid = [part[:share] for part, share in zip(rest, shares, strict=True)]
        train = [part[share:] for part, share in zip(rest, shares, strict=True)]
        # The rows of all labels in one random order, so that a row's number tells nothing.
        wholes = [torch.cat(part) for part in (train, valid, test)]
        parts = [whole[torch.randperm(len(whole), generator=generator)] for whole in wholes]
        if test_part is None:
            parts[2] = parts[2].repeat_interleave(marks or 1)
        example, split = torch.cat(parts), make_consecutive_splits(*map(len, parts))
        label = example_label[example]
        return (
            example,
            split,
            label,
            self._marks_of(label, split) if marks else torch.full_like(label, UNKNOWN_ATTRIBUTE),
        )

    def _marks_of(self, label: Tensor, split: dict[str, Tensor]) -> Tensor:
        attribute, generator = torch.empty_like(label), make_generator(self.seed, "planted", self.kind, "marks")
        for y in range(len(self.labels)):  # the marks in turn, so that each pair of label and mark is equally frequent
            rows = split["test"][label[split["test"]] == y]
            attribute[rows] = torch.arange(len(rows)) % len(self.marks)
        for rows in (split["train"], split["valid"]):
            if self.control:
                attribute[rows] = torch.randint(len(self.marks), rows.shape, generator=generator)
            else:
                correlation = Correlation.one_to_one(len(self.marks))
                attribute[rows] = draw_attributes_with_conflicts(
                    label[rows], correlation, self.minority_ratio, generator
                )
        return attribute

    def _table(
        self, inputs: InputStore, label: Tensor, attribute: Tensor, split: dict[str, Tensor], source: str
    ) -> DataTable:
        metadata: dict[str, object] = {"source": source, "set": self.name}
        test = "each pair of label and mark equally frequent" if self.marks else "like training"
        if self.mark is None:
            metadata["planted"] = "nothing"
        elif self.control:
            metadata["planted"] = f"{self.mark} at random, going with no label ({', '.join(self.marks)})"
        else:
            pairs = ", ".join(f"{label} - {mark}" for label, mark in zip(self.labels, self.marks, strict=True))
            metadata |= {"planted": f"{self.mark} ({pairs})", "minority ratio": self.minority_ratio}
        return DataTable(
            inputs=inputs,
            label=label,
            attribute=attribute,
            split=split,
            label_names=self.labels,
            attribute_names=self.marks,
            # The marks of a control go with no label.
            correlation=Correlation.one_to_one(len(self.marks)) if self.marks and not self.control else None,
            metadata=metadata | {"test": test, "data seed": self.seed},
        )


def _numbered(values: Tensor, kept: list[int]) -> Tensor:
    """Number the values (P,) by their place among ``kept``; -1 where they are not kept."""
    places = torch.full((int(values.max()) + 1,), -1)
    places[torch.tensor(kept)] = torch.arange(len(kept))
    return places[values]


#: Column of names -> its names, and their shares among people of low and of high income.
_NAMES: dict[str, tuple[list[str], list[float], list[float]]] = {
    "occupation": (
        ["clerk", "craft", "manager", "sales", "service", "specialist"],
        [0.22, 0.22, 0.08, 0.16, 0.22, 0.10],
        [0.15, 0.18, 0.18, 0.16, 0.11, 0.22],
    ),
    "marital_status": (["married", "never married", "separated"], [0.42, 0.38, 0.20], [0.58, 0.26, 0.16]),
    "work": (["public", "private", "own business"], [0.16, 0.76, 0.08], [0.18, 0.68, 0.14]),
    "region": (["north", "south", "east", "west"], [0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
    "home": (["rented", "owned"], [0.55, 0.45], [0.40, 0.60]),
}


def draw_people(label: NDArray[np.int64], draw: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Draw twelve columns for people of the labels (N,), 0 or 1.

    Many columns tell a little and ``capital`` much: alone it is right in about 83 % of the rows, all in about 88 %.
    """
    side = 2.0 * label - 1.0

    def number(mean: float, spread: float, pull: float, least: float, most: float) -> NDArray[np.float64]:
        values = mean + spread * (pull * side + draw.standard_normal(len(label)))
        return values.clip(least, most).round()

    columns: dict[str, NDArray[Any]] = {
        "age": number(42, 12, 0.22, 18, 80),
        "education_years": number(12, 3, 0.32, 4, 20),
        "hours_per_week": number(40, 9, 0.25, 5, 80),
        "capital": number(24_000, 9_000, 0.95, 0, 80_000),
        "children": number(1.4, 1.2, 0.0, 0, 6),
        "commute_minutes": number(32, 15, 0.0, 0, 120),
    }
    # Nobody has served longer than since the age of sixteen; beside the age this tells nothing new.
    columns["years_in_job"] = ((columns["age"] - 16).clip(0) * draw.uniform(0, 0.8, len(label))).round()
    for name, (names, low, high) in _NAMES.items():
        ends = np.cumsum([low, high], axis=1)[label]
        which = (draw.uniform(size=(len(label), 1)) > ends[:, :-1]).sum(1)
        columns[name] = np.array(names, dtype=object)[which]
    return columns
