"""On a GPU: at which lines does a training step wait for the device, and how long does it take?

    python lab/scripts/gpu.py --out gpu --minutes 28
    python lab/scripts/gpu.py --out gpu --small --device cpu --rows 300 --epochs 1    # tries the script without a GPU

The data and the network are those of the shipped grid table1-ccifar10 (Corrupted CIFAR-10, ResNet-18 with torchvision's
stem), or with ``--small`` the embedded digits and a small network. There are two parts:

- ``syncs``: every method is trained by the program's own loop, batches and augmentation on the device. Lists the lines
  at which a step waits for it (``torch.cuda.set_sync_debug_mode``), from the second to the last step of an epoch.
- ``steps``: milliseconds a step, seconds an epoch with validation, images a second and peak memory, in several kinds of
  arithmetic and compiled; ratios to two trainings of ERM. The attributes of LC are given: its step is the same with any
  estimates that do not change.

Each result is written at once (``results.jsonl``, ``results.md``); the same command continues where it was stopped.
``logit-correction benchmark`` trains whole runs on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
import yaml
from gpu_steps import check_waits, time_steps

from logit_correction.atomic_files import write_text_file
from logit_correction.data.augment import CropFlip
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.runs.options import complete_config, merge_options
from logit_correction.runs.write import describe_environment
from logit_correction_lab.grid import read_grid

Options: TypeAlias = dict[str, Any]

#: The row whose epochs are the floor.
ERM = "ERM"

#: Name of an arithmetic -> options of a run.
MODES: dict[str, Options] = {
    "float32": {},
    "graphs": {"compile": "reduce-overhead"},
    "bf16": {"precision": "bf16-mixed"},
    "bf16, graphs": {"precision": "bf16-mixed", "compile": "reduce-overhead"},
    "compiled": {"compile": True},
    "bf16, graphs, any kernel": {"precision": "bf16-mixed", "compile": "reduce-overhead", "deterministic": False},
}


class Results:
    """Results, a line of JSON each, in files that are complete after each result."""

    def __init__(self, out: Path, settings: dict[str, Any]) -> None:
        """Continue with the results of the folder ``out``, which must be of the same settings."""
        out.mkdir(parents=True, exist_ok=True)
        self.out = out
        self.file = out / "results.jsonl"
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else []
        self.results = {(result["part"], result["name"]): result for result in map(json.loads, lines)}
        self.settings = self.results.setdefault(("settings", ""), {"part": "settings", "name": "", **settings})
        if {name: self.settings.get(name) for name in settings} != settings:
            raise SystemExit(f"error: {self.file} has other settings ({self.settings}): give another --out")

    def add(self, part: str, name: str, measure: Callable[[], dict[str, Any]], commit: str | None) -> None:
        """Measure and write a result, unless it exists; an error is a result too, and is tried again.

        Args:
            part: ``syncs`` or ``steps``.
            name: What is measured.
            measure: Returns the result.
            commit: The commit of the source.
        """
        if "error" not in self.results.get((part, name), {"error": ""}):
            return
        try:
            values = measure()
        except Exception as error:  # so that the other measurements follow
            values = {"error": f"{type(error).__name__}: {error}"}
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        result = {"part": part, "name": name, **values, "time": stamp, "commit": commit}
        self.results[part, name] = result
        write_text_file(self.file, "".join(json.dumps(result) + "\n" for result in self.results.values()))
        write_text_file(self.out / "results.md", self.format_markdown(commit))
        print(json.dumps(result), flush=True)

    def format_markdown(self, commit: str | None) -> str:
        """Return the settings and all results as Markdown; ``commit`` is that of the newest."""
        settings = self.settings
        text = [f"Device: {settings['device']}; torch {settings['torch']}; commit {commit}; {settings['source']}."]
        text += ["", "| a step of | waits for the device |", "|---|---|"]
        for (part, name), result in self.results.items():
            if part == "syncs":
                waits = result.get("error") or result.get("skipped") or "; ".join(result["waits"]) or "nowhere"
                text.append(f"| {name} | {waits} |")
        columns = "ms a step | (least, most) | seconds an epoch | / two of ERM | images a second | peak MiB"
        text += ["", f"| | arithmetic | {columns} |", "|" + "---|" * 8]
        for (part, name), result in self.results.items():
            if part == "steps":
                text.append(self._format_times(*name.split("; "), result))
        return "\n".join(text) + "\n"

    def _format_times(self, row: str, mode: str, result: dict[str, Any]) -> str:
        if "error" in result:
            return f"| {row} | {mode} | {result['error'].splitlines()[0][:200]} |" + " |" * 5
        floor = 2 * self.results.get(("steps", f"{ERM}; {mode}"), {}).get("epoch_seconds", float("nan"))
        return (
            f"| {row} | {mode} | {result['ms']:.2f} | ({result['least']:.2f}, {result['most']:.2f}) | "
            f"{result['epoch_seconds']:.2f} | {result['epoch_seconds'] / floor:.2f} | "
            f"{result['images_per_second']:,.0f} | {result.get('peak_mib', 0):,.0f} |"
        )


def list_method_options() -> dict[str, Options]:
    """Return options of a run of every method, such that it also takes the steps that its defaults leave out."""
    options: dict[str, Options] = {name: {"method": {"name": name}} for name in METHODS}
    options["Reweighting"]["method"]["attributes"] = "Online"
    options["DFA"]["method"]["swap_from_epoch"] = 0.5
    options["JTT"]["method"]["up_weight"] = 2
    return options


def list_measurements(
    table: DataTable, common: Options, rows: dict[str, Options], num_epochs: int
) -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    """Yield part, name and function of each measurement, those of the first arithmetic before those of the next.

    Args:
        table: The data.
        common: Options of all runs.
        rows: Name -> options of the runs whose steps are timed.
        num_epochs: Epochs that are timed; one more goes first.
    """
    short_table = replace(table, split={**table.split, "train": table.split["train"][: 8 * common["batch_size"]]})
    for name, row in {**list_method_options(), **rows}.items():
        options = {**merge_options(common, row), "epochs": 2, "gradient_clip": 1.0, "log_every": 10**6}
        yield "syncs", name, partial(check_waits, short_table, options)
    for mode, mode_options in MODES.items():
        for name, row in rows.items():
            options = {**merge_options(merge_options(common, row), mode_options), "epochs": num_epochs + 1}
            yield "steps", f"{name}; {mode}", partial(time_steps, table, options)


def measure_on_device() -> int:
    """Measure what the command line asks for; return 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no measurement later")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that are timed; one more goes first")
    parser.add_argument("--rows", type=int, help="training rows; all by default")
    parser.add_argument("--small", action="store_true", help="the embedded digits and a small network")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("error: torch sees no CUDA device here: give --device cpu --small to try the script")
    deadline = time.monotonic() + 60 * options.minutes
    grid = yaml.safe_load(read_grid("table1-ccifar10").text)
    common = merge_options(merge_options(grid["common"], grid["columns"]["5"]), {"device": options.device})
    if options.small:
        small = {"data": {"name": "Digits"}, "network": {"name": "ConvNet"}, "batch_size": 64, "threads": 1}
        common = {**common, **small}
    rows = {
        ERM: grid["rows"][ERM],
        "LC, given attributes": {"method": {"name": "LC", "attributes": "TrueAttributes"}},
        "LC, preset paper": grid["rows"]["LC"],
    }
    table = complete_config({**common, "method": ERM}).data.make().build().check()
    split = {**table.split, "train": table.split["train"][: options.rows]}
    table = replace(table, split=split, augment=table.augment or CropFlip(padding=1))
    environment = describe_environment(torch.device(options.device))
    settings = {"device": environment["machine"], "torch": environment["torch"], "source": table.metadata["source"]}
    settings |= {name: getattr(options, name) for name in ("small", "rows", "epochs")}
    results = Results(options.out, settings)
    for part, name, measure in list_measurements(table, common, rows, options.epochs):
        if time.monotonic() < deadline:
            results.add(part, name, measure, environment["commit"])
    return int(any("error" in result for result in results.results.values()))


if __name__ == "__main__":
    sys.exit(measure_on_device())
