"""What an estimator that has learnt from some rows says of others: of the rest of a set that no memory holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from logit_correction.data.reader import DataSource
from logit_correction.data.stores import as_views_see
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.runs.labelled_rows import Names, labelled
from logit_correction.runs.new_rows import NewInputs, parts_of
from logit_correction.training.estimates import estimate_rows
from logit_correction.types import DataInfo


@dataclass(frozen=True)
class FurtherRows:
    """Estimates rows that were not trained on.

    Attributes:
        algorithm: The method, whose estimator is done.
        source: Reads rows as it read those of training.
        info: What the networks were told of the data.
    """

    algorithm: Algorithm
    source: DataSource
    info: DataInfo

    def attribute(self, inputs: NewInputs, label: Names) -> NDArray[np.int64]:
        """Return the attribute of n rows, (n,), -1 where unknown; see ``AttributeEstimates.of``.

        Raises:
            InputError: If rows or labels do not fit, or the estimator knows its training rows alone.
        """
        told = {"data": {"label_names": list(self.info.label_names)}}
        rows, estimator = labelled(inputs, label, None, told), self.algorithm.attributes
        assert estimator is not None
        found, start = [np.zeros(0, dtype=np.int64)], 0
        for store, looks in parts_of(inputs, self.source, self.info):
            own = torch.from_numpy(rows.label[start : start + len(store)])
            start += len(store)
            if len(own) < len(store):
                continue  # too few labels, which is told with the number of all rows
            estimate = estimate_rows(self.algorithm, own, as_views_see(store, looks))
            if estimate is None and not estimator.abstained:
                raise InputError(f"{type(estimator).__name__} knows its training rows alone: estimate by Auto instead")
            found.append(np.full(len(own), -1) if estimate is None else estimate.attribute)
        rows.check_count(start)
        return np.concatenate(found)
