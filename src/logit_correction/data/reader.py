"""A data set with its options, and how new rows are read as its own were."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from logit_correction.data.images import Fit, read_images
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class DataSource(ABC):
    """A data set with its options; the constructor's signature is what the command line offers.

    A new source is one file with one subclass, and one line in ``logit_correction.data.SOURCES``.

    Attributes:
        scale: What inputs, bytes brought to [0, 1] before, are multiplied by.
        image_size: Height and width of its images; None where it takes no image files.
        fit: How an image of other proportions is brought to this size.
        reads_tables: Whether new rows come as a CSV or Parquet file with the columns of training.
        takes_texts: Whether the texts that ``read_values`` is given are inputs, rather than names of files.
    """

    scale: float = 1.0
    image_size: tuple[int, int] | None = None
    fit: Fit = "stretch"
    reads_tables: bool = False
    takes_texts: bool = False

    @abstractmethod
    def build(self) -> DataTable:
        """Read or make the data.

        Raises:
            InputError: If a file is missing or damaged; the message names it and says how to fix it.
        """

    def ensure_files(self) -> None:  # noqa: B027  (most sources have no files of a known place)
        """Return if the files that ``build`` reads are there, downloaded if need be; a look, none is read.

        Raises:
            InputError: If they are not; says what is missing, where to get it and where to put it.
        """

    def prepare(self, preparation: Mapping[str, Any]) -> None:  # noqa: B027  (most sources need nothing)
        """Take over what training found out of its rows, ``DataTable.preparation``, before new inputs are read.

        Raises:
            InputError: If it does not fit the source.
        """

    def read_new(self, paths: Sequence[Path]) -> InputStore:
        """Read new image files in the form that this source's networks take.

        Raises:
            InputError: If the source cannot read new files or a file is damaged.
        """
        if self.image_size is None:
            raise InputError(f"{type(self).__name__} cannot read new files")
        return self.as_store(read_images(paths, self.image_size, self.fit))

    def read_table(self, file: Path, frame: pd.DataFrame | None = None) -> tuple[str, list[str], InputStore]:
        """Read new rows from a CSV or Parquet file; ``frame`` is what stands in it, where that has been read already.

        Returns:
            What names a row (``line``, ``row`` or ``path``), the name of each row, and the inputs.

        Raises:
            InputError: If the source cannot read such files or the file does not fit.
        """
        raise InputError(f"{type(self).__name__} cannot read new rows from a table")

    def read_values(self, values: Any) -> InputStore:
        """Take new rows from Python: a data frame or a mapping of columns; a list of texts where ``takes_texts``.

        Raises:
            InputError: If the source cannot take such rows or they do not fit.
        """
        raise InputError(f"{type(self).__name__} takes image files or arrays, not {type(values).__name__}")

    def looks(self, values: Any, folder: Path | None = None) -> dict[str, Any]:
        """Return in what other forms views may look at new rows: ``texts``, ``columns``, ``files`` of ``ViewInputs``.

        Args:
            values: A data frame of a file, or what ``read_values`` took; rows that have been read without a fault.
            folder: Of the file, which its files lie in.
        """
        return {}

    def as_store(self, values: Tensor) -> InputStore:
        """Return new inputs (n, *input_shape) in the form that this source's networks take."""
        return ArrayStore(values, self.scale)
