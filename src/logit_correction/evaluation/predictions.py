"""The predictions of a model for the rows of a split, and their Parquet file.

All metrics are computed from ``Predictions``, whether a model has just made them or a file holds them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.atomic_files import replace_atomically
from logit_correction.checksums import verify_checksum
from logit_correction.errors import InputError
from logit_correction.functional import group_membership
from logit_correction.paths import reject_special_file
from logit_correction.types import Array, Batch, Correlation, to_numpy

if TYPE_CHECKING:
    from logit_correction.data.table import DataTable


REMEDY = "evaluate the run again"  # where the file is damaged


@dataclass(frozen=True)
class PredictedAttributes:
    """The attributes that an estimator predicts for n rows.

    Attributes:
        attribute: (n,) int64, 0..K-1, -1 where unknown.
        names: K names.
        table: The attribute values of each label's majority.
        source: Where the estimates come from, in words.
    """

    attribute: NDArray[np.int64]
    names: Sequence[str]
    table: Sequence[Sequence[int]]
    source: str

    @property
    def correlation(self) -> Correlation:
        """The attribute values of each label's majority, as a correlation."""
        return Correlation.from_table(self.table, len(self.names))


@dataclass(frozen=True)
class Predictions:
    """Logits, labels and attributes of N rows, given as tensors, lists or arrays and kept as NumPy arrays.

    Attributes:
        index: (N,) int64, the row of the data table.
        label: (N,) int64, 0..L-1.
        logits: (N, L) float32 or float64, uncorrected.
        label_names: L names.
        attribute: (N,) int64, 0..K-1, -1 where unknown; None if it is unknown for every row.
        attribute_names: K names.
        split: Name of the split.
        membership: (N, G) bool, the groups to evaluate on if they are not label x attribute; they may overlap.
        groups: G pairs, the names of label and attribute of each of these groups.
        estimate: The predicted attributes of the rows, in their order; None without an estimate.

    Raises:
        ValueError: A shape does not fit, or a label or an attribute is out of range.

    >>> rows = Predictions(
    ...     index=[0, 1], label=[0, 1], logits=[[2.0, 1.0], [3.0, 0.0]], label_names=["cat", "dog"]
    ... )
    >>> rows.prediction
    array([0, 0])
    >>> rows.probabilities.round(2)
    array([[0.73, 0.27],
           [0.95, 0.05]])
    """

    METADATA_KEY: ClassVar[bytes] = b"logit_correction"  # of the names in a Parquet file

    index: Array
    label: Array
    logits: Array
    label_names: Sequence[str]
    attribute: Array | None = None
    attribute_names: Sequence[str] = ()
    split: str = "test"
    membership: Array | None = None
    groups: Sequence[tuple[str, str]] = ()
    estimate: PredictedAttributes | None = None

    def __post_init__(self) -> None:
        num_rows = len(self.index)
        num_labels = len(self.label_names)
        logits = to_numpy(self.logits)
        _check_shape("logits", logits, (num_rows, num_labels))
        values: dict[str, Any] = {
            "index": _convert_to_integers("index", self.index, num_rows),
            "label": _convert_to_integers("label", self.label, num_rows, 0, num_labels),
            "logits": logits if logits.dtype in (np.float32, np.float64) else logits.astype(np.float32),
            "label_names": tuple(map(str, self.label_names)),
            "attribute_names": tuple(map(str, self.attribute_names)),
            "groups": tuple((str(label), str(attribute)) for label, attribute in self.groups),
        }
        if self.attribute is not None:
            attribute = _convert_to_integers("attribute", self.attribute, num_rows, -1, len(self.attribute_names))
            values["attribute"] = attribute if (attribute >= 0).any() else None
        if self.membership is not None:
            values["membership"] = to_numpy(self.membership).astype(bool)
            _check_shape("membership", values["membership"], (num_rows, len(self.groups)))
        vars(self).update(values)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def prediction(self) -> Array:
        """(N,) int64, the label with the greatest logit; the first one if several are equal, or if one is NaN."""
        return self.logits.argmax(axis=1).astype(np.int64)

    @cached_property
    def probabilities(self) -> Array:
        """(N, L) float64, the softmax of the logits; NaN in rows that are not finite."""
        from scipy.special import softmax

        with np.errstate(invalid="ignore"):
            return np.asarray(softmax(self.logits.astype(np.float64), axis=1))

    @property
    def right(self) -> Tensor:
        """(N,) bool, whether the prediction is the label; never where a logit is NaN."""
        return torch.from_numpy((self.prediction == self.label) & ~np.isnan(self.logits).any(axis=1))

    def label_groups(self) -> Tensor:
        """Return the membership of each label, (N, L) bool, sparse."""
        label = torch.from_numpy(self.label)
        return group_membership(label, torch.zeros_like(label), len(self.label_names), 1, sparse=True)

    def group_by_estimate(self) -> Predictions | None:
        """Return the rows with the predicted attributes in place of their groups; None without an estimate."""
        estimate = self.estimate
        if estimate is None or not (estimate.attribute >= 0).any():
            return None
        return replace(
            self,
            attribute=estimate.attribute,
            attribute_names=estimate.names,
            membership=None,
            groups=(),
            estimate=None,
        )

    def save(self, path: Path | str) -> None:
        """Write a Parquet file, which is complete or absent; the names and the split are in its metadata.

        Its columns are index, label, attribute (-1 where unknown), prediction, logit_0, logit_1 and so on. With
        ``membership`` there are group_0 and so on, with ``estimate`` there is estimated_attribute.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        attribute = np.full(len(self), -1) if self.attribute is None else self.attribute
        columns = {"index": self.index, "label": self.label, "attribute": attribute, "prediction": self.prediction}
        columns |= {f"logit_{number}": column for number, column in enumerate(self.logits.T)}
        metadata = {name: getattr(self, name) for name in ("label_names", "attribute_names", "split", "groups")}
        if self.membership is not None:
            columns |= {f"group_{number}": column for number, column in enumerate(self.membership.T)}
        if self.estimate is not None:
            columns["estimated_attribute"] = self.estimate.attribute
            metadata["estimate"] = {name: getattr(self.estimate, name) for name in ("names", "table", "source")}
        table = pa.table(columns).replace_schema_metadata({self.METADATA_KEY: json.dumps(metadata).encode()})
        with replace_atomically(path) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)

    @classmethod
    def load(cls, path: Path | str) -> Predictions:
        """Read what ``save`` wrote.

        Raises:
            InputError: The file is missing or damaged.
        """
        import pyarrow.parquet as pq

        verify_checksum(Path(path), REMEDY)
        try:
            table = pq.read_table(reject_special_file(Path(path)), page_checksum_verification=True)
            metadata = json.loads(table.schema.metadata[cls.METADATA_KEY])
            columns = {name: table[name].to_numpy() for name in table.column_names}
            estimate = metadata.pop("estimate", None)
            if estimate:
                metadata["estimate"] = PredictedAttributes(columns["estimated_attribute"].astype(np.int64), **estimate)
            if metadata["groups"]:
                groups = [columns[f"group_{number}"] for number in range(len(metadata["groups"]))]
                metadata["membership"] = np.stack(groups, axis=1)
            logits = np.stack([columns[f"logit_{number}"] for number in range(len(metadata["label_names"]))], axis=1)
            return cls(columns["index"], columns["label"], logits, attribute=columns["attribute"], **metadata)
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing: name the predictions of a finished run") from error
        except Exception as error:  # pyarrow raises many kinds
            raise InputError(f"the predictions at {path} cannot be read ({error}): {REMEDY}") from error


def build_predictions(
    table: DataTable,
    split: str,
    logits: Tensor,
    estimate: PredictedAttributes | None = None,
    with_groups: bool = True,
) -> Predictions:
    """Return the predictions of a split with the known and the estimated attributes of its rows.

    Args:
        table: The data.
        split: ``train``, ``valid`` or ``test``.
        logits: (n, L) on the CPU.
        estimate: The predicted attributes of the rows.
        with_groups: Whether to read attributes and the data's own groups; if not, they count as unknown.
    """
    rows = table.split[split]
    evaluation_groups = table.evaluation_groups if with_groups else None
    return Predictions(
        index=np.arange(len(rows)),
        label=table.label[rows].numpy(),
        logits=logits.numpy(),
        label_names=table.label_names,
        attribute=table.attribute[rows].numpy() if with_groups else None,
        attribute_names=table.attribute_names,
        split=split,
        membership=None if evaluation_groups is None else evaluation_groups.membership[rows].numpy(),
        groups=() if evaluation_groups is None else evaluation_groups.group_names,
        estimate=estimate,
    )


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode inside the block."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


@torch.no_grad()
def collect_outputs(function: Callable[[Batch], Tensor], batches: Iterable[Batch]) -> Tensor:
    """Return the concatenated outputs of a function for all batches, on the CPU.

    Args:
        function: Maps a batch to (B, ...).
        batches: At least one.
    """
    return torch.cat([function(batch) for batch in batches]).cpu()


def _check_shape(name: str, values: Array, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, but has {values.shape}")


def _convert_to_integers(
    name: str, values: Any, num_rows: int, min_value: int = 0, num_names: int | None = None
) -> Array:
    """Return values as (num_rows,) int64; raise ``ValueError`` unless they are in [min_value, num_names)."""
    array = to_numpy(values)
    _check_shape(name, array, (num_rows,))
    fractions = array[array != np.floor(array)] if array.dtype.kind == "f" else array[:0]
    if len(fractions):
        raise ValueError(f"{name} must be whole numbers, but some are not, such as {fractions[0]}")
    if num_names is not None and len(array) and (array.min() < min_value or array.max() >= num_names):
        raise ValueError(f"{name} must lie in {min_value}..{num_names - 1}, as there are {num_names} names")
    return array.astype(np.int64)
