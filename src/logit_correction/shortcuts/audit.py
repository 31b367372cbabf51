"""``audit``: is there a shortcut, does a classifier rely on it, and what should be trained for new rows?

A classifier that relies on a shortcut is accurate on data like its training data and fails elsewhere. No label of the
attribute, and no figure of the training data, can show that. An audit searches for features that might be a shortcut,
shows the rows that contradict them, and advises a training. With *new rows*, unlabelled rows that the model will be
used on, it selects among ERM and corrections by a few labels that people give (active model selection, see
``selection``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from logit_correction.atomic_files import (
    CHANGE_FOLDER,
    REMOVED_FILES,
    change_folder_atomically,
    check_new_folder,
    complete_interrupted_change,
    write_text_file,
)
from logit_correction.checksums import CHECKSUMS_FILE, verify_checksum
from logit_correction.data.cells import check_required_columns
from logit_correction.data.splits import NEW
from logit_correction.data.table_files import read_frame
from logit_correction.errors import InputError, check_range, warn_user
from logit_correction.formatting import NBSP, format_option, format_reason
from logit_correction.pages.answering import SHEET, LabelSheet
from logit_correction.registry import ComponentConfig, copy_without_download, forbid_untrusted_names, parse_name_list
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import launch_processes, prepare_run
from logit_correction.runs.inference import restore_num_threads
from logit_correction.runs.options import PATH_OPTIONS, RunConfig, build_config, complete_config, complete_part
from logit_correction.runs.row_inputs import read_row_archive
from logit_correction.runs.run import Run
from logit_correction.runs.train import train
from logit_correction.serialization import read_json_file, to_json_values
from logit_correction.shortcuts.audit_files import (
    ANSWERS,
    AUDIT,
    FIX,
    NEW_ROWS,
    PAGE,
    REMEDY,
    VALUES,
    get_trust_marker_path,
    read_pictures_by_row,
    write_pictures,
    write_selection,
    write_summary,
)
from logit_correction.shortcuts.audit_page import render_audit_card
from logit_correction.shortcuts.audit_search import write_search_results
from logit_correction.shortcuts.audit_text import (
    DEFAULT_SHEET_ROWS,
    describe_accuracy_change,
    describe_audit,
    explain_unused_answers,
)
from logit_correction.shortcuts.auto import Auto
from logit_correction.shortcuts.held_out import HeldOutPredictions, load_class_probabilities, predict_held_out
from logit_correction.shortcuts.new_rows import iterate_inputs, open_new_rows, predict_candidates, read_new_rows
from logit_correction.shortcuts.new_rows_sample import NewRowsSample
from logit_correction.shortcuts.new_rows_table import DISTANCE, PREDICTION, NewRows, rename_former_columns
from logit_correction.shortcuts.rows import PARQUET
from logit_correction.shortcuts.sheets import add_answers, build_open_sheet, has_unread_answers, sample_sheet
from logit_correction.shortcuts.summaries import AuditSummary, KnownViews, load_summary
from logit_correction.spreadsheets import write_spreadsheet_csv
from logit_correction.training.config import TrainingConfig
from logit_correction.training.display import choose_display


class Audit:
    """A finished audit.

    Attributes:
        path: Its folder.
        result: The summary.
        trust_code: Whether classes that it names are imported, and files that it names are read.

    Read back a finished one, look at what conflicts, and train a classifier that does not rely on the shortcut::

        result = Audit("audit")
        conflicts = result.rows[result.rows["conflicting"].eq(True)]
        fixed = result.fix("fixed")
    """

    def __init__(self, folder: Path | str, *, trust_code: bool = False) -> None:
        """Read the audit in ``folder``.

        Args:
            folder: That of a finished audit.
            trust_code: Import custom classes that it names; only for audits whose maker you trust. One that you wrote
                yourself, and that was not changed since, is trusted.

        Raises:
            InputError: The folder holds no audit, or a damaged one.
        """
        self.path = Path(folder)
        self._trusted = trust_code
        self._read_summary()

    @property
    def trust_code(self) -> bool:
        return self._trusted or get_trust_marker_path(self.path).is_file()

    def restrict_imports(self) -> AbstractContextManager[None]:
        """Import no code that the folder names, and ask nothing of the network, unless the audit is trusted."""
        return nullcontext() if self.trust_code else forbid_untrusted_names(self.path / AUDIT)

    def _read_summary(self) -> None:
        """Read the summary; wait for a process that is writing it, and finish what a stopped one began."""
        file = self.path / AUDIT
        if (self.path / run_folder.LOCK).exists() or (self.path / CHANGE_FOLDER).exists():
            with run_folder.lock_folder(self.path):
                complete_interrupted_change(self.path)
        if not file.is_file():
            raise InputError(
                f"{self.path} holds no finished audit: audit the data first, with it as {format_option('out')}"
            )
        values = read_json_file(file, REMEDY)
        if not (self.path / CHECKSUMS_FILE).is_file():  # without it a file that was changed by hand fails anywhere
            raise InputError(f"{self.path / CHECKSUMS_FILE} is missing, so {AUDIT} may have been changed: {REMEDY}")
        verify_checksum(file, REMEDY)
        try:
            self.result: AuditSummary = load_summary(values)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(f"{file} is of another version ({error}): {REMEDY}") from error

    @property
    def summary(self) -> dict[str, Any]:
        """Content of ``audit.json``."""
        return self.result.to_dict()

    @property
    def verdict(self) -> str:
        """``shortcut``, ``none found`` or ``cannot tell``; with new rows, whether a correction is better there."""
        return self.result.verdict

    @property
    def views(self) -> list[str]:
        """The views that are corrected by; empty without any."""
        return [*self.result.views]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every row that was examined; ``docs/audit.md`` describes the columns."""
        verify_checksum(self.path / PARQUET, REMEDY)
        return read_frame(self.path / PARQUET)

    @property
    def new_rows(self) -> pd.DataFrame:
        """Every new row, with the predictions of each candidate and the answers; ``docs/new-rows.md`` has the columns.

        Raises:
            InputError: The audit was made without new rows.
        """
        file = self.path / NEW_ROWS
        if self.result.selection is None or not file.is_file():
            raise InputError(f"{self.path} was made without new rows: audit again with {format_option('new_rows')}")
        verify_checksum(file, REMEDY)
        table = rename_former_columns(read_frame(file))
        numbers = range(len(self.result.selection.candidates))
        check_required_columns(
            table, str(file), [f"{kind}_{number}" for kind in (PREDICTION, DISTANCE) for number in numbers]
        )
        return table

    def ask(self, count: int = DEFAULT_SHEET_ROWS) -> pd.DataFrame:
        """Return the new rows whose labels say most about what to train; fill in their column ``answer``.

        The folder keeps them as ``sheet.csv``. Rows of earlier sheets that are still open count among them. A notebook
        shows a form that fills in the column and saves the sheet.

        Args:
            count: Number of rows.

        Raises:
            InputError: No further label can change what is trained, or the last sheet holds answers that were not read.
        """
        check_range("ask", count, 1)
        file = self.path / SHEET
        with self._lock_and_read_summary():
            rows = self._read_new_rows()
            if file.is_file() and has_unread_answers(rows, file):
                raise InputError(
                    f"{file} is filled in: read it first, by {format_option('answers', file)}, or delete it"
                )
            rows, sheet = sample_sheet(rows, count, self.result.record.training.seed)
            if sheet.empty:
                raise InputError(
                    "No further answer can change what is trained: all candidates agree on the rows without a label. "
                    f"Train what the audit advises, see {self.path / PAGE}"
                )
            self._write_selection_and_sheet(rows, sheet)
            open_sheet = build_open_sheet(rows, read_pictures_by_row(self.path, self.path))
        return LabelSheet.from_frame(sheet, open_sheet, self.result.record.data.label_names)

    def answer(
        self, sheet: pd.DataFrame | Path | str, single: bool | None = None, replace_answers: bool = False
    ) -> Audit:
        """Read a sheet whose column ``answer`` is filled in, at least in part, and return the audit.

        Args:
            sheet: The sheet, or its file.
            single: Advise one candidate, where its gain is clear, and no average of the likely ones. It is a little
                cheaper to train and easier to explain, and gains less after few answers. None keeps what the audit was
                asked for before.
            replace_answers: Replace earlier answers that the sheet contradicts; otherwise it is refused.

        Raises:
            InputError: The sheet is of another audit, has an answer that is not a label, or no answer, or contradicts
                earlier answers; or another process writes into the audit. Then nothing has changed.
        """
        with self._lock_and_read_summary():
            label_names = self.result.record.data.label_names
            rows = add_answers(self._read_new_rows(), sheet, label_names, replace_answers)
            self._write_selection_and_sheet(rows, single=single)
        return self

    @contextmanager
    def _lock_and_read_summary(self) -> Iterator[None]:
        """Lock the folder, and read what other processes have written since it was read."""
        if not (self.path / AUDIT).is_file():  # locking would make the folder
            self._read_summary()
        with run_folder.lock_folder(self.path):
            self._read_summary()
            try:
                yield
            except Exception as error:  # files from elsewhere may hold anything
                if self.trust_code or isinstance(error, InputError | OSError):
                    raise
                raise InputError(
                    f"{self.path} does not hold what an audit writes ({format_reason(error)}): {REMEDY}"
                ) from error

    def _read_new_rows(self) -> NewRows:
        """Return the new rows, with logits of the candidates and inputs of the networks where these are kept."""
        rows = NewRows.from_frame(self.new_rows)
        file = self.path / VALUES
        if not file.is_file():  # in an audit of an older version
            return rows
        verify_checksum(file, REMEDY)
        inputs, arrays = read_row_archive(file, {"logits": 1}, REMEDY)
        logits = arrays["logits"]
        if logits.shape[:2] != rows.predictions.shape:
            raise InputError(f"{file} has other rows than {self.path / NEW_ROWS}: {REMEDY}")
        return replace(rows, logits=logits, inputs=inputs)

    def _write_selection_and_sheet(
        self, rows: NewRows, sheet: pd.DataFrame | None = None, single: bool | None = None
    ) -> None:
        """Write the selection by all answers, and a new sheet: all files or none."""
        selection = self.result.selection
        assert selection is not None
        if single is not None:
            selection = replace(selection, single=single)
        with change_folder_atomically(self.path) as staged:
            result = write_selection(staged, self.path, self.result, selection, rows)
            if sheet is not None:
                write_spreadsheet_csv(sheet, staged / SHEET)
                if self.trust_code:  # a path from elsewhere is not followed
                    write_pictures(staged, self.path, rows)
            removed = [name for name in (FIX, ANSWERS) if not (staged / name).exists()]
            if removed:
                write_text_file(staged / REMOVED_FILES, "\n".join(removed))
            write_summary(staged, result, self.path, self.trust_code, rows)
        self.result = result

    @property
    def advised_config(self) -> RunConfig:
        """What to train: a correction, or ERM where none is advised."""
        if (self.path / FIX).is_file():
            return RunConfig.read(self.path / FIX)
        return replace(RunConfig.read(self.path / run_folder.CONFIG), method=ComponentConfig("ERM"))

    def check_options(self, config: RunConfig, names: Collection[str]) -> None:
        """Check that the options of a training that the audit is to choose for are those of the audit.

        Args:
            config: A complete config of the training.
            names: Of the options that the user gave, as ``flatten_options`` has them; others may differ.

        Raises:
            InputError: An option differs.
        """
        known_views = self.result.known_views
        audit_options = run_folder.flatten_options(RunConfig.read(self.path / run_folder.CONFIG))
        for name, value in to_json_values(known_views or {}).items():
            audit_options[f"method.attributes.{name}"] = value
        options = run_folder.flatten_options(config)
        parts = tuple(name.removesuffix("name") for name in names if name.endswith(".name") and name != "method.name")
        paths = [name for name in options if name.startswith(parts) and name.rpartition(".")[2] in PATH_OPTIONS]
        checked = {*names, *paths} & {*options} - {"method.name"}
        if known_views is None:  # of an older version
            checked = {name for name in checked if not name.startswith("method.")}
        for name in sorted(checked, key=lambda name: (not name.endswith(".name"), name)):
            if audit_options.get(name) != options[name]:
                option = name.removesuffix(".name").removeprefix("method.attributes.")
                raise InputError(
                    f"{format_option(option)} is {options[name]}, but the audit in {self.path} was made with "
                    f"{audit_options.get(name)}: leave it out, or audit again with {format_option('new_rows')}"
                )

    def build_training_config(self) -> RunConfig:
        """Return ``advised_config`` completed: a correction, or ERM where none is advised.

        Of an audit that is not trusted it has no answers, with a warning, and downloads nothing. Call it, and train,
        within ``restrict_imports``.
        """
        config = complete_config(self.advised_config)
        if self.trust_code:
            return config
        if config.method.options.get("answers"):  # a path from elsewhere is not followed
            warn_user(
                f"{explain_unused_answers(f'{self.path} is not trusted')}: if you know who made it, trust it by "
                f"{format_option('trust_code')}"
            )
            options = {name: value for name, value in config.method.options.items() if name != "answers"}
            config = replace(config, method=complete_part("method", ComponentConfig(config.method.name, options)))
        return replace(config, data=copy_without_download(config.data))

    def fix(self, out: Path | str | None = None, *, refit: bool = True, progress: bool = False) -> Run:
        """Train what the audit advises, and return the run: a correction, or ERM where it advises none.

        Args:
            out: Folder of the run, new or empty; None keeps the run for as long as the returned object lives.
            refit: In the end train anew on all rows, also on those that were drawn for validation and test.
            progress: Show progress as the command does.

        Raises:
            InputError: ``out`` holds something else.
        """
        with self.restrict_imports():
            config = self.build_training_config()
            if not refit:
                config = replace(config, training=replace(config.training, refit=False))
            return train(config, out, progress=progress)

    def __repr__(self) -> str:
        text = describe_audit(self.result)
        lines = [
            text.headline,
            *text.sentences,
            text.trial or describe_accuracy_change(self.result),
            *text.short,
            f"Audit({str(self.path)!r})",
        ]
        return "\n".join(filter(None, lines)).replace(NBSP, " ")

    def _repr_html_(self) -> str:
        return render_audit_card(self.result)


def audit(
    data: Any,
    out: Path | str | None = None,
    *,
    run: Path | str | None = None,
    predictions: Path | str | None = None,
    shortcut: str | Sequence[str] = (),
    legitimate: str | Sequence[str] = (),
    when_unsure: str | None = None,
    new_rows: Any = None,
    ask: int | None = None,
    single: bool = False,
    try_fix: bool = True,
    progress: bool = False,
    **options: Any,
) -> Audit:
    """Search data without group labels for a shortcut; with new rows, select what to train for them.

    Writes a page, every row and the figures. Reads no attribute label.

    Args:
        data: The data, as ``train`` takes them; of a whole ``RunConfig`` the shortcuts that it names count too.
        out: Folder to write, new or empty. None keeps the audit for as long as the returned object lives.
        run: Folder of a finished run on the same data, to examine on its validation rows. No network is trained then.
        predictions: CSV or Parquet file of a classifier's predictions on rows that it was not trained on, training rows
            or validation rows, with a column ``row``, ``line`` or ``path``, and ``probability_LABEL`` of each label.
        shortcut: Views that you know to be a shortcut; they are examined in any case.
        legitimate: Views that you know to be legitimate causes of the label.
        when_unsure: ``correct`` or, by default, ``leave``, where the verdict is ``cannot tell``; see ``Auto``.
        new_rows: Rows that the model will be used on, with labels or without: a data frame, an array, texts, a folder
            or a table. They decide between ERM and every correction. Rows whose split is ``new`` are such rows too.
        single: With labelled new rows, advise one candidate and no average of the likely ones.
        ask: Write a sheet of so many new rows to label; by default 20 if the new rows differ from the training data.
        try_fix: Where there is a shortcut, and neither new rows nor a classifier to examine were given, train LC in
            folds to see what it gains and costs; takes about two trainings.
        progress: Show progress as the command does.
        **options: Those of ``train``: of the data, such as ``label`` and ``text``; parts of a run, such as ``network``
            and ``encoder``; ``epochs``, ``seed`` and the like.

    Raises:
        InputError: Something given is wrong; nothing was trained.

    >>> result = audit({"name": "Digits", "minority_ratio": 0.05}, epochs=2, threads=1, try_fix=False)
    >>> result.verdict, result.summary["question"]["views"]  # whether that is an accident only a person knows
    ('cannot tell', ['colour'])
    """
    view_options = {
        "shortcut": parse_name_list(shortcut),
        "legitimate": parse_name_list(legitimate),
        "when_unsure": when_unsure,
    }
    folder, tie = run_folder.choose_folder(out, "audit")
    config = build_config(data, **options)
    check_range("ask", ask, 1)
    if isinstance(new_rows, str | Path):
        _check_new_rows_path(Path(new_rows), config)
    if run is not None and predictions is not None:
        raise InputError("run and predictions each say who answers as an ordinary classifier: give one")
    method = complete_part("method", ComponentConfig("LC", {"attributes": _collect_auto_options(config, view_options)}))
    config = replace(config, method=method, training=replace(config.training, refit=False))
    check_new_folder(folder, (run_folder.LOCK,))  # which an audit that was killed may have left
    display = choose_display(progress)
    examined = run or predictions
    with restore_num_threads():
        prepared_run = prepare_run(config, display, examined=None if run is None else Path(run))
        has_new_rows = new_rows is not None or bool(len(prepared_run.table.split.get(NEW, ())))
        if has_new_rows and examined is not None:
            raise InputError(
                "New rows choose what to train, but a given classifier is trained already: give one of the two"
            )
        if ask is not None and not has_new_rows:
            option = format_option("new_rows")
            raise InputError(f"{format_option('ask')} asks about new rows: give them by {option}, a folder or a table")
        opened = None if new_rows is None else open_new_rows(new_rows, prepared_run)
        described_rows, notes = read_new_rows(opened, prepared_run) if has_new_rows else (None, ())
        if has_new_rows and prepared_run.table.unit is not None:
            unit = config.data.options["split_by"]
            notes = (*notes, f"rows count as independent: with several of one {unit!r} a shift is found too often")
        estimator = prepared_run.algorithm.attributes
        assert isinstance(estimator, Auto)
        held_out = _predict_by_given_classifier(prepared_run.config.training, estimator, run, predictions)
        run_folder.make_folder(folder)
        started = time.monotonic()
        with _lock_new_folder(folder), change_folder_atomically(folder) as staged:
            with display:
                if held_out is None:
                    prepared_run.make_trainer(display).run(estimator_only=True)
                else:
                    estimator.search_for_shortcut(held_out)
            summary: AuditSummary = write_search_results(
                staged,
                folder,
                prepared_run,
                examined_classifier=None if examined is None else str(examined),
                try_fix=try_fix and not has_new_rows,
                shows_progress=progress,
            )
            rows = None
            if described_rows is not None:
                sample = NewRowsSample(prepared_run, len(described_rows))
                inputs = iterate_inputs(opened, prepared_run, sample.add_part)
                rows, selection = predict_candidates(prepared_run, described_rows, inputs, display)
                if ask is not None or (selection.changed and not selection.labelled):
                    rows, sheet = sample_sheet(rows, ask or DEFAULT_SHEET_ROWS, config.training.seed)
                    if len(sheet):
                        write_spreadsheet_csv(sheet, staged / SHEET)
                        write_pictures(staged, folder, rows)
                known_views = KnownViews(
                    shortcut=tuple(estimator.shortcut),
                    legitimate=tuple(estimator.legitimate),
                    when_unsure=estimator.when_unsure,
                )
                shifts = sample.compare_views()
                selection = replace(selection, single=single, view_shifts=shifts, notes=notes)
                summary = write_selection(staged, folder, replace(summary, known_views=known_views), selection, rows)
            summary = replace(summary, record=replace(summary.record, seconds=time.monotonic() - started))
            write_summary(staged, summary, folder, is_trusted=True, rows=rows)
    return tie(Audit(folder, trust_code=True))  # all that it names was imported here


@contextmanager
def _lock_new_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of a new audit, unless another process has meanwhile written one there."""
    with run_folder.lock_folder(folder):
        check_new_folder(folder, (run_folder.LOCK,))
        yield


def _check_new_rows_path(path: Path, config: RunConfig) -> None:
    """Raise ``InputError`` if new rows do not exist, or are the training data."""
    if not os.path.exists(path):
        raise InputError(f"{format_option('new_rows', path)} does not exist: give a folder or a table")
    for name in PATH_OPTIONS:
        data = str(config.data.options.get(name) or "")
        if os.path.exists(data) and os.path.samefile(path, data):
            raise InputError(
                f"{format_option('new_rows', path)} is the data themselves: give rows that the model will be used on"
            )


def _collect_auto_options(config: RunConfig, view_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``Auto``: those of a config whose estimator it is, then those of views."""
    attributes = config.method.options.get("attributes")
    options = attributes if isinstance(attributes, dict) and attributes.get("name") == "Auto" else {}
    view_options = {name: value for name, value in view_options.items() if value}
    return {**options, **view_options, "name": "Auto", "search": True}


def _predict_by_given_classifier(
    training: TrainingConfig, estimator: Auto, run: Path | str | None, predictions: Path | str | None
) -> HeldOutPredictions | None:
    """Return the predictions of the classifier that was given; None if none was."""
    if run is not None:
        device = launch_processes(training)
        return predict_held_out(str(run), estimator.info, estimator.rows, device)
    if predictions is not None:
        labels = estimator.info.label_names
        return load_class_probabilities(str(predictions), estimator.rows, labels, estimator.draw_search_folds)
    return None
