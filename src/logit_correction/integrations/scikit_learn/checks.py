"""What scikit-learn expects a classifier to check: rows, labels, attributes and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length, column_or_1d, validate_data

from logit_correction.data.frames import as_text
from logit_correction.data.images import Channels
from logit_correction.data.rows import coded
from logit_correction.errors import InputError
from logit_correction.integrations.scikit_learn.inputs import Kind, checked_frame, checked_images


def checked_rows(estimator: BaseEstimator, X: Any, kind: Kind, channels: Channels | None, reset: bool) -> Any:
    """Return rows as ``Form`` takes them: float64 (n, F), images (n, C, H, W), a data frame, or texts.

    Args:
        estimator: Takes or has the number and the names of columns.
        X: The rows.
        kind: What they are.
        channels: Where images have their channels.
        reset: Whether these are the rows of ``fit``.

    Raises:
        ValueError: If they are bad, or of other columns than those of ``fit``.
    """
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu().numpy()
    if kind == "numbers":
        return validate_data(estimator, X, reset=reset, dtype=np.float64)
    if kind == "images":
        return checked_images(X, channels)
    if kind == "texts":
        return [str(text) for text in X]
    frame = checked_frame(X)
    validate_data(estimator, frame, reset=reset, skip_check_array=True)
    return frame


def checked_labels(X: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the L labels, sorted, and the number (n,) of each row's.

    Raises:
        ValueError: If labels are missing, of no kind that can be told apart, or all the same.
    """
    if y is None:
        raise InputError("the classifier requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    if labels.dtype.kind in "OUS":
        missing = [row for row, label in enumerate(labels.tolist()) if as_text(label) is None]
        if missing:
            raise InputError(f"row {missing[0]} has no label ({len(missing)} such rows): give one, or leave it out")
    else:
        labels = _check_y(labels, estimator="LogitCorrectionClassifier")
    check_classification_targets(labels)
    classes, number = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only, {classes[0]!r}: a classifier needs rows of at least two classes")
    return classes, number.astype(np.int64)


def known_attribute(attribute: ArrayLike | None, n: int) -> tuple[NDArray[np.int64], list[str]] | None:
    """Return the number (n,) of each row's attribute, -1 where unknown, and the K names; None where none is given.

    Raises:
        InputError: If there is not one for each row.
    """
    if attribute is None:
        return None
    values = np.asarray(attribute)
    if values.shape != (n,):
        raise InputError(f"attribute has shape {values.shape}, but must be ({n},), one for each row")
    texts = [as_text(value) for value in values.tolist()]
    number, names = coded([None if text == "-1" else text for text in texts], torch.ones(n, dtype=torch.bool))
    return number.numpy(), names


def seed_of(random_state: Any) -> int:
    """Return the seed of a training: a whole number as it is, else one that is drawn."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
