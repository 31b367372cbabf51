"""Images that do not fit into memory: how much memory a run takes, and how long it waits for data.

    python benchmarks/streaming.py --images 4000 --limit 0.1

draws JPEG files, reads them into a kept file that is larger than the memory limit (GiB), walks through an epoch of it,
and trains ResNet-18 at 224 pixels for a few steps. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from logit_correction.data.loading import BatchLoader
from logit_correction.data.own import ImageFolder
from logit_correction.data.reader import DataSource
from logit_correction.data.stores import StreamedStore
from logit_correction.data.table import DataTable


def draw_files(root: Path, count: int, side: int) -> None:
    """Write smooth JPEG images of two labels."""

    def draw(number: int) -> None:
        coarse = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        path = root / ("even", "odd")[number % 2] / f"{number:06}.jpg"
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(path, quality=90)

    for label in ("even", "odd"):
        (root / label).mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(draw, range(count)))


def resident_mib() -> float:
    """Return what this process and its children hold in memory, in MiB; what several share is counted once."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    total = 0
    for process in ("self", *children):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended meanwhile
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def walk(loader: BatchLoader, epoch: int) -> Iterator[tuple[float, torch.Tensor, torch.Tensor]]:
    """Yield each batch with the seconds that it was waited for."""
    batches = loader.epoch(epoch)
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        assert isinstance(batch.inputs, torch.Tensor)
        yield time.perf_counter() - started, batch.inputs, batch.label


def memory_of_an_epoch(table: DataTable, batch_size: int, workers: int) -> dict[str, float]:
    """Walk through an epoch and note how much memory it takes beyond what was taken before."""
    loader = BatchLoader(table, "train", batch_size=batch_size, shuffle=True, workers=workers)
    next(iter(BatchLoader(table, "train", batch_size=2, shuffle=True).epoch()))  # imports what the augmentation needs
    before, most, started, processor = resident_mib(), [], time.perf_counter(), time.process_time()
    for step, _ in enumerate(walk(loader, 0)):
        if step % 10 == 5:
            most.append(resident_mib() - before)
    seconds, half = time.perf_counter() - started, len(most) // 2
    return {
        "images a second": loader.num_rows / seconds,
        "processor milliseconds an image, in this process": (time.process_time() - processor) / loader.num_rows * 1000,
        "MiB beyond the start, first half of the epoch": max(most[:half]),
        "MiB beyond the start, second half": max(most[half:]),
    }


def waiting(table: DataTable, batch_size: int, workers: int, steps: int) -> dict[str, float]:
    """Train ResNet-18 and tell the share of a step that is waiting; the first step is not counted."""
    from torchvision.models import resnet18

    network = resnet18(num_classes=2)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    loader = BatchLoader(table, "train", batch_size=batch_size, shuffle=True, workers=workers)
    waits, wholes, started = [], [], time.perf_counter()
    for wait, inputs, label in walk(loader, 1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs), label).backward()
        optimizer.step()
        waits.append(wait)
        wholes.append(time.perf_counter() - started)
        started = time.perf_counter()
        if len(waits) > steps:
            break
    return {
        "seconds a step (median)": statistics.median(wholes[1:]),
        "share of it waiting for data": sum(waits[1:]) / sum(wholes[1:]),
    }


def main() -> None:
    """Draw, read, walk, train, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--side", type=int, default=500, help="pixels of the files' sides")
    parser.add_argument("--limit", type=float, default=0.1, help="GiB that may stay in memory")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=6, help="of ResNet-18; 0 leaves it out")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--augment", default="resized-crop-flip")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOGIT_CORRECTION_CACHE"] = f"{folder}/cache"
        draw_files(Path(folder) / "files", options.images, options.side)
        os.environ["LOGIT_CORRECTION_MEMORY"] = str(options.limit)
        source: DataSource = ImageFolder(f"{folder}/files", augment=options.augment)
        before, started, processor = resident_mib(), time.perf_counter(), time.process_time()
        table = source.build()
        seconds, read = time.perf_counter() - started, time.process_time()
        assert isinstance(table.inputs, StreamedStore), "raise --images or lower --limit"
        figures: dict[str, object] = {
            "inputs": table.inputs.place,
            "reading": {
                "files a second": options.images / seconds,
                "processor milliseconds a file": (read - processor) / options.images * 1000,
                "MiB beyond the start, afterwards": resident_mib() - before,
            },
        }
        for workers in options.workers:
            epoch = memory_of_an_epoch(table, options.batch_size, workers)
            steps = waiting(table, options.batch_size, workers, options.steps) if options.steps else {}
            figures[f"workers {workers}"] = epoch | steps
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
