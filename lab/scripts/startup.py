"""How long the program and its parts take to start, beside the import of PyTorch, which is the floor.

    python lab/scripts/startup.py

Each start is a process of its own, five rounds in turns; processor seconds, so that other jobs hardly matter. The last
two go to the first step of the first training, which is not taken.
"""

from __future__ import annotations

import csv
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FLOOR = "import torch"
PROGRAM = ["-m", "logit_correction"]

#: The program up to its first training.
UP_TO_TRAINING = """
import os, sys
from logit_correction.cli import main
from logit_correction.training.fit import Trainer

Trainer.run = lambda *_, **__: os._exit(0)
sys.exit(main(sys.argv[1:]) or "trained nothing")
"""

STARTS = {
    FLOOR: ["-c", "import torch"],
    "import logit_correction": ["-c", "import logit_correction"],
    "import logit_correction.functional": ["-c", "import logit_correction.functional"],
    "import logit_correction.losses": ["-c", "import logit_correction.losses"],
    "logit-correction --help": [*PROGRAM, "--help"],
    "train --help": [*PROGRAM, "train", "--help"],
    "train --data Digits --method LC --help": [*PROGRAM, "train", "--data", "Digits", "--method", "LC", "--help"],
    "list": [*PROGRAM, "list"],
    "quickstart": ["-c", UP_TO_TRAINING, "quickstart", "--out", "{folder}/quickstart"],
    "audit of 2,000 rows": [
        "-c",
        UP_TO_TRAINING,
        "audit",
        "--data",
        "{folder}/rows.csv",
        "--data.label",
        "label",
        "--out",
        "{folder}/audit",
    ],
}


def write_table(path: Path) -> None:
    """Write 2,000 rows of two numbers, two categories and a label."""
    draws = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "weight", "site", "ward", "label"])
        for _ in range(2000):
            label = draws.choice(["ill", "well"])
            site = "north" if (label == "ill") == (draws.random() < 0.9) else "south"
            writer.writerow([draws.gauss(50, 10), draws.gauss(70, 12), site, draws.choice("abc"), label])


def seconds_of(words: list[str]) -> float:
    """Run Python with these words and return its processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder, "rows.csv"))
        words = [word.replace("{folder}", folder) for word in words]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rounds = [{name: seconds_of(words) for name, words in STARTS.items()} for _ in range(5)]
    print("| start | processor seconds | / import torch |\n|---|---:|---:|")
    for name in STARTS:
        seconds = statistics.median(one[name] for one in rounds)
        ratio = statistics.median(one[name] / one[FLOOR] for one in rounds)
        print(f"| `{name}` | {seconds:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
