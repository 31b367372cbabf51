"""A finished run, loaded: predicts and can be judged again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.config import RunConfig
from logit_correction.correlation import Correlation
from logit_correction.data.image_io import UnreadableImages
from logit_correction.data.loading import BatchLoader, evaluation_batch
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataSource
from logit_correction.evaluation.predict import collect
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.runs import folder as files
from logit_correction.runs import summary
from logit_correction.runs.assemble import build_algorithm, build_source, complete_parts
from logit_correction.runs.encode import EncodedStore, Encoder, check_same_weights, encode_table
from logit_correction.training import checkpoint
from logit_correction.types import DataInfo, InputError

#: Picture files in memory at a time.
CHUNK = 512

#: What a model predicts: names of files or texts, arrays, or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Path | str] | Mapping[str, Any]


class TrainedModel:
    """The weights that a run selected, ready to predict.

    Attributes:
        config: What was run.
        report: The run's ``report.json``.
        label_names: L names, in the order of the columns of ``predict_proba``.
        info: What the networks were told of the data.
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
        self.source.prepare(self.report["data"].get("preparation") or {})
        self.label_names: list[str] = self.report["data"]["label_names"]
        self.device = torch.device(device)
        self.info = _info(self.report)
        with without_pretrained_weights():
            self.algorithm: Algorithm = build_algorithm(self.config, self.info)
        try:
            self.algorithm.load_state_dict(checkpoint.read(folder / files.CHECKPOINT)["algorithm"])
        except (RuntimeError, KeyError) as error:
            raise InputError(f"{folder / files.CHECKPOINT} does not fit the run's config: train again") from error
        self.algorithm.to(self.device).eval()

    def predict_proba(self, inputs: NewInputs) -> NDArray[np.float32]:
        """Return the probability of every label.

        Args:
            inputs: What the data source takes. Names of picture files; an array (n, *input_shape), for pictures
                unsigned bytes or floats in [0, 1]; for a ``Table`` also a data frame or a mapping with the columns of
                training, or, of texts, a list of texts.

        Returns:
            (n, L) float32.

        Raises:
            InputError: If a file cannot be read, or the shape or the values do not fit.
        """
        if not self._are_files(inputs):
            return self._probabilities(self._store(inputs))
        paths, parts, faults = [Path(path) for path in cast(Iterable[str], inputs)], [], []
        for start in range(0, len(paths), CHUNK):
            try:
                parts.append(self._probabilities(self.source.read_new(paths[start : start + CHUNK])))
            except UnreadableImages as error:  # the others are looked at as well, to name all at once
                faults += error.faults
        if faults:
            raise UnreadableImages(faults)
        return np.concatenate(parts) if parts else np.zeros((0, len(self.label_names)), np.float32)

    def predict_file(self, file: Path) -> tuple[str, list[str], NDArray[np.float32]]:
        """Predict the rows of a CSV or Parquet file with the columns of training.

        Returns:
            What names a row (``row`` or ``path``), the name of each row, and (n, L) probabilities.

        Raises:
            InputError: If the source takes no such file, a column is missing or rows are bad.
        """
        kind, names, store = self.source.read_table(file)
        return kind, names, self._probabilities(store)

    @torch.no_grad()
    def _probabilities(self, store: InputStore) -> NDArray[np.float32]:
        store = self._encoded(store).to(self.device)
        rows = torch.arange(len(store), device=self.device).split(evaluation_batch(store))
        parts = [self.algorithm.predict(store.fetch(part)).softmax(1) for part in rows if len(part)]
        return torch.cat(parts).cpu().numpy() if parts else np.zeros((0, len(self.label_names)), np.float32)

    def _are_files(self, inputs: NewInputs) -> bool:
        """Return whether inputs are names of files; where texts are inputs only a ``Path`` is one."""
        if isinstance(inputs, str | Path):
            raise InputError(f"inputs are one name, {str(inputs)!r}: give a list of names")
        if isinstance(inputs, Tensor | Mapping) or hasattr(inputs, "columns"):
            return False
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "UO":
            return False
        return not self.source.takes_texts or any(isinstance(one, Path) for one in inputs)

    def predict(self, inputs: NewInputs) -> NDArray[np.str_]:
        """Return the name of the most probable label of each input, (n,)."""
        return np.asarray(self.label_names)[self.predict_proba(inputs).argmax(1)]

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Judge the model on a split of its data, read anew; the figures of ``report.json``'s test block.

        Raises:
            InputError: If the data cannot be read.
        """
        table = self.source.build().check()
        if self.config.encoder is not None:
            table = encode_table(table, self.config)
            check_same_weights(cast(EncodedStore, table.inputs).description["weights"], self.report["encoder"])
        size, workers = evaluation_batch(table.inputs), self.config.training.workers
        batches = BatchLoader(table, split, batch_size=size, device=self.device, workers=workers).epoch()
        logits = collect(lambda batch: {"logits": self.algorithm.predict(batch.inputs)}, batches)["logits"]
        return summary.judge(table, split, logits)

    @property
    def _inputs_info(self) -> DataInfo:
        """What new inputs are, before an encoder."""
        described = self.report.get("encoder")
        if described is None:
            return self.info
        return replace(self.info, input_shape=tuple(described["input_shape"]), tokens=described["tokens"])

    @cached_property
    def _encoder(self) -> Encoder:
        assert self.config.encoder is not None
        encoder = Encoder(self.config.encoder, self._inputs_info)
        check_same_weights(encoder.weights, self.report["encoder"])
        return encoder

    def _encoded(self, store: InputStore) -> InputStore:
        if self.config.encoder is None:
            return store
        bf16 = self.config.training.precision == "bf16-mixed"
        return ArrayStore(self._encoder.of_store(store, self.device, bf16))

    def _store(self, inputs: NewInputs) -> InputStore:
        if not isinstance(inputs, Tensor | np.ndarray) or (
            isinstance(inputs, np.ndarray) and inputs.dtype.kind in "UO"
        ):
            return self.source.read_values(inputs)
        if isinstance(inputs, np.ndarray):
            inputs = np.require(inputs, requirements=["C", "W"])  # else torch refuses a flipped array
        values, shape = torch.as_tensor(inputs), self._inputs_info.input_shape
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
        tokens=data.get("tokens", False),
    )
