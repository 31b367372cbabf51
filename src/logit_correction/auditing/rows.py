"""Every row that was looked at, with all that the audit knows of it: the table behind ``rows.csv``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from logit_correction.attributes.auto import Auto
from logit_correction.attributes.evidence import Thresholds
from logit_correction.attributes.search import Search
from logit_correction.data.table import DataTable
from logit_correction.files import replacing, write_cells
from logit_correction.sentences import format_value

CSV, PARQUET = "rows.csv", "rows.parquet"

#: Column of ``rows.parquet`` alone: what a row holds, for people.
CONTENT = "content"

#: Training rows that a page shows at most, those of the highest score first; what is shown of each.
SHOWN, MOST_COLUMNS, MOST_CHARACTERS = 60, 8, 2000


def rows_frame(table: DataTable, estimator: Auto, view: str | None) -> pd.DataFrame:
    """Return one row for each training row, and for each validation row where those were judged.

    Cells are empty where unknown. The page ``docs/audit.md`` says what the columns mean.

    Args:
        table: The data.
        estimator: After its search, and its estimate where there is a shortcut.
        view: The view of the shortcut, as ``search.seen`` names it.
    """
    search, attribute, likely = estimator.search, None, None
    assert search is not None
    if view is not None:
        attribute, likely = estimator.row_attribute.cpu(), estimator.held_out
    train = _of_split(table, search, "train", attribute, likely, view)
    if search.judged.split == "train":
        return train
    if view is not None:
        assert estimator.kept is not None
        judged = search.judged.rows
        label, inputs = table.label[table.split["valid"]][judged], table.view_inputs("valid").take(judged)
        attribute, likely = estimator.estimate_new(label, inputs), estimator.kept.probability(inputs)
    valid = _of_split(table, search, "valid", attribute, likely, view)
    return pd.concat([train, valid[valid["network_label"].notna()]], ignore_index=True)


def _of_split(
    table: DataTable, search: Search, split: str, attribute: Tensor | None, likely: Tensor | None, view: str | None
) -> pd.DataFrame:
    """Return the rows of a split; of the validation rows ``attribute`` and ``likely`` tell of the judged ones alone."""
    rows, names = table.split[split].numpy(), np.asarray(table.label_names, dtype=object)
    label = table.label[table.split[split]].numpy()
    judged = search.judged.rows.numpy() if search.judged.split == split else np.zeros(0, dtype=np.int64)
    frame = pd.DataFrame({"row": rows})
    if table.row_names is not None:
        key = "path" if table.files is not None else "name"
        frame[key] = np.asarray([str(table.row_names[row]) for row in rows.tolist()], dtype=object)
    if (held := contents(table, rows, () if view is None else view.split(" + "))) is not None:
        frame[CONTENT] = np.asarray(held, dtype=object)
    posterior = np.full((len(rows), len(names)), np.nan)
    frame = frame.assign(split=split, label=names[label], attribute=None, conflicting=None, score=np.nan)
    frame = frame.assign(view_label=None, view_p=np.nan, sure=None)
    if attribute is not None and likely is not None:
        told = np.arange(len(rows)) if split == "train" else judged
        posterior[told] = (likely / likely.sum(dim=1, keepdim=True)).numpy()
        own, others = posterior[told, label[told]], posterior[told]
        others[np.arange(len(told)), label[told]] = -1
        frame.loc[told, "attribute"] = names[attribute.numpy()]
        frame.loc[told, "conflicting"] = attribute.numpy() != label[told]
        frame.loc[told, "score"] = (others.max(1) / (others.max(1) + own + 1e-12)).round(4)
    if view is not None and len(judged):
        confidence, says = (value.numpy() for value in search.seen[view].max(dim=1))
        likely_conflict = conflict_probability(search.seen[view], torch.from_numpy(label[judged]))
        frame.loc[judged, "view_label"] = names[says]
        frame.loc[judged, "view_p"] = likely_conflict.numpy().round(4)
        frame.loc[judged, "sure"] = (says != label[judged]) & (confidence > Thresholds().sure)
    frame = pd.concat([frame, pd.DataFrame(posterior.round(4), columns=[f"p_{name}" for name in names])], axis=1)
    return with_answers(frame, "network", judged, search.judged.network, names, label)


def with_answers(
    frame: pd.DataFrame, who: str, rows: NDArray, probability: Tensor, names: NDArray, label: NDArray
) -> pd.DataFrame:
    """Add what a classifier says of rows at (m,) places: ``WHO_label``, and ``WHO_p`` of the row's own label."""
    frame, found = frame.assign(**{f"{who}_label": None, f"{who}_p": np.nan}), probability.double().numpy()
    if len(rows):
        frame.loc[rows, f"{who}_label"] = names[found.argmax(1)]
        frame.loc[rows, f"{who}_p"] = found[np.arange(len(rows)), label[rows]].round(4)
    return frame


def conflict_probability(seen: Tensor, label: Tensor) -> Tensor:
    """Return how likely each row's attribute goes with another label than its own, (n,) float64.

    A head on a view predicts the label, P(y | v) = sum over a of P(y | a) P(a | v), as far as the view tells the
    attribute. P(y | a) is counted by the confident joint (Northcutt, Jiang and Chuang, 2021): of the rows of which the
    head is as sure as in the mean of that label. The equation is then solved for P(a | v), and the row's own label is
    taken for evidence: P(a | v, y) is in proportion to P(a | v) P(y | a).

    Args:
        seen: (n, L) held-out class probabilities of a head on the view.
        label: (n,) long.

    >>> seen = torch.tensor([[0.95, 0.05]] * 19 + [[0.05, 0.95]] * 19 + [[0.95, 0.05], [0.05, 0.95]])
    >>> label = torch.tensor([0] * 19 + [1] * 19 + [1, 0])
    >>> [round(float(p), 2) for p in conflict_probability(seen, label)[[0, -1]]]
    [0.0, 1.0]
    """
    num_labels, seen = seen.shape[1], seen.double()
    of_label = torch.nn.functional.one_hot(label, num_labels).double()
    typical = (seen * of_label).sum(dim=0) / of_label.sum(dim=0).clamp_min(1)
    confident = seen.where(seen >= typical, -torch.ones((), dtype=torch.float64))
    greatest, attribute = confident.max(dim=1)
    told = greatest >= 0
    cell = attribute[told] * num_labels + label[told]
    joint = torch.bincount(cell, minlength=num_labels**2).view(num_labels, num_labels).double() + 1e-3
    given = joint / joint.sum(dim=1, keepdim=True)  # P(y | a), a row for each a
    solved = torch.linalg.lstsq(given.t(), seen.t()).solution.t().clamp_min(0)
    solved = solved / solved.sum(dim=1, keepdim=True).clamp_min(1e-12)
    posterior = solved * given[:, label].t()
    posterior = posterior / posterior.sum(dim=1, keepdim=True).clamp_min(1e-12)
    return 1 - posterior.gather(1, label.unsqueeze(1)).squeeze(1)


def with_fixed(frame: pd.DataFrame, table: DataTable, attribute: Tensor, fixed: Tensor) -> pd.DataFrame:
    """Add what LC says (N, L) of the training rows, and which of them look mislabelled by it; NaN are not judged."""
    label, names = table.label[table.split["train"]], np.asarray(table.label_names, dtype=object)
    known = (~fixed[:, 0].isnan()).nonzero().squeeze(1)
    frame = with_answers(frame, "fixed", known.numpy(), fixed[known], names, label.numpy()).assign(label_noise=None)
    noise = may_be_mislabelled(fixed[known], label[known], attribute[known])
    frame.loc[known.numpy(), "label_noise"] = noise.numpy()
    return frame


def may_be_mislabelled(probability: Tensor, label: Tensor, attribute: Tensor) -> Tensor:
    """Return which conflicting rows may just have a wrong label, (n,) bool.

    View and label disagree in both kinds of row. But a classifier that does not lean on the shortcut sees the label in
    a conflicting row, and in a mislabelled one the other label too. So a row is marked where that classifier is as sure
    of what the row looks like as of the typical true row of that label; which finds about half of them. (Confident
    learning of Northcutt, Jiang and Chuang, 2021, compares with the mean, and without a view.)

    Args:
        probability: (n, L), what LC says that was not trained on the row.
        label: (n,) long.
        attribute: (n,) long, the label that the row looks like.

    >>> probability = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.95, 0.05], [0.6, 0.4]])
    >>> may_be_mislabelled(probability, torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 0, 0]))
    tensor([False, False, False,  True, False])
    """
    typical = torch.full((probability.shape[1],), 2.0)  # no row reaches that of a label without an agreeing row
    for value in range(probability.shape[1]):
        agreeing = (label == value) & (attribute == value)
        if agreeing.any():
            typical[value] = probability[agreeing, value].median()
    reached = probability.gather(1, attribute.unsqueeze(1)).squeeze(1) >= typical[attribute]
    return (label != attribute) & reached


def contents(table: DataTable, rows: NDArray, views: Sequence[str]) -> list[str] | None:
    """Return what rows of texts or of a table hold, the columns of the views first; None of other data."""
    if table.texts is not None:
        return [str(table.texts[row])[:MOST_CHARACTERS] for row in rows.tolist()]
    looked_at = [view.removeprefix("column:") for view in views]
    names = sorted(table.columns, key=lambda name: name not in looked_at)[:MOST_COLUMNS]
    more = f" and {len(table.columns) - len(names)} more" if len(names) < len(table.columns) else ""
    told = [[f"{name} {format_value(value)}" for value in table.columns[name][rows].tolist()] for name in names]
    return [", ".join(cells) + more for cells in zip(*told, strict=True)] if told else None


def shown_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the conflicting training rows of the highest score, with names and what they hold."""
    train = frame[(frame["split"] == "train") & frame["conflicting"].eq(True)]
    chosen = train.sort_values("score", ascending=False, kind="stable")[:SHOWN].rename(columns={CONTENT: "text"})
    keys = ("row", "path", "name", "text", "label", "attribute", "score", "network_label", "fixed_label", "label_noise")
    known = chosen[[name for name in keys if name in chosen]].astype(object)
    return [{str(k): v for k, v in row.items()} for row in known.where(known.notna(), None).to_dict("records")]


def write_rows(frame: pd.DataFrame, out: Path) -> None:
    """Write ``rows.csv`` and ``rows.parquet``."""
    write_cells(frame.drop(columns=CONTENT, errors="ignore"), out / CSV)
    typed = frame.astype({name: "boolean" for name in frame if name in ("conflicting", "sure", "label_noise")})
    with replacing(out / PARQUET) as temporary:
        typed.to_parquet(temporary, index=False)
