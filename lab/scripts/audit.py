"""How far an audit can be trusted: planted shortcuts and their controls, put beside the truth that it does not read.

    python lab/scripts/audit.py --out lab/results/audit [--seeds 1] [--sets cast corner ...]

For each set it says the verdict, whether the view that is named is the planted one, how many of the first 50 rows
conflict in truth, how often the interval of the accuracy on conflicting rows holds the truth in 100 resamplings of the
rows, and what a label budget of 100 rows gives beside 100 rows labelled at random: width and coverage of the interval,
in 100 draws. A set that is finished is not run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from logit_correction.shortcuts.budget import Population, allocation, drawn, group_accuracies

from logit_correction import audit
from logit_correction.files import replacing
from logit_correction.functional import wilson_interval
from logit_correction.shortcuts.cost import cost
from logit_correction_lab.sources.planted import Planted

#: Planted set -> families of views that see what was planted.
PLANTED = {
    "cast": {"colour"},
    "corner": {"places"},
    "frame": {"border"},
    "blur": {"spectrum", "texture"},
    "noise": {"texture", "spectrum"},
    "jpeg": {"texture", "spectrum"},
    "texture": {"stripes", "texture"},
    "light": {"light", "thumbnail"},
    "digits": {"colour"},
    "mnist": {"colour"},
    "signature": {"word", "closing", "characters", "form"},
    "topic": {"word", "characters"},
    "column": {"column"},
    "scanner": {"column"},
}

RESAMPLINGS, BUDGET, FIRST, LEVEL = 100, 100, 50, 0.9


def measured(name: str, control: bool, seed: int) -> dict[str, Any]:
    """Audit one set and put it beside the truth."""
    data = {"name": "Planted", "set": name, "control": control, "seed": seed}
    found = audit(data, seed=seed, device="cpu", threads=1, try_fix=False, progress=True)
    entry: dict[str, Any] = {"set": name, "control": control, "seed": seed, "verdict": found.verdict}
    entry |= {"views": found.views, "seconds": found.summary["seconds"], "sentence": found.summary["sentence"]}
    if found.verdict != "shortcut":
        return entry
    table = Planted(set=name, control=control, seed=seed).build()
    rows = found.rows
    place = torch.tensor(rows["row"].to_numpy(dtype=np.int64))
    conflicts = (table.attribute[place] != table.label[place]).numpy()
    right = (rows["network_label"] == rows["label"]).to_numpy()
    truth = float(right[conflicts].mean())
    taken = rows[rows["conflicting"].eq(True)].sort_values("score", ascending=False, kind="stable").index.to_numpy()
    entry |= {
        "named": {view.partition(":")[0] for view in found.views} <= PLANTED[name],
        "taken": len(taken),
        "precision": float(conflicts[taken].mean()),
        "recall": float(conflicts[taken].sum() / conflicts.sum()),
        "precision_first": float(conflicts[taken[:FIRST]].mean()),
        "conflicting": int(conflicts.sum()),
        "truth": truth,
        "interval": [found.summary["cost"]["network"]["conflicting"][end] for end in ("low", "accuracy", "high")],
    }
    generator = np.random.default_rng(seed)
    covers = []
    for _ in range(RESAMPLINGS):
        drawn_rows = rows.iloc[generator.integers(0, len(rows), len(rows))]
        interval = cost(drawn_rows)["network"]["conflicting"]
        covers.append(interval["low"] <= truth <= interval["high"])
    return entry | {"coverage": float(np.mean(covers)), "budget": budget(rows, table, conflicts, right, generator)}


def budget(
    rows: pd.DataFrame, table: Any, conflicts: np.ndarray, right: np.ndarray, generator: np.random.Generator
) -> dict[str, float]:
    """Return mean width and coverage of the interval of the accuracy on conflicting rows: by a sheet, and at random."""
    population, truth = Population.of(rows, list(table.label_names)), float(right[conflicts].mean())
    given = allocation(population, BUDGET)
    widths: dict[str, list[float]] = {"sheet": [], "random": []}
    covered: dict[str, list[bool]] = {"sheet": [], "random": []}
    for turn in range(RESAMPLINGS):
        places = drawn(population, given, generator)
        group = group_accuracies(population, places, conflicts[places], turn)["groups"][1]
        some = generator.permutation(len(rows))[:BUDGET]
        some = some[conflicts[some]]
        low, high = (float(end) for end in wilson_interval(float(right[some].sum()), len(some), LEVEL))
        for how, ends in (("sheet", (group["low"], group["high"])), ("random", (low, high))):
            widths[how].append(ends[1] - ends[0])
            covered[how].append(ends[0] - 1e-9 <= truth <= ends[1] + 1e-9)
    return {f"{how}_{what}": float(np.mean(values[how])) for how in widths for what, values in
            (("width", widths), ("coverage", covered))}  # fmt: skip


def table_of(entries: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "| set | verdict | view | taken (truly conflicting) | recall / precision | first 50 right | right on "
        "conflicting rows: audit / truth | coverage | 100 labels: width by sheet / at random | coverage |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for e in entries:
        seed = f", seed {e['seed']}" if e["seed"] else ""
        name = f"{e['set']}{', control' if e['control'] else ''}{seed}"
        if "truth" not in e:
            lines.append(f"| {name} | {e['verdict']} | | | | | | | | |")
            continue
        low, value, high = (100 * end for end in e["interval"])
        b = e["budget"]
        cells = [
            name,
            e["verdict"],
            ", ".join(e["views"]) + ("" if e["named"] else " (another one)"),
            f"{e['taken']} ({e['conflicting']})",
            f"{e['recall']:.2f} / {e['precision']:.2f}",
            f"{e['precision_first']:.2f}",
            f"{value:.0f} ({low:.0f}–{high:.0f}) / {100 * e['truth']:.0f}",
            f"{100 * e['coverage']:.0f}",
            f"{b['sheet_width']:.2f} / {b['random_width']:.2f}",
            f"{100 * b['sheet_coverage']:.0f} / {100 * b['random_coverage']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is not measured yet, and write ``audit.json`` and ``audit.md``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sets", nargs="+", choices=sorted(PLANTED), default=list(PLANTED))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "audit.json"
    entries = json.loads(file.read_text())["sets"] if file.is_file() else []
    done = {(e["set"], e["control"], e["seed"]) for e in entries}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    for seed in range(options.seeds):
        for control in (False, True):
            for name in options.sets:
                if (name, control, seed) in done:
                    continue
                entries.append(measured(name, control, seed) | {"commit": commit.stdout.strip()})
                with replacing(file) as temporary:
                    temporary.write_text(json.dumps({"machine": platform.machine(), "sets": entries}, indent=1) + "\n")
                with replacing(options.out / "audit.md") as temporary:
                    temporary.write_text(table_of(entries))
    print(table_of(entries))


if __name__ == "__main__":
    main()
