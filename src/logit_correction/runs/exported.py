"""A folder that ``export`` wrote, loaded as a run: the predicting network, without training's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from logit_correction.config import RunConfig
from logit_correction.errors import InputError
from logit_correction.evaluation.report import Report
from logit_correction.files import checksum_of_file, is_within, read_json
from logit_correction.methods.base import Algorithm
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.registry import needed
from logit_correction.runs.encode import Encoder
from logit_correction.runs.labelled_rows import Names
from logit_correction.runs.new_rows import NewInputs
from logit_correction.runs.parts import complete_parts
from logit_correction.runs.trained import TrainedRun

#: The files of an exported folder that can be loaded.
CONFIG, WEIGHTS = "config.json", "model.safetensors"

#: The entry of ``config.json`` with the SHA-256 of the weights' file.
CHECKSUM = "weights_sha256"

#: What ``config.json`` says that it is of, and in which form.
LIBRARY, FORMAT = "logit-correction", 1

#: What names of files begin with that lie in the folder.
HERE = "./"

#: What goes before the names of the encoder's and of the network's tensors.
ENCODER, NETWORK = "encoder.", "network."

_AGAIN = "export the run again"


def is_exported(folder: Path) -> bool:
    """Return whether a folder holds what ``export`` wrote, rather than a run."""
    try:
        return bool(read_json(folder / CONFIG, _AGAIN).get("library_name") == LIBRARY)
    except (InputError, AttributeError):
        return False


class ExportedRun(TrainedRun):
    """A run as far as predicting needs it, from a folder of the formats ``hub`` and ``safetensors``.

    ``predict``, ``predict_proba`` and ``evaluate`` on new labelled rows work as of the run itself. The run's own data
    and its attribute estimator are not in the folder.
    """

    config_name = CONFIG

    def _read_report(self) -> dict[str, Any]:
        content = _read(self.path / CONFIG)
        if not (self.path / WEIGHTS).is_file():
            form = content.get("format_name")
            raise InputError(
                f"{self.path} holds a network in the format {form!r}, which other programs run: to load one here, "
                "export the run with --format hub or safetensors"
            )
        self._flat: dict[str, Any] = content["run"]
        self._checksum = content.get(CHECKSUM)
        if not isinstance(self._checksum, str):  # else whoever leaves it out would switch the check off
            raise InputError(f"{self.path / CONFIG}: {CHECKSUM} is missing: {_AGAIN}")
        report: dict[str, Any] = content["report"]
        return report

    @cached_property
    def config(self) -> RunConfig:
        """Data source, method, network and encoder."""
        with self.names():
            return complete_parts(RunConfig.from_dict(_at(self._flat, self.path)))

    def _load_weights(self, algorithm: Algorithm) -> None:
        self._fill(algorithm.network, NETWORK)

    @cached_property
    def encoder(self) -> Encoder:
        """The frozen network whose features take the place of the inputs; only of a run that has one."""
        assert self.config.encoder is not None
        with self.names(), without_pretrained_weights():
            encoder = Encoder(self.config.encoder, self.inputs_info)
        self._fill(encoder.features, ENCODER)
        return encoder

    def evaluate(
        self, data: str | Path | NewInputs = "test", label: Names | None = None, attribute: Names | None = None
    ) -> dict[str, Any]:
        """Evaluate it on new labelled rows; see ``TrainedRun.evaluate``.

        Raises:
            InputError: If a split is asked for, whose rows are not in the folder.
        """
        if isinstance(data, str) and label is None:
            raise InputError(f"{self.path} holds no rows of the run's data: give new rows with their labels")
        return super().evaluate(data, label, attribute)

    def _fill(self, module: nn.Module, prefix: str) -> None:
        own = {name.removeprefix(prefix): v for name, v in self._tensors.items() if name.startswith(prefix)}
        try:
            module.load_state_dict(own)
        except RuntimeError as error:
            raise InputError(f"{self.path / WEIGHTS} does not fit {self.path / CONFIG}: {_AGAIN}") from error

    @cached_property
    def _tensors(self) -> Mapping[str, Tensor]:
        if checksum_of_file(self.path / WEIGHTS) != self._checksum:
            raise InputError(f"{self.path / WEIGHTS} is damaged (its checksum is another): {_AGAIN}")
        return read_tensors(self.path / WEIGHTS)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file onto the CPU.

    Raises:
        InputError: If it is damaged, or safetensors is not installed.
    """
    safetensors = needed("safetensors", str(path), "hub")
    try:
        tensors: dict[str, Tensor] = needed("safetensors.torch", str(path), "hub").load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): {_AGAIN}") from error
    if not all(bool(torch.isfinite(v).all()) for v in tensors.values() if v.is_floating_point()):
        raise InputError(f"{path} holds weights that are not finite: {_AGAIN}")
    return tensors


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a ``config.json``.

    Raises:
        InputError: If it cannot be read, or is of another version.
    """
    content = read_json(path, _AGAIN)
    if content.get("export_format") != FORMAT or not isinstance(content.get("run"), dict):
        raise InputError(f"{path} is of another version of logit-correction: {_AGAIN}")
    report = Report.from_dict(content.get("report"), f"{path}: report", _AGAIN)
    return {**content, "report": report.to_dict()}


def _at(value: Any, folder: Path) -> Any:
    """Return options with the names of files in the folder as paths; none may leave it.

    Raises:
        InputError: If one does.
    """
    if isinstance(value, dict):
        return {name: _at(part, folder) for name, part in value.items()}
    if not isinstance(value, str) or not value.startswith(HERE):
        return value
    path = folder / value.removeprefix(HERE)
    if not is_within(path, os.path.realpath(folder)):
        raise InputError(f"{folder / CONFIG} names {value!r}, which lies outside of the folder: {_AGAIN}")
    return str(path)
