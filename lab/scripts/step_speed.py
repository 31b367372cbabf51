"""What does LC cost, compared with its floor, the training of two ordinary networks?

    LOGIT_CORRECTION_DATA=... python lab/scripts/step_speed.py    # about six minutes on a free machine
    python lab/scripts/step_speed.py --check                      # exit status 1 where a goal is missed

Everything runs in one process and one thread, on Colored MNIST (MLP 2352-100-100-100-10, batch 256). Times are
processor seconds, which other jobs hardly change. The competitors run in turn in short blocks, so that a slow minute of
the machine slows all of them alike; a ratio is the median over the rounds of (competitor / floor) within a round.

Prints tables for a step, an epoch, a step of a tiny network, the loading of a batch, and whole trainings, with all that
LC does before its own steps; then the ratios that have a goal.
"""

from __future__ import annotations

import argparse
import itertools
import math
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from logit_correction.attributes.given import TrueAttributes
from logit_correction.attributes.online import Online
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore
from logit_correction.data.table import DataTable
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.methods.parts import GroupMixUp, Moving, NoMixing
from logit_correction.networks.small import MLP
from logit_correction.runs.assemble import build_training_rows, launch_processes
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.types import Batch
from logit_correction_lab.sources.colored_mnist import NUM_TRAIN, ColoredMNIST

#: Rows of a batch.
BATCH = 256

#: Widths of the hidden layers.
HIDDEN = (100, 100, 100)

#: Widths in the tiny network, whose steps are short, so that what the loop adds to a step shows.
TINY_HIDDEN = (16,)

#: Units of a second.
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6}

#: Figure -> the greatest value that meets the goal; all but the last are ratios.
GOALS = {
    "LC step / F, settled estimates": 0.55,
    "LC step / F, both networks": 1.05,
    "whole LC training / ERM": 2.0,
    "the same, given attributes": 1.2,
    "loop: µs a step beyond a raw step": 50,
}

# Where the estimates do not change any more, as by default, LC trains one network and looks each row's attribute up.
# In the paper both networks train in every step, as in the floor.
SETTLED = "LC, settled estimates"
BOTH = "LC, the paper's: both networks train"

Function: TypeAlias = Callable[[], Any]
Options: TypeAlias = dict[str, Any]

#: Name of a step of LC -> makes the options of LC.
LC_OPTIONS: dict[str, Callable[[], Options]] = {
    SETTLED: lambda: {"attributes": TrueAttributes()},
    "  the same without mixing": lambda: {"attributes": TrueAttributes(), "mixing": NoMixing()},
    BOTH: lambda: {"attributes": Online(), "prior": Moving(estimator="cell"), "mixing": GroupMixUp()},
    "  the same with a joint prior": lambda: {"attributes": Online(), "prior": Moving(), "mixing": GroupMixUp()},
    "  both networks, no mixing": lambda: {"attributes": Online(), "prior": Moving("cell"), "mixing": NoMixing()},
}


class Timing(NamedTuple):
    """Times of a competitor: the median ratio to the floor, and the median time in the unit of the comparison."""

    ratio: float
    time: float


def make_step(parameters: Any, compute_loss: Callable[[Batch], torch.Tensor], batches: Iterator[Batch]) -> Function:
    """Return a training step of a loop as short as it can be written.

    Args:
        parameters: Parameters, or groups of them, as an optimizer takes them.
        compute_loss: Loss of a batch.
        batches: A batch for each step, without end.
    """
    optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)

    def step() -> None:
        loss = compute_loss(next(batches))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def make_erm_step(table: DataTable, batches: Iterator[Batch], hidden: tuple[int, ...] = HIDDEN) -> Function:
    """Return a step of ERM outside the library.

    Args:
        table: The data, for the shape of the inputs.
        batches: A batch for each step, without end.
        hidden: Widths of the network.
    """
    network = MLP(table.info, hidden)
    return make_step(network.parameters(), lambda batch: cross_entropy(network(batch.inputs), batch.label), batches)


def make_lc_step(table: DataTable, batches: Iterator[Batch], options: Options) -> Function:
    """Return a step of the last stage of LC, long after every ramp-up, in the same loop as that of ERM.

    Args:
        table: The data.
        batches: A batch for each step, without end.
        options: Options of LC.
    """
    algorithm = LC(lambda: MLP(table.info, HIDDEN), table.info, **options)
    algorithm.setup(build_training_rows(table, algorithm, 1))
    algorithm.begin_stage(algorithm.num_stages - 1, None)
    return make_step(algorithm.parameter_groups(), lambda batch: algorithm(batch, 100.0).loss, batches)


def make_training(
    table: DataTable,
    method: type[ERM | LC],
    make_options: Callable[[], Options] = dict,
    hidden: tuple[int, ...] = HIDDEN,
    epochs: int = 1,
) -> Function:
    """Return a training by the library's own loop, with validation, checkpoints and ``metrics.csv``.

    Args:
        table: The data.
        method: What is trained.
        make_options: Makes options of the method, anew for each training.
        hidden: Widths of the network.
        epochs: Number of epochs.
    """
    config = TrainingConfig(epochs=epochs, batch_size=BATCH, device="cpu", learning_rate=2e-3)
    device = launch_processes(config)

    def train() -> None:
        algorithm = method(lambda: MLP(table.info, hidden), table.info, **make_options())
        algorithm.setup(build_training_rows(table, algorithm, epochs))
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(algorithm, table, config, device, Display(), Path(folder) / "resume.pt")
            trainer.run()
            trainer.record.write(Path(folder) / "metrics.csv")

    return train


def compare_times(
    title: str, competitors: dict[str, list[Function]], num_rounds: int, unit: str, count: int = 1
) -> dict[str, Timing]:
    """Run competitors in turn, print their times and return them.

    Args:
        title: Head of the printed table.
        competitors: Name -> calls that make up a block; the first is the floor.
        num_rounds: Rounds, each with a block of every competitor; one more goes first, to warm up.
        unit: One of ``UNITS``.
        count: What the time of a block is divided by, such as its number of steps.
    """
    names = list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(num_rounds + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = process_time()
            for call in competitors[name]:
                call()
            if turn:
                times[name].append((process_time() - start) / count * UNITS[unit])
    print(f"\n{title}\n{'':36}{'/ floor':>10}{'median':>10}{'least':>10}")
    timings = {}
    for name in names:
        ratio = statistics.median(time / floor for time, floor in zip(times[name], times[names[0]], strict=True))
        timings[name] = Timing(ratio, statistics.median(times[name]))
        print(f"{name:36}{ratio:10.3f}{timings[name].time:10.2f}{min(times[name]):10.2f} {unit}", flush=True)
    return timings


def compare_steps(table: DataTable, batches: list[Batch], num_rounds: int, block: int = 5) -> dict[str, Timing]:
    """Compare steps of LC with two steps of ERM, the floor F.

    Args:
        table: The data.
        batches: Batches in memory.
        num_rounds: Number of rounds.
        block: Steps that follow each other in a round.
    """
    first, second, single = (make_erm_step(table, itertools.cycle(batches)) for _ in range(3))
    steps = {"floor F: two raw ERM steps": [first, second] * block, "one": [single] * block}
    for name, make_options in LC_OPTIONS.items():
        steps[name] = [make_lc_step(table, itertools.cycle(batches), make_options())] * block
    return compare_times("A step, same batches, fused Adam", steps, num_rounds, "ms", block)


def compare_epochs(table: DataTable, batches: list[Batch], num_rounds: int) -> dict[str, Timing]:
    """Compare epochs by the library's loop with as many raw steps of two networks.

    Args:
        table: The data.
        batches: Batches in memory, for the raw steps.
        num_rounds: Number of rounds.
    """
    raw_steps = [make_erm_step(table, itertools.cycle(batches)) for _ in range(2)]
    epochs = {"floor: two raw epochs, data ready": raw_steps * math.ceil(NUM_TRAIN / BATCH)}
    for name in (SETTLED, BOTH):
        epochs[name] = [make_training(table, LC, LC_OPTIONS[name])]
    epochs["ERM"] = [make_training(table, ERM)]
    title = "An epoch of 55,000 rows by Trainer, with data, validation, checkpoint and metrics.csv"
    return compare_times(title, epochs, num_rounds, "s")


def compare_trainings(table: DataTable, num_rounds: int, epochs: int) -> list[Timing]:
    """Compare whole trainings.

    Args:
        table: The data.
        num_rounds: Number of rounds.
        epochs: Epochs of a training.

    Returns:
        Timings of ERM, LC by default (``Auto``) and LC with given attributes.
    """
    trainings = {
        "floor: ERM": [make_training(table, ERM, epochs=epochs)],
        "LC by default (Auto)": [make_training(table, LC, epochs=epochs)],
        "LC, given attributes": [make_training(table, LC, LC_OPTIONS[SETTLED], epochs=epochs)],
    }
    return list(compare_times(f"A training of {epochs} epochs", trainings, num_rounds, "s").values())


class InterleavingStore(ArrayStore):
    """Inputs that run raw steps before each fetch of a batch, so that a step of ``Trainer`` is timed between them."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__(values)
        self.raw_steps: list[Function] = []
        self.times: list[list[float]] = []

    def fetch(self, rows: torch.Tensor) -> torch.Tensor:
        """Note the time, at which a step of ``Trainer`` ends, and that after each raw step; then fetch."""
        if self.raw_steps and len(rows) == BATCH:
            times = [process_time()]
            for step in self.raw_steps:
                step()
                times.append(process_time())
            self.times.append(times)
        return super().fetch(rows)


def measure_loop_overhead(num_rounds: int, num_steps: int = 1500, window: int = 50) -> float:
    """Return how many microseconds ``Trainer`` with its data adds to a raw step.

    The network is tiny (8-16-10). Prints medians, over windows of 50 steps, of the raw step on a batch in memory, and
    of what ``DataLoader(batch_size=None)`` on ready batches and ``Trainer`` add to it, in microseconds.

    Args:
        num_rounds: Epochs.
        num_steps: Steps of an epoch.
        window: Steps of a window; ``Trainer`` writes a row of metrics in each.
    """
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 10, (num_steps * BATCH + 2,), generator=generator)
    store = InterleavingStore(torch.randn(len(label), 8, generator=generator))
    rows = torch.arange(len(label))
    names = [str(value) for value in range(10)]
    table = DataTable(store, label, label, {"train": rows[:-2], "valid": rows[-2:-1], "test": rows[-1:]}, names, names)
    batches = list(BatchLoader(table, "train", batch_size=BATCH, shuffle=True).epoch())
    epochs = itertools.repeat(DataLoader(batches, batch_size=None))  # type: ignore[arg-type]
    store.raw_steps = [
        make_erm_step(table, itertools.cycle(batches), TINY_HIDDEN),
        make_erm_step(table, itertools.chain.from_iterable(epochs), TINY_HIDDEN),
    ]
    windows = []
    for _ in range(num_rounds):
        store.times.clear()
        make_training(table, ERM, hidden=TINY_HIDDEN)()
        times = torch.tensor(store.times, dtype=torch.float64) * UNITS["us"]
        raw, loaded = times.diff(dim=1)[:-1].unbind(1)
        in_trainer = times[1:, 0] - times[:-1, 2]
        parts = torch.stack([raw, loaded - raw, in_trainer - raw], 1).split(window)
        windows += [part.mean(0).tolist() for part in parts[:-1]]
    raw_time, loader_overhead, overhead = (statistics.median(times) for times in zip(*windows, strict=True))
    print(f"\nA step of a tiny network: raw {raw_time:.0f} us, ", end="")
    print(f"DataLoader +{loader_overhead:.0f}, Trainer +{overhead:.0f}", flush=True)
    return overhead


def measure_speed() -> int:
    """Measure everything; return 1 where a goal is missed and ``--check`` is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the comparison of steps")
    parser.add_argument("--epochs", type=int, default=7, help="rounds of the other comparisons")
    parser.add_argument("--trainings", type=int, default=1, help="rounds of whole trainings")
    parser.add_argument("--training_epochs", type=int, default=15, help="their epochs")
    parser.add_argument("--check", action="store_true", help="exit with status 1 where a goal is missed")
    parser.add_argument("--csv", type=Path, help="also write the figures there, as in speed/figures.csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = ColoredMNIST()
    table = data.build()
    print(f"MNIST from {data.root}\n{platform.processor()}, 1 thread, torch {torch.__version__}")
    loader = BatchLoader(table, "train", batch_size=BATCH, shuffle=True)
    batches = list(itertools.islice(loader.epoch(), 32))
    steps = compare_steps(table, batches, options.rounds)
    epochs = compare_epochs(table, batches, options.epochs)
    overhead = measure_loop_overhead(options.epochs)
    loading = {"fetched and coloured by BatchLoader": [lambda: [None for _ in loader.epoch()]]}
    [batch] = compare_times("A batch alone", loading, options.epochs, "us", len(loader)).values()
    _, auto, given_attributes = compare_trainings(table, options.trainings, options.training_epochs)
    values = [steps[SETTLED].ratio, steps[BOTH].ratio, auto.ratio, given_attributes.ratio, overhead]
    results = pd.DataFrame({"figure": list(GOALS), "value": values, "goal": list(GOALS.values())})
    print(f"\n{'':34}{'measured':>10}{'goal':>8}")
    for name, value, goal in results.itertuples(index=False):
        print(f"{name:34}{value:10.2f}{goal:8.2f}{'  missed' if value > goal else ''}")
    if options.csv:
        results.to_csv(options.csv, index=False)
    epoch_ratios = ", ".join(f"{name} {epochs[name].ratio:.2f}" for name in (SETTLED, BOTH))
    print(f"an epoch / floor: {epoch_ratios}\ndata path: {UNITS['us'] * BATCH / batch.time:,.0f} images/s")
    return int(options.check and (results["value"] > results["goal"]).any())


if __name__ == "__main__":
    sys.exit(measure_speed())
