"""The rows of a scikit-learn user: what they are, and how a network and views take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.data import reader
from logit_correction.data.features import Columns, mean_and_std
from logit_correction.data.frames import row_names
from logit_correction.data.images import Channels, images_of
from logit_correction.data.rows import FIX, Problems
from logit_correction.data.stores import ArrayStore, InputStore, SideBySide, as_views_see
from logit_correction.data.texts import Texts
from logit_correction.errors import InputError, did_you_mean
from logit_correction.types import ViewInputs

if TYPE_CHECKING:
    import pandas as pd

#: What rows are: numbers (n, F), images, a data frame that holds more than numbers, or texts.
Kind: TypeAlias = Literal["numbers", "images", "columns", "texts"]


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
        text: Column of texts in a data frame.
        tokenizer: Splits texts for a language model; without one, words are counted.
        shape: Of one image (C, H, W).
        mean, std: (F,) of numbers.
        columns: Of a data frame, what each column was found to be.
        names: Of numbers in a data frame, the F names of the columns.
    """

    kind: Kind
    text: str | None = None
    tokenizer: str | None = None
    shape: tuple[int, ...] = ()
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    std: NDArray[np.float64] = field(default_factory=lambda: np.ones(0))
    columns: list[dict[str, Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @classmethod
    def learn(
        cls,
        kind: Kind,
        X: Any,
        train: NDArray[np.int64],
        names: Sequence[str] | None = None,
        text: str | None = None,
        tokenizer: str | None = None,
    ) -> tuple[Form, Rows]:
        """Find out how rows are to be read, and read them.

        Args:
            kind: What ``kind_of`` said of them.
            X: The rows, as ``checked_rows`` returned them.
            train: Rows that are trained on, from which means and categories are.
            names: Of the columns, where numbers have such.
            text: Column of texts in a data frame.
            tokenizer: Splits texts for a language model.

        Raises:
            InputError: If rows are bad.
        """
        if kind == "numbers":
            with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest float: such a column is 0
                mean, std = mean_and_std(X[train])
            form = cls(kind, mean=mean, std=std, names=[] if names is None else [str(name) for name in names])
            return form, form.read(X)
        if kind != "columns":
            form = cls(kind, tokenizer=tokenizer, shape=X.shape[1:] if kind == "images" else ())
            return form, form.read(X)
        chosen, problems = [name for name in X.columns if name != text], _problems(X)
        columns = Columns(chosen)
        vectors = None
        if chosen:
            columns.check(X, problems)
            problems.raise_if_any(fix=FIX)
            vectors = columns.fit(train)
        form = cls(kind, text, tokenizer, columns=columns.learnt)
        return form, form._with_texts(X, vectors)

    def read(self, X: Any) -> Rows:
        """Return rows as networks and views take them.

        Raises:
            InputError: If rows are bad.
        """
        if self.kind == "texts":
            return Rows(Texts(tokenizer=self.tokenizer).store(X), {"texts": X})
        if self.kind == "images":
            if X.shape[1:] != self.shape:
                raise InputError(f"images are of shape {X.shape[1:]} (channels first), but were {self.shape} in fit")
            return Rows(ArrayStore(torch.from_numpy(X)), {})
        if self.kind == "columns":
            columns, problems = Columns([one["name"] for one in self.columns]), _problems(X)
            columns.learnt, vectors = self.columns, None
            if self.columns:
                vectors = columns.transform(reader.Rows("the rows", range(len(X)), frame=X), problems)
            problems.raise_if_any(fix=FIX)
            return self._with_texts(X, vectors)
        numbers = reader.Numbers(mean=self.mean, std=self.std)
        store, looks = numbers.transform(reader.Rows("the rows", range(len(X)), values=X), _problems(X))
        if self.names and looks["columns"]:  # of very many there are no columns to see
            looks["columns"] = dict(zip(self.names, looks["columns"].values(), strict=True))
        return Rows(store, looks)

    def _with_texts(self, frame: pd.DataFrame, vectors: tuple[ArrayStore, dict[str, Any]] | None) -> Rows:
        if self.text is None:
            assert vectors is not None
            return Rows(*vectors)
        if self.tokenizer is not None and vectors is not None:
            raise InputError("a language model takes texts alone: leave tokenizer out, or all other columns")
        texts = frame[self.text].astype(object).where(frame[self.text].notna(), "").astype(str).tolist()
        store = Texts(tokenizer=self.tokenizer).store(texts)
        if vectors is None:
            return Rows(store, {"texts": texts, "columns": {}})
        return Rows(SideBySide([vectors[0], store]), {"texts": texts, **vectors[1]})

    def state(self) -> dict[str, Any]:
        """Return plain values and arrays."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Form:
        """Return the form that ``state`` was made of."""
        return cls(**state)


def kind_of(X: Any, text: str | None) -> Kind:
    """Return what rows are.

    Raises:
        InputError: If there is no such column of texts, or texts are to be read in rows without columns.
    """
    try:
        rows = next(reader.rows_of(X, texts=True))
    except (InputError, StopIteration):
        return "numbers"  # which scikit-learn's own checks refuse
    if rows.frame is not None:
        if text is not None and text not in rows.frame.columns:
            hint = did_you_mean(text, map(str, rows.frame.columns))
            raise InputError(f"the rows have no column {text!r}{hint}: give text= another one, or leave it out")
        dtypes = rows.frame.dtypes
        plain = all(getattr(dtype, "kind", "O") in "uif" and isinstance(dtype, np.dtype) for dtype in dtypes)
        return "numbers" if plain and text is None and not rows.frame.isna().to_numpy().any() else "columns"
    if text is not None:
        raise InputError(f"text={text!r} names a column, but the rows are no data frame: leave it out")
    if rows.values is not None and rows.values.ndim == 4:
        return "images"
    return "numbers" if rows.texts is None else "texts"


def checked_images(X: Any, channels: Channels | None) -> NDArray[Any]:
    """Return images (n, C, H, W), unsigned bytes or float32.

    Raises:
        InputError: If they are something else.
    """
    images = np.asarray(X)
    if not len(images):
        raise InputError("there are 0 images: give at least one of each label")
    images = images_of(images, channels)
    if images.dtype != np.uint8 and not np.isfinite(images).all():
        row = int(np.flatnonzero(~np.isfinite(images).all(axis=(1, 2, 3)))[0])
        raise InputError(f"the image of row {row} holds NaN or infinity: fix or remove the row")
    return images


def checked_frame(X: Any) -> pd.DataFrame:
    """Return a data frame whose columns have texts for names.

    Raises:
        InputError: If two columns have one name, or there are no rows.
    """
    frame = reader.frame_of(X)
    assert frame is not None
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()].tolist()
    if twice:
        raise InputError(f"two columns have the name {twice[0]!r}: rename one")
    if not len(frame):
        raise InputError("the data frame has 0 rows: give at least one of each label")
    return frame


def _problems(X: Any) -> Problems:
    return Problems("the rows", row_names(range(len(X))))
