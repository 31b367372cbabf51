"""On a GPU: whether a training step waits for the device, what it takes, and a grid of short runs.

    python lab/scripts/gpu.py --out gpu --minutes 28 --jobs 4

on Corrupted CIFAR-10 with ResNet-18 and torchvision's stem, as the shipped grid table1-ccifar10 has it. Three parts:

- ``syncs``: every method is trained by the program's own loop, batches and augmentation on the device, and the places
  are listed at which a step waits for it (``torch.cuda.set_sync_debug_mode``), from an epoch's second step to its last.
- ``steps``: milliseconds a step, seconds an epoch with validation, images a second and peak memory, in other arithmetic
  and compiled; ratios to two trainings of ERM. LC has given attributes, whose step is that of any settled estimates.
- ``grid``: ratios by ERM, LC, preset paper and given attributes, trained by ``logit-correction benchmark``.

Each result is written when it is there (``results.jsonl``, ``results.md``, ``grid.csv``); the same command goes on
where it was cut off. ``--small --device cpu`` walks through all of it on the embedded digits.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from gpu_results import ERM, Results
from gpu_steps import check_syncs, time_steps

from logit_correction.data.augment import CropFlip
from logit_correction.data.table import DataTable
from logit_correction.files import write_text
from logit_correction.methods import METHODS
from logit_correction.runs.options import complete, merge
from logit_correction_lab.grid import read

PARTS = ("syncs", "steps", "grid")
AUTO, PAPER, GIVEN = "LC", "LC, preset paper", "LC, given attributes"
ORACLE = {"method": {"attributes": "TrueAttributes"}}
MODES: dict[str, dict[str, Any]] = {
    "float32": {},
    "graphs": {"compile": "reduce-overhead"},
    "bf16": {"precision": "bf16-mixed"},
    "bf16, graphs": {"precision": "bf16-mixed", "compile": "reduce-overhead"},
    "compiled": {"compile": True},
    "bf16, graphs, any kernel": {"precision": "bf16-mixed", "compile": "reduce-overhead", "deterministic": False},
}


def make_grid(options: argparse.Namespace, epochs: int) -> dict[str, Any]:
    """The shipped grid with our rows, shortened, its falls of the learning rate too."""
    shipped = yaml.safe_load(read("table1-ccifar10").text)
    threads = 1 if options.small else max(1, (os.cpu_count() or 1) // options.jobs)
    shorter = {"epochs": epochs, "device": options.device, "threads": threads}
    common = merge(shipped["common"] | shorter, yaml.safe_load(options.training))
    if options.small:
        common |= {"data": {"name": "Digits"}, "network": {"name": "ConvNet"}, "batch_size": 64}
    rows = {ERM: shipped["rows"]["ERM"], AUTO: {"method": {"name": "LC"}}, PAPER: shipped["rows"]["LC"]}
    rows[PAPER]["step_every"] = max(1, options.steps // 5)
    columns = {name: shipped["columns"][name] for name in options.columns or shipped["columns"]}
    cells = {name: cell for name, cell in shipped["cells"]["LC"].items() if name in columns}
    data = "Embedded digits" if options.small else "Corrupted CIFAR-10, ResNet-18"
    return {
        "title": f"{data}, {options.steps:,} steps",
        "seeds": options.seeds,
        "data_seeds": True,
        "common": common,
        "rows": rows | {GIVEN: merge(rows[AUTO], ORACLE)},
        "column_title": shipped["column_title"],
        "columns": columns,
        "cells": {PAPER: cells} if cells else {},
        "figure": "none",
    }


def load_table(grid: dict[str, Any], rows: int | None) -> DataTable:
    """The data of the grid's last column, of which so many training rows; images that change each time."""
    flat = merge(grid["common"], list(grid["columns"].values())[-1]) | {"method": ERM}
    table = complete(flat).data.make().build().check()
    split = {**table.split, "train": table.split["train"][:rows]}
    return replace(table, split=split, augment=table.augment or CropFlip(padding=1))


def sync_cases(common: dict[str, Any], rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every method, and LC with what its default has no step of."""
    cases: dict[str, dict[str, Any]] = {name: {"method": {"name": name}} for name in METHODS}
    cases["Reweighting"] = {"method": {"name": "Reweighting", "attributes": "Online"}}
    cases["DFA"]["method"]["swap_from_epoch"] = 0.5
    cases["JTT"]["method"]["up_weight"] = 2
    cases |= {PAPER: rows[PAPER], GIVEN: rows[GIVEN]}
    return {
        name: merge(common, case) | {"epochs": 2, "gradient_clip": 1.0, "log_every": 10**6}
        for name, case in cases.items()
    }


def run_grid(kept: Results, file: Path, runs: Path, jobs: int, deadline: float) -> None:
    """Train the grid by the program, a table each minute; what is not finished in time is saved and goes on later."""
    words = ["benchmark", str(file), "--out", str(runs), "--jobs", str(jobs)]
    started, grid = time.monotonic(), read(str(file))
    with (kept.out / "grid.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "logit_correction", *words], stdout=subprocess.DEVNULL, stderr=log
        )
    try:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                process.wait(timeout=min(60.0, max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                kept.add_grid(grid, runs, "so far", started)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=90)
    kept.add_grid(grid, runs, "" if process.returncode == 0 else "so far", started)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--runs", type=Path, help="folder of the grid's runs (default: OUT/runs)")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing later; the grid is stopped")
    parser.add_argument("--jobs", type=int, default=4, help="runs of the grid at a time")
    parser.add_argument("--steps", type=int, default=5000, help="steps of a run of the grid")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--columns", nargs="*", help="minority ratios in per cent, as the shipped grid names them")
    parser.add_argument("--training", default="{}", help="options of the grid's runs in YAML, over its own")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES), help="arithmetic of the part steps")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that are timed, and one before")
    parser.add_argument("--rows", type=int, help="training rows of the parts syncs and steps")
    parser.add_argument("--small", action="store_true", help="the embedded digits and a small network")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("error: torch sees no CUDA device here: give --device cpu --small to try the script")
    deadline = time.monotonic() + 60 * options.minutes
    name = torch.cuda.get_device_name() if options.device == "cuda" else "processor"
    chosen = {key: getattr(options, key) for key in ("small", "rows", "steps", "seeds", "epochs", "jobs", "training")}
    kept = Results(options.out, {"device": name, "torch": torch.__version__, **chosen})
    grid = make_grid(options, epochs=1)
    table = load_table(grid, options.rows)
    kept.measure("data", str(table.metadata["source"]), lambda: {"source": str(table.metadata["source"])})
    steps = -(-len(table.split["train"]) // grid["common"]["batch_size"])
    # The first of the modes of all rows, then the next: what matters most is there first.
    works: list[tuple[str, str, Any]] = []
    if "syncs" in options.parts:
        rows = table.split["train"][: 8 * grid["common"]["batch_size"]]
        few = replace(table, split={**table.split, "train": rows})
        for case, flat in sync_cases(grid["common"], grid["rows"]).items():
            works.append(("syncs", case, lambda flat=flat: check_syncs(few, flat, options.device)))
    if "steps" in options.parts:
        for mode in options.modes:
            for row in (ERM, GIVEN, PAPER):
                flat = merge(merge(grid["common"], grid["rows"][row]), MODES[mode])
                work = lambda flat=flat: time_steps(table, flat, options.epochs + 1, options.device)  # noqa: E731
                works.append(("steps", f"{row}; {mode}", work))
    for part, case, work in works:
        if time.monotonic() < deadline:
            kept.measure(part, case, work)
    if "grid" in options.parts and not kept.has("grid", "") and time.monotonic() < deadline:
        epochs = max(1, round(options.steps / steps))
        write_text(options.out / "grid.yaml", yaml.safe_dump(make_grid(options, epochs), sort_keys=False))
        run_grid(kept, options.out / "grid.yaml", options.runs or options.out / "runs", options.jobs, deadline)
    return int(kept.failed())


if __name__ == "__main__":
    sys.exit(main())
