"""Made-up run folders in the form that ``runs.py`` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from logit_correction import __version__
from logit_correction.correlation import Correlation
from logit_correction.evaluation import GroupReport, Predictions
from logit_correction.evaluation.predictions import EstimatedAttributes
from logit_correction.pages.images import png_uris

DIGITS = [str(i) for i in range(10)]
COLORS = ["red", "orange", "yellow", "lime", "green", "cyan", "azure", "blue", "violet", "rose"]

#: Share of right predictions: on majority rows, on minority rows.
SKILL = {"ERM": (0.99, 0.31), "LC": (0.95, 0.74), "JTT": (0.9, 0.5)}


def predict(
    label: np.ndarray, minority: np.ndarray, skill: tuple[float, float], num_labels: int, seed: int
) -> np.ndarray:
    """Logits (N, L) that are right as often as ``skill`` says."""
    draw = np.random.default_rng(seed)
    right = draw.random(len(label)) < np.where(minority, skill[1], skill[0])
    shown = np.where(right, label, (label + draw.integers(1, num_labels, len(label))) % num_labels)
    logits = draw.normal(size=(len(label), num_labels))
    logits[np.arange(len(label)), shown] += 6.0
    return logits


def metrics_table(epochs: int, steps: int, two_networks: bool, skill: tuple[float, float], seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for step in range(epochs * steps):
        level = np.exp(-4 * step / (epochs * steps)) + 0.05 * draw.random()
        row = {"step": step, "epoch": step // steps, "stage": 0, "loss": 2.3 * level, "learning_rate": 1e-3}
        if two_networks:
            row |= {
                "loss_robust": 2.0 * level,
                "loss_biased": 1.2 * level**2,
                "loss": 2.0 * level + 1.2 * level**2,
            }
        rows.append(row)
        if step % steps == steps - 1:
            done = 1 - np.exp(-4 * (step + 1) / (epochs * steps))
            rows.append({"step": step, "epoch": step // steps, "stage": 0, "valid_average": skill[0] * done})
    return pd.DataFrame(rows)


def report_of(
    method: str, predictions: Predictions, correlation: Correlation | None, seed: int, extra: dict[str, Any]
) -> dict[str, Any]:
    known = predictions.attribute is not None
    data = {
        "name": "ColoredMNIST", "rows": {"train": 9}, "label_names": list(predictions.label_names),
        "attribute_names": list(predictions.attribute_names), "input_shape": [3, 28, 28],
    }  # fmt: skip
    return {
        "method": method,
        "data": data | extra.pop("data", {}),
        "network": {"name": "MLP", "options": {"hidden": [100, 100, 100]}, "parameters": 256_710},
        "method_options": {"q": 0.7, "momentum": 0.9} if method == "LC" else {},
        "seed": seed,
        "epochs": 12,
        "selection": {"rule": "last", "split": None, "labels_read": []},
        "test": GroupReport.from_predictions(predictions, correlation).to_dict(),
        "other_selections": [],
        "group_prior": None,
        "estimated_minority": None,
        "labels_read": {
            "train": ["label"], "valid": ["label"], "test": ["label", "attribute"] if known else ["label"]
        },
        "diagnostics_labels_read": {},
        "warnings": [],
        "device": "cpu",
        "environment": {"version": __version__, "torch": "2.15.0", "device": "cpu"},
        "seconds": {"train": 61.2, "evaluate": 0.8},
    } | extra  # fmt: skip


def write_run(folder: Path, report: dict[str, Any], metrics: pd.DataFrame | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(report, allow_nan=False), encoding="utf-8")
    if metrics is not None:
        metrics.to_csv(folder / "metrics.csv", index=False)
    return folder


def colored_run(
    folder: Path,
    method: str,
    seed: int = 0,
    skill: tuple[float, float] | None = None,
    ratio: float = 0.005,
    **extra: Any,
) -> Path:
    """Ten digits in ten colours; (digit 3, colour blue) has no test rows."""
    draw = np.random.default_rng(7)
    label, attribute = draw.integers(0, 10, 4000), draw.integers(0, 10, 4000)
    kept = (label != 3) | (attribute != 7)
    label, attribute = label[kept], attribute[kept]
    skill = skill or SKILL[method]
    predictions = Predictions(
        index=np.arange(len(label)),
        label=label,
        attribute=attribute,
        logits=predict(label, label != attribute, skill, 10, seed + len(method)),
        label_names=DIGITS,
        attribute_names=COLORS,
    )
    aligned = int(5_500 * (1 - ratio)) * np.eye(10, dtype=int)
    counts = np.full((10, 10), max(1, int(550 * ratio))) + aligned
    true = counts / counts.sum()
    data = {
        "name": "ColoredMNIST",
        "options": {"minority_ratio": ratio, "severity": 4, "seed": seed},
        "facts": {"source": "MNIST, coloured here", "minority ratio": ratio, "test": "colours uniform"},
        "counts": {
            "train": counts.tolist(),
            "valid": (counts // 11).tolist(),
            "test": np.full((10, 10), 100).tolist(),
        },
    }
    diagnostics: dict[str, Any] = {}
    if method == "LC":
        estimated = true * np.exp(draw.normal(0, 0.4, (10, 10)))
        images = png_uris(torch.from_numpy(draw.integers(0, 255, (12, 3, 28, 28)).astype(np.uint8)))
        examples = [
            {
                "index": 11 * i, "label": DIGITS[i % 10], "estimated_attribute": COLORS[(i + 3) % 10],
                "attribute": COLORS[(i + 3 + (i % 4 == 0)) % 10], "picture": image,
            }
            for i, image in enumerate(images)
        ]  # fmt: skip
        diagnostics = {
            "group_prior": {
                "estimator": "cell", "averaging": "moving",
                "estimated": estimated.tolist(), "true": true.tolist(),
                "label_names": DIGITS, "attribute_names": COLORS,
            },
            "estimated_minority": {"count": 380, "recall": 0.91, "precision": 0.59, "examples": examples},
            "diagnostics_labels_read": {"train": ["attribute"]},
        }  # fmt: skip
    report = report_of(method, predictions, Correlation.one_to_one(10), seed, {"data": data} | diagnostics | extra)
    return write_run(folder, report, metrics_table(12, 40, method == "LC", skill, seed))


def birds_run(
    folder: Path,
    method: str,
    skill: tuple[float, float] | None = None,
    label_names: tuple[str, str] = ("landbird", "waterbird"),
    attribute_names: tuple[str, str] | None = ("land", "water"),
    correlated: bool = True,
    seed: int = 0,
    estimated: bool = False,
    **extra: Any,
) -> Path:
    """Two birds on two grounds, as Waterbirds; without ``attribute_names`` nothing is known of the ground.

    ``estimated``: LC says of every row which ground it seems to be.
    """
    sizes = [[2255, 2255], [642, 642]]
    label = np.repeat([0, 0, 1, 1], np.ravel(sizes))
    ground = np.repeat([0, 1, 0, 1], np.ravel(sizes))
    predictions = Predictions(
        index=np.arange(len(label)),
        label=label,
        attribute=ground if attribute_names else None,
        logits=predict(label, label != ground, skill or SKILL[method], 2, len(method) + 10 * seed),
        label_names=label_names,
        attribute_names=attribute_names or (),
    )
    if estimated and method == "LC":
        likely = EstimatedAttributes(ground, [f"that of {name}" for name in label_names], [[0], [1]], "heads on border")
        predictions = replace(predictions, estimate=likely)
    data: dict[str, Any] = {
        "name": "Waterbirds",
        "options": {"root": "/data"},
        "facts": {"images": "224 x 224"},
        "counts": {"train": [[3498, 184], [56, 1057]], "valid": [[467, 466], [133, 133]], "test": sizes},
    }
    if not attribute_names:
        data["counts"] = {split: [[], []] for split in data["counts"]}
    correlation = Correlation.one_to_one(2) if correlated and attribute_names else None
    report = report_of(method, predictions, correlation, seed, {"data": data} | extra)
    run = write_run(folder, report, metrics_table(12, 5, method == "LC", (0.95, 0.7), 0))
    if estimated:
        predictions.save(run / "predictions.parquet")
    return run


@pytest.fixture
def colored() -> Callable[..., Path]:
    return colored_run


@pytest.fixture
def birds() -> Callable[..., Path]:
    return birds_run
