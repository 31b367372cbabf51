"""Runs: from a config to a folder with a trained, judged model, and back."""

from __future__ import annotations

from logit_correction.runs.train import train
from logit_correction.runs.trained import TrainedRun, load

__all__ = ["TrainedRun", "load", "train"]
