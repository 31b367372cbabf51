"""What an audit makes of its search: every row, the correction that is advised, its trial, and the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from logit_correction.atomic_files import write_text_file
from logit_correction.attributes.folds import predict_out_of_fold
from logit_correction.data.table import DataTable
from logit_correction.finding import BASELINE, Finding
from logit_correction.registry import ComponentConfig
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import PreparedRun, train_from_config
from logit_correction.runs.options import RunConfig, complete_part
from logit_correction.runs.write import describe_environment
from logit_correction.shortcuts.audit_files import write_fix
from logit_correction.shortcuts.auto import FOLDS, ROWS_PER_STEP, Auto
from logit_correction.shortcuts.conflicts import ConflictDescriber
from logit_correction.shortcuts.contrast import build_contrasts, describe_texts
from logit_correction.shortcuts.rows import (
    CSV,
    add_drawn_rows,
    add_predictions,
    build_rows_frame,
    compute_classifier_accuracies,
    select_shown_rows,
    summarize_groups,
    write_rows,
)
from logit_correction.shortcuts.summaries import (
    AuditedData,
    AuditedNetwork,
    AuditedRows,
    AuditRecord,
    AuditSummary,
    AuditTraining,
    describe_missing_rows,
    drop_uninformative_views,
    get_advised_views,
    get_doubtful_views,
)
from logit_correction.training.display import choose_display

#: Heads the config of a fix that takes its attributes from ``rows.csv``.
FIX_COMMENT = (
    "# Keeps the last epoch: rows.csv is of training rows, and `train --method LC` selects by validation rows.\n"
)


def write_search_results(
    out_dir: Path,
    audit_dir: Path,
    prepared_run: PreparedRun,
    examined_classifier: str | None,
    try_fix: bool,
    shows_progress: bool,
) -> AuditSummary:
    """Write the rows, the config and the fix of an audit after its search, and return the summary.

    Args:
        out_dir: Folder to write to; its files will be in ``audit_dir``.
        audit_dir: The audit's folder, which the fix names.
        prepared_run: The prepared run, after its search.
        examined_classifier: The run or the file of predictions that was given.
        try_fix: Train LC in folds where a correction is advised, unless a classifier was given.
        shows_progress: Whether to show progress.
    """
    config = prepared_run.config
    table = prepared_run.table
    estimator = prepared_run.algorithm.attributes
    assert isinstance(estimator, Auto) and estimator.search is not None and estimator.finding is not None
    search = estimator.search
    finding = drop_uninformative_views(estimator.finding)
    views = finding.views if examined_classifier else get_advised_views(finding)
    doubtful = None if views else search.get_candidate(get_doubtful_views(finding))
    frame = build_rows_frame(table, estimator, views, doubtful)
    write_text_file(out_dir / run_folder.CONFIG, replace(config, method=ComponentConfig("LC")).to_yaml())
    num_shortcuts = len(estimator.heads)
    if views:
        comment = "" if num_shortcuts > 1 else FIX_COMMENT
        fix = _build_fix(config, finding, views, num_shortcuts, audit_dir / CSV)
        write_fix(out_dir, fix, comment)
        if try_fix and not examined_classifier:
            write_rows(frame, out_dir)
            fix = _build_fix(config, finding, views, num_shortcuts, out_dir / CSV)
            probabilities = predict_corrected(fix, table, estimator, shows_progress)
            frame = add_predictions(frame, "fixed", search.held_out.rows, probabilities, table)
    elif examined_classifier is None and finding.verdict == "none found":
        write_fix(out_dir, replace(config, method=ComponentConfig(BASELINE)))
    has_rows_of_fix = bool(views) and num_shortcuts == 1
    write_rows(add_drawn_rows(frame, table, estimator, views) if has_rows_of_fix else frame, out_dir)
    shown_views = views or (doubtful.views if doubtful else ())
    record = _build_record(prepared_run, estimator, finding, frame, shown_views, examined_classifier)
    if has_rows_of_fix and "test" in table.drawn:
        record.labels_read["test"].append("label")
    cost = compute_classifier_accuracies(frame, finding.classifier, num_shortcuts)
    if examined_classifier is not None and describe_missing_rows(finding):
        cost = {}
    return AuditSummary(record, cost, examined_classifier)


def _build_fix(
    config: RunConfig, finding: Finding, views: Sequence[str], num_shortcuts: int, rows_file: Path
) -> RunConfig:
    """Return the training that corrects by the attributes of a file, or by several shortcuts that it cannot hold."""
    attributes: dict[str, Any] = {"name": "Given", "file": str(rows_file.resolve())}
    if num_shortcuts > 1:
        decider = "person" if finding.user_named else "search"
        attributes = {"name": "Auto", "shortcut": [*views], "decided_by": decider}
    return replace(config, method=ComponentConfig("LC", {"attributes": attributes}))


def predict_corrected(config: RunConfig, table: DataTable, estimator: Auto, shows_progress: bool) -> Tensor:
    """Predict the examined training rows by LC, (m, L) probabilities, each by a network that was not trained on it.

    LC trains on the same folds as the networks of the search, and as long.

    Args:
        config: Of LC.
        table: The data.
        estimator: After its search.
        shows_progress: Whether to show progress.
    """
    batch_size = ROWS_PER_STEP - ROWS_PER_STEP // FOLDS
    training = replace(config.training, selection="last", epochs=estimator.compute_epochs(), batch_size=batch_size)
    config = replace(config, method=complete_part("method", config.method), training=training)
    is_used = estimator.fold >= 0
    rows = table.split["train"][is_used]

    def fit_and_predict(learned: Tensor, left_out: Tensor, fold: int) -> Tensor:
        part = replace(table, split={**table.split, "train": rows[learned], "test": rows[left_out]})
        display = choose_display(shows_progress)
        display.show_message(f"what LC would bring: training {fold + 1} of {FOLDS}")
        with display:
            return train_from_config(config, part, display).predict("test").softmax(dim=1)

    return predict_out_of_fold(fit_and_predict, estimator.fold[is_used], len(table.label_names))


def _build_record(
    prepared_run: PreparedRun,
    estimator: Auto,
    finding: Finding,
    frame: pd.DataFrame,
    views: Sequence[str],
    examined_classifier: str | None,
) -> AuditRecord:
    config = prepared_run.config
    table = prepared_run.table
    label_names = tuple(table.label_names)
    train = frame[frame["split"] == "train"]
    source = table.metadata.get("source")
    device = torch.device(config.training.device.replace("auto", "cpu"))
    describes_conflicts = bool(views) and (table.texts is not None or bool(table.columns))  # images are a contrast
    return AuditRecord(
        finding=finding,
        groups=summarize_groups(frame, label_names),
        shown=select_shown_rows(frame),
        contrasts=build_contrasts(table, frame, views),
        words=describe_texts(table),
        rows=AuditedRows(CSV, len(train), int(train["conflicting"].eq(True).sum())),
        classifier=finding.classifier,
        data=AuditedData(  # without counts of groups, which would read attributes
            name=config.data.name,
            source=None if source is None else str(source),
            options=config.data.options,
            rows={split: len(rows) for split, rows in table.split.items()},
            label_names=label_names,
            warnings=tuple(table.notes),
        ),
        network=AuditedNetwork(config.network.name, config.network.options),
        training=AuditTraining(None if examined_classifier else estimator.compute_epochs(), config.training.seed),
        labels_read={"train": ["label"], "valid": ["label"], "test": []},
        environment=describe_environment(device),
        conflicts=ConflictDescriber(table).describe(train, views) if describes_conflicts else (),
    )
