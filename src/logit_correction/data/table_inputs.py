"""What the columns of a table may hold for a network: texts, image files, or features."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from logit_correction.data.image_files import image_store
from logit_correction.data.image_io import Fit, format_resizing
from logit_correction.data.named_files import files_within
from logit_correction.data.problems import OnBadRows, Problems
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.tabular_io import nested_columns, texts_of
from logit_correction.data.text import TextForm, beginning

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
