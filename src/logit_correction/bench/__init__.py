"""Grids of runs: methods by variants by seeds. Finished runs are never run again."""

from __future__ import annotations

from logit_correction.bench.checks import slug
from logit_correction.bench.executors import ProcessExecutor, RayExecutor
from logit_correction.bench.grid import Benchmark, Cell, merge, read, shipped
from logit_correction.bench.missing import DataMissing
from logit_correction.bench.results import find, history, results
from logit_correction.bench.run import run

__all__ = [
    "Benchmark",
    "Cell",
    "DataMissing",
    "ProcessExecutor",
    "RayExecutor",
    "find",
    "history",
    "merge",
    "read",
    "results",
    "run",
    "shipped",
    "slug",
]
