"""Runs: from a config to a folder with a trained, judged model, and back."""

from __future__ import annotations

from logit_correction.runs.api import load
from logit_correction.runs.exported import ExportedRun
from logit_correction.runs.train import train
from logit_correction.runs.trained import TrainedRun

__all__ = ["ExportedRun", "TrainedRun", "load", "train"]
