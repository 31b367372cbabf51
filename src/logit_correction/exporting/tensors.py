"""The weights alone, in a safetensors file, beside what it takes to build the network again."""

from __future__ import annotations

from pathlib import Path

from logit_correction.exporting.base import Exported, Format
from logit_correction.exporting.weights import write_weights


class Tensors(Format):
    """``model.safetensors``, which ``logit_correction.load`` takes."""

    packages = ("safetensors",)
    extra = "hub"
    portable = False

    def write(self, exported: Exported, folder: Path) -> None:
        """Write the weights, and see that what is loaded from them answers as the run does.

        Raises:
            InputError: If the method predicts by more than its network.
        """
        write_weights(exported, folder)

    def advice(self, exported: Exported, folder: Path) -> str:
        """Say how to load it."""
        return f"load it by: logit_correction.load({str(folder)!r})"
