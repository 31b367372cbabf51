"""A mixin by which the ``Trainer`` of transformers takes the corrected loss, and attributes as a column."""

from __future__ import annotations

from typing import Any

import torch

from logit_correction.errors import InputError
from logit_correction.losses import LogitCorrectedLoss
from logit_correction.runs.estimate import AttributeEstimates


class LogitCorrectionMixin:
    """Puts the corrected loss into a ``Trainer`` of transformers.

    Write it before the trainer among the bases::

        class CorrectedTrainer(LogitCorrectionMixin, Trainer):
            pass

        arguments = TrainingArguments(folder, remove_unused_columns=False)
        trainer = CorrectedTrainer(model, arguments, train_dataset=rows, correction=estimates.loss())

    The model returns ``logits`` (B, L). The training rows have ``labels``, the column ``attribute`` of
    ``add_attributes``, and else only columns that the model takes. In evaluation the loss is the plain cross-entropy,
    and rows need no attribute.
    """

    def __init__(
        self, *arguments: Any, correction: LogitCorrectedLoss, attribute_column: str = "attribute", **options: Any
    ) -> None:
        """Make the trainer.

        Args:
            *arguments: The trainer's.
            correction: The loss, as ``AttributeEstimates.loss`` gives it.
            attribute_column: Column of the attribute in the training rows.
            **options: The trainer's.
        """
        self.correction = correction
        self.attribute_column = attribute_column
        super().__init__(*arguments, **options)
        trainer: Any = self
        if trainer.args.label_smoothing_factor or getattr(trainer, "compute_loss_func", None) is not None:
            raise InputError("The loss is the corrected one: leave label_smoothing_factor and compute_loss_func out")
        if trainer.args.remove_unused_columns:
            raise InputError(
                f"The trainer would drop the column {attribute_column!r}, which no model takes: give "
                "TrainingArguments(remove_unused_columns=False), and rows of the columns that the model takes"
            )
        trainer.model_accepts_loss_kwargs = False  # the loss is a mean; the trainer divides it among accumulated steps

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the corrected loss in training and the plain cross-entropy otherwise, with the outputs if wanted."""
        rows = dict(inputs)
        label = rows.pop("labels", None)
        attribute = rows.pop(self.attribute_column, None)
        if label is None or (attribute is None and model.training):
            missing = "labels" if label is None else self.attribute_column
            raise InputError(f"The rows have no {missing!r}: call add_attributes, and keep the column when you collate")
        outputs = model(**rows)
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if model.training:
            loss = self.correction.to(logits.device)(logits, label, attribute)
        else:
            loss = torch.nn.functional.cross_entropy(logits, label)
        if not return_outputs:
            return loss
        return loss, outputs if isinstance(outputs, dict) else (loss, *outputs)  # of a tuple the first is the loss


def add_attributes(dataset: Any, estimates: AttributeEstimates, column: str = "attribute") -> Any:
    """Add its estimated attribute to each training row.

    Args:
        dataset: N rows to train on: a ``datasets.Dataset``, or mappings one after another, which become a list.
        estimates: What ``estimate_attributes`` returned for these rows; its ``loss`` is the trainer's ``correction``.
        column: Name of the new column.

    Returns:
        The dataset with the column, -1 where nothing is to be corrected.
    """
    attribute = estimates.attribute.tolist()
    if len(attribute) != len(dataset):
        raise InputError(
            f"The dataset has {len(dataset):,} rows, the estimates have {len(attribute):,}: estimate the same rows"
        )
    if hasattr(dataset, "add_column"):
        return dataset.add_column(column, attribute)
    return [{**row, column: value} for row, value in zip(dataset, attribute, strict=True)]
