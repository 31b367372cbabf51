"""Hugging Face: a mixin for ``Trainer`` that takes the corrected loss, and the attribute as a column of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from logit_correction.errors import InputError
from logit_correction.integrations.estimating import estimate
from logit_correction.losses import LogitCorrectedLoss
from logit_correction.runs.estimate import AttributeEstimates

#: Column of the estimated attribute.
COLUMN = "attribute"


class LogitCorrectionMixin:
    """Puts the corrected loss into a ``Trainer`` of transformers.

    Write it before the trainer among the bases::

        class CorrectedTrainer(LogitCorrectionMixin, Trainer):
            pass

        trainer = CorrectedTrainer(model, arguments, train_dataset=rows, correction=estimates.loss())

    The model returns ``logits`` (B, L); the training rows have ``labels`` and, in the column ``attribute``, an
    attribute value, -1 where it is unknown (``add_attributes``). In evaluation the loss is the plain cross-entropy, and
    rows need no attribute. Gradient accumulation, mixed precision and several processes are the trainer's.
    """

    def __init__(
        self, *arguments: Any, correction: LogitCorrectedLoss, attribute_column: str = COLUMN, **options: Any
    ) -> None:
        """Make the trainer.

        Args:
            *arguments: The trainer's.
            correction: The loss, as ``AttributeEstimates.loss`` gives it.
            attribute_column: Column of the attribute in the training rows.
            **options: The trainer's.

        Raises:
            InputError: The trainer is asked for a loss of another kind.
        """
        self.correction, self.attribute_column = correction, attribute_column
        super().__init__(*arguments, **options)
        trainer: Any = self
        if trainer.args.label_smoothing_factor or getattr(trainer, "compute_loss_func", None) is not None:
            raise InputError("the loss is the corrected one: leave label_smoothing_factor and compute_loss_func out")
        trainer.model_accepts_loss_kwargs = False  # the loss is a mean; the trainer divides it among accumulated steps

    def _set_signature_columns_if_needed(self) -> None:
        """Keep the attribute's column, which no argument of the model takes."""
        trainer: Any = super()
        trainer._set_signature_columns_if_needed()
        columns: list[str] = vars(self)["_signature_columns"]
        if self.attribute_column not in columns:
            columns.append(self.attribute_column)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the corrected loss in training and the plain cross-entropy otherwise, with the outputs if wanted.

        Raises:
            InputError: Training rows have no labels or no attribute, or the model returns no logits.
        """
        rows = dict(inputs)
        label, attribute = rows.pop("labels", None), rows.pop(self.attribute_column, None)
        if label is None or (attribute is None and model.training):
            missing = "labels" if label is None else self.attribute_column
            raise InputError(
                f"the rows have no {missing!r}: add_attributes makes the column of attributes, which a data_collator "
                "of yours has to keep"
            )
        outputs = model(**rows)
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if model.training:
            loss = self.correction.to(logits.device)(logits, label, attribute)
        else:
            loss = torch.nn.functional.cross_entropy(logits, label)
        if not return_outputs:
            return loss
        return loss, outputs if isinstance(outputs, dict) else (loss, *outputs)  # of a tuple the first is the loss


class WithAttribute:
    """The rows of a map-style dataset, each a mapping, with an attribute beside.

    Args:
        dataset: N rows.
        attribute: (N,) whole numbers.
        column: Key of the attribute.

    >>> WithAttribute([{"labels": 1}], [0])[0]
    {'labels': 1, 'attribute': 0}
    """

    def __init__(self, dataset: Any, attribute: ArrayLike, column: str = COLUMN) -> None:
        self.dataset, self.attribute, self.column = dataset, np.asarray(attribute), column

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return a row as a dict.

        Raises:
            IndexError: There is no such row.
        """
        return {**self.dataset[row], self.column: int(self.attribute[row])}


def add_attributes(
    dataset: Any,
    data: Any = None,
    label: ArrayLike | Sequence[Any] | None = None,
    *,
    estimates: AttributeEstimates | None = None,
    column: str = COLUMN,
    **options: Any,
) -> tuple[Any, AttributeEstimates]:
    """Estimate the attribute of each training row and put it beside the row.

    Args:
        dataset: N rows to train on: a ``datasets.Dataset``, or any map-style dataset whose rows are mappings.
        data: The same rows as ``estimate_attributes`` takes them, such as a list of texts. For a ``datasets.Dataset`` a
            column's name is enough.
        label: (N,) their labels, numbered like the logits' columns, or a column's name.
        estimates: What was estimated of these rows before; then ``data`` and ``label`` are not needed.
        column: Name of the new column.
        **options: Those of ``estimate_attributes``.

    Returns:
        The dataset with the column, -1 where nothing is to be corrected; and the estimates, whose ``loss`` a trainer
        takes.

    Raises:
        InputError: Something given is wrong, or the numbers of rows differ.
    """
    if estimates is None:
        if data is None or label is None:
            raise InputError("the attribute is estimated of rows and labels: give data= and label=, or estimates=")
        data, label = _column_of(dataset, data), _column_of(dataset, label)
        if len(data) != len(dataset):
            raise InputError(f"the dataset has {len(dataset):,} rows, but data has {len(data):,}: give the same rows")
        estimates = estimate(data, label, **options)
    if len(estimates.attribute) != len(dataset):
        raise InputError(
            f"the dataset has {len(dataset):,} rows, but the estimates are of {len(estimates.attribute):,}: estimate "
            "those of the same rows"
        )
    if hasattr(dataset, "add_column"):
        return dataset.add_column(column, estimates.attribute.tolist()), estimates
    return WithAttribute(dataset, estimates.attribute, column), estimates


def _column_of(dataset: Any, given: Any) -> Any:
    """Return a column of a dataset by its name, and anything else as it is."""
    if not isinstance(given, str):
        return given
    names = getattr(dataset, "column_names", None)
    if names is None or given not in names:
        there = "has no columns by name" if names is None else f"has {', '.join(names)}"
        raise InputError(f"the dataset {there}, but {given!r} is asked for: give the rows themselves")
    return list(dataset[given])
