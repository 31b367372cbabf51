"""What the rows of an audit come to: by label, by group, and what the shortcut costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from logit_correction import sentences
from logit_correction.attributes.evidence import CONFIDENCE, ORDINARY, Thresholds
from logit_correction.functional import wilson_interval
from logit_correction.views.base import EVERYTHING

#: Who is judged, as the columns of the rows begin: the classifier, and LC.
WHO = ("network", "fixed")


def by_label(
    frame: pd.DataFrame, views: Sequence[str], label_names: Sequence[str], verdict: str, who: str
) -> list[dict[str, Any]]:
    """Return for each label whether the classifier relies on the views: a verdict, figures and one plain sentence."""
    found = []
    for name in label_names:
        own = frame[frame["label"] == name]
        entry: dict[str, Any] = {"label": name, "rows": int((own["split"] == "train").sum())}
        sure = own[own["sure"].eq(True)]
        with_label = int((sure["network_label"] == name).sum())
        with_view = int((sure["network_label"] == sure["view_label"]).sum())
        low, high = map(float, wilson_interval(with_view, with_view + with_label, CONFIDENCE))
        if not views:
            entry |= {"verdict": verdict, "sentence": f"{name}: {verdict}"}
        elif len(sure) < Thresholds().few_rows:
            entry |= {"verdict": "cannot tell", "sentence": f"{name}: too few rows to tell", "sure_rows": len(sure)}
        else:
            entry["verdict"] = {True: "shortcut", False: "none found", None: "cannot tell"}[_follows(low, high)]
            entry["sentence"] = sentences.of_label(name, views, len(sure), with_view, who)
            entry |= {"sure_rows": len(sure), "follows_view": with_view / len(sure)}
            entry |= {"follows_label": with_label / len(sure), "follows_low": low, "follows_high": high}
        found.append(entry)
    return found


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

    Which rows conflict is estimated, with a bias that no sampling interval knows of, so that of the conflicting rows
    holds three: over the rows that are taken for conflicting, over the clearest of them, of which the view is sure and
    the classifier is wrong most often, and over the former corrected for the share that in truth agrees. How large
    it is tells ``view_p``; how often the classifier is right on these rows is taken for the mean of the two accuracies.
    """
    found: dict[str, Any] = {}
    told = frame[frame["conflicting"].notna()]
    conflicting, agreeing = told[told["conflicting"].eq(True)], told[told["conflicting"].eq(False)]
    clearest, precision = told[told["sure"].eq(True)], conflicting["view_p"].astype(float).mean()
    for who in WHO:
        if f"{who}_label" not in told or not told[f"{who}_label"].notna().any():
            continue
        figure, others = accuracy(conflicting, who), accuracy(agreeing, who)
        intervals = [(figure["low"], figure["high"])]
        if (sure := accuracy(clearest, who))["rows"]:
            intervals.append((sure["low"], sure["high"]))
        if figure["rows"] and others["rows"] and precision > 0:
            mistaken = (figure["accuracy"] + others["accuracy"]) / 2
            true = min(1.0, max(0.0, (figure["accuracy"] - (1 - precision) * mistaken) / precision))
            half = (figure["high"] - figure["low"]) / 2
            intervals.append((max(0.0, true - half), min(1.0, true + half)))
        figure |= {"low": min(low for low, _ in intervals), "high": max(high for _, high in intervals)}
        found[who] = {"name": classifier if who == "network" else "LC", "conflicting": figure, "agreeing": others}
    return found


def leans(evidence: Mapping[str, Any]) -> bool | None:
    """Return whether the classifier relies on the views of a shortcut; None where that cannot be told."""
    chosen = next((one for one in evidence["signs"] if sentences.views_in(one["view"]) == evidence["views"]), None)
    if chosen is None or chosen["rows"] < Thresholds().few_rows:
        return None
    return _follows(chosen["follows_low"], chosen["follows_high"])


def _follows(low: float, high: float) -> bool | None:
    """Return on which side of the threshold an interval lies; None where it lies on both."""
    threshold = Thresholds().follows
    return True if low >= threshold else False if high < threshold else None


def question(evidence: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the one question that only a person can answer, with the views it is about; None where nothing is asked.

    An honest strong feature and a shortcut look alike: both predict the label nearly as well as the whole input.
    """
    thresholds, views = Thresholds(), list(evidence["views"])
    if evidence["verdict"] == "cannot tell":
        narrow = [one for one in evidence["signs"] if one["breadth"] < EVERYTHING]
        alike = [one for one in narrow if (one["ratio"] or 0) >= thresholds.ratio]
        alike = [one for one in alike if (one["information"] or 0) >= thresholds.information]
        views = sentences.views_in(max(alike, key=lambda one: one["accuracy"])["view"]) if alike else []
    return {"views": views, "text": sentences.question(views)} if views else None
