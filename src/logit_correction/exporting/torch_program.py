"""A traced program that torch loads without this package."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from logit_correction.exporting.base import Exported, Format
from logit_correction.exporting.tracing import traced


class TorchProgram(Format):
    """``model.pt2``: ``torch.export.load("model.pt2").module()(images)`` gives the logits of any number of rows."""

    def write(self, exported: Exported, folder: Path) -> None:
        """Trace the network and write it, with the labels as an extra file.

        Raises:
            InputError: If the network cannot be traced.
        """
        extra = {"label_names.json": json.dumps(exported.settings["label_names"])}
        torch.export.save(traced(exported, "torch-export"), folder / "model.pt2", extra_files=extra)

    def advice(self, exported: Exported, folder: Path) -> str:
        """Say how to run it."""
        return f"run it by: torch.export.load({str(folder / 'model.pt2')!r}).module()"
