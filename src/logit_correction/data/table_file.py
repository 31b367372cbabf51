"""Table: a user's own CSV or Parquet file of texts, image files or feature columns."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.config import listed
from logit_correction.data import features
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import tables_folder
from logit_correction.data.features import Columns, unnamed_row_numbers
from logit_correction.data.frames import (
    check_columns,
    has_lines,
    nested_columns,
    numbered,
    read_frame,
    row_names,
    tell_columns,
    texts_of,
)
from logit_correction.data.images import Fit, format_resizing, image_store
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import (
    OnBadRows,
    Problems,
    Splitting,
    build_table,
    copies_told,
    files_within,
    format_faults,
    records_of_frame,
)
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TextForm, beginning
from logit_correction.errors import InputError, check_range
from logit_correction.views.tables import told_apart

if TYPE_CHECKING:
    import pandas as pd


#: So many characters of a text are shown on the report page.
SHOWN = 160

#: How to fix new rows: those of training may be skipped, of new ones each is to be answered.
FIX = "fix or remove them"

#: What to do about files that do not lie below the folder of the table.
ELSEWHERE = "if the files lie elsewhere, give the folder that holds them all by --data.root"


class InputColumns(ABC):
    """The columns of a table that a network's inputs are made of."""

    column = ""

    #: Columns that are to be taken for names, whatever they hold.
    categorical: Sequence[str] = ()

    def columns(self, frame: pd.DataFrame) -> list[str]:
        """Return the names of the columns; they may not be there."""
        return [self.column]

    @abstractmethod
    def note_faults(self, frame: pd.DataFrame, problems: Problems) -> None:
        """Note what is wrong with rows and can be seen without long work."""

    def notes(self, frame: pd.DataFrame) -> list[str]:
        """Return what a user should be told of the columns."""
        return []

    @abstractmethod
    def store(self, frame: pd.DataFrame, problems: Problems, on_bad_rows: OnBadRows) -> InputStore:
        """Make the inputs of all rows; those of bad rows may be anything finite."""

    @abstractmethod
    def new(self, frame: pd.DataFrame, problems: Problems, folder: Path | None) -> InputStore:
        """Make the inputs of new rows, of a file in ``folder`` or from Python, as those of training were made."""

    @abstractmethod
    def looks(self, frame: pd.DataFrame, folder: Path | None) -> dict[str, Any]:
        """Return in what other forms views may look at new rows, of a file in ``folder`` or from Python."""

    def finished(self, table: DataTable, frame: pd.DataFrame) -> DataTable:
        """Return the table with the forms that views look at, and what only its training rows determine."""
        return replace(table, **self.looks(frame, None))

    def prepare(self, preparation: Mapping[str, Any]) -> None:  # noqa: B027  (most need nothing)
        """Take over what ``finished`` found out."""

    def scaled(self, values: Tensor) -> Tensor:
        """Return inputs that were given as numbers as the network takes them."""
        return values

    def metadata(self) -> dict[str, object]:
        """Return what a reader of a result must know of the inputs."""
        return {}

    def format_rows(self, frame: pd.DataFrame, names: Sequence[str]) -> Sequence[str]:
        """Return what a reader of the report is shown of each row."""
        return names

    def keys(self, frame: pd.DataFrame, without: str | None) -> Iterable[Hashable]:
        """Return keys that are the same for rows that repeat each other in all columns but ``without``."""
        import pandas as pd

        whole = frame.drop(columns=[without] if without else [])
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            whole = whole.assign(**{name: whole[name].map(str) for name in nested_columns(whole)})
        return pd.util.hash_pandas_object(whole, index=False)


class Texts(InputColumns):
    """A column of texts: tokens for a language model, or counted words."""

    def __init__(self, column: str, form: TextForm) -> None:
        """Choose the column and how its texts are read."""
        self.column, self.form = column, form

    def note_faults(self, frame: pd.DataFrame, problems: Problems) -> None:
        """Note empty texts."""
        for row, text in enumerate(texts_of(frame, self.column)):
            if text is None:
                problems.add(row, f"the text (column {self.column!r}) is empty")

    def store(self, frame: pd.DataFrame, problems: Problems, on_bad_rows: OnBadRows) -> InputStore:
        """Read the texts."""
        problems.raise_if_any(on_bad_rows)
        return self.form.store(self._texts(frame))

    def new(self, frame: pd.DataFrame, problems: Problems, folder: Path | None) -> InputStore:
        """Read new texts."""
        self.note_faults(frame, problems)
        problems.raise_if_any("error", hint=FIX)
        return self.store(frame, problems, "error")

    def looks(self, frame: pd.DataFrame, folder: Path | None) -> dict[str, Any]:
        """Return the texts."""
        return {"texts": self._texts(frame)}

    def metadata(self) -> dict[str, object]:
        """Tell how the texts were read."""
        return {"texts": str(self.form)}

    def format_rows(self, frame: pd.DataFrame, names: Sequence[str]) -> Sequence[str]:
        """Return the beginnings of the texts."""
        return [beginning(text, SHOWN) for text in self._texts(frame)]

    def _texts(self, frame: pd.DataFrame) -> list[str]:
        return [text or "" for text in texts_of(frame, self.column)]


class ImageFiles(InputColumns):
    """A column of image files."""

    def __init__(
        self,
        column: str,
        beside: Path,
        root: Path | None,
        size: tuple[int, int],
        fit: Fit,
        memory_limit: float | None = None,
    ) -> None:
        """Choose the column, the folder of the table, that of all files if it is named, and how images are read."""
        self.column, self.root, self.named_root = column, root or beside, root
        self.size, self.fit, self.memory_limit = size, fit, memory_limit

    def note_faults(self, frame: pd.DataFrame, problems: Problems) -> None:
        """Note files that are missing or leave the folder."""
        self._paths(frame, problems)

    def store(self, frame: pd.DataFrame, problems: Problems, on_bad_rows: OnBadRows) -> InputStore:
        """Read the images, or what was kept of them."""
        return self._read(self._paths(frame, problems), problems, on_bad_rows)

    def new(self, frame: pd.DataFrame, problems: Problems, folder: Path | None) -> InputStore:
        """Read new images; of a file they lie in its folder, or in the one that training named."""
        paths = self._new_paths(frame, problems, folder)
        problems.raise_if_any("error", hint=FIX)
        return self._read(paths, problems, "error")

    def _read(self, paths: Sequence[Path], problems: Problems, on_bad_rows: OnBadRows) -> InputStore:
        return image_store(
            paths, self.size, fit=self.fit, problems=problems, on_bad_rows=on_bad_rows, memory_limit=self.memory_limit
        )

    def looks(self, frame: pd.DataFrame, folder: Path | None) -> dict[str, Any]:
        """Return the files."""
        if folder is not None and self.named_root is not None:
            return {"files": self._new_paths(frame, Problems("", ()), folder)}
        root = folder or self.root
        return {"files": [root / (name or "") for name in texts_of(frame, self.column)]}

    def metadata(self) -> dict[str, object]:
        """Tell how the images were read."""
        return {"images": format_resizing(self.size, self.fit)}

    def format_rows(self, frame: pd.DataFrame, names: Sequence[str]) -> Sequence[str]:
        """Return the files' names."""
        return [text or "" for text in texts_of(frame, self.column)]

    def keys(self, frame: pd.DataFrame, without: str | None) -> Iterable[Hashable]:
        """Return the files: the same image twice is a row twice, whatever else is written beside it."""
        return [name or ("no file", row) for row, name in enumerate(texts_of(frame, self.column))]

    def _paths(self, frame: pd.DataFrame, problems: Problems) -> list[Path]:
        return files_within(self.root, texts_of(frame, self.column), problems, self.column, advice=ELSEWHERE)

    def _new_paths(self, frame: pd.DataFrame, problems: Problems, folder: Path | None) -> list[Path]:
        root, also = (self.root, None) if folder is None else (folder, self.named_root)
        return files_within(root, texts_of(frame, self.column), problems, self.column, also=also)


#: A column of this name says which rows are for what, also where nobody has named it: * leaves it out.
SPLIT = "split"


class Features(InputColumns):
    """Columns of numbers and dates, standardised by the training rows, and of names, each a 0 or 1 of its own."""

    def __init__(self, names: list[str], others: list[str], categorical: Sequence[str] = ()) -> None:
        """Choose the columns, and those whose numbers stand for names.

        * stands for all but ``others``, those of too many different texts, and a column split.

        Raises:
            InputError: A column of the latter is none of the former.
        """
        self.names, self.others, self.categorical = names, others, categorical
        for name in categorical:
            if name in others or (names != ["*"] and name not in names):
                raise InputError(f"--data.categorical {name} is none of the features: add it to --data.features")
        self.learnt: list[features.Column] = []
        self._last: Columns | None = None
        self._told: set[str] = set()

    def columns(self, frame: pd.DataFrame) -> list[str]:
        """Return the columns."""
        if self.learnt:
            return [column["name"] for column in self.learnt]
        if self.names != ["*"]:
            return self.names
        left_out = {*self.others, *self._left_out(frame)} | ({SPLIT} - set(self.categorical))
        return [name for name in frame.columns if name not in left_out]

    def _left_out(self, frame: pd.DataFrame) -> dict[str, int]:
        """Return how many different texts each column holds that * leaves out, since they are hardly categories."""
        numbers = self._numbers_of_names(frame, [name for name in frame.columns if name not in self.others])
        return {name: number for name, number in numbers.items() if features.hardly_categories(number, len(frame))}

    def _numbers_of_names(self, frame: pd.DataFrame, columns: list[str]) -> dict[str, int]:
        """Return how many different names each column of names holds."""
        read = self._converted(frame)
        return {name: len(read.different(name)[0]) for name in columns if read.kind(name) == "names"}

    def notes(self, frame: pd.DataFrame) -> list[str]:
        """Return which columns are left out, look like numbers, hold more names than are told apart, or have gaps."""
        notes = []
        left_out = self._left_out(frame) if self.names == ["*"] else {}
        if left_out:
            listed = format_faults([f"{name!r} ({number:,} different texts)" for name, number in left_out.items()])
            notes.append(f"columns that are no features, since few rows share a text: {listed}")
        most, columns = told_apart(len(frame)), self.columns(frame)
        examples = {name: self._converted(frame).written_number(name) for name in [*columns, *left_out]}
        written = [f"{name!r} (such as {example!r})" for name, example in examples.items() if example]
        if written:
            notes.append(
                f"columns that look like numbers, but are read as names: {format_faults(written)}; write plain "
                "numbers, such as 0.126 or 1037.5"
            )
        numbers = self._numbers_of_names(frame, columns)
        many = [f"{name!r} ({number:,})" for name, number in numbers.items() if number > most]
        if many:
            notes.append(
                f"columns of more names than {most}, of which the commonest {most} are told apart: "
                f"{format_faults(many)}"
            )
        gaps = features.gaps_of(self._converted(frame), columns)
        if gaps:
            listed = format_faults([f"{name!r} in {number:,} of {len(frame):,} rows" for name, number in gaps.items()])
            notes.append(
                f"columns with missing values: {listed}; a number or date that is missing counts as the mean of the "
                "training rows, and an input of its own says that it is missing"
            )
        return notes

    def keys(self, frame: pd.DataFrame, without: str | None) -> Iterable[Hashable]:
        """Return keys of the rows in which numbers stand for how they are written: that is thirty times as fast."""
        read = self._converted(frame)
        numeric = [name for name in self.columns(frame) if name != without and read.kind(name) == "numbers"]
        return super().keys(frame.assign(**{name: read.numbers(name) for name in numeric}), without)

    def note_faults(self, frame: pd.DataFrame, problems: Problems) -> None:
        """Note what is no number or no date in a column of such."""
        features.note_bad_features(self._converted(frame), self.columns(frame), problems)

    def store(self, frame: pd.DataFrame, problems: Problems, on_bad_rows: OnBadRows) -> InputStore:
        """Return a place holder: the vectors need the training rows, see ``finished``."""
        if not self.columns(frame):
            raise InputError(f"{problems.place} has no column left for features: name them by --data.features")
        return ArrayStore(torch.zeros(len(frame), 1))

    def finished(self, table: DataTable, frame: pd.DataFrame) -> DataTable:
        """Return the table with its vectors, and the columns as they were written."""
        self.learnt = features.learn_columns(self._converted(frame), self.columns(frame), table.split["train"])
        vectors = features.to_vectors(self._converted(frame), self.learnt)
        metadata = table.metadata | {"features": f"{vectors.shape[1]}, standardised by the training rows"}
        looks, self._last = self.looks(frame, None), None
        return replace(
            table, inputs=ArrayStore(vectors), metadata=metadata, preparation={"columns": self.learnt}, **looks
        )

    def looks(self, frame: pd.DataFrame, folder: Path | None) -> dict[str, Any]:
        """Return the columns as they were written."""
        own = [column for column in self.learnt if column["name"] not in self.others]
        return {"columns": features.plain_columns(self._converted(frame), own)}

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        """Take over means and categories."""
        self.learnt = list(preparation.get("columns", []))

    def new(self, frame: pd.DataFrame, problems: Problems, folder: Path | None) -> InputStore:
        """Standardise new rows as those of training were."""
        store = ArrayStore(features.to_vectors(self._converted(frame), self.learnt, problems))
        features.warn_of_unknown_names(self._converted(frame), self.learnt, self._told)
        return store

    def _converted(self, frame: pd.DataFrame) -> Columns:
        """Return the columns of a frame; those of the last one are kept, since it is asked for several times."""
        if self._last is None or self._last.frame is not frame:
            self._last = Columns(frame, self.categorical)
        return self._last

    def scaled(self, values: Tensor) -> Tensor:
        """Standardise numbers; names, dates and what may be missing are none."""
        if any("categories" in column or column.get("date") or column.get("gaps") for column in self.learnt):
            what = "some features are names or dates, or may be missing"
            raise InputError(f"{what}: give the new rows as a data frame or a file")
        mean, deviation = (torch.tensor([column[key] for column in self.learnt]) for key in ("mean", "std"))
        return (values - mean) / deviation


class Table(DataSource):
    """Your own CSV or Parquet file, one row an example: a text, an image file, or columns of features."""

    reads_tables = True

    def __init__(
        self,
        file: str,
        label: str | None = None,
        text: str | None = None,
        path: str | None = None,
        features: str | list[str] | None = None,
        categorical: str | list[str] | None = None,
        split: str | None = None,
        attribute: str | list[str] | None = None,
        tokenizer: str | None = None,
        max_tokens: int = 128,
        num_words: int = 4096,
        root: str | None = None,
        size: int = 224,
        fit: Fit = "crop",
        augment: AugmentationName = "none",
        valid_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
        on_bad_rows: OnBadRows = "error",
        keep_duplicates: bool = False,
        memory_limit: float | None = None,
    ) -> None:
        """Name the columns. Of ``text``, ``path`` and ``features`` give one.

        Args:
            file: CSV (commas, semicolons, tabs or |) or Parquet.
            label: Column of labels, names or numbers; it must be named.
            text: Column of texts.
            path: Column of image files.
            features: Columns of features, or * for all that have no other part, but for texts that are no categories
                and a column split. Numbers, and dates such as 2024-05-31, are standardised by the training rows; a
                column of names becomes one number, 0 or 1, for each name. Values may be missing.
            categorical: Those features whose numbers stand for names, such as 3 for the third hospital.
            split: Column that says train, valid or test; splits that it does not give are drawn, label by label.
            attribute: Columns of attributes, where you have them; several make one attribute of their combinations. An
                empty cell is unknown.
            tokenizer: Splits texts for a language model: a name on the Hugging Face hub or a folder. Without one, words
                are counted.
            max_tokens: Tokens of a text that are read.
            num_words: Length of the vector of counted words.
            root: Folder of the image files, by default that of the table; they may not leave it. Those of a new table
                may lie beside it, too.
            size: Height and width that images are resized to.
            fit: ``crop`` keeps an image's proportions and takes the middle, ``stretch`` changes the proportions.
            augment: Random changes of training images: none, crop-flip (small images), resized-crop-flip.
            valid_fraction: Fraction of each label's rows for validation, where no split is given.
            test_fraction: Fraction of each label's rows for the test, where no split is given.
            seed: Seed of the split, apart from the run's.
            on_bad_rows: ``error`` names the bad rows and stops, ``skip`` names them and leaves them out.
            keep_duplicates: Take rows that repeat others; by default they are bad rows.
            memory_limit: GiB of images that may stay in memory; see ImageFolder.
        """
        if label is None:
            raise InputError(f"--data.label is missing: name the column of labels{tell_columns(Path(file))}")
        given = [name for name, value in (("text", text), ("path", path), ("features", features)) if value]
        if len(given) != 1:
            what = " and ".join(given) if given else "none"
            raise InputError(
                "give one of --data.text (a column of texts), --data.path (of image files) and --data.features "
                f"(columns of numbers, dates and names, or * for all others); given: {what}{tell_columns(Path(file))}"
            )
        if categorical and not features:
            raise InputError("--data.categorical is for features: give --data.features, or leave it out")
        if tokenizer is not None and text is None:
            raise InputError("--data.tokenizer is for texts: give --data.text, or leave it out")
        check_range("--data.size", size, 1)
        if label in (text, path, *listed(features)):
            raise InputError(f"the label {label!r} would be its own input: leave it out of --data.{given[0]}")
        form = TextForm(tokenizer, max_tokens, num_words)
        self.file, self.label, self.split = Path(file).expanduser(), label, split
        self.attributes = listed(attribute)
        self.named = {label, split, text, path, *self.attributes, *listed(features), *listed(categorical)}
        self.splitting, self.on_bad_rows = Splitting(valid_fraction, test_fraction, seed), on_bad_rows
        self.keep_duplicates, self.augment = keep_duplicates, named_augmentation(augment, size) if path else None
        self.inputs: InputColumns
        if text:
            self.inputs, self.takes_texts = Texts(text, form), True
        elif path:
            named = None if root is None else Path(root).expanduser()
            self.inputs = ImageFiles(path, self.file.parent, named, (size, size), fit, memory_limit)
            self.image_size, self.fit = (size, size), fit
        else:
            own = [label, *self.attributes, *([split] if split else [])]
            self.inputs = Features(listed(features), own, listed(categorical))

    def build(self) -> DataTable:
        """Read the file, check its rows, and make the inputs."""
        frame = read_frame(self.file)
        numbering = unnamed_row_numbers(frame)
        if numbering in self.named:
            numbering = None
        if numbering is not None:  # it would tell labels that stand in order
            frame = frame.drop(columns=numbering)
        from_python = self.file.parent == tables_folder()
        place = "the table given in Python" if from_python else str(self.file)
        raw = records_of_frame(frame, place, self.label, self.split, self.attributes)
        check_columns(frame, place, [*self.inputs.columns(frame), *self.inputs.categorical])
        raw.notes += self.inputs.notes(frame)
        source = "rows given in Python" if from_python else f"the rows of {self.file.name}"
        raw.metadata = {"source": source, **self.inputs.metadata()}
        raw.row_names = self.inputs.format_rows(frame, raw.problems.rows)
        if not self.keep_duplicates:
            raw.keys = self.inputs.keys(frame, without=self.split)
        if numbering is not None:
            raw.notes.append(f"the first column, without a name, numbers the rows and is not used ({numbering})")
        if SPLIT in frame.columns and SPLIT not in {*self.named, *self.inputs.columns(frame)}:
            raw.notes.append("the column 'split' is not used: give --data.split split to use it")
        self.inputs.note_faults(frame, raw.problems)
        table = build_table(
            raw,
            lambda: self.inputs.store(frame, raw.problems, self.on_bad_rows),
            self.splitting,
            self.on_bad_rows,
            self.augment,
        )
        lines = torch.tensor(frame.index.to_numpy()) if has_lines(self.file) else None
        return copies_told(replace(self.inputs.finished(table, frame), lines=lines))

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        """Take over means and categories of the training rows."""
        self.inputs.prepare(preparation)

    def read_table(self, file: Path, frame: pd.DataFrame | None = None) -> tuple[str, list[str], InputStore]:
        """Read new rows from a CSV or Parquet file with the columns of training; it needs no labels.

        Args:
            file: The file.
            frame: What stands in it, where that has been read already.

        Returns:
            What names a row (``line``, ``row`` or ``path``), the name of each row, and the inputs.

        Raises:
            InputError: If a column is missing or rows are bad; names the first ten.
        """
        frame = read_frame(file) if frame is None else frame
        store = self._new(frame, file)
        if isinstance(self.inputs, ImageFiles):
            return "path", list(self.inputs.format_rows(frame, [])), store
        return *numbered(file, frame.index), store

    def read_values(self, values: Any) -> InputStore:
        """Take new rows from Python: a data frame or a mapping of columns, or a list of texts.

        Raises:
            InputError: If a column is missing or rows are bad; names the first ten.
        """
        return self._new(self._frame(values), None)

    def looks(self, values: Any, folder: Path | None = None) -> dict[str, Any]:
        """Return the texts, the columns or the files of new rows."""
        return self.inputs.looks(self._frame(values), folder)

    def _frame(self, values: Any) -> pd.DataFrame:
        import pandas as pd

        if isinstance(self.inputs, Texts) and not isinstance(values, pd.DataFrame | Mapping):
            values = {self.inputs.column: list(values)}
        if isinstance(values, Tensor | np.ndarray):  # numbers, in the order of the columns
            return pd.DataFrame(np.asarray(values), columns=self.inputs.columns(pd.DataFrame()))
        return pd.DataFrame(values)

    def _new(self, frame: pd.DataFrame, file: Path | None) -> InputStore:
        place = "the table of new rows" if file is None else str(file)
        check_columns(frame, place, self.inputs.columns(frame))
        problems = Problems(place, row_names(range(len(frame)) if file is None else frame.index))
        store = self.inputs.new(frame, problems, None if file is None else file.parent)
        problems.raise_if_any("error", hint=FIX)
        return store

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read image files as those of training were read."""
        if not isinstance(self.inputs, ImageFiles):
            what = "texts" if isinstance(self.inputs, Texts) else "rows of features"
            raise InputError(
                f"this model takes {what}, not image files: give a CSV or Parquet file with the columns of training"
            )
        return super().read_new(paths)

    def as_store(self, values: Tensor) -> InputStore:
        """Return new inputs in the form that the networks take; numbers are standardised as in training."""
        return super().as_store(self.inputs.scaled(values))
