"""``logit-correction benchmark NAME|FILE``: a grid of runs that resumes where it stopped."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from logit_correction.cli.arguments import Parser
from logit_correction.cli.show import lines_of

if TYPE_CHECKING:
    from logit_correction.benchmark import Benchmark


def main(arguments: list[str]) -> int:
    """Run a grid and write its tables."""
    parser = Parser(
        "benchmark",
        "A grid of runs: resumes where it stopped, writes table.csv (one row a run and rule) and table.md.",
    )
    parser.add_argument("name", metavar="NAME|FILE", help="a shipped benchmark, a .yaml file, or `list`")
    parser.add_argument("--seeds", type=int, help="number of seeds; the benchmark's own by default")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--out", type=Path, help="folder to write (default: benchmark-NAME)")
    options = parser.parse_args(arguments)
    from logit_correction import benchmark as grids

    if options.name == "list":
        print(lines_of(list(grids.shipped().items())))
        return 0
    for name in ("jobs", "seeds"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} is {value}, but must be at least 1")
    grid = grids.read(options.name, options.seeds)
    out = options.out or Path(f"benchmark-{grid.name}")
    try:
        with _stoppable():
            failed = grids.run(grid, out, options.jobs, lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        again = shlex.join(["logit-correction", "benchmark", *arguments])
        print(f"stopped; the same command goes on: {again}", file=sys.stderr)
        return 130
    _write(grid, out)
    return 1 if failed else 0


def _write(grid: Benchmark, out: Path) -> None:
    """Write and print the tables."""
    from logit_correction.benchmark import results
    from logit_correction.evaluation.files import replacing
    from logit_correction.render.benchmark_table import markdown
    from logit_correction.runs.folder import write_text

    frame = results(grid, out)
    text = markdown(grid, frame)
    with replacing(out / "table.csv") as temporary:
        frame.to_csv(temporary, index=False)
    write_text(out / "table.md", text)
    print(text)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM stop the runs as Ctrl-C does (in the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
