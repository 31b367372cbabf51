"""Every row that was looked at, with all that the audit knows of it: the table behind ``rows.csv``, and its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from logit_correction.atomic_files import replace_atomically
from logit_correction.data.table import DataTable
from logit_correction.finding import BASELINE, MIN_CONFLICTS_TO_CHECK, Finding
from logit_correction.functional import wilson_interval
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.evidence import find_conflicts
from logit_correction.shortcuts.search import Correction
from logit_correction.spreadsheets import write_spreadsheet_csv
from logit_correction.views.tables import find_viewed_columns

CSV, PARQUET = "rows.csv", "rows.parquet"

#: Column of ``rows.parquet`` alone: what a row holds, for people.
CONTENT = "content"

#: Training rows that a page shows at most, those of the highest score first.
SHOWN_ROWS = 60


#: Who is judged, as the columns of the rows begin: the classifier, and LC.
WHO = ("network", "fixed")

#: A classifier relies on a view if it follows it in so many conflicting rows, and oftener than it errs elsewhere.
FOLLOWS = 0.12


def rows_frame(
    table: DataTable, estimator: Auto, views: Sequence[str], doubted: Correction | None = None
) -> pd.DataFrame:
    """Return one row for each training row, and for each validation row that was judged; ``docs/audit.md`` has columns.

    ``estimator`` is after its search, and after its estimate where there are ``views`` of a shortcut. Without such the
    judged rows are told by the candidate that is ``doubted``, if there is one, so that a person can look at them.
    """
    search, rows, names = estimator.search, table.split["train"], np.asarray(table.label_names, dtype=object)
    assert search is not None
    asked, told = search.judged.rows, estimator.estimates
    if search.judged.split == "valid":
        judged = table.split["valid"][asked]
        if views:
            new = estimator.estimates_of(table.label[judged], table.view_inputs("valid").take(asked))
            told = [(torch.cat([a, b]), torch.cat([p, q])) for (a, p), (b, q) in zip(told, new, strict=True)]
        asked, rows = len(rows) + torch.arange(len(asked)), torch.cat([rows, judged])
    label, estimated = table.label[rows], torch.arange(len(rows))
    if doubted is not None:
        views, told, estimated = doubted.weighed.views, [(doubted.attribute, doubted.seen)], asked
    frame = pd.DataFrame({"row": rows.numpy()})
    if table.lines is not None:
        frame["line"] = table.lines[rows].numpy()
    if table.row_names is not None and not table.columns:  # rows of columns are only numbered
        frame["path" if table.files is not None else "name"] = [str(table.row_names[row]) for row in rows.tolist()]
    if (held := table.describe_rows(rows, find_viewed_columns(views, table.columns))) is not None:
        frame[CONTENT] = held
    frame["split"] = np.where(np.arange(len(rows)) < len(table.split["train"]), "train", "valid")
    frame = frame.assign(label=names[label.numpy()], attribute=None, conflicting=None, score=np.nan)
    frame = frame.assign(view_label=None, sure=None)
    posterior = torch.full((len(rows), len(names)), torch.nan, dtype=torch.float64)
    if views:
        attributes, likely = (torch.stack(one) for one in zip(*told, strict=True))
        own = label[estimated].unsqueeze(1)
        # Of several shortcuts the first that a row conflicts by, or the first of all.
        first = (attributes != label[estimated]).int().argmax(dim=0), torch.arange(len(own))
        attribute, found = attributes[first], likely[first]
        found = (found / found.sum(dim=1, keepdim=True)).double()
        posterior[estimated] = found
        others = found.scatter(1, own, -1).amax(dim=1)
        score = others / (others + found.gather(1, own).squeeze(1) + 1e-12)
        places = estimated.numpy()
        frame.loc[places, "attribute"] = names[attribute.numpy()]
        frame.loc[places, "conflicting"] = (attribute != label[estimated]).numpy()
        frame.loc[places, "score"] = score.numpy().round(4)
        looked = doubted or search.get_candidate(views)
        assert looked is not None
        says, conflict = find_conflicts(search.seen[looked.weighed.views], label[asked])
        places = asked.numpy()
        frame.loc[places, "view_label"] = names[says.numpy()]
        frame.loc[places, "sure"] = conflict.numpy()
    probability = pd.DataFrame(posterior.numpy().round(4), columns=[f"p_{name}" for name in names])
    return with_answers(pd.concat([frame, probability], axis=1), "network", asked, search.judged.network, table)


def with_answers(frame: pd.DataFrame, who: str, rows: Tensor, probability: Tensor, table: DataTable) -> pd.DataFrame:
    """Add what a classifier says of rows at (m,) places: ``WHO_label``, and ``WHO_p`` of the row's own label."""
    names, places = np.asarray(table.label_names, dtype=object), rows.numpy()
    label = table.label[torch.tensor(frame["row"].to_numpy())[rows]]
    frame = frame.assign(**{f"{who}_label": None, f"{who}_p": np.nan})
    frame.loc[places, f"{who}_label"] = names[probability.argmax(dim=1).numpy()]
    own = probability.double().gather(1, label.unsqueeze(1)).squeeze(1)
    frame.loc[places, f"{who}_p"] = own.numpy().round(4)
    return frame


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
        low, high = wilson_interval(torch.tensor(counts.to_numpy()), int(counts.sum()))
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
    low, high = wilson_interval(right, len(asked))
    value = right / len(asked) if len(asked) else None
    return {"accuracy": value, "low": float(low), "high": float(high), "rows": len(asked)}


def cost(frame: pd.DataFrame, classifier: str = BASELINE, shortcuts: int = 1) -> dict[str, Any]:
    """Return the accuracy of each classifier, and what it is called, on conflicting and on agreeing rows.

    Of several ``shortcuts`` rows agree with all. Which rows conflict is estimated; the intervals tell of the number of
    rows alone.
    """
    found: dict[str, Any] = {}
    told = frame[frame["conflicting"].notna()]
    for who in WHO:
        if f"{who}_label" not in told or not told[f"{who}_label"].notna().any():
            continue
        conflicting, agreeing = (accuracy(told[told["conflicting"].eq(one)], who) for one in (True, False))
        entry = {"name": classifier if who == "network" else "LC", "conflicting": conflicting, "agreeing": agreeing}
        entry["balanced"] = balanced(conflicting, agreeing, frame["label"].nunique() ** max(1, shortcuts))
        found[who] = entry | {"like_training": accuracy(told, who)}
    return found


def balanced(conflicting: Mapping[str, Any], agreeing: Mapping[str, Any], values: int) -> dict[str, Any]:
    """Return the accuracy if one row in ``values`` agreed, its interval by those of the two kinds of rows."""
    if conflicting["accuracy"] is None or agreeing["accuracy"] is None:
        return {"accuracy": None, "low": 0.0, "high": 1.0}
    shares = (agreeing, 1 / values), (conflicting, 1 - 1 / values)
    value = sum(share * one["accuracy"] for one, share in shares)
    low, high = (
        math.hypot(*(share * (one[end] - one["accuracy"]) for one, share in shares)) for end in ("low", "high")
    )
    return {"accuracy": value, "low": max(0.0, value - low), "high": min(1.0, value + high)}


def relies_on_shortcut(finding: Finding) -> bool | None:
    """Return whether the classifier relies on the views of a shortcut; None where that cannot be told."""
    look, weighed = finding.main_evidence, finding.candidate
    if not finding.views or look is None or weighed is None or look.rows < MIN_CONFLICTS_TO_CHECK:
        return None
    low, high, threshold = look.follows_low or 0.0, look.follows_high or 0.0, max(FOLLOWS, weighed.statistics.error)
    return True if low >= threshold else False if high < threshold else None


def shown_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the conflicting training rows of the highest score, with names and what they hold."""
    train = frame[(frame["split"] == "train") & frame["conflicting"].eq(True)]
    chosen = train.sort_values("score", ascending=False, kind="stable")[:SHOWN_ROWS].rename(columns={CONTENT: "text"})
    told = ("row", "line", "path", "name", "text", "label", "attribute", "score")
    keys = [name for name in (*told, "network_label", "fixed_label") if name in chosen]
    known = chosen[keys].astype(object)
    return [{str(k): v for k, v in row.items()} for row in known.where(known.notna(), None).to_dict("records")]


def write_rows(frame: pd.DataFrame, out: Path) -> None:
    """Write ``rows.csv`` and ``rows.parquet``."""
    write_spreadsheet_csv(frame.drop(columns=CONTENT, errors="ignore"), out / CSV)
    typed = frame.astype({name: "boolean" for name in frame if name in ("conflicting", "sure")})
    with replace_atomically(out / PARQUET) as temporary:
        typed.to_parquet(temporary, index=False)
