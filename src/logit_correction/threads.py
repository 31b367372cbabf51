"""Work on many files at once, in threads, with a progress bar."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

#: Default limit on threads that read files; more hardly read faster.
MAX_THREADS = 16

#: Items that are handed to the threads together, so that results do not pile up.
ITEMS_PER_CHUNK = 512

#: From so many items on, progress is shown.
MIN_ITEMS_FOR_PROGRESS = 500

T = TypeVar("T")
R = TypeVar("R")


def count_available_cores() -> int:
    """Return the number of processor cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_threads(
    function: Callable[[T], R],
    items: Sequence[T],
    title: str = "",
    images: int | None = None,
    threads: int | None = None,
) -> Iterator[R]:
    """Yield the result of a function for each item, in order.

    Args:
        function: Called in several threads at once.
        items: Its arguments.
        title: Heading of the progress, which is a bar on a terminal and one line elsewhere; shown from 500 items on.
            Empty: nothing is shown.
        images: How many images the items stand for, where an item is several of them; by default one each.
        threads: Number of threads; by default one for each core, 16 at most.
    """
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    total = len(items) if images is None else images
    shows_progress = bool(title) and total >= MIN_ITEMS_FOR_PROGRESS
    if shows_progress and not console.is_terminal:
        console.print(f"{title}: {total:,}", highlight=False)
    disable = not (shows_progress and console.is_terminal)
    with ThreadPoolExecutor(threads or min(MAX_THREADS, count_available_cores())) as pool:
        chunks = (items[start : start + ITEMS_PER_CHUNK] for start in range(0, len(items), ITEMS_PER_CHUNK))
        results = (result for chunk in chunks for result in pool.map(function, chunk))
        yield from track(results, title, len(items), console=console, disable=disable, transient=True)
