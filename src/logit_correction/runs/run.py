"""A finished run: its report, its network, ready to predict and to be judged again, and what it says of new rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

from logit_correction.data.features import ColumnReader
from logit_correction.data.frames import convert_column_to_texts, list_column_inputs
from logit_correction.data.loading import BatchLoader
from logit_correction.data.reader import DataSource, RowValues, get_label_indices, get_row_values
from logit_correction.data.rows import Rows, combine_attributes, find_positions
from logit_correction.data.stores import InputStore, build_view_inputs
from logit_correction.data.table import SPLITS
from logit_correction.data.texts import TextReader
from logit_correction.errors import InputError
from logit_correction.evaluation.metrics import find_metrics
from logit_correction.evaluation.predictions import Predictions, build_predictions, collect_outputs
from logit_correction.evaluation.report import GroupReport, MetricSpec, Report
from logit_correction.formatting import format_reason
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import skip_pretrained_weights
from logit_correction.pages.compare import build_comparison_table, read_reports
from logit_correction.pages.console import render_run_html
from logit_correction.registry import disable_download, forbid_untrusted_names, parse_names
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import build_algorithm, check_network_sizes, check_same_data, prepare_like
from logit_correction.runs.encode import Encoder, encode_table
from logit_correction.runs.inference import iterate_batches
from logit_correction.runs.options import RunConfig, complete_config
from logit_correction.runs.write import evaluate_split
from logit_correction.training.display import Display
from logit_correction.training.fit import predict_row_attributes, predict_split_attributes
from logit_correction.training.record import read_checkpoint
from logit_correction.types import Correlation, DataInfo

#: Weights of a network, at most, if a run of somebody else holds fewer: it need not hold its biased network.
MOST_WEIGHTS_UNSEEN = 50_000_000

#: What a run predicts: names of files, texts, numbers or mappings of columns, a row each; arrays, or a data frame.
NewInputs: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[str, Any] | pd.DataFrame


class Run(os.PathLike[str]):
    """A finished run: its figures, and the weights that it selected, ready to predict.

    Functions that take a run's folder take a ``Run`` too.

    Attributes:
        path: Its folder.
        report: The content of its ``report.json``; ``report.to_dict()`` is that of the file.
        label_names: L names, in the order of the columns of ``predict_proba``.
        device: Where it predicts.
        display: What shows how far a long prediction is; nothing by default.
    """

    display: Display | None = None

    def __init__(self, folder: Path | str, device: str = "cpu", *, trust_code: bool = False) -> None:
        """Read the report of the run in ``folder``; the network is loaded when it is first needed. See ``load``."""
        self.path, self.device, self.trust_code = Path(folder), torch.device(device), trust_code
        self.report = Report.read(self.path)
        self.label_names: list[str] = self.report.data.label_names

    def __fspath__(self) -> str:
        return str(self.path)

    __str__ = __fspath__  # which is what a text of a path is wanted for

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

    def restrict_imports(self) -> AbstractContextManager[None]:
        """Import no code that the folder names, unless it is trusted."""
        return nullcontext() if self.trust_code else forbid_untrusted_names(self.path / run_folder.CONFIG)

    @cached_property
    def config(self) -> RunConfig:
        """What was run."""
        with self.restrict_imports():
            return complete_config(RunConfig.read(self.path / run_folder.CONFIG))

    @cached_property
    def source(self) -> DataSource:
        """The data source, as it was in training."""
        data = self.config.data
        source: DataSource = (data if self.trust_code else disable_download(data)).make()
        prepare_like(self.report, source, self.path)
        return source

    @cached_property
    def info(self) -> DataInfo:
        """What the networks know of the data."""
        data = self.report.data
        if not all(0 < size <= 2**31 for size in data.input_shape):
            raise InputError(f"{self.path}: data.input_shape is {data.input_shape}, which no inputs have: train again")
        names, table = tuple(data.attribute_names), data.correlation
        reader = self.source.reader  # after it has refused what does not fit
        inputs = list_column_inputs(data.preparation.get("columns", ())) if isinstance(reader, ColumnReader) else ()
        return DataInfo(
            num_labels=len(data.label_names),
            num_rows=data.rows["train"],
            input_shape=tuple(data.input_shape),
            num_attributes=len(names),
            label_names=tuple(data.label_names),
            attribute_names=names,
            correlation=None if table is None else Correlation.from_table(table, len(names) or None),
            tokens=data.tokens,
            words=isinstance(reader, TextReader) and not data.tokens and self.report.encoder is None,
            input_names=inputs if [len(inputs)] == data.input_shape else (),
        )

    @property
    def inputs_info(self) -> DataInfo:
        """What new inputs are, before an encoder."""
        encoder = self.report.encoder
        if encoder is None:
            return self.info
        return replace(self.info, input_shape=tuple(encoder.input_shape), tokens=encoder.tokens)

    @cached_property
    def algorithm(self) -> Algorithm:
        """The method with its networks."""
        place = self.path / run_folder.CHECKPOINT
        content = read_checkpoint(place)
        with self.restrict_imports(), skip_pretrained_weights():
            if not self.trust_code:
                state = content.get("algorithm", {})
                held = sum(weight.numel() for weight in state.values() if isinstance(weight, Tensor))
                check_network_sizes(self.config, self.info, max(MOST_WEIGHTS_UNSEEN, 4 * held))
            algorithm = build_algorithm(self.config, self.info)
        try:
            algorithm.load_state_dict(content["algorithm"])
        except (RuntimeError, KeyError, AttributeError, TypeError, ValueError) as error:
            raise InputError(f"{place} does not fit the run's config ({format_reason(error)}): train again") from error
        if not all(bool(one.isfinite().all()) for one in algorithm.network.parameters()):
            raise InputError(f"{place} holds weights that are NaN or infinite: train again")
        for name, _ in algorithm.named_parameters():
            if not content["algorithm"][name].is_floating_point():  # torch would round, or drop a part
                raise InputError(f"{place} holds {name} as {content['algorithm'][name].dtype}: train again")
        return algorithm.to(self.device).eval()

    def read(self, rows: Iterable[Rows], bad_too: bool = False) -> Iterator[tuple[Rows, InputStore, dict[str, Any]]]:
        """Yield new rows as ``DataSource.read`` does; nothing from elsewhere is read, unless the run is trusted."""
        parts = self.source.read(rows, self.inputs_info, bad_too)
        while True:
            with self.restrict_imports():
                part = next(parts, None)
            if part is None:
                return
            yield part

    @cached_property
    def encoder(self) -> Encoder:
        """The frozen network whose features take the place of the inputs; only of a run that has one."""
        assert self.config.encoder is not None
        with self.restrict_imports():
            return Encoder(self.config.encoder, self.inputs_info, vars(self.report.encoder))

    def predict_proba(self, inputs: NewInputs) -> NDArray[np.float32]:
        """Return the probability of every label, (n, L).

        Args:
            inputs: Names of image files; an array (n, *input_shape), images as unsigned bytes or floats in [0, 1]; a
                data frame or a mapping with the columns of training; or a list of texts, of arrays, or of mappings.

        Raises:
            InputError: A file cannot be read, or the shape or the values do not fit.
        """
        rows = self.source.new_rows(inputs)
        found = [self.probabilities_of(store) for _, store, _ in self.read(rows)]
        return np.concatenate([np.zeros((0, len(self.label_names)), np.float32), *found])

    def predict(self, inputs: NewInputs) -> NDArray[Any]:
        """Return the most probable label of each input, (n,): a text, a number or a boolean, as in training."""
        kinds: dict[str, Any] = {"int": int, "float": float, "bool": "True".__eq__}
        labels = list(map(kinds.get(self.report.data.label_kind, str), self.label_names))
        exact = object if np.asarray(labels).dtype.kind == "f" and isinstance(labels[0], int) else None
        return np.asarray(labels, dtype=exact)[self.predict_proba(inputs).argmax(1)]

    def probabilities_of(self, store: InputStore) -> NDArray[np.float32]:
        """Return the probability of every label (n, L) of rows as the source reads them."""
        return self._logits(self.encoded(store)).softmax(1).numpy()

    def encoded(self, store: InputStore) -> InputStore:
        """Return rows as the network takes them: their features, where the run has an encoder."""
        if self.config.encoder is None or not len(store):
            return store
        bf16 = self.config.training.precision == "bf16-mixed"
        return self.encoder.of_store(store, self.device, bf16, self.display)

    @torch.no_grad()
    def _logits(self, encoded: InputStore) -> Tensor:
        parts = [self.algorithm.predict(inputs).float() for inputs in iterate_batches(encoded, self.device)]
        logits = torch.cat(parts).cpu() if parts else torch.zeros(0, len(self.label_names))
        if not bool(logits.isfinite().all()):  # of finite inputs and weights
            place = self.path / run_folder.CHECKPOINT
            raise InputError(f"{place} gives answers that are NaN or infinite: it is damaged, train again")
        return logits

    def evaluate(
        self,
        data: str | Path | NewInputs = "test",
        label: RowValues | None = None,
        attribute: RowValues | None = None,
        metrics: MetricSpec = (),
    ) -> dict[str, Any]:
        """Return the figures of ``report.json``'s test block on a split of the run's data, or on new labelled rows.

        Args:
            data: A split: ``test``, ``valid`` or ``train``. Or new rows, as ``predict_proba`` takes them. Or a
                ``Path``: a folder with a folder of images for each label, or a CSV or Parquet file.
            label: Of new rows, n names or a column, by default that of training.
            attribute: Of new rows, n names or a column, None where unknown: groups are label by attribute.
            metrics: Further figures of each group: names of ``list metrics``, such as ``recall`` and ``auroc``; dotted
                paths, such as ``sklearn.metrics.f1_score``; or functions of two arrays (n,): whether rows have the
                group's label, and whether it is predicted, or its probability if the parameter is called ``y_score``.
        """
        find_metrics(metrics)  # what is wrong with them is told before anything is read
        if not isinstance(data, str) or label is not None:
            return self._evaluate_new(data, label, attribute, metrics)
        if data not in SPLITS:
            raise InputError(f"{data!r} is no split: give test, valid or train, new rows with their labels, or a Path")
        with self.restrict_imports():
            table = self.source.build().check()
        check_same_data(self.report, table, self.path, "give `evaluate` other rows as a file")
        if self.config.encoder is not None:
            with self.restrict_imports():
                table = encode_table(table, self.config, expected=vars(self.report.encoder))
        algorithm, batches = self.algorithm, BatchLoader(table, data, device=self.device).epoch()
        logits = collect_outputs(lambda batch: algorithm.predict(batch.inputs), batches)
        rows = build_predictions(table, data, logits, predict_split_attributes(algorithm, table, data))
        return evaluate_split(rows, table, metrics).to_dict()

    def _evaluate_new(
        self, data: Path | NewInputs, label: RowValues | None, attribute: RowValues | None, metrics: MetricSpec
    ) -> dict[str, Any]:
        found, options = list(self.source.new_rows(data, labelled=True)), self.config.data.options
        if len(found) != 1:
            raise InputError("there are no rows to judge: give one folder of images, one table, or rows with labels")
        rows = found[0]
        if label is None and rows.frame is not None:
            label = str(options.get("label") or "label")
        columns = parse_names(options.get("attribute"))
        if attribute is None and columns and rows.frame is not None and set(columns) <= set(rows.frame.columns):
            attribute = combine_attributes(
                {name: convert_column_to_texts(rows.frame, name) for name in columns}, len(rows)
            )  # as in training
        labels, correlation = get_label_indices(rows, label, self.label_names), None
        known: dict[str, Any] = {}
        if attribute is not None:
            values, names = get_row_values(rows, attribute, "attribute"), self.report.data.attribute_names
            there, table = sorted({name for name in values if name}), self.report.data.correlation
            if not set(there) <= set(names):
                names = there
            elif table is not None:
                correlation = Correlation.from_table(table, len(names))
            known = {"attribute": find_positions(values, names).numpy(), "attribute_names": names}
        logits, estimates, start = [torch.zeros(0, len(self.label_names))], [], 0
        for _, store, forms in self.read([rows]):
            encoded, own = self.encoded(store), torch.from_numpy(labels[start : start + len(store)])
            start += len(own)
            logits.append(self._logits(encoded))
            estimates.append(predict_row_attributes(self.algorithm, own, build_view_inputs(encoded, forms)))
        told = [one for one in estimates if one is not None]
        if told and len(told) == len(estimates):
            known["estimate"] = replace(told[0], attribute=np.concatenate([one.attribute for one in told]))
        index, scores = np.arange(len(labels)), torch.cat(logits).numpy()
        predicted = Predictions(index, labels, scores, self.label_names, split="new rows", **known)
        return GroupReport.from_predictions(predicted, correlation, metrics=metrics).to_dict()


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
    trusted = trust_code or (isinstance(run, Run) and run.trust_code)
    loaded = Run(Path(run), device, trust_code=trusted)
    _ = loaded.algorithm  # what is wrong with it is told here
    return loaded


def runs_table(runs: Sequence[os.PathLike[str] | str] | os.PathLike[str] | str) -> pd.DataFrame:
    """Return one row for each run: method, epochs, seed, accuracies on the test split as fractions, and selection.

    Args:
        runs: Runs, or their folders, also those of ``train --seeds``; or one.

    Raises:
        InputError: If there is none, or a folder holds no finished run.
    """
    given = [runs] if isinstance(runs, os.PathLike | str) else runs
    if not (folders := run_folder.find_runs(Path(run) for run in given)):
        raise InputError("runs_table has no runs: give some, or their folders")
    return build_comparison_table(read_reports(folders))


def build_network_from_run(info: DataInfo, run: str) -> nn.Module:
    """Return the predicting network of the finished run in a folder, with its weights; for data of the same inputs.

    Raises:
        InputError: There is no run, its config names code of its own, or its network is for other inputs.
    """
    model = Run(run)
    parts = [part for part in (model.config.network, model.config.biased_network) if part is not None]
    if any(part.name == "FromRun" for part in parts):
        raise InputError(f"the run {run} took a network from elsewhere itself: name that one")
    there = model.info
    if (there.input_shape, there.tokens) != (tuple(info.input_shape), info.tokens):
        shapes = f"{there.input_shape}, but the data's are of shape {tuple(info.input_shape)}"
        raise InputError(f"the network of {run} takes inputs of shape {shapes}")
    network = model.algorithm.network.train()
    network.finished = True  # type: ignore[assignment]  # methods that need no training of their own look at it
    return network
