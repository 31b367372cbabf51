"""Work on many images by threads: Pillow, NumPy and SciPy let each other run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

#: From so many images on, progress is shown.
SHOW_FROM = 500

#: Items that wait for a thread at a time.
CHUNK = 512

#: Most threads where nobody chooses; more hardly read faster.
MOST_THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def available_cores() -> int:
    """Return the processor cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """Return how many threads work where nobody chooses."""
    return min(MOST_THREADS, available_cores())


def in_threads(
    function: Callable[[T], R],
    items: Sequence[T],
    title: str = "",
    images: int | None = None,
    threads: int | None = None,
) -> Iterator[R]:
    """Yield ``function`` of all items in order, with a bar on a terminal and a line elsewhere if they are many.

    Args:
        function: Called in any order, by several threads at once.
        items: What to work on.
        title: What is being done, for people; without one nothing is shown.
        images: Images that the items stand for; by default one each.
        threads: How many; by default as many as there are cores, and no more than reading can use.
    """
    from rich.console import Console
    from rich.progress import track

    console, total = Console(stderr=True), len(items) if images is None else images
    many = bool(title) and total >= SHOW_FROM
    if many and not console.is_terminal:
        console.print(f"{title}: {total:,}", highlight=False)
    with ThreadPoolExecutor(threads or thread_count()) as pool:
        chunks = (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
        results = (result for chunk in chunks for result in pool.map(function, chunk))
        yield from track(
            results, title, len(items), console=console, disable=not (many and console.is_terminal), transient=True
        )
