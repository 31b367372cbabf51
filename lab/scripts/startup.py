"""How long do the program and its parts take to start, compared with the import of PyTorch, which is the floor?

    python lab/scripts/startup.py

Each start is a process of its own. Five rounds run all starts in turn; the table has medians of processor seconds,
which other jobs hardly change. The last two starts end before the first step of the first training. Takes about two
minutes.
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

STATEMENTS = (FLOOR, "import logit_correction", "import logit_correction.functional", "import logit_correction.losses")
COMMANDS = ("train --help", "train --data Digits --method LC --help", "list")
TRAINING_COMMANDS = {
    "quickstart": "quickstart --out {folder}/quickstart",
    "audit of 2,000 rows": "audit --data {folder}/rows.csv --data.label label --out {folder}/audit",
}

#: Name of a start -> arguments of Python.
STARTS = {
    **{statement: ["-c", statement] for statement in STATEMENTS},
    "logit-correction --help": [*PROGRAM, "--help"],
    **{command: [*PROGRAM, *command.split()] for command in COMMANDS},
    **{name: ["-c", UP_TO_TRAINING, *command.split()] for name, command in TRAINING_COMMANDS.items()},
}


def write_patients(path: Path) -> None:
    """Write 2,000 rows of two numbers, two categories and a label."""
    generator = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "weight", "site", "ward", "label"])
        for _ in range(2000):
            label = generator.choice(["ill", "well"])
            site = "north" if (label == "ill") == (generator.random() < 0.9) else "south"
            writer.writerow([generator.gauss(50, 10), generator.gauss(70, 12), site, generator.choice("abc"), label])


def measure_processor_seconds(arguments: list[str]) -> float:
    """Run Python with arguments, in which ``{folder}`` stands for a folder with ``rows.csv``."""
    with tempfile.TemporaryDirectory() as folder:
        write_patients(Path(folder, "rows.csv"))
        command = [sys.executable, *(argument.replace("{folder}", folder) for argument in arguments)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_startup_times() -> None:
    """Measure all starts and print a table in Markdown."""
    rounds = [{name: measure_processor_seconds(arguments) for name, arguments in STARTS.items()} for _ in range(5)]
    print("| start | processor seconds | / import torch |\n|---|---:|---:|")
    for name in STARTS:
        seconds = statistics.median(times[name] for times in rounds)
        ratio = statistics.median(times[name] / times[FLOOR] for times in rounds)
        print(f"| `{name}` | {seconds:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    print_startup_times()
