"""What a view sees of a shortcut: images side by side, columns and words with their counts, colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.attributes.heads import telling_features
from logit_correction.data.table import DataTable
from logit_correction.pages.images import png_uris
from logit_correction.views.base import View
from logit_correction.views.choose import find_views
from logit_correction.views.tables import is_numeric
from logit_correction.views.texts import TermView

#: Images of a kind side by side, labels that are shown, words and values of a label.
IMAGES, LABELS, TERMS, VALUES = 6, 6, 4, 12

#: Bins of a column of numbers.
BINS = 4


def contrasts(table: DataTable, frame: pd.DataFrame, views: Sequence[str]) -> list[dict[str, Any]]:
    """Return what there is to show of the views of a shortcut, one entry a kind, as plain values."""
    inputs = table.view_inputs("train")
    found: list[dict[str, Any]] = []
    train = frame[frame["split"] == "train"].reset_index(drop=True)
    label = table.label[table.split["train"]]
    chosen = find_views(views, inputs)
    for view in chosen:
        if isinstance(view, TermView):
            view.fit(inputs)
            terms = _terms(view, view.features(inputs), label, table)
            found.append({"kind": "terms", "view": view.name, "rows": terms})
        family, _, member = view.name.partition(":")
        if family in ("column", "missing") and member in inputs.columns:
            values = np.asarray(inputs.columns[member])
            found.append({"kind": "values", "view": view.name, **_values(values, label, table.label_names)})
    if inputs.image_shape is not None:
        found += _images(table, train, chosen)
    return found


def _terms(view: TermView, features: Tensor, label: Tensor, table: DataTable) -> list[dict[str, Any]]:
    """Return the terms that go most with each label, and in how many rows of this and of other labels they are."""
    columns = telling_features(features, label, len(table.label_names), TERMS).tolist()
    rows = []
    for column in columns:
        there = features[:, column] > 0
        counts = torch.bincount(label[there], minlength=len(table.label_names))
        shares = counts / torch.bincount(label, minlength=len(table.label_names)).clamp_min(1)
        top = int(shares.argmax())
        rows.append(
            {
                "term": view.terms[column],
                "label": str(table.label_names[top]),
                "rows": int(counts[top]),
                "share": float(shares[top]),
                "other_rows": int(counts.sum() - counts[top]),
                "other_share": float((counts.sum() - counts[top]) / (label != top).sum().clamp_min(1)),
            }
        )
    return sorted(rows, key=lambda row: row["other_share"] - row["share"])


def _values(values: np.ndarray[Any, Any], label: Tensor, label_names: Sequence[str]) -> dict[str, Any]:
    """Return how often each value of a column, or each quarter of its numbers, goes with each label."""
    if is_numeric(values) and len(np.unique(values[np.isfinite(values)])) > VALUES:
        texts = [str(one) for one in pd.qcut(values, BINS, duplicates="drop", precision=4)]
    else:
        texts = [f"{one:g}" if is_numeric(values) else str(one) for one in values]
    text = np.asarray([one if one not in ("", "nan") else "(missing)" for one in texts], dtype=object)
    counts = pd.crosstab(text, np.asarray(label_names, dtype=object)[label.numpy()])
    counts = counts.loc[counts.sum(axis=1).sort_values(ascending=False).index]
    shown = counts.iloc[:VALUES]
    names = [str(name) for name in label_names if name in counts.columns]
    return {
        "labels": names,
        "rows": [
            {"value": str(value), "counts": [int(row[name]) for name in names]} for value, row in shown.iterrows()
        ],
        "more": len(counts) - len(shown),
    }


def _images(table: DataTable, train: pd.DataFrame, views: Sequence[View]) -> list[dict[str, Any]]:
    """Return images that agree beside images that conflict, label by label; their mean colours where colour is it."""
    numbers = train["row"].to_numpy(dtype=np.int64)
    conflicts = train[train["conflicting"].eq(True)]
    order = conflicts["label"].value_counts().index[:LABELS]
    rows = []
    for name in order:
        own = train[train["label"] == name]
        most = own[own["conflicting"].eq(True)].sort_values("score", ascending=False, kind="stable").index[:IMAGES]
        least = own[own["conflicting"].eq(False)].sort_values("score", kind="stable").index[:IMAGES]
        entry: dict[str, Any] = {"label": str(name)}
        for kind, places in (("agree", least), ("conflict", most)):
            images = table.inputs.images(torch.from_numpy(numbers[places.to_numpy()]))
            if images is None:
                return []
            looks = [str(value) for value in train.loc[places, "attribute"]]
            uris = png_uris(images)
            entry[kind] = [{"image": uri, "looks_like": look} for uri, look in zip(uris, looks, strict=True)]
            if any(view.name == "colour" for view in views):
                entry[f"{kind}_colours"] = [_colour(image) for image in images]
        rows.append(entry)
    cells = [view.name.partition(":")[2] for view in views if view.name.startswith("places:")]
    return (
        [{"kind": "images", "view": ", ".join(view.name for view in views), "rows": rows, "cells": cells}]
        if rows
        else []
    )


def _colour(image: Tensor) -> str:
    """Return the mean colour of an image (C, H, W) of bytes as a page writes it, #rrggbb."""
    mean = image.float().mean(dim=(1, 2)).round().int().tolist()
    red, green, blue = mean if len(mean) == 3 else mean[:1] * 3
    return f"#{red:02x}{green:02x}{blue:02x}"
