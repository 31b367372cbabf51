"""A finished run: its report and its network, ready to predict and to be evaluated on further rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from logit_correction.data.column_kinds import list_column_inputs
from logit_correction.data.new_rows import Annotations
from logit_correction.data.source import DataSource
from logit_correction.data.splits import SPLITS
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError
from logit_correction.evaluation.metrics import MetricSpec, resolve_metrics
from logit_correction.evaluation.predictions import Predictions
from logit_correction.evaluation.report import Report
from logit_correction.networks.base import skip_pretrained_weights
from logit_correction.pages.compare import build_comparison_table, read_comparable_reports
from logit_correction.pages.console import render_run_html
from logit_correction.registry import copy_without_download, forbid_untrusted_names
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import PreparedRun, check_same_data, load_preparation_of_run
from logit_correction.runs.encode import Encoder
from logit_correction.runs.model import FittedModel, build_data_info, check_network_sizes
from logit_correction.runs.options import RunConfig, complete_config
from logit_correction.runs.write import evaluate_split
from logit_correction.training.display import Display
from logit_correction.training.record import read_checkpoint
from logit_correction.types import Correlation, DataInfo

#: Most weights of a network that an untrusted folder names, unless its checkpoint holds a quarter of them or more (it
#: need not hold the biased network).
MAX_UNTRUSTED_WEIGHTS = 50_000_000

#: Unseen rows: names of files, texts, numbers or mappings of columns, one a row; arrays; or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[str, Any] | pd.DataFrame

#: Kind of the labels before they became texts -> what turns a text into a label again; others are texts.
LABEL_PARSERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": "True".__eq__}


class Run(os.PathLike[str]):
    """A finished run: its figures, and the weights that it selected, ready to predict.

    Functions that take a run's folder take a ``Run`` too.

    Attributes:
        path: Its folder.
        report: The content of its ``report.json``; ``report.to_dict()`` is that of the file.
        label_names: L names, in the order of the columns of ``predict_proba``.
        device: Where it predicts.
        display: Shows the progress of a long prediction; None, the default, shows nothing.
    """

    display: Display | None = None

    def __init__(self, folder: Path | str, device: str = "cpu", *, trust_code: bool = False) -> None:
        """Read the report of the run in ``folder``; the network is loaded when it is first needed. See ``load``."""
        self.path = Path(folder)
        self.device = torch.device(device)
        self.trust_code = trust_code
        self.report = Report.read(self.path)
        self.label_names: list[str] = self.report.data.label_names

    def __fspath__(self) -> str:
        return str(self.path)

    __str__ = __fspath__  # the text of a path is used as the path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __repr__(self) -> str:
        return f"Run({self.report.method} on {self.report.data.name}, {str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Show its figures and groups in a notebook."""
        return render_run_html(self.report)

    @property
    def results(self) -> Report:
        """The former name of ``report``."""
        warnings.warn("Run.results is now Run.report", DeprecationWarning, stacklevel=2)
        return self.report

    @property
    def groups(self) -> pd.DataFrame:
        """One row for each group of the test split; see ``GroupReport.groups``."""
        return self.report.test.groups.copy()

    # -- what the folder holds

    def restrict_imports(self) -> AbstractContextManager[None]:
        """Refuse in the block to import code that the folder names, unless the run is trusted."""
        return nullcontext() if self.trust_code else forbid_untrusted_names(self.path / run_folder.CONFIG)

    @cached_property
    def config(self) -> RunConfig:
        """The complete config of its training."""
        with self.restrict_imports():
            return complete_config(RunConfig.read(self.path / run_folder.CONFIG))

    @cached_property
    def source(self) -> DataSource:
        """The data source; it reads rows as it did for the training."""
        data = self.config.data
        source: DataSource = (data if self.trust_code else copy_without_download(data)).make()
        load_preparation_of_run(self.report, source, self.path)
        return source

    @cached_property
    def model(self) -> FittedModel:
        """The trained model, read from the folder when it is first used.

        Raises:
            InputError: The folder is damaged, or names code and the run is not trusted.
        """
        file = self.path / run_folder.CHECKPOINT
        state = read_checkpoint(file)
        source = self.source  # refuses a preparation that does not fit
        state["info"] = state.get("info") or self._build_info_state()
        info = build_data_info(state["info"], str(file))
        data = self.report.data
        if tuple(data.input_shape) != tuple(info.input_shape):
            raise InputError(f"{self.path}: data.input_shape is {data.input_shape}, but {file.name} has another one")
        with self.restrict_imports():
            encoder = self._build_encoder(info)
            if not self.trust_code:
                values = state.get("algorithm", {}).values()
                stored = sum(value.numel() for value in values if isinstance(value, Tensor))
                with skip_pretrained_weights():
                    check_network_sizes(self.config, info, max(MAX_UNTRUSTED_WEIGHTS, 4 * stored))
            model = FittedModel.from_state(
                state,
                self.config,
                source,
                encoder=encoder,
                attribute_names=data.attribute_names,
                name=str(file),
                display=self.display,
            )
        model.algorithm.to(self.device)
        return model

    def _build_info_state(self) -> dict[str, Any]:
        """Return the sizes of the data of a run whose checkpoint, of an earlier version, does not hold them."""
        data = self.report.data
        names = list_column_inputs(data.preparation.get("columns", ()))
        num_attributes = len(data.attribute_names) or len(data.label_names)
        table = data.correlation
        return {
            "num_labels": len(data.label_names),
            "num_rows": data.rows["train"],
            "input_shape": tuple(data.input_shape),
            "num_attributes": num_attributes,
            "label_names": tuple(data.label_names),
            "attribute_names": tuple(data.attribute_names),
            "correlation": None if table is None else Correlation.from_table(table, num_attributes).weights,
            "tokens": data.tokens,
            "words": isinstance(self.source.reader, TextReader) and not data.tokens and self.report.encoder is None,
            "input_names": names if [len(names)] == data.input_shape else (),
        }

    def _build_encoder(self, info: DataInfo) -> Encoder | None:
        summary = self.report.encoder
        if self.config.encoder is None or summary is None:
            return None
        input_info = replace(info, input_shape=tuple(summary.input_shape), tokens=summary.tokens)
        bf16 = self.config.training.precision == "bf16-mixed"
        return Encoder(self.config.encoder, input_info, self.device, bf16, summary.weights)

    # -- unseen rows

    def predict_proba(self, inputs: NewInputs) -> NDArray[np.float32]:
        """Return the probability of every label, (n, L).

        Args:
            inputs: Names of image files; an array (n, *input_shape), images as unsigned bytes or floats in [0, 1]; a
                data frame or a mapping with the columns of training; or a list of texts, of arrays, or of mappings.

        Raises:
            InputError: A file cannot be read, or the shape or the values do not fit.
        """
        model = self.model
        model.display = self.display
        with self.restrict_imports():
            return model.predict_logits(self.source.new_rows(inputs)).softmax(1).numpy()

    def predict(self, inputs: NewInputs) -> NDArray[Any]:
        """Return the most probable label of each input, (n,): a text, a number or a boolean, as in training."""
        parse = LABEL_PARSERS.get(self.report.data.label_kind, str)
        labels = [parse(name) for name in self.label_names]
        has_large_integers = isinstance(labels[0], int) and np.asarray(labels).dtype.kind == "f"  # would be rounded
        return np.asarray(labels, dtype=object if has_large_integers else None)[self.predict_proba(inputs).argmax(1)]

    def evaluate(
        self,
        data: str | Path | NewInputs = "test",
        label: Annotations | None = None,
        attribute: Annotations | None = None,
        metrics: MetricSpec = (),
    ) -> dict[str, Any]:
        """Evaluate the run on a split of its data, or on new labelled rows.

        Args:
            data: A split: ``test``, ``valid`` or ``train``. Or new rows, as ``predict_proba`` takes them. Or a
                ``Path``: a folder with a folder of images for each label, or a CSV or Parquet file.
            label: Of new rows, n names or a column, by default that of training.
            attribute: Of new rows, n names or a column, None where unknown: groups are label by attribute.
            metrics: Further figures of each group: names of ``list metrics``, such as ``recall`` and ``auroc``; dotted
                paths, such as ``sklearn.metrics.f1_score``; or functions of two arrays (n,): whether rows have the
                group's label, and whether it is predicted, or its probability if the parameter is called ``y_score``.

        Returns:
            The figures that ``report.json`` has under ``test``.

        Raises:
            InputError: The data have changed since the training, or rows cannot be read.
        """
        metrics = resolve_metrics(metrics)  # raises before anything is read, and imports what the caller has named
        if isinstance(data, str) and label is None:
            return self._evaluate_split(data, metrics)
        model = self.model
        model.display = self.display
        with self.restrict_imports():
            tables = list(self.source.new_rows(data, labelled=True))
            if len(tables) != 1:
                raise InputError(
                    "there are no rows to evaluate on: give one folder of images, one table, or rows with labels"
                )
            return model.evaluate(tables[0], label, attribute, metrics).to_dict()

    def _evaluate_split(self, split: str, metrics: MetricSpec) -> dict[str, Any]:
        if split not in SPLITS:
            raise InputError(
                f"{split!r} is not a split: give test, valid or train, new rows with their labels, or a Path"
            )
        with self.restrict_imports():
            table = self.source.build().check()
            check_same_data(self.report, table, self.path, "give `evaluate` other rows as a file")
            if self.report.refit is not None and split in self.report.refit.splits:  # rows that it has trained on since
                file = run_folder.PREDICTIONS if split == "test" else run_folder.VALIDATION
                return evaluate_split(Predictions.load(self.path / file), table, metrics).to_dict()
            table = replace(table, inputs=self.model.encode(table.inputs))
        config = replace(self.config, training=replace(self.config.training, compile=False))  # which takes minutes
        trainer = PreparedRun(config, table, self.model.algorithm).make_trainer(Display(), self.device)
        return evaluate_split(trainer.predict_split(split), table, metrics).to_dict()


def load(run: Run | Path | str, device: str = "cpu", *, trust_code: bool = False) -> Run:
    """Load a finished run and its network.

    Args:
        run: Folder that ``train`` wrote.
        device: Where to predict.
        trust_code: Import custom classes that its config names; only for runs whose maker you trust. What ``train``
            returned is trusted.

    Raises:
        InputError: The folder holds no finished run, its checkpoint is damaged, or it names code and is not trusted.
    """
    is_trusted = trust_code or (isinstance(run, Run) and run.trust_code)
    loaded = Run(Path(run), device, trust_code=is_trusted)
    _ = loaded.model  # raises here if it is damaged
    return loaded


def runs_table(runs: Sequence[os.PathLike[str] | str] | os.PathLike[str] | str) -> pd.DataFrame:
    """Return one row for each run: method, epochs, seed, accuracies on the test split as fractions, and selection.

    Args:
        runs: Runs, or their folders, also those of ``train --seeds``; or one.

    Raises:
        InputError: ``runs`` is empty, or a folder holds no finished run.
    """
    run_list = [runs] if isinstance(runs, os.PathLike | str) else runs
    folders = run_folder.expand_seed_folders(Path(run) for run in run_list)
    if not folders:
        raise InputError("runs_table has no runs: give some, or their folders")
    return build_comparison_table(read_comparable_reports(folders))


def build_network_from_run(info: DataInfo, run: str) -> nn.Module:
    """Return the predicting network of a finished run with its weights: the network ``FromRun`` of a config.

    Args:
        info: Sizes of the data; inputs must be of the shape that the run was trained on.
        run: Folder of the run.

    Raises:
        InputError: The folder holds no run, its config names code of its own, or its network takes other inputs.
    """
    loaded = Run(run)
    config = loaded.config
    if any(part is not None and part.name == "FromRun" for part in (config.network, config.biased_network)):
        raise InputError(f"the run {run} took a network from elsewhere itself: name that one")
    model = loaded.model
    input_shape = tuple(info.input_shape)
    if (model.info.input_shape, model.info.tokens) != (input_shape, info.tokens):
        shapes = f"{model.info.input_shape}, but the data's are of shape {input_shape}"
        raise InputError(f"the network of {run} takes inputs of shape {shapes}")
    network = model.algorithm.network.train()
    network.finished = True  # read by methods that need no training of their own
    return network
