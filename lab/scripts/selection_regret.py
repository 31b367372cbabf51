"""How much each selection rule loses against the best choice, from finished runs alone.

    python lab/scripts/selection_regret.py runs/grid... --metric worst_group --out regret.md

The regret of a choice is the test figure of the best candidate less that of the one that the rule takes, in points.
Candidates are

- the epochs of one run, where it was trained with ``--watch '[test]'`` and the rules under ``--also_select``;
- the runs on the same data with the same seeds: methods and options, each judged on its validation predictions.

Estimated groups are those of one run, the same for all candidates; where no run estimates, such rules have no figure.
Runs that name validation attributes only do so if a rule has read them (``--also_select '[valid_worst_group]'``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from logit_correction.evaluation import Predictions
from logit_correction.files import replacing
from logit_correction.functional import group_membership
from logit_correction.pages.compare import RunFolder, compare
from logit_correction.training import RULES
from logit_correction.training.rules import ValidationRows, rule_of

METRICS = ("group_balanced", "worst_group", "average")
COLUMNS = ("data", "choice", "rule", "regret", "candidates")


def find_runs(folders: Sequence[Path]) -> list[RunFolder]:
    """Return the finished runs in and below the folders, in the order of their names."""
    reports = sorted({path for folder in folders for path in folder.rglob("report.json")})
    if not reports:
        raise SystemExit(f"error: no finished run lies under {', '.join(map(str, folders))}: name folders of runs")
    return [RunFolder.read(path.parent) for path in reports]


def over_epochs(run: RunFolder, metric: str) -> Iterator[tuple[str, float, int]]:
    """Yield rule, regret and number of candidates of the choice between a run's epochs; nothing of one not watched."""
    column = f"test_{metric}"
    if column not in run.metrics:
        return
    last_stage = run.metrics[run.metrics["stage"] == run.metrics["stage"].max()]
    epochs = last_stage[last_stage[column].notna()].reset_index(drop=True)
    figures = epochs[column].to_numpy(float)
    blocks = [run.report.selection, *run.report.other_selections]
    chosen = {block.rule: block.epoch - 1 for block in blocks if block.epoch is not None}
    for rule in ("last", *(name for name in epochs if name in RULES)):
        if rule != "last" and not epochs[rule].notna().all():
            continue
        # As in training: of equal epochs the latest is taken. Scores are recorded of rules that nobody asked for, too.
        best = len(epochs) - 1 - (0 if rule == "last" else int(epochs[rule].to_numpy(float)[::-1].argmax()))
        taken = chosen.get(rule, best)
        yield rule, float(figures.max() - figures[taken]), len(epochs)


def over_runs(runs: Sequence[RunFolder], metric: str) -> Iterator[tuple[str, float, int]]:
    """Yield rule, regret and number of candidates of the choice between runs on the same data."""
    rows = [Predictions.load(run.path / "validation.parquet") for run in runs]
    if len(runs) < 2 or any(not np.array_equal(one.label, rows[0].label) for one in rows):
        return
    estimate = next((one.estimate for one in rows if one.estimate is not None), None)
    attribute = next((one for one in rows if one.attribute is not None), None)
    figures = [value for run in runs if (value := run.report.test.value(metric)) is not None]
    for rule in RULES:
        scores = []
        for one in rows:
            label, count = torch.from_numpy(one.label), len(one.label_names)
            groups = None
            if attribute is not None and attribute.attribute is not None:
                values = torch.from_numpy(attribute.attribute)
                groups = group_membership(label, values, count, len(attribute.attribute_names))
            known = ValidationRows(torch.from_numpy(one.prediction), label, count, groups, estimate)
            scores.append(rule_of(rule).score(known))
        if None not in scores:
            known_scores = np.asarray(scores, dtype=float)
            # Nothing orders equal runs: what to expect of taking any of them.
            taken = np.asarray(figures)[known_scores == known_scores.max()]
            yield rule, max(figures) - float(taken.mean()), len(runs)


def regrets(runs: Sequence[RunFolder], metric: str) -> pd.DataFrame:
    """Return one row for each choice and rule: the data, what is chosen between, the rule, its regret as a fraction."""
    found = []
    for title, series in compare(list(runs)):
        # Without the options that its data source does not have.
        members = [run for one in series for run in one.runs if run.report.test.value(metric) is not None]
        sets: dict[tuple[object, object], list[RunFolder]] = {}
        for run in members:
            sets.setdefault((run.report.data.options.get("seed"), run.report.seed), []).append(run)
            found += [(title, "epoch", *one) for one in over_epochs(run, metric)]
        for same in sets.values():
            kept = [run for run in same if (run.path / "validation.parquet").is_file()]
            found += [(title, "run", *one) for one in over_runs(kept, metric)]
    return pd.DataFrame(found, columns=list(COLUMNS))


def to_markdown(frame: pd.DataFrame, metric: str) -> str:
    """Return a table for each kind of choice: rules by data, mean regret in points, in brackets the greatest."""
    parts = [f"# Regret of selection rules, {metric.replace('_', '-')} test accuracy, points\n"]
    for choice, own in frame.groupby("choice", sort=False):
        names = list(dict.fromkeys(own["data"]))
        lines = [["chosen by", *names, "all"], ["---", *["---:"] * (len(names) + 1)]]
        for rule in (name for name in RULES if name in set(own["rule"])):
            of_rule = own[own["rule"] == rule]
            cells = [_cell(of_rule[of_rule["data"] == name]["regret"]) for name in names]
            lines.append([f"`{rule}`", *cells, _cell(of_rule["regret"])])
        count = f"{own['candidates'].min()} to {own['candidates'].max()} candidates"
        head = f"Choice between the {choice}s of {'a run' if choice == 'epoch' else 'the same data'}: {count}.\n"
        parts.append("\n".join([head, *("| " + " | ".join(line) + " |" for line in lines)]) + "\n")
    if frame.empty:
        parts.append(
            f"There is nothing to choose between: no run was watched and no two are on the same data, or the test rows "
            f"have no {metric.replace('_', '-')} accuracy, since they name no attributes.\n"
        )
    parts.append("Mean regret, in brackets the greatest; 0 is the choice that knows the test split.\n")
    return "\n".join(parts)


def _cell(values: pd.Series) -> str:
    return f"{100 * values.mean():.1f} ({100 * values.max():.1f})" if len(values) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of runs, at any depth")
    parser.add_argument("--metric", choices=METRICS, default="group_balanced")
    parser.add_argument("--out", type=Path, help="Markdown file; each choice lies beside it as CSV")
    options = parser.parse_args()
    frame = regrets(find_runs(options.folders), options.metric)
    text = to_markdown(frame, options.metric)
    print(text)
    if options.out is not None:
        with replacing(options.out) as temporary:
            temporary.write_text(text, encoding="utf-8")
        with replacing(options.out.with_suffix(".csv")) as temporary:
            frame.to_csv(temporary, index=False)


if __name__ == "__main__":
    main()
