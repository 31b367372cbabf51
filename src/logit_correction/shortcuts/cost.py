"""What the rows of an audit come to: by group, and what the shortcut costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from logit_correction import sentences
from logit_correction.finding import ORDINARY, Finding
from logit_correction.functional import wilson_interval
from logit_correction.shortcuts.evidence import CONFIDENCE

#: Who is judged, as the columns of the rows begin: the classifier, and LC.
WHO = ("network", "fixed")

#: A classifier relies on a view if it follows it in so many conflicting rows, and oftener than it errs elsewhere.
FOLLOWS = 0.12


def groups(frame: pd.DataFrame, label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return label by what a row looks like: rows, share of the label with an interval of 90 %, and accuracies."""
    train = frame[(frame["split"] == "train") & frame["attribute"].notna()]
    if train.empty:
        return []
    asked = [who for who in WHO if f"{who}_label" in frame]
    nobody = {who: accuracy(frame.iloc[:0], who) for who in asked}  # of many labels most groups have no rows
    cells = {key: {who: accuracy(cell, who) for who in asked} for key, cell in frame.groupby(["label", "attribute"])}
    names = list(label_names)
    table = pd.crosstab(train["label"], train["attribute"]).reindex(index=names, columns=names, fill_value=0)
    found = []
    for label, counts in table.iterrows():
        low, high = wilson_interval(torch.tensor(counts.to_numpy()), int(counts.sum()), CONFIDENCE)
        for number, (name, rows) in enumerate(counts.items()):
            share = {"share": rows / max(1, counts.sum()), "share_low": low[number], "share_high": high[number]}
            figures = {key: float(value) for key, value in share.items()}
            own = cells.get((label, name), nobody)
            found.append({"label": label, "attribute": name, "rows": int(rows), **figures, **own})
    return found


def accuracy(rows: pd.DataFrame, who: str) -> dict[str, Any]:
    """Return how often a classifier is right on rows that it was asked about, with an interval of 90 %."""
    asked = rows[rows[f"{who}_label"].notna()]
    right = int((asked[f"{who}_label"] == asked["label"]).sum())
    low, high = wilson_interval(right, len(asked), CONFIDENCE)
    value = right / len(asked) if len(asked) else None
    return {"accuracy": value, "low": float(low), "high": float(high), "rows": len(asked)}


def cost(frame: pd.DataFrame, classifier: str = ORDINARY) -> dict[str, Any]:
    """Return the accuracy of each classifier, and what it is called, on conflicting and on agreeing rows.

    Which rows conflict is estimated; the intervals tell of the number of rows alone.
    """
    found: dict[str, Any] = {}
    told = frame[frame["conflicting"].notna()]
    for who in WHO:
        if f"{who}_label" not in told or not told[f"{who}_label"].notna().any():
            continue
        conflicting, agreeing = (accuracy(told[told["conflicting"].eq(one)], who) for one in (True, False))
        entry = {"name": classifier if who == "network" else "LC", "conflicting": conflicting, "agreeing": agreeing}
        entry["balanced"] = balanced(conflicting, agreeing, frame["label"].nunique())
        found[who] = entry | {"like_training": accuracy(told, who)}
    return found


def balanced(conflicting: Mapping[str, Any], agreeing: Mapping[str, Any], num_labels: int) -> dict[str, Any]:
    """Return the accuracy if each look were as frequent with every label, its interval by those of the two kinds.

    One row in L agrees then, as in an average over the groups of labels by attributes.
    """
    if conflicting["accuracy"] is None or agreeing["accuracy"] is None:
        return {"accuracy": None, "low": 0.0, "high": 1.0}
    shares = (agreeing, 1 / num_labels), (conflicting, 1 - 1 / num_labels)
    value = sum(share * one["accuracy"] for one, share in shares)
    low, high = (
        math.hypot(*(share * (one[end] - one["accuracy"]) for one, share in shares)) for end in ("low", "high")
    )
    return {"accuracy": value, "low": max(0.0, value - low), "high": min(1.0, value + high)}


def leans(finding: Finding) -> bool | None:
    """Return whether the classifier relies on the views of a shortcut; None where that cannot be told."""
    look, weighed = finding.look, finding.candidate
    if not finding.views or look is None or weighed is None or look.rows < sentences.NEEDED_ROWS:
        return None
    return _follows(look.follows_low or 0.0, look.follows_high or 0.0, weighed.signs.error)


def _follows(low: float, high: float, error: float) -> bool | None:
    """Return on which side of the threshold an interval lies; None where it lies on both."""
    threshold = max(FOLLOWS, error)
    return True if low >= threshold else False if high < threshold else None


def too_few(finding: Finding) -> str:
    """Return why a check of a given classifier tells nothing; empty where it has the rows that it needs."""
    rows = finding.look.rows if finding.look else 0
    there = f"there {'is' if rows == 1 else 'are'} {rows}. Take more validation rows, or test on rows from elsewhere"
    needs = f"A check needs {sentences.NEEDED_ROWS} held-out rows where the view clearly points to another label"
    return f"{needs}; {there}" if finding.views and rows < sentences.NEEDED_ROWS else ""


def question(finding: Finding) -> dict[str, Any] | None:
    """Return the one question that only a person can answer, and the views it is about; None where nothing is asked."""
    # Of a leak nothing is asked: it is no candidate.
    views = finding.about if finding.verdict == "cannot tell" else finding.views
    return {"views": [*views], "text": sentences.question(views)} if views else None
