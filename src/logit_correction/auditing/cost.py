"""What the rows of an audit come to: by label, by group, and what the shortcut costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from logit_correction import sentences
from logit_correction.attributes.evidence import CHANCE, CONFIDENCE, ORDINARY, Thresholds
from logit_correction.functional import wilson_interval
from logit_correction.views.base import EVERYTHING, RICH

#: Who is judged, as the columns of the rows begin: the classifier, and LC.
WHO = ("network", "fixed")


def by_label(
    frame: pd.DataFrame, views: Sequence[str], label_names: Sequence[str], verdict: str, who: str
) -> list[dict[str, Any]]:
    """Return for each label whether the classifier relies on the views: a verdict, figures and one plain sentence."""
    found = []
    for name in label_names:
        own = frame[frame["label"] == name]
        train = own[own["split"] == "train"]
        entry: dict[str, Any] = {"label": name, "rows": len(train)}
        if not views:
            found.append(entry | {"verdict": verdict, "sentence": f"{name}: {verdict}"})
            continue
        sure = own[own["sure"].eq(True)]
        enough = len(sure) >= Thresholds().few_rows
        with_label = int((sure["network_label"] == name).sum())
        with_view = int((sure["network_label"] == sure["view_label"]).sum())
        low, high = map(float, wilson_interval(with_view, with_view + with_label, CONFIDENCE))
        words = {True: "shortcut", False: "none found", None: "cannot tell"}
        found.append(
            entry
            | {"verdict": words[_follows(low, high)] if enough else "cannot tell"}
            | {"sentence": sentences.of_label(name, views, len(sure), with_view, who, enough)}
            | {"conflicting_rows": int(train["conflicting"].eq(True).sum()), "sure_rows": len(sure)}
            | {"follows_view": with_view / len(sure) if len(sure) else None}
            | {"follows_label": with_label / len(sure) if len(sure) else None}
            | {"follows_low": low, "follows_high": high}
        )
    return found


def groups(frame: pd.DataFrame, label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return label by what a row looks like: rows, share of the label with an interval of 90 %, and accuracies."""
    train = frame[(frame["split"] == "train") & frame["attribute"].notna()]
    found: list[dict[str, Any]] = []
    if train.empty:
        return found
    asked = [who for who in WHO if f"{who}_label" in frame]
    nobody = {who: accuracy(frame.iloc[:0], who) for who in asked}  # of many labels most groups have no rows
    cells = {key: {who: accuracy(cell, who) for who in asked} for key, cell in frame.groupby(["label", "attribute"])}
    names = list(label_names)
    table = pd.crosstab(train["label"], train["attribute"]).reindex(index=names, columns=names, fill_value=0)
    for label, counts in zip(label_names, table.to_numpy().tolist(), strict=True):
        low, high = wilson_interval(torch.tensor(counts), sum(counts), CONFIDENCE)
        for number, name in enumerate(label_names):
            entry = {"label": label, "attribute": name, "rows": counts[number]}
            entry |= {"share": counts[number] / max(1, sum(counts))}
            entry |= {"share_low": float(low[number]), "share_high": float(high[number])}
            found.append(entry | cells.get((label, name), nobody))
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
    if told.empty:
        return found
    conflicting, agreeing = told[told["conflicting"].eq(True)], told[told["conflicting"].eq(False)]
    clearest, precision = told[told["sure"].eq(True)], conflicting["view_p"].astype(float).mean()
    for who in WHO:
        if f"{who}_label" not in frame or not frame[f"{who}_label"].notna().any():
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
    views = list(evidence["views"])
    chosen = next((one for one in evidence["signs"] if sentences.views_in(one["view"]) == views), None)
    if chosen is None or chosen["rows"] < Thresholds().few_rows:
        return None
    return _follows(chosen["follows_low"], chosen["follows_high"])


def _follows(low: float, high: float) -> bool | None:
    """Return on which side of the threshold an interval lies; None where it lies on both."""
    threshold = Thresholds().follows
    return True if low >= threshold else False if high < threshold else None


def would_change(evidence: Mapping[str, Any], who: str) -> str:
    """Say what would change the verdict on a classifier of this name: what the nearest view to a shortcut lacks."""
    thresholds, lacks = Thresholds(), "word"
    narrow = [one for one in evidence["signs"] if one["breadth"] < EVERYTHING]
    if evidence["verdict"] == "shortcut":
        sign = {**evidence, "view": " + ".join(evidence["views"])}
        return sentences.would_change("nothing", sign, who, 0)
    if not narrow:
        return sentences.would_change("view", None, who, 0)
    best = max(narrow, key=lambda one: one["ratio"] or 0.0)
    wanted = {
        "ratio": thresholds.rich_ratio if best["breadth"] >= RICH else thresholds.ratio,
        "rows": thresholds.least_rows,
        "information": thresholds.information,
    }
    if short := [name for name, least in wanted.items() if (best[name] or 0) < least]:
        lacks = short[0]
    elif (best["follows_low"] or 0) < thresholds.follows:
        lacks = "follows"
    elif (best["told_apart_low"] or 0) <= CHANCE:
        lacks = "labels"
    return sentences.would_change(lacks, best, who, wanted.get(lacks, 0))


def question(evidence: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the one question that only a person can answer, with the views it is about; None where nothing is asked.

    An honest strong feature and a shortcut look alike: both predict the label nearly as well as the whole input.
    """
    thresholds, views = Thresholds(), list(evidence["views"])
    if not views and evidence["verdict"] == "cannot tell":
        alike = [
            one
            for one in evidence["signs"]
            if one["breadth"] < EVERYTHING
            and (one["ratio"] or 0) >= thresholds.ratio
            and (one["information"] or 0) >= thresholds.information
        ]
        views = sentences.views_in(max(alike, key=lambda one: one["accuracy"])["view"]) if alike else []
    if not views or not evidence["signs"]:
        return None
    return {"views": views, "text": sentences.question(views)}
