"""How time and memory grow with rows, labels and attribute values: measured slopes beside the expected ones.

    python lab/scripts/growth.py --out growth                      # growth.json and growth.png
    python lab/scripts/growth.py --rows 1000000 --parts rows       # the whole of `train` on a table alone

Processor seconds, so that other jobs on the machine hardly matter. Rows: `logit-correction train` on a CSV of 8
columns, one epoch, in a process of its own; what 1,000 rows take, nearly all of it start, is taken off. Labels and
attribute values: the parts of a step that see them, and the report by group of 20,000 rows. A slope is that of log
seconds over log size, by least squares over the three largest sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from logit_correction import Correlation, GroupPrior, GroupReport, Predictions
from logit_correction.functional import logit_corrected_cross_entropy
from logit_correction.methods.parts import GroupMixUp, Mixable
from logit_correction.types import Batch

BATCH, REPORTED, LEAST_ROWS = 256, 20_000, 1_000
LABELS, VALUES, OTHER = (10, 100, 500, 1000, 2000), (10, 100, 250, 500, 1000), 100
#: Part -> the slopes in labels and in attribute values that its work has, where it is all work.
EXPECTED = {
    "prior update": (1, 1),
    "correction": (1, 0),
    "mixing": (1, 0),
    "mixing, product": (1, "0 to 1"),  # labels x rows of the batch, and the table once
    "report by group": (1, "0 to 1"),  # labels sort all rows once each; groups without rows are lines of a table
}


def write_table(file: Path, rows: int) -> None:
    """Write a CSV of 8 columns, one of which goes with the label in 19 rows of 20."""
    random = np.random.default_rng(0)
    label = random.integers(0, 2, rows)
    values = random.standard_normal((rows, 8)).astype(np.float32)
    values[:, 0] += label
    values[:, 1] += 3 * np.where(random.random(rows) < 0.05, 1 - label, label)
    header = ",".join([*(f"x{i}" for i in range(8)), "label"])
    np.savetxt(file, np.column_stack([values, label]), "%.6g", ",", header=header, comments="")


def whole_run(file: Path, method: str, out: Path) -> dict[str, float]:
    """Train for an epoch; return processor seconds, seconds and the most memory, in GB."""
    words = f"train --data Table --data.file {file} --data.label label --data.features * --method {method} --epochs 1"
    command = [sys.executable, "-m", "logit_correction", *words.split(), "--threads", "1", "--out", str(out)]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    memory = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    return {
        "processor_seconds": used.ru_utime + used.ru_stime,
        "seconds": time.monotonic() - started,
        "memory_gb": memory,
    }


def by_rows(sizes: list[int]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of whole runs, method -> rows -> figure."""
    found: dict[str, dict[str, dict[str, float]]] = {"ERM": {}, "LC": {}}
    with tempfile.TemporaryDirectory() as folder:
        for rows in [LEAST_ROWS, *sizes]:
            file = Path(folder) / f"{rows}.csv"
            write_table(file, rows)
            for method, figures in found.items():
                figures[str(rows)] = whole_run(file, method, Path(folder) / f"{method}-{rows}")
                print(f"{method}, {rows:,} rows: {figures[str(rows)]}", file=sys.stderr, flush=True)
            file.unlink()
    return found


def seconds_of(function: Callable[[], object], least: float = 0.3) -> float:
    """Return the median processor seconds of a call, over calls of ``least`` seconds together, three at least."""
    function()
    taken: list[float] = []
    while sum(taken) < least or len(taken) < 3:
        started = time.process_time()
        function()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def parts_of_a_step(labels: int, values: int) -> dict[str, Callable[[], object]]:
    """Return what is to be timed with so many labels and attribute values."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(labels, (BATCH,), generator=generator)
    attribute = torch.randint(values, (BATCH,), generator=generator)
    posterior = torch.rand(BATCH, values, generator=generator)
    logits = torch.randn(BATCH, labels, generator=generator)
    prior = GroupPrior(labels, values, estimator="joint")
    correlation = Correlation.from_table([[y % values] for y in range(labels)], values)
    given = Mixable(Batch(logits, label, torch.arange(BATCH)), attribute, prior, correlation, 2.0, generator)
    report = Predictions(
        index=np.arange(REPORTED),
        label=np.arange(REPORTED) % labels,
        attribute=np.arange(REPORTED) // labels % values,
        logits=torch.randn(REPORTED, 2, generator=generator).repeat(1, -(-labels // 2))[:, :labels],
        label_names=[f"label {y}" for y in range(labels)],
        attribute_names=[f"value {a}" for a in range(values)],
    )
    network = torch.nn.Identity()
    return {
        "prior update": lambda: prior.update(label, posterior),
        "correction": lambda: logit_corrected_cross_entropy(logits, label, prior.log(prior.for_attribute(attribute))),
        "mixing": lambda: GroupMixUp()(network, given),
        "mixing, product": lambda: GroupMixUp(prior="product")(network, given),
        "report by group": lambda: GroupReport.from_predictions(report, correlation),
    }


def by_size(sizes: tuple[int, ...], of_labels: bool) -> dict[str, dict[str, float]]:
    """Return processor seconds, part -> size -> seconds, where the other size is ``OTHER``."""
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        parts = parts_of_a_step(size, OTHER) if of_labels else parts_of_a_step(OTHER, size)
        for name, function in parts.items():
            found.setdefault(name, {})[str(size)] = seconds_of(function)
        print(f"{'L' if of_labels else 'K'} = {size}", file=sys.stderr, flush=True)
    return found


def slope(seconds: dict[str, float]) -> float:
    """Return the slope of log seconds over log size, over the three largest sizes."""
    points = [(float(size), value) for size, value in seconds.items() if value > 0][-3:]
    return float(np.polyfit(*np.log(points).T, 1)[0]) if len(points) > 1 else float("nan")


def beyond_start(figures: dict[str, dict[str, float]], name: str) -> dict[str, float]:
    """Return a figure of whole runs less that of the smallest."""
    start = figures[str(LEAST_ROWS)][name]
    return {size: one[name] - start for size, one in figures.items() if size != str(LEAST_ROWS)}


def draw(found: dict[str, dict[str, dict[str, float]]], file: Path) -> None:
    """Draw a panel for each size."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(4.2 * len(found), 4.6), squeeze=False)
    for panel, (title, lines) in zip(axes[0], found.items(), strict=True):
        for name, seconds in lines.items():
            x, y = [int(size) for size in seconds], list(seconds.values())
            panel.loglog(x, y, marker="o", markersize=3, label=f"{name}: {slope(seconds):.2f}")
        panel.set_xlabel(title)
        panel.grid(True, which="major", linewidth=0.4)
        legend = {"fontsize": 7, "title": "slope at the end", "title_fontsize": 7, "frameon": False, "ncols": 2}
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), **legend)
    axes[0][0].set_ylabel("processor seconds (memory: GB)")
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> None:
    """Measure, print the slopes, and write the values and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--parts", nargs="+", choices=("rows", "labels", "values"), default=["rows", "labels", "values"]
    )
    parser.add_argument("--out", type=Path, default=Path("growth"), help="of the two files, without their suffix")
    parser.add_argument("--given", type=Path, nargs="*", default=[], help="files of before: parts not to measure again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, dict[str, object]]] = {}
    for file in options.given:
        found |= json.loads(file.read_text())
    measure = {"rows": lambda: by_rows(options.rows), "labels": lambda: by_size(LABELS, True)}
    measure["values"] = lambda: by_size(VALUES, False)
    for part in options.parts:
        if part not in found:
            found[part] = measure[part]()
    options.out.with_suffix(".json").write_text(json.dumps(found, indent=1))
    panels = {}
    titles = {"labels": f"labels L, K = {OTHER}", "values": f"attribute values K, L = {OTHER}"}
    for part, lines in sorted(found.items(), key=lambda one: ("rows", "labels", "values").index(one[0])):
        if part == "rows":
            panels["rows N, beyond the start"] = {
                f"{method}, {name}": beyond_start(figures, figure)
                for method, figures in lines.items()
                for name, figure in (("an epoch", "processor_seconds"), ("memory, GB", "memory_gb"))
            }
            expected = dict.fromkeys(panels["rows N, beyond the start"], "1")
        else:
            panels[titles[part]] = lines
            expected = {name: str(slopes[part == "values"]) for name, slopes in EXPECTED.items()}
        for name, seconds in list(panels.values())[-1].items():
            print(f"| {part} | {name} | {slope(seconds):.2f} | {expected[name]} |")
    draw(panels, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
