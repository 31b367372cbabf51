"""The rows that a user gives: what is wrong with them, the files that they name, their splits, and their table."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.augment import Augmentation
from logit_correction.data.frames import check_columns, row_names, texts_of
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.errors import InputError, check_range, format_first
from logit_correction.files import is_within
from logit_correction.seeds import make_generator

if TYPE_CHECKING:
    import pandas as pd


OnBadRows = Literal["error", "skip"]


class BadRows(InputError):
    """Rows are bad.

    Attributes:
        faults: Number of a row -> what is wrong with it.
    """

    def __init__(self, message: str, faults: dict[int, str]) -> None:
        super().__init__(message)
        self.faults = faults


#: So many faults are spelled out; the others are counted.
SHOWN = 10


class Problems:
    """Faults of rows, in the order of the rows.

    >>> problems = Problems("birds.csv", ["line 2", "line 3"])
    >>> problems.add(1, "'b.png' is missing")
    >>> problems.raise_if_any("error")
    Traceback (most recent call last):
    ...
    logit_correction.data.rows.BadRows: birds.csv: 1 row is bad: line 3: 'b.png' is missing; fix it, or leave such
    rows out by --data.on_bad_rows skip
    """

    def __init__(self, place: str, rows: Sequence[str]) -> None:
        """Start with none.

        Args:
            place: The file or folder that the rows are from.
            rows: What each row is called, such as ``line 2``.
        """
        self.place, self.rows = place, rows
        self._faults: dict[int, str] = {}
        self._advice: dict[str, None] = {}

    def add(self, row: int, fault: str, advice: str = "") -> None:
        """Note a fault; the first one of a row counts. ``advice`` is told once for all rows that have it."""
        if self._faults.setdefault(int(row), fault) == fault and advice:
            self._advice[advice] = None

    def __len__(self) -> int:
        return len(self._faults)

    @property
    def good(self) -> Tensor:
        """(M,) bool, whether each row is good."""
        good = torch.ones(len(self.rows), dtype=torch.bool)
        good[list(self._faults)] = False
        return good

    def raise_if_any(self, on_bad_rows: OnBadRows, hint: str = "") -> tuple[str, ...]:
        """Return what to tell of rows left out, nothing if all are good.

        Args:
            on_bad_rows: error or skip.
            hint: How to fix it; by default also that rows can be skipped.

        Raises:
            BadRows: If there are bad rows and they are not to be skipped.
            InputError: If there are no good ones.
        """
        if not self._faults:
            return ()
        count = len(self._faults)
        what = "1 row is bad" if count == 1 else f"{count:,} rows are bad"
        if on_bad_rows == "error":
            them = "it, or leave such rows" if count == 1 else "them, or leave them"
            hint = hint or f"fix {them} out by --data.on_bad_rows skip"
            raise BadRows(f"{self.place}: {what}: {'; '.join([str(self), hint, *self._advice])}", dict(self._faults))
        if count == len(self.rows):
            raise InputError(f"{self.place}: {what}, so none is left: {'; '.join([str(self), *self._advice])}")
        left_out = "1 bad row was" if count == 1 else f"{count:,} bad rows were"
        return (f"{self.place}: {left_out} left out: {self}",)

    def __str__(self) -> str:
        return format_faults([f"{self.rows[row]}: {fault}" for row, fault in sorted(self._faults.items())])


def format_faults(faults: list[str]) -> str:
    """Join the first ten faults, and say how many more there are.

    >>> format_faults([f"row {i}" for i in range(12)])
    'row 0; row 1; row 2; row 3; row 4; row 5; row 6; row 7; row 8; row 9; and 2 more'
    """
    more = [f"and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
    return "; ".join([*faults[:SHOWN], *more])


#: What is said of a name that leaves its folder.
_OUTSIDE = "lies outside of"


def files_within(
    root: Path,
    names: Sequence[str | None],
    problems: Problems,
    column: str = "",
    look: bool = True,
    also: Path | None = None,
    advice: str = "",
) -> list[Path]:
    """Return the files that the rows of a table name; a name that leaves ``root`` is a problem of its row.

    Args:
        root: The folder.
        names: M names, None or empty where there is none.
        problems: Problems of the M rows, more are added.
        column: What names the files, for messages.
        look: Whether to look at each file: it must be there, and no link may lead out of ``root``.
        also: Another folder, for names that are no files in ``root``.
        advice: What to do about names that leave the folder.

    Returns:
        M paths, ``root`` itself for bad names.
    """
    folders = [root] if also is None else [root, also]
    bases = [(folder, (os.path.realpath if look else os.path.abspath)(folder)) for folder in folders]
    paths = []
    for row, name in enumerate(names):
        faults = []
        for folder, base in bases:
            path = folder / (name or "")
            fault = _fault_of(path, name, folder, base, look) if name else f"column {column!r} is empty"
            if not fault:
                break
            faults.append(fault)
        else:
            path = root
            outside = any(_OUTSIDE in fault for fault in faults)
            problems.add(row, " and ".join(dict.fromkeys(faults)), advice if outside else "")
        paths.append(path)
    return paths


def _fault_of(path: Path, name: str, root: Path, base: str, look: bool) -> str:
    """Return what is wrong with a file of a name in ``root``, whose full path is ``base``; nothing if it is good."""
    if "\0" in name or not is_within(path, base, follow=look):
        return f"{name!r} {_OUTSIDE} {root}"
    return f"{name!r} is missing in {root}" if look and not os.path.isfile(path) else ""


#: What people call the splits.
ALIASES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}

#: The splits in the columns of published metadata files.
NUMBERS = {"0": "train", "1": "valid", "2": "test"}

#: Labels that a message names.
MOST_NAMED = 10


@dataclass(frozen=True)
class Splitting:
    """How rows are parted where no split is given.

    Attributes:
        valid_fraction: Fraction of the rows of each label that goes to validation; 0 leaves it without rows.
        test_fraction: Fraction of the rows of each label that goes to the test; likewise.
        seed: Seed of the draw.
    """

    valid_fraction: float
    test_fraction: float
    seed: int

    def __post_init__(self) -> None:
        """Check the fractions.

        Raises:
            InputError: If one is not in [0, 1), or nothing is left to train on.
        """
        for name in ("valid_fraction", "test_fraction"):
            check_range(f"--data.{name}", getattr(self, name), 0, 1, open_end=True)
        if self.valid_fraction + self.test_fraction >= 1:
            raise InputError("--data.valid_fraction and --data.test_fraction leave no row to train on: lower them")


def split_name(value: str, numbers: bool = True) -> str | None:
    """Return train, valid or test for what people call them, None for anything else.

    Args:
        value: What somebody wrote.
        numbers: Whether 0, 1 and 2 are splits, as in a column; a folder of such a name is a label.

    >>> split_name("Val"), split_name("2"), split_name("2", numbers=False), split_name("holdout")
    ('valid', 'test', None, None)
    """
    name = value.strip().lower()
    return ALIASES.get(name) or (NUMBERS.get(name) if numbers else None)


def consecutive_splits(*sizes: int) -> dict[str, Tensor]:
    """Return the rows of train, valid and test where they follow each other, each of a given size."""
    parts = torch.arange(sum(sizes)).split(sizes)
    return dict(zip(("train", "valid", "test"), parts, strict=True))


def make_splits(
    label: Tensor, given: Sequence[str | None] | None, label_names: Sequence[str], splitting: Splitting
) -> tuple[dict[str, Tensor], str]:
    """Return the rows of train, valid and test, and one line on where they are from.

    A split that is given stays as it is. Missing ones are drawn from the training rows, or from all rows if no split
    is given: label by label, so that each has its share of every label. Attributes are never looked at.

    Args:
        label: (M,) long; -1 for rows that belong nowhere.
        given: The split of each row, or None where none is given.
        label_names: L names.
        splitting: Fractions and seed.

    Raises:
        InputError: If a label has too few rows, or no row is for training.
    """
    rows = (label >= 0).nonzero().flatten()
    if given is None:
        split = {"train": rows}
    else:
        names = np.asarray(given, dtype=object)[rows.numpy()]
        split = {name: rows[torch.from_numpy(names == name)] for name in ("train", "valid", "test")}
        split = {name: part for name, part in split.items() if len(part)}
        if "train" not in split:
            raise InputError("no row is for training: give some rows the split train")
    missing = [name for name in ("valid", "test") if name not in split]
    shares = {name: getattr(splitting, f"{name}_fraction") for name in missing}
    if missing:
        split |= _drawn(split["train"], label, label_names, shares, splitting.seed)
    drawn = ", ".join(f"{100 * share:g} % {name}" for name, share in shares.items())
    how = f"drawn label by label, {drawn}, seed {splitting.seed}"
    source = "given" if not missing else how if given is None else f"given; {how} from the training rows"
    return {name: split[name] for name in ("train", "valid", "test")}, source


def _drawn(
    rows: Tensor, label: Tensor, label_names: Sequence[str], shares: dict[str, float], seed: int
) -> dict[str, Tensor]:
    """Part ``rows`` label by label; each part with a share has at least one row of every label."""
    least = sum(share > 0 for share in shares.values()) + 1
    counts = torch.bincount(label[rows], minlength=len(label_names)).tolist()
    few = [f"{name} {count}" for name, count in zip(label_names, counts, strict=True) if 0 < count < least]
    if few:
        hint = "add rows, drop the label, or give a split"
        if 2 * len(few) > len(rows):
            hint = f"with {len(few):,} such labels among {len(rows):,} rows, is it the column of labels?"
        raise InputError(
            f"labels with too few rows to split (rows per label: {format_first(few, MOST_NAMED)}): "
            f"each needs at least {least}, one a split; "
            f"{hint}"
        )
    parts: dict[str, list[Tensor]] = {name: [] for name in ("train", *shares)}
    for y, name in enumerate(label_names):
        own = rows[label[rows] == y]
        # A generator of its own for each label: more rows of one label leave the split of the others as it was.
        own = own[torch.randperm(len(own), generator=make_generator(seed, "split", str(name)))]
        for part, share in shares.items():
            count = min(max(1, round(share * counts[y])), len(own) - 1) if share and len(own) else 0
            parts[part].append(own[:count])
            own = own[count:]
        parts["train"].append(own)
    return {name: torch.cat(part).sort().values for name, part in parts.items()}


#: Rows that are compared together, and places of an input that are compared first.
CHUNK, PLACES = 65_536, 64


def partly_known(attribute: Tensor, split: dict[str, Tensor]) -> list[str]:
    """Tell of test rows that count in no group, beside others that do."""
    unknown = attribute[split["test"]] == UNKNOWN
    count, total = int(unknown.sum()), len(unknown)
    if not 0 < count < total:
        return []
    return [f"{count:,} of {total:,} test rows have no attribute: they count in the average and in no group"]


def thin_splits(label: Tensor, split: dict[str, Tensor], label_names: Sequence[str]) -> list[str]:
    """Tell of labels that validation or the test has not got."""
    notes = []
    for name in ("valid", "test"):
        present = set(label[split[name]].tolist())
        absent = [label_name for y, label_name in enumerate(label_names) if y not in present]
        if absent:
            notes.append(f"the {name} split has no row with label {', '.join(absent)}: nothing can be said of it there")
    return notes


def alike_names(what: str, names: Sequence[str]) -> list[str]:
    """Tell of names that are probably one, written in several ways.

    Args:
        what: What they name, such as labels.
        names: The names, each once.

    >>> alike_names("labels", ["Sick", "well", "sick"])[0].partition(" are taken")[0]
    "labels that differ only in how they are written: 'Sick' and 'sick'"
    >>> alike_names("labels", ["0", "1"])
    []
    """
    alike: dict[float | str, list[str]] = {}
    for name in names:
        alike.setdefault(_plain(name), []).append(name)
    found = [" and ".join(map(repr, same)) for same in alike.values() if len(same) > 1]
    if not found:
        return []
    written = f"{what} that differ only in how they are written: {format_faults(found)}"
    return [f"{written} are taken for different ones; if they are the same, write them alike"]


def _plain(name: str) -> float | str:
    """Return a name without what people write now so and now so: capitals, blanks, the form of a number."""
    plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    try:
        number = float(plain)
    except ValueError:
        return plain
    return plain if math.isnan(number) else number


def copies_told(table: DataTable) -> DataTable:
    """Return a table whose notes also tell of test rows that training has; its inputs must be those of the networks."""
    return replace(table, notes=(*table.notes, *seen_in_training(table)))


def seen_in_training(table: DataTable) -> list[str]:
    """Tell of test rows whose text, features or image a training row has too.

    Such a row may be a copy under another number or name, which no comparison of whole rows finds. Images that do not
    stay in memory are not looked at, nor are tokens.
    """
    train, test = (table.split[name].numpy() for name in ("train", "test"))
    keys = _keys(table, train, test)
    seen = np.isin(keys[test], keys[train])
    count = int(seen.sum())
    if not count:
        return []
    pairs = keys * len(table.label_names) + table.label.numpy()
    other = count - int(np.isin(pairs[test], pairs[train]).sum())
    what = "text" if table.texts is not None else "image" if len(table.inputs.input_shape) == 3 else "features"
    under = f", {other:,} of them under another label only" if other else ""
    told = f"{count:,} of {len(test):,} test rows have the same {what} as a training row{under}"
    return [f"{told}: there the test shows what was learned by heart; if they are copies, leave them out of the test"]


def _keys(table: DataTable, train: NDArray[np.int64], test: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (M,) numbers, the same for those training and test rows that have the same text or the same values."""
    import pandas as pd

    if table.texts is not None:
        return pd.factorize(np.asarray(table.texts, dtype=object))[0]
    if not isinstance(table.inputs, ArrayStore):
        return np.arange(len(table.label))
    values = table.inputs.values.flatten(1).numpy()
    step = max(1, values.shape[1] // PLACES)
    parts = [values[start : start + CHUNK, ::step] for start in range(0, len(values), CHUNK)]
    keys = pd.factorize(
        np.concatenate([pd.util.hash_pandas_object(pd.DataFrame(part), index=False) for part in parts])
    )[0]
    if step > 1:  # what is the same in some places may differ in others
        alike = np.flatnonzero(np.isin(keys, np.intersect1d(keys[train], keys[test])))
        keys[alike] = len(keys) + pd.factorize(np.asarray([hash(values[row].tobytes()) for row in alike]))[0]
    return keys


#: Most values of an attribute; a column of more is hardly one.
MOST_ATTRIBUTES = 1000


@dataclass
class Records:
    """Rows as they were found, with everything still a text.

    Attributes:
        problems: What is wrong with rows; it knows where they are from, and what messages call each.
        label: The label of each row, None where it is missing.
        split: The split of each row as it is written, None where none is given at all.
        attributes: For each attribute column the values, None where unknown.
        keys: Rows with the same key are the same row; None does not look for such.
        row_names: What a reader of the report is shown of each row.
        metadata: What a reader of a result must know.
        notes: What a user should be told.
    """

    problems: Problems
    label: list[str | None]
    split: list[str | None] | None = None
    attributes: dict[str, list[str | None]] = field(default_factory=dict)
    keys: Iterable[Hashable] | None = None
    row_names: Sequence[str] | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def records_of_frame(
    frame: pd.DataFrame, place: str, label: str, split: str | None, attributes: Sequence[str]
) -> Records:
    """Take label, split and attributes out of the table of a file.

    Raises:
        InputError: If a column is missing.
    """
    check_columns(frame, place, [label, *([split] if split else []), *attributes])
    return Records(
        problems=Problems(place, row_names(frame.index)),
        label=texts_of(frame, label),
        split=texts_of(frame, split) if split else None,
        attributes={name: texts_of(frame, name) for name in attributes},
    )


def build_table(
    raw: Records,
    inputs: Callable[[], InputStore],
    splitting: Splitting,
    on_bad_rows: OnBadRows,
    augment: Augmentation | None = None,
) -> DataTable:
    """Make the table of rows that a user gave.

    Everything that is wrong with single rows is gathered before it is told. Rows that are left out stay in the table
    and belong to no split.

    Args:
        raw: The rows, with the problems that the source has found already; more are added.
        inputs: Makes the store of all rows, bad ones too, and may add to the problems; called when all else is checked.
        splitting: How to draw the splits that are not given.
        on_bad_rows: error or skip.
        augment: For the training images.

    Raises:
        InputError: If rows are bad and not to be skipped, or labels or splits cannot be trained on.
    """
    given = None if raw.split is None else [None if value is None else split_name(value) for value in raw.split]
    problems = raw.problems
    _check_rows(raw, given)
    if on_bad_rows == "skip" or not len(problems):  # else the rows are told first, together with unreadable files
        problems.raise_if_any(on_bad_rows)  # where none is left
        _labels_and_splits(raw, given, splitting)
    store = inputs()
    notes = problems.raise_if_any(on_bad_rows)
    label, label_names, split, how = _labels_and_splits(raw, given, splitting)
    attribute, attribute_names = combined(raw.attributes, problems.good)
    if len(attribute_names) > MOST_ATTRIBUTES:
        raise InputError(
            f"{problems.place}: attribute {', '.join(raw.attributes)} has {len(attribute_names):,} different values, "
            f"more than {MOST_ATTRIBUTES:,}: name columns of few values"
        )
    return DataTable(
        inputs=store,
        label=label.clamp(min=0),
        attribute=attribute,
        split=split,
        label_names=label_names,
        attribute_names=attribute_names,
        metadata=raw.metadata | {"split": how},
        notes=(*notes, *raw.notes, *thin_splits(label, split, label_names), *alike_names("labels", label_names)),
        attribute_notes=(*partly_known(attribute, split), *alike_names("values of the attribute", attribute_names)),
        augment=augment,
        row_names=raw.row_names,
    )


def coded(values: Sequence[str | None], good: Tensor) -> tuple[Tensor, list[str]]:
    """Number the values of good rows, -1 where a row is bad or has none; numbers sort as numbers, names as texts.

    >>> coded(["10", "9", None, "10"], torch.ones(4, dtype=torch.bool))
    (tensor([ 1,  0, -1,  1]), ['9', '10'])
    """
    kept = [value if usable else None for value, usable in zip(values, good.tolist(), strict=True)]
    found = {value for value in kept if value is not None}
    names = sorted(found, key=(lambda name: (float(name), name)) if all(map(_is_number, found)) else None)
    number = {name: i for i, name in enumerate(names)}
    return torch.tensor([-1 if value is None else number[value] for value in kept], dtype=torch.long), names


def combined(attributes: dict[str, list[str | None]], good: Tensor) -> tuple[Tensor, list[str]]:
    """Return one attribute for each row: the only column's value, or the combination of several columns' values.

    A row of which one value is unknown is unknown; combinations that no row has are left out.

    >>> both = {"sex": ["f", "m", "f"], "age": ["old", "young", None]}
    >>> combined(both, torch.ones(3, dtype=torch.bool))
    (tensor([ 0,  1, -1]), ['sex=f, age=old', 'sex=m, age=young'])
    """
    if not attributes:
        return torch.full((len(good),), UNKNOWN, dtype=torch.long), []
    columns = [coded(values, good) for values in attributes.values()]
    if len(columns) == 1:
        return columns[0]
    stacked = torch.stack([number for number, _ in columns], dim=1)
    known = (stacked >= 0).all(1)
    found, place = stacked[known].unique(dim=0, return_inverse=True)
    attribute = torch.full((len(good),), UNKNOWN, dtype=torch.long)
    attribute[known] = place
    names = [
        ", ".join(f"{column}={values[i]}" for column, (_, values), i in zip(attributes, columns, row, strict=True))
        for row in found.tolist()
    ]
    return attribute, names


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _check_rows(raw: Records, given: list[str | None] | None) -> None:
    """Note labels and splits that are missing or wrong, repeated rows, and labels that training does not know."""
    problems = raw.problems
    first = {} if raw.keys is None else _repeated(raw.keys)
    for row, label in enumerate(raw.label):
        if label is None:
            problems.add(row, "has no label")
        if given is not None and raw.split is not None and given[row] is None:
            split = raw.split[row]
            problems.add(row, "has no split" if split is None else f"split {split!r} is none of train, valid, test")
        if row in first:
            problems.add(row, f"repeats {problems.rows[first[row]]}")
    if given is None:
        return
    good = problems.good.tolist()
    rows = [row for row, usable in enumerate(good) if usable]
    known = {raw.label[row] for row in rows if given[row] == "train"}
    for row in rows:
        if known and raw.label[row] not in known:
            problems.add(row, f"label {raw.label[row]!r} is in the {given[row]} split but not in train")


def _repeated(keys: Iterable[Hashable]) -> dict[int, int]:
    """Return the rows that repeat an earlier one -> the first such row.

    >>> _repeated(["a", "b", "a", "a"])
    {2: 0, 3: 0}
    """
    import pandas as pd

    values = keys if isinstance(keys, pd.Series) else np.fromiter(keys, dtype=object)
    number, _ = pd.factorize(values, use_na_sentinel=False)
    _, first = np.unique(number, return_index=True)
    rows = np.flatnonzero(first[number] != np.arange(len(number)))
    return dict(zip(rows.tolist(), first[number[rows]].tolist(), strict=True))


def _labels_and_splits(
    raw: Records, given: list[str | None] | None, splitting: Splitting
) -> tuple[Tensor, list[str], dict[str, Tensor], str]:
    place = raw.problems.place
    label, names = coded(raw.label, raw.problems.good)
    if len(names) < 2:
        found = f"the only label is {names[0]!r}" if names else "no row has a label"
        raise InputError(f"{place}: {found}: a classifier needs rows of at least two labels")
    try:
        split, how = make_splits(label, given, names, splitting)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return label, names, split, how
