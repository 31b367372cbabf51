"""``audit`` for Python, and the folder that it writes."""

from __future__ import annotations

import json
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from logit_correction.auditing import figures
from logit_correction.auditing.budget import sheet
from logit_correction.auditing.contrast import contrasts
from logit_correction.auditing.labels import read_labels
from logit_correction.auditing.page import write_page
from logit_correction.auditing.rows import (
    CSV,
    PARQUET,
    may_be_mislabelled,
    read_rows,
    rows_frame,
    with_answers,
    write_rows,
)
from logit_correction.auditing.search import Searched, expected_of_lc, search
from logit_correction.config import Choice, RunConfig
from logit_correction.data.table import DataTable
from logit_correction.errors import InputError
from logit_correction.files import replacing
from logit_correction.runs import folder as files
from logit_correction.runs import lock, summary
from logit_correction.runs.api import Part, config_of
from logit_correction.training.display import Display, choose_display

#: The files of an audit beside its rows.
AUDIT, SHEET, FIX, PAGE = "audit.json", "sheet.csv", "fix.yaml", "report.html"

#: Training rows that a page shows at most, those of the highest score first.
SHOWN = 60


class Audit:
    """A finished audit.

    Attributes:
        path: Its folder.
        summary: Content of ``audit.json``.
    """

    def __init__(self, folder: Path | str, *, place: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """Read the audit in ``folder``.

        Raises:
            InputError: If there is none.
        """
        self.path = Path(folder)
        if place is not None:
            weakref.finalize(self, place.cleanup)
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
        """Say what it is."""
        return f"Audit({self.verdict}, {str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook."""
        from html import escape

        named = ", ".join(self.views)
        head = escape(f"{self.verdict}: {named}" if named else self.verdict)
        return f"<p><strong>{head}</strong>. {escape(str(self.summary['sentence']))}</p>"


def audit(
    data: RunConfig | Part,
    out: Path | str | None = None,
    *,
    network: Part | None = None,
    encoder: Part | None = None,
    run: Path | str | None = None,
    predictions: Path | str | None = None,
    shortcut: Sequence[str] = (),
    legitimate: Sequence[str] = (),
    try_fix: bool = True,
    label_budget: int | None = None,
    progress: bool = False,
    **training: Any,
) -> Audit:
    """Look for a shortcut in a data set that has no group labels, and write what was found; reads no attribute.

    Args:
        data: The data source, as ``train`` takes it. Or a whole ``RunConfig``, beside which no part is given.
        out: Folder to write, new or empty. None keeps the audit for as long as the returned object lives.
        network: The ordinary classifier; by default one that fits the data.
        encoder: A frozen network whose features take the place of the inputs.
        run: Folder of a finished run of ERM on the same data: its network is examined on the validation rows, and no
            other is trained.
        predictions: File of what any classifier says of rows that it was not trained on; see ``Auto``.
        shortcut: Views that a person calls a shortcut; they are looked at whatever the search concludes.
        legitimate: Views that a person calls none.
        try_fix: Where there is a shortcut, and no classifier to examine was given, train LC in folds to see what it
            would bring; costs about two trainings.
        label_budget: Write a sheet of so many rows whose attribute a person should name.
        progress: Show progress as the command does.
        **training: Options of ``TrainingConfig``, such as ``epochs`` and ``seed``.

    Returns:
        The audit: its path, summary and rows.

    Raises:
        InputError: Something given is wrong; nothing was trained.

    >>> found = audit({"name": "Digits", "minority_ratio": 0.05}, epochs=2, threads=1, try_fix=False)
    >>> found.verdict, found.views
    ('shortcut', ['colour'])
    """
    parts = {"network": network, "encoder": encoder}
    if isinstance(data, RunConfig):
        config = data
        if training or any(part is not None for part in parts.values()):
            raise InputError("a whole RunConfig has its options: write them into it rather than beside")
    else:
        given = {name: part for name, part in parts.items() if part is not None}
        config = config_of({"data": data, "method": "LC", **given}, None, training)
    options = {"run": run, "predictions": predictions, "legitimate": list(legitimate) or None}
    estimator = {"name": "Auto", **{k: str(v) if k in ("run", "predictions") else v for k, v in options.items() if v}}
    config = replace(config, method=Choice("LC", {"attributes": estimator}))
    place = None if out is not None else tempfile.TemporaryDirectory(prefix="logit-correction-")
    folder = Path(out) if out is not None else Path(place.name) / "audit"  # type: ignore[union-attr]
    _check_out(folder)
    files.make(folder)
    with lock.hold(folder):
        _audit_into(folder, config, list(shortcut), try_fix, label_budget, progress)
    return Audit(folder, place=place)


def _check_out(folder: Path) -> None:
    if (folder / AUDIT).is_file():
        raise InputError(f"--out {folder} already holds an audit: give another folder")
    if folder.is_dir() and any(path.name not in (lock.LOCK, files.RESUME) for path in folder.iterdir()):
        raise InputError(f"--out {folder} is not empty and holds no audit: give a new or empty folder")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file: give a folder")


def _audit_into(
    out: Path, config: RunConfig, shortcut: list[str], try_fix: bool, label_budget: int | None, progress: bool
) -> None:
    """Search, put down the rows, try the fix, and write everything; ``audit.json`` comes last."""
    started = time.monotonic()

    def new_display() -> Display:
        return choose_display() if progress else Display()

    searched = search(config, out, shortcut, new_display())
    table, view = searched.table, searched.view
    attribute = None if view is None else searched.estimator.row_attribute.cpu()
    frame = rows_frame(table, searched.findings, attribute, view)
    write_rows(frame, out)
    files.write_text(out / files.CONFIG, replace(searched.config, method=Choice("LC")).to_yaml())
    if attribute is not None:
        files.write_text(out / FIX, _fix_config(searched, out).to_yaml())
        if try_fix and run_of(searched) is None:
            fixed = expected_of_lc(searched, out / CSV, out, new_display)
            frame = _with_fixed(frame, table, attribute, fixed)
            write_rows(frame, out)
    (out / files.RESUME).unlink(missing_ok=True)
    if label_budget is not None:
        write_sheet(out, frame, list(table.label_names), label_budget, config.training.seed)
    found = _summary(searched, frame, bool(shortcut)) | {"seconds": time.monotonic() - started}
    _write(out, found, frame, None if table.texts is None else list(table.texts))


def run_of(searched: Searched) -> str | None:
    """Return the run or the file of predictions that was examined; None where the audit trained networks of its own."""
    return searched.estimator.run or searched.estimator.predictions


def _fix_config(searched: Searched, out: Path) -> RunConfig:
    """Return the config of a training of LC on the rows of the audit."""
    given = {"name": "Given", "file": str((out / CSV).resolve())}
    return replace(searched.config, method=Choice("LC", {"attributes": given}))


def _with_fixed(frame: pd.DataFrame, table: DataTable, attribute: torch.Tensor, fixed: torch.Tensor) -> pd.DataFrame:
    """Add what LC says of the training rows, and which of them look mislabelled by it."""
    label, names = table.label[table.split["train"]], np.asarray(table.label_names, dtype=object)
    known = (~fixed[:, 0].isnan()).nonzero().squeeze(1)
    own = np.full(len(frame), -1, dtype=np.int64)
    own[: len(label)] = label.numpy()
    frame = with_answers(frame, "fixed", known.numpy(), fixed[known], names, own)
    noise = np.full(len(frame), None, dtype=object)
    noise[known.numpy()] = may_be_mislabelled(fixed[known], label[known], attribute[known]).numpy()
    return frame.assign(label_noise=noise)


def _summary(searched: Searched, frame: pd.DataFrame, said: bool) -> dict[str, Any]:
    """Return the content of ``audit.json``; ``said``: a person said what the shortcut is, and is not asked again."""
    table, evidence = searched.table, searched.estimator.evidence
    assert evidence is not None
    names = [str(name) for name in table.label_names]
    train = frame[frame["split"] == "train"]
    return {
        "verdict": evidence["verdict"],
        "views": evidence["views"],
        "sentence": evidence["sentence"],
        "leans": figures.leans(evidence),
        "would_change": "" if said else figures.would_change(evidence),
        "question": None if said else figures.question(evidence),
        "labels": figures.by_label(frame, searched.view, names, evidence["verdict"]),
        "groups": figures.groups(frame, names, searched.config.training.seed),
        "cost": figures.cost(frame),
        "contrasts": [] if searched.view is None else contrasts(table, frame, evidence["views"]),
        "evidence": evidence,
        "rows": {
            "file": CSV,
            "train": len(train),
            "conflicting": int(train["conflicting"].eq(True).sum()),
            "label_noise": int(train["label_noise"].eq(True).sum()) if "label_noise" in train else None,
        },
        "examined": run_of(searched),
        "data": summary.describe_data(searched.config, table),
        "network": {"name": searched.config.network.name, "options": searched.config.network.options},
        "training": {"epochs": searched.config.training.epochs, "seed": searched.config.training.seed},
        "labels_read": {"train": ["label"], "valid": ["label"], "test": []},
        "labelled": None,
        "environment": summary.environment(torch.device(searched.config.training.device.replace("auto", "cpu"))),
    }


def _write(out: Path, found: Mapping[str, Any], frame: pd.DataFrame, texts: list[str] | None) -> None:
    """Write the page and, last, ``audit.json``."""
    shown = _shown(frame, texts)
    found = {**found, "shown": shown} if "shown" not in found else dict(found)
    write_page(found, out, out / PAGE)
    files.write_json(out / AUDIT, found)


def _shown(frame: pd.DataFrame, texts: list[str] | None) -> list[dict[str, Any]]:
    """Return the conflicting training rows of the highest score, with names and full texts."""
    train = frame[(frame["split"] == "train") & frame["conflicting"].eq(True)]
    chosen = train.sort_values("score", ascending=False, kind="stable")[:SHOWN]
    keys = [name for name in ("row", "path", "name", "label", "attribute", "score", "network_label", "fixed_label")]
    rows = []
    for entry in chosen.to_dict("records"):
        row = {name: _plain(entry[name]) for name in keys if name in entry}
        row["label_noise"] = bool(entry["label_noise"]) if _plain(entry.get("label_noise")) is not None else None
        row["text"] = None if texts is None else texts[int(entry["row"])]
        rows.append(row)
    return rows


def _plain(value: Any) -> Any:
    """Return a cell as a plain value, None where it is empty."""
    if value is None or value is pd.NA or value != value:
        return None
    return value.item() if hasattr(value, "item") else value


def write_sheet(out: Path, frame: pd.DataFrame, label_names: list[str], budget: int, seed: int) -> None:
    """Write the sheet of rows that a person should look at."""
    rows = sheet(frame, label_names, budget, seed)
    with replacing(out / SHEET) as temporary:
        rows.to_csv(temporary, index=False)


def add_sheet(folder: Path, budget: int) -> None:
    """Write the sheet of a finished audit.

    Raises:
        InputError: If there is no audit, or the budget is too small.
    """
    found = read_audit(folder)
    write_sheet(folder, read_rows(folder), found["data"]["label_names"], budget, found["training"]["seed"])


def add_labels(folder: Path, file: Path) -> dict[str, Any]:
    """Take in a sheet that a person has filled in, and write page and summary anew.

    Returns:
        The new summary.

    Raises:
        InputError: If there is no audit, or the sheet is not the one that it wrote.
    """
    found, frame = read_audit(folder), read_rows(folder)
    found["labelled"] = read_labels(frame, file, found["data"]["label_names"], found["training"]["seed"])
    _write(folder, found, frame, None)
    return found


def read_audit(folder: Path) -> dict[str, Any]:
    """Return the ``audit.json`` of a finished audit.

    Raises:
        InputError: If there is none, or it is damaged.
    """
    if not (folder / AUDIT).is_file() or not (folder / PARQUET).is_file():
        raise InputError(f"{folder} holds no finished audit: run `logit-correction audit --data ... --out {folder}`")
    try:
        found = json.loads((folder / AUDIT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / AUDIT} is damaged ({error}): run the audit again") from error
    if not isinstance(found, dict) or "verdict" not in found:
        raise InputError(f"{folder / AUDIT} is no summary of an audit: run the audit again")
    return found
