"""Metrics of a training in TensorBoard, and in a logger of your own.

    python examples/tracking.py

Lightning's loggers are handed over in the same way: ``WandbLogger(project=...)``, ``MLFlowLogger(tracking_uri=...)``.
On the command line: ``logit-correction train --logger tensorboard --logger csv ...``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lightning_fabric.loggers import Logger

from logit_correction import train


class JsonLines(Logger):
    """A logger of your own: a line of JSON for each step that is logged."""

    name = "lines"
    version = 0

    def __init__(self, root_dir: Path) -> None:
        self.path = root_dir / "lines.jsonl"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, **metrics}) + "\n")

    def log_hyperparams(self, params: Any) -> None:
        self.path.with_suffix(".options.json").write_text(json.dumps(params))


def main(epochs: int = 15, seed: int = 0, out: str = "tracked") -> dict[str, float]:
    loggers = ["tensorboard", JsonLines(Path(out))]
    parts = {"method": "LC", "network": "MLP", "logger": loggers}
    run = train("Digits", out, epochs=epochs, batch_size=32, seed=seed, threads=1, page=False, **parts)
    print(run.report.evidence["sentence"])
    print("files of the run:", *sorted(path.name for path in run.path.iterdir()))
    return {name: getattr(run.report.test, name) for name in ("group_balanced", "worst_group")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="tracked")
    print(main(**vars(parser.parse_args())))
