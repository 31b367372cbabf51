"""Which of the two packages of Lightning a program uses."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from logit_correction.registry import needed


def lightning() -> ModuleType:
    """Import Lightning by the name that the program has imported it by, else by whichever there is.

    ``lightning.pytorch`` and ``pytorch_lightning`` are two copies; the ``Trainer`` of one takes no module of the other.

    Raises:
        InputError: If there is none.
    """
    names = ["lightning.pytorch", "pytorch_lightning"]
    installed = [name for name in names if importlib.util.find_spec(name.partition(".")[0]) is not None]
    imported = [name for name in names if name in sys.modules]
    chosen = [*imported, *installed, *names][0]
    return needed(chosen, "logit_correction.integrations.lightning", "lightning")
