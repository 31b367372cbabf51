"""``audit`` for Python, the folder that it writes, and what a person's answers add to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from logit_correction.attributes.auto import FOLDS, Auto
from logit_correction.attributes.folds import held_out
from logit_correction.auditing import cost
from logit_correction.auditing.budget import answers_of_sheet, judge_by_person, sheet
from logit_correction.auditing.contrast import contrasts, spoken
from logit_correction.auditing.rows import CSV, PARQUET, rows_frame, shown_rows, with_fixed, write_rows
from logit_correction.config import ComponentConfig, RunConfig, listed
from logit_correction.data.frames import read_frame
from logit_correction.data.table import DataTable
from logit_correction.errors import NBSP, InputError, check_range
from logit_correction.files import SEAL, check_new, check_seal, read_json, seal, write_cells
from logit_correction.pages.page import audit_as_html, render_audit, save_page
from logit_correction.runs import folder as files
from logit_correction.runs.api import config_of, train
from logit_correction.runs.assemble import build_algorithm, keeping_threads
from logit_correction.runs.options import complete
from logit_correction.runs.run import Run
from logit_correction.runs.train import Built, prepare, training_rows
from logit_correction.runs.write import environment
from logit_correction.sentences import BIASED, advice, headline, of_price, of_trial, views_in
from logit_correction.training.display import choose_display

#: The files of an audit beside its rows.
AUDIT, SHEET, FIX, PAGE = "audit.json", "sheet.csv", "fix.yaml", "report.html"

#: What a person who compares the fix with `train --method LC` wonders about.
KEPT = "# Keeps the last epoch: rows.csv has no validation rows, by which `train --method LC` chooses one.\n"

#: What to do about a damaged audit.
AGAIN = "run the audit again"


class Audit:
    """A finished audit.

    Attributes:
        path: Its folder.
        summary: Content of ``audit.json``.

    Read back a finished one, look at what conflicts, and train a classifier that does not rely on the shortcut::

        found = Audit("audit")
        conflicts = found.rows[found.rows["conflicting"].eq(True)]
        fixed = found.fix("fixed")
    """

    def __init__(self, folder: Path | str) -> None:
        """Read the audit in ``folder``.

        Raises:
            InputError: If there is none, or it is damaged.
        """
        self.path = Path(folder)
        file = self.path / AUDIT
        if not file.is_file():
            raise InputError(f"{folder} holds no finished audit: run `logit-correction audit --data ... --out DIR`")
        self.summary: dict[str, Any] = read_json(file, AGAIN)
        if not (self.path / SEAL).is_file():  # without it a file that was changed by hand fails anywhere
            raise InputError(f"{self.path / SEAL} is missing, so {AUDIT} may have been changed: {AGAIN}")
        check_seal(file, AGAIN)

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
        check_seal(self.path / PARQUET, AGAIN)
        return read_frame(self.path / PARQUET)

    def fix(self, out: Path | str | None = None, *, progress: bool = False) -> Run:
        """Train LC on the same data by the attributes in ``rows.csv``, and return the run.

        Raises:
            InputError: The audit found no shortcut, or ``out`` holds something else.
        """
        if not (self.path / FIX).is_file():
            name_it = "if you know one, name it: audit(..., shortcut=VIEW)"
            raise InputError(f"The verdict is {self.verdict!r}, so there is nothing to fix; {name_it}")
        return train(RunConfig.read(self.path / FIX), out, progress=progress)

    def __repr__(self) -> str:
        tried = of_trial(self.summary) or of_price(self.summary["cost"])
        told = filter(None, [headline(self.summary), self.summary["sentence"], tried])
        return "\n".join([*told, f"Audit({str(self.path)!r})"]).replace(NBSP, " ")

    def _repr_html_(self) -> str:
        return audit_as_html(self.summary)


def audit(
    data: Any,
    out: Path | str | None = None,
    *,
    run: Path | str | None = None,
    predictions: Path | str | None = None,
    shortcut: str | Sequence[str] = (),
    legitimate: str | Sequence[str] = (),
    when_unsure: str | None = None,
    try_fix: bool = True,
    label_budget: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Audit:
    """Look for a shortcut in data without group labels, and write a page, every row and the figures. Read no attribute.

    Args:
        data: The data, as ``train`` takes them.
        out: Folder to write, new or empty. None keeps the audit for as long as the returned object lives.
        run: Folder of a finished run on the same data, to examine on its validation rows. No network is trained then.
        predictions: File of a classifier's predictions on rows that it was not trained on; see ``Auto``.
        shortcut: Views that you know to be a shortcut; they are examined whatever the search concludes.
        legitimate: Views that you know to be legitimate causes of the label.
        when_unsure: ``correct`` or ``leave``, where the verdict is ``cannot tell``; see ``Auto``.
        try_fix: Where there is a shortcut, and no classifier to examine was given, train LC in folds to see what it
            gains and costs; takes about two trainings.
        label_budget: Also write a sheet of so many rows, at least two of each stratum, whose attribute you then name.
        progress: Show progress as the command does.
        **options: Those of ``train``: of the data, such as ``label`` and ``text``; parts of a run, such as ``network``
            and ``encoder``; ``epochs``, ``seed`` and the like.

    Raises:
        InputError: Something given is wrong; nothing was trained.

    >>> found = audit({"name": "Digits", "minority_ratio": 0.05}, epochs=2, threads=1, try_fix=False)
    >>> found.verdict, found.views
    ('shortcut', ['colour'])
    """
    check_range("label_budget", 1 if label_budget is None else label_budget, 1)
    config = config_of(data, **options)
    auto: dict[str, Any] = {"name": "Auto", "run": run, "predictions": predictions}
    auto |= {"legitimate": listed(legitimate) or None, "when_unsure": when_unsure}
    config = complete(replace(config, method=ComponentConfig("LC", {"attributes": auto})))
    folder, tie = files.given_or_temporary(out, "audit")
    # What an audit that was killed has left may be written over.
    check_new(folder, (files.LOCK, files.RESUME, files.CONFIG, FIX, SHEET, PAGE, CSV, PARQUET, SEAL))
    display = choose_display(quiet=not progress)
    built = prepare(config, display)
    display.whole = 3 if try_fix else 2  # the search, and LC in folds
    estimator = built.algorithm.attributes
    assert isinstance(estimator, Auto)
    named = listed(shortcut)
    estimator.insist(named)
    files.make(folder)
    with files.acquire(folder), keeping_threads():
        started = time.monotonic()
        with display:
            built.fit(display).run(estimator_only=True)
        found = _written(folder, built, estimator, bool(named), try_fix, quiet=not progress)
        _write_audit(folder, found | {"seconds": time.monotonic() - started})
        if label_budget is not None:
            add_sheet(folder, label_budget)
    return tie(Audit(folder))


def _written(out: Path, built: Built, estimator: Auto, said: bool, try_fix: bool, quiet: bool) -> dict[str, Any]:
    """Write every row and the fix, try the fix, and return the content of ``audit.json``.

    ``said`` is whether a person said what the shortcut is: nobody is asked again.
    """
    config, table, evidence, looked = built.config, built.table, estimator.evidence, estimator.search
    assert evidence is not None and looked is not None
    views, who = evidence["views"], looked.judged.who
    examined, names = estimator.run or estimator.predictions, [str(name) for name in table.label_names]
    asked = None if said else cost.question(evidence)
    doubted = looked.candidates[0] if asked and not views else None
    about = shown = views or (doubted.views if doubted else [])
    if about == [BIASED]:  # which shows nothing: what it goes along with does
        shown = [name for one in evidence.get("along") or [] for name in views_in(one["view"])]
    frame = rows_frame(table, estimator, views, doubted)
    write_rows(frame, out)
    files.write_text(out / files.CONFIG, replace(config, method=ComponentConfig("LC")).to_yaml())
    several = len(estimator.kept) > 1  # shortcuts; rows.csv has one of them for each row, and the cost goes by rows.csv
    if views:
        given: dict[str, Any] = {"name": "Given", "file": str((out / CSV).resolve())}
        if several:
            given = {"name": "Auto", "shortcut": views}
        fix = replace(config, method=ComponentConfig("LC", {"attributes": given}))
        files.write_text(out / FIX, ("" if several else KEPT) + fix.to_yaml())
        if try_fix and examined is None and not several:
            frame = with_fixed(frame, table, answers_of_lc(fix, table, estimator, quiet))
            write_rows(frame, out)
    train = frame[frame["split"] == "train"]
    few = cost.too_few(evidence) if examined else ""  # then no figure is told
    would_change = "" if said or examined else f"{advice(evidence, asked['views'] if asked else [])}."
    return {
        "verdict": evidence["verdict"],
        "views": views,
        "sentence": few or evidence["sentence"],
        "leans": cost.leans(evidence),
        "would_change": would_change,
        "question": asked,
        "labels": cost.by_label(frame, about, names, who, evidence["verdict"]) if about and not few else [],
        "groups": cost.groups(frame, names),
        "cost": {} if few or several else cost.cost(frame, who),
        "shown": shown_rows(frame),
        "contrasts": contrasts(table, frame, shown) if about else [],
        "words": spoken(table),
        "evidence": evidence,
        "rows": {
            "file": CSV,
            "train": len(train),
            "conflicting": int(train["conflicting"].eq(True).sum()),
            "label_noise": int(train["label_noise"].eq(True).sum()) if "label_noise" in train else None,
        },
        "examined": examined,
        "classifier": who,
        "data": {  # without counts of groups, which would read attributes
            "name": config.data.name,
            "source": table.metadata.get("source"),
            "options": config.data.options,
            "rows": {split: len(rows) for split, rows in table.split.items()},
            "label_names": names,
            "warnings": list(table.notes),
        },
        "network": {"name": config.network.name, "options": config.network.options},
        "training": {"epochs": config.training.epochs, "seed": config.training.seed},
        "labels_read": {"train": ["label"], "valid": ["label"], "test": []},
        "labelled": None,
        "environment": environment(torch.device(config.training.device.replace("auto", "cpu"))),
    }


def answers_of_lc(config: RunConfig, table: DataTable, estimator: Auto, quiet: bool) -> Tensor:
    """Return what LC says of training rows that it was not trained on, (N, L); NaN of rows that were not judged.

    ``config`` is LC with the attributes of the audit's own file of rows. It trains on the same rows as the ordinary
    networks of the search, and as long.
    """
    epochs, size = estimator.length()
    training = replace(config.training, selection="last", also_select=[], epochs=epochs)
    training = replace(training, batch_size=size - size // FOLDS)
    config = complete(replace(config, training=training))
    seen, rows = (estimator.fold >= 0).nonzero().squeeze(1), table.split["train"]

    def fit(learned: Tensor, number: int) -> Callable[[Tensor], Tensor]:
        def answers(judged: Tensor) -> Tensor:
            part = replace(table, split={**table.split, "train": rows[seen[learned]], "test": rows[seen[judged]]})
            display = choose_display(quiet=quiet)
            display.say(f"what LC would bring: training {number + 1} of {FOLDS}")
            algorithm = build_algorithm(config, part.info)
            algorithm.setup(training_rows(part, algorithm, config.training.epochs or 0, None))
            loop = Built(config, part, algorithm).fit(display)
            with display:
                loop.run()
                return loop.predict("test").softmax(dim=1)

        return answers

    found = torch.full((len(rows), len(table.label_names)), torch.nan)
    found[seen] = held_out(fit, estimator.fold[seen], len(table.label_names))
    return found


def _write_audit(out: Path, found: Mapping[str, Any]) -> None:
    save_page(render_audit(found, out), out / PAGE)
    files.write_json(out / AUDIT, found)
    seal(out, (AUDIT, PARQUET))


def add_sheet(folder: Path, budget: int) -> None:
    """Write the sheet of rows that a person should look at, and the page; ``InputError`` if one is filled in."""
    found, file = Audit(folder), folder / SHEET
    if file.is_file() and len(answers_of_sheet(file)):
        raise InputError(f"{file} is filled in, at least in part: read it back by --labels, or move it away")
    rows = sheet(found.rows, found.summary["data"]["label_names"], budget, found.summary["training"]["seed"])
    write_cells(rows, file)
    _write_audit(folder, found.summary | {"label_budget": len(rows)})


def add_labels(folder: Path, file: Path) -> None:
    """Take in a sheet that a person has filled in; ``InputError`` if it is not the one that the audit wrote."""
    found = Audit(folder)
    names, seed = found.summary["data"]["label_names"], found.summary["training"]["seed"]
    labelled = judge_by_person(found.rows, file, names, seed, found.summary["classifier"])
    _write_audit(folder, found.summary | {"labelled": labelled})
