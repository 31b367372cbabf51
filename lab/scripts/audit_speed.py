"""How much longer does an audit with new rows take than in another checkout, and how fast does its fix predict?

    git worktree add --detach BASE 512cce61   # the last commit before averages and corrections
    python lab/scripts/audit_speed.py WORK --base BASE/src

Writes a table, photos and texts into WORK, each with a shortcut and new rows without it, and audits them in turn with
the package of this checkout and that of BASE, with empty caches, in processor seconds. Then trains ERM and an average
of three members on 1,280 features, like a fix on frozen features, and times the predictions of both in turn.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from logit_correction import from_arrays, train
from logit_correction.data import digits
from logit_correction_lab.sources.planted import Planted

#: Rows of the data.
ROWS = 2000

#: New rows.
NEW_ROWS = 500


def write_table(folder: Path) -> list[str]:
    """Write a table of ten columns, with `site` as a shortcut; return the options of the audit."""
    generator = np.random.default_rng(0)
    for name, rows, agreement in (("data", ROWS, 0.95), ("new", NEW_ROWS, 0.5)):
        label = generator.integers(2, size=rows)
        site = np.where(generator.random(rows) < agreement, label, 1 - label)
        values = generator.normal(size=(rows, 8)) + 0.4 * label[:, None]
        frame = pd.DataFrame(values.round(3), columns=[f"measure {number}" for number in range(8)])
        frame["site"] = np.array(["north", "south"])[site]
        frame["age"] = generator.integers(20, 80, rows)
        frame.assign(outcome=np.array(["ill", "well"])[label]).to_csv(folder / f"{name}.csv", index=False)
    return ["--data", "data.csv", "--data.label", "outcome", "--new-rows", "new.csv"]


def write_photos(folder: Path) -> list[str]:
    """Write digits below and from 5 on, whose background is a shortcut; return the options of the audit."""
    generator = np.random.default_rng(0)
    images, labels = digits.load_small_digits()
    order = generator.permutation(len(labels))
    start = 0
    for name, rows, agreement in (("data", ROWS // 4, 0.95), ("new", NEW_ROWS // 2, 0.5)):
        for row in order[start : start + rows]:
            label = int(labels[row] >= 5)
            is_red = label if generator.random() < agreement else 1 - label
            pixels = np.asarray(Image.fromarray(images[row].numpy()).resize((28, 28)))
            background = np.where(pixels < 128, 80 * is_red, 0)
            picture = np.stack([np.maximum(pixels, background), pixels, pixels], axis=2)
            file = folder / name / ("low", "high")[label] / f"{row}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.uint8(picture)).save(file)
        start += rows
    return ["--data", "data", "--new-rows", "new", "--epochs", "20"]


def write_texts(folder: Path) -> list[str]:
    """Write texts whose signature is a shortcut; return the options of the audit."""
    table = Planted("signature", seed=0).build()
    assert table.texts is not None
    for name, split, rows in (("data", "train", ROWS), ("new", "test", NEW_ROWS)):
        chosen = table.split[split][:rows].tolist()
        lines = {"text": [table.texts[row] for row in chosen], "label": table.label[chosen].tolist()}
        pd.DataFrame(lines).to_csv(folder / f"{name}.csv", index=False)
    return ["--data", "data.csv", "--data.label", "label", "--data.text", "text", "--new-rows", "new.csv"]


WRITERS = {"table": write_table, "photos": write_photos, "texts": write_texts}


def time_audit(folder: Path, options: list[str], package: Path) -> float:
    """Return the processor seconds of an audit and its workers.

    Args:
        folder: Folder of the data, into which the audit is written.
        options: Options of the audit.
        package: Folder that holds the package.
    """
    out = folder / "audit"
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(package), "LOGIT_CORRECTION_CACHE": str(folder / "cache")}
    command = [sys.executable, "-W", "ignore", "-m", "logit_correction", "audit", *options, "--ask", "20"]
    process = subprocess.Popen(
        [*command, "--out", str(out)], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"the audit of {folder} with {package} has failed")
    return usage.ru_utime + usage.ru_stime


def time_predictions(times: int) -> float:
    """Return how much longer an average of linear members predicts 4,000 rows of 1,280 features than ERM does."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(4000, 1280)).astype(np.float32)
    label = (rows[:, 0] > 0).astype(int)
    members = [
        {"name": "LC by Online", "weight": 0.5, "method": {"name": "LC", "attributes": "Online"}},
        {"name": "LC by XRM", "weight": 0.3, "method": {"name": "LC", "attributes": "XRM"}},
        {"name": "ERM", "weight": 0.2, "method": {"name": "ERM"}},
    ]
    options: dict[str, Any] = {"network": "Linear", "epochs": 1, "threads": 1, "page": False}
    fix, erm = (
        train(from_arrays(rows, label), method=method, **options)
        for method in ({"name": "Average", "members": members}, "ERM")
    )
    ratios = []
    for _ in range(times):
        seconds = []
        for run in (fix, erm):
            started = time.process_time()
            run.predict(rows)
            seconds.append(time.process_time() - started)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def compare_speed() -> None:
    """Time all audits, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--base", type=Path, required=True, help="folder of the other package")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=list(WRITERS))
    options = parser.parse_args()
    package = Path(__file__).parents[2] / "src"
    for name in options.sets:
        folder = options.work.resolve() / name
        folder.mkdir(parents=True, exist_ok=True)
        audit_options = WRITERS[name](folder)
        seconds: dict[str, list[float]] = {"now": [], "base": []}
        for _ in range(options.times):
            seconds["base"].append(time_audit(folder, audit_options, options.base.resolve()))
            seconds["now"].append(time_audit(folder, audit_options, package))
        ratios = [now / base for now, base in zip(seconds["now"], seconds["base"], strict=True)]
        print(f"{name}: {statistics.median(ratios):.2f}", {key: np.round(values, 1) for key, values in seconds.items()})
    print(f"prediction of a fix over ERM: {time_predictions(10 * options.times):.2f}")


if __name__ == "__main__":
    compare_speed()
