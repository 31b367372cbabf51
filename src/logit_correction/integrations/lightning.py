"""Lightning: a callback that estimates the attributes before the training and corrects a module's loss by them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from logit_correction.data.frames import as_text
from logit_correction.errors import InputError, format_first
from logit_correction.losses import check_criterion
from logit_correction.registry import needed
from logit_correction.runs.estimate import AttributeEstimates, estimate_attributes

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    # Two copies of one package; the Trainer of one takes no callback of the other: the one that the program uses.
    _name = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
    Callback = needed(_name, "logit_correction.integrations.lightning", "lightning").Callback


def check_numbers(names: Iterable[str | None]) -> None:
    """Raise ``InputError`` unless the names of the labels are the numbers of the columns of the logits."""
    there = [str(name) for name in names]
    if {*there} != {str(number) for number in range(len(there))}:
        held = format_first(there, 5)
        raise InputError(f"Labels are {held}: give the numbers 0 to L - 1, like the columns of the logits")


class CorrectLogits(Callback):
    """Gives an ordinary LightningModule logit correction, without a change to its code.

    The module must keep to two things:

    - It computes its training loss by a module of its own, such as ``self.criterion = nn.CrossEntropyLoss()``, called
      as ``self.criterion(logits, label)`` with the logits of the whole batch. It smooths no labels.
    - Each training batch carries the numbers of its rows, 0..N-1, in the order of the rows that were given here.

    Before the training the first process estimates the attribute of every row by ``estimate_attributes``. In each
    training step the callback adds the log prior of the batch's rows to the logits that the criterion is given (eq. 7).
    Checkpoints hold what is added: a resumed training does not estimate again.

    Attributes:
        estimates: What was estimated; None before the training, and after it was resumed.
        log_prior: (N, L), what is added to the logits of each row; None before the training.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        criterion: str = "criterion",
        index: str | int = "index",
        estimates: AttributeEstimates | None = None,
        strength: float = 1.0,
        **options: Any,
    ) -> None:
        """Say on which rows the module is trained.

        Args:
            data: The training rows, or a data source, as ``estimate_attributes`` takes them.
            label: (N,) their labels, whole numbers 0..L-1 like the columns of the logits, or the column of them.
            criterion: Name of the module's loss.
            index: Where a batch has the numbers of its rows: the key of a mapping, or the place in a sequence.
            estimates: What was estimated before; then ``data`` is not looked at.
            strength: Factor of log P.
            **options: Those of ``estimate_attributes``, such as ``estimator``, ``network`` and ``epochs``.
        """
        super().__init__()
        self.data, self.label, self.options = data, label, options
        self.criterion, self.index, self.strength = criterion, index, strength
        self.estimates = estimates
        self.log_prior: Tensor | None = None
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
        if self.estimates is None and self.label is not None and not isinstance(self.label, str):  # before long work
            check_numbers(as_text(one) for one in np.unique(np.asarray(self.label)).tolist())

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.teardown(trainer, pl_module, "fit")  # of a training before, however it ended
        if self.log_prior is None:
            if trainer.is_global_zero:
                self.estimates = self.estimates or estimate_attributes(self.data, self.label, **self.options)
                if self.label is not None:
                    check_numbers(self.estimates.label_names)
                self.log_prior = torch.from_numpy(self.estimates.log_prior_of_rows())
            self.log_prior = trainer.strategy.broadcast(self.log_prior)
        self.log_prior = self.log_prior.to(pl_module.device)
        self._hook = getattr(pl_module, self.criterion).register_forward_pre_hook(self._corrected)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.log_prior is not None
        rows = None
        with suppress(KeyError, IndexError, TypeError):
            rows = self._rows = batch[self.index]
        if not isinstance(rows, Tensor) or rows.dim() != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
            raise InputError(f"Training batches hold no row numbers (B,) at {self.index!r}: give index= their place")
        if batch_idx == 0 or rows.device.type == "cpu":  # on a GPU each look would wait for it
            low, high, last = int(rows.min()), int(rows.max()), len(self.log_prior) - 1
            if low < 0 or high > last:
                what = f"{low} to {high} at {self.index!r}, not numbers of the rows 0 to {last}"
                raise InputError(f"Training batches hold {what}: give index= their place")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._rows = None

    def _corrected(self, criterion: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return what the criterion is to be given: the logits with the log prior of their rows added."""
        if self._rows is None or not torch.is_grad_enabled():
            return None
        assert self.log_prior is not None
        if len(given) > 1 and given[1] is self._rows:
            raise InputError(f"index={self.index!r} is the place of the labels: give that of the numbers of the rows")
        shape = (len(self._rows), self.log_prior.shape[1])
        if not given or tuple(given[0].shape) != shape:
            raise InputError(
                f"{self.criterion} must be given the logits {shape} of all rows of the batch and all labels that the "
                f"rows have: call self.{self.criterion}(logits, label), by position"
            )
        return (given[0] + self.strength * self.log_prior[self._rows.long()], *given[1:])

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")  # which Lightning does not call after an error

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._hook = self._rows = None

    def state_dict(self) -> dict[str, Any]:
        return {"log_prior": None if self.log_prior is None else self.log_prior.cpu()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.log_prior = state_dict["log_prior"]
