"""Checkpoints: tensors and plain values only, loaded without pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from logit_correction.errors import InputError
from logit_correction.files import plain, replacing
from logit_correction.training.rules import Selected
from logit_correction.types import Stage

FORMAT = 1

OTHER_VERSION = "was written by another version of logit-correction: train again into a new folder"


@dataclass
class Progress:
    """Where a run stands."""

    stage: int = 0
    epoch: int = 0  # epochs done in the stage
    step: int = 0  # steps done in the present epoch
    total_steps: int = 0
    plan: Stage | None = None  # what the method asked for in this stage; None before it begins
    best: dict[str, Selected] = field(default_factory=dict)  # what each selection rule holds
    seconds: float = 0.0  # the work between stages and validation included
    warnings: list[str] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Return tensors and plain values."""
        best = {rule: dict(vars(selected)) for rule, selected in self.best.items()}
        return {**vars(self), "plan": None if self.plan is None else dict(vars(self.plan)), "best": best}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Progress:
        """Return the progress that ``to_plain`` turned into plain values."""
        plan = None if values["plan"] is None else Stage(**values["plan"])
        best = {rule: Selected(**selected) for rule, selected in values["best"].items()}
        return cls(**{**values, "plan": plan, "best": best})


def write(path: Path, **content: Any) -> None:
    """Write tensors and plain values; an older file stays until the new one is complete."""
    with replacing(path) as temporary, temporary.open("wb") as file:  # of a path torch does not tell why it failed
        try:
            torch.save({"format": FORMAT, **content}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # else torch says only that the archive has no end
                raise error.__context__ from error
            raise


def read(path: Path) -> dict[str, Any]:
    """Read what ``write`` wrote onto the CPU; never runs code from the file."""
    try:
        with zipfile.ZipFile(plain(path)) as archive:
            # Torch never compresses; compressed entries may unpack to more than the memory holds.
            packed = [entry.filename for entry in archive.infolist() if entry.file_size != entry.compress_size]
            # Every tensor has a checksum in the file, which torch writes and never reads.
            if bad := packed[0] if packed else archive.testzip():
                raise zipfile.BadZipFile(f"{bad} is packed" if packed else f"the checksum of {bad} is wrong")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: the run was not trained to the end, or the folder is another") from error
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = error if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        raise InputError(
            f"{path} is damaged ({reason}): put a copy of it back, or train again into a new folder"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path} {OTHER_VERSION}")
    return content
