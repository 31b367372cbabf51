"""What a data source is: a data set with its options, and the rows that its models predict later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar

from logit_correction.data.images import ImageReader
from logit_correction.data.new_rows import convert_to_rows
from logit_correction.data.reader import NumericReader, Reader
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, warn_user
from logit_correction.types import DataInfo

#: New rows that are read at a time: image files, and others.
FILES_AT_A_TIME = 512
ROWS_AT_A_TIME = 50_000

#: Probabilities of labels that are computed at a time.
PROBABILITIES_AT_A_TIME = 1_000_000


class DataSource(ABC):
    """A data set with its options; the constructor's signature is what the command line offers.

    A new source is one subclass, and one line in ``logit_correction.data.SOURCES``.

    Attributes:
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
        """Brings new rows into the form of the training rows; it holds what was fitted to those of this source."""
        return self.make_reader()

    @abstractmethod
    def build(self) -> DataTable:
        """Read or make the data; ``InputError`` names a file that is missing or damaged, and says how to fix it."""

    def ensure_raw_files(self) -> None:  # noqa: B027  (most sources have no files of a known place)
        """Look for the files that ``build`` reads, or download them; ``InputError`` says where to get and put them."""

    def new_rows(self, inputs: Any, *, labelled: bool = False) -> Iterator[Rows]:
        """Yield new rows in the form that their type decides.

        Args:
            inputs: See ``convert_to_rows``.
            labelled: Whether a folder holds a folder of images for each label.
        """
        texts = not isinstance(self.reader, ImageReader | NumericReader)
        return convert_to_rows(inputs, texts=texts, labelled=labelled, encoding=self.encoding)

    def read(
        self,
        rows: Iterable[Rows],
        info: DataInfo,
        keep_bad: bool = False,
        report_note: Callable[[str], None] = warn_user,
    ) -> Iterator[tuple[Rows, InputStore, dict[str, Any]]]:
        """Yield new rows, some at a time, with their inputs and the forms in which views look at them.

        Args:
            rows: Those of one or several files, tables or arrays.
            info: The shape of inputs in training.
            keep_bad: Whether bad rows are yielded too, with finite inputs and named by ``Rows.errors``; otherwise they
                raise ``InputError``.
            report_note: Called with each sentence that a user should know of the rows; by default it is a warning.
        """
        for group in rows:
            for note in group.notes:
                report_note(note)
            remarks = RowErrors(group.place, group.names)
            reads_files = isinstance(self.reader, ImageReader) and group.values is None
            max_rows = max(1, PROBABILITIES_AT_A_TIME // info.num_labels)
            for part in group.iterate_parts(min(max_rows, FILES_AT_A_TIME if reads_files else ROWS_AT_A_TIME)):
                store, forms = self.reader.transform(part)
                if not info.tokens and tuple(store.input_shape) != tuple(info.input_shape):
                    raise InputError(f"inputs have shape {store.input_shape}, but must have {tuple(info.input_shape)}")
                if not keep_bad:
                    part.errors.raise_if_any()
                for (fact, consequence), (count, example) in part.errors.remarks.items():
                    remarks.add_remark(fact, consequence, count, example)
                yield part, store, forms
            for sentence in remarks.describe_remarks():
                report_note(f"{group.place}: {sentence}")
