"""A finished run, loaded: predicts and can be judged again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.config import RunConfig
from logit_correction.correlation import Correlation
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import InputStore
from logit_correction.data.table import DataSource
from logit_correction.evaluation.predict import collect
from logit_correction.methods.base import Algorithm
from logit_correction.runs import folder as files
from logit_correction.runs import summary
from logit_correction.runs.assemble import build_algorithm, build_source, complete_parts
from logit_correction.training import checkpoint
from logit_correction.types import DataInfo, InputError

BATCH = 1000


class TrainedModel:
    """The weights that a run selected, ready to predict.

    Attributes:
        config: What was run.
        report: The run's ``report.json``.
        label_names: L names, in the order of the columns of ``predict_proba``.
    """

    def __init__(self, folder: Path | str, device: str = "cpu") -> None:
        """Load the run in ``folder``.

        Raises:
            InputError: If the folder holds no finished run or its checkpoint is damaged.
        """
        folder = Path(folder)
        self.report = files.read_report(folder)
        try:
            self.config = complete_parts(RunConfig.read(folder / files.CONFIG))
        except InputError as error:
            raise InputError(f"{folder} cannot be loaded by this version ({error}): train again") from error
        self.source: DataSource = build_source(self.config)
        self.label_names: list[str] = self.report["data"]["label_names"]
        self.device = torch.device(device)
        self._info = _info(self.report)
        self.algorithm: Algorithm = build_algorithm(self.config, self._info)
        try:
            self.algorithm.load_state_dict(checkpoint.read(folder / files.CHECKPOINT)["algorithm"])
        except (RuntimeError, KeyError) as error:
            raise InputError(f"{folder / files.CHECKPOINT} does not fit the run's config: train again") from error
        self.algorithm.to(self.device).eval()

    def predict_proba(self, inputs: Tensor | NDArray[Any] | Sequence[Path | str]) -> NDArray[np.float32]:
        """Return the probability of every label.

        Args:
            inputs: Names of picture files; or an array (n, *input_shape), for pictures unsigned bytes or
                floats in [0, 1].

        Returns:
            (n, L) float32.

        Raises:
            InputError: If a file cannot be read, or the shape or the values do not fit.
        """
        store = self._store(inputs).to(self.device)

        def probabilities(rows: Tensor) -> Tensor:
            return self.algorithm.predict(store.fetch(rows)).softmax(1)

        with torch.no_grad():
            parts = [probabilities(rows) for rows in torch.arange(len(store), device=self.device).split(BATCH)]
        return torch.cat(parts).cpu().numpy() if len(store) else np.zeros((0, len(self.label_names)), np.float32)

    def predict(self, inputs: Tensor | NDArray[Any] | Sequence[Path | str]) -> NDArray[np.str_]:
        """Return the name of the most probable label of each input, (n,)."""
        return np.asarray(self.label_names)[self.predict_proba(inputs).argmax(1)]

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Judge the model on a split of its data, read anew; the figures of ``report.json``'s test block.

        Raises:
            InputError: If the data cannot be read.
        """
        table = self.source.build().check()
        batches = BatchLoader(table, split, batch_size=BATCH, device=self.device).epoch()
        logits = collect(lambda batch: {"logits": self.algorithm.predict(batch.inputs)}, batches)["logits"]
        return summary.judge(table, split, logits)

    def _store(self, inputs: Tensor | NDArray[Any] | Sequence[Path | str]) -> InputStore:
        if isinstance(inputs, str | Path):
            raise InputError(f"inputs are one name, {str(inputs)!r}: give a list of names")
        if not isinstance(inputs, Tensor | np.ndarray) or (
            isinstance(inputs, np.ndarray) and inputs.dtype.kind in "UO"
        ):
            return self.source.read_new([Path(path) for path in inputs])
        if isinstance(inputs, np.ndarray):
            inputs = np.require(inputs, requirements=["C", "W"])  # else torch refuses a flipped array
        values, shape = torch.as_tensor(inputs), self._info.input_shape
        if tuple(values.shape[1:]) != shape:
            shown = ", ".join(map(str, shape))
            raise InputError(f"inputs have shape {tuple(values.shape)}, but must be (n, {shown})")
        if len(shape) == 3 and values.dtype != torch.uint8 and not values.is_floating_point():
            raise InputError(f"pictures have type {values.dtype}, but must be unsigned bytes or floats in [0, 1]")
        if values.is_floating_point() and not bool(torch.isfinite(values).all()):
            raise InputError("the inputs hold NaN or infinity: mend or remove those rows")
        return self.source.as_store(values)


def load(run: Path | str, device: str = "cpu") -> TrainedModel:
    """Load the trained model of a run folder.

    Args:
        run: Folder that ``train`` wrote.
        device: Where to predict.

    Raises:
        InputError: If the folder holds no finished run or its checkpoint is damaged.
    """
    return TrainedModel(run, device)


def _info(report: dict[str, Any]) -> DataInfo:
    data = report["data"]
    table = data["correlation"]
    return DataInfo(
        num_labels=len(data["label_names"]),
        num_rows=data["rows"]["train"],
        input_shape=tuple(data["input_shape"]),
        num_attributes=len(data["attribute_names"]),
        label_names=tuple(data["label_names"]),
        attribute_names=tuple(data["attribute_names"]),
        correlation=None if table is None else Correlation.from_table(table, len(data["attribute_names"]) or None),
    )
