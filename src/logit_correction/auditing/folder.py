"""The folder of an audit: what is written there, read back and gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, TypedDict

import pandas as pd

from logit_correction.attributes.evidence import Thresholds
from logit_correction.auditing.budget import sheet
from logit_correction.auditing.labels import filled_in, read_labels
from logit_correction.auditing.rows import CSV, PARQUET, read_rows
from logit_correction.errors import InputError
from logit_correction.evaluation.record import Count, from_plain
from logit_correction.files import SEAL, check_new, check_seal, read_json, replacing, seal
from logit_correction.pages.audit_page import render_audit
from logit_correction.pages.page import save_page
from logit_correction.runs import folder as files
from logit_correction.sentences import headline

#: The files of an audit beside its rows.
AUDIT, SHEET, FIX, PAGE = "audit.json", "sheet.csv", "fix.yaml", "report.html"


class _Rows(TypedDict):
    train: Count


class _Data(TypedDict):
    name: str
    rows: _Rows
    label_names: list[str]
    warnings: list[str]


class _Training(TypedDict):
    seed: Count


class AuditSummary(TypedDict):
    """What must stand in ``audit.json``; there is more."""

    verdict: str
    sentence: str
    would_change: str
    classifier: str
    views: list[Any]
    labels: list[Any]
    groups: list[Any]
    contrasts: list[Any]
    shown: list[Any]
    cost: dict[str, Any]
    evidence: dict[str, Any]
    rows: dict[str, Any]
    data: _Data
    training: _Training


class Audit:
    """A finished audit.

    Attributes:
        path: Its folder.
        summary: Content of ``audit.json``.

    Read back a finished one, and count what conflicts::

        found = Audit("audit")
        print(found.verdict, found.views)
        conflicts = found.rows[found.rows["conflicting"].eq(True)]
    """

    def __init__(self, folder: Path | str) -> None:
        """Read the audit in ``folder``.

        Raises:
            InputError: If there is none.
        """
        self.path = Path(folder)
        self.summary: dict[str, Any] = read_audit(self.path)

    @property
    def verdict(self) -> str:
        """``shortcut``, ``none found`` or ``cannot tell``."""
        return str(self.summary["verdict"])

    @property
    def views(self) -> list[str]:
        """The views of the shortcut; empty without one."""
        return list(self.summary["views"])

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every row that was looked at; see ``rows_frame``."""
        return read_rows(self.path)

    def __repr__(self) -> str:
        return f"Audit({self.verdict}, {str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook."""
        return f"<p><strong>{escape(headline(self.summary))}</strong> {escape(self.summary['sentence'])}</p>"


def check_out(folder: Path) -> None:
    """Return if an audit may be written into the folder.

    Raises:
        InputError: If it holds an audit, or anything else.
    """
    if (folder / AUDIT).is_file():
        raise InputError(f"--out {folder} already holds an audit: give another folder")
    unfinished = (
        files.LOCK,
        files.RESUME,
        files.CONFIG,
        FIX,
        SHEET,
        PAGE,
        CSV,
        PARQUET,
        SEAL,
    )  # of one that was killed
    check_new(folder, unfinished, "audit")


def write_audit(out: Path, found: Mapping[str, Any]) -> None:
    """Write the page and, last, ``audit.json``."""
    save_page(render_audit(found, out, Thresholds().few_rows), out / PAGE)
    files.write_json(out / AUDIT, found)
    seal(out, (AUDIT, PARQUET))


def add_sheet(folder: Path, budget: int) -> None:
    """Write the sheet of rows that a person should look at, and the page that tells of it.

    Raises:
        InputError: If there is no audit, the budget is too small, or the sheet that is there is filled in.
    """
    found = read_audit(folder)
    if (folder / SHEET).is_file() and filled_in(folder / SHEET):
        raise InputError(f"{folder / SHEET} is filled in, at least in part: read it back by --labels, or move it away")
    rows = sheet(read_rows(folder), found["data"]["label_names"], budget, found["training"]["seed"])
    with replacing(folder / SHEET) as temporary:
        rows.to_csv(temporary, index=False)
    write_audit(folder, found | {"label_budget": budget})


def add_labels(folder: Path, file: Path) -> dict[str, Any]:
    """Take in a sheet that a person has filled in, and write page and summary anew.

    Returns:
        The new summary.

    Raises:
        InputError: If there is no audit, or the sheet is not the one that it wrote.
    """
    found, frame = read_audit(folder), read_rows(folder)
    found["labelled"] = read_labels(
        frame, file, found["data"]["label_names"], found["training"]["seed"], found["classifier"]
    )
    write_audit(folder, found)
    return found


def read_audit(folder: Path) -> dict[str, Any]:
    """Return the ``audit.json`` of a finished audit.

    Raises:
        InputError: If there is none, or it is damaged.
    """
    if not (folder / AUDIT).is_file() or not (folder / PARQUET).is_file():
        raise InputError(f"{folder} holds no finished audit: run `logit-correction audit --data ... --out {folder}`")
    found: dict[str, Any] = read_json(folder / AUDIT, "run the audit again")
    try:
        found = dict(from_plain(AuditSummary, found))
    except ValueError as error:
        raise InputError(f"{folder / AUDIT} is damaged ({error}): run the audit again") from error
    check_seal(folder / AUDIT, "run the audit again")
    return found
