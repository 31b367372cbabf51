"""The program's own loop, watched: where a training step waits for the device, and what it takes. See ``gpu.py``."""

from __future__ import annotations

import math
import statistics
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable
from logit_correction.runs.assemble import build_training_rows, launch_processes
from logit_correction.runs.model import build_algorithm
from logit_correction.runs.options import complete_config
from logit_correction.training.display import Display
from logit_correction.training.fit import Trainer
from logit_correction.types import Batch


class Clock:
    """A logger that notes when rows of figures came; each has been read from the device, so that nothing runs on."""

    def __init__(self) -> None:
        self.flushed: list[tuple[int, int, float]] = []
        self.epochs: list[float] = []
        self.loss = math.nan

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        """Note a row; one without a learning rate is that of the validation at an epoch's end."""
        if "learning_rate" in figures:
            self.flushed.append((int(figures["epoch"]), step, time.perf_counter()))
            self.loss = figures["loss"]
        else:
            self.epochs.append(time.perf_counter())

    def step_seconds(self) -> list[float]:
        """Seconds of a step in each window between two rows of an epoch, the first epoch left out."""
        pairs = zip(self.flushed, self.flushed[1:], strict=False)
        return [(t - before) / (n - m) for (e, m, before), (f, n, t) in pairs if 0 < e == f and n > m]

    def epoch_seconds(self) -> list[float]:
        """Seconds of each epoch but the first, validation included."""
        return [after - before for before, after in zip(self.epochs, self.epochs[1:], strict=False)]


def make_fit(table: DataTable, flat: dict[str, Any], clock: Clock) -> Trainer:
    """A training as the program makes it, without a checkpoint."""
    torch.use_deterministic_algorithms(False)  # a training before may have asked for them
    config = complete_config({**flat, "selection": "last"})
    algorithm = build_algorithm(config, table.info)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0, None))
    return Trainer(
        algorithm, table, config.training, launch_processes(config.training), None, Display(), loggers=(clock,)
    )


@contextmanager
def inside_steps(switch: Callable[[bool], None]) -> Iterator[None]:
    """Call ``switch(True)`` from the second step of every epoch of training on, and ``switch(False)`` at its last.

    What lies between is all that the loop does, batches and augmentation included; an epoch begins and ends with a wait
    for the device that is meant, for its order and its figures.
    """
    own = BatchLoader.epoch

    def epoch(self: BatchLoader, epoch: int = 0, first_step: int = 0) -> Iterator[Batch]:
        try:
            for number, batch in enumerate(own(self, epoch, first_step)):
                switch(self.shuffle and 0 < number < len(self) - 1)
                yield batch
        finally:
            switch(False)

    BatchLoader.epoch = epoch  # type: ignore[method-assign]
    try:
        yield
    finally:
        BatchLoader.epoch = own  # type: ignore[method-assign]


@contextmanager
def waits(switch: Callable[[bool], None]) -> Iterator[Counter[str]]:
    """Count the lines of ours at which PyTorch warns of waiting for the device while ``switch`` is on."""
    found: Counter[str] = Counter()

    def show(message: Warning | str, *_: Any) -> None:
        if "synchronizing" in str(message):
            frames = [f for f in traceback.extract_stack()[:-1] if "logit_correction" in f.filename] or [
                traceback.extract_stack()[-2]
            ]
            found[f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].line}"] += 1

    with warnings.catch_warnings(), inside_steps(switch):
        warnings.simplefilter("always")
        warnings.showwarning = show
        try:
            yield found
        finally:
            switch(False)


def warn_of_waits(on: bool) -> None:
    """Let PyTorch warn wherever it waits for the device."""
    torch.cuda.set_sync_debug_mode("warn" if on else "default")


def check_syncs(table: DataTable, flat: dict[str, Any], device: str) -> dict[str, Any]:
    """Train and return where a step waited; on a processor only that it trained."""
    fit = make_fit(table, flat, Clock())
    if device == "cpu":
        with inside_steps(lambda on: None):
            fit.run()
        return {"steps": fit.progress.total_steps, "skipped": "only a CUDA device can be waited for"}
    with waits(warn_of_waits) as found:
        fit.run()
    with waits(lambda on: None) as control:
        warn_of_waits(True)
        torch.ones(1, device=device).item()
        warn_of_waits(False)
    return {"steps": fit.progress.total_steps, "waits": dict(found), "the check sees item()": bool(control)}


def time_steps(table: DataTable, flat: dict[str, Any], epochs: int, device: str) -> dict[str, Any]:
    """Train some epochs and return what a step and an epoch take."""
    steps = math.ceil(len(table.split["train"]) / flat["batch_size"])
    if flat.get("compile"):  # importing the compiler takes a while
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    clock = Clock()
    make_fit(table, flat | {"epochs": epochs, "log_every": max(1, steps // 5)}, clock).run()
    windows, whole = clock.step_seconds(), clock.epoch_seconds()
    step = statistics.median(windows)
    found = {"ms": 1e3 * step, "least": 1e3 * min(windows), "most": 1e3 * max(windows), "windows": len(windows)}
    found |= {"images_per_second": flat["batch_size"] / step, "epoch_seconds": statistics.median(whole)}
    found |= {"last_loss": clock.loss}
    if flat.get("compile"):
        found |= {"graphs_skipped": torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]}
    return found | ({} if device == "cpu" else {"peak_mib": torch.cuda.max_memory_allocated() / 2**20})
