"""Fairlearn beside the runs of `benchmark wild`: accuracy, worst group, equalised odds, seconds.

    python lab/scripts/fairness.py --runs RUNS --seeds 3 --out fairness.md    # RUNS: from `benchmark wild --out RUNS`

Fairlearn is told the group of every training row; its post-processing wants those of the test rows too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from logit_correction_lab.grid import slug
from logit_correction_lab.sources.wild import Wild

SETS = ("compas", "german", "adult", "law")
ROWS = ("ERM", "LC", "LC, XRM", "LC, MST", "LC, true attribute", "GroupDRO, true attribute")
FIGURES = ("accuracy", "worst group", "equalised odds", "seconds")


def figures(correct: Mapping[tuple[str, str], tuple[float, int]], seconds: float) -> list[float]:
    """Return accuracy, worst group, and the greatest gap between groups in a label's accuracy, by counted cells."""
    cells = {cell: found for cell, found in correct.items() if found[1]}
    rows = sum(count for _, count in cells.values())
    by_label = [
        [share for (of, _), (share, _) in cells.items() if of == label] for label in {cell[0] for cell in cells}
    ]
    accuracy = sum(share * count for share, count in cells.values()) / rows
    worst = min(share for share, _ in cells.values())
    return [100 * accuracy, 100 * worst, 100 * max(max(shares) - min(shares) for shares in by_label), seconds]


def of_run(folder: Path) -> list[float]:
    """Return the figures of a finished run."""
    report = json.loads((folder / "report.json").read_text())
    groups = report["test"]["groups"]
    cells = {(one["label"], one["attribute"]): (one["accuracy"] or 0.0, one["count"]) for one in groups}
    return figures(cells, report["seconds"]["train"])


def fairlearn(name: str, seed: int) -> Iterator[tuple[str, list[float]]]:
    """Train scikit-learn's logistic regression and fairlearn's methods on it, and yield their figures."""
    table = Wild(name, seed=seed).build()  # type: ignore[arg-type]
    values, label, group = (one.numpy() for one in (table.inputs.values, table.label, table.attribute))  # type: ignore[attr-defined]
    values = values.astype(np.float64)  # the reductions' weights are, and pandas refuses to mix them
    train, test = (table.split[part].numpy() for part in ("train", "test"))
    plain = LogisticRegression(max_iter=1000)

    def told(rows: NDArray[Any]) -> dict[str, Any]:
        return {"sensitive_features": group[rows]}

    makers: dict[str, tuple[Callable[[], Any], bool, bool]] = {
        "logistic regression": (lambda: plain, False, False),
        "fairlearn, reductions, equalised odds": (lambda: ExponentiatedGradient(plain, EqualizedOdds()), True, False),
        "fairlearn, reductions, parity": (lambda: ExponentiatedGradient(plain, DemographicParity()), True, False),
        "fairlearn, post-processing, equalised odds": (
            lambda: ThresholdOptimizer(estimator=plain, constraints="equalized_odds", predict_method="predict_proba"),
            True,
            True,
        ),
    }
    for method, (make, fits_by_group, predicts_by_group) in makers.items():
        start = time.process_time()
        model = make().fit(values[train], label[train], **(told(train) if fits_by_group else {}))
        draw = {"random_state": seed} if fits_by_group else {}
        found = model.predict(values[test], **draw, **(told(test) if predicts_by_group else {}))
        right = np.asarray(found) == label[test]
        cells = {}
        for y in np.unique(label):
            for a in np.unique(group):
                own = (label[test] == y) & (group[test] == a)
                cells[str(y), str(a)] = (float(right[own].mean()) if own.any() else 0.0, int(own.sum()))
        yield method, figures(cells, time.process_time() - start)


def main() -> None:
    """Write a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = []
    for name in SETS:
        found: dict[str, list[list[float]]] = {}
        for seed in range(options.seeds):
            for row in ROWS:
                folder = options.runs / slug(row) / name / f"seed-{seed}"
                if (folder / "report.json").is_file():
                    found.setdefault(row, []).append(of_run(folder))
            for method, one in fairlearn(name, seed):
                found.setdefault(method, []).append(one)
        lines += [f"## {name}", "", f"| | {' | '.join(FIGURES)} | seeds |", "|---" * (len(FIGURES) + 2) + "|"]
        for row, values in found.items():
            mean = " | ".join(f"{value:.1f}" for value in np.mean(values, axis=0))
            lines.append(f"| {row} | {mean} | {len(values)} |")
        lines.append("")
    options.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
