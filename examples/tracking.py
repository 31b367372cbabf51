"""Figures of a training in TensorBoard, Weights & Biases, MLflow, or a logger of your own, with the table of groups.

    python examples/tracking.py --logger tensorboard csv
    WANDB_MODE=offline python examples/tracking.py --logger wandb
    MLFLOW_TRACKING_URI=sqlite:///mlflow.db python examples/tracking.py --logger mlflow
    python examples/tracking.py --logger tracking.JsonLines

On the command line: ``logit-correction train --logger tensorboard --logger csv ...``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction import train
from logit_correction.training.loggers.base import RunLogger


class JsonLines(RunLogger):
    """A logger of one's own: one line for each step that is told, and the groups at the end."""

    def __init__(self, folder: Path, kept: str | None) -> None:
        self.folder = folder

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        with (self.folder / "lines.jsonl").open("a") as file:
            file.write(json.dumps({"step": step, **metrics}) + "\n")

    def log_groups(self, groups: pd.DataFrame, report: Mapping[str, Any], step: int) -> None:
        groups.to_json(self.folder / "groups.json", orient="records")


def main(
    epochs: int = 15, seed: int = 0, logger: Sequence[str] = ("tensorboard",), out: str = "tracked"
) -> dict[str, float]:
    parts = {"method": "LC", "network": "MLP", "logger": list(logger)}
    run = train("Digits", out, epochs=epochs, batch_size=32, seed=seed, threads=1, page=False, **parts)
    print(run.report["evidence"]["sentence"])
    print("what was tracked lies in", *sorted(path.name for path in run.path.iterdir()))
    return {name: run.report["test"][name] for name in ("group_balanced", "worst_group")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logger", nargs="+", default=["tensorboard"])
    parser.add_argument("--out", default="tracked")
    print(main(**vars(parser.parse_args())))
