"""A training in memory: a scikit-learn user's rows and options through the library's own loop, without a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.config import ComponentConfig, RunConfig
from logit_correction.data.reader import DataSource
from logit_correction.data.rows import Splitting, make_splits
from logit_correction.data.stores import InputStore
from logit_correction.data.table import UNKNOWN, DataTable
from logit_correction.errors import InputError, Interrupted
from logit_correction.integrations.scikit_learn.inputs import Rows
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.runs.api import Part, config_of
from logit_correction.runs.assemble import build_algorithm, keeping_threads
from logit_correction.runs.encode import batches_of
from logit_correction.runs.train import prepare
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import DataInfo

#: What the rows are called where a source has a name.
NAME = "rows in memory"

#: Sizes and names that networks are built by again.
_INFO = ("num_labels", "num_rows", "input_shape", "num_attributes", "label_names", "attribute_names", "tokens")


class InMemory(DataSource):
    """Rows that are there already."""

    def __init__(self, table: DataTable) -> None:
        self.table = table

    def build(self) -> DataTable:
        """Return the table."""
        return self.table


def split_rows(label: NDArray[np.int64], names: Sequence[str], valid_fraction: float, seed: int) -> dict[str, Tensor]:
    """Return the rows of training and validation; no row is for a test.

    Raises:
        InputError: If the fraction is not in [0, 1), or a label has too few rows.
    """
    every = torch.arange(len(label))
    if not valid_fraction:
        return {"train": every, "valid": every[:0], "test": every[:0]}
    splitting = Splitting(valid_fraction, 0.0, seed)
    return make_splits(torch.from_numpy(label), None, names, splitting)[0]


def table_of(
    rows: Rows,
    label: NDArray[np.int64],
    label_names: Sequence[str],
    split: Mapping[str, Tensor],
    attribute: tuple[NDArray[np.int64], Sequence[str]] | None,
) -> DataTable:
    """Put rows, labels (n,) and the numbers and names of their attributes, where somebody gave them, together."""
    known, names = attribute or (np.full(len(label), UNKNOWN), ())
    return DataTable(
        inputs=rows.store,
        label=torch.from_numpy(label),
        attribute=torch.from_numpy(known),
        split=split,
        label_names=list(label_names),
        attribute_names=list(names),
        ordered=False,  # the order of X tells nothing: a caller shuffles it, and new rows have no place in it
        **rows.looks,
    )


def run_config(
    table: DataTable,
    parts: Mapping[str, Part],
    preset: str | None,
    known: Mapping[str, Sequence[str]],
    training: Mapping[str, Any],
) -> RunConfig:
    """Return the complete config of a training on a table in memory.

    Args:
        table: The rows.
        parts: method and network, where they are chosen.
        preset: Name of a preset.
        known: ``shortcut`` and ``legitimate`` -> views.
        training: Options of ``TrainingConfig``.

    Raises:
        InputError: Names the option that is unknown or has a wrong value.
    """
    data = ComponentConfig(NAME, cls=lambda: InMemory(table))
    config = config_of(data, **parts, preset=preset, **known, **{"also_select": [], **training})
    if config.training.devices * config.training.nodes > 1:
        raise InputError("the classifier trains in this process, on one device: leave devices and nodes out")
    return config


@dataclass(frozen=True)
class Trained:
    """A trained method, with what it takes to build it again.

    Attributes:
        algorithm: The method.
        config: What was run.
        epochs: Epochs of its own stage.
        attribute: (N,) what it takes each training row's attribute for in the end, -1 where unknown.
    """

    algorithm: Algorithm
    config: RunConfig
    epochs: int
    attribute: NDArray[np.int64]

    @property
    def correction(self) -> str:
        """How it was corrected, in one line."""
        estimator = self.algorithm.attributes
        if estimator is not None and estimator.abstained:
            return f"none: {(estimator.evidence or {}).get('verdict', 'nothing was found')}"
        return f"the training of {self.config.method.name}"

    def state(self) -> dict[str, Any]:
        """Return plain values and NumPy arrays from which ``rebuilt`` makes the method again."""
        info = {name: getattr(self.algorithm.info, name) for name in _INFO}
        return {"config": self.config.to_dict(), "info": info, "weights": _plain(self.algorithm.state_dict())}


@keeping_threads()
def train(config: RunConfig, display: Display, start: Mapping[str, Any] | None = None) -> Trained:
    """Train to the end and take the weights that the selection rule holds to be best.

    Args:
        config: What ``run_config`` returned.
        display: Shows progress.
        start: Weights of the predicting network to begin with.

    Raises:
        InputError: Something given is wrong, or ``start`` is of another network.
        TrainingError: The loss was not finite.
        KeyboardInterrupt: Somebody asked to stop.
    """
    splits = ("train",) if config.training.selection == "last" else ("train", "valid")
    built = prepare(config, display, splits)
    algorithm = built.algorithm
    if start is not None:
        _begin_with(algorithm, start)
    fit = built.fit(display)
    try:
        with display:
            fit.run()
    except Interrupted as error:
        raise KeyboardInterrupt from error
    best = fit.progress.best.get(fit.rules[0])
    if best is not None:
        algorithm.load_state_dict(best.state)
    algorithm.eval()
    return Trained(algorithm, built.config, fit.progress.epoch, _attribute_of_rows(fit))


def _attribute_of_rows(fit: Fit) -> NDArray[np.int64]:
    estimator = fit.algorithm.attributes
    if estimator is None:
        return np.full(len(fit.table.split["train"]), UNKNOWN)
    if estimator.settled:
        return estimator.row_attribute.cpu().numpy()
    return fit.collect("train", fit.algorithm.diagnose)["estimated_attribute"].numpy()


def rebuilt(state: Mapping[str, Any], device: str) -> Algorithm:
    """Return the method that ``Trained.state`` was made of, ready to predict."""
    config, info = RunConfig.from_dict(dict(state["config"])), DataInfo(**state["info"])
    with without_pretrained_weights():
        algorithm = build_algorithm(config, info)
    algorithm.load_state_dict(_tensors(state["weights"]))
    return algorithm.to(device).eval()


def network_weights(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights of the predicting network, for ``train`` to begin with."""
    return {
        name.removeprefix("network."): value
        for name, value in state["weights"].items()
        if name.startswith("network.") and not name.endswith("_extra_state")
    }


def _begin_with(algorithm: Algorithm, start: Mapping[str, Any]) -> None:
    try:
        algorithm.network.load_state_dict(_tensors(dict(start)))
    except RuntimeError as error:
        raise InputError(
            "warm_start goes on with the network of the last fit, but this one is another: fit with the same network "
            "and the same kind of rows, or without warm_start"
        ) from error


@torch.no_grad()
def probabilities(algorithm: Algorithm, store: InputStore) -> NDArray[np.float64]:
    """Return the probability of every label (n, L).

    Vectors are multiplied in double precision, so that the answer for a row does not depend on the rows beside it.
    """
    device = next((weight.device for weight in algorithm.parameters()), torch.device("cpu"))
    vectors = len(store.input_shape) == 1 and not algorithm.info.tokens
    precision = torch.float64 if vectors else torch.float32
    algorithm.to(precision)
    found = []
    for inputs in batches_of(store, device):
        given = inputs if isinstance(inputs, dict) else inputs.to(precision)
        found.append(algorithm.predict(given).double().softmax(1))
    return torch.cat(found).cpu().numpy() if found else np.zeros((0, algorithm.info.num_labels))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {name: _tensors(part) for name, part in value.items()}
    return [_tensors(part) for part in value] if isinstance(value, list | tuple) else value
