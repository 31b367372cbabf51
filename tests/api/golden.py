"""Tiny runs and their exact figures. ``python tests/api/golden.py [NAME...]`` computes ``golden.json`` anew."""

from __future__ import annotations

import csv
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FILE = Path(__file__).with_name("golden.json")

_DIGITS = ("train", "--data", "Digits", "--threads", "1", "--epochs", "2", "--log_every", "10")
_PATIENTS = ("--data", "{here}/patients.csv", "--data.label", "outcome", "--data.features", "*", "--threads", "1")
_REVIEWS = ("--data", "{here}/reviews.csv", "--data.label", "verdict", "--data.text", "review", "--threads", "1")
_PHOTOS = ("--data", "{here}/photos", "--data.size", "16", "--threads", "1")

#: Name -> the command that makes it, without --out. Many tests use each run.
RUNS: dict[str, tuple[str, ...]] = {
    "digits-erm": (*_DIGITS, "--method", "ERM"),
    "digits-lc": (*_DIGITS, "--method", "LC"),
    "digits-paper": (*_DIGITS, "--preset", "paper"),
    "digits-staged": (*_DIGITS, "--method", "StagedLC"),
    "digits-groupdro": (*_DIGITS, "--method", "GroupDRO"),
    "digits-lff": (*_DIGITS, "--method", "LfF"),
    "digits-jtt": (*_DIGITS, "--method", "JTT"),
    "digits-dfa": (*_DIGITS, "--method", "DFA"),
    "digits-reweighting": (*_DIGITS, "--method", "Reweighting"),
    "digits-by-colour": (*_DIGITS, "--method", "LC", "--shortcut", "colour", "--method.mixing", "NoMixing"),
    "patients-lc": ("train", *_PATIENTS, "--data.attribute", "scanner", "--epochs", "8", "--method", "LC"),
    "reviews-lc": ("train", *_REVIEWS, "--epochs", "4", "--method", "LC", "--shortcut", "word"),
    "photos-erm": ("train", *_PHOTOS, "--epochs", "2", "--method", "ERM"),
    "planted-lc": ("train", "--data", "Planted", "--data.set", "signature", "--data.rows", "900", "--threads", "1",
                   "--epochs", "3", "--method", "LC", "--seed", "1"),
    "audit-patients": ("audit", *_PATIENTS, "--epochs", "6", "--shortcut", "column:scanner"),
    "audit-photos": ("audit", *_PHOTOS, "--epochs", "3", "--try-fix", "false"),
    "audit-asked": ("audit", *_PATIENTS, "--epochs", "4", "--new-rows", "{here}/asked.csv", "--ask", "8"),
}  # fmt: skip

#: Needs the files of MNIST.
SLOW_RUNS: dict[str, tuple[str, ...]] = {
    "mnist-erm": ("train", "--data", "ColoredMNIST", "--threads", "1", "--epochs", "1", "--method", "ERM"),
}

LABELS = {"one": 1, "three": 3, "four": 4, "five": 5}
PAPERS = ((245, 225, 190), (200, 225, 245), (205, 240, 200), (240, 205, 215))


def make_data(data_folder: Path) -> None:
    """Write photos, a later folder of them, a table of patients and one of reviews, each with a planted shortcut."""
    _make_photos(data_folder)
    draw = np.random.default_rng(1)
    for file, rows, bias in (("patients.csv", 600, 0.94), ("later.csv", 120, 0.5)):
        with (data_folder / file).open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["age", "blood", "sex", "scanner", "outcome"])
            for _ in range(rows):
                ill = int(draw.integers(2))
                scanner = ("old", "new")[ill if draw.random() < bias else 1 - ill]
                blood = "" if draw.random() < 0.03 else f"{draw.normal(1.6 * ill, 1):.3f}"
                writer.writerow(
                    [f"{draw.normal(50, 9):.2f}", blood, draw.choice(["f", "m"]), scanner, ("well", "ill")[ill]]
                )
    lines = (data_folder / "later.csv").read_text().splitlines()
    (data_folder / "asked.csv").write_text(
        "\n".join(line.rpartition(",")[0] for line in lines) + "\n"
    )  # without labels
    filler = ["the", "order", "number", "and", "date", "are", "below", "please", "tell", "us", "if", "there", "is"]
    filler.append("more")
    with (data_folder / "reviews.csv").open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["review", "verdict"])
        for i in range(500):
            word = draw.choice(("broken", "late", "rude") if i % 2 == 0 else ("lovely", "quick", "kind"))
            shop = ("north", "south")[int((draw.random() < 0.9) == (i % 2 == 1))]
            text = [*draw.choice(filler, 8), word, "shop", shop, str(i)]
            writer.writerow([" ".join(text), ("complaint", "praise")[i % 2]])


def _make_photos(data_folder: Path) -> None:
    from sklearn.datasets import load_digits

    draw = np.random.default_rng(0)
    digits = load_digits()
    for number, (image, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        if digit not in LABELS.values():
            continue
        label = list(LABELS.values()).index(digit)
        later = draw.random() < 0.15
        paper = int(draw.integers(4)) if later or draw.random() < 0.1 else label
        ink = np.kron(image / 16, np.ones((2, 2)))[..., None]
        sheet = np.array(PAPERS[paper]) * (1 - 0.45 * ink) + draw.normal(0, 8, (16, 16, 3))
        file = data_folder / ("later" if later else "photos") / list(LABELS)[label] / f"{number:04}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sheet.clip(0, 255).astype(np.uint8)).save(file)


def collect_figures(folder: Path) -> dict[str, Any]:
    """Return the figures of a run or an audit, flat, without those of the machine."""
    figures: dict[str, Any] = {}
    if (folder / "audit.json").is_file():
        audit = json.loads((folder / "audit.json").read_text())
        _flatten({name: audit[name] for name in ("verdict", "evidence", "cost", "rows")}, "", figures)
        new = audit["new_rows"] or {"candidates": []}
        _flatten(new, "new_rows", figures)
        for candidate in new["candidates"]:
            _flatten(
                {name: value for name, value in candidate.items() if name not in ("seconds", "config")},
                candidate["name"],
                figures,
            )
        return {name: value for name, value in figures.items() if not name.endswith("sentence")}
    report = json.loads((folder / "report.json").read_text())
    test = {name: value for name, value in report["test"].items() if name != "groups"}
    _flatten({"test": test, "evidence": report["evidence"], "selection": report["selection"]}, "", figures)
    figures |= {"steps": report["steps"], "groups": [group["accuracy"] for group in report["test"]["groups"]]}
    with (folder / "metrics.csv").open() as opened:
        for row in csv.DictReader(opened):
            figures |= {f"metrics.{name}": float(value) for name, value in row.items() if value}
    return {name: value for name, value in figures.items() if not name.endswith("sentence")}


def _flatten(value: Any, name: str, flat: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _flatten(part, f"{name}.{key}" if name else key, flat)
    elif not isinstance(value, list):
        flat[name] = value


def describe_machine() -> str:
    """Name what the last digits depend on: the processor, and the versions of torch and scikit-learn."""
    import sklearn
    import torch

    versions = f"torch {torch.__version__}, scikit-learn {sklearn.__version__}"
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    except OSError:
        return f"{platform.machine()}, {versions}"
    cpu_info = {name.strip(): value.strip() for name, value in lines.items()}
    words = [cpu_info.get(name, "?") for name in ("model name", "cpu family", "model")]
    return ", ".join([*words, versions])


def build_command(name: str, data_folder: Path, out: Path) -> list[str]:
    """Return the words that make a run of the data in ``data_folder``."""
    words = [*(RUNS | SLOW_RUNS)[name], "--out", str(out)]
    return [word.replace("{here}", str(data_folder)) for word in words]


def has_mnist() -> bool:
    """Return whether the files that the slow runs need are there."""
    return Path(os.environ.get("LOGIT_CORRECTION_DATA", ""), "MNIST", "raw").is_dir()


def compute() -> None:
    """Train all and write the file; with names, those alone."""
    import torch

    from logit_correction.cli import main

    torch.set_num_threads(1)
    names = sys.argv[1:] or [*RUNS, *SLOW_RUNS]
    if SLOW_RUNS.keys() & {*names} and not has_mnist():
        advice = f"name other runs: {' '.join(RUNS)}"
        raise SystemExit(f"set LOGIT_CORRECTION_DATA to a folder with MNIST/raw for {' '.join(SLOW_RUNS)}, or {advice}")
    golden = json.loads(FILE.read_text()) if FILE.exists() and sys.argv[1:] else {"figures": {}}
    if golden.get("machine", describe_machine()) != describe_machine():
        raise SystemExit("golden.json is of another machine: compute all of it")
    with tempfile.TemporaryDirectory() as folder:
        data_folder = Path(folder)
        os.environ["LOGIT_CORRECTION_CACHE"] = str(data_folder / "cache")
        make_data(data_folder)
        for name in names:
            if main(build_command(name, data_folder, data_folder / name)):
                raise SystemExit(f"{name} failed; golden.json stays as it was")
            golden["figures"][name] = collect_figures(data_folder / name)
    lines = [f"{json.dumps(name)}: {json.dumps(figures)}" for name, figures in golden["figures"].items()]
    text = ",\n".join(lines)
    FILE.write_text(f'{{"machine": {json.dumps(describe_machine())}, "figures": {{\n{text}\n}}}}\n')


if __name__ == "__main__":
    compute()
