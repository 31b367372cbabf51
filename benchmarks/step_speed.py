"""How much does LC cost beside its floor, two ordinary trainings?

Everything runs in this one process on the Colored MNIST setting (MLP 2352-100-100-100-10, batch 256). The
competitors take turns in short blocks, so that whatever else the machine does meets all of them, and a ratio is
the median over the rounds of (competitor / floor) in the same round. ::

    python benchmarks/step_speed.py            # a table
    python benchmarks/step_speed.py --check    # and exit status 1 where a goal is missed
"""

from __future__ import annotations

import argparse
import contextlib
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
from logit_correction.data.stores import ArrayStore, ColoredStore
from logit_correction.data.table import DataTable
from logit_correction.methods.base import Algorithm
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.networks.mlp import MLP
from logit_correction.runs.assemble import build_fabric
from logit_correction.training.display import Display
from logit_correction.training.fit import Fit
from logit_correction.types import Batch

STEP_GOAL, EPOCH_GOAL, OVERHEAD_GOAL = 1.10, 1.25, 60.0
BATCH_SIZE, HIDDEN = 256, (100, 100, 100)
Times = dict[str, list[float]]
#: LC as it is by default, and variants of it.
VARIANTS: dict[str, dict[str, Any]] = {
    "LC, defaults": {},
    "LC, mixup every-row": {"mixup": "every-row"},
    "LC, mixup none": {"mixup": "none"},
    "LC, prior cell": {"prior": "cell"},
    "LC, prior joint": {"prior": "joint"},
    "LC, biased network frozen": {"biased_epochs": 0},
}


def load_table(root: str | None) -> tuple[DataTable, str]:
    """Colored MNIST, or random pictures of its shape where MNIST is not there; and which of the two."""
    folder = root or os.environ.get("LOGIT_CORRECTION_DATA", "")
    if folder and mnist_present(Path(folder)):
        return ColoredMNIST(root=folder, download=False).build(), f"MNIST from {folder}"
    generator = torch.Generator().manual_seed(0)
    glyphs = torch.randint(0, 256, (70_000, 28, 28), generator=generator, dtype=torch.uint8)
    label = torch.randint(0, 10, (70_000,), generator=generator)
    color = torch.rand(10, 3, generator=generator)[label]
    store = ColoredStore(glyphs, torch.arange(70_000), color)
    return make_table(store, label, (NUM_TRAIN, 5_000)), "random pictures of the same shape (no MNIST found)"


def tiny_table(steps: int) -> DataTable:
    """Rows of eight numbers, so that a step costs little but its loop."""
    rows = steps * BATCH_SIZE + 2
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 10, (rows,), generator=generator)
    return make_table(ArrayStore(torch.randn(rows, 8, generator=generator)), label, (rows - 2, 1))


def make_table(store: Any, label: torch.Tensor, sizes: tuple[int, int]) -> DataTable:
    train, valid = sizes
    rows = torch.arange(len(label))
    split = {"train": rows[:train], "valid": rows[train : train + valid], "test": rows[train + valid :]}
    return DataTable(store, label, label, split, [str(i) for i in range(10)], color_names(10))


def prefetch(table: DataTable, count: int) -> list[Batch]:
    loader = BatchLoader(table, "train", batch_size=BATCH_SIZE, shuffle=True)
    return list(itertools.islice(loader.epoch(), count))


def raw_step(table: DataTable, batches: list[Batch], hidden: tuple[int, ...]) -> Callable[[], None]:
    """One ERM step as short as it can be written."""
    torch.manual_seed(0)
    network, supply = MLP(table.info, hidden), itertools.cycle(batches)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        batch = next(supply)
        loss = cross_entropy(network(batch.inputs), batch.label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def method_step(algorithm: Algorithm, batches: list[Batch]) -> Callable[[], None]:
    """One step of a method in a plain loop, past the ramp-up of its MixUp."""
    supply = itertools.cycle(batches)
    optimizer = torch.optim.Adam(algorithm.parameter_groups(), lr=1e-3, fused=True)  # type: ignore[arg-type]

    def step() -> None:
        loss = algorithm(next(supply), 10.0).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def repeated(functions: list[Callable[[], None]], count: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            for function in functions:
                function()

    return run


def fit_epoch(algorithm: Algorithm, table: DataTable, fabric: Any, folder: str) -> Callable[[], float]:
    """One epoch of the library's own loop; returns the seconds of its steps (with data, logs, flushes)."""

    def run() -> float:
        config = TrainingConfig(epochs=1, batch_size=BATCH_SIZE, device="cpu")
        fit = Fit(algorithm, table, config, fabric, Path(folder) / "resume.pt", Display())
        fit.run()
        fit.record.write(Path(folder) / "metrics.csv")
        return fit.progress.seconds

    return run


def take_turns(competitors: dict[str, Callable[[], Any]], rounds: int) -> Times:
    """Seconds of each competitor in each round; the order turns, and a first round warms up."""
    times: Times = {name: [] for name in competitors}
    names = list(competitors)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            inside = competitors[name]()
            took = time.perf_counter() - started
            if turn:
                times[name].append(took)
                if inside is not None:
                    times.setdefault(f"{name}, steps alone", []).append(inside)
    return times


def ratio(times: Times, name: str, floor: str) -> float:
    return statistics.median(a / b for a, b in zip(times[name], times[floor], strict=True))


def show(title: str, times: Times, floor: str, calls: int, unit: str) -> None:
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit] / calls
    print(f"\n{title}\n{'':42}{'/ floor':>8}{'median ' + unit:>12}{'least ' + unit:>12}")
    for name, values in times.items():
        middle, least = scale * statistics.median(values), scale * min(values)
        print(f"  {name:40}{ratio(times, name, floor):8.3f}{middle:12.2f}{least:12.2f}")


def measure_steps(table: DataTable, batches: list[Batch], options: argparse.Namespace) -> float:
    one, first, second = (raw_step(table, batches, HIDDEN) for _ in range(3))
    floor = "F: two ERM networks"
    steps = {"ERM": [one], floor: [first, second]}
    for name, choice in VARIANTS.items():
        steps[name] = [method_step(LC(lambda: MLP(table.info, HIDDEN), table.info, **choice), batches)]
    times = take_turns({name: repeated(parts, options.block) for name, parts in steps.items()}, options.rounds)
    show("One step. Floor F: two raw ERM steps with fused Adam on the same batches", times, floor, options.block, "ms")
    return ratio(times, "LC, defaults", floor)


def measure_epochs(table: DataTable, batches: list[Batch], options: argparse.Namespace, fabric: Any) -> float:
    steps = len(BatchLoader(table, "train", batch_size=BATCH_SIZE))
    floor, whole = f"floor: 2 x {steps} raw ERM steps", "LC with Fit, validation and checkpoint"
    competitors: dict[str, Callable[[], Any]] = {
        floor: repeated([raw_step(table, batches, HIDDEN) for _ in range(2)], steps)
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, cls in ((whole, LC), ("ERM with Fit, the same", ERM)):
            algorithm = cls(lambda: MLP(table.info, HIDDEN), table.info)
            competitors[name] = fit_epoch(algorithm, table, fabric, folder)
        times = take_turns(competitors, options.epochs)
    show(f"One epoch of {len(table.split['train'])} rows, from resident bytes to metrics.csv", times, floor, 1, "s")
    return ratio(times, whole, floor)


def measure_loop(options: argparse.Namespace, fabric: Any) -> float:
    steps, hidden = 400, (16,)
    table = tiny_table(steps)
    floor = "raw loop"
    raw = repeated([raw_step(table, prefetch(table, steps), hidden)], steps)
    with tempfile.TemporaryDirectory() as folder:
        erm = ERM(lambda: MLP(table.info, hidden), table.info)
        fit = fit_epoch(erm, table, fabric, folder)
        times = take_turns({floor: raw, "Fit": fit}, options.rounds // 4)
    show("A step of a tiny network (8-16-10)", times, floor, steps, "us")
    pairs = zip(times["Fit, steps alone"], times[floor], strict=True)
    return 1e6 / steps * statistics.median(mine - floor for mine, floor in pairs)


def measure_data(table: DataTable, options: argparse.Namespace) -> float:
    loader = BatchLoader(table, "train", batch_size=BATCH_SIZE, shuffle=True)
    times = take_turns({"data": lambda: [None for _ in loader.epoch()] and None}, options.epochs)
    return loader.num_rows / statistics.median(times["data"])


def processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return platform.processor() or platform.machine()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the comparison of steps")
    parser.add_argument("--block", type=int, default=5, help="steps of one competitor at a time")
    parser.add_argument("--epochs", type=int, default=5, help="rounds of the comparison of epochs")
    parser.add_argument("--threads", type=int, default=1, help="processor threads; small networks are fastest with 1")
    parser.add_argument("--data_root", help="folder that holds MNIST/raw; by default LOGIT_CORRECTION_DATA")
    parser.add_argument("--check", action="store_true", help="exit with status 1 where a goal is missed")
    return parser.parse_args()


def main() -> int:
    options = parse()
    torch.set_num_threads(options.threads)
    table, source = load_table(options.data_root)
    batches, fabric = prefetch(table, 32), build_fabric(TrainingConfig(device="cpu"))
    print(f"{source}; batch {BATCH_SIZE}; {processor()}, {options.threads} thread(s); torch {torch.__version__}")
    step = measure_steps(table, batches, options)
    epoch = measure_epochs(table, batches, options, fabric)
    overhead = measure_loop(options, fabric)
    print(f"\nLC step / F        {step:8.3f}   goal: at most {STEP_GOAL:.2f}")
    print(f"LC epoch / floor   {epoch:8.3f}   goal: at most {EPOCH_GOAL:.2f}")
    print(f"loop overhead      {overhead:8.1f}   us a step, goal: at most {OVERHEAD_GOAL:.0f}")
    print(f"data path          {measure_data(table, options) / 1e6:8.2f}   million coloured pictures a second")
    return int(options.check and (step > STEP_GOAL or epoch > EPOCH_GOAL))


if __name__ == "__main__":
    sys.exit(main())
