"""What every format is, and what it is given to write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from logit_correction.exporting.forms import InputForm
from logit_correction.exporting.network import Portable
from logit_correction.runs.run import Run


@dataclass(frozen=True)
class Exported:
    """A run as it is handed out.

    Attributes:
        run: The run.
        network: Inputs, as ``form`` says, -> logits (n, L); in evaluation mode, on the CPU.
        form: What the network takes.
        settings: Content of ``config.json``.
        repository: OWNER/NAME on a hub, where the folder is meant for one.
    """

    run: Run
    network: Portable
    form: InputForm
    settings: dict[str, Any]
    repository: str | None = None


class Format(ABC):
    """One form in which a network is handed out; ``config.json`` lies beside whatever it writes.

    Attributes:
        packages: What has to be installed.
        extra: The extra of this package that installs it.
        portable: Whether it holds the network as a program of its own rather than its weights, so that any network
            that can be traced will do, and none has to be built again.
    """

    packages: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = ""
    portable: ClassVar[bool] = True

    @abstractmethod
    def write(self, exported: Exported, folder: Path) -> None:
        """Write the files of the format into a folder, which holds ``config.json`` already."""

    def advice(self, exported: Exported, folder: Path) -> str | None:
        """Return what to tell a user of what can be done with the folder."""
        return None
