"""The training behind other libraries' doors: scikit-learn, Lightning, transformers, torchmetrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from logit_correction.errors import InputError

if TYPE_CHECKING:
    from logit_correction.runs.estimate import AttributeEstimates


def estimate_numbered(data: Any, label: Any, **options: Any) -> AttributeEstimates:
    """Return ``estimate_attributes(data, label, ...)``, for a network whose outputs are numbered as whole labels are.

    Raises:
        InputError: If whole numbers are not 0..L-1, with none left out.
    """
    from logit_correction.runs.estimate import estimate_attributes

    numbers = None if label is None else np.asarray(label)
    if numbers is not None and numbers.dtype.kind in "iu":
        wrong = np.setdiff1d(np.arange(numbers.max(initial=-1) + 1), numbers)
        if len(wrong) or numbers.min(initial=0) < 0:
            what = f"no row has label {wrong[0]}" if len(wrong) else f"one is {numbers.min()}"
            raise InputError(f"Labels must be numbered 0, 1, 2 and so on like the network's outputs, but {what}")
    return estimate_attributes(data, label, **options)
