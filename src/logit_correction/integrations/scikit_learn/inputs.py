"""The rows of a scikit-learn user: what they are, and how a network and views take them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.data import features
from logit_correction.data.arrays import Channels, channels_first, checked_values, columns_of
from logit_correction.data.features import Columns
from logit_correction.data.frames import are_texts, row_names, texts_of
from logit_correction.data.rows import Problems
from logit_correction.data.stores import ArrayStore, InputStore, SideBySide, as_views_see
from logit_correction.data.table_file import FIX
from logit_correction.data.texts import hashed_words, tokenize
from logit_correction.errors import InputError, did_you_mean
from logit_correction.views.base import ViewInputs

if TYPE_CHECKING:
    import pandas as pd

#: What rows are: numbers (n, F), images, a data frame that holds more than numbers, or texts.
Kind: TypeAlias = Literal["numbers", "images", "columns", "texts"]


@dataclass(frozen=True)
class Reading:
    """How a user wants rows to be read.

    Attributes:
        text: Column of texts in a data frame.
        tokenizer: Splits texts for a language model; without one, words are counted.
        max_tokens: Tokens of a text that are read.
        num_words: Length of the vector of counted words.
        channels: Where images have their channels.
    """

    text: str | None = None
    tokenizer: str | None = None
    max_tokens: int = 128
    num_words: int = 4096
    channels: Channels | None = None


@dataclass(frozen=True)
class Rows:
    """n rows as a network takes them, and in what other forms views may look at them."""

    store: InputStore
    looks: dict[str, Any]

    @property
    def views(self) -> ViewInputs:
        """The rows as views look at them."""
        return as_views_see(self.store, self.looks)


@dataclass(frozen=True)
class Form:
    """How rows are read, learnt from the training rows; plain values and arrays.

    Attributes:
        kind: What rows are.
        reading: What the user wants.
        shape: Of one image (C, H, W).
        mean, std: (F,) of numbers.
        columns: Of a data frame, what each column was found to be.
        names: Of numbers in a data frame, the F names of the columns.
    """

    kind: Kind
    reading: Reading
    shape: tuple[int, ...] = ()
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    std: NDArray[np.float64] = field(default_factory=lambda: np.ones(0))
    columns: list[features.Column] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @classmethod
    def learn(cls, kind: Kind, X: Any, reading: Reading, train: NDArray[np.int64], names: Sequence[str] | None) -> Form:
        """Find out how rows are to be read.

        Args:
            kind: What ``kind_of`` said of them.
            X: The rows, as ``checked`` returned them.
            reading: What the user wants.
            train: Rows that are trained on, from which means and categories are.
            names: Of the columns, where numbers have such.

        Raises:
            InputError: If rows are bad, or there is no such column of texts.
        """
        if kind == "numbers":
            with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest float: such a column is 0
                mean, std = features.mean_and_std(X[train])
            return cls(kind, reading, mean=mean, std=std, names=[] if names is None else [str(name) for name in names])
        if kind == "images":
            return cls(kind, reading, shape=X.shape[1:])
        if kind == "texts":
            return cls(kind, reading)
        chosen, problems = [name for name in X.frame.columns if name != reading.text], _problems(X)
        features.note_bad_features(X, chosen, problems)
        problems.raise_if_any("error", hint=FIX)
        return cls(kind, reading, columns=features.learn_columns(X, chosen, torch.from_numpy(train)))

    def read(self, X: Any) -> Rows:
        """Return rows as networks and views take them.

        Raises:
            InputError: If rows are bad.
        """
        if self.kind == "texts":
            return Rows(self._words(X), {"texts": X})
        if self.kind == "columns":
            return self._read_columns(X)
        if self.kind == "images":
            if X.shape[1:] != self.shape:
                raise InputError(f"images are of shape {X.shape[1:]} (channels first), but were {self.shape} in fit")
            return Rows(ArrayStore(torch.from_numpy(np.require(X, requirements=["C", "W"]))), {})
        scaled = (X - self.mean) / self.std
        columns = columns_of(X)
        if self.names:
            columns = dict(zip(self.names, columns.values(), strict=False))  # of very many there are no columns to see
        return Rows(ArrayStore(torch.from_numpy(scaled.astype(np.float32))), {"columns": columns})

    def _read_columns(self, columns: Columns) -> Rows:
        problems = _problems(columns)
        looks: dict[str, Any] = {"columns": features.plain_columns(columns, self.columns)}
        parts: list[InputStore] = []
        if self.columns:
            parts.append(ArrayStore(features.to_vectors(columns, self.columns, problems)))
        problems.raise_if_any("error", hint=FIX)
        if self.reading.text is not None:
            looks["texts"] = [text or "" for text in texts_of(columns.frame, self.reading.text)]
            parts.append(self._words(looks["texts"]))
        return Rows(parts[0] if len(parts) == 1 else SideBySide(parts), looks)

    def _words(self, texts: list[str]) -> InputStore:
        reading = self.reading
        if reading.tokenizer is None:
            return hashed_words(texts, reading.num_words)
        if self.columns:
            raise InputError("a language model takes texts alone: leave tokenizer out, or all other columns")
        with tempfile.TemporaryDirectory(prefix="logit-correction-") as place:  # read into memory, and not kept
            return tokenize(texts, reading.tokenizer, reading.max_tokens, Path(place))

    def state(self) -> dict[str, Any]:
        """Return plain values and arrays."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Form:
        """Return the form that ``state`` was made of."""
        return cls(**{**state, "reading": Reading(**state["reading"])})


def kind_of(X: Any, reading: Reading) -> Kind:
    """Return what rows are.

    Raises:
        InputError: If there is no such column of texts, texts are to be read in rows without columns, or rows are a
            mapping.
    """
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a sparse matrix may be one too, and is refused as such
        raise InputError("the rows are a mapping: give a data frame, such as pandas.DataFrame(rows)")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        if reading.text is not None and reading.text not in X.columns:
            hint = did_you_mean(reading.text, map(str, X.columns))
            raise InputError(f"the rows have no column {reading.text!r}{hint}: give text= another one, or leave it out")
        plain = all(getattr(dtype, "kind", "O") in "uif" and isinstance(dtype, np.dtype) for dtype in X.dtypes)
        if plain and reading.text is None and not X.isna().to_numpy().any():
            return "numbers"
        return "columns"  # which may have missing values
    if reading.text is not None:
        raise InputError(f"text={reading.text!r} names a column, but the rows are no data frame: leave it out")
    if getattr(X, "ndim", 0) == 4:
        return "images"
    return "texts" if are_texts(X) else "numbers"


def checked_images(X: Any, channels: Channels | None) -> NDArray[Any]:
    """Return images (n, C, H, W), unsigned bytes or float32.

    Raises:
        InputError: If they are something else.
    """
    images = np.asarray(X)
    if not len(images):
        raise InputError("there are 0 images: give at least one of each label")
    images = channels_first(checked_values(images), channels)
    if images.dtype != np.uint8 and not np.isfinite(images).all():
        row = int(np.flatnonzero(~np.isfinite(images).all(axis=(1, 2, 3)))[0])
        raise InputError(f"the image of row {row} holds NaN or infinity: fix or remove the row")
    return images


def checked_columns(X: Any) -> Columns:
    """Return the columns of a data frame, which have texts for names.

    Raises:
        InputError: If two columns have one name, or there are no rows.
    """
    frame: pd.DataFrame = (X.to_pandas() if hasattr(X, "to_pandas") else X).rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()].tolist()
    if twice:
        raise InputError(f"two columns have the name {twice[0]!r}: rename one")
    if not len(frame):
        raise InputError("the data frame has 0 rows: give at least one of each label")
    return Columns(frame)


def _problems(columns: Columns) -> Problems:
    return Problems("the rows", row_names(range(len(columns))))
