"""The figures of a run over time: what becomes ``metrics.csv``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from logit_correction.evaluation.files import replacing
from logit_correction.types import TrainingError

Row = dict[str, float | int]


class Record:
    """Collects a step's logs on the device and turns them into rows now and then.

    Reading a figure from a GPU makes the host wait, so the steps between two rows are read together.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.rows: list[Row] = []
        self._names: list[str] = []
        self._pending: list[Tensor] = []

    def add(self, loss: Tensor, logs: dict[str, Tensor]) -> None:
        """Keep one step's total loss and logs, without reading them."""
        self._names = [name for name in logs if name != "loss"]
        self._pending.append(torch.stack([loss.detach().float(), *(logs[name].float() for name in self._names)]))

    def check(self, step: int) -> Tensor | None:
        """Return the pending figures (steps, names) on the CPU, None if there are none.

        Raises:
            TrainingError: A loss was not finite; names the step.
        """
        if not self._pending:
            return None
        values = torch.stack(self._pending).cpu()
        bad = (~torch.isfinite(values[:, 0])).nonzero().flatten()
        if len(bad):
            at = step - len(values) + int(bad[0]) + 1
            raise TrainingError(
                f"the loss became {float(values[int(bad[0]), 0])} at step {at}: lower --learning_rate, or set "
                "--gradient_clip 1; the last checkpoint before it was kept"
            )
        return values

    def flush(self, *, step: int, **where: float | int) -> Row | None:
        """Turn the steps since the last flush into one row of their means.

        Args:
            step: Number of steps done, the pending ones included.
            **where: Further columns, such as the epoch.

        Raises:
            TrainingError: A loss was not finite; names the step.
        """
        values = self.check(step)
        if values is None:
            return None
        self._pending = []
        means = values.double().mean(0).tolist()
        row: Row = {"step": step, **where, "loss": means[0], **dict(zip(self._names, means[1:], strict=True))}
        self.rows.append(row)
        return row

    def state(self) -> dict[str, Any]:
        """Return all of it for a checkpoint, the steps not yet turned into a row included."""
        return {"rows": self.rows, "names": self._names, "pending": [value.cpu() for value in self._pending]}

    def load(self, state: dict[str, Any]) -> None:
        """Take up what ``state`` returned."""
        self.rows, self._names, self._pending = list(state["rows"]), list(state["names"]), list(state["pending"])

    def write(self, path: Path) -> None:
        """Write the rows as CSV; a figure that a row lacks is left empty."""
        columns: dict[str, None] = {}
        for row in self.rows:
            columns.update(dict.fromkeys(row))
        with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(columns), restval="")
            writer.writeheader()
            writer.writerows(self.rows)
