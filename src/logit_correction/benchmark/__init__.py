"""Grids of runs: methods by variants by seeds. Finished runs are never run again."""

from __future__ import annotations

from logit_correction.benchmark.grid import Benchmark, Cell, merge, read, shipped, slug
from logit_correction.benchmark.run import results, run

__all__ = ["Benchmark", "Cell", "merge", "read", "results", "run", "shipped", "slug"]
