"""The files of an audit's folder, and the mark by which a user's own audits are trusted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from logit_correction.atomic_files import write_text_file
from logit_correction.checksums import CHECKSUMS_FILE, verify_checksum, write_checksums
from logit_correction.data.cache import compute_digest, get_cache_folder
from logit_correction.evaluation.answers import AnswerCounts
from logit_correction.pages.page import save_page
from logit_correction.runs import folder as run_folder
from logit_correction.runs.options import RunConfig
from logit_correction.runs.row_inputs import write_row_archive
from logit_correction.serialization import from_json_values, read_json_file
from logit_correction.shortcuts.answered_rows import count_answers, list_answered_rows
from logit_correction.shortcuts.audit_page import render_audit_page
from logit_correction.shortcuts.new_rows_table import NewRows
from logit_correction.shortcuts.rows import PARQUET
from logit_correction.shortcuts.selection import select_from_answers
from logit_correction.shortcuts.sheets import build_open_sheet, encode_open_row_pictures
from logit_correction.shortcuts.summaries import AuditSummary, Selection
from logit_correction.types import select_input_rows

#: The summary, as JSON and as a page.
AUDIT = "audit.json"
PAGE = "report.html"

#: The config of the training that is advised; none where a person has to answer something first.
FIX = "fix.yaml"

#: New rows with the predictions of all candidates and the answers; and pictures of those to label.
NEW_ROWS = "new_rows.parquet"
VALUES = "new_rows.npz"

#: The labelled new rows, from which the fix learns.
ANSWERS = "answers.npz"

PICTURES = "pictures.json"

#: Least number of rows for which an answer stands: one of a round that counts for nothing teaches next to nothing.
MIN_ANSWER_WEIGHT = 1e-3

#: Files with a checksum in the folder.
SEALED = (AUDIT, PARQUET, NEW_ROWS, VALUES, ANSWERS, PICTURES)

#: What a user can do about a damaged audit.
REMEDY = "run the audit again"


def write_selection(
    out_dir: Path,
    audit_dir: Path,
    summary: AuditSummary,
    selection: Selection,
    rows: NewRows,
) -> AuditSummary:
    """Select what to train, write the new rows and the config of what is advised, and return the summary.

    Args:
        out_dir: Folder to write to; its files will replace those of ``audit_dir``.
        audit_dir: The audit's folder.
        summary: Of the search, or the selection by earlier answers, with what the user said of views.
        selection: Of the candidates, by earlier answers or none.
        rows: With all answers.
    """
    rows.to_frame().to_parquet(out_dir / NEW_ROWS, index=False)
    if rows.logits is not None and not (audit_dir / VALUES).is_file():
        write_row_archive(out_dir / VALUES, rows.inputs, logits=rows.logits)
    selection = select_from_answers(rows, selection)
    answered_rows = list_answered_rows(rows, selection, summary.record.data.label_names)
    selection = replace(selection, answered_rows=answered_rows)
    (out_dir / FIX).unlink(missing_ok=True)  # that of the search
    if selection.chosen is not None:
        write_fix(out_dir, build_advised_config(selection, rows, out_dir, audit_dir))
    return replace(summary, cost={}, selection=selection)


def build_advised_config(selection: Selection, rows: NewRows, out_dir: Path, audit_dir: Path) -> RunConfig:
    """Return the config of what is advised: an average, whose labelled rows are written, or one candidate.

    Where ERM alone is advised, it is the only member of the average if there are answers to learn a correction from.

    Args:
        selection: By all answers.
        rows: With all answers.
        out_dir: Folder to write to; its files will replace those of ``audit_dir``.
        audit_dir: The folder that the config names.
    """
    learns = selection.learns_from_answers and bool(selection.answers)
    if selection.single or not (selection.members or learns):
        return RunConfig.from_dict((selection.correction or selection.candidates[0]).config)
    if not learns:
        return build_average_config(selection, None)
    _write_answers(out_dir / ANSWERS, rows, count_answers(selection))
    return build_average_config(selection, audit_dir.resolve() / ANSWERS)


def _write_answers(path: Path, rows: NewRows, counts: AnswerCounts | None) -> None:
    """Write the labelled rows, whose inputs are kept, from which a fix learns its correction."""
    assert rows.inputs is not None
    positions = np.flatnonzero(rows.label >= 0)
    weight = rows.answer_weights[positions].clip(MIN_ANSWER_WEIGHT)
    arrays = {"label": rows.label[positions], "weight": weight}
    if counts is not None:
        arrays["counts"] = np.array(astuple(counts)[:-1])  # what is learned from is advised
    write_row_archive(path, select_input_rows(rows.inputs, positions), **arrays)


def write_fix(out_dir: Path, config: RunConfig, comment: str = "") -> None:
    """Write the config of the training that is advised, which trains on all rows in the end.

    Args:
        out_dir: Folder to write to.
        config: Of the training.
        comment: Lines that head the file.
    """
    config = replace(config, training=replace(config.training, refit=True))
    write_text_file(out_dir / FIX, comment + config.to_yaml())


def build_average_config(selection: Selection, answers: Path | None) -> RunConfig:
    """Return the config of the average that is advised: that of ERM, with the members' methods and weights.

    Args:
        selection: Whose ``members`` are averaged; ERM alone where it has none.
        answers: File of the labelled new rows from which a correction is learned; None learns none.
    """
    erm = selection.candidates[0].config
    left_out = list(erm.get("leave_out") or [])
    weights = [result.weight or 0 for result in selection.members] or [1]
    members = [
        {
            "name": result.name,
            "weight": round(weight / sum(weights), 4),
            "method": result.config["method"],
            "leave_out": [view for view in result.config.get("leave_out") or [] if view not in left_out],
        }
        for result, weight in zip(selection.members or selection.candidates[:1], weights, strict=True)
    ]
    method: dict[str, Any] = {"name": "Average", "members": members}
    if answers is not None:
        method["answers"] = str(answers)
    return RunConfig.from_dict({**erm, "method": method})


def write_pictures(out_dir: Path, audit_dir: Path, rows: NewRows) -> None:
    """Keep pictures of rows of sheets, so that a page that is written later does not need their files.

    Args:
        out_dir: Folder to write to; its files will replace those of ``audit_dir``.
        audit_dir: The audit's folder, whose pictures of earlier sheets are kept.
        rows: All new rows; pictures are those of open rows that are image files.
    """
    pictures = {**read_pictures_by_row(out_dir, audit_dir), **encode_open_row_pictures(rows)}
    if pictures:
        run_folder.write_json(out_dir / PICTURES, pictures)


def write_summary(
    out_dir: Path, summary: AuditSummary, audit_dir: Path, is_trusted: bool, rows: NewRows | None
) -> None:
    """Write the page, ``audit.json`` and the checksums.

    Args:
        out_dir: Folder to write to; its files will replace those of ``audit_dir``.
        summary: Of the audit.
        audit_dir: The audit's folder.
        is_trusted: Mark the audit as trusted: all classes and paths that it names are this user's.
        rows: All new rows, of which the page shows those to label; None of an audit without new rows.
    """
    pictures = read_pictures_by_row(out_dir, audit_dir)
    sheet = None if rows is None else build_open_sheet(rows, pictures)
    page = render_audit_page(summary, audit_dir, sheet if sheet and sheet.rows else None, pictures)
    save_page(page, out_dir / PAGE)
    run_folder.write_json(out_dir / AUDIT, summary.to_dict())
    write_checksums(out_dir, SEALED, audit_dir)
    if not is_trusted:
        return
    with suppress(OSError):  # then the audit is as one from elsewhere
        mark = get_trust_marker_path(out_dir, audit_dir)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def read_pictures_by_row(out_dir: Path, audit_dir: Path) -> dict[str, str]:
    """Return row number -> picture of the rows of all sheets; empty where rows are not image files."""
    file = out_dir / PICTURES
    if not file.is_file():
        file = audit_dir / PICTURES
        if not file.is_file():
            return {}
        verify_checksum(file, REMEDY)
    pictures: dict[str, str] = from_json_values(dict[str, str], read_json_file(file, REMEDY), PICTURES)
    return pictures


def get_trust_marker_path(audit_dir: Path, config_dir: Path | None = None) -> Path:
    """Return the file in the cache that exists if a process of this user wrote what the audit in a folder names.

    Args:
        audit_dir: Of the audit.
        config_dir: Folder of the audit's config, if that is not in ``audit_dir``.
    """
    contents = []
    for name in (CHECKSUMS_FILE, FIX, run_folder.CONFIG):
        file = audit_dir / name
        if name == run_folder.CONFIG and config_dir is not None and not file.is_file():
            file = config_dir / name
        contents.append(file.read_bytes() if file.is_file() else b"")
    return get_cache_folder() / "audits" / compute_digest(contents)
