"""A folder for the Hugging Face Hub: the weights, what they are read by, and a model card. Nothing is uploaded."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from logit_correction.errors import InputError
from logit_correction.exporting.base import Exported, Format
from logit_correction.exporting.card import PLACE, model_card
from logit_correction.exporting.weights import write_weights

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


class Hub(Format):
    """``config.json``, ``model.safetensors`` and ``README.md``, the model card."""

    packages = ("safetensors",)
    extra = "hub"
    portable = False

    def write(self, exported: Exported, folder: Path) -> None:
        """Write the weights and the card."""
        write_weights(exported, folder)
        card = model_card(exported.settings, exported.repository or PLACE)
        (folder / "README.md").write_text(card, encoding="utf-8")

    def advice(self, exported: Exported, folder: Path) -> str:
        """Say what is left to do, and the one command that uploads the folder."""
        command = f"hf upload {exported.repository or PLACE} {shlex.quote(str(folder))}"
        return f"nothing was uploaded; put a licence into README.md, then: {command}"


def check_repository(name: str) -> None:
    """Return if a name is that of a repository.

    Raises:
        InputError: Otherwise.
    """
    if not _REPOSITORY.fullmatch(name):
        raise InputError(f"--repository is {name!r}, but must be OWNER/NAME")
