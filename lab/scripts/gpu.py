"""On a GPU: whether a training step waits for the device, and what it takes.

    python lab/scripts/gpu.py --out gpu --minutes 28

on Corrupted CIFAR-10 with ResNet-18 and torchvision's stem, as the shipped grid table1-ccifar10 has it:

- ``syncs``: every method is trained by the program's own loop, batches and augmentation on the device, and the places
  are listed at which a step waits for it (``torch.cuda.set_sync_debug_mode``), from an epoch's second step to its last.
- ``steps``: milliseconds a step, seconds an epoch with validation, images a second and peak memory, in other arithmetic
  and compiled; ratios to two trainings of ERM. LC has given attributes, whose step is that of any settled estimates.

Each result is written when it is there (``results.jsonl``, ``results.md``); the same command goes on where it was cut
off. ``--small --device cpu`` walks through all of it on the embedded digits. Whole runs on a GPU are the work of
``logit-correction benchmark``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from gpu_steps import check_syncs, time_steps

from logit_correction.atomic_files import write_text_file
from logit_correction.data.augment import CropFlip
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.runs.options import complete_config, merge_options
from logit_correction_lab.grid import read_grid

PARTS = ("syncs", "steps")
ERM, PAPER, GIVEN = "ERM", "LC, preset paper", "LC, given attributes"
MODES: dict[str, dict[str, Any]] = {
    "float32": {},
    "graphs": {"compile": "reduce-overhead"},
    "bf16": {"precision": "bf16-mixed"},
    "bf16, graphs": {"precision": "bf16-mixed", "compile": "reduce-overhead"},
    "compiled": {"compile": True},
    "bf16, graphs, any kernel": {"precision": "bf16-mixed", "compile": "reduce-overhead", "deterministic": False},
}


class Results:
    """What has been measured, one line of JSON each, in files that are complete after each result."""

    def __init__(self, out: Path, settings: dict[str, Any]) -> None:
        """Go on with the results of a folder; a call of other settings is refused."""
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.file = out, out / "results.jsonl"
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else []
        self.lines: dict[tuple[str, str], dict[str, Any]] = {}
        for line in map(json.loads, lines):
            self.lines[line["part"], line["name"]] = line
        first = self.lines.setdefault(("settings", ""), {"part": "settings", "name": "", **settings})
        if {name: first.get(name) for name in settings} != settings:
            raise SystemExit(f"error: {self.file} is of other settings ({first}): give another --out")

    def measure(self, part: str, name: str, work: Callable[[], dict[str, Any]]) -> None:
        """Do some work, unless its result is there; an error is a result too, and is tried again."""
        if "error" in self.lines.get((part, name), {"error": ""}):
            try:
                found = work()
            except Exception as error:  # the other parts shall go on
                found = {"error": f"{type(error).__name__}: {error}"}
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = {"part": part, "name": name, **found, "time": stamp, "commit": commit()}
            self.lines[part, name] = line
            write_text_file(self.file, "".join(json.dumps(one) + "\n" for one in self.lines.values()))
            write_text_file(self.out / "results.md", self.page())
            print(json.dumps(line), flush=True)

    def page(self) -> str:
        """Return all of it as Markdown."""
        first, *rest = self.lines.values()
        text = [f"Device: {first['device']}; torch {first['torch']}; commit {rest[-1]['commit']}; {first['source']}."]
        text += ["", "| a step of | waits for the device |", "|---|---|"]
        for line in rest:
            if line["part"] == "syncs":
                places = line.get("error") or line.get("skipped") or "; ".join(line["waits"]) or "nowhere"
                text.append(f"| {line['name']} | {places} |")
        columns = "ms a step | (least, most) | seconds an epoch | / two of ERM | images a second | peak MiB"
        text += ["", f"| | arithmetic | {columns} |", "|" + "---|" * 8]
        for line in rest:
            row, _, mode = line["name"].partition("; ")
            floor = 2 * self.lines.get(("steps", f"{ERM}; {mode}"), {}).get("epoch_seconds", float("nan"))
            if line["part"] == "steps" and "error" not in line:
                text.append(
                    f"| {row} | {mode} | {line['ms']:.2f} | ({line['least']:.2f}, {line['most']:.2f}) | "
                    f"{line['epoch_seconds']:.2f} | {line['epoch_seconds'] / floor:.2f} | "
                    f"{line['images_per_second']:,.0f} | {line.get('peak_mib', 0):,.0f} |"
                )
            elif line["part"] == "steps":
                text.append(f"| {row} | {mode} | {line['error'].splitlines()[0][:200]} |" + " |" * 5)
        return "\n".join(text) + "\n"


def commit() -> str:
    """The commit that is checked out here."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def load_table(common: dict[str, Any], rows: int | None) -> DataTable:
    """The data, of which so many training rows; images that change each time."""
    table = complete_config({**common, "method": ERM}).data.make().build().check()
    split = {**table.split, "train": table.split["train"][:rows]}
    return replace(table, split=split, augment=table.augment or CropFlip(padding=1))


def sync_cases(rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every method, and LC with what its default has no step of."""
    cases: dict[str, dict[str, Any]] = {name: {"method": {"name": name}} for name in METHODS}
    cases["Reweighting"] = {"method": {"name": "Reweighting", "attributes": "Online"}}
    cases["DFA"]["method"]["swap_from_epoch"] = 0.5
    cases["JTT"]["method"]["up_weight"] = 2
    return cases | {PAPER: rows[PAPER], GIVEN: rows[GIVEN]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing later")
    parser.add_argument("--training", default="{}", help="options of the trainings in YAML, over the grid's own")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES), help="arithmetic of the part steps")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that are timed, and one before")
    parser.add_argument("--rows", type=int, help="training rows")
    parser.add_argument("--small", action="store_true", help="the embedded digits and a small network")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("error: torch sees no CUDA device here: give --device cpu --small to try the script")
    deadline = time.monotonic() + 60 * options.minutes
    grid = yaml.safe_load(read_grid("table1-ccifar10").text)
    common = merge_options(merge_options(grid["common"], grid["columns"]["5"]), {"device": options.device})
    common = merge_options(common, yaml.safe_load(options.training))
    if options.small:
        common |= {"data": {"name": "Digits"}, "network": {"name": "ConvNet"}, "batch_size": 64, "threads": 1}
    given = {"method": {"name": "LC", "attributes": "TrueAttributes"}}
    rows = {ERM: grid["rows"][ERM], GIVEN: given, PAPER: grid["rows"]["LC"]}
    table = load_table(common, options.rows)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "processor"
    chosen = {key: getattr(options, key) for key in ("small", "rows", "epochs", "training")}
    source = str(table.metadata["source"])
    kept = Results(options.out, {"device": name, "torch": torch.__version__, "source": source, **chosen})
    works: list[tuple[str, str, Callable[[], dict[str, Any]]]] = []
    if "syncs" in options.parts:
        few = replace(table, split={**table.split, "train": table.split["train"][: 8 * common["batch_size"]]})
        for case, own in sync_cases(rows).items():
            flat = merge_options(common, own) | {"epochs": 2, "gradient_clip": 1.0, "log_every": 10**6}
            works.append(("syncs", case, lambda flat=flat: check_syncs(few, flat, options.device)))
    if "steps" in options.parts:  # all rows of the first mode, then of the next: what matters most is there first
        for mode in options.modes:
            for row, own in rows.items():
                flat = merge_options(merge_options(common, own), MODES[mode])
                work = lambda flat=flat: time_steps(table, flat, options.epochs + 1, options.device)  # noqa: E731
                works.append(("steps", f"{row}; {mode}", work))
    for part, case, work in works:
        if time.monotonic() < deadline:
            kept.measure(part, case, work)
    return int(any("error" in line for line in kept.lines.values()))


if __name__ == "__main__":
    sys.exit(main())
