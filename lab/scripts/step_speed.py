"""What LC costs beside its floor, the training of two ordinary networks.

Everything runs in one process on the Colored MNIST setting (MLP 2352-100-100-100-10, batch 256). The competitors take
turns in short blocks, so that whatever else the machine does meets all of them; a ratio is the median over the rounds
of (competitor / floor) within a round. With one thread, times are processor seconds, which other jobs stretch least.
Whole trainings follow, with all that LC does before its own steps. Takes about five minutes; ``--check`` exits with 1
where a goal is missed.
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from logit_correction.attributes.given import TrueAttributes
from logit_correction.attributes.online import Online
from logit_correction.data.digits import COLORS, ColoredStore
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

SETTLED_GOAL, BOTH_GOAL, LOOP_GOAL, AUTO_GOAL, GIVEN_GOAL = 0.55, 1.05, 50 / 34, 2.0, 1.2
BATCH, HIDDEN, UNITS = 256, (100, 100, 100), {"s": 1.0, "ms": 1e3, "us": 1e6}
Function: TypeAlias = Callable[[], Any]
Found: TypeAlias = dict[str, tuple[float, float]]

#: Where the estimates are settled, as by default, LC trains one network and looks each row's attribute up. In the
#: paper both networks train in every step, as in the floor.
SETTLED, BOTH = "LC, settled estimates", "LC, the paper's: both networks train"
AUTO, GIVEN = "LC by default (Auto)", "LC, given attributes"
STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    SETTLED: lambda: {"attributes": TrueAttributes()},
    "  the same without mixing": lambda: {"attributes": TrueAttributes(), "mixing": NoMixing()},
    BOTH: lambda: {"attributes": Online(), "prior": Moving(estimator="cell"), "mixing": GroupMixUp()},
    "  the same with a joint prior": lambda: {"attributes": Online(), "prior": Moving(), "mixing": GroupMixUp()},
    "  both networks, no mixing": lambda: {"attributes": Online(), "prior": Moving("cell"), "mixing": NoMixing()},
}


def load_table(root: str | None) -> tuple[DataTable, str]:
    """Colored MNIST, or random images of its shape where there is no MNIST; and which of the two."""
    folder = root or os.environ.get("LOGIT_CORRECTION_DATA", "")
    if folder and (Path(folder) / "MNIST" / "raw").is_dir():
        return ColoredMNIST(root=folder, download=False).build(), f"MNIST from {folder}"
    generator = torch.Generator().manual_seed(0)
    glyphs = torch.randint(0, 256, (70_000, 28, 28), generator=generator, dtype=torch.uint8)
    label = torch.randint(0, 10, (70_000,), generator=generator)
    store = ColoredStore(glyphs, torch.arange(70_000), torch.rand(10, 3, generator=generator)[label])
    return make_table(store, label, NUM_TRAIN, 5_000), "no MNIST found: random images of the same shape"


def make_table(store: ArrayStore | ColoredStore, label: torch.Tensor, train: int, valid: int) -> DataTable:
    rows = torch.arange(len(label))
    split = {"train": rows[:train], "valid": rows[train : train + valid], "test": rows[train + valid :]}
    return DataTable(store, label, label, split, [str(i) for i in range(10)], [*COLORS][:10])


def plain_step(groups: Any, loss_of: Callable[[Batch], torch.Tensor], batches: Iterable[Batch]) -> Function:
    """One step of a plain loop; ``groups`` are the optimizer's."""
    supply = itertools.cycle(batches) if isinstance(batches, list) else iter(batches)
    optimizer = torch.optim.Adam(groups, lr=1e-3, fused=True)

    def step() -> None:
        loss = loss_of(next(supply))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def raw_step(table: DataTable, batches: Iterable[Batch], hidden: tuple[int, ...] = HIDDEN) -> Function:
    """A step of ERM as short as it can be written."""
    network = MLP(table.info, hidden)
    return plain_step(network.parameters(), lambda b: cross_entropy(network(b.inputs), b.label), batches)


def lc_step(table: DataTable, batches: list[Batch], choice: dict[str, Any]) -> Function:
    """A step of LC's own stage, long after every ramp-up."""
    algorithm = LC(lambda: MLP(table.info, HIDDEN), table.info, **choice)
    algorithm.setup(build_training_rows(table, algorithm, 1, None))
    algorithm.begin_stage(algorithm.num_stages - 1, None)
    return plain_step(algorithm.parameter_groups(), lambda b: algorithm(b, 100.0).loss, batches)


def fit(
    method: type[ERM | LC],
    table: DataTable,
    choose: Callable[[], dict[str, Any]] = dict,
    hidden: tuple[int, ...] = HIDDEN,
    epochs: int = 1,
) -> Function:
    """A training by the library's own loop, with validation, checkpoints and metrics.csv."""
    config = TrainingConfig(epochs=epochs, batch_size=BATCH, device="cpu", learning_rate=2e-3)
    device = launch_processes(config)

    def run() -> None:
        algorithm = method(lambda: MLP(table.info, hidden), table.info, **choose())
        algorithm.setup(build_training_rows(table, algorithm, epochs, None))
        with tempfile.TemporaryDirectory() as folder:
            loop = Trainer(algorithm, table, config, device, Path(folder) / "resume.pt", Display())
            loop.run()
            loop.record.write(Path(folder) / "metrics.csv")

    return run


def now() -> float:
    """Seconds of this process's processor time, or of the clock where several threads share the work."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def compare(title: str, competitors: dict[str, list[Function]], rounds: int, unit: str, count: int) -> Found:
    """Let the competitors, each a list of calls, take turns; return the ratio to the first one and the median time."""
    names = list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = now()
            for call in competitors[name]:
                call()
            if turn:  # the first round warms up
                times[name].append((now() - started) / count * UNITS[unit])
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
    steps |= {name: [lc_step(table, batches, choose())] * block for name, choose in STEPS.items()}
    return compare("A step, same batches, fused Adam", steps, rounds, "ms", block)


def compare_epochs(table: DataTable, batches: list[Batch], rounds: int) -> Found:
    raw = [raw_step(table, batches) for _ in range(2)]
    epochs = {"floor: two raw epochs, data ready": raw * math.ceil(NUM_TRAIN / BATCH)}
    epochs |= {name: [fit(LC, table, STEPS[name])] for name in (SETTLED, BOTH)}
    epochs["ERM"] = [fit(ERM, table)]
    title = "An epoch of 55,000 rows by Fit, with data, validation, checkpoint and metrics.csv"
    return compare(title, epochs, rounds, "s", 1)


def compare_trainings(table: DataTable, rounds: int, epochs: int) -> Found:
    """Whole trainings: what LC does before its own steps is in them."""
    trainings = {"floor: ERM": [fit(ERM, table, epochs=epochs)]}
    trainings[AUTO] = [fit(LC, table, epochs=epochs)]
    trainings[GIVEN] = [fit(LC, table, STEPS[SETTLED], epochs=epochs)]
    return compare(f"A training of {epochs} epochs", trainings, rounds, "s", 1)


class TakingTurns(ArrayStore):
    """Inputs that let plain steps run before each fetch, so that a step of ``Trainer`` is timed among theirs."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__(values)
        self.plain: list[Function] = []
        self.times: list[list[float]] = []

    def fetch(self, rows: torch.Tensor) -> torch.Tensor:
        """Time a plain step of each kind, and fetch."""
        if self.plain and len(rows) == BATCH:
            self.times.append([now()])  # where the step of Fit before ends
            for step in self.plain:
                step()
                self.times[-1].append(now())
        return super().fetch(rows)


def compare_loops(rounds: int, steps: int = 1500, window: int = 50) -> tuple[float, float, float]:
    """Microseconds that a step of a tiny network (8-16-10) takes longer in Fit, data and all, than in a raw loop.

    Medians over windows of 50 steps, each with its row of figures; beside Fit what a raw loop takes longer whose ready
    batches come from DataLoader(batch_size=None), and the raw step itself.
    """
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, 10, (steps * BATCH + 2,), generator=generator)
    store = TakingTurns(torch.randn(len(label), 8, generator=generator))
    table = make_table(store, label, len(label) - 2, 1)
    batches = list(BatchLoader(table, "train", batch_size=BATCH, shuffle=True).epoch())
    forever = itertools.chain.from_iterable(itertools.repeat(DataLoader(batches, batch_size=None)))  # type: ignore[arg-type]
    store.plain = [raw_step(table, batches, (16,)), raw_step(table, forever, (16,))]
    spent: list[tuple[float, ...]] = []
    for _ in range(rounds):
        store.times.clear()
        fit(ERM, table, hidden=(16,))()
        found = torch.tensor(store.times, dtype=torch.float64)
        raw, loaded = (found[:-1, 1:] - found[:-1, :-1]).unbind(1)
        parts = torch.stack([found[1:, 0] - found[:-1, 2] - raw, loaded - raw, raw], 1).split(window)[:-1]
        spent += [tuple((1e6 * part.mean(0)).tolist()) for part in parts]
    fitted, loader, plain = (statistics.median(column) for column in zip(*spent, strict=True))
    print(f"\nA step of a tiny network: raw {plain:.0f} us, DataLoader +{loader:.0f}, Fit +{fitted:.0f}", flush=True)
    return fitted, loader, plain


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the comparison of steps")
    parser.add_argument("--epochs", type=int, default=7, help="rounds of the other comparisons")
    parser.add_argument("--trainings", type=int, default=1, help="rounds of whole trainings")
    parser.add_argument("--training_epochs", type=int, default=15, help="their epochs")
    parser.add_argument("--threads", type=int, default=1, help="processor threads; small networks are fastest with 1")
    parser.add_argument("--data_root", help="folder that holds MNIST/raw; by default LOGIT_CORRECTION_DATA")
    parser.add_argument("--check", action="store_true", help="exit with status 1 where a goal is missed")
    parser.add_argument("--csv", type=Path, help="also write the ratios there, as in speed/figures.csv")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table, source = load_table(options.data_root)
    print(f"{source}\n{platform.processor()}, {options.threads} thread(s), torch {torch.__version__}")
    loader = BatchLoader(table, "train", batch_size=BATCH, shuffle=True)
    batches = list(itertools.islice(loader.epoch(), 32))
    steps = compare_steps(table, batches, options.rounds)
    epochs = compare_epochs(table, batches, options.epochs)
    overhead, loader_alone, _ = compare_loops(options.epochs)
    data = {"fetched and coloured by BatchLoader": [lambda: [None for _ in loader.epoch()]]}
    [(_, fetching)] = compare("A batch alone", data, options.epochs, "us", len(loader)).values()
    trainings = compare_trainings(table, options.trainings, options.training_epochs)
    rows = (
        ("LC step / F, settled estimates", steps[SETTLED][0], SETTLED_GOAL),
        ("LC step / F, both networks", steps[BOTH][0], BOTH_GOAL),
        ("whole LC training / ERM", trainings[AUTO][0], AUTO_GOAL),
        ("the same, given attributes", trainings[GIVEN][0], GIVEN_GOAL),
        ("overhead of Fit / DataLoader's", overhead / loader_alone, LOOP_GOAL),
    )
    print(f"\n{'':34}{'measured':>10}{'goal':>8}")
    for name, measured, goal in rows:
        print(f"{name:34}{measured:10.2f}{goal:8.2f}{'  missed' if measured > goal else ''}")
    if options.csv:
        pd.DataFrame(rows, columns=["figure", "value", "goal"]).to_csv(options.csv, index=False)
    epoch = ", ".join(f"{name} {epochs[name][0]:.2f}" for name in (SETTLED, BOTH))
    print(f"an epoch / floor: {epoch}\ndata path: {1e6 * BATCH / fetching:,.0f} images/s")
    return int(options.check and any(measured > goal for _, measured, goal in rows))


if __name__ == "__main__":
    sys.exit(main())
