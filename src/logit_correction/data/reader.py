"""Readers bring rows into the form that a network takes, new rows as those of training.

A reader fits what inputs need (means, vocabularies, the size of images) to the training rows. A run keeps that as
``preparation`` in its report and loads it into a new reader, so that new rows are read by the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.ranges import compute_range, remark_on_values_out_of_range
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.errors import InputError
from logit_correction.formatting import format_first
from logit_correction.types import Array

#: A deviation by which any number becomes 0: the training rows do not show what another value means.
NEVER_VARIED = 1e300


class PreparedInputs(NamedTuple):
    """What a reader makes of rows; fields of ``DataTable``.

    Attributes:
        inputs: The store of the inputs.
        forms: What views may look at besides: ``texts``, ``columns`` or ``files``.
        metadata: What a reader of a report must know of the inputs.
        preparation: What was fitted, as plain values.
        notes: What a user should know.
    """

    inputs: InputStore
    forms: dict[str, Any]
    metadata: dict[str, object]
    preparation: dict[str, Any]
    notes: tuple[str, ...] = ()


class Reader(ABC):
    """Brings rows into the form that a network takes: images, texts, columns or numbers.

    The rows of a training go through ``validate`` and ``fit_transform``, new ones through ``transform``.
    ``fit_transform`` is ``fit``, which computes what inputs need of the training rows (means, vocabularies), and
    ``build_inputs``, which makes inputs by that. After ``load_state`` nothing is fitted, so rows of a training that are
    read again become the same inputs. Bad rows are noted in ``Rows.errors``.

    Attributes:
        scale: What inputs are multiplied by, after bytes were brought to [0, 1].
        has_loaded_state: Whether the state of a training was loaded.
    """

    scale = 1.0
    has_loaded_state = False

    @abstractmethod
    def validate(self, rows: Rows) -> tuple[Any, Sequence[str] | None, list[str]]:
        """Read all rows of a training and note bad ones.

        Returns:
            The parsed rows, for ``fit_transform``; a name of each row for people, or None; and notes for the user.
        """

    @abstractmethod
    def fit(self, parsed_rows: Any, train_rows: Tensor, errors: RowErrors) -> None:
        """Compute what inputs need; what was fitted before is forgotten.

        Args:
            parsed_rows: What ``validate`` read of M rows.
            train_rows: (n,) long, the training rows among them.
            errors: The errors of the M rows.
        """

    @abstractmethod
    def build_inputs(self, parsed_rows: Any, errors: RowErrors) -> PreparedInputs:
        """Make inputs by what was fitted or loaded.

        Args:
            parsed_rows: What ``validate`` or ``validate_new`` read of M rows.
            errors: Where bad rows are noted.
        """

    def fit_transform(self, parsed_rows: Any, train_rows: Tensor, errors: RowErrors) -> PreparedInputs:
        """Fit to the training rows, unless a state was loaded, and make inputs of all rows.

        Args:
            parsed_rows: What ``validate`` read of M rows.
            train_rows: (n,) long, the training rows among them.
            errors: Where bad rows are noted.
        """
        if not self.has_loaded_state:
            self.fit(parsed_rows, train_rows, errors)
        return self.build_inputs(parsed_rows, errors)

    def check_readable(self, parsed_rows: Any, errors: RowErrors) -> None:  # noqa: B027  (most readers read all at once)
        """Note further errors of rows some of which are bad already, so that all are raised together.

        Args:
            parsed_rows: What ``validate`` read of M rows.
            errors: Where bad rows are noted.
        """

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        """Load ``PreparedInputs.preparation`` of a training, before new rows are read."""
        self.has_loaded_state = bool(preparation)

    def validate_new(self, rows: Rows) -> Any:
        """Return what ``build_inputs`` takes of new rows; ``InputError`` if those of training had another form."""
        return self.validate(rows)[0]

    def transform(self, rows: Rows) -> tuple[InputStore, dict[str, Any]]:
        """Return the inputs of new rows, and the forms in which views may look at them."""
        parsed_rows = self.validate_new(rows)
        self.remark_on_new(parsed_rows, rows.errors)
        encoded = self.build_inputs(parsed_rows, rows.errors)
        return encoded.inputs, encoded.forms

    def read_identifier_columns(self, rows: Rows) -> dict[str, list[str]]:
        """Return name -> texts of columns that are not inputs, but by which people know rows; after ``fit``."""
        return {}

    def remark_on_new(self, parsed_rows: Any, errors: RowErrors) -> None:  # noqa: B027  (most readers have no remarks)
        """Note what a user should know of new rows that can be read.

        Args:
            parsed_rows: What ``validate_new`` read of M rows.
            errors: Where it is noted.
        """


class NumericReader(Reader):
    """Reads arrays: images, or feature vectors, which are standardised by the training rows if there are some.

    Attributes:
        mean: (F,) of feature vectors.
        std: (F,), their deviations.
        ranges: Of each of the first ``MAX_COLUMNS`` features in the training rows.
    """

    MAX_COLUMNS = 256  # features that views look at one by one; of more, a single one means little

    mean: Any = None
    std: Any = None
    ranges: Sequence[dict[str, Any]] = ()

    def validate(self, rows: Rows) -> tuple[Array, None, list[str]]:
        """Return the arrays; rows that are not finite are noted."""
        if rows.values is None:
            raise InputError("this model takes arrays of numbers: give one")
        values = convert_to_channels_first(rows.values) if rows.values.ndim == 4 else rows.values
        if values.ndim == 2 and values.dtype == np.uint8:  # only bytes of images are divided by 255
            values = values.astype(np.float32)
        build_array_store(values, rows.errors)
        return values, None, []

    def validate_new(self, rows: Rows) -> Array:
        """Return the arrays, which must be as wide as those of training."""
        values = self.validate(rows)[0]
        if self.mean is not None and values.shape[1:] != self.mean.shape:
            raise InputError(f"inputs have shape {values.shape[1:]}, but must have {self.mean.shape}")
        return values

    def fit(self, parsed_rows: Array, train_rows: Tensor, errors: RowErrors) -> None:
        """Compute mean and deviation of each number of vectors."""
        self.mean = None
        self.std = None
        self.ranges = []
        if parsed_rows.ndim == 2 and len(train_rows):
            values = parsed_rows[train_rows.numpy()].astype(np.float64)
            self.mean, self.std = compute_mean_and_std(values)
            self.ranges = [compute_range(column) for column in values.T[: self.MAX_COLUMNS]]

    def remark_on_new(self, parsed_rows: Array, errors: RowErrors) -> None:
        """Note features of vectors whose values lie outside of those of training."""
        for place, found in enumerate(self.ranges):
            column = {"name": place, "std": float(self.std[place]), **found}
            remark_on_values_out_of_range(column, parsed_rows[:, place].astype(np.float64), errors)

    def build_inputs(self, parsed_rows: Array, errors: RowErrors) -> PreparedInputs:
        """Return the arrays as inputs, and the columns of vectors, named by their number."""
        width = parsed_rows.shape[1] if parsed_rows.ndim == 2 else 0
        columns = {str(place): parsed_rows[:, place] for place in range(width)} if width <= self.MAX_COLUMNS else {}
        if self.mean is None:
            return PreparedInputs(build_array_store(parsed_rows, errors), {"columns": columns}, {}, {})
        constant = [str(place) for place in np.flatnonzero(self.std == NEVER_VARIED)]
        fact = "features that count as 0, since they are the same in all training rows: "
        return PreparedInputs(
            inputs=build_array_store((parsed_rows - self.mean) / self.std, errors),  # before they lose digits
            forms={"columns": columns},
            metadata={"features": f"{width}, standardised by the training rows"},
            preparation={"mean": self.mean.tolist(), "std": self.std.tolist(), "ranges": self.ranges},
            notes=(fact + format_first(constant),) if constant else (),
        )

    def load_state(self, preparation: Mapping[str, Any]) -> None:
        super().load_state(preparation)
        if "mean" in preparation:
            self.mean = np.asarray(preparation["mean"])
            self.std = np.asarray(preparation["std"])
            self.ranges = list(preparation.get("ranges", ()))


def build_array_store(values: Array, errors: RowErrors, scale: float = 1.0) -> ArrayStore:
    """Return rows of numbers as a store of bytes or of float32; rows that are not finite are noted, and 0.

    Args:
        values: (M, F) or (M, C, H, W).
        errors: Where bad rows are noted.
        scale: Multiplies every fetched batch.
    """
    if values.dtype != np.uint8:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        is_finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        errors.add_where(~is_finite, "its input holds NaN or infinity")
        values[~is_finite] = 0
    return ArrayStore(torch.from_numpy(np.require(values, requirements=["C", "W"])), scale)


def convert_to_channels_first(values: Array) -> Array:
    """Return images, channels first or last, as (n, C, H, W), unsigned bytes or float32 in [0, 1].

    Channels are the axis of length 1 or 3; NaN and infinity stay.

    >>> convert_to_channels_first(np.zeros((5, 28, 28, 3))).shape
    (5, 3, 28, 28)
    """
    axis = next((axis for axis in (1, 3) if values.ndim == 4 and values.shape[axis] in (1, 3)), None)
    if axis is None:
        raise InputError(
            f"images have shape {values.shape}: give (rows, channels, height, width) or (rows, height, width, "
            "channels), with 1 or 3 channels"
        )
    if values.dtype != np.uint8:
        finite = values[np.isfinite(values)] if values.dtype.kind in "fb" else np.full(1, -1)
        if finite.size and (finite.min() < 0 or finite.max() > 1):
            raise InputError("images must be unsigned bytes or floats in [0, 1]: scale them")
        values = values.astype(np.float32, copy=False)
    return np.ascontiguousarray(np.moveaxis(values, axis, 1))


def compute_mean_and_std(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of numbers (n, ...) over the n; ``NEVER_VARIED`` where all are equal.

    Rounding alone makes numbers deviate from their mean, so a deviation that is not larger than that counts as 1.
    """
    mean = values.mean(axis=0)
    std = values.std(axis=0)
    exceeds_rounding = std > 10 * np.finfo(np.float64).eps * np.abs(mean)  # false where either is NaN
    varies = values.max(axis=0) > values.min(axis=0)
    return mean, np.where(varies, np.where(exceeds_rounding, std, 1.0), NEVER_VARIED)
