"""A trained model in memory: all that a training has learnt, and what can be asked of it about unseen rows.

Weights alone are not enough to predict. Unseen rows must be read as the training rows were, with their means or
vocabulary; an encoder may stand in front of the network; attributes are estimated by the method that was trained.
``FittedModel`` keeps these together and needs no folder: a ``Run`` is a model with a folder, and
``LogitCorrectionClassifier`` and ``AttributeEstimates`` hold one too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logit_correction.data.cells import convert_to_texts
from logit_correction.data.labels import combine_attributes, find_name_positions
from logit_correction.data.new_rows import Annotations, get_annotations, get_label_indices
from logit_correction.data.rows import RowErrors, Rows
from logit_correction.data.source import DataSource
from logit_correction.data.stores import InputStore, build_view_inputs
from logit_correction.errors import InputError, warn_user
from logit_correction.evaluation.metrics import MetricSpec
from logit_correction.evaluation.predictions import PredictedAttributes, Predictions
from logit_correction.evaluation.report import GroupReport
from logit_correction.formatting import format_option, format_reason
from logit_correction.methods.average import Average
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import skip_pretrained_weights
from logit_correction.registry import CompleteComponent, ComponentConfig, forbid_untrusted_names, parse_name_list
from logit_correction.runs.encode import Encoder
from logit_correction.runs.folder import CONFIG
from logit_correction.runs.inference import iterate_batches
from logit_correction.runs.leave_out import is_linear_removal, make_network_factory
from logit_correction.runs.options import RunConfig, complete_part
from logit_correction.training.display import Display
from logit_correction.training.fit import predict_row_attributes
from logit_correction.types import Correlation, DataInfo

#: Greatest length of a dimension of an input.
MAX_SIDE = 2**31


@dataclass
class FittedModel:
    """What a training has learnt, ready to predict unseen rows.

    Attributes:
        config: The complete config of the training.
        source: The data source, whose reader holds what was fitted to the training rows.
        algorithm: The method with its networks.
        encoder: The frozen network in front of them; None where the network takes the inputs themselves.
        attribute_names: Names of the attribute values that the training data have; empty where they have none.
        name: What messages call the model, such as the file of its weights.
        display: Shows the progress of long predictions; None shows nothing.
    """

    config: RunConfig
    source: DataSource
    algorithm: Algorithm
    encoder: Encoder | None = None
    attribute_names: Sequence[str] = ()
    name: str = "the model"
    display: Display | None = None

    @property
    def info(self) -> DataInfo:
        """Sizes and names of the data, as the networks see them."""
        return self.algorithm.info

    @property
    def input_info(self) -> DataInfo:
        """The same of rows as they are read, in front of the encoder."""
        return self.info if self.encoder is None else self.encoder.info

    def state(self) -> dict[str, Any]:
        """Return what the training has learnt as tensors and plain values, for ``from_state``.

        The config and the state of the reader are not included: they are plain values already, which a run keeps in
        files that people can read.
        """
        info = self.info
        correlation = None if info.correlation is None else info.correlation.weights
        return {"info": {**vars(info), "correlation": correlation}, "algorithm": self.algorithm.state_dict()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], config: RunConfig, source: DataSource, **fields: Any) -> FittedModel:
        """Build the model of a training anew; it predicts on the CPU, in evaluation mode.

        Args:
            state: What ``state`` returned.
            config: The complete config of the training.
            source: Its data source, after ``source.reader.load_state``.
            **fields: Further fields of the model, such as ``encoder`` and ``name``.

        Raises:
            InputError: The state is damaged, or does not fit the config.
        """
        name = fields.get("name", cls.name)
        with skip_pretrained_weights():
            algorithm = build_algorithm(config, build_data_info(state["info"], name))
        try:
            weights = state["algorithm"]
            algorithm.load_state_dict(weights)
        except (RuntimeError, KeyError, AttributeError, TypeError, ValueError) as error:
            reason = format_reason(error)
            raise InputError(f"{name} does not fit the run's config ({reason}): train again") from error
        if not all(weight.isfinite().all() for weight in algorithm.network.parameters()):
            raise InputError(f"{name} holds weights that are NaN or infinite: train again")
        for parameter, _ in algorithm.named_parameters():
            if not weights[parameter].is_floating_point():  # torch would round, or drop a part
                raise InputError(f"{name} holds {parameter} as {weights[parameter].dtype}: train again")
        return cls(config, source, algorithm.eval(), **fields)

    # -- unseen rows

    def read(
        self, rows: Iterable[Rows], keep_bad: bool = False, report_note: Callable[[str], None] = warn_user
    ) -> Iterator[tuple[Rows, InputStore, dict[str, Any]]]:
        """Read unseen rows as the training rows were read, part by part, so that they need not fit into memory.

        Args:
            rows: Rows as ``source.new_rows`` yields them.
            keep_bad: Whether rows that cannot be read stay, with finite inputs, and are named by ``Rows.errors``;
                by default they raise ``InputError``.
            report_note: Called with each sentence that a user should know of the rows; by default it is a warning.

        Yields:
            Some of the rows, their inputs in front of the encoder, and the forms that views look at.
        """
        return self.source.read(rows, self.input_info, keep_bad, report_note)

    def encode(self, inputs: InputStore) -> InputStore:
        """Return rows as the network takes them: their features where there is an encoder."""
        if self.encoder is None or not len(inputs):
            return inputs
        return self.encoder.encode_store(inputs, self.display)

    @torch.no_grad()
    def compute_logits(self, inputs: InputStore) -> Tensor:
        """Return the uncorrected logits (n, L) of a part that ``read`` yields, on the CPU.

        They are float32, or float64 where the weights are.
        """
        weights = next(self.algorithm.parameters())
        parts = [torch.zeros(0, self.info.num_labels)]
        for batch in iterate_batches(self.encode(inputs), weights.device):
            if isinstance(batch, Tensor) and batch.is_floating_point():
                batch = batch.to(torch.promote_types(batch.dtype, weights.dtype))
            logits = self.algorithm.predict(batch).cpu()
            parts.append(logits.to(torch.promote_types(logits.dtype, torch.float32)))
        logits = torch.cat(parts)
        if not logits.isfinite().all():  # of finite inputs and weights
            raise InputError(f"{self.name} gives answers that are NaN or infinite: it is damaged, train again")
        return logits

    def predict_logits(self, rows: Iterable[Rows]) -> Tensor:
        """Return the uncorrected logits (n, L) of unseen rows; ``InputError`` if one cannot be read."""
        parts = [self.compute_logits(inputs) for _, inputs, _ in self.read(rows)]
        return torch.cat([torch.zeros(0, self.info.num_labels), *parts])

    def predict_attributes(self, rows: Iterable[Rows], label: Tensor) -> PredictedAttributes | None:
        """Estimate the attribute of unseen rows with the shortcut of the training rows; nothing is learnt from them.

        Args:
            rows: n rows.
            label: (n,) long, 0..L-1, their labels.

        Returns:
            The estimates; None where the method estimates none, or only those of its training rows.
        """
        estimates = []
        start = 0
        for _, inputs, forms in self.read(rows):
            estimates.append(self._predict_attributes_of_part(inputs, forms, label[start : start + len(inputs)]))
            start += len(inputs)
        return concatenate_estimates(estimates)

    def _predict_attributes_of_part(
        self, inputs: InputStore, forms: Mapping[str, Any], label: Tensor
    ) -> PredictedAttributes | None:
        return predict_row_attributes(self.algorithm, label, build_view_inputs(self.encode(inputs), forms))

    def evaluate(
        self,
        rows: Rows,
        label: Annotations | None = None,
        attribute: Annotations | None = None,
        metrics: MetricSpec = (),
    ) -> GroupReport:
        """Evaluate the model on unseen labelled rows.

        Args:
            rows: n rows.
            label: n names or a column; by default the label of the folder, or the column of training.
            attribute: n names, None where unknown, or a column; by default the columns of training if the rows have
                them. Groups are label by attribute.
            metrics: Further figures of each group; see ``Run.evaluate``.

        Raises:
            InputError: Some rows cannot be read (the message names them all), or have a label unknown to the training.
        """
        options = self.config.data.options
        if label is None and rows.frame is not None:
            label = str(options.get("label") or "label")
        columns = parse_name_list(options.get("attribute"))
        if attribute is None and columns and rows.frame is not None and set(columns) <= set(rows.frame.columns):
            texts = {name: convert_to_texts(rows.frame[name]) for name in columns}
            attribute = combine_attributes(texts, len(rows))
        label_names = self.info.label_names
        labels = get_label_indices(rows, label, label_names)
        attributes: dict[str, Any] = {}
        correlation = None
        if attribute is not None:
            values = get_annotations(rows, attribute, "attribute")
            names = sorted({value for value in values if value})
            if set(names) <= set(self.attribute_names):
                names = list(self.attribute_names)
                correlation = self.info.correlation
            attributes = {"attribute": find_name_positions(values, names).numpy(), "attribute_names": names}
        errors = RowErrors(rows.place, rows.names)
        logits = [torch.zeros(0, self.info.num_labels)]
        estimates = []
        start = 0
        for part, inputs, forms in self.read([rows], keep_bad=True):
            for row, reason in part.errors.by_row.items():
                errors.add(start + row, reason)
            if not errors:
                logits.append(self.compute_logits(inputs))
                estimates.append(
                    self._predict_attributes_of_part(inputs, forms, torch.from_numpy(labels[start : start + len(part)]))
                )
            start += len(part)
        errors.raise_if_any()
        predictions = Predictions(
            index=np.arange(len(labels)),
            label=labels,
            logits=torch.cat(logits).numpy(),
            label_names=label_names,
            split="new rows",
            estimate=concatenate_estimates(estimates),
            **attributes,
        )
        return GroupReport.from_predictions(predictions, correlation, metrics=metrics)


def concatenate_estimates(parts: Sequence[PredictedAttributes | None]) -> PredictedAttributes | None:
    """Return the estimates of several parts as one; None without parts, or if one has none."""
    estimates = [part for part in parts if part is not None]
    if not estimates or len(estimates) < len(parts):
        return None
    return replace(estimates[0], attribute=np.concatenate([part.attribute for part in estimates]))


def build_data_info(state: Mapping[str, Any], name: str = "the model") -> DataInfo:
    """Return sizes and names of the data from the entry ``info`` of ``FittedModel.state``.

    Args:
        state: The entry.
        name: What messages call the model.

    Raises:
        InputError: Entries are missing, or contradict each other. The file may be from an untrusted source, and sizes
            alone could ask for any amount of memory.
    """
    try:
        weights = state["correlation"]
        info = DataInfo(**{**state, "correlation": None if weights is None else Correlation(weights)})
        sizes = (info.num_labels, info.num_attributes)
        if sizes != (len(info.label_names), len(info.attribute_names)):
            raise ValueError(f"{sizes} labels and attributes have other numbers of names")
        if not all(0 < size <= MAX_SIDE for size in info.input_shape):
            raise ValueError(f"no inputs have the shape {info.input_shape}")
        return info
    except (TypeError, KeyError, ValueError) as error:
        reason = format_reason(error)
        raise InputError(f"{name}: the sizes of the data do not fit ({reason}): train again") from error


def build_algorithm(config: RunConfig, info: DataInfo) -> Algorithm:
    """Build the method of a complete config with its networks, with freshly drawn weights.

    Args:
        config: A complete config with a network.
        info: Sizes and names of the data, as the networks see them.

    Raises:
        InputError: An option does not fit the data.
    """
    method = config.method
    assert isinstance(method, CompleteComponent)
    arguments: dict[str, Any] = {"seed": config.training.seed}
    left_out = config.training.leave_out
    if "biased_network" in inspect.signature(method.factory).parameters:
        biased_network = config.biased_network or _choose_biased_network(config)
        arguments["biased_network"] = biased_network and make_network_factory(biased_network, left_out, info)
    if method.factory is Average:
        lists = [[*left_out, *member.get("leave_out", ())] for member in method.options.get("members") or []]
        is_linear = config.network.name == "Linear" and all(is_linear_removal(views, info) for views in lists)
        arguments["member_networks"] = [make_network_factory(config.network, views, info) for views in lists]
        arguments["is_linear"] = is_linear
    network = make_network_factory(config.network, left_out, info)
    algorithm: Algorithm = method.make(network, info, **arguments)
    return algorithm


def _choose_biased_network(config: RunConfig) -> ComponentConfig | None:
    """Return the network of a finished run, for new weights, if the network is ``FromRun``; else None.

    That run has learned every training row. What tells rows apart is which of them a network gets right that has not
    learned them, so networks of an estimator that went on from its weights would hide the rows that conflict.
    """
    if config.network.name != "FromRun":
        return None
    file = Path(str(config.network.options["run"])) / CONFIG
    with forbid_untrusted_names(file):
        return complete_part("biased_network", RunConfig.read(file).network)


def build_member_config(config: RunConfig, member: Mapping[str, Any]) -> RunConfig:
    """Return the complete config of one member of an average: its method, and the views that its network lacks."""
    leave_out = [*config.training.leave_out, *member.get("leave_out", ())]
    method = complete_part("method", member["method"])
    return replace(config, method=method, training=replace(config.training, leave_out=leave_out))


def check_network_sizes(config: RunConfig, info: DataInfo, max_weights: int) -> None:
    """Raise ``InputError`` if a network of a config would have too many weights; no memory is taken for it.

    Args:
        config: A complete config.
        info: Sizes of the inputs and labels.
        max_weights: Most weights of a network.
    """
    for part in (config.network, config.biased_network):
        if not isinstance(part, CompleteComponent) or part.name == "FromRun":
            continue
        size = math.inf
        try:
            with torch.device("meta"):
                size = sum(weight.numel() for weight in part.make(info=info).parameters())
        except (RuntimeError, TypeError, OverflowError) as error:
            if "overflow" not in str(error).lower():  # it cannot be built in this way; its own error comes later
                continue
        if size > max_weights:
            raise InputError(
                f"network {part.name} of an untrusted folder would have {size:,} weights for inputs of shape "
                f"{tuple(info.input_shape)}, too many: it is built only with {format_option('trust_code', True)}"
            )
