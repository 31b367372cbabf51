"""How long the program and its parts take to start, beside the import of PyTorch, which is the floor.

    python lab/scripts/startup.py

Each start is a process of its own, five rounds in turns; processor seconds, so that other jobs hardly matter.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

FLOOR = "import torch"
PROGRAM = ["-m", "logit_correction"]
STARTS = {
    FLOOR: ["-c", "import torch"],
    "import logit_correction": ["-c", "import logit_correction"],
    "import logit_correction.functional": ["-c", "import logit_correction.functional"],
    "import logit_correction.losses": ["-c", "import logit_correction.losses"],
    "logit-correction --help": [*PROGRAM, "--help"],
    "train --help": [*PROGRAM, "train", "--help"],
    "train --data Digits --method LC --help": [*PROGRAM, "train", "--data", "Digits", "--method", "LC", "--help"],
    "list": [*PROGRAM, "list"],
}


def seconds_of(words: list[str]) -> float:
    """Run Python with these words and return its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
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
