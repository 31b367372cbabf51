"""Table: a user's own CSV or Parquet file of texts, image files or feature columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from logit_correction.config import listed
from logit_correction.data.augment import AugmentationName, named_augmentation
from logit_correction.data.cache import cache_folder
from logit_correction.data.features import Columns
from logit_correction.data.frames import check_columns, has_lines, read_frame, tell_columns, texts_of
from logit_correction.data.images import Fit, Images, format_resizing, image_store, printable
from logit_correction.data.reader import DataSource, Reader
from logit_correction.data.rows import OnBadRows, Records, Splitting, build_table, files_within, records_of_frame
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.texts import Texts, beginning
from logit_correction.errors import InputError, check_range

if TYPE_CHECKING:
    import pandas as pd

#: A column of this name says which rows are for what, also where nobody has named it: * leaves it out.
SPLIT = "split"

#: What pandas calls a CSV's first column where it has no name.
UNNAMED = "Unnamed: 0"

#: So many characters of a text are shown on the report page.
SHOWN = 160


class Table(DataSource):
    """Your own CSV or Parquet file, one row an example: a text, an image file, or columns of features."""

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
        keep_duplicates: bool = True,
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
            keep_duplicates: Whether rows that repeat others are good rows.
            memory_limit: GiB of images that may stay in memory; see ImageFolder.
        """
        if label is None:
            raise InputError(f"--data.label is missing: name the column of labels{tell_columns(Path(file))}")
        given = [name for name, value in (("text", text), ("path", path), ("features", features)) if value]
        if len(given) != 1:
            raise InputError(
                "give one of --data.text (a column of texts), --data.path (of image files) and --data.features "
                f"(columns of numbers, dates and names, or * for all others); given: {' and '.join(given) or 'none'}"
                f"{tell_columns(Path(file))}"
            )
        if categorical and not features:
            raise InputError("--data.categorical is for features: give --data.features, or leave it out")
        if tokenizer is not None and text is None:
            raise InputError("--data.tokenizer is for texts: give --data.text, or leave it out")
        check_range("--data.size", size, 1)
        if label in (text, path, *listed(features)):
            raise InputError(f"the label {label!r} would be its own input: leave it out of --data.{given[0]}")
        self.file, self.label, self.split, self.attributes = Path(file).expanduser(), label, split, listed(attribute)
        self.named = {label, split, text, path, *self.attributes, *listed(features), *listed(categorical)}
        self.splitting, self.on_bad_rows = Splitting(valid_fraction, test_fraction, seed), on_bad_rows
        self.keep_duplicates, self.memory_limit = keep_duplicates, memory_limit
        self.augment = named_augmentation(augment, size) if path else None
        self.root = self.file.parent if root is None else Path(root).expanduser()
        if text:
            self._reader: Texts | Images | Columns = Texts(text, tokenizer, max_tokens, num_words)
        elif path:
            self._reader = Images((size, size), fit, column=path, root=self.root if root else None)
        else:
            others = [
                label,
                *self.attributes,
                *({split or "", SPLIT} - set(listed(categorical)) - set(listed(features))),
            ]
            self._reader = Columns(listed(features), others, listed(categorical))

    @property
    def reader(self) -> Reader:
        """What reads the columns that were named."""
        return self._reader

    def prepare(self, preparation: Mapping[str, Any]) -> None:
        """Take over means and categories of the training rows."""
        if isinstance(self._reader, Columns):
            self._reader.learnt = list(preparation.get("columns", []))

    def build(self) -> DataTable:
        """Read the file, check its rows, and make the inputs."""
        frame = read_frame(self.file)
        from_python = self.file.parent == cache_folder() / "tables"
        place = "the table given in Python" if from_python else str(self.file)
        numbering = next(iter(frame.columns)) if UNNAMED not in self.named else None
        if numbering == UNNAMED and _numbers_rows(frame[UNNAMED]):  # it would tell labels that stand in order
            frame = frame.drop(columns=UNNAMED)
        raw = records_of_frame(frame, place, self.label, self.split, self.attributes)
        raw.metadata = {"source": "rows given in Python" if from_python else f"the rows of {self.file.name}"}
        if numbering == UNNAMED and UNNAMED not in frame.columns:
            raw.notes.append(f"the first column, without a name, numbers the rows and is not used ({UNNAMED})")
        if SPLIT in frame.columns and SPLIT not in self.named:
            raw.notes.append("the column 'split' is not used: give --data.split split to use it")
        self._note_repeated(frame, raw)
        if isinstance(self._reader, Texts):
            table = self._of_texts(frame, raw, self._reader)
        elif isinstance(self._reader, Images):
            table = self._of_images(frame, raw, self._reader)
        else:
            table = self._of_columns(frame, raw, self._reader)
        return replace(table, lines=torch.tensor(frame.index.to_numpy()) if has_lines(self.file) else None)

    def _note_repeated(self, frame: pd.DataFrame, raw: Records) -> None:
        """Tell of rows that repeat others in all but the split; they are bad where duplicates are not to be kept."""
        whole = frame.drop(columns=self.split) if self.split else frame
        repeated = whole.astype(str).duplicated().to_numpy().nonzero()[0]
        if self.keep_duplicates and len(repeated):
            raw.notes.append(
                f"{len(repeated):,} of {len(frame):,} rows repeat earlier ones and are kept; --data.keep_duplicates "
                "false takes them for bad rows"
            )
        for row in () if self.keep_duplicates else repeated.tolist():
            raw.problems.add(row, "repeats an earlier row")

    def _table(self, raw: Records, inputs: Any) -> DataTable:
        return build_table(raw, inputs, self.splitting, self.on_bad_rows, self.augment)

    def _of_texts(self, frame: pd.DataFrame, raw: Records, reader: Texts) -> DataTable:
        assert reader.column is not None
        check_columns(frame, raw.problems.place, [reader.column])
        texts = [text or "" for text in texts_of(frame, reader.column)]
        for row, text in enumerate(texts):
            if not text:
                raw.problems.add(row, "is empty", reader.column)
        raw.metadata["texts"] = str(reader)
        raw.row_names = [beginning(text, SHOWN) for text in texts]
        return self._table(raw, lambda _: (reader.store(texts, keep=True), {"texts": texts}))

    def _of_images(self, frame: pd.DataFrame, raw: Records, reader: Images) -> DataTable:
        assert reader.column is not None
        check_columns(frame, raw.problems.place, [reader.column])
        names = texts_of(frame, reader.column)
        paths = files_within(self.root, names, raw.problems, reader.column)
        raw.metadata["images"] = format_resizing(reader.size, reader.fit)
        raw.row_names = [printable(name or "") for name in names]

        def inputs(_: Tensor) -> tuple[InputStore, dict[str, Any]]:
            limit = self.memory_limit
            store = image_store(paths, reader.size, raw.problems, fit=reader.fit, memory_limit=limit)
            return store, {"files": paths}

        return self._table(raw, inputs)

    def _of_columns(self, frame: pd.DataFrame, raw: Records, reader: Columns) -> DataTable:
        raw.notes += reader.check(frame, raw.problems)
        raw.row_names = raw.problems.rows
        table = self._table(raw, lambda train: reader.fit(train.numpy()))
        width = table.inputs.input_shape[0]
        metadata = table.metadata | {"features": f"{width}, standardised by the training rows"}
        return replace(table, metadata=metadata, preparation={"columns": reader.learnt})


def _numbers_rows(values: pd.Series) -> bool:
    """Return whether a column numbers the rows, as ``DataFrame.to_csv`` writes the index."""
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    return bool((numbers.notna() & (numbers % 1 == 0)).all()) and numbers.is_unique
