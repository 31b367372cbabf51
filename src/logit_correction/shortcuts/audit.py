"""``audit`` for Python, the folder that it writes, and what a person's answers add to it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from logit_correction.atomic_files import (
    CHANGE_FOLDER,
    REMOVED_FILES,
    change_folder_atomically,
    check_new_folder,
    finish_folder_change,
    write_text_file,
)
from logit_correction.attributes.folds import predict_out_of_fold
from logit_correction.checksums import CHECKSUMS_FILE, verify_checksum, write_checksums
from logit_correction.data.cache import compute_digest, get_cache_folder
from logit_correction.data.cells import check_columns
from logit_correction.data.splits import NEW
from logit_correction.data.table import DataTable
from logit_correction.data.table_files import read_frame
from logit_correction.errors import InputError, check_range
from logit_correction.finding import MIN_CONFLICTS_TO_CHECK
from logit_correction.finding_text import advise_user, describe_finding
from logit_correction.formatting import NBSP, format_option, format_reason
from logit_correction.pages.page import save_page
from logit_correction.registry import ComponentConfig, disable_download, forbid_untrusted_names, parse_names
from logit_correction.runs import folder as run_folder
from logit_correction.runs.assemble import PreparedRun, launch_processes, prepare_run
from logit_correction.runs.inference import keep_num_threads
from logit_correction.runs.options import (
    PATH_OPTIONS,
    VIEW_OPTIONS,
    RunConfig,
    build_config,
    complete_config,
    complete_part,
)
from logit_correction.runs.run import Run
from logit_correction.runs.train import train
from logit_correction.runs.write import describe_environment
from logit_correction.serialization import from_json_values, read_json_file
from logit_correction.shortcuts import new_rows as new_rows_of
from logit_correction.shortcuts import rows as rows_of
from logit_correction.shortcuts import words
from logit_correction.shortcuts.auto import FOLDS, Auto
from logit_correction.shortcuts.candidates import fit_config
from logit_correction.shortcuts.contrast import contrasts, spoken
from logit_correction.shortcuts.search import load_class_probabilities, predict_held_out
from logit_correction.shortcuts.words import AuditSummary
from logit_correction.spreadsheets import write_spreadsheet_csv
from logit_correction.training.display import choose_display

#: The files of an audit beside its rows.
AUDIT, SHEET, FIX, PAGE = "audit.json", "sheet.csv", "fix.yaml", "report.html"

#: What each candidate says of the new rows, and the answers; and how those look that people are asked about.
NEW_ROWS, PICTURES = "new_rows.parquet", "pictures.json"

#: Files with a checksum in the folder.
SEALED = (AUDIT, rows_of.PARQUET, NEW_ROWS, PICTURES)

#: Rows that a person is asked about if nobody says how many.
ASK = 20

#: What to do about a damaged audit.
AGAIN = "run the audit again"


class Audit:
    """A finished audit.

    Attributes:
        path: Its folder.
        told: What it found.
        trust_code: Whether what it names is imported, and files that it names by their paths are read.

    Read back a finished one, look at what conflicts, and train a classifier that does not rely on the shortcut::

        found = Audit("audit")
        conflicts = found.rows[found.rows["conflicting"].eq(True)]
        fixed = found.fix("fixed")
    """

    def __init__(self, folder: Path | str, *, trust_code: bool = False) -> None:
        """Read the audit in ``folder``.

        Args:
            folder: That of a finished audit.
            trust_code: Import custom classes that it names; only for audits whose maker you trust. One that you wrote
                yourself, and that nobody has changed, is trusted.

        Raises:
            InputError: If there is none, or it is damaged.
        """
        self.path = Path(folder)
        self._trusted = trust_code
        self._read()

    @property
    def trust_code(self) -> bool:
        return self._trusted or _mark(self.path).is_file()

    def restrict_imports(self) -> AbstractContextManager[None]:
        """Import no code that the folder names, and ask nothing of the network, unless the audit is trusted."""
        return nullcontext() if self.trust_code else forbid_untrusted_names(self.path / AUDIT)

    def _read(self) -> None:
        """Read what was found; wait for a process that is writing it, and finish what one that was stopped began."""
        file = self.path / AUDIT
        if (self.path / run_folder.LOCK).exists() or (self.path / CHANGE_FOLDER).exists():
            with run_folder.lock_folder(self.path):
                finish_folder_change(self.path)
        if not file.is_file():
            raise InputError(
                f"{self.path} holds no finished audit: audit the data first, with it as {format_option('out')}"
            )
        held = read_json_file(file, AGAIN)
        if not (self.path / CHECKSUMS_FILE).is_file():  # without it a file that was changed by hand fails anywhere
            raise InputError(f"{self.path / CHECKSUMS_FILE} is missing, so {AUDIT} may have been changed: {AGAIN}")
        verify_checksum(file, AGAIN)
        try:
            self.told: AuditSummary = from_json_values(AuditSummary, held)
        except (TypeError, ValueError) as error:
            raise InputError(f"{file} is of another version ({error}): {AGAIN}") from error

    @property
    def summary(self) -> dict[str, Any]:
        """Content of ``audit.json``."""
        return self.told.to_dict()

    @property
    def verdict(self) -> str:
        """``shortcut``, ``none found`` or ``cannot tell``."""
        return self.told.verdict

    @property
    def views(self) -> list[str]:
        """The views of the shortcut; empty without one."""
        return [*self.told.views]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every row that was looked at; see ``rows_frame``."""
        verify_checksum(self.path / rows_of.PARQUET, AGAIN)
        return read_frame(self.path / rows_of.PARQUET)

    @property
    def new_rows(self) -> pd.DataFrame:
        """Every new row: what each candidate says of it, and the answers; ``InputError`` of an audit without any."""
        if not (self.path / NEW_ROWS).is_file():
            raise InputError(f"{self.path} was made without new rows: audit again with {format_option('new_rows')}")
        verify_checksum(self.path / NEW_ROWS, AGAIN)
        table = read_frame(self.path / NEW_ROWS)
        numbers = range(len(self.told.new_rows.candidates) if self.told.new_rows else 0)
        check_columns(table, str(self.path / NEW_ROWS), [f"{what}_{i}" for what in ("says", "apart") for i in numbers])
        return table

    def ask(self, count: int = ASK) -> pd.DataFrame:
        """Return new rows whose labels tell most about what to train; fill in their column ``answer``.

        The folder keeps them as ``sheet.csv``. Rows of earlier sheets that are still open count among them.

        Raises:
            InputError: No row is left to ask about, or the last sheet holds answers that nobody has read.
        """
        check_range("ask", count, 1)
        file = self.path / SHEET
        with self._held():
            held = self.new_rows
            if file.is_file() and new_rows_of.has_unread_answers(held, file):
                raise InputError(
                    f"{file} is filled in: read it first, by {format_option('answers', file)}, or delete it"
                )
            table, sheet = new_rows_of.ask(held, count, self.told.training["seed"])
            if sheet.empty:
                raise InputError(
                    "No answer can tell more: all candidates agree on the rows without a label. Train what the audit "
                    f"advises, see {self.path / PAGE}"
                )
            self._conclude(table, sheet)
        return sheet

    def answer(self, sheet: pd.DataFrame | Path | str) -> Audit:
        """Take in a sheet whose column ``answer`` is filled in, at least in part, and return the audit.

        Raises:
            InputError: The sheet is that of another audit, names what is no label, or has no answer; or another process
                writes into the audit. Then nothing has changed.
        """
        with self._held():
            self._conclude(new_rows_of.add_answers(self.new_rows, sheet, self.told.data["label_names"]))
        return self

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other processes from the folder, and read what they have written since it was read."""
        if not (self.path / AUDIT).is_file():  # nor is a folder made
            self._read()
        with run_folder.lock_folder(self.path):
            self._read()
            try:
                yield
            except Exception as error:  # what somebody else has written may be anything
                if self.trust_code or isinstance(error, InputError | OSError):
                    raise
                told = f"{self.path} does not hold what an audit writes ({format_reason(error)}): {AGAIN}"
                raise InputError(told) from error

    def _conclude(self, table: pd.DataFrame, sheet: pd.DataFrame | None = None) -> None:
        """Write what all answers come to, and the sheet of a further round: all of it or nothing."""
        with change_folder_atomically(self.path) as staged:
            summary = _by_new_rows(self.told, table, staged)
            if sheet is not None:
                write_spreadsheet_csv(sheet, staged / SHEET)
                if self.trust_code:  # a path that somebody else wrote is not followed
                    _write_pictures(staged, table)
            if not (staged / FIX).exists():
                write_text_file(staged / REMOVED_FILES, FIX)
            _write_audit(staged, summary, self.path, own=self.trust_code)
        self.told = summary

    @property
    def advised(self) -> RunConfig:
        """What to train: a correction, or ERM where none is advised."""
        if (self.path / FIX).is_file():
            return RunConfig.read(self.path / FIX)
        return replace(RunConfig.read(self.path / run_folder.CONFIG), method=ComponentConfig("ERM"))

    def check_options(self, config: RunConfig, names: Collection[str]) -> None:
        """Raise ``InputError`` if one of these options of a complete config is not that of the audit.

        Args:
            config: Of a training that the audit is to choose for.
            names: Of the options that a person gave, as ``flatten_options`` has them; others may be anything.
        """
        there = run_folder.flatten_options(RunConfig.read(self.path / run_folder.CONFIG))
        here = run_folder.flatten_options(config)
        there |= {f"method.attributes.{name}": value for name, value in (self.told.known or {}).items()}
        parts = [name.removesuffix("name") for name in names if name.endswith(".name") and name != "method.name"]
        places = [name for name in here if name.startswith(tuple(parts)) and name.rpartition(".")[2] in PATH_OPTIONS]
        given = {*names, *places} & {*here} - {"method.name"}
        if self.told.known is None:  # of an older version
            given = {name for name in given if not name.startswith("method.")}
        for name in sorted(given, key=lambda name: (not name.endswith(".name"), name)):
            if there.get(name) != here[name]:
                option = name.removesuffix(".name").removeprefix("method.attributes.")
                raise InputError(
                    f"{format_option(option)} is {here[name]}, but the audit in {self.path} was made with "
                    f"{there.get(name)}: leave "
                    f"it out, or audit again with {format_option('new_rows')}"
                )

    def to_train(self) -> RunConfig:
        """Return the complete config of ``advised``; call it, and train, within ``names``."""
        config = complete_config(self.advised)
        return config if self.trust_code else replace(config, data=disable_download(config.data))

    def fix(self, out: Path | str | None = None, *, progress: bool = False) -> Run:
        """Train what the audit advises, and return the run: a correction, or ERM where it advises none.

        Raises:
            InputError: ``out`` holds something else.
        """
        with self.restrict_imports():
            return train(self.to_train(), out, progress=progress)

    def __repr__(self) -> str:
        told, tried = self.told, words.of_trial(self.told) or words.of_price(self.told)
        lines = words.of_new_rows(told.new_rows) if told.new_rows else [told.sentence, tried]
        lines = [one for one in (words.headline(told), *lines) if one]
        return "\n".join([*lines, f"Audit({str(self.path)!r})"]).replace(NBSP, " ")

    def _repr_html_(self) -> str:
        return words.audit_as_html(self.told)


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
    try_fix: bool = True,
    progress: bool = False,
    **options: Any,
) -> Audit:
    """Look for a shortcut in data without group labels, and write a page, every row and the figures. Read no attribute.

    Args:
        data: The data, as ``train`` takes them; of a whole ``RunConfig`` the shortcuts that it names count too.
        out: Folder to write, new or empty. None keeps the audit for as long as the returned object lives.
        run: Folder of a finished run on the same data, to examine on its validation rows. No network is trained then.
        predictions: CSV or Parquet file of a classifier's predictions on rows that it was not trained on, training rows
            or validation rows, with a column ``row``, ``line`` or ``path``, and ``probability_LABEL`` of each label.
        shortcut: Views that you know to be a shortcut; they are examined whatever the search concludes.
        legitimate: Views that you know to be legitimate causes of the label.
        when_unsure: ``correct`` or, by default, ``leave``, where the verdict is ``cannot tell``; see ``Auto``.
        new_rows: Rows that the model will be used on, with labels or without: a data frame, an array, texts, a folder
            or a table. They decide between ERM and every correction. Rows whose split is ``new`` are such rows too.
        ask: Write a sheet of so many new rows to label; by default 20 if the new rows differ from the training data.
        try_fix: Where there is a shortcut, and neither new rows nor a classifier to examine were given, train LC in
            folds to see what it gains and costs; takes about two trainings.
        progress: Show progress as the command does.
        **options: Those of ``train``: of the data, such as ``label`` and ``text``; parts of a run, such as ``network``
            and ``encoder``; ``epochs``, ``seed`` and the like.

    Raises:
        InputError: Something given is wrong; nothing was trained.

    >>> found = audit({"name": "Digits", "minority_ratio": 0.05}, epochs=2, threads=1, try_fix=False)
    >>> found.verdict, found.summary["question"]["views"]  # whether that is an accident only a person knows
    ('cannot tell', ['colour'])
    """
    known = {"shortcut": parse_names(shortcut), "legitimate": parse_names(legitimate), "when_unsure": when_unsure}
    folder, tie = run_folder.choose_folder(out, "audit")
    given: dict[str, Any] = {"known": known, "run": run, "predictions": predictions, "new_rows": new_rows, "ask": ask}
    return tie(audit_into(folder, build_config(data, **options), **given, try_fix=try_fix, progress=progress))


@keep_num_threads()
def audit_into(
    folder: Path,
    config: RunConfig,
    *,
    known: Mapping[str, Any] | None = None,
    run: Path | str | None = None,
    predictions: Path | str | None = None,
    new_rows: Any = None,
    ask: int | None = None,
    try_fix: bool = True,
    progress: bool = False,
) -> Audit:
    """Write the audit of the data of a config into a folder, new or empty; see ``audit``.

    ``known`` are options of ``Auto`` that count beside those of the config.
    """
    check_range("ask", 1 if ask is None else ask, 1)
    if isinstance(new_rows, str | Path):
        _check_new_rows(Path(new_rows), config)
    if run is not None and predictions is not None:
        raise InputError("run and predictions each say who answers as an ordinary classifier: give one")
    own = config.method.options.get("attributes")
    own = own if isinstance(own, dict) and own.get("name") == "Auto" else {}
    own = {**own, **{name: one for name, one in (known or {}).items() if one}, "name": "Auto", "search": True}
    config = replace(config, method=complete_part("method", ComponentConfig("LC", {"attributes": own})))
    check_new_folder(folder, (run_folder.LOCK,))  # which an audit that was killed may have left
    display = choose_display(quiet=not progress)
    built = prepare_run(config, display, examined=None if run is None else Path(run))
    decides = new_rows is not None or bool(len(built.table.split.get(NEW, ())))
    if decides and (run is not None or predictions is not None):
        raise InputError(
            "New rows choose what to train, but a given classifier is trained already: give one of the two"
        )
    if ask is not None and not decides:
        raise InputError(
            f"{format_option('ask')} asks about new rows: give them by {format_option('new_rows')}, a folder or a table"
        )
    rows_given = None if new_rows is None else new_rows_of.open_new_rows(new_rows, built)
    known_rows = new_rows_of.read_new_rows(rows_given, built) if decides else None
    estimator, said = built.algorithm.attributes, None
    assert isinstance(estimator, Auto)
    if run is not None:
        device = launch_processes(built.config.training)
        said = predict_held_out(str(run), estimator.info, estimator.rows, device)
    elif predictions is not None:
        said = load_class_probabilities(str(predictions), estimator.rows, estimator.info.label_names, estimator.draw)
    try_fix = try_fix and not decides
    run_folder.make_folder(folder)
    started = time.monotonic()
    with run_folder.lock_folder(folder), change_folder_atomically(folder) as staged:
        with display:
            if said is None:
                built.fit(display).run(estimator_only=True)
            else:
                estimator.examine(said)
        told = _written(staged, folder, built, run or predictions, try_fix, quiet=not progress)
        if known_rows is not None:
            inputs = new_rows_of.network_inputs(rows_given, built)
            table, new = new_rows_of.predict_candidates(built, known_rows, inputs, display)
            if ask is not None or (new.changed and not new.labelled):
                table, sheet = new_rows_of.ask(table, ask or ASK, config.training.seed)
                if len(sheet):
                    write_spreadsheet_csv(sheet, staged / SHEET)
                    _write_pictures(staged, table)
            known = {name: list(own.get(name) or ()) for name in VIEW_OPTIONS}
            known |= {"when_unsure": own.get("when_unsure") or "leave"}
            told = _by_new_rows(replace(told, cost={}, new_rows=new, known=known), table, staged)
        _write_audit(staged, replace(told, seconds=time.monotonic() - started), folder, own=True)
    return Audit(folder, trust_code=True)  # all that it names was imported here


def _check_new_rows(place: Path, config: RunConfig) -> None:
    """Raise ``InputError`` if new rows are not there, or are the data themselves; nothing is read."""
    if not os.path.exists(place):
        raise InputError(f"{format_option('new_rows', place)} does not exist: give a folder or a table")
    for name in PATH_OPTIONS:
        data = str(config.data.options.get(name) or "")
        if os.path.exists(data) and os.path.samefile(place, data):
            raise InputError(
                f"{format_option('new_rows', place)} is the data themselves: give rows that the model will be used on"
            )


def _by_new_rows(told: AuditSummary, table: pd.DataFrame, out: Path) -> AuditSummary:
    """Return the verdict by the table of new rows; write the table, and how the chosen correction is trained."""
    assert told.new_rows is not None
    table.to_parquet(out / NEW_ROWS, index=False)
    new = new_rows_of.select_from_answers(table, told.new_rows, told.training["seed"])
    (out / FIX).unlink(missing_ok=True)  # that of the search
    if new.correction is None:
        return replace(told, new_rows=new, verdict="none found" if new.chosen else "cannot tell", views=())
    write_text_file(out / FIX, RunConfig.from_dict(new.correction.config).to_yaml())
    return replace(told, new_rows=new, verdict="shortcut", views=new.correction.views)


def _written(
    out: Path, place: Path, built: PreparedRun, examined: Path | str | None, try_fix: bool, quiet: bool
) -> AuditSummary:
    """Write every row and the fix, try the fix, and return what was found; ``out`` will be ``place``."""
    config, table, estimator = built.config, built.table, built.algorithm.attributes
    assert isinstance(estimator, Auto)
    finding, looked = estimator.finding, estimator.search
    assert finding is not None and looked is not None
    if finding.is_uninformative and not finding.user_named:  # where one label is common, any view is right often
        finding = replace(finding, verdict="none found", views=())
    views, who, said = finding.views, finding.classifier, finding.user_named
    verdict: str = finding.verdict
    if not said and verdict == "shortcut":  # what the model of signs holds for one is an accident only to a person
        verdict = "cannot tell"
    names = [str(name) for name in table.label_names]
    if not (said or examined) and (
        finding.main_evidence is None or finding.main_evidence.rows < MIN_CONFLICTS_TO_CHECK
    ):
        views = ()  # on the evidence of so few rows nothing is advised
    asked = words.question(finding)
    doubted = looked.get_candidate(asked.views) if asked and not views else None
    shown = views or (doubted.weighed.views if doubted else ())
    frame = rows_of.rows_frame(table, estimator, views, doubted)
    rows_of.write_rows(frame, out)
    write_text_file(out / run_folder.CONFIG, replace(config, method=ComponentConfig("LC")).to_yaml())
    parts = len(estimator.kept)  # shortcuts; rows.csv has one of them for each row
    if views:

        def corrected(rows: Path) -> RunConfig:
            by: dict[str, Any] = {"name": "Given", "file": str(rows.resolve())}
            if parts > 1:
                by = {"name": "Auto", "shortcut": [*views], "decided_by": "person" if said else "search"}
            return replace(config, method=ComponentConfig("LC", {"attributes": by}))

        kept = "# Keeps the last epoch: rows.csv has no validation rows, by which `train --method LC` chooses one.\n"
        write_text_file(out / FIX, ("" if parts > 1 else kept) + corrected(place / rows_of.CSV).to_yaml())
        if try_fix and not examined:
            answers = predict_corrected(corrected(out / rows_of.CSV), table, estimator, quiet)
            frame = rows_of.with_answers(frame, "fixed", looked.judged.rows, answers, table)
            rows_of.write_rows(frame, out)
    train = frame[frame["split"] == "train"]
    few = words.too_few(finding) if examined else ""  # then no figure is told
    return AuditSummary(
        verdict=verdict,
        views=views,
        sentence=few or describe_finding(finding),
        leans=rows_of.relies_on_shortcut(finding),
        would_change="" if said or examined else f"{advise_user(finding, asked.views if asked else ())}.",
        question=asked,
        groups=rows_of.groups(frame, names),
        cost={} if few else rows_of.cost(frame, who, parts),
        shown=rows_of.shown_rows(frame),
        contrasts=contrasts(table, frame, shown) if shown else [],
        words=spoken(table),
        evidence=finding,
        rows={
            "file": rows_of.CSV,
            "train": len(train),
            "conflicting": int(train["conflicting"].eq(True).sum()),
        },
        examined=None if examined is None else str(examined),
        classifier=who,
        data={  # without counts of groups, which would read attributes
            "name": config.data.name,
            "source": table.metadata.get("source"),
            "options": config.data.options,
            "rows": {split: len(rows) for split, rows in table.split.items()},
            "label_names": names,
            "warnings": list(table.notes),
        },
        network={"name": config.network.name, "options": config.network.options},
        training={"epochs": None if examined else estimator.length()[0], "seed": config.training.seed},
        labels_read={"train": ["label"], "valid": ["label"], "test": []},
        environment=describe_environment(torch.device(config.training.device.replace("auto", "cpu"))),
    )


def predict_corrected(config: RunConfig, table: DataTable, estimator: Auto, quiet: bool) -> Tensor:
    """Return what LC says of the judged training rows, (m, L), each by a network that was not trained on it.

    It trains on the same rows as the ordinary networks of the search, and as long.
    """
    epochs, size = estimator.length()
    training = replace(config.training, selection="last", epochs=epochs, batch_size=size - size // FOLDS)
    config = replace(config, method=complete_part("method", config.method), training=training)
    seen, rows = (estimator.fold >= 0).nonzero().squeeze(1), table.split["train"]

    def fit(learned: Tensor, number: int) -> Callable[[Tensor], Tensor]:
        def answers(judged: Tensor) -> Tensor:
            part = replace(table, split={**table.split, "train": rows[seen[learned]], "test": rows[seen[judged]]})
            display = choose_display(quiet=quiet)
            display.show_message(f"what LC would bring: training {number + 1} of {FOLDS}")
            with display:
                return fit_config(config, part, display).predict("test").softmax(dim=1)

        return answers

    return predict_out_of_fold(fit, estimator.fold[seen], len(table.label_names))


def _write_pictures(out: Path, table: pd.DataFrame) -> None:
    """Keep pictures of the images that people are asked about: what comes later needs no file from elsewhere."""
    if pictures := new_rows_of.read_pictures(table):
        run_folder.write_json(out / PICTURES, pictures)


def _write_audit(out: Path, told: AuditSummary, place: Path, own: bool) -> None:
    """Write the page, ``audit.json`` and the checksums to ``out``, whose files will be in the folder ``place``.

    ``own`` says that all that they name was named or is trusted by the user.
    """
    asked: list[dict[str, Any]] = []
    if (out / NEW_ROWS).is_file():
        file = next((folder / PICTURES for folder in (out, place) if (folder / PICTURES).is_file()), None)
        if file == place / PICTURES:
            verify_checksum(file, AGAIN)
        pictures = {} if file is None else from_json_values(dict[str, str], read_json_file(file, AGAIN), PICTURES)
        asked = new_rows_of.open_rows(read_frame(out / NEW_ROWS), pictures)
    save_page(words.render_audit(told, place, asked), out / PAGE)
    run_folder.write_json(out / AUDIT, told.to_dict())
    write_checksums(out, SEALED, place)
    if not own:
        return
    with suppress(OSError):  # then the audit is as one from elsewhere
        mark = _mark(out, place)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def _mark(folder: Path, place: Path | None = None) -> Path:
    """Return the file whose presence says that a process of this user wrote what the audit in ``folder`` names.

    Without a file in ``folder``, the config is that of the folder ``place``.
    """
    contents = list[bytes]()
    for name in (CHECKSUMS_FILE, FIX, run_folder.CONFIG):
        file = folder / name
        if name == run_folder.CONFIG and place is not None and not file.is_file():
            file = place / name
        contents.append(file.read_bytes() if file.is_file() else b"")
    return get_cache_folder() / "audits" / compute_digest(contents)
