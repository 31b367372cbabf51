"""What a view sees of a shortcut: images side by side, columns and words with their counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.data.image_files import read_picture
from logit_correction.data.table import DataTable
from logit_correction.pages.plots import encode_png_uris
from logit_correction.shortcuts.heads import select_features_by_correlation, standardize
from logit_correction.types import ViewInputs
from logit_correction.view_names import ViewName
from logit_correction.views.base import available_views, find_views
from logit_correction.views.tables import (
    Pairs,
    assign_parts,
    compare_columns,
    compute_edges_by_label,
    describe_bins,
    find_commonest_names,
    find_missing,
    is_numeric,
)
from logit_correction.views.texts import EDGE_MARK, Form, TermView

#: Images of a kind side by side, labels that are shown, words of a label that tell and that a person reads, values of a
#: column, bins of its numbers, and parts of each of two columns.
IMAGES, LABELS, TERMS, WORDS, VALUES, BINS, SIDE = 6, 6, 4, 8, 12, 6, 4

#: Families of views of what is lost where an image is made small, and the side of the crop that shows it.
FINE, CROP = {"file", "spectrum", "stripes", "texture"}, 64

#: What a row is called that has no value.
MISSING = "(missing)"

#: From values of a column to what people call them.
Speller: TypeAlias = Callable[[NDArray[Any]], list[str]]


def contrasts(table: DataTable, frame: pd.DataFrame, views: Sequence[str]) -> list[dict[str, Any]]:
    """Return what there is to show of the views of a shortcut, one entry a kind, as plain values."""
    inputs, label = table.view_inputs("train"), table.label[table.split["train"]]
    own = np.asarray(table.label_names, dtype=object)[label.numpy()]
    found: list[dict[str, Any]] = []
    for view in find_views(views, inputs):
        family, member = ViewName.of(view.name)
        told: dict[str, Any] = {}
        if isinstance(view, TermView):
            view.fit(inputs)
            told = {"kind": "terms", "rows": _terms(_spelled(view), view.features(inputs), label, table.label_names)}
        elif view.name == "missing":
            empty = {column: gaps for column, values in inputs.columns.items() if (gaps := find_missing(values)).any()}
            features = torch.from_numpy(np.stack([*empty.values()], axis=1)).float()
            told = {"kind": "terms", "rows": _terms([*empty], features, label, table.label_names)}
        elif family == "column" and member in inputs.columns:
            parts = _parts(np.asarray(inputs.columns[member]), own, partial(table.format_column_values, member))
            told = {"kind": "values", "rows": _counted(*parts, own)}
        elif isinstance(view, Pairs):
            told = {"kind": "values", "rows": _counted(*_related(table, view, inputs, own), own)}
        found += [told | {"view": view.name}] if told else []
    names, train = [ViewName.of(view) for view in views], frame[frame["split"] == "train"]
    crop = CROP if any(family in FINE for family, _ in names) else None
    if inputs.image_shape is not None and (rows := _images(table, train, crop)):
        cells = [] if crop else [member for family, member in names if family == "places"]
        found.append({"kind": "images", "view": ", ".join(views), "rows": rows, "cells": cells, "crop": crop})
    return found


def spoken(table: DataTable) -> list[dict[str, Any]]:
    """Return the words of texts, and the form, that go with each label, whatever was concluded: one entry a view."""
    inputs, label, found = table.view_inputs("train"), table.label[table.split["train"]], list[dict[str, Any]]()
    for view in available_views(inputs, ("word", "opening", "closing", "form")) if inputs.texts is not None else ():
        view.fit(inputs)
        features = view.features(inputs)
        if isinstance(view, TermView):
            rows = _terms(_spelled(view), features, label, table.label_names, WORDS)
            found.append({"kind": "terms", "view": view.name, "rows": rows})
        elif isinstance(view, Form):
            found.append({"kind": "numbers", "view": view.name, "rows": _form(features, label, table.label_names)})
    return found


def _form(features: Tensor, label: Tensor, label_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return what of the form the texts of a label have more of than all others, in standard deviations."""
    values, rows = standardize(features, *torch.std_mean(features, dim=0)), []
    for number, name in enumerate(label_names):
        apart = values[label == number].mean(dim=0) - values[label != number].mean(dim=0)
        for column in apart.topk(TERMS).indices.tolist():
            term = Form.names[column]
            if apart[column] > 0:  # what a label has less of another has more of
                quoted = f"“{term}”" if len(term) == 1 else term
                rows.append({"term": quoted, "label": str(name), "deviations": float(apart[column])})
    return rows


def _spelled(view: TermView) -> list[str]:
    """Return the terms of a view for people: the outermost word of a text is told in words."""
    where = {"opening": " (first word)", "closing": " (last word)"}.get(view.name, "")
    return [one.removeprefix(EDGE_MARK) + where if one.startswith(EDGE_MARK) else one for one in view.terms]


def _terms(
    terms: Sequence[str], features: Tensor, label: Tensor, label_names: Sequence[str], most: int = TERMS
) -> list[dict[str, Any]]:
    """Return the terms that go most with each label, and in how many rows of this and of other labels they are."""
    sizes, rows = torch.bincount(label, minlength=len(label_names)).clamp_min(1), []
    for column in select_features_by_correlation(features, label, len(label_names), most).tolist():
        counts = torch.bincount(label[features[:, column] > 0], minlength=len(label_names))
        if not counts.any():  # a view that learnt no term has one empty feature
            continue
        top = int((counts / sizes).argmax())
        own, others = int(counts[top]), int(counts.sum() - counts[top])
        shares = {"share": own / int(sizes[top]), "other_share": others / max(1, int((label != top).sum()))}
        entry = {"term": terms[column], "label": str(label_names[top]), "rows": own, "other_rows": others}
        rows.append(entry | shares)
    return sorted(rows, key=lambda row: row["other_share"] - row["share"])


def _parts(
    values: NDArray[Any], label: NDArray[Any], spell: Speller, most: int = VALUES, of: str = ""
) -> tuple[NDArray[Any], list[str]]:
    """Return the part that each row has (N,) of values, in words after ``of``, and all parts in order.

    A part is a value; of more than ``most`` one of the commonest names, or a bin of numbers. Bins end where the label
    changes: those of equally many rows would hide where that is.
    """
    if is_numeric(values):
        there = np.unique(values[np.isfinite(values)])
        cuts = there[1:].tolist() if len(there) <= most else compute_edges_by_label(values, label, min(most, BINS))
        order = describe_bins(values, cuts, spell)
    else:
        cuts = find_commonest_names(values[values != ""], most)
        order = [*cuts, "(others)"]
    order = [of + one for one in (*order, MISSING)]
    return np.asarray(order, dtype=object)[assign_parts(values, cuts)], order


def _shortest(ends: NDArray[Any]) -> list[str]:
    """Return numbers with four digits, or with as many as it takes to tell them apart."""
    for digits in range(4, 13):  # beyond that there is noise
        told = [f"{end:.{digits}g}" for end in ends]
        if len({*told}) == len({*ends.tolist()}):
            break
    return told


def _related(table: DataTable, pair: Pairs, inputs: ViewInputs, label: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Return the parts of two columns together that tell most of the label, as ``_parts`` does.

    They are which of two numbers is greater, their difference or their ratio in bins, or a part of each column.
    """
    (a, b), (first, second) = pair.columns, (np.asarray(inputs.columns[name]) for name in pair.columns)
    found = list[tuple[NDArray[Any], list[str]]]()
    if is_numeric(first) and is_numeric(second):
        order = [f"{a} < {b}", f"{a} = {b}", f"{a} > {b}", MISSING]
        found.append((np.asarray(order, dtype=object)[compare_columns(first, second)], order))
        x, y = first.astype(np.float64), second.astype(np.float64)
        for sign, values in ({"−": x - y} | ({"/": x / y} if (y != 0).all() else {})).items():
            found.append(_parts(values, label, _shortest, of=f"{a} {sign} {b} "))
    own, others = (
        _parts(values, label, partial(table.format_column_values, name), SIDE, f"{name} ")
        for name, values in zip(pair.columns, (first, second), strict=True)
    )
    found.append((own[0] + ", " + others[0], [f"{one}, {other}" for one in own[1] for other in others[1]]))

    def right(parts: tuple[NDArray[Any], list[str]]) -> int:
        counts = pd.crosstab(parts[0], label)
        return int(counts.max(axis=1).sum()) - len(counts)  # a part has to be worth a row

    return max(found, key=right)


def _counted(texts: NDArray[Any], order: Sequence[str], label: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the commonest label of each part that rows have, and how many have it and another."""
    counts = pd.crosstab(texts, label)
    return [
        {"value": one, "label": row.idxmax(), "rows": int(row.max()), "other_rows": int(row.sum() - row.max())}
        for one, row in counts.reindex([*dict.fromkeys(order)]).dropna().iterrows()
    ]


def _images(table: DataTable, train: pd.DataFrame, crop: int | None) -> list[dict[str, Any]]:
    """Return images that agree beside images that conflict, label by label, the clearest first.

    With ``crop`` they are the middle of the images as they are in their files, so many pixels each way at most.
    """
    rows = []
    for name in train.loc[train["conflicting"].eq(True), "label"].value_counts().index[:LABELS]:
        own = train[train["label"] == name]
        entry: dict[str, Any] = {"label": str(name)}
        for kind in ("agree", "conflict"):
            of_kind = own[own["conflicting"].eq(kind == "conflict")]
            chosen = of_kind.sort_values("score", ascending=kind == "agree", kind="stable")[:IMAGES]
            numbers, looks = chosen["row"].tolist(), chosen["attribute"].astype(str)
            images = table.inputs.images(torch.tensor(numbers))
            if images is None:
                return []
            shown = zip(numbers, images, looks, strict=True)
            entry[kind] = [
                {
                    "image": encode_png_uris(_middle(table, row, image, crop) if crop else image[None])[0],
                    "looks_like": look,
                }
                for row, image, look in shown
            ]
        rows.append(entry)
    return rows


def _middle(table: DataTable, row: int, image: Tensor, side: int) -> Tensor:
    """Return the middle of an image (1, C, H, W), at most ``side`` pixels each way, of its file where it has one."""
    if table.files is not None:
        image = torch.from_numpy(read_picture(table.files[row], None, ranges=table.preparation.get("ranges")).pixels)
    top, left = (max(0, (length - side) // 2) for length in image.shape[1:])
    return image[None, :, top : top + side, left : left + side]
