"""What LC costs beside its floor, the training of two ordinary networks.

Everything runs in one process on the Colored MNIST setting (MLP 2352-100-100-100-10, batch 256). The competitors take
turns in short blocks, so that whatever else the machine does meets all of them; a ratio is the median over the rounds
of (competitor / floor) within a round. Takes two to three minutes; ``--check`` exits with 1 where LC by default misses
a goal.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.nn.functional import cross_entropy

from logit_correction.config import TrainingConfig
from logit_correction.data.cmnist import NUM_TRAIN, ColoredMNIST, mnist_present
from logit_correction.data.colors import color_names
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore, ColoredStore
from logit_correction.data.table import DataTable
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.networks.mlp import MLP
from logit_correction.runs.assemble import build_fabric
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import Batch

STEP_GOAL, EPOCH_GOAL, LOOP_GOAL = 1.10, 1.25, 60.0
BATCH, HIDDEN, UNITS = 256, (100, 100, 100), {"s": 1.0, "ms": 1e3, "us": 1e6}
Function: TypeAlias = Callable[[], Any]
Found: TypeAlias = dict[str, tuple[float, float]]

#: LC by default trains the biased network, then the robust one; in the paper both train in every step, as in the floor.
DEFAULT = ("LC by default, first epochs", "LC by default, later")
BOTH = "LC, both networks train"
PAPER: dict[str, Any] = {"head_start_epochs": 0, "biased_epochs": None, "biased_input_dropout": 0, "mixup_limit": 0.5}
STEPS: dict[str, dict[str, Any]] = {
    DEFAULT[0]: {"head_start_epochs": 1e9, "biased_epochs": None},
    DEFAULT[1]: {"head_start_epochs": 0, "biased_epochs": 0},
    BOTH: PAPER | {"prior": "cell"},
    "  the same with prior=joint": PAPER | {"prior": "joint"},
    "  the same with mixup=none": PAPER | {"prior": "cell", "mixup": "none"},
    "  the same with biased_epochs=0": PAPER | {"prior": "cell", "biased_epochs": 0},
}


def load_table(root: str | None) -> tuple[DataTable, str]:
    """Colored MNIST, or random pictures of its shape where there is no MNIST; and which of the two."""
    folder = root or os.environ.get("LOGIT_CORRECTION_DATA", "")
    if folder and mnist_present(Path(folder)):
        return ColoredMNIST(root=folder, download=False).build(), f"MNIST from {folder}"
    generator = torch.Generator().manual_seed(0)
    glyphs = torch.randint(0, 256, (70_000, 28, 28), generator=generator, dtype=torch.uint8)
    label = torch.randint(0, 10, (70_000,), generator=generator)
    store = ColoredStore(glyphs, torch.arange(70_000), torch.rand(10, 3, generator=generator)[label])
    return make_table(store, label, NUM_TRAIN, 5_000), "no MNIST found: random pictures of the same shape"


def make_table(store: ArrayStore | ColoredStore, label: torch.Tensor, train: int, valid: int) -> DataTable:
    rows = torch.arange(len(label))
    split = {"train": rows[:train], "valid": rows[train : train + valid], "test": rows[train + valid :]}
    return DataTable(store, label, label, split, [str(i) for i in range(10)], color_names(10))


def plain_step(groups: Any, loss_of: Callable[[Batch], torch.Tensor], batches: list[Batch]) -> Function:
    """One step of a plain loop; ``groups`` are the optimizer's."""
    supply, optimizer = itertools.cycle(batches), torch.optim.Adam(groups, lr=1e-3, fused=True)

    def step() -> None:
        loss = loss_of(next(supply))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def raw_step(table: DataTable, batches: list[Batch], hidden: tuple[int, ...] = HIDDEN) -> Function:
    """A step of ERM as short as it can be written."""
    network = MLP(table.info, hidden)
    return plain_step(network.parameters(), lambda b: cross_entropy(network(b.inputs), b.label), batches)


def lc_step(table: DataTable, batches: list[Batch], choice: dict[str, Any]) -> Function:
    """A step of LC long after every ramp-up."""
    algorithm = LC(lambda: MLP(table.info, HIDDEN), table.info, **choice)
    return plain_step(algorithm.parameter_groups(), lambda b: algorithm(b, 100.0).loss, batches)


def fit_epoch(method: type[ERM | LC], table: DataTable, hidden: tuple[int, ...] = HIDDEN, **choice: Any) -> Function:
    """The first epoch by the library's own loop, with validation, a checkpoint and metrics.csv."""
    algorithm = method(lambda: MLP(table.info, hidden), table.info, **choice)
    config = TrainingConfig(epochs=1, batch_size=BATCH, device="cpu")
    fabric = build_fabric(config)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            fit = Fit(algorithm, table, config, fabric, Path(folder) / "resume.pt", Display())
            fit.run()
            fit.record.write(Path(folder) / "metrics.csv")

    return run


def compare(title: str, competitors: dict[str, list[Function]], rounds: int, unit: str, count: int) -> Found:
    """Let the competitors, each a list of calls, take turns; return the ratio to the first one and the median time."""
    names = list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            for call in competitors[name]:
                call()
            if turn:  # the first round warms up
                times[name].append((time.perf_counter() - started) / count * UNITS[unit])
    print(f"\n{title}\n{'':36}{'/ floor':>10}{'median':>10}{'least':>10}")
    found: Found = {}
    for name, own in times.items():
        ratio = statistics.median(a / b for a, b in zip(own, times[names[0]], strict=True))
        found[name] = ratio, statistics.median(own)
        print(f"{name:36}{ratio:10.3f}{found[name][1]:10.2f}{min(own):10.2f} {unit}", flush=True)
    return found


def compare_steps(table: DataTable, batches: list[Batch], rounds: int, block: int = 5) -> Found:
    first, second, alone = (raw_step(table, batches) for _ in range(3))
    steps = {"floor F: two raw ERM steps": [first, second] * block, "one": [alone] * block}
    steps |= {name: [lc_step(table, batches, choice)] * block for name, choice in STEPS.items()}
    return compare("A step, same batches, fused Adam", steps, rounds, "ms", block)


def compare_epochs(table: DataTable, batches: list[Batch], rounds: int) -> Found:
    raw = [raw_step(table, batches) for _ in range(2)]
    epochs = {"floor: two raw epochs, data ready": raw * math.ceil(NUM_TRAIN / BATCH)}
    epochs |= {name: [fit_epoch(LC, table, **STEPS[name])] for name in (BOTH, *DEFAULT)}
    epochs["ERM"] = [fit_epoch(ERM, table)]
    title = "An epoch of 55,000 rows by Fit, with data, validation, checkpoint and metrics.csv"
    return compare(title, epochs, rounds, "s", 1)


def compare_loops(rounds: int, steps: int = 1500) -> float:
    """Microseconds that a step of a tiny network takes longer in Fit, data and all, than in a raw loop."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 10, (steps * BATCH + 2,), generator=generator)
    table = make_table(ArrayStore(torch.randn(len(label), 8, generator=generator)), label, len(label) - 2, 1)
    loader = BatchLoader(table, "train", batch_size=BATCH, shuffle=True)
    raw = [raw_step(table, list(loader.epoch()), (16,))] * steps
    loops = {"floor: raw loop, data ready": raw, "ERM by Fit": [fit_epoch(ERM, table, (16,))]}
    (_, floor), (ratio, _) = compare("A step of a tiny network (8-16-10)", loops, rounds, "us", steps).values()
    return (ratio - 1) * floor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the comparison of steps")
    parser.add_argument("--epochs", type=int, default=7, help="rounds of the other comparisons")
    parser.add_argument("--threads", type=int, default=1, help="processor threads; small networks are fastest with 1")
    parser.add_argument("--data_root", help="folder that holds MNIST/raw; by default LOGIT_CORRECTION_DATA")
    parser.add_argument("--check", action="store_true", help="exit with status 1 where LC by default misses a goal")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table, source = load_table(options.data_root)
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    processor = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
    print(f"{source}\n{processor}, {options.threads} thread(s), torch {torch.__version__}")
    loader = BatchLoader(table, "train", batch_size=BATCH, shuffle=True)
    batches = list(itertools.islice(loader.epoch(), 32))
    steps = compare_steps(table, batches, options.rounds)
    epochs = compare_epochs(table, batches, options.epochs)
    overhead = compare_loops(options.epochs)
    data = {"fetched and coloured by BatchLoader": [lambda: [None for _ in loader.epoch()]]}
    [(_, fetching)] = compare("A batch alone", data, options.epochs, "us", len(loader)).values()
    print(f"\n{'':30}{'by default':>12}{'both train':>12}{'goal':>8}")
    missed = False
    for name, found, goal in (("step / F", steps, STEP_GOAL), ("epoch / floor", epochs, EPOCH_GOAL)):
        worst = max(found[phase][0] for phase in DEFAULT)
        missed = missed or worst > goal
        print(f"{'LC ' + name:30}{worst:12.3f}{found[BOTH][0]:12.3f}{goal:8.2f}")
    print(f"{'overhead of Fit, us a step':30}{overhead:12.0f}{'':12}{LOOP_GOAL:8.0f}")
    print(f"{'data path, pictures/s':30}{1e6 * BATCH / fetching:12,.0f}")
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
