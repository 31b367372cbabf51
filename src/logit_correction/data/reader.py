"""What rows are, and how they become inputs: the one way for training rows and for new ones."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.frames import is_table, read_frame, row_names, what_rows_are, with_names
from logit_correction.data.images import SUFFIXES, Fit, Images, find_images, images_of, label_folders, printable
from logit_correction.data.rows import FIX, Problems
from logit_correction.data.stores import InputStore, Reader, array_store
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, InputWarning, reason_of
from logit_correction.types import DataInfo, as_array

if TYPE_CHECKING:
    import pandas as pd

#: New rows that are read at a time: image files, and others.
FILES_AT_A_TIME, ROWS_AT_A_TIME = 512, 50_000

#: Features of which each is a column that can be looked at alone; of more, one says little.
MOST_COLUMNS = 256


@dataclass(frozen=True)
class Rows:
    """Rows before they are read, in one of four forms: ``frame``, ``files``, ``texts`` or ``values``.

    Attributes:
        place: Where they are from, for messages.
        numbers: The number of each; the line of a CSV.
        folder: Where the files that a frame names lie.
        label: Of files, the folder of the label that each lies in.
    """

    place: str
    numbers: range | pd.Index
    frame: pd.DataFrame | None = None
    folder: Path | None = None
    files: Sequence[Path] | None = None
    label: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    values: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> Sequence[str]:
        """What messages call each row."""
        return row_names(self.numbers) if self.files is None else [printable(path) for path in self.files]

    def parts(self, size: int) -> Iterator[Rows]:
        """Yield the rows, so many at a time."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            forms = {name: getattr(self, name) for name in ("numbers", "files", "label", "texts", "values")}
            forms = {name: None if of is None else of[part] for name, of in forms.items()}
            yield replace(self, frame=None if self.frame is None else self.frame.iloc[part], **forms)


@dataclass(frozen=True)
class NewRows:
    """New rows as a network takes them; inputs of bad rows are anything finite. ``forms`` are those of ``Reader``."""

    rows: Rows
    store: InputStore
    forms: dict[str, Any]
    problems: Problems

    @property
    def answered(self) -> tuple[str, list[str]]:
        """What answers call the rows, and the name of each."""
        if "files" in self.forms:
            return "path", [printable(path) for path in self.forms["files"]]
        return what_rows_are(self.rows.numbers), [str(number) for number in self.rows.numbers]


class Numbers(Reader):
    """Reads arrays: feature vectors, standardised if mean and deviation are given, or images."""

    def __init__(self, scale: float = 1.0, mean: Any = None, std: Any = None) -> None:
        """Choose what inputs are multiplied by, and the mean (F,) and deviation (F,) of vectors."""
        self.scale, self.mean, self.std = scale, mean, std

    def transform(self, rows: Rows, problems: Problems) -> tuple[InputStore, dict[str, Any]]:
        """Return the arrays, and the columns of vectors, named by their number; what is not finite is noted, and 0."""
        if rows.values is None:
            raise InputError("this model takes arrays of numbers: give one")
        values = images_of(rows.values) if rows.values.ndim == 4 else rows.values
        given = values if self.mean is None else (values - self.mean) / self.std
        width = values.shape[1] if values.ndim == 2 else 0
        columns = {str(i): values[:, i] for i in range(width)} if width <= MOST_COLUMNS else {}
        return array_store(given, problems, self.scale), {"columns": columns}


def rows_of(given: Any, *, texts: bool = False, labelled: bool = False) -> Iterator[Rows]:
    """Yield rows as what they are; nothing else decides that.

    Args:
        given: A data frame, what has ``to_pandas``, a mapping of columns, an array or a tensor; a list of texts, of
            names of files, of mappings or of numbers; or a ``Path`` or several: image files, folders, CSV and Parquet.
        texts: Whether a str is a text, rather than the name of a file.
        labelled: Whether a folder holds a folder of images for each label.
    """
    given = [given] if isinstance(given, Path) else given
    frame = frame_of(given)
    if frame is not None:
        yield Rows("the table of new rows", range(len(frame)), frame=frame)
        return
    if not isinstance(given, Tensor | np.ndarray) or (isinstance(given, np.ndarray) and given.dtype.kind in "UO"):
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InputError(f"the inputs are one value of type {type(given).__name__}: give a list of rows")
        given = list(given)
        if all(isinstance(row, str | Path) for row in given):
            if texts and all(isinstance(row, str) for row in given):
                yield Rows("the new texts", range(len(given)), texts=given)
            else:
                yield from _rows_of_places([Path(row) for row in given], labelled, tables=texts)
            return
    try:
        values = as_array(given)
    except ValueError:  # rows of different lengths
        values = np.empty((), dtype=object)
    if not values.ndim or values.dtype.kind not in "uifb":
        raise InputError("the inputs are no rows: give numbers, texts, files or mappings of one kind, or a data frame")
    yield Rows("the new rows", range(len(values)), values=values)


def frame_of(given: Any) -> pd.DataFrame | None:
    """Return a data frame, what can become one, columns or a list of mappings as a data frame; None of others."""
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return with_names(given, [str(name) for name in given.columns], "the table")
    if hasattr(given, "to_pandas"):
        return given.to_pandas()
    try:
        if isinstance(given, Mapping) and not hasattr(given, "shape"):
            return pd.DataFrame({name: list(values) for name, values in given.items()})
        if isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
            return pd.DataFrame(given, dtype=object)  # a gap beside a 3 does not make it 3.0
    except (TypeError, ValueError) as error:
        raise InputError(f"the inputs cannot be read as a table ({reason_of(error)}): give a list of rows") from error
    return None


def _rows_of_places(places: Sequence[Path], labelled: bool, tables: bool) -> Iterator[Rows]:
    """Yield the rows of files, folders and tables, in their order; with ``tables`` a file is one unless an image."""
    files: list[Path] = []
    for place in places:
        image = place.suffix.lower() in SUFFIXES
        if place.is_dir():
            folders = label_folders(place) if labelled else {place: None}
            if any(folders.values()):
                raise InputError(f"{place} holds folders of splits: give one, such as {next(iter(folders)).parent}")
            found, of_file, problems, notes = find_images(place, folders)
            problems.raise_if_any(fix=FIX)
            for note in notes:
                warnings.warn(note, InputWarning, stacklevel=2)
            if labelled:
                label = [printable(folder.name) for folder in of_file]
                yield Rows(str(place), range(len(label)), files=found, label=label)
            else:
                files += found
        elif is_table(place) or (tables and not image) or not (place.exists() or image):
            if files:
                yield Rows("images", range(len(files)), files=files)
                files = []
            frame = read_frame(place)
            yield Rows(str(place), frame.index, frame, place.parent)
        else:
            files.append(place)
    if files:
        yield Rows("images", range(len(files)), files=files)


class DataSource(ABC):
    """A data set with its options; the constructor's signature is what the command line offers.

    A new source is one subclass, and one line in ``logit_correction.data.SOURCES``.

    Attributes:
        scale: What inputs, bytes brought to [0, 1] before, are multiplied by.
        image_size: Height and width of its images; None where it takes no image files.
        fit: How an image of other proportions is brought to this size.
        users_own: Whether it reads a user's own rows. Their texts and photos may be encoded without being asked.
    """

    scale: float = 1.0
    image_size: tuple[int, int] | None = None
    fit: Fit = "stretch"
    users_own: ClassVar[bool] = False

    @abstractmethod
    def build(self) -> DataTable:
        """Read or make the data; ``InputError`` names a file that is missing or damaged, and says how to fix it."""

    def ensure_files(self) -> None:  # noqa: B027  (most sources have no files of a known place)
        """Look for the files that ``build`` reads, or download them; ``InputError`` says where to get and put them."""

    @cached_property
    def reader(self) -> Reader:
        """What brings new rows into the form of the training rows."""
        return Numbers(self.scale) if self.image_size is None else Images(self.image_size, self.fit, self.scale)

    def new_rows(self, given: Any, *, labelled: bool = False) -> Iterator[Rows]:
        """Yield new rows as what they are; see ``rows_of``."""
        texts = not isinstance(self.reader, Images | Numbers)
        return rows_of(given, texts=texts, labelled=labelled)

    def read(self, rows: Rows, info: DataInfo) -> Iterator[NewRows]:
        """Yield new rows as the networks take them, some at a time; ``info`` is what inputs are."""
        reader, files = self.reader, isinstance(self.reader, Images) and rows.values is None
        for part in rows.parts(FILES_AT_A_TIME if files else ROWS_AT_A_TIME):
            problems = Problems(part.place, part.names)
            store, forms = reader.transform(part, problems)
            if not info.tokens and tuple(store.input_shape) != tuple(info.input_shape):
                raise InputError(f"inputs have shape {store.input_shape}, but must have {tuple(info.input_shape)}")
            yield NewRows(part, store, forms, problems)

    def transform(self, given: Any, info: DataInfo) -> Iterator[NewRows]:
        """Yield new rows, whatever they are, as the networks take them; ``InputError`` if rows are bad."""
        for rows in self.new_rows(given):
            for part in self.read(rows, info):
                part.problems.raise_if_any(fix=FIX)
                yield part
