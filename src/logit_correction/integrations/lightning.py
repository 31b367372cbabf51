"""Lightning: a whole method as a LightningModule, and a callback that gives a module of your own the correction."""

from __future__ import annotations

from logit_correction.integrations.lightning_callback import CorrectLogits
from logit_correction.integrations.lightning_module import LightningMethod

__all__ = ["CorrectLogits", "LightningMethod"]
