"""ONNX, by torch's exporter."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from logit_correction.errors import InputError, reason_of
from logit_correction.exporting.base import Exported, Format
from logit_correction.exporting.tracing import traced

#: How far a logit may be from torch's.
TOLERANCE = 1e-4

MODEL = "model.onnx"


class OnnxFile(Format):
    """``model.onnx``: rows in, ``logits`` out, of any number of rows; the labels lie in its metadata."""

    packages = ("onnx", "onnxscript", "onnxruntime")
    extra = "onnx"

    def write(self, exported: Exported, folder: Path) -> None:
        """Write the file, and compare its answers with torch's.

        Raises:
            InputError: If the network cannot be written as ONNX, or answers otherwise there.
        """
        program = traced(exported, "onnx")
        quiet = logging.getLogger("onnxscript"), logging.getLogger("torch.onnx")
        levels = [logger.level for logger in quiet]
        try:
            for logger in quiet:
                logger.setLevel(logging.ERROR)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = torch.onnx.export(
                    program, input_names=list(exported.form.names), output_names=["logits"], dynamo=True, verbose=False
                )
        except Exception as error:  # the exporter raises many kinds
            reason = reason_of(error)
            raise InputError(f"this network cannot be written as ONNX ({reason}): take another --format") from error
        finally:
            for logger, level in zip(quiet, levels, strict=True):
                logger.setLevel(level)
        assert made is not None
        made.model.metadata_props["label_names"] = json.dumps(exported.settings["label_names"])
        made.model.metadata_props["input"] = json.dumps(exported.settings["input"])
        made.save(folder / MODEL)
        _compare(folder / MODEL, exported)

    def advice(self, exported: Exported, folder: Path) -> str:
        """Say how to run it."""
        return f"run it by: onnxruntime.InferenceSession({str(folder / MODEL)!r})"


@torch.no_grad()
def _compare(path: Path, exported: Exported) -> None:
    """Return if ONNX Runtime answers as torch does, on another number of rows than the network was traced with."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    values: tuple[Tensor, ...] = exported.form.example(seed=1, rows=5, length=6)
    expected = exported.network(*values).numpy()
    given = {name: value.numpy() for name, value in zip(exported.form.names, values, strict=True)}
    (found,) = session.run(["logits"], given)
    if not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise InputError(
            f"ONNX Runtime's logits are up to {np.abs(found - expected).max():.2g} from torch's: take another --format"
        )
