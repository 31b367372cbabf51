"""From a network to a program of torch, for any number of rows."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from logit_correction.errors import InputError, reason_of
from logit_correction.exporting.base import Exported


def traced(exported: Exported, name: str) -> torch.export.ExportedProgram:
    """Return the network as a program of torch, for any number of rows and, of texts, of tokens.

    Raises:
        InputError: If it cannot be traced.
    """
    example = exported.form.example()
    sizes: dict[int, Any] = {0: torch.export.Dim("rows")}
    sizes |= {1 + axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(exported.form.shape) if size is None}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(exported.network, example, dynamic_shapes=(sizes,) * len(example))
    except Exception as error:  # torch raises many kinds
        raise InputError(
            f"--format {name}: this network cannot be traced ({reason_of(error)}): take --format safetensors or hub"
        ) from error
