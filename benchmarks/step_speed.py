"""What LC costs beside its floor, the training of two ordinary networks.

Everything runs in one process on the Colored MNIST setting (MLP 2352-100-100-100-10, batch 256). The competitors take
turns in short blocks, so that whatever else the machine does meets all of them; a ratio is the median over the rounds
of (competitor / floor) within a round. Takes two to three minutes; ``--check`` exits with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from logit_correction.config import TrainingConfig
from logit_correction.data.cmnist import NUM_TRAIN, ColoredMNIST, mnist_present
from logit_correction.data.colors import color_names
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore, ColoredStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.methods.base import Algorithm
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.networks.mlp import MLP
from logit_correction.runs.assemble import build_fabric
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import Batch

STEP_GOAL, EPOCH_GOAL, LOOP_GOAL = 1.10, 1.25, 60.0
BATCH, HIDDEN, UNITS = 256, (100, 100, 100), {"s": 1.0, "ms": 1e3, "us": 1e6}
Function = Callable[[], Any]

#: Both networks train in every step, as in the paper: the work that the floor is the floor of.
BOTH: dict[str, Any] = {"head_start_epochs": 0, "biased_epochs": None, "biased_input_dropout": 0, "mixup_limit": 0.5}
AFTER: dict[str, Any] = {"head_start_epochs": 0, "biased_epochs": 0}
STEPS = {
    "LC, both networks train": BOTH | {"prior": "cell"},
    "  the same with prior=joint": BOTH | {"prior": "joint"},
    "  the same with mixup=none": BOTH | {"prior": "cell", "mixup": "none"},
    "  the same with biased_epochs=0": BOTH | {"prior": "cell", "biased_epochs": 0},
    "LC, defaults, head start": {"head_start_epochs": 1e9, "biased_epochs": None},
    "LC, defaults, after it": AFTER,
}
EPOCHS = {"LC, both networks train": STEPS["LC, both networks train"], "LC, head start": {}, "LC, after it": AFTER}


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


def make_table(store: InputStore, label: torch.Tensor, train: int, valid: int) -> DataTable:
    rows = torch.arange(len(label))
    split = {"train": rows[:train], "valid": rows[train : train + valid], "test": rows[train + valid :]}
    return DataTable(store, label, label, split, [str(i) for i in range(10)], color_names(10))


def prefetch(table: DataTable, count: int) -> list[Batch]:
    return list(itertools.islice(BatchLoader(table, "train", batch_size=BATCH, shuffle=True).epoch(), count))


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


def repeated(count: int, *functions: Function) -> Function:
    def run() -> None:
        for _ in range(count):
            for function in functions:
                function()

    return run


def fit_epoch(method: type[Algorithm], table: DataTable, hidden: tuple[int, ...] = HIDDEN, **choice: Any) -> Function:
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


def compare(
    title: str, competitors: dict[str, Function], rounds: int, unit: str, count: int
) -> list[tuple[float, ...]]:
    """Let the competitors take turns and print a table; return each one's ratio to the first one and median time."""
    names = list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            competitors[name]()
            if turn:  # the first round warms up
                times[name].append((time.perf_counter() - started) / count * UNITS[unit])
    print(f"\n{title}\n{'':36}{'/ floor':>10}{'median':>10}{'least':>10}")
    found = []
    for name, own in times.items():
        ratio = statistics.median(a / b for a, b in zip(own, times[names[0]], strict=True))
        found.append((ratio, statistics.median(own)))
        print(f"{name:36}{ratio:10.3f}{found[-1][1]:10.2f}{min(own):10.2f} {unit}", flush=True)
    return found


def compare_steps(table: DataTable, batches: list[Batch], rounds: int, block: int = 5) -> float:
    first, second, alone = (raw_step(table, batches) for _ in range(3))
    steps = {"floor F: two raw ERM steps": repeated(block, first, second), "one": repeated(block, alone)}
    steps |= {name: repeated(block, lc_step(table, batches, choice)) for name, choice in STEPS.items()}
    return compare("A step, same batches, fused Adam", steps, rounds, "ms", block)[2][0]


def compare_epochs(table: DataTable, batches: list[Batch], rounds: int) -> float:
    steps = len(BatchLoader(table, "train", batch_size=BATCH))
    epochs = {"floor: two raw epochs, data ready": repeated(steps, *(raw_step(table, batches) for _ in range(2)))}
    epochs |= {name: fit_epoch(LC, table, **choice) for name, choice in EPOCHS.items()}
    epochs["ERM"] = fit_epoch(ERM, table)
    title = "An epoch of 55,000 rows by Fit, with data, validation, checkpoint and metrics.csv"
    return compare(title, epochs, rounds, "s", 1)[1][0]


def compare_loops(rounds: int, steps: int = 1500) -> float:
    """Microseconds that a step of a tiny network takes longer in Fit, data and all, than in a raw loop."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 10, (steps * BATCH + 2,), generator=generator)
    table = make_table(ArrayStore(torch.randn(len(label), 8, generator=generator)), label, len(label) - 2, 1)
    raw = repeated(steps, raw_step(table, prefetch(table, steps), (16,)))
    competitors = {"floor: raw loop, data ready": raw, "ERM by Fit": fit_epoch(ERM, table, (16,))}
    (_, floor), (ratio, _) = compare("A step of a tiny network (8-16-10)", competitors, rounds, "us", steps)
    return (ratio - 1) * floor


def processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the comparison of steps")
    parser.add_argument("--epochs", type=int, default=7, help="rounds of the other comparisons")
    parser.add_argument("--threads", type=int, default=1, help="processor threads; small networks are fastest with 1")
    parser.add_argument("--data_root", help="folder that holds MNIST/raw; by default LOGIT_CORRECTION_DATA")
    parser.add_argument("--check", action="store_true", help="exit with status 1 where a goal is missed")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table, source = load_table(options.data_root)
    print(f"{source}\n{processor()}, {options.threads} thread(s), torch {torch.__version__}")
    batches, loader = prefetch(table, 32), BatchLoader(table, "train", batch_size=BATCH, shuffle=True)
    step = compare_steps(table, batches, options.rounds)
    epoch = compare_epochs(table, batches, options.epochs)
    overhead = compare_loops(options.epochs)
    data = {"fetched and coloured by BatchLoader": lambda: [None for _ in loader.epoch()]}
    [(_, fetching)] = compare("A batch alone", data, options.epochs, "us", len(loader))
    print(f"\nLC step / F (two ERM steps)  {step:8.3f}  goal: at most {STEP_GOAL:.2f}")
    print(f"LC epoch / two raw epochs    {epoch:8.3f}  goal: at most {EPOCH_GOAL:.2f}")
    print(f"overhead of the loop         {overhead:8.1f}  microseconds a step, goal: at most {LOOP_GOAL:.0f}")
    print(f"data path                    {BATCH / fetching:8.2f}  million coloured pictures a second")
    return int(options.check and (step > STEP_GOAL or epoch > EPOCH_GOAL))


if __name__ == "__main__":
    sys.exit(main())
