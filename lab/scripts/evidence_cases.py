"""Draws data sets with planted shortcuts of all families, and without any, to which the model of evidence is fitted.

``new_rows.py collect --drawn`` trains all candidates on these cases, and ``evidence_model.py`` fits the model and
evaluates it on sorts of shortcuts that it was not fitted to. A case is drawn by its number and a seed. It has two
hidden tests: in the balanced one every pair of label and shortcut is equally frequent, the other is distributed like
the training rows. ``evidence_sets.py`` writes most of the real texts and tables that cases are drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from evidence_shortcuts import FAMILIES, Family, Kind, Mark
from numpy.typing import NDArray
from scipy.ndimage import zoom
from torch import Tensor
from torch.nn.functional import interpolate

from logit_correction.data import digits
from logit_correction.data.cache import get_cache_folder
from logit_correction.data.features import ColumnReader
from logit_correction.data.rows import Rows
from logit_correction.data.splits import make_consecutive_splits
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.data.texts import hash_words
from logit_correction.errors import InputError
from logit_correction.seeds import derive_seed, make_generator
from logit_correction.types import UNKNOWN_ATTRIBUTE, Correlation
from logit_correction_lab.sources import colored_mnist, reviews
from logit_correction_lab.sources.cifar10_images import read_cifar10
from logit_correction_lab.sources.planted import sample_people_columns
from logit_correction_lab.sources.published import (
    build_table_by_reader,
    draw_attributes_with_conflicts,
    get_data_folder,
)

What = Literal["shortcut", "two", "nothing", "random", "honest", "faint", "wrong labels", "unbalanced"]

#: Contents of the cases without a harmful shortcut, in turn.
CLEAN: tuple[What, ...] = ("nothing", "random", "honest", "faint", "wrong labels", "unbalanced")

#: Kind -> sets that rows are drawn from; most texts and tables are files of ``evidence_sets.py``.
SETS: dict[Kind, tuple[str, ...]] = {
    "images": ("photos", "photos", "photos", "mnist", "mnist", "digits"),
    "texts": ("reviews", "mails", "brown"),
    "tables": (
        *("people", "cancer", "adult", "compas", "german", "credit", "segment", "phishing", "diamonds", "computers"),
        *("personality", "benefits"),
    ),
}

#: Families that cannot be seen in counted words or standardised numbers, at any strength.
UNSEEN: dict[Kind, tuple[str, ...]] = {
    "texts": ("capitals", "full stops", "quotes", "line breaks"),
    "tables": ("last digit",),
}

#: Rows of the test like training; fewer where the set is small.
NUM_IN_DISTRIBUTION = 800

#: Rows of the balanced test; fewer where the set is small.
NUM_BALANCED = 1200

#: Kind -> range of the number of training rows.
ROW_RANGES: dict[Kind, tuple[int, int]] = {"images": (500, 3000), "texts": (500, 6000), "tables": (500, 8000)}


@dataclass(frozen=True)
class PlantedShortcut:
    """A shortcut that is planted.

    Attributes:
        family: Name of its family.
        values: Number of its values, K.
        strength: 0 to 1.
        noise: Share of rows whose value is replaced by a random one.
        conflicting: Share of the rows of each label whose value belongs to another label; 1 makes the values random.
    """

    family: str
    values: int
    strength: float
    noise: float
    conflicting: float


@dataclass(frozen=True)
class Case:
    """The description of a case.

    Attributes:
        number: 0 or more.
        seed: Seed of everything that is drawn.
        kind: Images, texts or tables.
        data: The set that rows are taken from.
        what: Content: one shortcut or two, or why no shortcut is harmful.
        labels: Number of labels; a set may have less.
        rows: Training rows; a set may have less.
        size: Height and width of images.
        planted: No, one or two shortcuts.
        strength: Strength of the honest feature, 0 to 1.
        wrong: Share of wrong labels.
        shares: Relative shares of the labels; empty if equal.
    """

    number: int
    seed: int
    kind: Kind
    data: str
    what: What
    labels: int
    rows: int
    size: int
    planted: tuple[PlantedShortcut, ...] = ()
    strength: float = 0.0
    wrong: float = 0.0
    shares: tuple[float, ...] = ()

    @property
    def family(self) -> str:
        """The families planted, or why nothing harmful is."""
        names = "+".join(planted.family for planted in self.planted)
        if self.what in ("shortcut", "two"):
            return names
        return f"{self.what}: {names}" if names else self.what

    @property
    def num_cells(self) -> int:
        """Number of combinations of the values planted, 1 if nothing is."""
        return math.prod(planted.values for planted in self.planted)


def draw_case(number: int, seed: int = 0) -> Case:
    """Draw the description of a case.

    Cases come in rounds, in which every family has one shortcut, mixed with half as many clean cases; so the first
    cases of any number cover the families evenly.

    >>> draw_case(3, seed=1) == draw_case(3, seed=1)
    True

    Args:
        number: 0 or more; cases of one seed differ by it.
        seed: Seed of everything that is drawn.
    """
    families = list(FAMILIES.values())
    round_number, place = divmod(number, len(families) + len(families) // 2)
    order = np.random.default_rng(derive_seed(seed, "round", round_number)).permutation(len(families))
    rng = np.random.default_rng(derive_seed(seed, "case", number))
    if place % 3 < 2:
        family = families[order[place // 3 * 2 + place % 3]]
        content: What = "two" if rng.random() < 0.2 else "shortcut"
    else:  # a clean case, of the kind of a family
        family = families[order[(place // 3 * 2 + 7) % len(families)]]
        content = CLEAN[(place // 3 + round_number) % len(CLEAN)]
    labels = int(rng.choice([2, 2, 3, 4, 5]))
    data = str(rng.choice(SETS[family.kind]))
    low, high = ROW_RANGES[family.kind]
    rows = round(low * (high / low) ** rng.random())
    case = Case(number, seed, family.kind, data, content, labels, rows, size=int(rng.choice([24, 28, 32])))
    if content == "faint" and case.kind in UNSEEN:
        family = FAMILIES[str(rng.choice(UNSEEN[case.kind]))]
    if content in ("shortcut", "two", "random", "faint"):
        case = replace(case, planted=(_draw_planted(family, case, rng),))
    if content == "two":
        others = [other for other in families if other.kind == family.kind and other.sort != family.sort]
        other = others[rng.integers(len(others))]
        first = replace(case.planted[0], values=min(case.planted[0].values, 3))
        second = replace(_draw_planted(other, case, rng), values=min(other.max_values, labels, 3))
        case = replace(case, planted=(first, second))
    if content == "honest":
        case = replace(case, strength=rng.uniform(0.4, 1))
    if content == "wrong labels":
        case = replace(case, wrong=rng.uniform(0.03, 0.15))
    if content == "unbalanced" or rng.random() < 0.15:
        case = replace(case, shares=tuple(rng.uniform(0.25, 1, 5).round(2).tolist()))
    return case


def _draw_planted(family: Family, case: Case, rng: np.random.Generator) -> PlantedShortcut:
    values = min(family.max_values, case.labels + int(rng.choice([0, 0, 0, 0, 1, -1])))
    conflicting = max(0.005 * 30 ** rng.random(), 10 / case.rows)
    strength = rng.uniform(0.4, 1)
    noise = float(rng.choice([0, 0, 0.02]))
    if case.what == "faint" and case.kind == "images":
        strength = rng.uniform(0.02, 0.06)
    if case.what == "random":
        conflicting = 1.0
    return PlantedShortcut(family.name, max(2, values), round(strength, 3), noise, round(min(conflicting, 1), 4))


@dataclass(frozen=True)
class BuiltCase:
    """The rows of a case.

    Attributes:
        table: All rows; its test split holds the two hidden tests one after the other. The attribute of a row is the
            combination of the values planted, -1 where nothing is planted.
        in_distribution: Positions of the test rows that are distributed like training.
        balanced: Positions of the balanced test; those of ``in_distribution`` where nothing is planted.
    """

    table: DataTable
    in_distribution: Tensor
    balanced: Tensor


def build_case(case: Case, real: Path | None = None) -> BuiltCase:
    """Draw the rows of a case and plant its shortcuts.

    Args:
        case: Description of the case.
        real: Folder of the sets from packages; by default ``evidence`` in the cache folder.

    Raises:
        InputError: The set is missing.
    """
    source = _read_source(case, real or get_cache_folder() / "evidence")
    example, label, sizes = _sample_rows(case, source.label)
    num_labels = len(source.names)
    split = make_consecutive_splits(sizes[0], sizes[1], sizes[2] + sizes[3])
    train_rows = torch.cat([split["train"], split["valid"]])
    in_distribution, balanced = split["test"].split(sizes[2:])
    attribute = torch.full_like(label, UNKNOWN_ATTRIBUTE)
    values = []
    for number, planted in enumerate(case.planted):
        generator = make_generator(case.seed, "evidence", case.number, "values", number)
        step = math.prod(other.values for other in case.planted[:number])
        value = _draw_values(planted, label, balanced, step, generator)
        attribute = value if number == 0 else attribute * planted.values + value
        random_value = torch.randint(planted.values, value.shape, generator=generator)
        is_noise = torch.rand(value.shape, generator=generator) < planted.noise
        values.append(torch.where(is_noise, random_value, value).numpy())
    rows = source.read_rows(example.numpy())
    rng = np.random.default_rng(derive_seed(case.seed, "evidence", case.number, "look"))
    if case.what == "honest":
        rows = _HONEST[case.kind](rows, label.numpy(), case.strength, rng)
    for planted, value in zip(case.planted, values, strict=True):
        rows = FAMILIES[planted.family].plant(rows, Mark(value, planted.values, planted.strength, rng))
    if case.wrong:
        generator = make_generator(case.seed, "wrong", case.number)
        wrong = train_rows[torch.rand(len(train_rows), generator=generator) < case.wrong]
        label[wrong] = (label[wrong] + torch.randint(1, num_labels, wrong.shape, generator=generator)) % num_labels
    table = _build_table(case, rows, label, attribute, split, source.names)
    return BuiltCase(table, in_distribution, balanced if case.planted else in_distribution)


def _draw_values(
    planted: PlantedShortcut, label: Tensor, balanced: Tensor, step: int, generator: torch.Generator
) -> Tensor:
    """Return the values (N,) of a shortcut, without noise; ``balanced`` are the last rows.

    In these, all combinations of label and values are equally frequent: the value changes every ``step`` rows.
    """
    num_labels = int(label.max()) + 1
    correlation = _make_correlation(num_labels, planted.values)
    biased = label[: len(label) - len(balanced)]
    value = torch.zeros_like(label)
    value[: len(biased)] = draw_attributes_with_conflicts(biased, correlation, planted.conflicting, generator)
    for code in range(num_labels):
        rows = balanced[label[balanced] == code]
        value[rows] = torch.arange(len(rows)) // step % planted.values
    return value


def _make_correlation(num_labels: int, values: int) -> Correlation:
    """Return the correlation of value v with label v modulo L, or of label y with value y modulo K if K < L."""
    if values >= num_labels:
        return Correlation.from_table([list(range(label, values, num_labels)) for label in range(num_labels)])
    return Correlation.from_table([[label % values] for label in range(num_labels)])


def _sample_rows(case: Case, label: NDArray[np.int64]) -> tuple[Tensor, Tensor, list[int]]:
    """Return the example and label of each row, and how many rows train, valid and the two tests have."""
    rng = np.random.default_rng(derive_seed(case.seed, "evidence", case.number, "rows"))
    examples = [rng.permutation(np.flatnonzero(label == code)) for code in range(int(label.max()) + 1)]
    num_labels = len(examples)
    # No example is in both a test and the training rows.
    test_examples = []
    train_examples = []
    for rows in examples:
        count = min(max(NUM_IN_DISTRIBUTION, NUM_BALANCED) // num_labels, round(0.3 * len(rows)))
        test_examples.append(rows[:count])
        train_examples.append(rows[count:])
    shares = np.array(case.shares[:num_labels] or [1.0] * num_labels)
    target_counts = 1.25 * case.rows * shares / shares.sum()
    target_counts = target_counts * min(
        1.0, *(len(rows) / count for rows, count in zip(train_examples, target_counts, strict=True))
    )
    train_examples = [rows[: round(count)] for rows, count in zip(train_examples, target_counts, strict=True)]
    valid = [rows[: round(0.2 * len(rows))] for rows in train_examples]
    train = [rows[round(0.2 * len(rows)) :] for rows in train_examples]
    in_distribution = [
        rows[: round(len(rows) * share)] for rows, share in zip(test_examples, shares / shares.max(), strict=True)
    ]
    parts = [rng.permutation(np.concatenate(part)) for part in (train, valid, in_distribution)]
    balanced = np.zeros(0, np.int64)
    if case.planted:
        count = max(1, NUM_BALANCED // num_labels // case.num_cells) * case.num_cells
        balanced = np.concatenate([np.resize(rows, count) for rows in test_examples])
    parts.append(balanced)
    example = torch.from_numpy(np.concatenate(parts).astype(np.int64))
    return example, torch.from_numpy(label.copy())[example], [len(part) for part in parts]


def _build_table(
    case: Case, rows: Any, label: Tensor, attribute: Tensor, split: dict[str, Tensor], names: list[str]
) -> DataTable:
    """Return the table of rows in the form of their kind."""
    contents: dict[str, Any] = {
        "label": label,
        "attribute": attribute,
        "split": split,
        "label_names": names,
        "attribute_names": [str(value) for value in range(case.num_cells)],
    }
    if case.kind == "images":
        return DataTable(ArrayStore(torch.from_numpy(np.rint(rows).clip(0, 255).astype(np.uint8))), **contents)
    if case.kind == "texts":
        return DataTable(hash_words(rows), texts=rows, **contents)
    reader = ColumnReader(list(rows.columns))
    unread = Rows("the case", range(len(rows)), rows)
    return build_table_by_reader(reader, reader.validate(unread)[0], unread.errors, metadata={}, **contents)


def resize(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize images by bilinear interpolation.

    Args:
        images: (N, C, H, W).
        size: Height and width of the result in pixels.
    """
    if images.shape[2:] == (size, size):
        return images
    values = interpolate(torch.from_numpy(images).float(), (size, size), mode="bilinear", antialias=True)
    return values.round().clamp(0, 255).to(torch.uint8).numpy()


# -- honest features, weakest in the rows that also otherwise look least like their label


def _add_honest_shape(images: NDArray[np.float32], label: NDArray[np.int64], strength: float, rng: Any) -> Any:
    """Add a large shape of the label, stronger in images that also otherwise look more like their label."""
    size = images.shape[2]
    small = resize(images.clip(0, 255).astype(np.uint8), 4).reshape(len(images), -1) / 255.0
    small = small - small.mean(0)
    one_hot = np.eye(label.max() + 1)[label]
    scores = small @ np.linalg.lstsq(small, one_hot - one_hot.mean(0), rcond=1e-3)[0]
    likeness = (scores * one_hot).sum(1) - scores.mean(1)
    weight = (0.8 + 0.5 * (likeness - likeness.mean()) / likeness.std() + rng.normal(0, 0.4, len(label))).clip(0)
    shapes = zoom(rng.standard_normal((label.max() + 1, 3, 4, 4)), (1, 1, size / 4, size / 4), order=3)
    return images + (22 * strength * weight)[:, None, None, None] * shapes[label]


def _add_honest_words(texts: list[str], label: NDArray[np.int64], strength: float, rng: Any) -> list[str]:
    """Add words that are more frequent with a label."""
    words = np.array(
        ["plenty", "amber", "scarce", "cobalt", "steady", "ivory", "sudden", "jade", "late", "onyx"]
    ).reshape(5, 2)
    marked = []
    for text, code in zip(texts, label.tolist(), strict=True):
        labels = np.where(rng.random(rng.poisson(2 * strength)) < 0.75, code, rng.integers(label.max() + 1))
        marked.append(" ".join([text, *(words[label, rng.integers(2)] for label in labels)]))
    return marked


def _add_honest_column(frame: pd.DataFrame, label: NDArray[np.int64], strength: float, rng: Any) -> pd.DataFrame:
    """Add a number that rises with the label, and with a linear score of the other columns."""
    numbers = frame.select_dtypes("number").fillna(0)
    is_last = (label == label.max()).astype(float)
    scaled = ((numbers - numbers.mean()) / numbers.std().clip(1e-9)).to_numpy()
    score = scaled @ (scaled.T @ (is_last - is_last.mean()))
    score = score / max(1e-9, score.std())
    return frame.assign(index=0.6 * score + (0.8 + 1.4 * strength) * is_last + rng.standard_normal(len(label)))


_HONEST: dict[Kind, Callable[..., Any]] = {
    "images": _add_honest_shape,
    "texts": _add_honest_words,
    "tables": _add_honest_column,
}


# -- where rows come from


@dataclass(frozen=True)
class _Source:
    label: NDArray[np.int64]  # labels 0..L-1 of all examples
    names: list[str]  # names of the labels
    read_rows: Callable[[NDArray[np.int64]], Any]  # positions of examples -> images, texts or a frame


def _make_frame_source(label: NDArray[Any], names: list[str], frame: pd.DataFrame) -> _Source:
    return _Source(label, names, lambda rows: frame.iloc[rows].reset_index(drop=True))


def _read_source(case: Case, real: Path) -> _Source:
    """Return the examples of the labels of a case."""
    rng = np.random.default_rng(derive_seed(case.seed, "evidence", case.number, "labels"))
    if case.kind == "images":
        return _read_images(case, rng)
    if case.data == "reviews":
        names = ["negative", "positive", "neutral"][: max(2, min(3, case.labels))]
        per_label = round(2.6 * case.rows / len(names)) + NUM_BALANCED
        label = np.arange(per_label * len(names)) % len(names)
        random = Random(derive_seed(case.seed, case.number))
        texts = reviews.generate_reviews([names[code] for code in label], None, random)
        return _Source(label, names, lambda rows: [texts[row] for row in rows])
    if case.data == "people":
        label = np.arange(2 * case.rows + 2 * NUM_BALANCED) % 2
        return _make_frame_source(label, ["low", "high"], pd.DataFrame(sample_people_columns(label, rng)))
    if case.data == "cancer":
        from sklearn.datasets import load_breast_cancer

        raw = load_breast_cancer(as_frame=True)
        return _make_frame_source(raw.target.to_numpy(), ["malignant", "benign"], raw.data)
    file = real / f"{case.data}.parquet"
    if not file.is_file():
        raise InputError(f"{file} is missing: run `python lab/scripts/evidence_sets.py {real}`")
    frame = pd.read_parquet(file)
    commonest = [str(name) for name in frame["label"].value_counts().index[: 7 if case.kind == "texts" else None]]
    names = [commonest[i] for i in sorted(rng.permutation(len(commonest))[: case.labels])]
    frame = frame[frame["label"].isin(names)].reset_index(drop=True)
    label = np.asarray([names.index(name) for name in frame.pop("label")], dtype=np.int64)
    if case.kind == "texts":
        return _Source(label, names, lambda rows: frame["text"].iloc[rows].tolist())
    return _make_frame_source(label, names, frame)


def _read_images(case: Case, rng: np.random.Generator) -> _Source:
    root = get_data_folder(None)
    pixels: NDArray[Any]
    label: NDArray[Any]
    if case.data == "photos":
        cifar = read_cifar10(root, download=False)
        pixels = cifar.images
        label = cifar.label
    else:
        read = digits.load_small_digits() if case.data == "digits" else colored_mnist.read_mnist(root, download=False)
        pixels = read[0].numpy()[:, None]
        label = read[1].numpy()
    classes = np.sort(rng.permutation(10)[: case.labels])
    places = np.flatnonzero(np.isin(label, classes))

    def read_rows(examples: NDArray[np.int64]) -> NDArray[np.float32]:
        images = resize(pixels[places[examples]], case.size)
        return np.repeat(images, 3 // images.shape[1], axis=1).astype(np.float32)

    return _Source(np.searchsorted(classes, label[places]), [str(value) for value in classes], read_rows)
