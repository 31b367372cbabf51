"""``audit.json``: what must stand in it, and how it and the rows are read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pandas as pd

from logit_correction.auditing.rows import PARQUET
from logit_correction.data.frames import read_frame
from logit_correction.errors import InputError
from logit_correction.evaluation.record import Count, Share, from_plain
from logit_correction.evaluation.report import Evidence
from logit_correction.files import check_seal, read_json

#: Name of the file, and what to do about a damaged one.
AUDIT, FIX = "audit.json", "run the audit again"


class _Figure(TypedDict):
    accuracy: Share | None
    low: Share
    high: Share
    rows: Count


class _Cost(TypedDict):
    name: str
    conflicting: _Figure
    agreeing: _Figure


class _Label(TypedDict):
    label: str
    verdict: str
    sentence: str


class _Group(TypedDict):
    label: str
    attribute: str
    rows: Count
    share: Share
    share_low: Share
    share_high: Share


class _Row(TypedDict):
    row: Count
    label: str
    attribute: str
    score: Share


class _Rows(TypedDict):
    train: Count
    conflicting: Count
    label_noise: Count | None


class _Data(TypedDict):
    name: str
    rows: dict[str, Count]
    label_names: list[str]
    warnings: list[str]


class _Training(TypedDict):
    epochs: Count | None
    seed: Count


class AuditSummary(TypedDict):
    """What must stand in ``audit.json``; there is more."""

    verdict: str
    views: list[str]
    sentence: str
    leans: bool | None
    would_change: str
    question: dict[str, Any] | None
    labels: list[_Label]
    groups: list[_Group]
    cost: dict[str, _Cost]
    shown: list[_Row]
    contrasts: list[dict[str, Any]]
    evidence: Evidence
    rows: _Rows
    examined: str | None
    classifier: str
    data: _Data
    network: dict[str, Any]
    training: _Training
    labelled: dict[str, Any] | None


def read_audit(folder: Path) -> dict[str, Any]:
    """Return the ``audit.json`` of a finished audit.

    Raises:
        InputError: If there is none, or it is damaged; names the entry.
    """
    if not (folder / AUDIT).is_file() or not (folder / PARQUET).is_file():
        raise InputError(f"{folder} holds no finished audit: run `logit-correction audit --data ... --out {folder}`")
    found: dict[str, Any] = read_json(folder / AUDIT, FIX)
    try:
        found = dict(from_plain(AuditSummary, found))
    except ValueError as error:
        raise InputError(f"{folder / AUDIT} is damaged ({error}): {FIX}") from error
    check_seal(folder / AUDIT, FIX)
    return found


def read_rows(folder: Path) -> pd.DataFrame:
    """Return the rows of a finished audit.

    Raises:
        InputError: If the file is not as the audit wrote it.
    """
    check_seal(folder / PARQUET, FIX)
    return read_frame(folder / PARQUET)
