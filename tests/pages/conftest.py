"""Made-up run folders in the form that ``runs/write.py`` writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from logit_correction.evaluation.predictions import PredictedAttributes, Predictions
from logit_correction.evaluation.report import GroupReport
from logit_correction.finding import CandidateStatistics, Finding, ScoredCandidate, Verdict, ViewEvidence
from logit_correction.pages.plots import encode_picture
from logit_correction.types import Correlation

DIGITS = [str(i) for i in range(10)]
COLORS = ["red", "orange", "yellow", "lime", "green", "cyan", "azure", "blue", "violet", "rose"]

#: Share of right predictions: on majority rows, on minority rows.
SKILL = {"ERM": (0.99, 0.31), "LC": (0.95, 0.74), "JTT": (0.9, 0.5)}


def draw_logits(
    label: np.ndarray, minority: np.ndarray, skill: tuple[float, float], num_labels: int, seed: int
) -> np.ndarray:
    """Logits (N, L) that are right as often as ``skill`` says."""
    draw = np.random.default_rng(seed)
    right = draw.random(len(label)) < np.where(minority, skill[1], skill[0])
    predicted = np.where(right, label, (label + draw.integers(1, num_labels, len(label))) % num_labels)
    logits = draw.normal(size=(len(label), num_labels))
    logits[np.arange(len(label)), predicted] += 6.0
    return logits


def write_run(
    folder: Path, method: str, predictions: Predictions, correlated: bool, data: dict[str, Any], extra: dict[str, Any]
) -> Path:
    labels_read = ["label", "attribute"] if predictions.attribute is not None else ["label"]
    correlation = Correlation.one_to_one(len(predictions.label_names)) if correlated else None
    names = {"label_names": list(predictions.label_names), "attribute_names": list(predictions.attribute_names)}
    report = {
        "method": method,
        "data": {"rows": {"train": 9}, "input_shape": [3, 28, 28], **names, **data},
        "network": {"name": "MLP", "options": {"hidden": [100, 100, 100]}, "parameters": 256_710},
        "method_options": {"q": 0.7, "momentum": 0.9} if method == "LC" else {},
        "epochs": 2,
        "selection": {"rule": "last", "split": None, "labels_read": []},
        "test": GroupReport.from_predictions(predictions, correlation).to_dict(),
        "labels_read": {"train": ["label"], "valid": ["label"], "test": labels_read},
        "environment": {"torch": "2.15.0", "device": "cpu"},
        "seconds": {"train": 61.2, "evaluate": 0.8},
    } | extra
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(report, allow_nan=False))
    metrics = [
        {"step": step, "epoch": step // 2, "stage": 0, "loss": 3.0 - step, "loss_robust": 2.0 - step / 2}
        for step in range(4)
    ]
    metrics += [{"step": 2 * epoch, "epoch": epoch, "stage": 0, "valid_average": epoch / 3} for epoch in (1, 2)]
    pd.DataFrame(metrics).to_csv(folder / "metrics.csv", index=False)
    if predictions.estimate is not None or predictions.attribute is None:
        predictions.save(folder / "predictions.parquet")
    return folder


def write_colored_run(folder: Path, method: str, seed: int = 0, ratio: float = 0.005, **extra: Any) -> Path:
    """Ten digits in ten colours; (digit 3, colour blue) has no test rows."""
    draw = np.random.default_rng(7)
    label = draw.integers(0, 10, 4000)
    attribute = draw.integers(0, 10, 4000)
    has_test_rows = (label != 3) | (attribute != 7)
    label = label[has_test_rows]
    attribute = attribute[has_test_rows]
    logits = draw_logits(label, label != attribute, SKILL[method], 10, seed + len(method))
    rows = Predictions(np.arange(len(label)), label, logits, DIGITS, attribute, COLORS)
    counts = 3 + 5_000 * np.eye(10, dtype=int)
    options = {"minority_ratio": ratio, "severity": 4, "seed": seed}
    data = {"name": "ColoredMNIST", "options": options, "counts": {"train": counts.tolist()}}
    if method == "LC":
        images = map(encode_picture, draw.integers(0, 255, (12, 3, 28, 28)).astype(np.uint8))
        examples = [
            {"index": i, "label": DIGITS[i % 10], "estimated_attribute": "rose", "attribute": "red", "picture": image}
            for i, image in enumerate(images)
        ]
        extra |= {
            "estimated_minority": {"count": 380, "recall": 0.91, "precision": 0.59, "examples": examples},
            "diagnostics_labels_read": {"train": ["attribute"]},
        }
    return write_run(folder, method, rows, True, data, {"seed": seed} | extra)


def write_birds_run(
    folder: Path,
    method: str,
    skill: tuple[float, float] | None = None,
    label_names: Sequence[str] = ("landbird", "waterbird"),
    attribute_names: Sequence[str] | None = ("land", "water"),
    correlated: bool = True,
    seed: int = 0,
    estimated: bool = False,
    **extra: Any,
) -> Path:
    """Two birds on two grounds, as Waterbirds; without ``attribute_names`` nothing is known of the ground.

    ``estimated``: LC says of every row which ground it seems to be.
    """
    sizes = [2255, 2255, 642, 642]
    label = np.repeat([0, 0, 1, 1], sizes)
    ground = np.repeat([0, 1, 0, 1], sizes)
    logits = draw_logits(label, label != ground, skill or SKILL[method], 2, len(method) + 10 * seed)
    attributes = {} if attribute_names is None else {"attribute": ground, "attribute_names": attribute_names}
    rows = Predictions(np.arange(len(label)), label, logits, label_names, **attributes)
    if estimated and method == "LC":
        estimate = PredictedAttributes(
            ground, [f"that of {name}" for name in label_names], [[0], [1]], "heads on border"
        )
        rows = replace(rows, estimate=estimate)
    data = {"name": "Waterbirds", "options": {"root": "/data"}}
    return write_run(folder, method, rows, correlated and attribute_names is not None, data, {"seed": seed} | extra)


@pytest.fixture
def make_colored_run() -> Callable[..., Path]:
    return write_colored_run


@pytest.fixture
def make_birds_run() -> Callable[..., Path]:
    return write_birds_run


def build_view_evidence(view: str, ratio: float | None = 0.9, breadth: int = 0, rows: int = 76) -> ViewEvidence:
    """What a view might tell."""
    return ViewEvidence(
        (view,), breadth, 0.93, 0.9, 0.94, ratio, rows, 0.1,
        0.74 if rows else None, 0.2 if rows else None, 0.6, 0.8, 0.71,
    )  # fmt: skip


def build_finding(
    verdict: Verdict, views: Sequence[str], *evidence: ViewEvidence, corrects: bool = True, **changes: Any
) -> Finding:
    """A verdict on views, and what others tell."""
    statistics = CandidateStatistics(12, 0.1, 0.6, 0.5, 0.5, 0.5)
    candidates = [ScoredCandidate(tuple(views), 0.8, statistics)] if evidence and views else []
    candidate_views = tuple(views) if candidates else ()
    options = {
        "user_named": not candidates,
        "num_rows": 100 if evidence else 0,
        "evidence": evidence,
        "candidates": tuple(candidates),
    } | changes
    return Finding(verdict, tuple(views) if corrects else (), candidate_views=candidate_views, **options)
