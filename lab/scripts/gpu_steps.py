"""At which lines does a training step wait for the device, and how long does it take? ``gpu.py`` runs this."""

from __future__ import annotations

import math
import statistics
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
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
    """A logger that notes when metrics arrive. They were read from the device, so it has finished all steps before."""

    def __init__(self) -> None:
        self.step_times: list[tuple[int, int, float]] = []  # epoch, step, seconds
        self.epoch_times: list[float] = []
        self.loss = math.nan

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Note the time of metrics of training, which have a learning rate, or of the validation after an epoch.

        Args:
            metrics: Name -> value.
            step: Steps so far.
        """
        if "learning_rate" in metrics:
            self.step_times.append((int(metrics["epoch"]), step, time.perf_counter()))
            self.loss = metrics["loss"]
        else:
            self.epoch_times.append(time.perf_counter())

    def compute_step_seconds(self) -> list[float]:
        """Return seconds per step between two rows of metrics of one epoch, without the first epoch."""
        return [
            (end - start) / (last - first)
            for (epoch, first, start), (next_epoch, last, end) in pairwise(self.step_times)
            if 0 < epoch == next_epoch and last > first
        ]

    def compute_epoch_seconds(self) -> list[float]:
        """Return seconds of each epoch with its validation, without the first epoch."""
        return [end - start for start, end in pairwise(self.epoch_times)]


def make_trainer(table: DataTable, options: dict[str, Any], clock: Clock) -> Trainer:
    """Return a training as the program makes it, without a checkpoint.

    Args:
        table: The data.
        options: Options of a run.
        clock: Gets the metrics.
    """
    torch.use_deterministic_algorithms(False)  # a training before may have asked for them
    config = complete_config({**options, "selection": "last"})
    algorithm = build_algorithm(config, table.info)
    algorithm.setup(build_training_rows(table, algorithm, config.training.epochs or 0))
    device = launch_processes(config.training)
    return Trainer(algorithm, table, config.training, device, Display(), loggers=(clock,))


@contextmanager
def watch_steps(switch: Callable[[bool], None]) -> Iterator[None]:
    """Call ``switch(True)`` from the second step of every epoch of training on, and ``switch(False)`` at its last.

    All that the loop does lies between, batches and augmentation included. At its start and end an epoch waits for the
    device on purpose, for its order and its metrics.
    """
    original = BatchLoader.epoch

    def yield_batches(loader: BatchLoader, epoch: int = 0, first_step: int = 0) -> Iterator[Batch]:
        try:
            for number, batch in enumerate(original(loader, epoch, first_step)):
                switch(loader.shuffle and 0 < number < len(loader) - 1)
                yield batch
        finally:
            switch(False)

    BatchLoader.epoch = yield_batches  # type: ignore[method-assign]
    try:
        yield
    finally:
        BatchLoader.epoch = original  # type: ignore[method-assign]


@contextmanager
def count_waits(switch: Callable[[bool], None]) -> Iterator[Counter[str]]:
    """Count the lines of this project at which PyTorch warns that it waits for the device while ``switch`` is on."""
    counts: Counter[str] = Counter()

    def count_warning(message: Warning | str, *_: Any) -> None:
        if "synchronizing" in str(message):
            frames = traceback.extract_stack()[:-1]
            frame = ([frame for frame in frames if "logit_correction" in frame.filename] or frames)[-1]
            counts[f"{Path(frame.filename).name}:{frame.lineno} {frame.line}"] += 1

    with warnings.catch_warnings(), watch_steps(switch):
        warnings.simplefilter("always")
        warnings.showwarning = count_warning
        try:
            yield counts
        finally:
            switch(False)


def warn_of_waits(on: bool) -> None:
    """Let PyTorch warn where it waits for the device."""
    torch.cuda.set_sync_debug_mode("warn" if on else "default")


def check_waits(table: DataTable, options: dict[str, Any]) -> dict[str, Any]:
    """Train and return the lines at which a step waited for the device; on a processor only that it trained.

    Args:
        table: The data.
        options: Options of a run, with ``device``.
    """
    trainer = make_trainer(table, options, Clock())
    if options["device"] == "cpu":
        with watch_steps(lambda on: None):
            trainer.run()
        return {"steps": trainer.progress.total_steps, "skipped": "only a CUDA device can be waited for"}
    with count_waits(warn_of_waits) as waits:
        trainer.run()
    with count_waits(lambda on: None) as control:
        warn_of_waits(True)
        torch.ones(1, device=options["device"]).item()
        warn_of_waits(False)
    return {"steps": trainer.progress.total_steps, "waits": dict(waits), "the check sees item()": bool(control)}


def time_steps(table: DataTable, options: dict[str, Any]) -> dict[str, Any]:
    """Train and return what a step and an epoch take.

    Args:
        table: The data.
        options: Options of a run, with ``device``, ``batch_size`` and ``epochs``; the first epoch is not timed.

    Returns:
        Milliseconds of a step (median, least and most), seconds of an epoch, images per second, and on a GPU MiB.
    """
    num_steps = math.ceil(len(table.split["train"]) / options["batch_size"])
    if options.get("compile"):  # importing the compiler takes a while
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
    if options["device"] != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    clock = Clock()
    make_trainer(table, {**options, "log_every": max(1, num_steps // 5)}, clock).run()
    seconds = clock.compute_step_seconds()
    step_seconds = statistics.median(seconds)
    result = {
        "ms": 1e3 * step_seconds,
        "least": 1e3 * min(seconds),
        "most": 1e3 * max(seconds),
        "windows": len(seconds),
        "images_per_second": options["batch_size"] / step_seconds,
        "epoch_seconds": statistics.median(clock.compute_epoch_seconds()),
        "last_loss": clock.loss,
    }
    if options.get("compile"):
        result["graphs_skipped"] = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    if options["device"] != "cpu":
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return result
