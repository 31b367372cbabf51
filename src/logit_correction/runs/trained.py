"""A finished run, loaded: predicts and can be judged again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from logit_correction.config import RunConfig
from logit_correction.correlation import Correlation
from logit_correction.data.reader import DataSource
from logit_correction.data.stores import ArrayStore, InputStore, as_views_see
from logit_correction.errors import InputError
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.pages.console import groups_table, run_as_html
from logit_correction.registry import UntrustedCode, known_names_only
from logit_correction.runs import folder as files
from logit_correction.runs.assemble import build_algorithm, build_source
from logit_correction.runs.encode import Encoder, batches_of, before_encoder
from logit_correction.runs.evaluating import evaluate_new, evaluate_split, predictions_of_split
from logit_correction.runs.fairness import Metrics, metric_frame
from logit_correction.runs.labelled_rows import Names
from logit_correction.runs.new_rows import NewInputs, Part, parts_of
from logit_correction.runs.parts import complete_parts
from logit_correction.training import checkpoint
from logit_correction.types import DataInfo
from logit_correction.views.base import ViewInputs


class TrainedRun(os.PathLike[str]):
    """A finished run: its figures, and the weights that it selected, ready to predict.

    Where a path is wanted, a run may be given.

    Attributes:
        path: Its folder.
        report: Content of its ``report.json``.
        label_names: L names, in the order of the columns of ``predict_proba``.
        device: Where it predicts.
    """

    #: The file of the folder that may name classes.
    config_name: ClassVar[str] = files.CONFIG

    def __init__(self, folder: Path | str, device: str = "cpu", *, trust_code: bool = False) -> None:
        """Read the report of the run in ``folder``; the network is loaded when it is first needed.

        Args:
            folder: Folder of a finished run.
            device: Where to predict.
            trust_code: Import classes that its config names by a dotted path; they may do anything.

        Raises:
            InputError: If the folder holds no finished run.
        """
        self.path, self.device, self.trust_code = Path(folder), torch.device(device), trust_code
        self.report: dict[str, Any] = self._read_report()
        self.label_names: list[str] = self.report["data"]["label_names"]

    def _read_report(self) -> dict[str, Any]:
        return files.read_report(self.path)

    def __fspath__(self) -> str:
        """Return the folder."""
        return str(self.path)

    __str__ = __fspath__  # which is what a text of a path is wanted for

    def __truediv__(self, name: str) -> Path:
        """Return the path of one of its files."""
        return self.path / name

    def __repr__(self) -> str:
        return f"TrainedRun({self.report['method']} on {self.report['data']['name']}, {str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Show its figures and groups in a notebook."""
        return run_as_html(self.report)

    @property
    def groups(self) -> pd.DataFrame:
        """One row for each group of the test split; see ``GroupReport.groups``."""
        return groups_table(self.report)

    def names(self) -> AbstractContextManager[None]:
        """Import no code that the folder names, unless it is trusted."""
        return nullcontext() if self.trust_code else known_names_only(self.path / self.config_name)

    @cached_property
    def config(self) -> RunConfig:
        """What was run."""
        try:
            with self.names():
                return complete_parts(RunConfig.read(self.path / files.CONFIG))
        except UntrustedCode:
            raise
        except InputError as error:
            raise InputError(f"{self.path} cannot be loaded by this version ({error}): train again") from error

    @cached_property
    def source(self) -> DataSource:
        """The data source, as it was in training."""
        source = build_source(self.config)
        source.prepare(self.report["data"].get("preparation") or {})
        return source

    @cached_property
    def info(self) -> DataInfo:
        """What the networks were told of the data."""
        return info_of(self.report)

    @cached_property
    def algorithm(self) -> Algorithm:
        """The method with its networks.

        Raises:
            InputError: If the checkpoint is damaged, or of another version.
        """
        with self.names(), without_pretrained_weights():
            algorithm = build_algorithm(self.config, self.info)
        self._load_weights(algorithm)
        return algorithm.to(self.device).eval()

    def _load_weights(self, algorithm: Algorithm) -> None:
        try:
            algorithm.load_state_dict(checkpoint.read(self.path / files.CHECKPOINT)["algorithm"])
        except (RuntimeError, KeyError) as error:
            raise InputError(f"{self.path / files.CHECKPOINT} does not fit the run's config: train again") from error

    def predict_proba(self, inputs: NewInputs) -> NDArray[np.float32]:
        """Return the probability of every label.

        Args:
            inputs: What the data source takes. Names of image files; an array (n, *input_shape), for images
                unsigned bytes or floats in [0, 1]; for a ``Table`` also a data frame or a mapping with the columns of
                training, or, of texts, a list of texts. Rows may also come one by one in a list: arrays or lists of
                numbers, or mappings with the columns of training.

        Returns:
            (n, L) float32.

        Raises:
            InputError: If a file cannot be read, or the shape or the values do not fit.
        """
        found = [self.probabilities_of(store) for store, _ in self.parts(inputs)]
        return np.concatenate(found) if found else np.zeros((0, len(self.label_names)), np.float32)

    def parts(self, inputs: NewInputs) -> Iterator[Part]:
        """Return new rows as the source reads them, images of files a few at a time; see ``predict_proba``.

        Raises:
            InputError: If a file cannot be read, or the shape or the values do not fit.
        """
        return parts_of(inputs, self.source, self.inputs_info)

    def probabilities_of(self, store: InputStore) -> NDArray[np.float32]:
        """Return the probability of every label (n, L) of rows as the source reads them."""
        return self._probabilities(self.encoded(store))

    def answers(self, store: InputStore, looks: Mapping[str, Any]) -> tuple[NDArray[np.float32], ViewInputs]:
        """Return the probability of every label (n, L), and the rows as views may look at them.

        Args:
            store: The rows as the source reads them.
            looks: In what other forms views may look at them; see ``DataSource.looks``.
        """
        encoded = self.encoded(store)
        return self._probabilities(encoded), as_views_see(store, looks, encoded)

    @torch.no_grad()
    def _probabilities(self, store: InputStore) -> NDArray[np.float32]:
        parts = [self.algorithm.predict(inputs).softmax(1) for inputs in batches_of(store, self.device)]
        return torch.cat(parts).cpu().numpy() if parts else np.zeros((0, len(self.label_names)), np.float32)

    def predict(self, inputs: NewInputs) -> NDArray[np.str_]:
        """Return the name of the most probable label of each input, (n,)."""
        return np.asarray(self.label_names)[self.predict_proba(inputs).argmax(1)]

    def evaluate(
        self, data: str | Path | NewInputs = "test", label: Names | None = None, attribute: Names | None = None
    ) -> dict[str, Any]:
        """Evaluate the run on a split of its data, read anew, or on new labelled rows.

        Args:
            data: A split: ``test``, ``valid`` or ``train``. Or new rows, as ``predict_proba`` takes them. Or a
                ``Path``: a folder with a folder of images for each label, or a CSV or Parquet file, with the columns of
                training or with one of image files.
            label: Of new rows, n names; of a data frame or a file a column, by default that of training.
            attribute: Of new rows, n names or a column, None where unknown: groups are label by attribute.

        Returns:
            The figures of ``report.json``'s test block: by label or by group, and under ``estimated`` by the groups
            that the run's estimator finds, where it can tell.

        Raises:
            InputError: If data cannot be read, or a label is none of the run's.
        """
        if isinstance(data, str) and label is None:
            return evaluate_split(self, data)
        return evaluate_new(self, data, label, attribute)

    def metric_frame(self, split: str = "test", metrics: Metrics | None = None, estimated: bool = False) -> Any:
        """Return fairlearn's ``MetricFrame`` of a split of its data, by attribute; see ``runs.fairness``."""
        return metric_frame(predictions_of_split(self, split), metrics, estimated)

    @property
    def inputs_info(self) -> DataInfo:
        """What new inputs are, before an encoder."""
        return before_encoder(self.info, self.report.get("encoder"))

    @cached_property
    def encoder(self) -> Encoder:
        """The frozen network whose features take the place of the inputs; only of a run that has one."""
        assert self.config.encoder is not None
        with self.names():
            return Encoder(self.config.encoder, self.inputs_info, self.report["encoder"])

    def encoded(self, store: InputStore) -> InputStore:
        """Return rows as the network takes them: their features, where the run has an encoder."""
        if self.config.encoder is None:
            return store
        bf16 = self.config.training.precision == "bf16-mixed"
        return ArrayStore(self.encoder.of_store(store, self.device, bf16))


def info_of(report: Mapping[str, Any]) -> DataInfo:
    """Return what the networks of a run were told of its data."""
    data, attributes = report["data"], tuple(report["data"]["attribute_names"])
    table = data["correlation"]
    return DataInfo(
        num_labels=len(data["label_names"]),
        num_rows=data["rows"]["train"],
        input_shape=tuple(data["input_shape"]),
        num_attributes=len(attributes),
        label_names=tuple(data["label_names"]),
        attribute_names=attributes,
        correlation=None if table is None else Correlation.from_table(table, len(attributes) or None),
        tokens=data["tokens"],
    )
