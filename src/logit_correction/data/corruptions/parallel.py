"""Corrupting a whole data set on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
from numpy.typing import NDArray

from logit_correction.data.corruptions.streams import Integers

#: Images of one piece of work.
PIECE = 250

#: From so many images on, progress is shown.
SHOW_FROM = 2000

Corrupt = Callable[[NDArray[np.uint8], str, int, Integers, int], NDArray[np.uint8]]


def corrupted_set(
    corrupt: Corrupt,
    images: NDArray[np.uint8],
    attribute: Integers,
    names: Sequence[str],
    severity: int,
    seed: int,
    workers: int,
) -> NDArray[np.uint8]:
    """Corrupt every image in its own way, with a progress bar; the number of workers changes nothing.

    Threads do the work: NumPy, SciPy and Pillow let each other run, and nothing has to be sent about.

    Args:
        corrupt: The function of that name.
        images: (M, 3, H, W).
        attribute: (M,) which of ``names`` each image gets.
        names: Corruptions.
        severity: 1..5.
        seed: Seed of the random numbers.
        workers: Threads.

    Returns:
        (M, 3, H, W).
    """
    result = np.empty_like(images)

    def work(name: str, rows: Integers) -> int:
        upright = np.ascontiguousarray(images[rows].transpose(0, 2, 3, 1))
        result[rows] = corrupt(upright, name, severity, rows, seed).transpose(0, 3, 1, 2)
        return len(rows)

    pieces = []
    for value, name in enumerate(names):
        rows = (attribute == value).nonzero()[0]
        pieces += [(name, rows[start : start + PIECE]) for start in range(0, len(rows), PIECE)]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work, *piece) for piece in pieces]
        try:
            _follow((future.result() for future in as_completed(futures)), len(images))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return result


def _follow(done: Iterable[int], total: int) -> None:
    """Show how many images are done: a bar on a terminal, a line elsewhere, nothing where there are few."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = total < SHOW_FROM or not console.is_terminal
    if total >= SHOW_FROM and hidden:
        console.print(f"corrupting {total:,} images, once", highlight=False)
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task("corrupting images", total=total)
        for count in done:
            bar.advance(task, count)
