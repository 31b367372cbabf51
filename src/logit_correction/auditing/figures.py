"""What the rows of an audit come to: by label, by group, and what the shortcut costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from logit_correction.attributes.evidence import CHANCE, ORDINARY, RICH, Thresholds
from logit_correction.attributes.signs import CONFIDENCE, views_in
from logit_correction.errors import format_percent
from logit_correction.functional import wilson_interval
from logit_correction.views.base import EVERYTHING, phrase

#: Who is judged, as the columns of the rows begin: the classifier, and LC.
WHO = ("network", "fixed")


def by_label(
    frame: pd.DataFrame, views: Sequence[str], label_names: Sequence[str], verdict: str, who: str
) -> list[dict[str, Any]]:
    """Return for each label whether the classifier leans on the view: a verdict, figures and one plain sentence.

    Args:
        frame: The rows.
        views: The views of the shortcut; none where there is none.
        label_names: L names.
        verdict: That of the whole data set.
        who: What the classifier is called.
    """
    thresholds, view = Thresholds(), phrase(views, False)
    found = []
    for name in label_names:
        own = frame[frame["label"] == name]
        entry: dict[str, Any] = {"label": name, "rows": int((own["split"] == "train").sum())}
        if not views:
            found.append(entry | {"verdict": verdict, "sentence": f"{name}: {verdict}"})
            continue
        conflicting = own[(own["split"] == "train") & own["conflicting"].eq(True)]
        sure = own[own["sure"].eq(True)]
        with_label = int((sure["network_label"] == name).sum())
        with_view = int((sure["network_label"] == sure["view_label"]).sum())
        low, high = map(float, wilson_interval(with_view, with_view + with_label, CONFIDENCE))
        if len(sure) < thresholds.few_rows:
            word = "cannot tell"
            sentence = f"{name}: only {_rows(len(sure))} where {view} is sure of another label, too few to tell"
        else:
            word = {True: "shortcut", False: "none found", None: "cannot tell"}[_follows(low, high)]
            share = with_view / len(sure)
            sentence = (
                f"{name}: where {view} and label disagree, the {who} goes with {view} in "
                f"{format_percent(share, unit=' %')} of {_rows(len(sure))}"
            )
        found.append(
            entry
            | {"verdict": word, "sentence": sentence, "conflicting_rows": len(conflicting), "sure_rows": len(sure)}
            | {"follows_view": with_view / len(sure) if len(sure) else None}
            | {"follows_label": with_label / len(sure) if len(sure) else None}
            | {"follows_low": low, "follows_high": high}
        )
    return found


def groups(frame: pd.DataFrame, label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return label by what a row looks like: rows, share of the label with an interval of 90 %, and accuracies.

    Args:
        frame: The rows.
        label_names: L names.
    """
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
    """Return whether the classifier leans on the views of a shortcut; None where that cannot be told."""
    chosen = next((one for one in evidence["signs"] if views_in(one["view"]) == list(evidence["views"])), None)
    if chosen is None or chosen["rows"] < Thresholds().few_rows:
        return None
    return _follows(chosen["follows_low"], chosen["follows_high"])


def _follows(low: float, high: float) -> bool | None:
    """Return on which side of the threshold an interval lies; None where it lies on both."""
    threshold = Thresholds().follows
    return True if low >= threshold else False if high < threshold else None


def would_change(evidence: Mapping[str, Any], who: str) -> str:
    """Say what would change the verdict on a classifier of this name, in one sentence."""
    if evidence["verdict"] == "shortcut":
        names = phrase(evidence["views"])
        return (
            f"If {names} is a reason for the label rather than an accident of how the data came about, it is no "
            f"shortcut: say so by --legitimate."
        )
    narrow = [one for one in evidence["signs"] if one["breadth"] < EVERYTHING]
    if not narrow:
        return "Inputs that can be looked at as images, texts, columns or files: of others there are no views."
    return _missing_sign(max(narrow, key=lambda one: one["ratio"] or 0.0), who)


def _missing_sign(best: Mapping[str, Any], who: str) -> str:
    """Say what the view that comes nearest to a shortcut lacks, by its signs."""
    thresholds = Thresholds()
    view = phrase(views_in(best["view"]), False)
    wanted = thresholds.rich_ratio if best["breadth"] >= RICH else thresholds.ratio
    if (best["ratio"] or 0) < wanted:
        return (
            f"It would be called a shortcut if a narrow view alone were right nearly as often as the whole network: "
            f"{view}, the nearest, reaches {format_percent(best['ratio'], unit=' %')} of it and would need "
            f"{format_percent(wanted, unit=' %')}."
        )
    if best["rows"] < thresholds.least_rows:
        return (
            f"More rows where {view} and label disagree would tell: there are {best['rows']}, and fewer than "
            f"{thresholds.least_rows} are too few to correct by. A person who knows says so by --shortcut or "
            "--legitimate."
        )
    if (best["information"] or 0) < thresholds.information:
        return (
            f"It would be called a shortcut if {view} alone left less of the label open: it settles "
            f"{format_percent(max(best['information'] or 0, 0), unit=' %')} of it, and a shortcut at least "
            f"{format_percent(thresholds.information, unit=' %')}."
        )
    if (best["follows_low"] or 0) >= thresholds.follows and (best["told_apart_low"] or 0) <= CHANCE:
        return (
            f"The rows where {view} and label disagree may just be mislabelled: look at those in rows.csv. If "
            "their labels are right, it is a shortcut: say so by --shortcut."
        )
    if (best["follows_low"] or 0) < thresholds.follows:
        return (
            f"It would be called a shortcut if the {who} went with {view} where it disagrees "
            f"with the label: it does in {format_percent(best['follows_view'], unit=' %')} of {_rows(best['rows'])}."
        )
    return f"A person's word: --shortcut if {view} is an accident, --legitimate if it is a reason for the label."


def question(evidence: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the one question that only a person can answer, with the views it is about; None where nothing is asked.

    An honest strong feature and a shortcut look alike: both predict the label nearly as well as the whole input.
    """
    thresholds = Thresholds()
    views = list(evidence["views"])
    if not views and evidence["verdict"] == "cannot tell":
        alike = [
            one
            for one in evidence["signs"]
            if one["breadth"] < EVERYTHING
            and (one["ratio"] or 0) >= thresholds.ratio
            and (one["information"] or 0) >= thresholds.information
        ]
        views = views_in(max(alike, key=lambda one: one["accuracy"])["view"]) if alike else []
    if not views or not evidence["signs"]:
        return None
    names, short = phrase(views), phrase(views, False)
    verb = "is" if len(views) == 1 else "are"
    what = f"By {names} alone the label can nearly be told"  # names are options: their letters stay as they are
    return {"views": views, "text": f"{what}. {verb.capitalize()} {short} a reason for the label, or an accident?"}


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"
