"""What a user should be told of a table each of whose rows is good."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.problems import format_faults
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import UNKNOWN, DataTable

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
