"""Table: a user's own CSV or Parquet file of texts, image files or feature columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.config import listed
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import tables_folder
from logit_correction.data.columns import unnamed_row_numbers
from logit_correction.data.image_io import Fit
from logit_correction.data.problems import OnBadRows, Problems
from logit_correction.data.records import build_table, records_of_frame
from logit_correction.data.row_names import has_lines, numbered, row_names
from logit_correction.data.splits import Splitting
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataSource, DataTable
from logit_correction.data.table_features import SPLIT, Features
from logit_correction.data.table_inputs import FIX, ImageFiles, InputColumns, Texts
from logit_correction.data.table_notes import copies_told
from logit_correction.data.tabular_io import check_columns, read_frame, tell_columns
from logit_correction.data.text import TextForm
from logit_correction.errors import InputError, check_range

if TYPE_CHECKING:
    import pandas as pd


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
