"""A callback of Lightning that adds logit correction to an ordinary module, without a change to its code."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from logit_correction.errors import InputError
from logit_correction.formatting import format_first
from logit_correction.losses import check_criterion
from logit_correction.registry import import_optional
from logit_correction.runs.estimate import AttributeEstimates

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    # Two copies of one package; the Trainer of one takes no callback of the other: the one that the program uses.
    _name = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
    Callback = import_optional(_name, "logit_correction.integrations.lightning", "lightning").Callback


class CorrectLogits(Callback):
    """Gives an ordinary LightningModule logit correction, without a change to its code.

    The module must keep to two things:

    - It computes its training loss by a module of its own, such as ``self.criterion = nn.CrossEntropyLoss()``, called
      as ``self.criterion(logits, label)`` with the logits of the whole batch. It smooths no labels.
    - Each training batch carries the numbers of its rows, 0..N-1, in the order of the rows that were estimated.

    In each training step the callback adds the log prior of the batch's rows to the logits that the criterion is given
    (eq. 7).

    Attributes:
        log_prior: (N, L), what is added to the logits of each row.
    """

    def __init__(
        self,
        estimates: AttributeEstimates,
        *,
        criterion: str = "criterion",
        index: str | int = "index",
        strength: float = 1.0,
    ) -> None:
        """Prepare the log prior of the rows that the module is trained on.

        Args:
            estimates: What ``estimate_attributes`` returned for the training rows. Their labels must be whole numbers
                0..L-1, like the columns of the logits.
            criterion: Name of the module's loss.
            index: Where a batch has the numbers of its rows: the key of a mapping, or the place in a sequence.
            strength: Factor of log P.
        """
        super().__init__()
        names = estimates.label_names
        if [*names] != [str(number) for number in range(len(names))]:
            first_names = format_first(names, 5)
            raise InputError(f"Labels are {first_names}: give the numbers 0 to L - 1, like the columns of the logits")
        self.criterion = criterion
        self.index = index
        self.log_prior = strength * torch.from_numpy(estimates.log_prior_of_rows())
        self._rows: Tensor | None = None
        self._hook: Any = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        criterion = getattr(pl_module, self.criterion, None)
        if not isinstance(criterion, nn.Module):
            name = type(pl_module).__name__
            raise InputError(f"{name} has no loss {self.criterion!r} that is a torch.nn.Module: name it by criterion=")
        check_criterion(criterion)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.teardown(trainer, pl_module, "fit")  # of a training before, however it ended
        self.log_prior = self.log_prior.to(pl_module.device)
        self._hook = getattr(pl_module, self.criterion).register_forward_pre_hook(self._add_log_prior, with_kwargs=True)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        rows = None
        with suppress(KeyError, IndexError, TypeError):
            rows = self._rows = batch[self.index]
        if not isinstance(rows, Tensor) or rows.dim() != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
            raise InputError(f"Training batches hold no row numbers (B,) at {self.index!r}: give index= their place")
        if batch_idx == 0 or rows.device.type == "cpu":  # on a GPU each look would wait for it
            low = int(rows.min())
            high = int(rows.max())
            last = len(self.log_prior) - 1
            if low < 0 or high > last:
                raise InputError(
                    f"Training batches hold {low} to {high} at {self.index!r}, not numbers of the rows 0 to {last}: "
                    "give index= their place"
                )

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._rows = None

    def _add_log_prior(
        self, criterion: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the criterion's arguments with the log prior of the batch's rows added to the logits (eq. 7)."""
        if self._rows is None or not torch.is_grad_enabled():
            return None
        if any(value is self._rows for value in (*arguments[1:], *keywords.values())):
            raise InputError(f"index={self.index!r} is the place of the labels: give that of the numbers of the rows")
        shape = (len(self._rows), self.log_prior.shape[1])
        if not arguments or tuple(arguments[0].shape) != shape:
            raise InputError(
                f"{self.criterion} must be given the logits {shape} of all rows of the batch and all labels that the "
                f"rows have: call self.{self.criterion}(logits, label), by position"
            )
        return (arguments[0] + self.log_prior[self._rows.long()], *arguments[1:]), keywords

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")  # which Lightning does not call after an error

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = self._rows = None
