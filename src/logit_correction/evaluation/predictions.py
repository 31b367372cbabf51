"""What a model said of every row of a split: kept, written to Parquet and read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.errors import InputError
from logit_correction.evaluation.estimated import EstimatedAttributes
from logit_correction.evaluation.quality import probabilities
from logit_correction.files import plain, replacing
from logit_correction.functional.groups import group_membership
from logit_correction.types import as_array

Array: TypeAlias = NDArray[Any]

_METADATA_KEY = b"logit_correction"


@dataclass(frozen=True)
class Predictions:
    """Logits of N rows beside what is known of the rows.

    Tensors are taken as well as arrays; both end as NumPy arrays.

    Attributes:
        index: (N,) int64, the row of the data table.
        label: (N,) int64, 0..L-1.
        logits: (N, L) float32 or float64, uncorrected.
        label_names: L names.
        attribute: (N,) int64, 0..K-1, -1 where unknown; None where it is unknown for every row.
        attribute_names: K names.
        split: Name of the split.
        membership: (N, G) bool, the groups to judge on where they are not label x attribute; they may overlap.
        groups: G pairs, the names of label and attribute of each of these groups.
        estimate: What an attribute estimator says of the rows, in their order; None where none could tell.

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

    index: Array
    label: Array
    logits: Array
    label_names: Sequence[str]
    attribute: Array | None = None
    attribute_names: Sequence[str] = ()
    split: str = "test"
    membership: Array | None = None
    groups: Sequence[tuple[str, str]] = ()
    estimate: EstimatedAttributes | None = None

    def __post_init__(self) -> None:
        """Bring everything into one form and check it."""
        index, label = _as_integers("index", self.index), _as_integers("label", self.label)
        attribute = None if self.attribute is None else _as_integers("attribute", self.attribute)
        if attribute is not None and not (attribute >= 0).any():
            attribute = None
        logits = as_array(self.logits)
        if logits.dtype not in (np.float32, np.float64):
            logits = logits.astype(np.float32)
        names, attributes = tuple(map(str, self.label_names)), tuple(map(str, self.attribute_names))
        membership = None if self.membership is None else as_array(self.membership).astype(bool)
        for name, value in {
            "index": index,
            "label": label,
            "attribute": attribute,
            "logits": logits,
            "label_names": names,
            "attribute_names": attributes,
            "membership": membership,
            "groups": tuple((str(label_name), str(other)) for label_name, other in self.groups),
        }.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        rows, width = len(self.index), len(self.label_names)
        if self.logits.shape != (rows, width):
            raise ValueError(f"logits must have shape ({rows}, {width}), rows by labels, but have {self.logits.shape}")
        for name, codes, size in (
            ("label", self.label, width),
            ("attribute", self.attribute, len(self.attribute_names)),
        ):
            if codes is None:
                continue
            if codes.shape != (rows,):
                raise ValueError(f"{name} must have shape ({rows},), but has {codes.shape}")
            least = 0 if name == "label" else -1
            if rows and (codes.min() < least or codes.max() >= size):
                raise ValueError(f"{name} must lie in {least}..{size - 1}, as there are {size} names")
        if self.membership is not None and self.membership.shape != (rows, len(self.groups)):
            raise ValueError(
                f"membership must have shape ({rows}, {len(self.groups)}), rows by groups, "
                f"but has {self.membership.shape}"
            )

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def prediction(self) -> Array:
        """(N,) int64, the label with the greatest logit; the first one where several are equal."""
        return self.logits.argmax(axis=1).astype(np.int64)

    @cached_property
    def probabilities(self) -> Array:
        """(N, L) float64, the softmax of the logits."""
        return probabilities(self.logits)

    def judged_groups(self) -> Tensor | None:
        """Return the groups (N, G) bool: the data's own, else label x attribute, sparse; None where none are known."""
        if self.membership is not None:
            return torch.from_numpy(self.membership)
        if self.attribute is None:
            return None
        label, attribute = torch.from_numpy(self.label), torch.from_numpy(self.attribute)
        return group_membership(label, attribute, len(self.label_names), len(self.attribute_names), sparse=True)

    def unique(self) -> Predictions:
        """Return each row once, in order; processes that share an epoch repeat rows to fill their batches."""
        index, first = np.unique(self.index, return_index=True)
        attribute = None if self.attribute is None else self.attribute[first]
        membership = None if self.membership is None else self.membership[first]
        estimate = self.estimate and replace(self.estimate, attribute=self.estimate.attribute[first])
        return replace(
            self,
            index=index,
            label=self.label[first],
            logits=self.logits[first],
            attribute=attribute,
            membership=membership,
            estimate=estimate,
        )

    def save(self, path: Path | str) -> None:
        """Write a Parquet file, which is complete or absent.

        Its columns are index, label, attribute (-1 where unknown), prediction, logit_0, logit_1 and so on, and
        where there are groups of their own to judge on group_0, group_1 and so on, true for the rows of the group, and
        estimated_attribute where one was estimated; the names and the split lie in its metadata.

        Raises:
            OSError: The file cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        attribute = np.full(len(self), -1) if self.attribute is None else self.attribute
        columns = {"index": self.index, "label": self.label, "attribute": attribute}
        columns |= {"prediction": self.prediction}
        columns |= {f"logit_{number}": self.logits[:, number] for number in range(self.logits.shape[1])}
        if self.membership is not None:
            columns |= {f"group_{number}": self.membership[:, number] for number in range(len(self.groups))}
        if self.estimate is not None:
            columns |= {"estimated_attribute": self.estimate.attribute}
        metadata = {name: getattr(self, name) for name in ("label_names", "attribute_names", "split", "groups")}
        metadata["estimate"] = None if self.estimate is None else self.estimate.metadata()
        table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: json.dumps(metadata).encode()})
        with replacing(path) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)

    @classmethod
    def load(cls, path: Path | str) -> Predictions:
        """Read what ``save`` wrote.

        Raises:
            InputError: There is no such file, or it is damaged or no file of predictions.
        """
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(plain(Path(path)), page_checksum_verification=True)
            metadata = json.loads(table.schema.metadata[_METADATA_KEY])
            column = {name: table[name].to_numpy() for name in table.column_names}
            known = metadata.pop("estimate", None)
            estimate = known and EstimatedAttributes(
                attribute=_as_integers("estimated_attribute", column["estimated_attribute"]), **known
            )
            groups = [column[f"group_{i}"] for i in range(len(metadata.get("groups", ())))]
            return cls(
                index=column["index"],
                label=column["label"],
                attribute=column["attribute"],
                logits=np.stack([column[f"logit_{i}"] for i in range(len(metadata["label_names"]))], axis=1),
                membership=np.stack(groups, axis=1) if groups else None,
                estimate=estimate,
                **metadata,
            )
        except FileNotFoundError as error:
            raise InputError(f"there are no predictions at {path}: name a file of a finished run") from error
        except Exception as error:  # pyarrow raises many kinds
            message = f"the predictions at {path} cannot be read ({error}): evaluate the run again"
            raise InputError(message) from error


def _as_integers(name: str, values: Any) -> Array:
    array = as_array(values)
    broken = array[array != np.floor(array)] if array.dtype.kind == "f" else array[:0]
    if len(broken):
        raise ValueError(f"{name} must be whole numbers, but some are not, such as {broken[0]}")
    return array.astype(np.int64)
