"""What a data source is, and what new rows are: data frames, texts, files and arrays."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.features import compute_mean_and_std
from logit_correction.data.frames import (
    check_columns,
    convert_attributes_to_texts,
    convert_column_to_texts,
    convert_to_label_array,
    convert_to_storable,
    convert_to_text,
    is_table_file,
    read_frame,
    rename_columns,
)
from logit_correction.data.images import (
    IMAGE_SUFFIXES,
    ImageReader,
    convert_to_channels_first,
    find_images,
    find_label_folders,
)
from logit_correction.data.rows import (
    MAX_SHOWN,
    FittedInputs,
    Reader,
    RowErrors,
    Rows,
    build_array_store,
    find_positions,
)
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, InputWarning
from logit_correction.formatting import format_first, format_reason
from logit_correction.types import DataInfo, to_numpy
from logit_correction.unicode_text import normalize_text

if TYPE_CHECKING:
    import pandas as pd

#: Names of n rows, or the column of a data frame that holds them.
RowValues: TypeAlias = "str | Sequence[Any] | NDArray[Any] | Tensor | pd.Series"

#: New rows that are read at a time: image files, and others; and how many probabilities of theirs.
FILES_AT_A_TIME, ROWS_AT_A_TIME, ANSWERS_AT_A_TIME = 512, 50_000, 1_000_000


#: A deviation by which any number becomes 0: nothing was learnt of what another value means.
NEVER_VARIED = 1e300


class NumericReader(Reader):
    """Reads arrays: images, or feature vectors, standardised by the training rows where there are some."""

    MOST_SEEN = 256  # features of which each is a column that can be looked at alone; of more, one says little

    mean: Any = None  # (F,) of vectors, and their deviation
    std: Any = None

    def validate(self, rows: Rows) -> tuple[NDArray[Any], None, list[str]]:
        """Return the arrays; rows that are not finite are noted."""
        if rows.values is None:
            raise InputError("this model takes arrays of numbers: give one")
        values = convert_to_channels_first(rows.values) if rows.values.ndim == 4 else rows.values
        if values.ndim == 2 and values.dtype == np.uint8:  # only bytes of images are divided by 255
            values = values.astype(np.float32)
        build_array_store(values, rows.errors)
        return values, None, []

    def validate_new(self, rows: Rows) -> NDArray[Any]:
        """Return the arrays, which must be as wide as those of training."""
        values = self.validate(rows)[0]
        if self.mean is not None and values.shape[1:] != self.mean.shape:
            raise InputError(f"inputs have shape {values.shape[1:]}, but must have {self.mean.shape}")
        return values

    def fit(self, read: NDArray[Any], train: Tensor, problems: RowErrors) -> None:
        """Find out mean and deviation of each number of vectors."""
        self.mean = self.std = None
        if read.ndim == 2 and len(train):
            values = read[train.numpy()].astype(np.float64)
            self.mean, std = compute_mean_and_std(values)
            self.std = np.where(values.max(axis=0) > values.min(axis=0), std, NEVER_VARIED)

    def encode(self, read: NDArray[Any], problems: RowErrors) -> FittedInputs:
        """Return the arrays as inputs, and the columns of vectors, named by their number."""
        width = read.shape[1] if read.ndim == 2 else 0
        given = read if self.mean is None else (read - self.mean) / self.std  # before they lose digits, as tables are
        store = build_array_store(given, problems)
        forms = {"columns": {str(i): read[:, i] for i in range(width)} if width <= self.MOST_SEEN else {}}
        if self.mean is None:
            return FittedInputs(store, forms, {}, {})
        told: dict[str, object] = {"features": f"{width}, standardised by the training rows"}
        left_out = [str(place) for place in np.flatnonzero(self.std == NEVER_VARIED)]
        fact = "features that count as 0, since they are the same in all training rows: "
        preparation = {"mean": self.mean.tolist(), "std": self.std.tolist()}
        return FittedInputs(
            store, forms, told, preparation, (fact + format_first(left_out, MAX_SHOWN),) if left_out else ()
        )

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        super().load_state(preparation)
        if "mean" in preparation:
            self.mean, self.std = (np.asarray(preparation[name]) for name in ("mean", "std"))


def iterate_rows(
    given: Any, *, texts: bool = False, labelled: bool = False, encoding: str | None = None
) -> Iterator[Rows]:
    """Yield rows as what they are; nothing else decides that.

    Args:
        given: A data frame, what has ``to_pandas``, a mapping of columns, an array or a tensor; a list of texts, of
            names of files, of mappings or of numbers; or a ``Path`` or several: image files, folders, CSV and Parquet.
        texts: Whether a str is a text, rather than the name of a file.
        labelled: Whether a folder holds a folder of images for each label.
        encoding: Encoding of CSV files.
    """
    given = [given] if isinstance(given, Path) else to_numpy(given) if hasattr(given, "toarray") else given
    frame = as_frame(given)
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
                yield from _rows_of_places([Path(row) for row in given], labelled, texts, encoding)
            return
        if any(isinstance(row, str | Path) for row in given):
            odd = next(row for row, one in enumerate(given) if not isinstance(one, str | Path))
            raise InputError(f"row {odd} of the inputs is no text, as others are: give one there, or leave the row out")
    try:
        values = to_numpy(given)
    except ValueError:  # rows of different lengths
        values = np.empty((), dtype=object)
    if not values.ndim or values.dtype.kind not in "uifb":
        raise InputError("the inputs are no rows: give numbers, texts, files or mappings of one kind, or a data frame")
    yield Rows("the new rows", range(len(values)), values=values)


def as_frame(given: Any) -> pd.DataFrame | None:
    """Return a data frame, what can become one, columns or a list of mappings as a data frame; None of others.

    An index that has a name is a column too.
    """
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        given = given.reset_index(drop=not any(given.index.names), allow_duplicates=True)
        named = rename_columns(given, [str(name) for name in given.columns], "the table")
        return named.assign(**{str(name): convert_to_storable(named, str(name)) for name in named})
    if hasattr(given, "to_pandas"):
        return as_frame(given.to_pandas())
    try:
        if isinstance(given, Mapping) and not hasattr(given, "shape"):
            columns = {name: to_numpy(one) if isinstance(one, Tensor) else one for name, one in given.items()}
            return as_frame(pd.DataFrame({name: list(values) for name, values in columns.items()}))
        if isinstance(given, Sequence) and given and all(isinstance(row, Mapping) for row in given):
            return as_frame(pd.DataFrame(given, dtype=object))  # a gap beside a 3 does not make it 3.0
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the inputs cannot be read as a table ({format_reason(error)}): give a list of rows"
        ) from error
    return None


def _rows_of_places(places: Sequence[Path], labelled: bool, tables: bool, encoding: str | None) -> Iterator[Rows]:
    """Yield the rows of files, folders and tables, in their order; with ``tables`` a file is one unless an image."""
    files: list[Path] = []
    for place in places:
        image = place.suffix.lower() in IMAGE_SUFFIXES
        if place.is_dir():
            folders = find_label_folders(place) if labelled else {place: None}
            if any(folders.values()):
                raise InputError(f"{place} holds folders of splits: give one, such as {next(iter(folders)).parent}")
            rows, notes = find_images(place, folders)
            problems, found = rows.errors, rows.files or ()
            if labelled and problems:  # all that is wrong is raised at once
                ImageReader(None).find_unreadable(list(found), problems)
            if labelled or len(problems) == len(found):
                problems.raise_if_any()
            elif problems:
                notes.append(f"{problems.place}: left out: {problems}")
            for note in notes:
                warnings.warn(note, InputWarning, stacklevel=2)
            if labelled:
                yield replace(rows, folder=None)
            else:
                files += [file for file, good in zip(found, problems.good.tolist(), strict=True) if good]
        elif is_table_file(place) or (tables and not image) or not (place.exists() or image):
            if files:
                yield Rows("images", range(len(files)), files=files)
                files = []
            frame = read_frame(place, encoding)
            yield Rows(str(place), frame.index, frame, place.parent)
        else:
            files.append(place)
    if files:
        yield Rows("images", range(len(files)), files=files)


class DataSource(ABC):
    """A data set with its options; the constructor's signature is what the command line offers.

    A new source is one subclass, and one line in ``logit_correction.data.SOURCES``.

    Attributes:
        reader: Brings new rows into the form of the training rows. It holds what was fitted to the training rows, so
            each source makes its own: by ``make_reader``, or in its constructor.
        encoding: Encoding of CSV files; None stands for UTF-8.
        users_own: Whether it reads a user's own rows. Their texts and photos may be encoded without being asked.
    """

    users_own: ClassVar[bool] = False
    encoding: str | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if isinstance(vars(cls).get("reader"), Reader):
            raise TypeError(f"{cls.__name__}.reader would be shared by all its sources: return it in make_reader")

    def make_reader(self) -> Reader:
        """Return a new reader for this source; by default one of arrays of numbers."""
        return NumericReader()

    @cached_property
    def reader(self) -> Reader:
        """The reader of this source alone."""
        return self.make_reader()

    @abstractmethod
    def build(self) -> DataTable:
        """Read or make the data; ``InputError`` names a file that is missing or damaged, and says how to fix it."""

    def ensure_files(self) -> None:  # noqa: B027  (most sources have no files of a known place)
        """Look for the files that ``build`` reads, or download them; ``InputError`` says where to get and put them."""

    def new_rows(self, given: Any, *, labelled: bool = False) -> Iterator[Rows]:
        """Yield new rows as what they are; see ``iterate_rows``."""
        texts = not isinstance(self.reader, ImageReader | NumericReader)
        return iterate_rows(given, texts=texts, labelled=labelled, encoding=self.encoding)

    def read(
        self, given: Iterable[Rows], info: DataInfo, bad_too: bool = False
    ) -> Iterator[tuple[Rows, InputStore, dict[str, Any]]]:
        """Yield new rows, some at a time, their inputs and forms, as ``Reader`` has them; ``info`` is what inputs are.

        Bad rows raise ``InputError``, unless ``bad_too``: then ``Rows.problems`` names them, and inputs are finite.
        """
        for rows in given:
            every = RowErrors(rows.place, rows.names)
            files = isinstance(self.reader, ImageReader) and rows.values is None
            most = max(1, ANSWERS_AT_A_TIME // info.num_labels)
            for part in rows.parts(min(most, FILES_AT_A_TIME if files else ROWS_AT_A_TIME)):
                store, forms = self.reader.transform(part)
                if not info.tokens and tuple(store.input_shape) != tuple(info.input_shape):
                    raise InputError(f"inputs have shape {store.input_shape}, but must have {tuple(info.input_shape)}")
                if not bad_too:
                    part.errors.raise_if_any()
                for sentence, (count, example) in part.errors.remarks.items():
                    every.remark(*sentence, count, example)
                yield part, store, forms
            every.warn()


# -- What is known of new rows


def get_row_values(rows: Rows, given: RowValues, what: str) -> Sequence[str | None]:
    """Return the names of rows as text, None where there is none."""
    given = normalize_text(str(given)) if np.ndim(given) == 0 else given
    if not isinstance(given, str):
        values = convert_to_label_array(given)
        names = (
            convert_attributes_to_texts(values)
            if what == "attribute"
            else [convert_to_text(value) for value in values.tolist()]
        )
        if len(names) != len(rows):
            raise InputError(f"there are {len(rows):,} rows, but {len(names):,} {what}s: give one a row")
        return names
    if rows.frame is None:
        raise InputError(f"{what} {given!r} names a column, and {rows.place} have none: give one {what} a row")
    check_columns(rows.frame, rows.place, [given])
    return convert_column_to_texts(rows.frame, given)


def get_label_indices(rows: Rows, label: RowValues | None, known: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers (n,) of the labels of new rows among the known ones."""
    label = rows.label if label is None or rows.label is not None else label
    if label is None:
        raise InputError("new rows can be judged only by their labels: give label=, a list of names or a column")
    labels = get_row_values(rows, label, "label")
    number = find_positions(labels, known)
    problems = RowErrors(rows.place, rows.names)
    problems.by_row |= rows.errors.by_row
    for row in (number < 0).nonzero().flatten().tolist():
        problems.add(row, f"the label {labels[row]!r} is not in the training data" if labels[row] else "has no label")
    problems.raise_if_any(fix=f"the labels of training are {', '.join(known)}: give one of them to each row")
    return number.numpy()
