"""Grids of runs: methods by variants by seeds. Finished runs are never run again."""

from __future__ import annotations

from logit_correction.benchmark.checks import slug
from logit_correction.benchmark.executors import ProcessExecutor, RayExecutor
from logit_correction.benchmark.grid import Benchmark, Cell, merge, read, shipped
from logit_correction.benchmark.missing import DataMissing
from logit_correction.benchmark.results import find, history, results
from logit_correction.benchmark.run import run

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
