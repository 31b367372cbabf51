"""Rows before they are inputs: what is wrong with them, the files that they name, readers, splits, and their table."""

from __future__ import annotations

import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.frames import FEWEST_ROWS, NUMBER, find_header_rows, format_row_names, match_names
from logit_correction.data.stores import LARGE, ArrayStore, InputStore
from logit_correction.data.table import NEW, SPLITS, DataTable
from logit_correction.errors import InputError, InputWarning, check_range
from logit_correction.formatting import format_first, format_option, format_row_count
from logit_correction.paths import is_within
from logit_correction.seeds import make_generator
from logit_correction.types import UNKNOWN_ATTRIBUTE
from logit_correction.unicode_text import escape_undecodable, normalize_text

if TYPE_CHECKING:
    import pandas as pd

OnBadRows = Literal["error", "skip"]

#: So many problems are spelled out; the others are counted.
MAX_SHOWN = 10

#: What people call the splits.
SPLIT_ALIASES = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid",
           "dev": "valid", "test": "test", "testing": "test", NEW: NEW}  # fmt: skip


class RowErrors:
    """What is wrong with rows: gathered first, then told all at once.

    Attributes:
        of_row: Row -> why it is bad.
        remarks: What a user should know of rows that are good, in two halves of a sentence -> how many rows, and what
            one of them holds.
    """

    def __init__(self, place: str, rows: Sequence[str]) -> None:
        """Name where the rows are from, and each row."""
        self.place, self.rows = place, rows
        self.by_row: dict[int, str] = {}
        self.remarks: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, row: int, why: str) -> None:
        """Note a problem; the first one of a row counts."""
        self.by_row.setdefault(int(row), why)

    def remark(self, fact: str, consequence: str, count: int, example: str) -> None:
        """Note what is true of so many rows that are not bad, and what follows; the first example counts."""
        before, first = self.remarks.get((fact, consequence), (0, example))
        self.remarks[fact, consequence] = before + count, first

    def describe_remarks(self) -> tuple[str, ...]:
        """Return the remarks, with their share of all rows."""
        total = len(self.rows)
        sentences = []
        for (fact, consequence), (count, example) in self.remarks.items():
            share = f"in all {total:,} rows" if count == total > 1 else f"in {count:,} of {format_row_count(total)}"
            sentences.append(f"{fact} {share}, such as {example}: {consequence}")
        return tuple(sentences)

    def warn(self) -> None:
        """Tell the remarks as warnings."""
        for sentence in self.describe_remarks():
            warnings.warn(f"{self.place}: {sentence}", InputWarning, stacklevel=4)

    def __len__(self) -> int:
        return len(self.by_row)

    @property
    def good(self) -> Tensor:
        """(M,) bool, whether each row is good."""
        good = torch.ones(len(self.rows), dtype=torch.bool)
        good[list(self.by_row)] = False
        return good

    def raise_if_any(self, on_bad_rows: OnBadRows | None = None, *, fix: str = "fix or remove them") -> tuple[str, ...]:
        """Raise ``InputError`` if there are bad rows that are not to be skipped, or no good ones.

        Without ``on_bad_rows`` none can be skipped, and ``fix`` says what to do.

        Returns:
            What to tell of rows that are left out.
        """
        if not self:
            return ()
        what, it = ("1 row is bad", "it") if len(self) == 1 else (f"{len(self):,} rows are bad", "them")
        if on_bad_rows == "skip" and len(self) < len(self.rows):
            return (f"{self.place}: {what} and left out: {self}",)
        if on_bad_rows == "skip":
            fix = f"fix {it}, for no other is left"
        elif on_bad_rows == "error":
            fix = f"fix {it}, or leave {it} out by {format_option('data.on_bad_rows', 'skip')}"
        raise InputError(f"{self.place}: {what}: {self}; {fix}")

    def __str__(self) -> str:
        """Spell the first ones out, equal ones once with their rows, and count the others."""
        iterate_rows: dict[str, list[str]] = {}
        for row, why in sorted(self.by_row.items()):
            iterate_rows.setdefault(why, []).append(self.rows[row])
        return format_first([f"{format_first(rows, 3)}: {why}" for why, rows in iterate_rows.items()], MAX_SHOWN, "; ")


@dataclass(frozen=True)
class Rows:
    """Rows before they are read, in one of four forms: ``frame``, ``files``, ``texts`` or ``values``.

    Attributes:
        place: Where they are from, for messages.
        numbers: The number of each; the line of a CSV.
        folder: Where the files that a frame names lie, or these files themselves.
        label: The label of each, None where it is missing, if they come with labels.
        split: What each is for, None where it is missing, if they come with splits.
    """

    place: str
    numbers: range | pd.Index
    frame: pd.DataFrame | None = None
    folder: Path | None = None
    files: Sequence[Path] | None = None
    label: Sequence[str | None] | None = None
    split: Sequence[str | None] | None = None
    texts: Sequence[str] | None = None
    values: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> Sequence[str]:
        """What messages call each row."""
        if self.files is None:
            return format_row_names(self.numbers)
        return [escape_undecodable(path.relative_to(self.folder) if self.folder else path) for path in self.files]

    @cached_property
    def errors(self) -> RowErrors:
        """What is wrong with them, as far as they were read."""
        problems = RowErrors(self.place, self.names)
        if self.frame is not None:
            for row in find_header_rows(self.frame):
                problems.add(row, "holds the names of the columns again, as where files were joined")
            for line, why in self.frame.attrs.get("swallowed", {}).items():
                for place in np.flatnonzero(np.asarray(self.numbers) == line).tolist():
                    problems.add(place, why)
        return problems

    def parts(self, size: int) -> Iterator[Rows]:
        """Yield the rows, so many at a time."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            forms = {name: getattr(self, name) for name in ("numbers", "files", "label", "split", "texts", "values")}
            forms = {name: None if of is None else of[part] for name, of in forms.items()}
            yield replace(self, frame=None if self.frame is None else self.frame.iloc[part], **forms)


class FittedInputs(NamedTuple):
    """What a reader makes of all rows of a training: ``DataTable`` says what each is."""

    inputs: InputStore
    forms: dict[str, Any]
    metadata: dict[str, object]
    preparation: dict[str, Any]
    notes: tuple[str, ...] = ()


class Reader(ABC):
    """Brings rows into the form that a network takes: images, texts, columns or numbers.

    The rows of a training go through ``validate`` and ``fit_transform``, new ones through ``transform``.
    ``fit_transform`` is ``fit``, which computes what inputs need of the training rows (means, vocabularies), and
    ``encode``, which makes inputs by that. After ``load_state`` nothing is fitted, so rows of a training that are read
    again become the same inputs. Bad rows are noted in ``Rows.errors``. Forms are those in which views may look at the
    rows: ``texts``, ``columns`` or ``files`` of ``ViewInputs``.

    Attributes:
        has_loaded_state: Whether the state of a training was loaded.
    """

    scale = 1.0  # what inputs, bytes brought to [0, 1] before, are multiplied by
    has_loaded_state = False

    @abstractmethod
    def validate(self, rows: Rows) -> tuple[Any, Sequence[str] | None, list[str]]:
        """Return what is read of all rows, what people call each if it has a name, and what to tell a user."""

    @abstractmethod
    def fit(self, read: Any, train: Tensor, problems: RowErrors) -> None:
        """Find out what inputs need of the training rows ``train`` (n,), whatever was found out before."""

    @abstractmethod
    def encode(self, read: Any, problems: RowErrors) -> FittedInputs:
        """Make inputs of rows that were read, by what is known; nothing is found out."""

    def fit_transform(self, read: Any, train: Tensor, problems: RowErrors) -> FittedInputs:
        """Fit, unless prepared, and make inputs of what ``validate`` read; ``train`` (n,) are the training rows."""
        if not self.has_loaded_state:
            self.fit(read, train, problems)
        return self.encode(read, problems)

    def find_unreadable(self, read: Any, problems: RowErrors) -> None:  # noqa: B027  (most readers read all in ``validate``)
        """Note what else is wrong with rows, of which some are bad already, before all is told."""

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        """Take over ``FittedInputs.preparation``, before new rows are read."""
        self.has_loaded_state = bool(preparation)

    def validate_new(self, rows: Rows) -> Any:
        """Return what ``encode`` takes of new rows, which must be of the form of those of training."""
        return self.validate(rows)[0]

    def transform(self, rows: Rows) -> tuple[InputStore, dict[str, Any]]:
        """Return the inputs of new rows, and their forms."""
        return self.encode(self.validate_new(rows), rows.errors)[:2]


def build_array_store(values: NDArray[Any], problems: RowErrors, scale: float = 1.0) -> ArrayStore:
    """Return rows of numbers as a store of bytes or of float32; those that are not finite then are noted, and 0."""
    if values.dtype != np.uint8:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        for row in np.flatnonzero(~finite).tolist():
            problems.add(row, "its input holds NaN or infinity")
        values[~finite] = 0
    return ArrayStore(torch.from_numpy(np.require(values, requirements=["C", "W"])), scale)


def find_files_within(
    root: Path,
    names: Sequence[str | None],
    problems: RowErrors,
    column: str,
    look: bool = True,
    also: Path | None = None,
) -> list[Path]:
    """Return the files (M,) that the rows of a table name; a name that leads out of ``root`` is a problem of its row.

    With ``look`` each file must be there, and no link may lead out of ``root``; ``also`` is another folder, for names
    that are no files in ``root``.
    """
    bases = [(folder, (os.path.realpath if look else os.path.abspath)(folder)) for folder in (root, also) if folder]
    paths = []
    for row, given in enumerate(names):
        name = (given or "").partition("\0")[0]  # which no file's name holds
        inside = [folder / name for folder, base in bases if is_within(folder / name, base, look)]
        found = [path for path in inside if name and (not look or os.path.isfile(path))]
        paths.append(found[0] if found else root / name)
        if not name:
            problems.add(row, f"column {column!r} is empty")
        elif not inside:
            fix = f"name the folder of all files by {format_option('data.root')}"
            problems.add(row, f"{name!r} lies outside of {root} ({fix})")
        elif not found:
            problems.add(row, f"{name!r} is missing in {root} (name another folder by {format_option('data.root')})")
    return paths


class Splitting:
    """Which rows are for what where no split is given, and what is done with bad ones."""

    def __init__(
        self, valid_fraction: float = 0.1, test_fraction: float = 0.2, seed: int = 0, on_bad_rows: OnBadRows = "error"
    ) -> None:
        """Choose the fractions.

        Args:
            valid_fraction: Fraction of each label's rows for validation, where no split is given.
            test_fraction: Fraction of each label's rows for the test, where no split is given.
            seed: Seed of the split, apart from the run's.
            on_bad_rows: ``error`` names the bad rows and stops, ``skip`` names them and leaves them out.
        """
        for name, fraction in (("valid_fraction", valid_fraction), ("test_fraction", test_fraction)):
            check_range(format_option(f"data.{name}"), fraction, 0, 1, open_end=True)
        if valid_fraction + test_fraction >= 1:
            raise InputError(
                f"{format_option('data.valid_fraction')} and {format_option('data.test_fraction')} leave no row to "
                "train on: lower them"
            )
        self.fractions, self.seed = {"valid": valid_fraction, "test": test_fraction}, seed
        self.on_bad_rows: OnBadRows = on_bad_rows


def make_consecutive_splits(*sizes: int) -> dict[str, Tensor]:
    """Return the rows of train, valid and test where they follow each other."""
    return dict(zip(SPLITS, torch.arange(sum(sizes)).split(sizes), strict=True))


def make_splits(
    label: Tensor,
    given: Sequence[str | None] | None,
    label_names: Sequence[str],
    splitting: Splitting,
    unit: Tensor | None = None,
    split_by: str | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return the rows of train, valid and test, and one line on where they are from.

    A split that is given stays as it is. Missing ones are drawn from the training rows, or from all rows if no split
    is given: label by label, so that each has its share of every label. Attributes are never looked at. Rows of label
    -1 belong nowhere.

    Rows of one ``unit`` (M,) long, 0..U-1, the values of a column ``split_by``, are drawn together, as rows of the
    rarest of their labels.
    """
    rows = (label >= 0).nonzero().flatten()
    split = {"train": rows}
    if given is not None:
        names = np.asarray(given, dtype=object)[rows.numpy()]
        split = {name: rows[torch.from_numpy(names == name)] for name in SPLITS}
        split = {name: part for name, part in split.items() if len(part)}
        if "train" not in split:
            raise InputError("no row is for training: give some rows the split train")
    shares = {name: share for name, share in splitting.fractions.items() if name not in split}
    if not shares:
        return split, "given"
    unit = torch.arange(len(label)) if unit is None else unit
    size = torch.bincount(unit[split["train"]], minlength=int(unit.max()) + 1)
    rows_of_label = torch.bincount(label[split["train"]])
    commonest_first = split["train"][rows_of_label[label[split["train"]]].argsort(descending=True, stable=True)]
    unit_label = torch.full_like(size, -1)
    unit_label[unit[commonest_first]] = label[commonest_first]  # the rarest label of each unit comes last
    count = torch.bincount(unit_label[size > 0], minlength=len(label_names)).tolist()
    least = sum(share > 0 for share in shares.values()) + 1
    few = [f"{name} {there}" for name, there in zip(label_names, count, strict=True) if 0 < there < least]
    if few:
        what = f"values of {split_by}" if split_by else "rows"
        raise InputError(
            f"labels with too few {what} to split ({what} per label: {format_first(few, MAX_SHOWN)}): each needs at "
            f"least {least}, one a split: add rows, drop the label, give a split, or name another column of labels"
        )
    drawn_for = torch.zeros(len(unit_label), dtype=torch.long)
    # Labels are numbered as they first appear, so that other names for them change nothing.
    for number_of_label, y in enumerate(dict.fromkeys(label[split["train"]].tolist())):
        own = ((unit_label == y) & (size > 0)).nonzero().flatten()
        total = int(size[own].sum())
        # A generator of its own for each label: more rows of one label leave the split of the others as it was.
        own = own[torch.randperm(len(own), generator=make_generator(splitting.seed, "split", number_of_label))]
        for number, share in enumerate(shares.values(), 1):
            enough = torch.searchsorted(size[own].cumsum(0), max(1, round(share * total)))
            drawn = min(int(enough) + 1, len(own) - 1) if share and len(own) else 0
            drawn_for[own[:drawn]] = number
            own = own[drawn:]
    of_row = drawn_for[unit[split["train"]]]
    split |= {name: split["train"][of_row == number] for number, name in enumerate(("train", *shares))}
    told = ", ".join(f"{100 * share:g} % {name}" for name, share in shares.items())
    how = f"drawn label by label, {told}, seed {splitting.seed}"
    how += f", rows of one {split_by} together" if split_by else ""
    return {name: split[name] for name in SPLITS}, how if given is None else f"given; {how} from the training rows"


def build_table(
    rows: Rows,
    reader: Reader,
    splitting: Splitting,
    *,
    source: str,
    split_by: str | None = None,
    units: Sequence[str | None] = (),
    attributes: Mapping[str, Sequence[str | None]] | None = None,
    notes: Sequence[str] = (),
    **more: Any,
) -> DataTable:
    """Make the table of rows that a user gave with their labels; texts are None where they are missing.

    What is wrong with single rows is gathered before it is told. Rows that are left out stay in the table and belong to
    no split. ``reader`` learns of the rows last, and may add to the problems. ``more`` are fields of the table.
    """
    assert rows.label is not None
    read, row_names, of_reader = reader.validate(rows)
    problems, labels, splits, given = rows.errors, rows.label, rows.split, None
    for row, value in enumerate(units):
        if value is None:
            problems.add(row, f"column {split_by!r} is empty")
    unit = find_positions(units, list(dict.fromkeys(map(str, units)))) if split_by else None
    if splits is not None:
        called = SPLIT_ALIASES | {"0": "train", "1": "valid", "2": "test"}  # as published metadata number them
        given = [called.get((name or "").strip().lower()) for name in splits]
        for row, name in enumerate(splits):
            if given[row] is None:
                told = f"split {name!r} is none of train, valid, test and new"
                problems.add(row, "has no split" if name is None else told)
    is_new = torch.tensor([given is not None and given[row] == NEW for row in range(len(labels))])
    for row, named in enumerate(labels):
        if named is None and not is_new[row]:
            problems.add(row, "has no label")
    if given is not None:
        good = problems.good.nonzero().flatten().tolist()
        trained = {labels[row] for row in good if given[row] == "train"}
        for row in good:
            if trained and labels[row] not in trained and labels[row] is not None:
                problems.add(row, f"label {labels[row]!r} is in the {given[row]} split but not in train")

    if problems and splitting.on_bad_rows == "error":
        reader.find_unreadable(read, problems)
    problems.raise_if_any(splitting.on_bad_rows)
    label, label_names = encode_labels(labels, problems.good & ~is_new)
    fewest = FEWEST_ROWS if any("." in name for name in label_names) else 2
    if len(label_names) > 20 and len(label_names) * fewest > len(label) and all(map(_is_number, label_names)):
        raise InputError(
            f"{problems.place}: the label looks continuous, {len(label_names):,} different numbers in {len(label):,} "
            "rows: name a column of classes, or write it as bins, such as pandas.qcut(prices, 3) makes"
        )
    if len(label_names) < 2:
        told = f"{problems.place} has {len(label_names)} label"
        raise InputError(f"{told}: a classifier needs rows of at least two labels")
    check_labels_distinct(labels, label_names, problems.place)
    try:
        split, how = make_splits(label, given, label_names, splitting, unit, split_by)
    except InputError as error:
        raise InputError(f"{problems.place}: {error}") from error
    if bool(is_new.any()):  # no label of theirs is read where the others are drawn
        split[NEW] = (is_new & problems.good).nonzero().flatten()
        label[split[NEW]] = find_positions([labels[row] for row in split[NEW].tolist()], label_names)
    store, forms, of_inputs, preparation, of_fit = reader.fit_transform(read, split["train"], problems)
    left_out = problems.raise_if_any(splitting.on_bad_rows)
    split = {name: part[problems.good[part]] for name, part in split.items()}  # less the files that cannot be read
    attribute, attribute_names = encode_labels(combine_attributes(attributes or {}, len(label)), problems.good)
    values = len(attribute_names)
    if values > 100 and values * FEWEST_ROWS > len(label):
        raise InputError(
            f"{problems.place}: the attribute has {values:,} different values in {len(label):,} rows: name columns of "
            "few values, or write numbers as bins, such as pandas.cut(ages, 5) makes"
        )
    unknown = attribute[split["test"]] == UNKNOWN_ATTRIBUTE
    told = f"{int(unknown.sum()):,} of {len(unknown):,} test rows have no attribute: they count in no group"
    keys: Any = forms.get("texts", ())
    if isinstance(store, ArrayStore) and store.values.nbytes <= LARGE:
        keys = store.values.numpy()
    hashes = [hash(key if isinstance(key, str) else key.tobytes()) for key in keys]
    learned = {hashes[row] for row in split["train"].tolist()} if hashes else set()
    seen = sum(hashes[row] in learned for row in split["test"].tolist()) if hashes else 0
    if seen:
        notes = [*notes, f"{seen:,} of {len(unknown):,} test rows have the input of a training row: are they copies?"]
    return DataTable(
        inputs=store,
        label=torch.where(is_new, label, label.clamp(min=0)),
        attribute=attribute,
        split=split,
        label_names=label_names,
        attribute_names=attribute_names,
        metadata={"source": source} | of_inputs | {"split": how},
        notes=(*left_out, *notes, *describe_equal_numbers(label_names), *of_reader, *of_fit),
        attribute_notes=(told,) if unknown.any() and not unknown.all() else (),
        preparation=preparation,
        row_names=row_names,
        drawn=tuple(name for name in SPLITS[1:] if given is None or name not in given),
        **forms,
        **more,
    )


def check_labels_distinct(labels: Sequence[str | None], names: Sequence[str], place: str) -> None:
    """Raise ``InputError`` if two of these names of labels look alike to people."""
    alike: dict[str, list[str]] = {}
    for name in names:
        key = " ".join(normalize_text(name, "NFKC").casefold().split())
        alike.setdefault(key, []).append(f"{name!r} ({labels.count(name):,})")
    same = [" and ".join(several) for several in alike.values() if len(several) > 1]
    if same:
        raise InputError(
            f"{place}: labels that differ only in case, blanks or the form of letters: "
            f"{format_first(same, MAX_SHOWN)}: write them alike if they mean the same, else give each a name of its own"
        )


def describe_equal_numbers(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on names of labels that are one number written in several ways; none without such."""
    equal: dict[Decimal, list[str]] = {}
    for name in names:
        if NUMBER.fullmatch(name):
            equal.setdefault(Decimal(name), []).append(repr(name))
    several = [" and ".join(same) for same in equal.values() if len(same) > 1]
    fact = "labels that are one number, but count as different ones, as they are written"
    return (f"{fact}: {format_first(several, MAX_SHOWN, '; ')}",) if several else ()


def encode_labels(values: Sequence[str | None], good: Tensor) -> tuple[Tensor, list[str]]:
    """Number the values of good rows, -1 where a row is bad or has none; numbers sort as numbers, names as texts."""
    kept = [value if usable else None for value, usable in zip(values, good.tolist(), strict=True)]
    found = {value for value in kept if value is not None}
    names = sorted(found, key=(lambda name: (float(name), name)) if all(map(_is_number, found)) else None)
    return find_positions(kept, names), names


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def find_positions(values: Sequence[str | None], names: Sequence[str]) -> Tensor:
    """Return the place of each value among ``names``, -1 where it is none of them; 1.0 is 1, see ``match_names``."""
    place: dict[str | None, int] = {name: i for i, name in enumerate(names)}
    place |= {written: place[name] for written, name in match_names(values, names).items()}
    return torch.tensor([place.get(value, -1) for value in values], dtype=torch.long)


def combine_attributes(attributes: Mapping[str, Sequence[str | None]], rows: int) -> Sequence[str | None]:
    """Return one attribute for each of so many rows: the only column's value, or the combination of several columns'.

    A row of which one value is unknown is unknown.
    """
    if len(attributes) < 2:
        return next(iter(attributes.values()), [None] * rows)
    return [
        None if None in values else ", ".join(f"{name}={value}" for name, value in zip(attributes, values, strict=True))
        for values in zip(*attributes.values(), strict=True)
    ]
